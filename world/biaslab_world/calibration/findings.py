"""What calibration and the embedded world show: tables in, findings out.

Functions take the tables that they name.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.ground.wording import interval, level, spoken
from biaslab.papers.findings import Finding, by_row, each, from_row
from biaslab_world.calibration.figures import KIND_NAMES, NAMES
from biaslab_world.calibration.measure import MATCHED, WORLD

# Gate and judge that have learnt from the renderer that they are tested on.
_EMBEDDED = ("mini-detector", "mini-clip")
# Renders of a gender that an occupation needs for its error to be told.
_LEAST_RENDERS = 30
_COUNTED = {
    "drawn": "Do intervals of the people drawn hold the true shares?",
    "judged": "Do intervals of what the judge says, its error left in, hold them?",
    "corrected": "Do intervals corrected for the judge's error hold them?",
}
_RULES = {
    "exclusion_distance": "leaving out flips (by distance)",
    "exclusion_direction": "leaving out flips (by direction)",
    "threshold": "counting only sure answers",
    "face_gate": "counting only one large face",
    "judge_error": "the judge in place of the truth",
}


def judge(table: pd.DataFrame, *, models: tuple[str, ...] = ()) -> list[Finding]:
    """Say how often the judge is right about held-out renders, beside an ideal judge (``calibration_judge``).

    ``models`` are gate and judge, to say of embedded ones what they have learnt from.
    """
    rows = table[(table["truth"] == "all") & (table["answers"] == "likelier") & (table["cues"] != "all")]
    learnt = " and ".join(name for name in models if name in _EMBEDDED)
    best = (
        f"{learnt} learnt from drawings of the same renderer with the same cues: this is the best case, and says "
        "nothing about other images."
    )
    return by_row(
        rows,
        "How often does the judge name people with {cues} cues rightly?",
        "In {accuracy:.1f} % of those that pass the gate; an ideal judge in {ceiling:.1f} %.",
        *("accuracy", "%", "n", "renders"),
        figure="calibration_judge",
        details=(best,) if learnt else (),
    )


def by_occupation(errors: pd.DataFrame) -> list[Finding]:
    """Say where the judge errs most (``calibration_judge_by_occupation``)."""
    some = errors[errors["measure"].isin(["sensitivity", "specificity"]) & (errors["occupation"] != "all")]
    some = some[some["n"] >= _LEAST_RENDERS].nsmallest(1, "value")
    return by_row(
        some.assign(who=np.where(some["measure"] == "sensitivity", "women", "men")),
        "Where does the judge err most?",
        "For {who} as {occupation}.",
        *("value", "%", "n", "renders"),
        figure="calibration_judge_by_occupation",
        details=(f"Of occupations with {_LEAST_RENDERS} renders or more of a gender.",),
    )


def inside(table: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many intervals (level ``confidence``) hold the true share, and where too few (``calibration_inside``)."""

    def what(row) -> str:
        off = " with all knobs off" if row.skew == "off" else ""
        return ("images of the world" if row.source == "generated" else _lower(NAMES[row.approach])) + off

    alpha = stats.significance(confidence)

    def say(counted: str, rows: pd.DataFrame) -> Finding:
        held, n = rows["inside"].sum(), rows["n"].sum()
        where = [
            f"{row.inside:.0f} of {row.n:.0f} for {what(row)} (p = {row.p_holm:.2g})"
            for row in rows[rows["p_holm"] < alpha].itertuples()
        ]
        counts = f"{held:.0f} of {n:.0f} {level(confidence)} intervals do,"
        return Finding(
            _COUNTED[counted],
            f"{counts} fewer than chance lets.",
            undecided=f"{counts} as chance lets.",
            p=float(rows["p_holm"].min()),
            alpha=alpha,
            estimate=100 * held / n,
            unit="%",
            n=float(n),
            of="intervals",
            figure="calibration_shares",
            details=(f"Fewer, after Holm's correction: {'; '.join(where)}.",) if where else (),
        )

    return each(table[table["n"] > 0], ["counted"], say)


def amplification(table: pd.DataFrame, *, model: str, confidence: float = 0.95) -> list[Finding]:
    """Say how much amplification there is without any model, and how much ``model`` adds to it.

    Of ``calibration_amplification``.
    """
    some = table[(table["definition"] == "published") & (table["prompt"] == "mean")]
    if some.empty:
        return []
    own = some["skew"].iloc[0]
    asked = {
        (WORLD, own, "naive"): "Without any model, is there naive amplification?",
        (WORLD, own, MATCHED): "And against captions that ask what the prompts ask?",
    }
    if model != WORLD:
        asked[model, own, "naive"] = "What does the model add to naive amplification?"
        asked[model, own, MATCHED] = "And against captions that ask the same?"
    if own != "off":
        asked[WORLD, "off", "naive"] = "Is anything left in the world with every knob off?"
    of_world = "Yes, it is above 0.", "It is below 0.", "No amplification is shown."
    planted = "Yes, as planted.", *of_world[1:]
    by, to = "It adds to what true shares imply.", "It takes away from what true shares imply."
    found = []
    for (generator, skew, approach), question in asked.items():
        rows = some[
            (some["generator"] == generator) & (some["skew"] == skew) & (some["approach"] == approach)
        ]
        # Of the model, and where true shares imply none, what is beyond them; else what is beyond the floor.
        excess = generator != WORLD or skew == "off"
        here = planted if approach == "naive" and not excess else of_world
        found += by_row(
            rows.assign(model=generator),
            question,
            here if generator == WORLD else (by, to, "No addition is shown."),
            *("excess" if excess else "amplification", "points", "n_occupations", "occupations"),
            limits=("excess_low", "excess_high") if excess else ("ci_low", "ci_high"),
            p="excess_p" if excess else "p",
            confidence=confidence,
            figure="calibration_amplification",
            details=(
                "The world's true shares imply {implied} points, which is planted; as measured it is "
                "{amplification_plain}, of which {floor} are the floor of few images.",
            ),
        )
    return found


def guidance(table: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say what measurement, model and guidance add at the highest guidance (``calibration_guidance``)."""
    scales = table["guidance_scale"]
    found = []
    for approach in [a for a in ("naive", MATCHED) if a in set(table["approach"])]:
        rows = table[(scales == scales.max()) & (table["approach"] == approach)].set_index("part")
        total, more = rows.loc["total"], rows.loc["guidance"]
        if not isfinite(total["change"]):
            continue
        found.append(
            from_row(
                total,
                f"What makes the change along the true lean, {_lower(NAMES[approach])}?",
                "Guidance adds to it." if more["change"] > 0 else "Guidance takes away from it.",
                *("change", "points", "n_occupations", "occupations"),
                undecided="No part of guidance is shown.",
                # Where there is but one guidance, nothing was added.
                p=float(np.nan_to_num(more["p"], nan=1.0)),
                alpha=stats.significance(confidence),
                model=str(total["generator"]),
                figure="calibration_guidance",
                details=(
                    f"At guidance {scales.max():g}: {spoken(rows.loc['measurement', 'change'])} points of measurement "
                    "(planted), "
                    f"{_points(rows.loc['model'])} of the model at guidance {scales.min():g}, {_points(more)} of "
                    "guidance.",
                ),
            )
        )
    return found


def contributions(table: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say which rules contribute more than chance to the naive score (``calibration_contributions``)."""

    alpha = stats.significance(confidence)

    def say(generator: str, rows: pd.DataFrame) -> Finding:
        rows = rows.assign(p_holm=stats.adjust(rows["p"].to_numpy()))
        known = rows[rows["p_holm"] < alpha]
        listed = [f"{_RULES[r['component']]}, {_points(r, 'contribution')}" for _, r in known.iterrows()]
        details = [f"{', '.join(listed).capitalize()} points."] if listed else []
        few_images = rows.loc[rows["component"] == "finite_samples", "contribution"]
        details += [
            f"Few images add {spoken(n)} points (estimated, without an interval)." for n in few_images
        ]
        return Finding(
            "Which rules of measurement contribute to naive amplification?",
            f"{len(known)} of {rows['p'].notna().sum()} rules beyond chance.",
            generator,
            undecided=f"None of {rows['p'].notna().sum()} rules is beyond chance.",
            p=float(np.nan_to_num(rows["p_holm"].min(), nan=1.0)),
            alpha=alpha,
            n=float(rows["n_occupations"].min()),
            of="occupations",
            figure="calibration_contributions",
            details=tuple(details),
        )

    return each(table[(table["approach"] == "naive") & table["contribution"].notna()], ["generator"], say)


def quality(table: pd.DataFrame) -> list[Finding]:
    """Say which requirements the embedded world and models meet (``mini_quality``)."""
    asked = table[table["reach"] != ""]
    words = {
        "yes, not certain": "Met, but the interval reaches beyond",
        "no, not certain": "Missed, but the interval reaches it",
        "no": "Missed",
        "": "Not measured",
    }
    named = asked.groupby("met")["metric"].agg(", ".join)
    details = [f"{what}: {named[met]}." for met, what in words.items() if met in named]
    return [
        Finding(
            "Do the embedded world and models reach what they must?",
            f"{(asked['met'] == 'yes').sum()} of {len(asked)} requirements are met with their whole interval.",
            details=tuple(details),
        )
    ]


# -- the world -------------------------------------------------------------------------------------------------------


def conditional(table: pd.DataFrame) -> list[Finding]:
    """Say how large the paradox is in each world, by algebra (``world_conditional``)."""
    kind = "prompt-like, no indicator"
    gain = table[table["captions"] == kind].set_index("skew")["lean_gain"]
    return [
        Finding(
            "How much naive amplification does a generator without any bias show here?",
            f"{spoken(gain['default'])} points: {KIND_NAMES[kind]}, captions lean further than all captions do.",
            figure="world_conditional",
            details=(
                f"Naming alone gives {spoken(gain['naming'])} points, skewed prompt-like captions alone "
                f"{spoken(gain['prompts'])}; with every knob off it is {spoken(abs(gain['off']))}.",
                "The sizes were set from what the paradox paper prints (Table 3, and 59.5 % of captions with an "
                "indicator): that runs on this world find them again is no replication.",
            ),
        )
    ]


def ceiling(table: pd.DataFrame) -> list[Finding]:
    """Say how well an ideal judge can do (``world_ceiling``)."""
    row = table.set_index("sure").loc["0.99"]
    return [
        Finding(
            "How well can an ideal judge of the cues do?",
            f"It names {row['accuracy']:.2f} % of people rightly.",
            figure="world_ambiguity",
            details=(
                f"{row['percent_ambiguous']:.1f} % of people are ambiguous (no gender is 99 % likely); of the others "
                f"it names {row['accuracy_unambiguous']:.2f} %.",
            ),
        )
    ]


# -- how things are said ---------------------------------------------------------------------------------------------


def _points(row: pd.Series, value: str = "change") -> str:
    there = isfinite(row["ci_low"] + row["ci_high"])
    return f"{spoken(row[value])} ({interval(row)})" if there else spoken(row[value])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
