"""Model cards: description, loading, training, evaluation and limitations of the models.

A training writes ``training.json`` (one entry per training that contributed to the weights) and ``biaslab.json`` (the
image domain, drawings) to the model's folder. :func:`write` measures the saved model on held-out scenes and writes
``metrics.csv`` and ``README.md`` there. It updates trainings and metrics in a copy of the card that comes with
``biaslab_world``.
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

    metric: str  # name of the metric, a key of ``METRICS``
    value: float  # a share, 0 to 1 (NaN for n = 0), or a number in the unit of the metric
    n: int  # number of images or people
    count: int | None = None  # numerator of a share of ``n``, which then has an interval
    points: bool = False  # whether the card shows the value as it is (percentage points, dB), else in %

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% Wilson interval of a share with a count."""
        from biaslab.stats import wilson_interval

        if self.count is None:
            return None
        low, high = wilson_interval(self.count, self.n)
        return float(low), float(high)


def share(metric: str, hits: Iterable[bool], n: int | None = None) -> Measured:
    """Return the share of true ``hits`` among ``n``, or among all hits."""
    hits = np.asarray(hits, bool)
    count, n = int(hits.sum()), hits.size if n is None else n
    return Measured(metric, count / n if n else float("nan"), n, count)


def label_guidance(scale: float, rows: Iterable[Measured]) -> list[Measured]:
    """Return ``rows`` with the guidance scale of their images appended to the metric names."""
    return [replace(row, metric=f"{row.metric}@{scale:g}") for row in rows]


# Judges of mini-sd-skills' images; the others judge mini-sd's images.
_SKILLS_JUDGES = ("mini-skills-detector", "mini-vqa", "mini-segmenter")
_KINDS = {"thing": "things", "worn": "worn items", "place": "places", "person": "people"}
# Label of each metric in cards; the prefix "decoded_" marks images that have passed the autoencoder.
METRICS = {
    "gender_unambiguous": "gender accuracy, unambiguous people (visible cues leave at most 1% of doubt)",
    "gender_ambiguous": "gender accuracy, ambiguous people",
    "gender": "gender accuracy, all images",
    "gender_sure": "images with a gender probability of 0.9 or more",
    "gender_right_when_sure": "gender accuracy, images with a gender probability of 0.9 or more",
    "gender_unambiguous_female": "gender accuracy, unambiguous people perceived as female",
    "gender_unambiguous_male": "gender accuracy, unambiguous people perceived as male",
    "gender_unambiguous_tone_1_3": "gender accuracy, unambiguous people, Monk tones 1 to 3",
    "gender_unambiguous_tone_4_6": "gender accuracy, unambiguous people, Monk tones 4 to 6",
    "gender_unambiguous_tone_7_10": "gender accuracy, unambiguous people, Monk tones 7 to 10",
    "gender_unambiguous_full_figure": "gender accuracy, unambiguous people, full figures (small faces)",
    "gender_ceiling": "maximum gender accuracy (exact posterior of the visible cues), all images",
    "gender_ceiling_ambiguous": "maximum gender accuracy, ambiguous people",
    "calibration_error": "expected calibration error of the gender probability (10 bins)",
    "occupation": "occupation accuracy (occupations with the same outfit combined)",
    "age": "age accuracy, three classes",
    "expression": "expression accuracy, two classes",
    "attribute_sensitivity": "attribute sensitivity (15 attributes)",
    "attribute_specificity": "attribute specificity (15 attributes)",
    "face_recall": "face recall (IoU of 0.5 or more)",
    "face_precision": "face precision",
    "person_recall": "person recall",
    "person_precision": "person precision",
    "object_recall": "object recall, with the correct label",
    "object_precision": "object precision, with the correct label",
    "face_count": "images in which exactly the shown faces are detected",
    "face_count_0": "images in which exactly the shown faces are detected, no face shown",
    "face_count_1": "images in which exactly the shown faces are detected, one face shown",
    "face_count_2": "images in which exactly the shown faces are detected, two faces shown",
    "psnr": "PSNR of the autoencoder on held-out renders, dB",
    "psnr_faces": "PSNR of the autoencoder within faces, dB",
    "psnr_things": "PSNR of the autoencoder within things, dB",
    "included": "images that meet the inclusion criteria (exactly one sufficiently large face)",
    "sure": "included images with a gender probability of 0.9 or more",
    "gender_word": "prompted gender shown, among images with a judged gender",
    "occupation_generated": "occupation accuracy by mini-clip, among 62",
    "occupation_renders": "occupation accuracy by mini-clip on renders, among 62",
    "pair_people": "two people detected, prompts for two people",
    "pair_order": "correct order from left to right, prompts with two different phrases",
    "pair_sure": "people in pairs with a gender probability of 0.9 or more",
    "pair_gender_word": "prompted gender shown, among people in pairs with a judged gender",
    "pair_score": "Stereotype Score of pairs minus the world's, points",
    "pair_score_next_to_gendered": "the same difference, next to a person with a prompted gender, points",
    "pair_score_intervened": "the same difference, with the sentence that gender does not matter, points",
    "one_person": "one person detected, prompts for one person",
    "one_gender_word": "prompted gender shown, among single people with a judged gender",
    "one_score": "Stereotype Score of one person minus the world's, points",
    "image_right": "images in which exactly the shown objects are detected, with the correct labels",
    "vqa_gender": "gender accuracy",
    "vqa_sensitivity": "attribute sensitivity",
    "vqa_specificity": "attribute specificity",
    "skill_object": "PaintSkills object accuracy by mini-skills-detector",
    "skill_count": "PaintSkills count accuracy by mini-skills-detector",
    "skill_spatial": "PaintSkills spatial accuracy by mini-skills-detector",
    "social_gender_word": "prompted gender shown, by mini-vqa",
    "BLEU-4": "BLEU-4 against the caption of the render",
    "CIDEr": "CIDEr-D against the caption of the render",
    "ROUGE-L": "ROUGE-L against the caption of the render",
    "caption_names_any": "images of people at work whose generated caption names an occupation",
    "caption_names_right": "correct occupation (or one with the same outfit), among captions that name one",
    "social_profession": "profession accuracy by mini-clip, among 83",
    "segment_precision": "precision, objects and worn items (mask IoU of 0.5 or more)",
    "segment_recall": "recall, objects and worn items",
    "segment_iou": "mean IoU of matched masks, objects and worn items",
    "segment_recall_female": "recall, objects and worn items, people perceived as female",
    "segment_recall_male": "recall, objects and worn items, people perceived as male",
    **{f"segment_recall_{kind}": f"recall, {names}" for kind, names in _KINDS.items()},
    **{f"segment_iou_{kind}": f"mean IoU of matched masks, {names}" for kind, names in _KINDS.items()},
    "prompted_gender": "prompted gender shown, among images with a judged gender",
    "named_found": "recall of named things and worn items by mini-segmenter",
    "score_rank": "Spearman correlation of measured and true bias scores",
    "score_error": "mean absolute difference of measured and true bias scores",
    **{
        f"words_overlap_{kind}": f"overlap of word maps with true masks, noised drawings, {names}"
        for kind, names in _KINDS.items()
    },
    **{
        f"words_auc_{kind}": f"AUC of word maps for true masks, noised drawings, {names}"
        for kind, names in _KINDS.items()
    },
    "words_auc_other": "AUC of word maps for the masks of other drawings",
    "amplification": "distance of shares from 50% minus that of training shares, points (bias-corrected)",
}


def note_training(folder: Path, start_from: Path | None, training: Training, **extra) -> None:
    """Add one training to the folder's ``training.json``, after those of the weights from which it started.

    The function also writes the model's image domain, drawings (:func:`biaslab.hub.registry.image_domain`).
    """
    parent_notes = start_from / "training.json" if start_from else None
    earlier = json.loads(parent_notes.read_text(encoding="utf-8")) if parent_notes and parent_notes.is_file() else []
    entry = {"steps": training.step, "batch": training.batch, "seed": training.seed, **extra}
    entry["minutes"] = round(training.elapsed / 60, 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training.json").write_text(json.dumps([*earlier, entry], indent=2) + "\n", encoding="utf-8")
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

    ``measure`` takes the folder, the number of scenes and the folder of an autoencoder or None. If ``decoded`` is the
    folder of an autoencoder, the model is also measured on images that have passed it.
    """
    rows = measure(folder, n, None)
    if decoded is not None:
        rows += [replace(row, metric=f"decoded_{row.metric}") for row in measure(folder, n, decoded)]
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["metric", "value", "ci_low", "ci_high", "n"])
        for row in rows:
            limits = [f"{v:.5f}" for v in row.interval or ()] or ["", ""]
            writer.writerow([row.metric, f"{row.value:.5f}", *limits, row.n])
    trainings = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(text(name, rows, trainings), encoding="utf-8")


def text(name: str, rows: Sequence[Measured], trainings: Sequence[dict]) -> str:
    """Return the Markdown card of the model ``name``: the committed one with these metrics and trainings."""
    trainings_listed = [
        f"{k}. " + ", ".join(f"`{key}` {value}" for key, value in one.items()) for k, one in enumerate(trainings, 1)
    ]
    tables = []
    first_title = "Generated" if name.startswith("mini-sd") else "Renders"
    autoencoder_owner = "mini-sd-skills'" if name in _SKILLS_JUDGES else "mini-sd's"
    for prefix, title in (("", first_title), ("decoded_", f"Renders after {autoencoder_owner} autoencoder")):
        section = [one for one in rows if one.metric.startswith("decoded_") == bool(prefix)]
        if section:
            tables += [f"**{title}**", "", "| metric | value | 95% interval | n |", "| --- | ---: | --- | ---: |"]
            tables += [*(_row(one, one.metric.removeprefix(prefix)) for one in section), ""]
    card = (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    for before, made, after in (
        ("These weights come from:\n\n", trainings_listed, "\n\nA training"),
        ("in `metrics.csv`.\n\n", tables, "\n## Limitations"),
    ):
        head, remainder = card.split(before)
        card = head + before + "\n".join(made) + after + remainder.split(after, 1)[1]
    return card


def _row(row: Measured, metric: str) -> str:
    name, _, guidance = metric.partition("@")
    # Metrics of single classes and attributes are their own labels.
    label = METRICS.get(name, name) + (f" @ {guidance}" if guidance else "")
    digits = 2 if name.startswith("score_") else 1
    value = f"{row.value:.{digits}f}" if row.points else f"{100 * row.value:.2f}%"
    interval = ""
    if row.interval:
        interval = "{:.2f} to {:.2f}% ".format(*(100 * limit for limit in row.interval))
    return f"| {label} | {value} | {interval}| {row.n:,} |"
