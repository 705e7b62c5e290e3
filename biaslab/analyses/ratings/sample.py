"""A sample of the judged images, its annotations, and their agreement with the judge.

Source: paradox paper, A.4: 7 participants, 200 training and generated images, alpha 0.948, and 98% of the automatic
judgements equal to the most frequent label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.errors import ParameterError, unknown_name
from biaslab.io import cells
from biaslab.io.plaintext import normalize
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics import agreement as measures
from biaslab.ratings import annotations as annotated
from biaslab.ratings.annotations import GENDER_LABELS
from biaslab.schema.formatting import format_count
from biaslab.schema.genders import GENDERS

LABEL_SETS = {"female/male/unsure": measures.LABELS, "female/male": ("female", "male")}


def candidates(judgements: Mapping[str, pd.DataFrame], outcomes: Sequence[str] = (JUDGED,)) -> pd.DataFrame:
    """Return the images that may be annotated, of all sources in one table: judgements with one of ``outcomes``, by
    default those decided, as in the paper.
    """
    frames = [table[table["status"].isin(outcomes)].assign(source=source) for source, table in judgements.items()]
    return pd.concat(frames, ignore_index=True)


def draw(images: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """Sample ``n`` images, spread as evenly as possible over sources, within each over models, then occupations.

    Fewer are sampled where fewer exist; an image with several rows of a source and model is sampled at most once.
    Returns rows of ``images`` (image_id, source, occupation, model for several models, …) in random order, with the
    sampling ``probability`` (0–1) of such an image. Raises ParameterError where ``n`` is below 1.
    """
    if n < 1:
        raise ParameterError(f"n, the number of images to annotate, is {n!r}; it must be at least 1.")
    rng = np.random.default_rng(seed)
    images = images.sort_values(["source", "image_id"], kind="stable").reset_index(drop=True)
    among = ["source", *(["model"] if "model" in images else [])]
    images = images.iloc[rng.permutation(len(images))].drop_duplicates([*among, "image_id"])
    # An image's turn: which of its occupation it is, in shuffled order. Taking images by turn, and
    # occupations at random within a turn, is a round-robin over occupations; models, then sources take turns, too.
    sample, levels = images.assign(_chance=rng.random(len(images))), [*among, "occupation"]
    for depth in range(len(levels), 0, -1):
        turn = sample.groupby(levels[:depth], sort=False).cumcount()
        sample = sample.assign(_turn=turn).sort_values(["_turn", "_chance" if depth > 1 else "source"])
    sample = sample.head(n)
    sample["probability"] = _probabilities(images, sample, among)
    sample = sample.sort_values(["source", "_turn"])[[*images.columns, "probability"]]
    return sample.iloc[rng.permutation(len(sample))].reset_index(drop=True)


def _probabilities(images: pd.DataFrame, sample: pd.DataFrame, among: list[str]) -> np.ndarray:
    """Return the sampling probability of images like each sampled one: each occupation takes part in all complete
    rounds, and in the last one at random.
    """
    n_sampled = {key: len(rows) for key, rows in sample.groupby(among)}
    probabilities: dict[tuple, float] = {}
    for key, rows in images.groupby(among, sort=False):
        n_left, n_images, turns = n_sampled.get(key, 0), rows["occupation"].value_counts(), 0
        while n_left >= (n_in_turn := int((n_images > turns).sum())) > 0:
            n_left, turns = n_left - n_in_turn, turns + 1
        expected = n_images.clip(upper=turns) + (n_images > turns) * n_left / max(n_in_turn, 1)
        probabilities |= {(*key, occupation): p for occupation, p in (expected / n_images).items()}
    keys = sample[[*among, "occupation"]].itertuples(index=False, name=None)
    return np.array([probabilities[key] for key in keys], float)


def simulate(
    sampled: pd.DataFrame,
    truth: pd.Series,
    annotators: int = 7,
    *,
    seed: int,
    error: float = 0.02,
    unsure: float = 0.01,
) -> pd.DataFrame:
    """Simulate annotators of images with ground truth: to show the form of the tables, never as a finding.

    Each label is the ground truth of the image (``truth``: ``female``, ``male`` or ``neither``, by image_id), with
    probability ``error`` the other gender, and with probability ``unsure`` the label ``unsure``. Labels are
    independent, while real annotators make common errors on the same hard images. Images without ground truth stay
    unannotated.

    Returns a table as of :func:`biaslab.ratings.annotations.read`, with the annotators ``simulated-1``, …. Raises
    ParameterError where probabilities are out of their range.
    """
    if not (0 <= error <= 1 and 0 <= unsure <= 1 and error + unsure <= 1):
        raise ParameterError(f"error is {error!r} and unsure is {unsure!r}; both and their sum must be from 0 to 1.")
    true_labels = sampled["image_id"].map(truth.to_dict()).fillna("")
    other_gender = true_labels.replace({"female": "male", "male": "female"})
    items: dict[str, Any] = {"position": 1, "question": "", "model": "", "probability": np.nan}
    rows = sampled.assign(**{name: value for name, value in items.items() if name not in sampled})
    rows["image_id"], frames = rows["image_id"].map(normalize), []
    for k, chance in enumerate(np.random.default_rng(seed).random((annotators, len(sampled)))):
        answers = [true_labels == "", (true_labels == "neither") | (chance < unsure), chance < unsure + error]
        label = np.select(answers, ["", "unsure", other_gender], true_labels)
        frames.append(rows.assign(annotator=f"simulated-{k + 1}", label=label))
    return pd.concat(frames, ignore_index=True)[list(annotated.COLUMNS)]


class CollectedAnnotations(NamedTuple):
    """Annotations and where they come from."""

    annotations: pd.DataFrame  # As of :func:`biaslab.ratings.annotations.read`; no rows where nothing is annotated.
    kind: str  # ``annotations`` of people, or ``simulated``.
    note: str  # The same in words.


def collect(
    sampled: pd.DataFrame,
    file: str | Path = "",
    truth: pd.Series | None = None,
    *,
    seed: int,
    model: str = "all",
    simulated: int = 7,
    error: float = 0.02,
    unsure: float = 0.01,
) -> CollectedAnnotations:
    """Return the annotations to report of a sample: those in ``file``, else simulated ones where some images have
    ground truth.

    From a file with several models only annotations of ``model`` are used, because models share image ids. Raises
    InputError where the file cannot be read as annotations, UnknownNameError where it has several models and none is
    ``model``, and as :func:`simulate`.
    """
    if file:
        table = annotated.read(file, {"": GENDER_LABELS})
        # The sample has the source and the occupation of its images.
        images = sampled.assign(image_id=sampled["image_id"].map(normalize)).drop_duplicates("image_id")
        image_ids, blank = table["image_id"], table["occupation"] == ""
        for name, values in images.set_index("image_id")[["source", "occupation"]].items():
            table[name] = table[name].mask(blank, image_ids.map(values).fillna(table[name]))
        problem, fix = "occupation of image {} is empty", "enter it, because the image is not in the sample"
        cells.refuse(table["occupation"] == "", Path(file), problem, fix, image_ids)
        if len(models := set(table["model"]) - {""}) > 1 and model != "all":
            if model not in models:
                raise unknown_name("model in the annotations", model, sorted(models))
            table = table[table["model"].isin(["", model])]
        annotator_text = format_count(len(annotated.annotators(table)), "annotator", "annotators")
        return CollectedAnnotations(table, "annotations", f"Annotations come from {Path(file).name}: {annotator_text}.")
    truth = pd.Series(dtype=object) if truth is None else truth
    n_with_truth = sampled["image_id"].isin(truth.index).sum()
    if not n_with_truth or not simulated:
        note = f"No annotations yet: the sample has {len(sampled)} images to annotate."
        return CollectedAnnotations(pd.DataFrame(columns=list(annotated.COLUMNS)), "annotations", note)
    simulation = simulate(sampled, truth, simulated, seed=seed, error=error, unsure=unsure)
    note = (
        f"SIMULATED annotations, not by people: {simulated} simulated annotators label {n_with_truth} of "
        f"{len(sampled)} images according to their ground truth, with independent errors ({100 * error:g}% the other "
        f"gender, {100 * unsure:g}% unsure). They illustrate the tables and are no evidence about human annotators."
    )
    return CollectedAnnotations(simulation, "simulated", note)


def truth(judgements: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Return ground truth by image_id, where available: ``female``, ``male`` or ``neither``."""
    frames = [table.drop_duplicates("image_id") for table in judgements.values() if "truth_gender" in table]
    if not frames:
        return pd.Series(dtype=object)
    genders = pd.concat(frames).set_index("image_id")["truth_gender"].astype(object)
    return genders.where(genders.isin(GENDERS), "neither")


def votes(annotations: pd.DataFrame) -> pd.Series:
    """Return the majority on each annotated image, by normalized id. Raises InputError: An image has several
    rows.
    """
    majority = annotated.votes(annotations, ["image_id"]).set_index("image_id")["label"]
    return majority[majority != "unannotated"]


def join_votes(annotations: pd.DataFrame, judgements: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of annotated images, one row each, with a column ``vote``."""
    images = judgements.drop_duplicates("image_id")
    images = images.assign(vote=images["image_id"].map(normalize).map(votes(annotations).to_dict()).astype(object))
    return images.dropna(subset="vote").reset_index(drop=True)


def disagreements(annotations: pd.DataFrame, judgements: pd.DataFrame) -> pd.DataFrame:
    """Return judged images with a different label by annotators, sorted by certainty of the judge, highest first."""
    pairs = join_votes(annotations, judgements)
    wrong = pairs[(pairs["status"] == JUDGED) & (pairs["gender"] != pairs["vote"])]
    sure = (wrong["probability_female"] - 0.5).abs()
    return wrong.loc[sure.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)
