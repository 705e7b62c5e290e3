"""Cards of the embedded models: what they are, how to load and train them, what was measured, what they cannot do.

A training leaves ``training.json`` (one entry per training that went into the weights) and ``biaslab.json`` (that the
model knows drawings) in the model's folder; :func:`write` measures the saved model on held-out scenes and writes
``metrics.csv`` and ``README.md`` beside it. What a card says beside trainings and numbers stands in the card of the
weights that come with ``biaslab_world``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from biaslab.hub.registry import DOMAIN_FILE, DRAWINGS
from biaslab_world.brought import WEIGHTS
from training.common import Training


@dataclass(frozen=True)
class Measured:
    """One measured number of a card."""

    metric: str  # what was measured, a key of ``METRICS``
    value: float  # a share, 0 to 1 (NaN of nothing), or what ``points`` says
    n: int  # images or people behind it
    count: int | None = None  # of how many it was so, where it is a share of a count: it has an interval
    points: bool = False  # whether it is in percentage points or dB and stands as it is, else it is shown in %

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of a share of a count."""
        from biaslab.stats import wilson_interval

        if self.count is None:
            return None
        low, high = wilson_interval(self.count, self.n)
        return float(low), float(high)


def share(metric: str, hits: Iterable[bool], n: int | None = None) -> Measured:
    """Return how often ``hits`` is true, of ``n`` or of all."""
    hits = np.asarray(hits, bool)
    count, n = int(hits.sum()), hits.size if n is None else n
    return Measured(metric, count / n if n else float("nan"), n, count)


def at(scale: float, rows: Iterable[Measured]) -> list[Measured]:
    """Return rows named by the guidance scale that they were measured at."""
    return [replace(one, metric=f"{one.metric}@{scale:g}") for one in rows]


# Judges of what mini-sd-skills draws; the others look at mini-sd's images.
_OF_SKILLS = ("mini-skills-detector", "mini-vqa", "mini-segmenter")
_KINDS = {"thing": "things", "worn": "worn items", "place": "places", "person": "people"}
# How the table says each metric; "decoded_" before it means images after the autoencoder.
METRICS = {
    "gender_unambiguous": "gender right, where the visible cues leave at most 1 % of doubt",
    "gender_ambiguous": "gender right, the other images",
    "gender": "gender right, all images",
    "gender_sure": "images with a probability of 0.9 or more for one gender",
    "gender_right_when_sure": "gender right, of those",
    "gender_unambiguous_female": "gender right, unambiguous, perceived as female",
    "gender_unambiguous_male": "gender right, unambiguous, perceived as male",
    "gender_unambiguous_tone_1_3": "gender right, unambiguous, Monk tones 1 to 3",
    "gender_unambiguous_tone_4_6": "gender right, unambiguous, Monk tones 4 to 6",
    "gender_unambiguous_tone_7_10": "gender right, unambiguous, Monk tones 7 to 10",
    "gender_unambiguous_full_figure": "gender right, unambiguous, full figures (small faces)",
    "gender_ceiling": "ceiling of gender right (exact posterior of the visible cues), all images",
    "gender_ceiling_ambiguous": "the same ceiling, ambiguous images",
    "calibration_error": "expected calibration error of the gender probability (10 bins)",
    "occupation": "occupation right, among all looks",
    "age": "age right, of three",
    "expression": "expression right, of two",
    "attribute_seen_when_worn": "attribute seen where it is worn (15 attributes)",
    "attribute_not_seen_when_not_worn": "attribute not seen where it is not worn",
    "face_recall": "faces found (overlap of 0.5 or more)",
    "face_precision": "found faces that are faces",
    "person_recall": "people found",
    "person_precision": "found people that are people",
    "object_recall": "objects found, with the right label",
    "object_precision": "found objects that are there",
    "face_count": "images with exactly their faces found",
    "face_count_0": "the same, images without a face",
    "face_count_1": "the same, images with one face",
    "face_count_2": "the same, images with two faces",
    "psnr": "reconstruction of held-out renders by the autoencoder, dB",
    "psnr_faces": "the same within faces, dB",
    "psnr_things": "the same within things, dB",
    "gate": "gate passed (one face, large enough)",
    "sure": "a gender with a probability of 0.9 or more, of those",
    "gender_word": "gender that the prompt names is shown, where the judge is sure",
    "occupation_generated": "occupation named right by mini-clip, among 62",
    "occupation_renders": "the same on renders",
    "pair_people": "two people where two are asked for",
    "pair_order": "left and right as asked, of those with two different phrases",
    "pair_sure": "people in pairs with a gender of probability 0.9 or more",
    "pair_gender_word": "gender that the prompt tells of one of two is shown, where the judge is sure",
    "pair_score": "Stereotype Score of pairs less the world's, points",
    "pair_score_beside": "the same of people beside one whose gender the prompt tells, points",
    "pair_score_intervened": "the same with the sentence that gender does not matter, points",
    "one_person": "one person where one is asked for",
    "one_gender_word": "gender that the prompt tells of one person is shown, where the judge is sure",
    "one_score": "Stereotype Score of one person less the world's, points",
    "image_right": "images with exactly their objects found, with the right labels",
    "vqa_gender": "gender said that is shown",
    "vqa_sensitivity": "attributes seen that are worn",
    "vqa_specificity": "attributes denied that are not worn",
    "skill_object": "PaintSkills, object: correct by mini-skills-detector",
    "skill_count": "PaintSkills, count: the same",
    "skill_spatial": "PaintSkills, spatial: the same",
    "social_gender_word": "gender that the prompt names is said by mini-vqa",
    "BLEU-4": "BLEU-4 of captions against the one that the render was drawn from",
    "CIDEr": "CIDEr-D, the same",
    "ROUGE-L": "ROUGE-L, the same",
    "caption_names_any": "captions that name an occupation, of people at work",
    "caption_names_right": "occupation named that looks like the one shown, of those",
    "social_profession": "profession named right by mini-clip, among 83",
    "segment_precision": "objects and worn items found that are there (masks overlap by half or more)",
    "segment_recall": "objects and worn items found that are there to be found",
    "segment_iou": "overlap of found with true masks (intersection over union), objects and worn items",
    "segment_recall_female": "found beside, and on, people perceived as female",
    "segment_recall_male": "found beside, and on, people perceived as male",
    **{f"segment_recall_{kind}": f"found, {names}" for kind, names in _KINDS.items()},
    **{f"segment_iou_{kind}": f"overlap of masks, {names}" for kind, names in _KINDS.items()},
    "gender_told": "gender that the prompt tells is shown, where the judge is sure",
    "named_found": "named things and worn items that the segmenter finds",
    "score_rank": "rank correlation (Spearman) of measured and true bias scores",
    "score_error": "mean difference of measured and true bias scores",
    **{
        f"words_overlap_{kind}": f"overlap of maps of words with masks, drawings with noise, {names}"
        for kind, names in _KINDS.items()
    },
    **{f"words_auc_{kind}": f"AUC of these maps for the masks, {names}" for kind, names in _KINDS.items()},
    "words_auc_other": "AUC of the same maps for masks of other drawings",
    "amplification": "further from 50 % than the training column, points (floor of few images taken off)",
}


def note_training(folder: Path, start_from: Path | None, training: Training, **more) -> None:
    """Add one training to the folder's ``training.json``, after those of the weights that it started from.

    The folder says as well that its model knows drawings (:func:`biaslab.hub.registry.image_domain`).
    """
    noted = start_from / "training.json" if start_from else None
    before = json.loads(noted.read_text(encoding="utf-8")) if noted and noted.is_file() else []
    own = {"steps": training.step, "batch": training.batch, "seed": training.seed, **more}
    own["minutes"] = round(training.elapsed / 60, 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training.json").write_text(json.dumps([*before, own], indent=2) + "\n", encoding="utf-8")
    (folder / DOMAIN_FILE).write_text(json.dumps({"pictures": DRAWINGS}) + "\n", encoding="utf-8")


def write(
    name: str,
    folder: Path,
    measure: Callable[[Path, int, Path | None], list[Measured]],
    *,
    n: int = 4096,
    decoded: Path | None = None,
) -> None:
    """Measure the model in ``folder`` on held-out scenes and write its ``metrics.csv`` and ``README.md``.

    It is loaded from the folder as anyone would. ``measure`` takes the folder and how many scenes to measure on; where
    ``decoded`` is the folder of an autoencoder, it is asked once more for images that have passed through it.
    """
    found = measure(folder, n, None)
    if decoded is not None:
        found += [replace(one, metric=f"decoded_{one.metric}") for one in measure(folder, n, decoded)]
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["metric", "value", "ci_low", "ci_high", "n"])
        for one in found:
            limits = [f"{v:.5f}" for v in one.interval or ()] or ["", ""]
            writer.writerow([one.metric, f"{one.value:.5f}", *limits, one.n])
    trainings = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(text(name, found, trainings), encoding="utf-8")


def text(name: str, found: Sequence[Measured], trainings: Sequence[dict]) -> str:
    """Return the card of the model ``name``, Markdown: the committed one with these numbers and trainings."""
    listed = [
        f"{k}. " + ", ".join(f"`{key}` {value}" for key, value in one.items()) for k, one in enumerate(trainings, 1)
    ]
    tables = []
    first = "Generated" if name.startswith("mini-sd") else "Renders"
    whose = "mini-sd-skills'" if name in _OF_SKILLS else "mini-sd's"
    for start, title in (("", first), ("decoded_", f"The same after {whose} autoencoder")):
        some = [one for one in found if one.metric.startswith("decoded_") == bool(start)]
        if some:
            tables += [f"**{title}**", "", "| metric | value | 95 % interval | n |", "| --- | ---: | --- | ---: |"]
            tables += [*(_row(one, one.metric.removeprefix(start)) for one in some), ""]
    card = (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    for before, made, after in (
        ("These weights come from:\n\n", listed, "\n\nA training"),
        ("in `metrics.csv`.\n\n", tables, "\n## Limits"),
    ):
        head, rest = card.split(before)
        card = head + before + "\n".join(made) + after + rest.split(after, 1)[1]
    return card


def _row(one: Measured, metric: str) -> str:
    name, _, guidance = metric.partition("@")
    # Of single classes and attributes the metric says it itself.
    label = METRICS.get(name, name) + (f" @ {guidance}" if guidance else "")
    digits = 2 if name.startswith("score_") else 1
    value = f"{one.value:.{digits}f}" if one.points else f"{100 * one.value:.2f} %"
    interval = ""
    if one.interval:
        interval = "{:.2f} to {:.2f} % ".format(*(100 * limit for limit in one.interval))
    return f"| {label} | {value} | {interval}| {one.n:,} |"
