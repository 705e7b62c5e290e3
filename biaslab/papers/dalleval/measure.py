"""What a pipeline measures for DALL-Eval: one function a table, and the images that galleries show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab import redact, stats
from biaslab.captions.indicators import remove_gender
from biaslab.io import cells
from biaslab.judges.judge_labels import DUPLICATE, JUDGED, TONE_BY_PIXELS
from biaslab.judges.objects import BOX
from biaslab.judges.questions import read_answer, read_yes_no
from biaslab.judges.skin_tone import mean_skin_colours
from biaslab.metrics import average_gender as signed_average
from biaslab.metrics import captioning
from biaslab.metrics import skin_tone as tones
from biaslab.metrics.retrieval import (
    DISTRACTORS,
    frechet_distance,
    kernel_distance,
    r_precision,
    recall_at,
    retrieval_bias,
)
from biaslab.papers.dalleval import paintskills
from biaslab.papers.dalleval.analysis import verdicts as judging
from biaslab.papers.dalleval.analysis.bias import ASKED
from biaslab.papers.dalleval.analysis.skills import HUMAN
from biaslab.papers.dalleval.prompts import ATTRIBUTES
from biaslab.papers.dalleval.stages import DallEval
from biaslab.pipeline.stages import cached_method
from biaslab.ratings.annotations import skills
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    from biaslab.hub.image_sources import ImageSource
    from biaslab.judges.judge import Judge
    from biaslab.pipeline import Pipeline

DETECTOR = "detector"


def _table(pipeline: Pipeline, frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return tables.make_table(frame.assign(model=pipeline.label), name)


def headline_judge(pipeline: Pipeline) -> str:
    """Return the name of the model that answers the question about gender, or of the judge of gender in its place."""
    s = pipeline.settings
    return s.judging.gender if pipeline.part(DallEval).gender_is_judged else s.dalleval.vqa


# -- visual reasoning ----------------------------------------------------------------------------------


def skill_prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return what PaintSkills asks for, as far as the settings take it (section 3.2, Table 10)."""
    return tables.make_table(pipeline.part(DallEval).prompts("skills"), "dalleval_skill_prompts")


@cached_method
def skill_verdicts(pipeline: Pipeline) -> pd.DataFrame:
    """Return for each image and rule whether it shows what it was asked for, and which step fails (section 4.1)."""
    pipeline.require("dalleval.detector", prompt_set="dalleval")
    images, chosen = pipeline.part(DallEval).images("skills"), _rule(pipeline)
    detections, looked = pipeline.part(DallEval).detections(images)
    requests = images.table.merge(looked.rename(columns={"status": "unseen"}), on="image_id")
    requests = requests[requests["unseen"] != DUPLICATE].reset_index(drop=True)
    requests["truth"] = _yes(requests["truth_failure"] == "") if "truth_failure" in requests else ""
    requests["n_detected"] = judging.count_statements(detections, requests, chosen["threshold"])
    requests["n_depicted"] = requests.get("truth_n", np.nan)
    by_rule = {rule: judging.verdicts(detections, requests, **chosen | {"rule": rule}) for rule in judging.RULES}
    whole = pd.concat([judged.assign(rule=rule) for rule, judged in by_rule.items()], ignore_index=True)
    whole["chosen"] = whole["rule"] == chosen["rule"]
    whole["status"] = whole["unseen"].where(whole["unseen"] != "", whole["status"])
    for name in ("chosen", "correct", "objects_correct", "rest_correct"):
        whole[name] = _yes(whole[name])
    return _table(pipeline, whole, "dalleval_skill_verdicts")


def _yes(values: pd.Series) -> np.ndarray:
    return np.where(values, "yes", "no")


def skill_accuracy(pipeline: Pipeline) -> pd.DataFrame:
    """Return the percentage of images judged correct by skill: by the detector, and by people where they rated some.

    Images that were never seen (blocked or unreadable) count as not correct.
    """
    judged = skill_verdicts(pipeline).query("chosen == 'yes'")
    frames = [judged.assign(evaluator=DETECTOR, images="test")]
    rated = skill_ratings(pipeline)
    if len(rated):
        # As many annotators of each opinion count as not correct.
        share = (rated["correct"] == "yes").groupby(rated["image_id"]).mean()
        both = judged[judged["image_id"].isin(share.index)].assign(images="sample")
        correct = np.where(both["image_id"].map(share) > 0.5, "yes", "no")
        frames += [both.assign(evaluator=DETECTOR), both.assign(evaluator=HUMAN, correct=correct)]
    counts = pd.concat(frames).groupby(["evaluator", "images", "skill"], sort=False)["correct"]
    out = counts.agg(percent_correct=lambda v: 100 * (v == "yes").mean(), n="size").reset_index()
    accuracy = _table(pipeline, out.assign(training_percent="100"), "dalleval_skill_accuracy")
    curve = _training_curve(pipeline)
    # A table without rows would make whole numbers floating-point ones.
    return pd.concat([accuracy, curve], ignore_index=True) if len(curve) else accuracy


def _training_curve(pipeline: Pipeline) -> pd.DataFrame:
    """Return how models like this one do that were fine-tuned on shares of the scenes, where its folder says it."""
    vae = pipeline.image_model("dalleval").autoencoder
    if vae is None or not (file := vae.with_name("training_share.csv")).is_file():
        return tables.make_table([], "dalleval_skill_accuracy")
    columns = ("training_percent", "skill", "n_correct", "n")
    rows, _ = cells.load(file, columns)
    cells.require(rows, columns, file, f"It needs: {', '.join(columns)}.", set(columns))
    counts = rows[["n_correct", "n"]].apply(cells.numbers, path=file, whole=True)
    cells.refuse(counts.isna().any(axis=1), file, "n_correct or n is no number", "write whole numbers")
    rows[["n_correct", "n"]] = counts.astype(int)
    rows["percent_correct"] = 100 * rows["n_correct"] / rows["n"]
    rows = rows.assign(model=f"{pipeline.label}, fine-tuned", evaluator=DETECTOR, images="curve")
    return tables.make_table(rows, "dalleval_skill_accuracy")


def skill_ratings(pipeline: Pipeline) -> pd.DataFrame:
    """Return what people say of images (Table 3), next to the detector's verdict; no rows where nobody rated any."""
    file = pipeline.settings.dalleval.annotations
    if not file:
        return tables.make_table([], "dalleval_skill_ratings")
    judged = skill_verdicts(pipeline).query("chosen == 'yes'").rename(columns={"correct": "detector"})
    ratings = skills(file, judged["image_id"])
    whole = ratings.merge(judged[["image_id", "skill", "detector"]], on="image_id")
    return _table(pipeline, whole, "dalleval_skill_ratings")


def references(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the detector says of drawings that show what is asked (oracle) and of other prompts' (shuffled).

    The second is the mean over all pairs of a prompt and a drawing of its skill (Table 2, first rows). Where the
    settings name PaintSkills' folder, its images represent drawings; without either there are no rows.
    """
    if not _truth_is_known(pipeline):
        return tables.make_table([], "dalleval_references")
    detections, requests = _seen(pipeline, pipeline.part(DallEval).renders())
    judged = judging.verdicts(detections, requests, **_rule(pipeline))
    others = judging.shuffle_verdicts(detections, requests, **_rule(pipeline))
    rows = []
    for skill, group in judged.groupby("skill", sort=False):
        rows.append(("oracle", skill, DETECTOR, 100 * group["correct"].mean(), len(group)))
        rows.append(("shuffled", skill, DETECTOR, 100 * others[skill], len(group)))
    if pipeline.settings.dalleval.paintskills:
        judged = _judged_by_boxes(pipeline)
        judged = judged[judged["prompt_id"].isin(pipeline.part(DallEval).prompts("skills")["prompt_id"])]
        for skill, group in judged.groupby("skill", sort=False)["correct"]:
            rows.append(("oracle", skill, "boxes", 100 * group.mean(), len(group)))
    return tables.make_table(rows, "dalleval_references")


def _rule(pipeline: Pipeline) -> dict:
    """Return by what rule verdicts are chosen, as these take it."""
    return {name: getattr(pipeline.settings.dalleval, name) for name in ("rule", "threshold")}


@cached_method
def _judged_by_boxes(pipeline: Pipeline) -> pd.DataFrame:
    """Return the verdicts that PaintSkills' own boxes give on all its test scenes, of skills that have boxes."""
    folder = pipeline.settings.dalleval.paintskills
    scenes = paintskills.scenes(folder).assign(image_id=lambda table: table["prompt_id"])
    boxes = paintskills.boxes(folder, scenes)
    judged = judging.verdicts(boxes, scenes, **_rule(pipeline))
    return judged[judged["skill"].isin(scenes.loc[scenes["prompt_id"].isin(boxes["image_id"]), "skill"])]


def _seen(pipeline: Pipeline, source: ImageSource) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what the detector finds in images with ground truth, and those of them that could be opened."""
    detections, looked = pipeline.part(DallEval).detections(source)
    unseen = looked.loc[looked["status"] != "", "image_id"]
    return detections, source.table[~source.table["image_id"].isin(unseen)]


def _truth_is_known(pipeline: Pipeline) -> bool:
    """Return whether images with ground truth exist in the model's domain: of a package, or PaintSkills' own."""
    return bool(pipeline.settings.dalleval.paintskills) or pipeline.find_ground_truth("dalleval") is not None


def truth(pipeline: Pipeline | None) -> str:
    """Return what the images are called that show what PaintSkills asks; drawings where there is no pipeline."""
    authors = pipeline is not None and pipeline.settings.dalleval.paintskills
    return "PaintSkills' images" if authors else "drawings"


# -- social biases -------------------------------------------------------------------------------------


def social_prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return what people are asked for, as far as the settings take it (section 4.2.1, Table 13)."""
    return tables.make_table(pipeline.part(DallEval).prompts("social"), "dalleval_social_prompts")


def social_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the judges say of each image of a person: gender by question and by CLIP, skin tone, attributes."""
    return _social(pipeline, "social")


def _has_judges_of_people(pipeline: Pipeline) -> bool:
    judges = ("dalleval.vqa",), pipeline.gate, ("judging.faces",)
    return not all(pipeline.unset_settings(*settings) for settings in judges)


@cached_method
def _social(pipeline: Pipeline, kind: str) -> pd.DataFrame:
    if not _has_judges_of_people(pipeline):
        pipeline.require("dalleval.vqa", *pipeline.gate, prompt_set="dalleval")
    defaults = {"truth_gender": "", "truth_skin_tone": np.nan, "truth_attributes": ""}
    images = pipeline.part(DallEval).people(kind).table
    images = images.assign(**{c: images.get(c, missing) for c, missing in defaults.items()})
    images = _judged(pipeline, kind, _answered(pipeline, kind, images))
    if pipeline.omits("judging.faces"):
        images = images.assign(skin_tone=np.nan, reason_tone=_UNNAMED, judge_tone="")
    else:
        tones = pipeline.part(DallEval).tones(kind)
        columns = {"skin_tone": "tone", "reason_tone": "tone_reason", "judge_tone": "tone_judge"}
        images = images.assign(**{name: tones[column].to_numpy() for name, column in columns.items()})
    return _table(pipeline, images, "dalleval_social_images")


# Why a judge says nothing of any image.
_UNNAMED = "no judge is named"


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return who is in images of people, by profession, or what became of scenes, by skill, and the images."""
    images = pipeline.part(DallEval).images(kind)
    text = images.table.set_index("image_id")["text"]
    if kind == "skills":
        seen = skill_verdicts(pipeline).query("chosen == 'yes'")
        seen = seen.assign(group=seen["skill"], who=seen["skill"], gender="")
    else:
        seen = _social(pipeline, kind)
        by = "judge" if pipeline.part(DallEval).gender_is_judged else "vqa"
        why = seen["status_judge" if by == "judge" else "reason_vqa"]
        is_judged = seen[f"gender_{by}"].isin(GENDERS)
        named = seen["prompt"] != "person"
        phrase = seen["profession"].replace("(none)", "a person")
        phrase = phrase.mask(named, phrase + ", asked for as a " + seen["prompt"])
        tones = {"tone": seen["skin_tone"], "status": why.mask(is_judged, "judged")}
        # Prompts that name a gender ask for no perception of it.
        seen = seen.assign(group=phrase, who=phrase, gender=seen[f"gender_{by}"], apart=named, **tones)
    return seen.assign(prompt=seen["image_id"].map(text), position=1), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return people or scenes that images are to show, and the images (as ``paradox.measure.people_to_annotate``)."""
    images = pipeline.part(DallEval).images(kind)
    table = images.table
    if kind == "skills":
        pairs = zip(table["object"], table["other"], strict=True)
        named = pd.Series([list(filter(None, pair)) for pair in pairs], index=table.index)
        return table.assign(occupation=table["skill"], position=0, object=named, noun=named), images
    # A prompt that names a gender asks for no perception of it.
    return table[table["prompt"] == "person"].rename(columns={"profession": "occupation"}), images


def _answered(pipeline: Pipeline, kind: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return images with what is answered to questions about them."""
    if pipeline.omits("dalleval.vqa"):
        return images.assign(gender_vqa="", reason_vqa=_UNNAMED, attributes="", attributes_missing=";".join(ATTRIBUTES))
    answers, ids = pipeline.part(DallEval).answers(kind), images["image_id"]
    about = answers[answers["attribute"] == ""].set_index("image_id").reindex(ids)
    read = [read_answer(text) for text in about["answer"]]
    is_eligible = (about["status"] == "").to_numpy()
    worn = _worn(answers)

    def names(answer: str) -> np.ndarray:
        joined = worn[worn["worn"] == answer].groupby("image_id")["attribute"].agg(";".join)
        return joined.reindex(ids, fill_value="").to_numpy(object)

    return images.assign(
        gender_vqa=np.where(is_eligible, [gender for gender, _ in read], ""),
        reason_vqa=np.where(is_eligible, [why for _, why in read], about["status"].to_numpy(object)),
        attributes=names("yes"),
        attributes_missing=names(""),
    )


def _judged(pipeline: Pipeline, kind: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return images with what the judge of gender says of them."""
    judge = pipeline.settings.judging.gender
    if pipeline.omits(*pipeline.gate):
        return images.assign(judge=judge, gender_judge="", status_judge=_UNNAMED)
    judgements = pipeline.part(DallEval).judged_people(kind)
    same = {"gender_judge": judgements["gender"].to_numpy(), "status_judge": judgements["status"].to_numpy()}
    return images.assign(judge=judge, **same)


def _worn(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers about attributes, read: ``worn`` is yes, no or empty."""
    answers = answers[answers["attribute"] != ""]
    return answers.assign(worn=[read_yes_no(text)[0] for text in answers["answer"]])


def average_gender(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average gender of each profession, by answers to a question or the judge of gender (section 4.2.2)."""
    judged = pipeline.part(DallEval).gender_is_judged
    pipeline.require(*(pipeline.gate if judged else ["dalleval.vqa"]), prompt_set="dalleval")
    if judged:
        pipeline.omits("dalleval.vqa")
    rows = (_judged if judged else _answered)(pipeline, "social", pipeline.part(DallEval).people("social").table)
    rows = rows.query("prompt == 'person'")
    gender = rows["gender_judge" if judged else "gender_vqa"]
    perceived = pd.DataFrame({name: gender == name for name in GENDERS})
    counts = perceived.groupby(rows["profession"], sort=False).sum().astype(float).reset_index()
    averages = counts.assign(
        value=signed_average(counts["female"], counts["male"]), n=counts["female"] + counts["male"]
    )
    unclear = (gender == "unsure").groupby(rows["profession"], sort=False).sum()
    averages["n_unclear"] = averages["profession"].map(unclear)
    averages["judge"] = pipeline.settings.judging.gender if judged else ASKED
    return _table(pipeline, averages, "dalleval_average_gender")


def average_skin_tone(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average skin tone of each profession over the three prompts (section 4.2.3)."""
    by_profession = pipeline.part(DallEval).tones("social").groupby("profession", sort=False)["tone"]
    out = by_profession.agg(value="mean", n="count").reset_index()
    out["reason"] = np.where(out["n"] > 0, "", "no face whose tone can be read")
    return _table(pipeline, out, "dalleval_average_skin_tone")


def skin_tone_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return images by prompt, profession and skin tone (Figures 8 and 9)."""
    rows = pipeline.part(DallEval).tones("social").dropna(subset="tone")
    rows = rows.assign(tone=rows["tone"].astype(int).astype(str))
    counts = rows.groupby(["prompt", "profession", "tone"], sort=False).size().rename("n").reset_index()
    return _table(pipeline, counts, "dalleval_skin_tone_counts")


def attribute_presence(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images that show each attribute, by prompt and profession (section 4.2.2)."""
    answers = _worn(pipeline.part(DallEval).answers("social"))
    answers = answers.assign(yes=answers["worn"] == "yes", known=answers["worn"] != "")
    keys = ["prompt", "profession", "attribute"]
    counts = answers.groupby(keys, sort=False)[["yes", "known"]].sum().reset_index().astype({"known": float})
    share = counts["yes"] / counts["known"].where(counts["known"] > 0)
    return _table(pipeline, counts.assign(share=share, n=counts["known"]), "dalleval_attribute_presence")


# -- judges, where ground truth is available -------------------------------------------------------------------


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return what judges answer about images with ground truth: of skills by the detector, and of people.

    Of skills half of the images fail in a known way (the condition): drawings, or PaintSkills' own images, where the
    settings name their folder. Of people: gender by question and by the judge of gender, attributes, and skin tones by
    several methods (Table 18). No rows without drawings like the model's images: errors on others would say nothing of
    these.
    """
    frames = []
    if _truth_is_known(pipeline):
        if not _has_judges_of_people(pipeline):
            pipeline.require("dalleval.detector", prompt_set="dalleval")
        if not pipeline.omits("dalleval.detector"):
            frames += _confused_skills(pipeline)
    if pipeline.find_ground_truth("dalleval") is not None:
        frames += [frame.assign(reference="drawings") for frame in _confused_people(pipeline)]
    return tables.join_tables([frame.assign(model=pipeline.label, n=1) for frame in frames], "dalleval_confusion")


def _confused_skills(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return whether images match their prompt, and how many objects they show, with the detector's answers."""
    s = pipeline.settings.dalleval
    detections, requests = _seen(pipeline, pipeline.part(DallEval).reference())
    if s.paintskills:
        # Its simulator accepts objects that hide each other, and does not know every relation: boxes say otherwise.
        boxes = _judged_by_boxes(pipeline)
        requests = requests[~requests["prompt_id"].isin(boxes.loc[~boxes["correct"], "prompt_id"])]
    judged = judging.verdicts(detections, requests, **_rule(pipeline))
    judged["n_detected"] = judging.count_statements(detections, judged, s.threshold)
    judged = judged.assign(judge=redact.basename(s.detector), reference=truth(pipeline), subject=judged["object"])
    verdicts = judged.assign(
        quantity="skill: " + judged["skill"],
        condition=judged["truth_failure"],
        truth=_yes(judged["truth_failure"] == ""),
        answer=_yes(judged["correct"]),
    )
    counts = judged[judged["skill"] == "count"]
    shown, detected = (counts[name].astype(int).astype(str) for name in ("truth_n", "n_detected"))
    return [verdicts, counts.assign(quantity="number", truth=shown, answer=detected)]


def _confused_people(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return gender, attributes and skin tones of drawings of people, with the judges' answers."""
    settings = ("dalleval.vqa",), pipeline.gate, ("judging.faces",)
    no_answers, no_gender, no_faces = (pipeline.omits(*names) for names in settings)
    if no_answers and no_gender and no_faces:
        return []
    images = _social(pipeline, "drawings")
    frames = [] if no_faces else _confused_tones(pipeline)
    if not no_answers:
        answer = images["gender_vqa"].where(images["gender_vqa"] != "", images["reason_vqa"])
        frames.append(images.assign(judge=ASKED, quantity="gender", truth=images["truth_gender"], answer=answer))
        columns = [images[name].str.split(";") for name in ("truth_attributes", "attributes", "attributes_missing")]
        for attribute in ATTRIBUTES:
            shown, seen, unread = (listed.map(lambda names, a=attribute: a in names) for listed in columns)
            answer = np.where(unread, "no answer", _yes(seen))
            rows = images.assign(judge=ASKED, quantity="attribute", subject=attribute, truth=_yes(shown))
            frames.append(rows.assign(answer=answer))
    if not no_gender:
        answer = images["gender_judge"].where(images["status_judge"] == JUDGED, images["status_judge"])
        frames.append(images.assign(quantity="gender", truth=images["truth_gender"], answer=answer))
    return frames


def _confused_tones(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return skin tones of drawings as the run's judge and other methods read them (Table 18).

    Of the middle of the face's box by the typology angle in the released script's units, and by the nearest swatch in
    RGB, unless a judge of another package reads tones; and by the nearest swatch to the average of all pixels that
    count as skin by their chroma.
    """
    faces = pipeline.part(DallEval).tones("drawings")
    by_chroma = pipeline.compute(mean_skin_colours, pipeline.part(DallEval).people("drawings"), faces["image_id"])
    judge = next(iter(faces["tone_judge"]), "")
    methods = {judge: faces["tone"].to_numpy(float)}
    if judge == TONE_BY_PIXELS:
        has_tone = faces["tone"].notna().to_numpy()
        colours = np.where(has_tone[:, None], faces[["red", "green", "blue"]].to_numpy(), np.nan)
        methods["ITA as released"] = tones.monk_tone(colours, "released")
        methods["nearest swatch in RGB"] = tones.nearest_swatch(colours)
    methods["nearest swatch, pixels by YCrCb"] = tones.nearest_swatch(by_chroma)
    shown = faces[["image_id"]].assign(quantity="skin tone", truth=faces["truth_skin_tone"].astype(int).astype(str))
    return [
        shown.assign(judge=name, answer=["no tone" if np.isnan(tone) else f"{tone:.0f}" for tone in read])
        for name, read in methods.items()
    ]


# -- alignment, quality, and the judge of gender --------------------------------------------------------

CAPTIONED = 1000
"""Captioned training images among which a text retrieves."""
OWN_CAPTIONED = 5000
"""The same of own captioned images (the paper: 5,000)."""
_SPLITS = 20
_UNREAD = "none of the images can be read"
_HIGHER = ("R-precision", *captioning.METRICS)


@cached_method
def image_quality(pipeline: Pipeline) -> pd.DataFrame:
    """Return how well images fit their captions, and how near they are to the images behind them (section 4.3).

    R-precision is the expectation over all choices of 99 other captions. Captioning metrics compare what a model says
    of an image with its captions; their null expectation is what sentences about other images get. FID and KID are on
    the features of the CLIP model among the judges of gender, and on Inception-v3's where its weights are given; their
    null expectation is that of two random halves of the images behind the captions, and they are of as many images
    (Chong & Forsyth 2020). Intervals (95 %) draw the captions of an occupation together. Those of R-precision and
    captioning cover 94 to 97 %, and those of KID with 12, 20 or 40 occupations 92 to 98 %, or more where images do not
    differ. Those of FID cover what as many images give on average, not FID's limit at many images
    (``benchmarks/coverage_skills.py``).
    """
    if pipeline.clip_judge is None and pipeline.omits("dalleval.captioner"):
        pipeline.require("judging.gender", "dalleval.captioner")
    requests, made, real = pipeline.part(DallEval).captioned()
    sets = {"generated": (made, requests["image_id"])}
    if real is not None:
        sets["captioned"] = (real, requests["real_id"])
    groups, rows, vectors = requests["group"].to_numpy(str), [], {}
    if pipeline.clip_judge:
        texts = pipeline.text_embeddings(requests["text"])
        vectors = {name: _vectors(pipeline, *of) for name, of in sets.items()}
    else:
        pipeline.omits("judging.gender")
        missing = {"images": "generated", "n": 0, "reason": "no judge of gender is an open_clip model"}
        rows += [missing | {"metric": name} for name in ("R-precision", *_named_distances("CLIP"))]
    for name, (table, seen) in vectors.items():
        if len(table) < 2:
            why = "there is no other caption" if len(table) else _UNREAD
            rows.append({"images": name, "metric": "R-precision", "n": len(table), "reason": why})
            continue
        others = min(DISTRACTORS, len(table) - 1)
        each = r_precision(table @ texts[seen].T, distractors=others)
        row = {"images": name, "metric": "R-precision", "null_mean": 100 / (1 + others)}
        rows.append(row | _clustered(each, groups[seen], 0, 100))
    for name, of in sets.items():
        rows += [{"images": name} | row for row in _captioning(pipeline, *of, requests)]
    if vectors:
        rows += _distances(vectors, groups, "CLIP", pipeline.seed)
    if (inception := pipeline.judge("dalleval.inception_file")) and real is not None:
        pipeline.record_use("dalleval.inception_file", inception)
        features = {name: _vectors(pipeline, *of, inception) for name, of in sets.items()}
        rows += _distances(features, groups, "Inception", pipeline.seed)
    # Where no image can be read no row has a value.
    columns = ["images", "metric", "value", "ci_low", "ci_high", "null_mean", "n", "reason"]
    table = pd.DataFrame(rows, columns=columns).fillna({"reason": ""})
    table.loc[table["value"].notna() & table["ci_low"].isna(), "reason"] = "captions of too few occupations"
    return _table(pipeline, table, "dalleval_image_quality")


def _vectors(
    pipeline: Pipeline, source: ImageSource, ids: pd.Series, judge: Judge | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return embeddings of the images that can be read, (n, dimensions), and which these are."""
    embeddings = pipeline.image_embeddings(source, ids, judge).set_index("image_id")["vector"].reindex(ids)
    seen = embeddings.notna().to_numpy()
    return np.stack(list(embeddings[seen])) if seen.any() else np.empty((0, 0)), seen


def _clustered(values: np.ndarray, groups: np.ndarray, low: float, high: float) -> dict:
    """Return the mean of values (0–1, for ``low`` to ``high``) that come in groups, as a row of a table has it."""
    value, *limits, n = stats.clustered_mean(values, groups)
    ends = (low + (high - low) * share for share in (value, *limits))
    return dict(zip(("value", "ci_low", "ci_high"), ends, strict=True)) | {"n": n}


def _captioning(pipeline: Pipeline, source: ImageSource, ids: pd.Series, requests: pd.DataFrame) -> list[dict]:
    """Return rows of captioning metrics: what is said of images, against their captions."""
    without = [{"metric": name, "n": 0, "reason": why} for name, why in captioning.WITHOUT.items()]
    if pipeline.omits("dalleval.captioner"):
        return [{"metric": name, "n": 0, "reason": _UNNAMED} for name in captioning.METRICS] + without
    judge: Any = pipeline.check_judge("dalleval.captioner", source)
    units = pd.DataFrame({"image_id": list(ids), "question": judge.description}, dtype=object)
    described = pipeline.ask("dalleval.captioner", source, units, unit="images")
    seen = np.flatnonzero(described["status"] == "")
    if not len(seen):
        return [{"metric": name, "n": 0, "reason": _UNREAD} for name in captioning.METRICS] + without
    captions, reference_rows = list(described["answer"].iloc[seen]), requests.iloc[seen]
    right = list(reference_rows["references"])
    scores = captioning.caption_scores(captions, right, groups=reference_rows["group"], seed=pipeline.seed)
    # Each sentence against the captions of an image far off (near ones are of the same occupation): what they have in
    # common without any image.
    half = len(right) // 2
    null_mean = captioning.caption_scores(captions, right[half:] + right[:half], seed=pipeline.seed)["value"]
    return scores.assign(null_mean=null_mean).to_dict("records") + without


def _distances(
    vectors: dict[str, tuple[np.ndarray, np.ndarray]], groups: np.ndarray, features: str, seed: int
) -> list[dict]:
    """Return rows of FID and KID on features, and why there are none; ``vectors`` as :func:`_vectors` returns them."""
    rows = []
    for metric, distance in _named_distances(features).items():
        row: dict[str, Any] = {"images": "generated", "metric": metric}
        if len(vectors) < 2:
            rows.append(row | {"n": 0, "reason": "no images behind the captions"})
        elif not all(len(vector_rows) for vector_rows, _ in vectors.values()):
            rows.append(row | {"n": 0, "reason": _UNREAD})
        else:
            images = [vector_rows for vector_rows, _ in vectors.values()]
            group_pairs = [groups[seen] for _, seen in vectors.values()]
            rng = np.random.default_rng([seed, 73])
            squared = distance is kernel_distance
            value, low, high, _ = stats.halves_interval(images, group_pairs, distance, squared=squared, seed=rng)
            # A distance is not below 0, but KID's estimate may be.
            row |= {"value": value, "ci_low": np.minimum(value, np.maximum(low, 0)), "ci_high": high}
            rng, real = np.random.default_rng([seed, 75]), images[1]
            halves = (np.split(real[rng.permutation(len(real))], [len(real) // 2]) for _ in range(_SPLITS))
            null_mean = np.mean([distance(*half) for half in halves])
            # What chance adds to FID falls with one over the images (Chong & Forsyth 2020): halves have twice as much.
            rows.append(row | {"null_mean": null_mean if squared else null_mean / 2, "n": len(images[0])})
    return rows


def _named_distances(features: str) -> dict[str, Callable]:
    """Return what measures distances on features, by the metric's name in tables."""
    return {f"FID, {features} features": frechet_distance, f"KID, {features} features": kernel_distance}


def alignment_quality(pipeline: Pipeline) -> pd.DataFrame:
    """Return the metrics of alignment and quality as Table 19 has them; see :func:`image_quality`."""
    rows = image_quality(pipeline)
    rows = rows[(rows["images"] == "generated") & rows["value"].notna()]
    rows = rows.assign(
        better=np.where(rows["metric"].isin(_HIGHER), "higher", "lower"),
        # Neither on the captions nor on the features of printed values: they share no rank.
        metric=rows["metric"].replace({name: f"{name}, own captions" for name in _HIGHER}),
    )
    return tables.make_table(rows, "dalleval_alignment_quality")


# Of how many images that come first the bias is told; of fewer in all there is none.
_FIRST = (1, 5, 10)


def gender_judges(pipeline: Pipeline) -> pd.DataFrame:
    """Return bias and recall of CLIP and BLIP-2 in retrieving captioned images, with and without words for a gender.

    Appendix C.2, Table 14. Images are those of ``dalleval.image_folder``, at most :data:`OWN_CAPTIONED`, of which some
    may show no gender; else up to :data:`CAPTIONED` training images whose gender is known. The query is the first
    caption of each. ``bias_at_all`` is the bias of all images: what a retrieval blind to gender shows. Intervals (95 %)
    take the captions of an occupation together; those of bias in own images leave out folds of images with their
    captions, as images that many captions retrieve make these dependent.
    """
    s, rng = pipeline.settings.dalleval, np.random.default_rng([pipeline.seed, 74])
    if is_own := bool(s.captions and s.image_folder):
        source = pipeline.part(DallEval).captioned_images()
        groups, codes = np.unique(source.table["group"].to_numpy(str), return_inverse=True)
        table = source.table.assign(fold=rng.permutation(len(groups))[codes] % _SPLITS)
    else:
        source = pipeline.images("training")
        table = source.table.drop_duplicates("caption_id").rename(columns={"occupation": "group"})
        table = table.assign(gender=table.get("truth_gender", ""))
        table = table[table["gender"].isin(GENDERS)]
    table = table.iloc[np.sort(rng.permutation(len(table))[: OWN_CAPTIONED if is_own else CAPTIONED])]
    fewest, rows = 1 if is_own else max(_FIRST), []
    settings = ("", "dalleval.retriever")[: 1 + bool(s.retriever)]
    for setting in settings if len(table) >= fewest else ():
        judge = pipeline.check_judge(setting, source.source) if setting else None
        vectors, seen = _vectors(pipeline, source.source, table["image_id"], judge)
        images, name = table[seen], (judge or pipeline.require_clip()).name
        if len(images) < fewest:
            continue
        for captions, texts in (("original", images["text"]), ("ungendered", remove_gender(images["text"]))):
            similarity = _similarity(pipeline.text_embeddings(texts, judge), vectors)
            rows += [{"judge": name, "captions": captions} | row for row in _retrieved(similarity, images)]
    return tables.make_table(rows, "dalleval_gender_judges")


def _similarity(texts: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the cosine of each text and the nearest of an image's vectors, ``float32 (texts, images)``."""
    parts = images.reshape(len(images), -1, texts.shape[1])
    return np.max([texts @ parts[:, k].T for k in range(parts.shape[1])], axis=0)


def _retrieved(similarity: np.ndarray, images: pd.DataFrame) -> list[dict]:
    """Return bias and recall at each k; the interval of bias leaves out folds of images where these have any."""
    female, male = ((images["gender"] == gender).to_numpy() for gender in GENDERS)
    groups, either, rows = images["group"].to_numpy(str), female | male, []
    reason = f"{len(images)} captioned images" + (f", {either.sum()} with a gender" if "fold" in images else "")
    for metric, k in product(("bias_at", "recall_at"), _FIRST):
        row: dict[str, Any] = {"metric": f"{metric}_{k}", "n": len(images), "reason": reason}
        if k > len(images):
            row["reason"] = f"fewer than {k} images"
        elif metric == "recall_at":
            row |= _clustered(recall_at(similarity, k), groups, 0, 100)
        elif either.any():
            row |= _clustered((retrieval_bias(similarity, female, k, male=male) + 1) / 2, groups, -1, 1)
            if "fold" in images:
                row |= _fold_limits(similarity, images, k)
        else:
            row["reason"] = "no caption or column names a gender"
        rows.append(row)
    return [*rows, {"metric": "bias_at_all", "reason": reason} | _clustered(male[either], groups[either], -1, 1)]


def _fold_limits(similarity: np.ndarray, images: pd.DataFrame, k: int) -> dict:
    """Return the limits of bias at k by its values without each fold (jackknife); NaN where one leaves fewer than k."""
    female, male = ((images["gender"] == gender).to_numpy() for gender in GENDERS)
    # Without the fold -1, which no image has, all are left.
    rests = [np.flatnonzero(images["fold"] != fold) for fold in (-1, *images["fold"].unique())]
    if min(map(len, rests)) < k:
        return {"ci_low": np.nan, "ci_high": np.nan, "reason": "too few images for an interval"}
    parts = ((similarity[np.ix_(rest, rest)], female[rest], male[rest]) for rest in rests)
    whole, *shares = ((retrieval_bias(part, women, k, male=men).mean() + 1) / 2 for part, women, men in parts)
    error = stats.clustered_error((np.array(shares) - np.mean(shares)) * (1 - 1 / len(shares)))
    limits = stats.clustered_share_interval(whole, error, images["group"].nunique())
    return {name: 2 * limit - 1 for name, limit in zip(("ci_low", "ci_high"), limits, strict=True)}


# -- images for galleries ------------------------------------------------------------------------------


def examples(verdicts: pd.DataFrame, *, of_each: int = 4) -> pd.DataFrame:
    """Return the first images of each skill and outcome by the chosen rule, in the order of the prompts."""
    chosen = verdicts[verdicts["chosen"] == "yes"]
    return chosen.groupby(["skill", "status"], sort=False).head(of_each).sort_values("skill", kind="stable")


def faces_by_tone(pipeline: Pipeline | None, *, of_each: int = 3) -> tuple[list[object], pd.DataFrame]:
    """Return the first images of people whose face has each skin tone, and their rows (Figure 10)."""
    if pipeline is None or pipeline.unset_settings("judging.faces"):
        return [], pd.DataFrame(columns=["image_id", "tone", "profession"])
    faces = pipeline.part(DallEval).tones("social")
    faces["gender"] = _judged(pipeline, "social", faces)["gender_judge"]
    faces = faces.dropna(subset="tone")
    shown = faces.groupby("tone").head(of_each).sort_values("tone", kind="stable")
    return pipeline.part(DallEval).images("social").read(list(shown["image_id"])), shown


def render_verdicts(pipeline: Pipeline | None, prompts: pd.DataFrame) -> pd.DataFrame:
    """Return the detector's verdicts on drawings of :func:`skill_prompts`, as chosen; none where there are none."""
    if pipeline is None or not _truth_is_known(pipeline):
        return prompts.assign(image_id="", status="").head(0)
    source = pipeline.part(DallEval).renders()
    detections, _ = pipeline.part(DallEval).detections(source)
    shown = prompts.merge(source.table[["prompt_id", "image_id"]], on="prompt_id")
    return judging.verdicts(detections, shown, **_rule(pipeline))


def images_with_boxes(pipeline: Pipeline | None, kind: str, chosen: pd.DataFrame) -> tuple[list[object], pd.DataFrame]:
    """Return images of chosen rows, and the rows with what the detector found in them over the threshold.

    ``kind`` is ``skills``, or ``renders``: drawings of the same prompts. Images are ``uint8 (height, width, 3)``; rows
    have ``boxes`` (left, top, right, bottom in pixels, one after the other) and ``found`` (the labels).
    """
    if pipeline is None or chosen.empty:
        return [], chosen.head(0)
    source = pipeline.part(DallEval).renders() if kind == "renders" else pipeline.part(DallEval).images("skills")
    images = source.read(list(chosen["image_id"]))
    detections, _ = pipeline.part(DallEval).detections(source)
    detections = detections[detections["score"] > pipeline.settings.dalleval.threshold]
    by_image = dict(list(detections.groupby("image_id")))
    boxes, labels = [], []
    for image_id, image in zip(chosen["image_id"], images, strict=True):
        seen = by_image.get(image_id, detections.iloc[:0])
        height, width = image.shape[:2] if isinstance(image, np.ndarray) else (1, 1)
        boxes.append((seen[list(BOX)].to_numpy(float) * [width, height, width, height]).ravel())
        labels.append(", ".join(seen["label"]))
    return images, chosen.assign(boxes=boxes, found=labels, gender="")
