"""What a pipeline measures for DALL-Eval: one function a table, and the images that galleries show."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import tables
from biaslab.genders import GENDERS
from biaslab.judging.objects import BOX
from biaslab.measures import average_gender as signed_average
from biaslab.papers.dalleval.analysis import verdicts as judging
from biaslab.papers.dalleval.analysis.skills import HUMAN

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline

DETECTOR = "detector"


def _table(pipeline: Pipeline, frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return tables.of(frame.assign(model=pipeline.label), name)


# -- visual reasoning ----------------------------------------------------------------------------------


def skill_prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return what PaintSkills asks for, as far as the settings take it (section 3.2, Table 10)."""
    return tables.of(pipeline.dalleval.prompts("skills"), "dalleval_skill_prompts")


def skill_verdicts(pipeline: Pipeline) -> pd.DataFrame:
    """Return for each image and rule whether it shows what it was asked for, and which step fails (section 4.1)."""
    return _verdicts(pipeline).copy()


@lru_cache(maxsize=1)
def _verdicts(pipeline: Pipeline) -> pd.DataFrame:
    images = pipeline.dalleval.images("skills")
    found, looked = pipeline.dalleval.detections(images)
    asked = images.table.merge(looked.rename(columns={"outcome": "unseen"}), on="image_id")
    asked = asked.assign(truth=_truth(asked))
    rows = []
    for rule in judging.RULES:
        judged = judging.verdicts(found, asked, rule=rule, threshold=pipeline.settings.dalleval.threshold)
        unseen = judged["unseen"] != ""
        judged["outcome"] = judged["outcome"].where(~unseen, judged["unseen"])
        rows.append(judged.assign(rule=rule, chosen=_yes(rule == pipeline.settings.dalleval.rule)))
    whole = pd.concat(rows, ignore_index=True)
    for name in ("correct", "objects_correct", "rest_correct"):
        whole[name] = _yes(whole[name])
    return _table(pipeline, whole, "dalleval_skill_verdicts")


def _yes(values) -> np.ndarray | str:
    return np.where(values, "yes", "no") if np.ndim(values) else "yes" if values else "no"


def _truth(table: pd.DataFrame) -> np.ndarray | str:
    """Return whether images show what is asked, where that is known; else empty."""
    return _yes(table["truth_failure"] == "") if "truth_failure" in table else ""


def skill_accuracy(pipeline: Pipeline) -> pd.DataFrame:
    """Return the percentage of images judged correct by skill: by the detector, and by people where they rated some.

    Of images that were never seen (blocked or unreadable) nothing is known: they count as not correct, as the paper
    counts them.
    """
    judged = skill_verdicts(pipeline)
    judged = judged[judged["chosen"] == "yes"]
    frames = [judged.assign(evaluator=DETECTOR, images="test")]
    rated = skill_ratings(pipeline)
    if len(rated):
        from biaslab.judging.skill_ratings import majority

        said = majority(rated)
        both = judged[judged["image_id"].isin(said.index)]
        frames.append(both.assign(evaluator=DETECTOR, images="sample"))
        frames.append(both.assign(evaluator=HUMAN, images="sample", correct=both["image_id"].map(said)))
    whole = pd.concat(frames)
    counts = whole.groupby(["evaluator", "images", "skill"], sort=False)["correct"]
    out = counts.agg(percent_correct=lambda v: 100 * (v == "yes").mean(), n="size").reset_index()
    return _table(pipeline, out.assign(training_percent="100"), "dalleval_skill_accuracy")


def skill_ratings(pipeline: Pipeline) -> pd.DataFrame:
    """Return what people say of images (Table 3), beside the detector's verdict; no rows where nobody rated any."""
    from biaslab.judging import skill_ratings as rated

    file = pipeline.settings.dalleval.ratings
    if not file:
        return tables.of([], "dalleval_skill_ratings")
    judged = skill_verdicts(pipeline)
    judged = judged[judged["chosen"] == "yes"].rename(columns={"correct": "detector"})
    said = rated.read(file, judged["image_id"])
    return _table(
        pipeline,
        said.merge(judged[["image_id", "skill", "detector"]], on="image_id"),
        "dalleval_skill_ratings",
    )


def references(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the detector says of drawings that show what is asked (oracle) and of other prompts' (shuffled).

    The second is exact: the mean over all pairs of a prompt and a drawing of its skill (Table 2, first rows).
    """
    source = pipeline.dalleval.renders()
    found, _ = pipeline.dalleval.detections(source)
    s = pipeline.settings.dalleval
    judged = judging.verdicts(found, source.table, rule=s.rule, threshold=s.threshold)
    others = judging.shuffled(found, source.table, rule=s.rule, threshold=s.threshold)
    rows = []
    for skill, of in judged.groupby("skill", sort=False):
        rows.append(("oracle", skill, 100 * of["correct"].mean(), len(of)))
        rows.append(("shuffled", skill, 100 * others[skill], len(of)))
    found = pd.DataFrame(rows, columns=["reference", "measure", "value", "n"])
    return tables.of(found.assign(judge=DETECTOR), "dalleval_references")


def detector_renders(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the detector makes of drawings whose truth is known: some show what is asked, others fail at it.

    Where the model has an autoencoder of its own in a folder here, the drawings have passed through it, as the model's
    images do.
    """
    source = pipeline.dalleval.reference()
    found, _ = pipeline.dalleval.detections(source)
    s = pipeline.settings.dalleval
    judged = judging.verdicts(found, source.table, rule=s.rule, threshold=s.threshold)
    judged = judged.assign(
        failure=judged["truth_failure"].replace("", "none"), correct=_yes(judged["correct"])
    )
    return _table(pipeline, judged.assign(number=judged["n"]), "dalleval_detector_renders")


# -- social biases -------------------------------------------------------------------------------------


def social_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the judges say of each image of a person: gender by question and by CLIP, skin tone, attributes."""
    return _social(pipeline).copy()


@lru_cache(maxsize=1)
def _social(pipeline: Pipeline) -> pd.DataFrame:
    from biaslab.judging.vqa import read_answer, read_yes_no

    faces, said = pipeline.dalleval.faces(), pipeline.dalleval.answers()
    about = said[said["attribute"] == ""].set_index("image_id").reindex(faces["image_id"])
    read = [read_answer(text) for text in about["answer"]]
    gender = np.array([g for g, _ in read], object)
    asked = (about["outcome"] == "").to_numpy()
    worn = said[said["attribute"] != ""]
    yes = worn[[read_yes_no(text)[0] == "yes" for text in worn["answer"]]]
    names = yes.groupby("image_id")["attribute"].agg(";".join).reindex(faces["image_id"]).fillna("")
    unread = worn[[read_yes_no(text)[0] == "" for text in worn["answer"]]]
    missing = unread.groupby("image_id")["attribute"].agg(";".join).reindex(faces["image_id"]).fillna("")
    return _table(
        pipeline,
        faces.assign(
            gender_vqa=np.where(asked, gender, ""),
            reason_vqa=np.where(asked, [why for _, why in read], about["outcome"].to_numpy(object)),
            gender_clip=faces["gender"],
            outcome_clip=faces["outcome"],
            attributes=names.to_numpy(object),
            attributes_missing=missing.to_numpy(object),
            skin_tone=faces["tone"],
            reason_tone=faces["tone_reason"],
            **{c: faces.get(c, missing) for c, missing in _KNOWN.items()},
        ),
        "dalleval_social_images",
    )


_KNOWN = {"truth_gender": "", "truth_skin_tone": np.nan, "truth_attributes": ""}


def _genders(pipeline: Pipeline, column: str) -> pd.DataFrame:
    rows = social_images(pipeline)
    rows = rows[rows["prompt"] == "person"]
    counts = {g: (rows[column] == g).groupby(rows["profession"], sort=False).sum() for g in GENDERS}
    female, male = (counts[g].astype(float) for g in ("female", "male"))
    value = signed_average(female.to_numpy(), male.to_numpy())
    return pd.DataFrame({"profession": female.index, "value": value, "n": (female + male).to_numpy()})


def average_gender(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average gender of each profession, by the answers to the question about it (section 4.2.2)."""
    return _table(pipeline, _genders(pipeline, "gender_vqa"), "dalleval_average_gender")


def average_skin_tone(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average skin tone of each profession over the three prompts (section 4.2.3)."""
    rows = social_images(pipeline)
    of = rows.groupby("profession", sort=False)["skin_tone"]
    out = of.agg(value="mean", n="count").reset_index()
    out["reason"] = np.where(out["n"] > 0, "", "no face whose tone can be read")
    return _table(pipeline, out, "dalleval_average_skin_tone")


def skin_tone_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return images by prompt, profession and skin tone (Figures 8 and 9)."""
    rows = social_images(pipeline).dropna(subset="skin_tone")
    rows = rows.assign(tone=rows["skin_tone"].astype(int).astype(str))
    counts = rows.groupby(["prompt", "profession", "tone"], sort=False).size().rename("n").reset_index()
    return _table(pipeline, counts, "dalleval_skin_tone_counts")


def attribute_presence(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images that show each attribute, by prompt and profession (section 4.2.2)."""
    from biaslab.judging.vqa import read_yes_no

    said = pipeline.dalleval.answers()
    said = said[said["attribute"] != ""]
    answer = np.array([read_yes_no(text)[0] for text in said["answer"]], object)
    said = said.assign(yes=answer == "yes", known=answer != "")
    keys = ["prompt", "profession", "attribute"]
    counts = said.groupby(keys, sort=False)[["yes", "known"]].sum().reset_index().astype({"known": float})
    share = counts["yes"] / counts["known"].where(counts["known"] > 0)
    return _table(pipeline, counts.assign(share=share, n=counts["known"]), "dalleval_attribute_presence")


# -- images for galleries ------------------------------------------------------------------------------


def examples(verdicts: pd.DataFrame, *, of_each: int = 4) -> pd.DataFrame:
    """Return the first images of each skill and outcome by the chosen rule, in the order of the prompts."""
    chosen = verdicts[verdicts["chosen"] == "yes"]
    return chosen.groupby(["skill", "outcome"], sort=False).head(of_each).sort_values("skill", kind="stable")


def render_verdicts(pipeline: Pipeline | None, prompts: pd.DataFrame) -> pd.DataFrame:
    """Return the detector's verdicts on drawings that show what prompts ask for, by the chosen rule.

    Takes rows of :func:`skill_prompts` with the image_id of each drawing; without a pipeline there are none.
    """
    if pipeline is None:
        return prompts.assign(outcome="").head(0)
    found, _ = pipeline.dalleval.detections(pipeline.dalleval.renders())
    s = pipeline.settings.dalleval
    return judging.verdicts(found, prompts, rule=s.rule, threshold=s.threshold)


def with_boxes(
    pipeline: Pipeline | None, kind: str, chosen: pd.DataFrame
) -> tuple[list[object], pd.DataFrame]:
    """Return images of chosen rows, and the rows with what the detector found in them over the threshold.

    Args:
        pipeline: Without one, as for sources that have tables only, there are none.
        kind: ``skills``, or ``renders``: the drawings that show what is asked, of the same prompts.
        chosen: Rows with image_id, as of :func:`skill_verdicts`.

    Returns:
        Images (``uint8 (height, width, 3)``, or what says why there is none), and the rows with ``boxes`` (left, top,
        right, bottom in pixels, one after the other) and ``found`` (the labels).
    """
    if pipeline is None or chosen.empty:
        return [], chosen.head(0)
    source = pipeline.dalleval.renders() if kind == "renders" else pipeline.dalleval.images("skills")
    images = source.read(list(chosen["image_id"]))
    found, _ = pipeline.dalleval.detections(source)
    found = found[found["score"] > pipeline.settings.dalleval.threshold]
    of = dict(list(found.groupby("image_id")))
    boxes, labels = [], []
    for image_id, image in zip(chosen["image_id"], images, strict=True):
        seen = of.get(image_id, found.iloc[:0])
        height, width = image.shape[:2] if isinstance(image, np.ndarray) else (1, 1)
        boxes.append((seen[list(BOX)].to_numpy(float) * [width, height, width, height]).ravel())
        labels.append(", ".join(seen["label"]))
    return images, chosen.assign(boxes=boxes, found=labels, gender="")
