"""Tables and findings of a user's own ratings: outcomes of the vote, agreement, what choices change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import ratings
from biaslab.errors import ParameterError, unknown_name
from biaslab.findings import NoFinding
from biaslab.measures import agreement
from biaslab.measures.amplification import DEFINITIONS
from biaslab.ratings import LABELS, SOURCES, Rated
from biaslab.studies import paradox

if TYPE_CHECKING:
    from biaslab.study import Study

LABEL_SETS = {"female/male/unsure": LABELS, "female/male": ("female", "male")}
STATISTICS = {
    "krippendorff_alpha": agreement.krippendorff_alpha,
    "fleiss_kappa": agreement.fleiss_kappa,
    "percent_agreement": agreement.percent_agreement,
}
NO_RATINGS = "the file holds shares, not ratings"
# Beyond this many, pairs of raters say little and fill the page.
MOST_PAIRED = 6
CROWD = f"more than {MOST_PAIRED} raters: pairs are not compared"

# -- rules -----------------------------------------------------------------------------------------------
# Each takes votes (images, labels) and the images; it returns how much each image counts as female and male.

Weights = tuple[np.ndarray, np.ndarray]


def majority(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    """Count images by their most frequent rating; ties and unsure ones do not count."""
    label = images["label"].to_numpy(object)
    return (label == "female").astype(float), (label == "male").astype(float)


def ties_split(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    """Divide a tie equally among the labels in front; what falls to unsure does not count."""
    in_front = (votes == votes.max(axis=1, keepdims=True)) & (votes > 0)
    weight = in_front / np.maximum(in_front.sum(axis=1, keepdims=True), 1)
    return weight[:, 0], weight[:, 1]


def unsure_set_aside(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    """Take the majority of the ratings female and male alone."""
    return (votes[:, 0] > votes[:, 1]).astype(float), (votes[:, 1] > votes[:, 0]).astype(float)


def unanimous(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    """Count only images whose ratings are all the same."""
    one_label = (votes > 0).sum(axis=1) == 1
    return (one_label & (votes[:, 0] > 0)).astype(float), (one_label & (votes[:, 1] > 0)).astype(float)


def fractions(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    """Count every rating: an image counts as female by the fraction of its ratings that are."""
    weight = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    return weight[:, 0], weight[:, 1]


def _undecided(training: str, generated: str) -> Callable[[np.ndarray, pd.DataFrame], Weights]:
    def rule(votes: np.ndarray, images: pd.DataFrame) -> Weights:
        female, male = majority(votes, images)
        undecided = female + male == 0
        as_female = np.where(images["source"] == "training", training == "female", generated == "female")
        return female + (undecided & as_female), male + (undecided & ~as_female)

    return rule


RULES: dict[str, tuple[str, str, Callable]] = {
    "majority": ("rule", "most frequent rating; ties and unsure images do not count", majority),
    "ties_split": ("rule", "a tie is divided equally among the labels in front", ties_split),
    "unsure_set_aside": ("rule", "majority of the ratings female and male alone", unsure_set_aside),
    "unanimous": ("rule", "only images whose ratings are all the same", unanimous),
    "fractions": ("rule", "every rating counts by its fraction of the image's ratings", fractions),
    "undecided_female": ("extreme", "all undecided images are female", _undecided("female", "female")),
    "undecided_male": ("extreme", "all undecided images are male", _undecided("male", "male")),
    "undecided_training_female": (
        "extreme",
        "undecided training images are female, undecided generated ones male",
        _undecided("female", "male"),
    ),
    "undecided_training_male": (
        "extreme",
        "undecided training images are male, undecided generated ones female",
        _undecided("male", "female"),
    ),
}


# -- tables ----------------------------------------------------------------------------------------------


def _rated(study: Study) -> Rated:
    if study.source != "ratings":
        raise ParameterError(
            f"source is {study.source!r}; tables of ratings need source 'ratings' and ratings set to a file."
        )
    rated = ratings.read(study.ratings)
    models = sorted(set(rated.percent_female["model"]))
    if study.model not in ("all", *models):
        raise unknown_name("model in ratings", study.model, models)
    return rated


def _images(study: Study, rated: Rated) -> np.ndarray:
    """Return which images belong to the study's model, those shared by all models among them."""
    model = rated.images["model"].to_numpy(object)
    return np.full(len(model), True) if study.model == "all" else (model == "") | (model == study.model)


def read_input(study: Study) -> pd.DataFrame:
    """Return what was read, how it was understood and what was left out."""
    return _rated(study).notes


def outcomes(study: Study) -> pd.DataFrame:
    """Return the outcomes of the vote and the shares with Wilson intervals, per occupation and source."""
    frame = _rated(study).outcomes
    if study.model != "all":
        frame = frame[frame["model"] == study.model]
    n = frame["n"].to_numpy(float)
    low, high = paradox.wilson_percent(frame["percent_female"].to_numpy(float) * n / 100, n, study.confidence)
    return frame.assign(ci_low=low, ci_high=high)


def rater_agreement(study: Study) -> pd.DataFrame:
    """Return the agreement of all raters over all images, for both sets of labels."""
    rated = _rated(study)
    rows = _agreement_rows(study, rated, _images(study, rated))
    return pd.DataFrame(rows, columns=["statistic", "labels", *_ESTIMATE])


def agreement_detail(study: Study) -> pd.DataFrame:
    """Return agreement for each source apart, and Cohen's kappa of each pair of raters over all images."""
    rated = _rated(study)
    wanted = _images(study, rated)
    rows = []
    for source in SOURCES:
        of_source = wanted & (rated.images["source"] == source).to_numpy()
        rows += [[*row[:2], source, "all", *row[2:]] for row in _agreement_rows(study, rated, of_source)]
    paired = rated.raters if len(rated.raters) <= MOST_PAIRED else ()
    if rated.n_raters > MOST_PAIRED:
        missing = [np.nan, np.nan, np.nan, 0, rated.n_raters, CROWD]
        rows += [["cohen_kappa", labels, "all", "all", *missing] for labels in LABEL_SETS]
    for a, b in combinations(paired, 2):
        columns = [rated.ratings[name].to_numpy(object)[wanted] for name in (a, b)]
        for labels, used in LABEL_SETS.items():
            estimate = agreement.cohen_kappa(*columns, used, **_bootstrap(study))
            rows.append(["cohen_kappa", labels, "all", f"{a} with {b}", *estimate])
    return pd.DataFrame(rows, columns=["statistic", "labels", "subset", "raters", *_ESTIMATE])


_ESTIMATE = ["value", "ci_low", "ci_high", "n_items", "n_raters", "reason"]


def _bootstrap(study: Study) -> dict:
    return {"seed": study.seed, "replicates": study.bootstrap_replicates, "confidence": study.confidence}


def _agreement_rows(study: Study, rated: Rated, wanted: np.ndarray) -> list[list]:
    if rated.ratings is None:
        missing = [np.nan, np.nan, np.nan, 0, 0, NO_RATINGS]
        return [[name, labels, *missing] for name in STATISTICS for labels in LABEL_SETS]
    matrix = rated.ratings.to_numpy(object)[wanted]
    rows = []
    for name, statistic in STATISTICS.items():
        for labels, used in LABEL_SETS.items():
            estimate = statistic(matrix, used, **_bootstrap(study))
            if not rated.raters:  # The columns are not raters then, so only the whole file's number is known.
                estimate = estimate._replace(n_raters=rated.n_raters if wanted.all() else np.nan)
            rows.append([name, labels, *estimate])
    return rows


def sensitivity(study: Study) -> pd.DataFrame:
    """Return amplification by each rule, by each extreme for undecided images and by each rater alone.

    A rule that divides votes gives counts that are not whole; its intervals resample the nearest whole number
    of images. No rows where the file holds shares.
    """
    frames = list(_variants(study))
    columns = ["model", "rule", "definition", "kind", "amplification", "ci_low", "ci_high"]
    columns += ["n_occupations", "n_excluded", "n_images", "meaning", "reason"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _variants(study: Study) -> Iterator[pd.DataFrame]:
    rated = _rated(study)
    if rated.ratings is None:
        return
    wanted = _images(study, rated)
    images = rated.images[wanted].reset_index(drop=True)
    codes = np.stack([rated.ratings[c].cat.codes.to_numpy()[wanted] for c in rated.ratings], axis=1)
    votes = np.stack([(codes == k).sum(axis=1) for k in range(len(LABELS))], axis=1)
    for name, (kind, meaning, rule) in RULES.items():
        yield _amplified(study, images, rule(votes, images)).assign(rule=name, kind=kind, meaning=meaning)
    for k, rater in enumerate(rated.raters):
        alone = (codes[:, k] == 0).astype(float), (codes[:, k] == 1).astype(float)
        meaning = "this rater's ratings alone; unsure images do not count"
        yield _amplified(study, images, alone).assign(rule=f"rater {rater}", kind="rater", meaning=meaning)


def _amplified(study: Study, images: pd.DataFrame, weights: Weights) -> pd.DataFrame:
    """Return amplification of weighed images, computed as in table ``paradox_amplification``."""
    shares = ratings.shares(images, *weights)
    n_images = shares.groupby("model")["n"].sum()
    frame = paradox.amplification_of(
        shares, replicates=study.bootstrap_replicates, seed=study.seed, confidence=study.confidence
    )
    without = [
        _without_images(rows) for model, rows in shares.groupby("model") if model not in set(frame["model"])
    ]
    frame = pd.concat([frame, *(rows for rows in without if rows is not None)], ignore_index=True)
    return frame.assign(n_images=frame["model"].map(n_images))


def _without_images(shares: pd.DataFrame) -> pd.DataFrame | None:
    """Return rows without a value for a model of which no image counts; none where a source is missing."""
    if set(shares["source"]) != set(SOURCES):
        return None
    rows = pd.DataFrame({"definition": list(DEFINITIONS), "model": shares["model"].iloc[0]})
    missing = dict.fromkeys(("amplification", "ci_low", "ci_high"), np.nan)
    n = float(shares["occupation"].nunique())
    return rows.assign(**missing, n_occupations=0.0, n_excluded=n, reason="No image counts.")


def raters(study: Study) -> pd.DataFrame:
    """Return what each rater saw, by source; no rows for shares or where raters have no column each."""
    rated = _rated(study)
    wanted = _images(study, rated)
    rows = []
    for rater in rated.raters:
        for source in SOURCES:
            of_source = wanted & (rated.images["source"] == source).to_numpy()
            count = rated.ratings.loc[of_source, rater].value_counts().reindex(list(LABELS), fill_value=0)
            rows.append([rater, source, int(count.sum()), *count])
    frame = pd.DataFrame(rows, columns=["rater", "source", "n_rated", *LABELS])
    decided = frame["female"] + frame["male"]
    return frame.assign(
        **_share(study, frame["female"], decided, "percent_female", "ci_low", "ci_high"),
        **_share(
            study, frame["unsure"], frame["n_rated"], "percent_unsure", "unsure_ci_low", "unsure_ci_high"
        ),
    )


def _share(study: Study, count: pd.Series, n: pd.Series, *names: str) -> dict[str, np.ndarray]:
    count, n = count.to_numpy(float), n.to_numpy(float)
    percent = 100 * np.divide(count, n, out=np.full(len(n), np.nan), where=n > 0)
    return dict(zip(names, (percent, *paradox.wilson_percent(count, n, study.confidence)), strict=True))


# -- findings --------------------------------------------------------------------------------------------

_NAMES = {
    "published": "by the published definition",
    "no_exclusion": "without exclusion",
    "directional": "along the training lean",
}


def input_finding(study: Study) -> str:
    """Return in words what the file holds: its name, how many images, occupations and raters."""
    rated = _rated(study)
    if rated.ratings is None:
        cells = rated.outcomes
        cells = cells if study.model == "all" else cells[cells["model"] == study.model]
        # Training shares without a model are listed for every model, and count once.
        n = cells["n"].sum()
        if study.model == "all":
            n = rated.notes.set_index("item").loc["images decided female or male", "n"]
        what = (
            f"shares of {_counted(cells['occupation'].nunique(), 'occupation')} from {_counted(n, 'image')}"
        )
    else:
        wanted = _images(study, rated)
        images = rated.images[wanted]
        n_raters = rated.n_raters
        if rated.raters:
            n_raters = int(rated.ratings[wanted].notna().any().sum())
        sources = ", ".join(f"{(images['source'] == source).sum():,} {source}" for source in SOURCES)
        what = (
            f"{_counted(len(images), 'image')} ({sources}) of "
            f"{_counted(images['occupation'].nunique(), 'occupation')}, rated by {_counted(n_raters, 'rater')}"
        )
    models = sorted(set(rated.outcomes["model"])) if study.model == "all" else [study.model]
    named = (
        "" if models == [ratings.UNNAMED] else f" Model{'s' if len(models) > 1 else ''}: {_listed(models)}."
    )
    return f"The file {Path(study.ratings).name} holds {what}.{named}"


def _counted(n: float, what: str) -> str:
    return f"{n:,.0f} {what}{'' if n == 1 else 's'}"


def amplification_finding(study: Study) -> str:
    """Return the amplification by all three definitions in words, model by model."""
    table = study.table("paradox_amplification")
    sentences = []
    for model, outcome in study.table("ratings_outcomes").groupby("model", sort=False):
        rows = table[table["model"] == model]
        if rows.empty:
            sentences.append(f"{_of(model)}Amplification cannot be computed: {_why_none(outcome)}.")
            continue
        rows = rows[rows["prompt"] == ("mean" if "mean" in set(rows["prompt"]) else rows["prompt"].iloc[0])]
        rows = rows.set_index("definition").loc[list(DEFINITIONS)]
        values = [
            f"{_value(row, study)} {_NAMES[name]} ({_occupations(row)})" for name, row in rows.iterrows()
        ]
        lead = _verdict(rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float))
        lead = lead or f"Amplification cannot be judged ({_reasons(rows)})"
        sentences.append(
            f"{_of(model)}{lead}: {_listed(values)}; {_counted(outcome['n'].sum(), 'decided image')}."
        )
    said = " ".join(sentences)
    return said if len(table) else NoFinding(said)


def _why_none(outcomes: pd.DataFrame) -> str:
    if set(outcomes["source"]) != set(SOURCES):
        return "the file has not both training and generated images"
    n = outcomes.groupby("source")["n_images"].sum()
    images = _listed([f"{_counted(n[source], f'{source} image')}" for source in SOURCES])
    return f"none of {images} was decided female or male"


def _reasons(rows: pd.DataFrame) -> str:
    """Say why intervals are missing."""
    reasons = [r for r in dict.fromkeys(rows.loc[rows["ci_low"].isna(), "reason"]) if r]
    return "; ".join(r[0].lower() + r[1:].removesuffix(".") for r in reasons) or "there is no interval"


def _verdict(low: np.ndarray, high: np.ndarray) -> str:
    """Return what the intervals that there are say together; nothing where there is none."""
    known = ~np.isnan(low)
    signs = {int(sign) for sign in (low[known] > 0).astype(int) - (high[known] < 0)}
    by = "by all three definitions" if known.all() else "by each definition that has an interval"
    if not signs:
        return ""
    if signs == {1}:
        return f"Generated images amplify the imbalance of the training images {by}"
    if signs == {-1}:
        return f"Generated images reduce the imbalance of the training images {by}"
    if signs == {0}:
        return "By no definition does the interval of the amplification exclude 0"
    return "Whether generated images amplify the imbalance of the training images depends on the definition"


def _value(row: pd.Series, study: Study) -> str:
    if np.isnan(row["amplification"]):
        return "no value"
    value = f"{row['amplification']:+.1f} points"
    if np.isnan(row["ci_low"]):
        return f"{value} without an interval"
    return f"{value} [{row['ci_low']:+.1f}, {row['ci_high']:+.1f}; {100 * study.confidence:g} % interval]"


def _occupations(row: pd.Series) -> str:
    counted, left_out = int(row["n_occupations"]), int(row["n_excluded"])
    return f"{counted} of {counted + left_out} occupations"


def agreement_finding(study: Study) -> str:
    """Return how far raters agree, in words."""
    table = study.table("ratings_agreement").set_index(["statistic", "labels"])
    if table["value"].isna().all():
        return NoFinding(f"Agreement cannot be computed: {table['reason'].iloc[0]}.")
    parts = []
    for labels in LABEL_SETS:
        row = table.loc[("krippendorff_alpha", labels)]
        if np.isnan(row["value"]):
            parts.append(f"cannot be computed with the labels {labels} ({row['reason']})")
            continue
        limits = f"no interval: {row['reason'].removeprefix('no interval: ')}"
        if not np.isnan(row["ci_low"]):
            limits = f"{100 * study.confidence:g} % interval {row['ci_low']:.2f} to {row['ci_high']:.2f}"
        what = "with unsure as a label" if labels == "female/male/unsure" else "with unsure ratings set aside"
        parts.append(
            f"is {row['value']:.2f} {what} ({limits}; {row['n_items']:,.0f} images, "
            f"{row['n_raters']:.0f} raters)"
        )
    return f"Krippendorff's alpha {' and '.join(parts)}."


def undecided_finding(study: Study) -> str:
    """Return how many images of each source were left without a label female or male, in words."""
    rated = _rated(study)
    if rated.ratings is None:
        return NoFinding("The file gives shares, so how many images were left undecided is not known.")
    images = rated.images[_images(study, rated)]
    undecided_images = ~images["label"].isin(["female", "male"])
    parts = []
    for source, of_source in undecided_images.groupby(images["source"], observed=True):
        n, undecided = len(of_source), of_source.sum()
        low, high = (limit[0] for limit in paradox.wilson_percent([undecided], [n], study.confidence))
        parts.append(
            f"{100 * undecided / n:.1f} % of {n:,.0f} {source} images [{low:.1f}, {high:.1f}; "
            f"{100 * study.confidence:g} % interval]"
        )
    return f"No label female or male (tie, unsure or unrated) came out for {_listed(parts)}."


def sensitivity_finding(study: Study) -> str:
    """Return how far the ways to resolve ratings move the amplification, in words."""
    table = study.table("ratings_sensitivity")
    if table.empty:
        if _rated(study).ratings is None:
            return NoFinding("There are no ratings to resolve in another way.")
        return NoFinding(
            "No rule gives an amplification: the file has not both training and generated images."
        )
    sentences = []
    for model, rows in table.groupby("model", sort=False):
        rules = rows[rows["kind"] == "rule"]
        clear, known = (rules["ci_low"] > 0) | (rules["ci_high"] < 0), rules["ci_low"].notna()
        judged = f"whether it differs from 0 cannot be judged ({_reasons(rules)})"
        if known.any():
            judged = f"{clear.sum()} of {known.sum()} intervals exclude 0"
            judged += "" if known.all() else f", and {(~known).sum()} results have none ({_reasons(rules)})"
        sentences.append(
            f"{_of(model)}Over {rules['rule'].nunique()} ways to resolve ratings, amplification is "
            f"{_ranges(rules)}; {judged}."
        )
        for kind, what in (("rater", "With one rater alone"), ("extreme", "With all undecided images alike")):
            if (rows["kind"] == kind).any():
                sentences.append(f"{what} it is {_ranges(rows[rows['kind'] == kind])}.")
    return " ".join(sentences)


def _ranges(rows: pd.DataFrame) -> str:
    parts = []
    for name, some in rows.groupby("definition", sort=False):
        low, high = some["amplification"].min(), some["amplification"].max()
        parts.append(
            f"{'without a value' if np.isnan(low) else f'{low:+.1f} to {high:+.1f} points'} {_NAMES[name]}"
        )
    return _listed(parts)


def _of(model: str) -> str:
    return "" if model == ratings.UNNAMED else f"{model}: "


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


TABLES = {
    "ratings_input": read_input,
    "ratings_outcomes": outcomes,
    "ratings_agreement": rater_agreement,
    "ratings_agreement_detail": agreement_detail,
    "ratings_sensitivity": sensitivity,
    "ratings_raters": raters,
}
