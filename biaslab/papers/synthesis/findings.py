"""What the specification curve and models side by side show: tables in, findings out.

Functions take the tables that they name.
"""

from __future__ import annotations

import pandas as pd

from biaslab import stats
from biaslab.ground.wording import count, interval, none_could, spoken
from biaslab.papers.findings import Finding, each


def curve(table: pd.DataFrame) -> list[Finding]:
    """Say how far the result reaches, and where its interval lies above 0 (``synthesis_specification_curve``)."""
    along = (table["measure"] == "directional") & (table["exclusion"] != "same_lean")
    above, value = table["ci_low"] > 0, table["estimate"]
    least, most = table.loc[value.idxmin()], table.loc[value.idxmax()]
    sides = [f"{(above & some).sum()} of {some.sum()}" for some in (~along, along)]
    return [
        Finding(
            "Does amplification depend on how the same shares are analysed?",
            f"{len(table)} analyses give {spoken(value.min())} to {spoken(value.max())} points.",
            figure="synthesis_specification_curve",
            details=(
                f"The interval lies above 0 in {sides[0]} analyses that measure distance from 50 or drop flips, and in "
                f"{sides[1]} along the training lean.",
                f"Smallest: {_named(least)}. Largest: {_named(most)}.",
            ),
        )
    ]


def _named(row: pd.Series) -> str:
    rule = {"same_lean": "same-lean occupations", "certain_lean": "occupations with a certain lean"}
    who = rule.get(row["exclusion"], "all occupations")
    how = "along the training lean" if row["measure"] == "directional" else "distance from 50"
    prompt = "mean of prompts" if row["prompt"] == "mean" else f"prompt {row['prompt']}"
    which = f"{row['model']}, {prompt}, {who}, {how}, n = {row['n_occupations']:.0f} occupations"
    return f"{spoken(row['estimate'])} points ({interval(row)}; {which})"


def choices(effects: pd.DataFrame) -> list[Finding]:
    """Say which choices move the result most (``synthesis_choice_effect``)."""
    ranges = effects.drop_duplicates("choice").set_index("choice")["range"]
    others = ", ".join(f"{name} ({spoken(size)})" for name, size in ranges[1:].items())
    return [
        Finding(
            "Which choice of analysis matters most?",
            f"The {name}: its options differ by {spoken(size)} points on average.",
            figure="synthesis_choice_effects",
            details=(f"Others: {others}.",),
        )
        for name, size in ranges[:1].items()
    ]


def interaction(grid: pd.DataFrame) -> list[Finding]:
    """Say what the exclusion rule does under each measure (``synthesis_exclusion_by_measure``)."""
    value = grid.pivot(index="measure", columns="exclusion", values="estimate")
    moves = {r.Index: f"by {spoken(r.same_lean - r.none)} points" for r in value.itertuples()}
    return [
        Finding(
            "What does leaving out occupations whose lean flips do?",
            f"Along the training lean it moves the mean {moves['directional']}.",
            figure="synthesis_choice_effects",
            details=(
                f"Measured as distance from 50: {moves['distance']} (means over models, prompts, corrections).",
            ),
        )
    ]


def model_differences(table: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say of each two models in how many measures they differ, and in which (``synthesis_model_differences``).

    A measure counts where its p, adjusted over its pairs of models and then over the measures, is below the level.
    """
    alpha = stats.significance(confidence)

    def say(first: str, second: str, rows: pd.DataFrame) -> Finding:
        rows = rows.assign(p=stats.adjust(rows["p_holm"].to_numpy()))
        tested = rows[rows["p"].notna()]
        clear = tested[tested["p"] < alpha]
        named = [f"{row.measure}: {spoken(row.difference)} {row.unit}" for row in clear.itertuples()]
        details = [f"{first} less {second}: {'; '.join(named)}."] if named else []
        untested = rows[rows["p"].isna()]
        details += [
            f"Cannot be told: {'; '.join(of['measure'])} ({reason})."
            for reason, of in untested.groupby("reason", sort=False)
        ]
        undecided = f"No difference is shown in {count(len(tested), 'measure', 'measures')}."
        if tested.empty:
            undecided = "Cannot be told: too few units in every measure."
        least = stats.adjust(tested["least"].to_numpy())
        if len(tested) and not (least < alpha).any():
            why = none_could(f"{tested['n'].max():.0f} units", least.min(), alpha)
            undecided, details = "Cannot be told: no outcome could be significant.", [f"{why}.", *details]
        return Finding(
            "In how many measures do models differ?",
            f"In {len(clear)} of {len(tested)}, after Holm's adjustment." if len(clear) else undecided,
            f"{first} and {second}",
            n=float(rows["n"].max()),
            of="units",
            figure="synthesis_model_differences",
            details=tuple(details),
            undecided=undecided,
            p=float(tested["p"].min()),
            alpha=alpha,
        )

    # The least p after the adjustment over a measure's pairs, were all of them at their least.
    tested = table["smallest_possible_p"].where(table["p"].notna())
    by = tested.groupby([table["measure"], table["kind"]], sort=False)
    table = table.assign(least=by.transform(lambda p: stats.adjust(p.to_numpy())))
    return each(table, ["model_a", "model_b"], say)
