"""Tables of a user's own annotations: results of the vote, agreement of annotators, sensitivity to choices.

Every function takes what :func:`biaslab.ratings.shares.read` returns for a file. ``confidence`` is the level of
intervals, 0–1; ``seed`` and ``replicates`` are those of the bootstraps over images.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.analyses.custom.prompts import ALL
from biaslab.analyses.ratings.sample import LABEL_SETS, join_votes
from biaslab.judges.annotation_questions import UNSURE
from biaslab.metrics import agreement as measures
from biaslab.metrics.amplification import DEFINITIONS
from biaslab.papers.answers import Answer, load_answers
from biaslab.papers.paradox.analysis.amplification import amplification, guarded_p, overall, share_intervals
from biaslab.ratings.annotations import GENDER_LABELS, OTHER, SOURCES, annotators, label_matrix
from biaslab.ratings.shares import UNNAMED, AnnotatedImages, for_each_model
from biaslab.schema import tables
from biaslab.schema.formatting import format_count

STATISTICS = {
    "krippendorff_alpha": measures.krippendorff_alpha,
    "fleiss_kappa": measures.fleiss_kappa,
    "percent_agreement": measures.percent_agreement,
}
PUBLISHED = {
    ("krippendorff_alpha", "female/male/unsure", ALL): 0.948,
    ("judge_agreement", "female/male", ALL): 98.0,
}
"""Values that A.4 of the paradox paper prints, for all its images."""
NO_RATINGS = "the file contains shares, not annotations"
NOT_ANNOTATED = "no image has been annotated yet"
MEAN = "mean"
"""The answer in the one row of a scale; other questions have a row for each label."""
answers = load_answers("ratings")

# -- rules -----------------------------------------------------------------------------------------------

Weights = tuple[np.ndarray, np.ndarray]


def _majority(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    label = images["label"].to_numpy(object)
    return (label == "female").astype(float), (label == "male").astype(float)


def _ties_split(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    # The part of a tie that unsure gets does not count.
    return _fractions((votes == votes.max(axis=1, keepdims=True)) & (votes > 0), images)


def _unsure_set_aside(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    return (votes[:, 0] > votes[:, 1]).astype(float), (votes[:, 1] > votes[:, 0]).astype(float)


def _unanimous(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    one_label = (votes > 0).sum(axis=1) == 1
    return (one_label & (votes[:, 0] > 0)).astype(float), (one_label & (votes[:, 1] > 0)).astype(float)


def _fractions(votes: np.ndarray, images: pd.DataFrame) -> Weights:
    weight = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    return weight[:, 0], weight[:, 1]


def _undecided(votes: np.ndarray, images: pd.DataFrame, *, female: Collection[str]) -> Weights:
    """Count images by majority, and undecided ones as female where their source is one of ``female``, else male."""
    women, men = _majority(votes, images)
    none = (women + men == 0) & (images["label"] != OTHER).to_numpy()
    as_female = images["source"].isin(female).to_numpy()
    return women + (none & as_female), men + (none & ~as_female)


# The kind and meaning of each rule in tables, and its function: it takes votes (images, labels) and the images, and
# returns the weights of each image as female and as male.
RULES: dict[str, tuple[str, str, Callable]] = {
    "majority": ("rule", "most frequent annotation; ties and unsure images are excluded", _majority),
    "ties_split": ("rule", "a tie is divided equally among the most frequent labels", _ties_split),
    "unsure_set_aside": ("rule", "majority among the annotations female and male only", _unsure_set_aside),
    "unanimous": ("rule", "only images whose annotations are all the same", _unanimous),
    "fractions": ("rule", "every label is weighted by its fraction of the image's annotations", _fractions),
} | {
    name: ("extreme", meaning, partial(_undecided, female=female))
    for name, meaning, female in (
        ("undecided_female", "all undecided (tied, unsure or unannotated) images are female", SOURCES),
        ("undecided_male", "all undecided (tied, unsure or unannotated) images are male", ()),
        ("undecided_training_female", "undecided training images are female, undecided generated ones male",
         ("training",)),
        ("undecided_training_male", "undecided training images are male, undecided generated ones female",
         ("generated",)),
    )
}  # fmt: skip


# -- tables ----------------------------------------------------------------------------------------------


def outcomes(annotations: AnnotatedImages, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the outcomes of the vote and the shares with Wilson intervals, as ``ratings_outcomes``."""
    rows = annotations.outcomes.rename(columns={OTHER: "neither"})
    return share_intervals(rows, confidence=confidence, table="ratings_outcomes")


def shares(annotations: AnnotatedImages, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the percentages of images of each source by result of the vote: means over occupations.

    Columns model, source, answer (``female``, ``male``, ``undecided``, and ``other`` where used), percent,
    ci_low, ci_high and n, the annotated images.
    """
    rows = []
    for (model, source), cell in annotations.outcomes.groupby(["model", "source"], sort=False):
        female = cell["female"].fillna((cell["percent_female"] * cell["n"] / 100).round())
        counts = {"female": female, "male": cell["n"] - female, OTHER: cell[OTHER]}
        counts = pd.DataFrame(counts | {"undecided": cell["tie"] + cell["unsure"]})
        # Files of shares do not contain undecided images.
        unknown = ["undecided"] if cell["tie"].isna().all() else []
        counts = counts.fillna(0)
        for answer in counts.drop(columns=[*unknown, *([] if counts[OTHER].any() else [OTHER])]):
            mean = stats.strata_mean(counts[answer], counts.sum(axis=1), confidence)
            rows.append([model, source, answer, *(100 * value for value in mean[:3]), mean[3]])
    return pd.DataFrame(rows, columns=["model", "source", "answer", "percent", "ci_low", "ci_high", "n"])


def headline(
    annotations: AnnotatedImages, amplified: pd.DataFrame, *, confidence: float = 0.95
) -> tuple[Answer, pd.DataFrame]:
    """Return the main result of a report on annotations: amplification, or shares if there are generated images only.

    Rows are those of ``paradox_amplification`` by definition; or one row per model with the share perceived as
    female, the name of the images (``whose``), and the other shares (``other_shares``).
    """
    table = shares(annotations, confidence=confidence)
    if set(table["source"]) != {"generated"}:
        return answers.amplification, by_definition(amplified)
    other_rows = table[table["answer"] != "female"]
    other_texts = other_rows["answer"] + " " + other_rows["percent"].map("{:.1f}%".format)
    rows = table[table["answer"] == "female"].rename(columns={"percent": "percent_female"})
    whose = rows["model"].map(lambda model: "" if model == UNNAMED else f" of {model}")
    other_shares = rows["model"].map(other_texts.groupby(other_rows["model"]).agg(", ".join))
    return answers.shares, rows.assign(whose=whose, other_shares=other_shares)


def agreement(
    table: pd.DataFrame,
    images: pd.DataFrame,
    judgements: pd.DataFrame | None = None,
    *,
    seed: int = 0,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the agreement of annotators, and of a judge with their majority, as ``ratings_agreement``.

    ``table`` has annotations, ``images`` the votes (:class:`biaslab.ratings.shares.AnnotatedImages`). ``judgements`` of
    images (with source) add rows for each source, and the values that A.4 of the paradox paper prints. Intervals are
    from a bootstrap over images, Wilson's for the judge.
    """
    draws: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    sets, ratings, n_annotators = LABEL_SETS, label_matrix(table, images), len(annotators(table))
    if (table["label"] == OTHER).any():
        sets = {"female/male/other/unsure": GENDER_LABELS, **LABEL_SETS}
    pairs = None if judgements is None else join_votes(table, judgements)
    rows = []
    for subset in (ALL,) if pairs is None else (ALL, *SOURCES):
        about = {"subset": subset, "n_annotators": n_annotators}
        matrix = ratings[(images["source"] == subset) | (subset == ALL)].to_numpy(object)
        for (statistic, measure), (labels, label_set) in product(STATISTICS.items(), sets.items()):
            row = about | measure(matrix, label_set, **draws)._asdict() | {"statistic": statistic, "labels": labels}
            # Where matrix columns are not annotators, the number of annotators is larger.
            rows.append(row | (about if n_annotators > ratings.shape[1] else {}))
        if pairs is not None:
            of_subset = pairs[(pairs["source"] == subset) | (subset == ALL)]
            rows += [about | _judge_agreement(of_subset, labels, confidence) for labels in LABEL_SETS]
    agreements = pd.DataFrame(rows)
    if pairs is not None:
        keys = zip(agreements["statistic"], agreements["labels"], agreements["subset"], strict=True)
        agreements["paper_text_value"] = [PUBLISHED.get(key, np.nan) for key in keys]
    if table.empty:
        agreements["reason"] = NO_RATINGS if pairs is None else NOT_ANNOTATED
    return tables.make_table(agreements, "ratings_agreement")


def _judge_agreement(pairs: pd.DataFrame, labels: str, confidence: float) -> dict:
    """Return how often a judge's answer equals the annotators' label, where both are in a set of labels."""
    decided = pairs[pairs[["gender", "vote"]].isin(LABEL_SETS[labels]).all(axis=1)]
    n_equal, names = (decided["gender"] == decided["vote"]).sum(), ("value", "ci_low", "ci_high")
    row = {"statistic": "judge_agreement", "labels": labels, "n_items": len(decided)}
    row["reason"] = "" if len(decided) else "no image has both a judgement and a majority"
    return row | stats.percent_columns(n_equal, len(decided), confidence, names)


def sensitivity(
    annotations: AnnotatedImages, *, seed: int = 0, replicates: int = 10_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return amplification by each rule, extreme for undecided images and annotator alone, as ``ratings_sensitivity``.

    Intervals of a rule that divides votes resample the nearest whole number of images.
    """
    draws: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    if annotations.table.empty:
        return tables.make_table([], "ratings_sensitivity")
    images, ratings = annotations.images, label_matrix(annotations.table, annotations.images)
    votes = np.stack([(ratings == label).sum(axis=1) for label in GENDER_LABELS], axis=1)
    weightings = [(name, kind, meaning, rule(votes, images)) for name, (kind, meaning, rule) in RULES.items()]
    annotator_meaning = "this annotator's annotations alone; unsure images are excluded"
    for annotator in ratings if len(annotators(annotations.table)) == ratings.shape[1] else ():
        labels = ratings[annotator].to_numpy(object)
        weights = (labels == "female").astype(float), (labels == "male").astype(float)
        weightings.append((f"annotator {annotator}", "annotator", annotator_meaning, weights))
    frames = [
        _compute_amplification(images, weights, draws).assign(rule=rule, kind=kind, meaning=meaning)
        for rule, kind, meaning, weights in weightings
    ]
    return tables.join_tables(frames, "ratings_sensitivity")


def _compute_amplification(images: pd.DataFrame, weights: Weights, draws: dict) -> pd.DataFrame:
    """Return amplification of weighed images, computed as in table ``paradox_amplification``."""
    female, male = weights
    keys = ["model", "occupation", "source"]
    counts = images[keys].assign(female=female, n=female + male).groupby(keys, as_index=False).sum()
    percent = 100 * counts["female"] / counts["n"].where(counts["n"] > 0)
    shares = for_each_model(counts.assign(prompt="annotations", percent_female=percent))
    n_images = shares.groupby("model")["n"].sum()
    frame = amplification(shares, **draws)
    # Models with both sources but no image that counts have rows without a value.
    n_unique = shares[~shares["model"].isin(frame["model"])].groupby("model").nunique()
    empty_columns = {"n_occupations": 0.0, "reason": "No image is included."}
    empty_rows = [
        {"model": model, "definition": definition, "n_excluded": float(n)} | empty_columns
        for model, n in n_unique.loc[n_unique["source"] == len(SOURCES), "occupation"].items()
        for definition in DEFINITIONS
    ]
    frame = pd.concat([frame, pd.DataFrame(empty_rows)], ignore_index=True) if empty_rows else frame
    return frame.assign(n_images=frame["model"].map(n_images))


def by_definition(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ``paradox_amplification`` of all prompts, with ``p_holm_guarded`` adjusted over definitions."""
    rows = overall(rows)
    rows = rows.assign(p_holm_guarded=guarded_p(rows), model=rows["model"].replace(UNNAMED, ""))
    return rows.assign(p_holm_guarded=rows.groupby("model")["p_holm_guarded"].transform(stats.adjust))


def describe_file(annotations: AnnotatedImages, file: str) -> pd.DataFrame:
    """Return a summary of the annotations in one row: file (its name), words, and more (sentences, or empty)."""

    def count_text(n: float, noun: str) -> str:
        return format_count(n, noun, f"{noun}s")

    rows = annotations.shares if annotations.table.empty else annotations.images
    occupations = count_text(rows["occupation"].nunique(), "occupation")
    models = [model for model in sorted(set(annotations.outcomes["model"])) if model != UNNAMED]
    sentences = [f"Models: {', '.join(models)}."] if models else []
    if annotations.table.empty:
        words = f"Shares of {occupations} from {count_text(annotations.shares['n'].sum(), 'image')}."
    else:
        sources = ", ".join(f"{(annotations.images['source'] == source).sum():,} {source}" for source in SOURCES)
        sentences.insert(0, f"Images: {sources}.")
        annotator_text = count_text(len(annotators(annotations.table)), "annotator")
        words = f"{count_text(len(annotations.images), 'image')} of {occupations}, annotated by {annotator_text}."
    return pd.DataFrame({"file": [file], "words": [words], "more": [" ".join(sentences)]})


def question_shares(annotations: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the answers to each question by model and group: shares of labels, or the mean of a scale.

    Each annotation counts once, and all of an image are one cluster. Shares are of labels other than ``unsure`` (that
    of ``unsure`` is of all) with Wilson's interval; means are of steps, with Student's.

    Args:
        annotations: model, source, occupation (the group), image_id, question and label; rows about perceived gender
            (an empty question) or without a label do not count.
        confidence: Level of the intervals, 0–1.

    Returns:
        model, source, question, group (``all`` or an occupation), answer (a label, or ``mean``), value (percent, or
        steps), ci_low, ci_high, n (annotations) and n_images.
    """
    names = {"occupation": "group", "label": "answer"}
    columns = ["model", "source", "question", "group", "answer", "value", "ci_low", "ci_high", "n", "n_images"]

    def of_question(rows: pd.DataFrame) -> pd.DataFrame:
        labels = sorted(set(rows["label"]) - {UNSURE})
        is_scale = bool(labels) and all(label.isdecimal() for label in labels)
        options: Any = {"confidence": confidence, "cluster": "image_id"}
        label_shares = stats.shares("label", [*([] if is_scale else labels), UNSURE], unclear=UNSURE, **options)

        def estimates(group: pd.DataFrame) -> Iterator[dict[str, Any]]:
            if is_scale:
                steps = group.loc[group["label"] != UNSURE, ["image_id", "label"]]
                yield {"label": MEAN} | stats.mean("label", **options)(steps)
            for row in label_shares(group):
                yield row | {"value": row["percent"]}

        return stats.by_group(rows, "occupation", estimates, overall=ALL)

    answered = annotations[(annotations["question"] != "") & (annotations["label"] != "")]
    rows = stats.by_group(answered, ["model", "source", "question"], of_question)
    return rows.rename(columns=names).reindex(columns=columns)
