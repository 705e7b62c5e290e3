"""What a user's own ratings show: amplification, agreement, and what rests on the way ratings are resolved.

``rated`` is what :func:`biaslab.ratings.readers.read` gives, ``confidence`` the level of intervals (0–1); frames are
rows of the tables named.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.ground.wording import count, interval, spoken
from biaslab.measures.amplification import DEFINITIONS
from biaslab.papers.findings import Finding, by_row, each, from_row
from biaslab.papers.paradox.analysis.groups import percents
from biaslab.papers.paradox.findings import weighed
from biaslab.papers.ratings.analysis import LABEL_SETS
from biaslab.ratings.readers import SOURCES, UNNAMED, Rated

_NAMES = {
    "published": "by the published definition",
    "no_exclusion": "without exclusion",
    "directional": "along the training lean",
}


def contents(rated: Rated, *, file: str) -> list[Finding]:
    """Say what the file of this name holds: images, occupations and raters."""
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
    """Say how many images of each source were left without a label female or male."""
    if rated.ratings is None:
        return []
    images = rated.images.assign(left=~rated.images["label"].isin(["female", "male"]))
    by = images.groupby("source", observed=True)["left"].agg(["sum", "size"]).reset_index()
    return by_row(
        by.assign(**percents(by["sum"], by["size"], confidence)),
        "How many images came out neither female nor male?",
        "{percent:.1f} % of {source} images (tie, unsure or unrated).",
        *("percent", "%", "size", "images"),
        figure="ratings_outcomes",
    )


def amplification(table: pd.DataFrame, outcomes: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say whether generated images amplify the imbalance, by all three definitions.

    From ``paradox_amplification`` and ``ratings_outcomes``.
    """
    question = "Do generated images amplify the imbalance of the training images?"

    def say(model: str, decided: pd.DataFrame) -> Finding:
        rows = table[table["model"] == model]
        model = "" if model == UNNAMED else model
        if rows.empty:
            return Finding(question, "It cannot be computed.", model, details=(f"{_why_none(decided)}.",))
        rows = rows[rows["prompt"] == ("mean" if "mean" in set(rows["prompt"]) else rows["prompt"].iloc[0])]
        rows = weighed(rows).set_index("definition").loc[list(DEFINITIONS)]
        rows["total"] = rows["n_occupations"] + rows["n_excluded"]
        values = [
            f"{spoken(row['amplification'])} points {_NAMES[definition]} ({interval(row)}; {row['n_occupations']:.0f} "
            f"of {row['total']:.0f} occupations)"
            for definition, row in rows.dropna(subset="amplification").iterrows()
        ]
        details = [f"{'; '.join(values)}."] if values else []
        details += [
            f"{_NAMES[definition].capitalize()}: {both}" for definition, both in rows["both"].items() if both
        ]
        answer, undecided, p = _verdict(rows, confidence)
        return from_row(
            rows.loc["directional"],
            question,
            answer,
            *("amplification", "points along the training lean", "n_occupations", "occupations"),
            model=model,
            figure="ratings_amplification",
            details=(*details, *_reasons(rows), f"{_counted(decided['n'].sum(), 'decided image')}."),
            undecided=undecided,
            p=p,
            alpha=stats.significance(confidence),
        )

    return each(outcomes, ["model"], say) if len(table) else []


def _why_none(outcomes: pd.DataFrame) -> str:
    if set(outcomes["source"]) != set(SOURCES):
        return "The file has not both training and generated images"
    n = outcomes.groupby("source")["n_images"].sum()
    images = " and ".join(_counted(n[source], f"{source} image") for source in SOURCES)
    return f"None of {images} was decided female or male"


def _verdict(rows: pd.DataFrame, confidence: float) -> tuple[str, str, float]:
    """Return what the definitions say together, the answer where that is not told, and the p of what is said."""
    known = rows[rows["p_told"].notna()]
    if known.empty:
        return (unknown := "It cannot be judged: there is no interval."), unknown, np.nan
    undecided = "No amplification is shown by any definition."
    by = "by all three definitions" if len(known) == len(rows) else "by each definition that has an interval"
    shown = np.sign(known["amplification"]).where(known["p_told"] < stats.significance(confidence), 0)
    if shown.nunique() == 1 and shown.iloc[0]:
        # All of them have to hold, so the largest p counts.
        words = f"Yes, {by}." if shown.iloc[0] > 0 else f"They reduce it {by}."
        return words, undecided, known["p_told"].max()
    answer = "That depends on the definition." if shown.any() else undecided
    return answer, undecided, float(stats.adjust(known["p_told"]).min())


def _reasons(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return why intervals are missing, or tell nothing."""
    return tuple(filter(None, dict.fromkeys(rows["why"])))


def agreement(table: pd.DataFrame) -> list[Finding]:
    """Say how far raters agree (``ratings_agreement``)."""
    rows = table[table["statistic"] == "krippendorff_alpha"].dropna(subset=["value"]).set_index("labels")
    sets = dict(zip(LABEL_SETS, ("with unsure as a label", "with unsure ratings set aside"), strict=True))
    rows = rows.loc[[labels for labels in LABEL_SETS if labels in rows.index]].reset_index()
    # Of a part of a file with very many raters it is not known how many have rated it.
    who = rows["n_raters"].map(" of {:.0f} raters".format).where(rows["n_raters"].notna(), "")
    reasons = [f"{reason[:1].upper()}{reason[1:]}." if reason else "" for reason in rows["reason"]]
    return by_row(
        rows.assign(who=who, how=rows["labels"].map(sets), why=reasons),
        "How far do raters agree?",
        "Krippendorff's alpha{who} is {value:.2f} {how}.",
        *("value", "", "n_items", "images"),
        figure="ratings_agreement",
        details=("{why}",),
    )


def sensitivity(table: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how far the ways to resolve ratings move the amplification (``ratings_sensitivity``).

    Results of the rules are adjusted for one another (Holm).
    """
    kinds = {"rule": "By rule", "rater": "One rater alone", "extreme": "All undecided alike"}
    alpha = stats.significance(confidence)

    def say(model: str, rows: pd.DataFrame) -> Finding:
        rules = weighed(rows[rows["kind"] == "rule"])
        p = stats.adjust(rules["p_told"])
        known, clear = np.isfinite(p).sum(), (p < alpha).sum()
        by = {kind: rows[rows["kind"] == kind] for kind in kinds if kind in set(rows["kind"])}
        details = [f"{kinds[kind]}: {_ranges(some)}." for kind, some in by.items()]
        undecided = f"None of {known} results over the rules differs from 0."
        if not known:
            undecided = "It cannot be judged: no rule has an interval."
        return Finding(
            "Does the result rest on how ratings are resolved?",
            f"{clear} of {known} results over the rules differ from 0." if known else undecided,
            model="" if model == UNNAMED else model,
            n=rules["n_occupations"].max(),
            of="occupations",
            figure="ratings_sensitivity",
            details=(*details, *_reasons(rules)),
            undecided=undecided,
            p=float(np.nanmin(p)) if known else np.nan,
            alpha=alpha,
        )

    return each(table, ["model"], say)


def _ranges(rows: pd.DataFrame) -> str:
    by = rows.groupby("definition", sort=False)["amplification"].agg(["min", "max"]).dropna()
    parts = [f"{spoken(low)} to {spoken(high)} points {_NAMES[name]}" for name, low, high in by.itertuples()]
    return ", ".join(parts) or "without a value"
