"""What a user's own ratings show: amplification, agreement, and what rests on the way ratings are resolved."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.findings import Finding, count, each, interval, level, spoken
from biaslab.measures.amplification import DEFINITIONS
from biaslab.papers.paradox.analysis import wilson_percent
from biaslab.papers.ratings.analysis import LABEL_SETS
from biaslab.ratings import SOURCES, UNNAMED, Rated

_NAMES = {
    "published": "by the published definition",
    "no_exclusion": "without exclusion",
    "directional": "along the training lean",
}


def contents(rated: Rated, *, file: str) -> list[Finding]:
    """Say what a file holds: images, occupations and raters.

    Args:
        rated: The ratings.
        file: The file's name.
    """
    rows = rated.outcomes if rated.ratings is None else rated.images
    occupations = _counted(rows["occupation"].nunique(), "occupation")
    models = [m for m in sorted(set(rated.outcomes["model"])) if m != UNNAMED]
    details = [f"Models: {', '.join(models)}."] if models else []
    if rated.ratings is None:
        # Training shares without a model are listed for every model, and count once.
        decided = rated.notes.set_index("item")["n"]["images decided female or male"]
        n = rated.outcomes["n"].sum() if rated.part else decided
        answer = f"Shares of {occupations} from {_counted(n, 'image')}."
    else:
        n_raters = int(rated.ratings.notna().any().sum()) if rated.raters else rated.n_raters
        sources = ", ".join(f"{(rated.images['source'] == source).sum():,} {source}" for source in SOURCES)
        details.insert(0, f"Images: {sources}.")
        images = _counted(len(rated.images), "image")
        answer = f"{images} of {occupations}, rated by {_counted(n_raters, 'rater')}."
    return [Finding(f"What does {file} hold?", answer, details=tuple(details))]


def _counted(n: float, what: str) -> str:
    return count(n, what, f"{what}s")


def undecided(rated: Rated, *, confidence: float) -> list[Finding]:
    """Say how many images of each source were left without a label female or male.

    Args:
        rated: The ratings.
        confidence: Level of the Wilson intervals, 0–1.
    """
    if rated.ratings is None:
        return []
    left = ~rated.images["label"].isin(["female", "male"])
    found = []
    for source, of_source in left.groupby(rated.images["source"], observed=True):
        low, high = (
            float(limit[0]) for limit in wilson_percent([of_source.sum()], [len(of_source)], confidence)
        )
        found.append(
            Finding(
                "How many images came out neither female nor male?",
                f"{100 * of_source.mean():.1f} % of {source} images (tie, unsure or unrated).",
                estimate=100 * of_source.mean(),
                ci_low=low,
                ci_high=high,
                unit="%",
                n=len(of_source),
                of="images",
                figure="ratings_outcomes",
            )
        )
    return found


def amplification(table: pd.DataFrame, outcomes: pd.DataFrame) -> list[Finding]:
    """Say whether generated images amplify the imbalance, by all three definitions.

    Args:
        table: The table ``paradox_amplification``.
        outcomes: The table ``ratings_outcomes``.
    """
    question = "Do generated images amplify the imbalance of the training images?"

    def say(model: str, decided: pd.DataFrame) -> Finding:
        rows = table[table["model"] == model]
        named = "" if model == UNNAMED else model
        if rows.empty:
            return Finding(
                question, "It cannot be computed.", model=named, details=(f"{_why_none(decided)}.",)
            )
        rows = rows[rows["prompt"] == ("mean" if "mean" in set(rows["prompt"]) else rows["prompt"].iloc[0])]
        rows = rows.set_index("definition").loc[list(DEFINITIONS)]
        values = [f"{spoken(r['amplification'])} points {_NAMES[d]} ({interval(r)}; {_occupations(r)})"
                  for d, r in rows.iterrows() if np.isfinite(r["amplification"])]  # fmt: skip
        details = [f"{'; '.join(values)}."] if values else []
        first = rows.loc["directional"]
        return Finding(
            question,
            _verdict(rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float)),
            model=named,
            estimate=float(first["amplification"]),
            ci_low=float(first["ci_low"]),
            ci_high=float(first["ci_high"]),
            unit="points along the training lean",
            n=float(first["n_occupations"]),
            of="occupations",
            figure="ratings_amplification",
            details=(*details, *_reasons(rows), f"{_counted(decided['n'].sum(), 'decided image')}."),
        )

    return each(outcomes, ["model"], say) if len(table) else []


def _why_none(outcomes: pd.DataFrame) -> str:
    if set(outcomes["source"]) != set(SOURCES):
        return "The file has not both training and generated images"
    n = outcomes.groupby("source")["n_images"].sum()
    images = " and ".join(_counted(n[source], f"{source} image") for source in SOURCES)
    return f"None of {images} was decided female or male"


def _verdict(low: np.ndarray, high: np.ndarray) -> str:
    """Return what the intervals that there are say together."""
    known = ~np.isnan(low)
    signs = {int(sign) for sign in (low[known] > 0).astype(int) - (high[known] < 0)}
    by = "by all three definitions" if known.all() else "by each definition that has an interval"
    if not signs:
        return "It cannot be judged: there is no interval."
    if signs == {1}:
        return f"Yes, {by}."
    if signs == {-1}:
        return f"They reduce it {by}."
    return (
        "No amplification is shown by any definition." if signs == {0} else "That depends on the definition."
    )


def _occupations(row: pd.Series) -> str:
    counted, left_out = int(row["n_occupations"]), int(row["n_excluded"])
    return f"{counted} of {counted + left_out} occupations"


def _reasons(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return why intervals are missing."""
    return tuple(r for r in dict.fromkeys(rows.loc[rows["ci_low"].isna(), "reason"]) if r)


def agreement(table: pd.DataFrame) -> list[Finding]:
    """Say how far raters agree.

    Args:
        table: The table ``ratings_agreement``.
    """
    rows = table.set_index(["statistic", "labels"])
    found = []
    for labels in LABEL_SETS:
        row = rows.loc[("krippendorff_alpha", labels)]
        if not np.isfinite(row["value"]):
            continue
        aside = (
            "with unsure as a label" if labels == "female/male/unsure" else "with unsure ratings set aside"
        )
        # Of a part of a file with very many raters it is not known how many have rated it.
        who = f" of {row['n_raters']:.0f} raters" if np.isfinite(row["n_raters"]) else ""
        found.append(
            Finding(
                "How far do raters agree?",
                f"Krippendorff's alpha{who} is {row['value']:.2f} {aside}.",
                estimate=float(row["value"]),
                ci_low=float(row["ci_low"]),
                ci_high=float(row["ci_high"]),
                n=float(row["n_items"]),
                of="images",
                figure="ratings_agreement",
                details=(f"{row['reason'][:1].upper()}{row['reason'][1:]}.",) if row["reason"] else (),
            )
        )
    return found


def sensitivity(table: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how far the ways to resolve ratings move the amplification.

    Args:
        table: The table ``ratings_sensitivity``.
        confidence: Level of its intervals, 0–1.
    """

    def say(model: str, rows: pd.DataFrame) -> Finding:
        rules = rows[rows["kind"] == "rule"]
        clear, known = (rules["ci_low"] > 0) | (rules["ci_high"] < 0), rules["ci_low"].notna()
        details = [
            f"{what}: {_ranges(rows[rows['kind'] == kind])}."
            for kind, what in (
                ("rule", "By rule"),
                ("rater", "One rater alone"),
                ("extreme", "All undecided alike"),
            )
            if (rows["kind"] == kind).any()
        ]
        answer = "It cannot be judged: no rule has an interval."
        if known.any():
            answer = f"{clear.sum()} of {known.sum()} {level(confidence)} intervals over the rules exclude 0."
        return Finding(
            "Does the result rest on how ratings are resolved?",
            answer,
            model="" if model == UNNAMED else model,
            n=rules["rule"].nunique(),
            of="rules",
            figure="ratings_sensitivity",
            details=(*details, *_reasons(rules)),
        )

    return each(table, ["model"], say)


def _ranges(rows: pd.DataFrame) -> str:
    parts = []
    for name, some in rows.groupby("definition", sort=False):
        low, high = some["amplification"].min(), some["amplification"].max()
        if np.isfinite(low):
            parts.append(f"{spoken(low)} to {spoken(high)} points {_NAMES[name]}")
    return ", ".join(parts) or "without a value"
