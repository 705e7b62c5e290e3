"""Measure the tables of DALL-Eval from a pipeline, one function per table, and select images for galleries."""

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
from biaslab.papers.dalleval.analysis.bias import VQA_JUDGE
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
    """Return the name of the VQA model that is asked about gender, or of the gender judge that replaces it."""
    s = pipeline.settings
    return s.judging.gender if pipeline.part(DallEval).gender_is_judged else s.dalleval.vqa


# -- visual reasoning ----------------------------------------------------------------------------------


def skill_prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the prompts of PaintSkills that the settings select (section 3.2, Table 10)."""
    return tables.make_table(pipeline.part(DallEval).prompts("skills"), "dalleval_skill_prompts")


@cached_method
def skill_verdicts(pipeline: Pipeline) -> pd.DataFrame:
    """Return for each image and rule whether the image matches its prompt, and which step fails (section 4.1)."""
    pipeline.require("dalleval.detector", prompt_set="dalleval")
    images, options = pipeline.part(DallEval).images("skills"), _rule_options(pipeline)
    detections, statuses = pipeline.part(DallEval).detections(images)
    requests = images.table.merge(statuses.rename(columns={"status": "unseen"}), on="image_id")
    requests = requests[requests["unseen"] != DUPLICATE].reset_index(drop=True)
    requests["truth"] = _yes_no(requests["truth_failure"] == "") if "truth_failure" in requests else ""
    requests["n_detected"] = judging.count_statements(detections, requests, options["threshold"])
    requests["n_depicted"] = requests.get("truth_n", np.nan)
    by_rule = {rule: judging.verdicts(detections, requests, **options | {"rule": rule}) for rule in judging.RULES}
    table = pd.concat([rows.assign(rule=rule) for rule, rows in by_rule.items()], ignore_index=True)
    table["chosen"] = table["rule"] == options["rule"]
    table["status"] = table["unseen"].where(table["unseen"] != "", table["status"])
    for name in ("chosen", "correct", "objects_correct", "rest_correct"):
        table[name] = _yes_no(table[name])
    return _table(pipeline, table, "dalleval_skill_verdicts")


def _yes_no(values: pd.Series) -> np.ndarray:
    return np.where(values, "yes", "no")


def skill_accuracy(pipeline: Pipeline) -> pd.DataFrame:
    """Return the percentage of images judged correct by skill: by the detector, and by annotators where they exist.

    Blocked and unreadable images count as not correct.
    """
    verdicts = skill_verdicts(pipeline).query("chosen == 'yes'")
    frames = [verdicts.assign(evaluator=DETECTOR, images="test")]
    ratings = skill_ratings(pipeline)
    if len(ratings):
        # A tie between annotators counts as not correct.
        share = (ratings["correct"] == "yes").groupby(ratings["image_id"]).mean()
        rated_verdicts = verdicts[verdicts["image_id"].isin(share.index)].assign(images="sample")
        correct = np.where(rated_verdicts["image_id"].map(share) > 0.5, "yes", "no")
        frames += [rated_verdicts.assign(evaluator=DETECTOR), rated_verdicts.assign(evaluator=HUMAN, correct=correct)]
    counts = pd.concat(frames).groupby(["evaluator", "images", "skill"], sort=False)["correct"]
    out = counts.agg(percent_correct=lambda v: 100 * (v == "yes").mean(), n="size").reset_index()
    accuracy = _table(pipeline, out.assign(training_percent="100"), "dalleval_skill_accuracy")
    curve = _training_curve(pipeline)
    # Concatenating an empty table would turn integers into floats.
    return pd.concat([accuracy, curve], ignore_index=True) if len(curve) else accuracy


def _training_curve(pipeline: Pipeline) -> pd.DataFrame:
    """Return accuracies of this model fine-tuned on fractions of the scenes, where its folder has the file."""
    vae = pipeline.image_model("dalleval").autoencoder
    if vae is None or not (file := vae.with_name("training_share.csv")).is_file():
        return tables.make_table([], "dalleval_skill_accuracy")
    columns = ("training_percent", "skill", "n_correct", "n")
    rows, _ = cells.load(file, columns)
    cells.require(rows, columns, file, f"It needs: {', '.join(columns)}.", set(columns))
    counts = rows[["n_correct", "n"]].apply(cells.numbers, path=file, whole=True)
    cells.refuse(counts.isna().any(axis=1), file, "n_correct or n is not a number", "enter whole numbers")
    rows[["n_correct", "n"]] = counts.astype(int)
    rows["percent_correct"] = 100 * rows["n_correct"] / rows["n"]
    rows = rows.assign(model=f"{pipeline.label}, fine-tuned", evaluator=DETECTOR, images="curve")
    return tables.make_table(rows, "dalleval_skill_accuracy")


def skill_ratings(pipeline: Pipeline) -> pd.DataFrame:
    """Return human annotations of images (Table 3) with the detector's verdict; no rows without annotations."""
    file = pipeline.settings.dalleval.annotations
    if not file:
        return tables.make_table([], "dalleval_skill_ratings")
    verdicts = skill_verdicts(pipeline).query("chosen == 'yes'").rename(columns={"correct": "detector"})
    ratings = skills(file, verdicts["image_id"])
    table = ratings.merge(verdicts[["image_id", "skill", "detector"]], on="image_id")
    return _table(pipeline, table, "dalleval_skill_ratings")


def references(pipeline: Pipeline) -> pd.DataFrame:
    """Return the detector's accuracy on drawings that match their prompt (oracle), and on those of other prompts.

    The latter (shuffled) is the mean over all pairs of a prompt and a drawing of its skill (Table 2, first rows). Where
    the settings name PaintSkills' folder, its images replace drawings. Without images of either kind, no rows exist.
    """
    if not _has_ground_truth(pipeline):
        return tables.make_table([], "dalleval_references")
    detections, requests = _detect_in_true_images(pipeline, pipeline.part(DallEval).renders())
    verdicts = judging.verdicts(detections, requests, **_rule_options(pipeline))
    shuffled_shares = judging.shuffle_verdicts(detections, requests, **_rule_options(pipeline))
    rows = []
    for skill, group in verdicts.groupby("skill", sort=False):
        rows.append(("oracle", skill, DETECTOR, 100 * group["correct"].mean(), len(group)))
        rows.append(("shuffled", skill, DETECTOR, 100 * shuffled_shares[skill], len(group)))
    if pipeline.settings.dalleval.paintskills:
        verdicts = _verdicts_by_boxes(pipeline)
        verdicts = verdicts[verdicts["prompt_id"].isin(pipeline.part(DallEval).prompts("skills")["prompt_id"])]
        for skill, group in verdicts.groupby("skill", sort=False)["correct"]:
            rows.append(("oracle", skill, "boxes", 100 * group.mean(), len(group)))
    return tables.make_table(rows, "dalleval_references")


def _rule_options(pipeline: Pipeline) -> dict:
    """Return the keyword arguments of verdicts: the rule and threshold in the settings."""
    return {name: getattr(pipeline.settings.dalleval, name) for name in ("rule", "threshold")}


@cached_method
def _verdicts_by_boxes(pipeline: Pipeline) -> pd.DataFrame:
    """Return verdicts from PaintSkills' own boxes on all its test scenes, for the skills that have boxes."""
    folder = pipeline.settings.dalleval.paintskills
    scenes = paintskills.scenes(folder).assign(image_id=lambda table: table["prompt_id"])
    boxes = paintskills.boxes(folder, scenes)
    verdicts = judging.verdicts(boxes, scenes, **_rule_options(pipeline))
    return verdicts[verdicts["skill"].isin(scenes.loc[scenes["prompt_id"].isin(boxes["image_id"]), "skill"])]


def _detect_in_true_images(pipeline: Pipeline, source: ImageSource) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return detections in images with ground truth, and the rows of the images that could be opened."""
    detections, statuses = pipeline.part(DallEval).detections(source)
    unseen = statuses.loc[statuses["status"] != "", "image_id"]
    return detections, source.table[~source.table["image_id"].isin(unseen)]


def _has_ground_truth(pipeline: Pipeline) -> bool:
    """Return whether images with ground truth exist in the model's domain, from a package or PaintSkills' folder."""
    return bool(pipeline.settings.dalleval.paintskills) or pipeline.find_ground_truth("dalleval") is not None


def reference_name(pipeline: Pipeline | None) -> str:
    """Return the name of the images that match PaintSkills' prompts; "drawings" without a pipeline."""
    authors = pipeline is not None and pipeline.settings.dalleval.paintskills
    return "PaintSkills' images" if authors else "drawings"


# -- social biases -------------------------------------------------------------------------------------


def social_prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the prompts of people that the settings select (section 4.2.1, Table 13)."""
    return tables.make_table(pipeline.part(DallEval).prompts("social"), "dalleval_social_prompts")


def social_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the labels of each image of a person: gender by VQA and by the gender judge, skin tone, attributes."""
    return _judge_people(pipeline, "social")


def _has_judges_of_people(pipeline: Pipeline) -> bool:
    judges = ("dalleval.vqa",), pipeline.judge_settings, ("judging.faces",)
    return not all(pipeline.unset_settings(*settings) for settings in judges)


@cached_method
def _judge_people(pipeline: Pipeline, kind: str) -> pd.DataFrame:
    if not _has_judges_of_people(pipeline):
        pipeline.require("dalleval.vqa", *pipeline.judge_settings, prompt_set="dalleval")
    defaults = {"truth_gender": "", "truth_skin_tone": np.nan, "truth_attributes": ""}
    images = pipeline.part(DallEval).people(kind).table
    images = images.assign(**{c: images.get(c, missing) for c, missing in defaults.items()})
    images = _add_gender_judgements(pipeline, kind, _add_answers(pipeline, kind, images))
    if pipeline.has_unset("judging.faces"):
        images = images.assign(skin_tone=np.nan, reason_tone=_NO_JUDGE, judge_tone="")
    else:
        tones = pipeline.part(DallEval).tones(kind)
        columns = {"skin_tone": "tone", "reason_tone": "tone_reason", "judge_tone": "tone_judge"}
        images = images.assign(**{name: tones[column].to_numpy() for name, column in columns.items()})
    return _table(pipeline, images, "dalleval_social_images")


# The reason where no image has a label.
_NO_JUDGE = "no judge is set"


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the labels of people by profession, or of scenes by skill, and the images."""
    images = pipeline.part(DallEval).images(kind)
    text = images.table.set_index("image_id")["text"]
    if kind == "skills":
        rows = skill_verdicts(pipeline).query("chosen == 'yes'")
        rows = rows.assign(group=rows["skill"], who=rows["skill"], gender="")
    else:
        rows = _judge_people(pipeline, kind)
        evaluator = "judge" if pipeline.part(DallEval).gender_is_judged else "vqa"
        statuses = rows["status_judge" if evaluator == "judge" else "reason_vqa"]
        is_judged = rows[f"gender_{evaluator}"].isin(GENDERS)
        names_gender = rows["prompt"] != "person"
        phrase = rows["profession"].replace("(none)", "a person")
        phrase = phrase.mask(names_gender, phrase + ", prompted as a " + rows["prompt"])
        tones = {"tone": rows["skin_tone"], "status": statuses.mask(is_judged, "judged")}
        # Prompts that name a gender do not measure its perception.
        rows = rows.assign(group=phrase, who=phrase, gender=rows[f"gender_{evaluator}"], apart=names_gender, **tones)
    return rows.assign(prompt=rows["image_id"].map(text), position=1), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people or scenes that were prompted, and images (like ``paradox.measure.people_to_annotate``)."""
    images = pipeline.part(DallEval).images(kind)
    table = images.table
    if kind == "skills":
        pairs = zip(table["object"], table["other"], strict=True)
        class_names = pd.Series([list(filter(None, pair)) for pair in pairs], index=table.index)
        return table.assign(occupation=table["skill"], position=0, object=class_names, noun=class_names), images
    # A prompt that names a gender does not measure its perception.
    return table[table["prompt"] == "person"].rename(columns={"profession": "occupation"}), images


def _add_answers(pipeline: Pipeline, kind: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return images with the VQA model's answers about gender and attributes."""
    if pipeline.has_unset("dalleval.vqa"):
        return images.assign(
            gender_vqa="", reason_vqa=_NO_JUDGE, attributes="", attributes_missing=";".join(ATTRIBUTES)
        )
    answers, ids = pipeline.part(DallEval).answers(kind), images["image_id"]
    gender_answers = answers[answers["attribute"] == ""].set_index("image_id").reindex(ids)
    readings = [read_answer(text) for text in gender_answers["answer"]]
    is_eligible = (gender_answers["status"] == "").to_numpy()
    worn = _read_attributes(answers)

    def names(answer: str) -> np.ndarray:
        joined = worn[worn["worn"] == answer].groupby("image_id")["attribute"].agg(";".join)
        return joined.reindex(ids, fill_value="").to_numpy(object)

    return images.assign(
        gender_vqa=np.where(is_eligible, [gender for gender, _ in readings], ""),
        reason_vqa=np.where(is_eligible, [reason for _, reason in readings], gender_answers["status"].to_numpy(object)),
        attributes=names("yes"),
        attributes_missing=names(""),
    )


def _add_gender_judgements(pipeline: Pipeline, kind: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return images with the labels of the gender judge."""
    judge = pipeline.settings.judging.gender
    if pipeline.has_unset(*pipeline.judge_settings):
        return images.assign(judge=judge, gender_judge="", status_judge=_NO_JUDGE)
    judgements = pipeline.part(DallEval).judged_people(kind)
    columns = {"gender_judge": judgements["gender"].to_numpy(), "status_judge": judgements["status"].to_numpy()}
    return images.assign(judge=judge, **columns)


def _read_attributes(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers about attributes, parsed: ``worn`` is yes, no or empty."""
    answers = answers[answers["attribute"] != ""]
    return answers.assign(worn=[read_yes_no(text)[0] for text in answers["answer"]])


def average_gender(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average gender of each profession, by the VQA model or the gender judge (section 4.2.2)."""
    is_judged = pipeline.part(DallEval).gender_is_judged
    pipeline.require(*(pipeline.judge_settings if is_judged else ["dalleval.vqa"]), prompt_set="dalleval")
    if is_judged:
        pipeline.has_unset("dalleval.vqa")
    images = pipeline.part(DallEval).people("social").table
    images = (_add_gender_judgements if is_judged else _add_answers)(pipeline, "social", images)
    images = images.query("prompt == 'person'")
    gender = images["gender_judge" if is_judged else "gender_vqa"]
    perceived = pd.DataFrame({name: gender == name for name in GENDERS})
    counts = perceived.groupby(images["profession"], sort=False).sum().astype(float).reset_index()
    averages = counts.assign(
        value=signed_average(counts["female"], counts["male"]), n=counts["female"] + counts["male"]
    )
    unclear = (gender == "unsure").groupby(images["profession"], sort=False).sum()
    averages["n_unclear"] = averages["profession"].map(unclear)
    averages["judge"] = pipeline.settings.judging.gender if is_judged else VQA_JUDGE
    return _table(pipeline, averages, "dalleval_average_gender")


def average_skin_tone(pipeline: Pipeline) -> pd.DataFrame:
    """Return the average skin tone of each profession over the three prompts (section 4.2.3)."""
    by_profession = pipeline.part(DallEval).tones("social").groupby("profession", sort=False)["tone"]
    out = by_profession.agg(value="mean", n="count").reset_index()
    out["reason"] = np.where(out["n"] > 0, "", "no face with an estimated tone")
    return _table(pipeline, out, "dalleval_average_skin_tone")


def skin_tone_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return images by prompt, profession and skin tone (Figures 8 and 9)."""
    rows = pipeline.part(DallEval).tones("social").dropna(subset="tone")
    rows = rows.assign(tone=rows["tone"].astype(int).astype(str))
    counts = rows.groupby(["prompt", "profession", "tone"], sort=False).size().rename("n").reset_index()
    return _table(pipeline, counts, "dalleval_skin_tone_counts")


def attribute_presence(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images that show each attribute, by prompt and profession (section 4.2.2)."""
    answers = _read_attributes(pipeline.part(DallEval).answers("social"))
    answers = answers.assign(yes=answers["worn"] == "yes", known=answers["worn"] != "")
    keys = ["prompt", "profession", "attribute"]
    counts = answers.groupby(keys, sort=False)[["yes", "known"]].sum().reset_index().astype({"known": float})
    share = counts["yes"] / counts["known"].where(counts["known"] > 0)
    return _table(pipeline, counts.assign(share=share, n=counts["known"]), "dalleval_attribute_presence")


# -- judges, where ground truth is available -------------------------------------------------------------------


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return judges' answers about images with ground truth: skills by the detector, and people.

    For skills, a quarter to half of the images fail in a known way (the condition). They are drawings, or
    PaintSkills' own images where the settings name their folder. For people: gender by VQA and by the gender judge,
    attributes, and skin tones by several methods (Table 18). Without drawings in the model's domain no rows exist,
    because errors on other images would not apply.
    """
    frames = []
    if _has_ground_truth(pipeline):
        if not _has_judges_of_people(pipeline):
            pipeline.require("dalleval.detector", prompt_set="dalleval")
        if not pipeline.has_unset("dalleval.detector"):
            frames += _skill_confusion(pipeline)
    if pipeline.find_ground_truth("dalleval") is not None:
        frames += [frame.assign(reference="drawings") for frame in _people_confusion(pipeline)]
    return tables.join_tables([frame.assign(model=pipeline.label, n=1) for frame in frames], "dalleval_confusion")


def _skill_confusion(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return the true match with the prompt and number of objects of each image, with the detector's answers."""
    s = pipeline.settings.dalleval
    detections, requests = _detect_in_true_images(pipeline, pipeline.part(DallEval).reference())
    if s.paintskills:
        # The simulator accepts objects that hide each other, and misses some relations: the boxes disagree.
        boxes = _verdicts_by_boxes(pipeline)
        requests = requests[~requests["prompt_id"].isin(boxes.loc[~boxes["correct"], "prompt_id"])]
    scenes = judging.verdicts(detections, requests, **_rule_options(pipeline))
    scenes["n_detected"] = judging.count_statements(detections, scenes, s.threshold)
    scenes = scenes.assign(
        judge=redact.basename(s.detector), reference=reference_name(pipeline), subject=scenes["object"]
    )
    verdicts = scenes.assign(
        quantity="skill: " + scenes["skill"],
        condition=scenes["truth_failure"],
        truth=_yes_no(scenes["truth_failure"] == ""),
        answer=_yes_no(scenes["correct"]),
    )
    counts = scenes[scenes["skill"] == "count"]
    n_true, detected = (counts[name].astype(int).astype(str) for name in ("truth_n", "n_detected"))
    return [verdicts, counts.assign(quantity="number", truth=n_true, answer=detected)]


def _people_confusion(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return gender, attributes and skin tones of drawings of people, with the judges' answers."""
    settings = ("dalleval.vqa",), pipeline.judge_settings, ("judging.faces",)
    no_answers, no_gender, no_faces = (pipeline.has_unset(*names) for names in settings)
    if no_answers and no_gender and no_faces:
        return []
    images = _judge_people(pipeline, "drawings")
    frames = [] if no_faces else _tone_confusion(pipeline)
    if not no_answers:
        answer = images["gender_vqa"].where(images["gender_vqa"] != "", images["reason_vqa"])
        frames.append(images.assign(judge=VQA_JUDGE, quantity="gender", truth=images["truth_gender"], answer=answer))
        columns = [images[name].str.split(";") for name in ("truth_attributes", "attributes", "attributes_missing")]
        for attribute in ATTRIBUTES:
            is_shown, is_seen, is_unread = (names.map(lambda listed, a=attribute: a in listed) for names in columns)
            answer = np.where(is_unread, "no answer", _yes_no(is_seen))
            rows = images.assign(judge=VQA_JUDGE, quantity="attribute", subject=attribute, truth=_yes_no(is_shown))
            frames.append(rows.assign(answer=answer))
    if not no_gender:
        answer = images["gender_judge"].where(images["status_judge"] == JUDGED, images["status_judge"])
        frames.append(images.assign(quantity="gender", truth=images["truth_gender"], answer=answer))
    return frames


def _tone_confusion(pipeline: Pipeline) -> list[pd.DataFrame]:
    """Return skin tones of drawings as classified by the run's judge and by other methods (Table 18).

    Two methods use the middle of the face's box: the typology angle in the released script's units, and the nearest
    swatch in RGB. They are left out where another package's judge classifies tones. The third takes the nearest swatch
    to the average of all pixels that count as skin by their chroma.
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
    rows = faces[["image_id"]].assign(quantity="skin tone", truth=faces["truth_skin_tone"].astype(int).astype(str))
    return [
        rows.assign(judge=name, answer=["no tone" if np.isnan(tone) else f"{tone:.0f}" for tone in answers])
        for name, answers in methods.items()
    ]


# -- alignment, quality, and the gender judge --------------------------------------------------------

CAPTIONED = 1000
"""Captioned training images among which a text retrieves."""
OWN_CAPTIONED = 5000
"""The same for the user's own captioned images (the paper: 5,000)."""
_SPLITS = 20
_NO_IMAGE_READ = "no image can be read"
_HIGHER = ("R-precision", *captioning.METRICS)


@cached_method
def image_quality(pipeline: Pipeline) -> pd.DataFrame:
    """Return how well images fit their captions, and how near they are to the captioned images (appendix D).

    R-precision is the expectation over all choices of 99 other captions. Captioning metrics compare a model's
    description of an image with its captions; their null expectation is the score of descriptions of other images. FID
    and KID use the features of the gender judge's CLIP model, and those of Inception-v3 where its weights are given.
    Their null expectation comes from two random halves of the captioned images, at the same number of images (Chong &
    Forsyth 2020).

    Intervals (95%) resample the captions of an occupation together. Those of R-precision and captioning cover 94 to
    97%, and those of KID with 12, 20 or 40 occupations 92 to 98%, or more where images do not differ. Those of FID
    cover the average at this number of images, not FID's limit at many images (``benchmarks/coverage_skills.py``).
    """
    if pipeline.clip_judge is None and pipeline.has_unset("dalleval.captioner"):
        pipeline.require("judging.gender", "dalleval.captioner")
    requests, generated, real = pipeline.part(DallEval).captioned()
    sets = {"generated": (generated, requests["image_id"])}
    if real is not None:
        sets["captioned"] = (real, requests["real_id"])
    groups, rows, vectors = requests["group"].to_numpy(str), [], {}
    if pipeline.clip_judge:
        texts = pipeline.text_embeddings(requests["text"])
        vectors = {name: _embed_images(pipeline, *image_set) for name, image_set in sets.items()}
    else:
        pipeline.has_unset("judging.gender")
        row = {"images": "generated", "n": 0, "reason": "the gender judge is not an open_clip model"}
        rows += [row | {"metric": name} for name in ("R-precision", *_distances_by_name("CLIP"))]
    for name, (table, is_read) in vectors.items():
        if len(table) < 2:
            reason = "there is no other caption" if len(table) else _NO_IMAGE_READ
            rows.append({"images": name, "metric": "R-precision", "n": len(table), "reason": reason})
            continue
        n_others = min(DISTRACTORS, len(table) - 1)
        precisions = r_precision(table @ texts[is_read].T, distractors=n_others)
        row = {"images": name, "metric": "R-precision", "null_mean": 100 / (1 + n_others)}
        rows.append(row | _clustered_mean_row(precisions, groups[is_read], 0, 100))
    for name, image_set in sets.items():
        rows += [{"images": name} | row for row in _captioning_rows(pipeline, *image_set, requests)]
    if vectors:
        rows += _distance_rows(vectors, groups, "CLIP", pipeline.seed)
    if (inception := pipeline.judge("dalleval.inception_file")) and real is not None:
        pipeline.record_use("dalleval.inception_file", inception)
        features = {name: _embed_images(pipeline, *image_set, inception) for name, image_set in sets.items()}
        rows += _distance_rows(features, groups, "Inception", pipeline.seed)
    # Where no image can be read no row has a value.
    columns = ["images", "metric", "value", "ci_low", "ci_high", "null_mean", "n", "reason"]
    table = pd.DataFrame(rows, columns=columns).fillna({"reason": ""})
    lacks_interval = table["value"].notna() & table["ci_low"].isna()
    table.loc[lacks_interval, "reason"] = "the captions come from too few occupations for an interval"
    return _table(pipeline, table, "dalleval_image_quality")


def _embed_images(
    pipeline: Pipeline, source: ImageSource, ids: pd.Series, judge: Judge | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return embeddings of the readable images, (n, dimensions), and a mask of these images."""
    embeddings = pipeline.image_embeddings(source, ids, judge).set_index("image_id")["vector"].reindex(ids)
    is_read = embeddings.notna().to_numpy()
    return np.stack(list(embeddings[is_read])) if is_read.any() else np.empty((0, 0)), is_read


def _clustered_mean_row(values: np.ndarray, groups: np.ndarray, low: float, high: float) -> dict:
    """Return a table row with the mean of clustered values (0–1, rescaled to ``low`` to ``high``)."""
    value, *limits, n = stats.clustered_mean(values, groups)
    ends = (low + (high - low) * share for share in (value, *limits))
    return dict(zip(("value", "ci_low", "ci_high"), ends, strict=True)) | {"n": n}


def _captioning_rows(pipeline: Pipeline, source: ImageSource, ids: pd.Series, requests: pd.DataFrame) -> list[dict]:
    """Return rows of captioning metrics, which compare descriptions of images with their captions."""
    unsupported = [{"metric": name, "n": 0, "reason": reason} for name, reason in captioning.WITHOUT.items()]
    if pipeline.has_unset("dalleval.captioner"):
        return [{"metric": name, "n": 0, "reason": _NO_JUDGE} for name in captioning.METRICS] + unsupported
    judge: Any = pipeline.check_judge("dalleval.captioner", source)
    units = pd.DataFrame({"image_id": list(ids), "question": judge.description}, dtype=object)
    replies = pipeline.ask("dalleval.captioner", source, units, unit="images")
    read_rows = np.flatnonzero(replies["status"] == "")
    if not len(read_rows):
        return [{"metric": name, "n": 0, "reason": _NO_IMAGE_READ} for name in captioning.METRICS] + unsupported
    captions, reference_rows = list(replies["answer"].iloc[read_rows]), requests.iloc[read_rows]
    references = list(reference_rows["references"])
    scores = captioning.caption_scores(captions, references, groups=reference_rows["group"], seed=pipeline.seed)
    # Each description against the captions of a distant image (near ones share the occupation): the similarity that
    # needs no image.
    half = len(references) // 2
    null_mean = captioning.caption_scores(captions, references[half:] + references[:half], seed=pipeline.seed)["value"]
    return scores.assign(null_mean=null_mean).to_dict("records") + unsupported


def _distance_rows(
    vectors: dict[str, tuple[np.ndarray, np.ndarray]], groups: np.ndarray, features: str, seed: int
) -> list[dict]:
    """Return rows of FID and KID on features, or the reason for none; ``vectors`` are from :func:`_embed_images`."""
    rows = []
    for metric, distance in _distances_by_name(features).items():
        row: dict[str, Any] = {"images": "generated", "metric": metric}
        if len(vectors) < 2:
            rows.append(row | {"n": 0, "reason": "the captions have no images"})
        elif not all(len(vector_rows) for vector_rows, _ in vectors.values()):
            rows.append(row | {"n": 0, "reason": _NO_IMAGE_READ})
        else:
            images = [vector_rows for vector_rows, _ in vectors.values()]
            group_pairs = [groups[is_read] for _, is_read in vectors.values()]
            rng = np.random.default_rng([seed, 73])
            squared = distance is kernel_distance
            value, low, high, _ = stats.halves_interval(images, group_pairs, distance, squared=squared, seed=rng)
            # A distance is not below 0, but KID's estimate may be.
            row |= {"value": value, "ci_low": np.minimum(value, np.maximum(low, 0)), "ci_high": high}
            rng, real = np.random.default_rng([seed, 75]), images[1]
            halves = (np.split(real[rng.permutation(len(real))], [len(real) // 2]) for _ in range(_SPLITS))
            null_mean = np.mean([distance(*half) for half in halves])
            # The bias of FID is proportional to 1/n (Chong & Forsyth 2020), so that of halves is twice as large.
            rows.append(row | {"null_mean": null_mean if squared else null_mean / 2, "n": len(images[0])})
    return rows


def _distances_by_name(features: str) -> dict[str, Callable]:
    """Return the functions that measure distances on features, by the metric's name in tables."""
    return {f"FID, {features} features": frechet_distance, f"KID, {features} features": kernel_distance}


def alignment_quality(pipeline: Pipeline) -> pd.DataFrame:
    """Return the metrics of alignment and quality in the form of Table 19; see :func:`image_quality`."""
    rows = image_quality(pipeline)
    rows = rows[(rows["images"] == "generated") & rows["value"].notna()]
    rows = rows.assign(
        better=np.where(rows["metric"].isin(_HIGHER), "higher", "lower"),
        # These use other captions and features than printed values, so they are not ranked together.
        metric=rows["metric"].replace({name: f"{name}, own captions" for name in _HIGHER}),
    )
    return tables.make_table(rows, "dalleval_alignment_quality")


# Numbers of retrieved images at which bias is measured. Training images fewer than the largest give no rows.
_RANKS = (1, 5, 10)


def gender_judges(pipeline: Pipeline) -> pd.DataFrame:
    """Return bias and recall of CLIP and BLIP-2 in retrieving captioned images, with and without words for a gender.

    Source: appendix C.2, Table 14. Images are those of ``dalleval.image_folder``, at most :data:`OWN_CAPTIONED`, some
    possibly without a gender; else up to :data:`CAPTIONED` training images of known gender. The query is the first
    caption of each. ``bias_at_all`` is the bias of all images, as a retrieval blind to gender has it. Intervals (95%)
    cluster the captions of an occupation. Those of bias in own images use a jackknife over folds of images with their
    captions, because images that many captions retrieve make these dependent.
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
    n_min, rows = 1 if is_own else max(_RANKS), []
    settings = ("", "dalleval.retriever")[: 1 + bool(s.retriever)]
    for setting in settings if len(table) >= n_min else ():
        judge = pipeline.check_judge(setting, source.source) if setting else None
        vectors, is_read = _embed_images(pipeline, source.source, table["image_id"], judge)
        images, name = table[is_read], (judge or pipeline.require_clip()).name
        if len(images) < n_min:
            continue
        for captions, texts in (("original", images["text"]), ("ungendered", remove_gender(images["text"]))):
            similarity = _similarity(pipeline.text_embeddings(texts, judge), vectors)
            rows += [{"judge": name, "captions": captions} | row for row in _retrieval_rows(similarity, images)]
    return tables.make_table(rows, "dalleval_gender_judges")


def _similarity(texts: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the cosine of each text with the nearest vector of each image, ``float32 (texts, images)``."""
    parts = images.reshape(len(images), -1, texts.shape[1])
    return np.max([texts @ parts[:, k].T for k in range(parts.shape[1])], axis=0)


def _retrieval_rows(similarity: np.ndarray, images: pd.DataFrame) -> list[dict]:
    """Return bias and recall at each k; where images have folds, the interval of bias is a jackknife over these."""
    female, male = ((images["gender"] == gender).to_numpy() for gender in GENDERS)
    groups, has_gender, rows = images["group"].to_numpy(str), female | male, []
    reason = f"{len(images)} captioned images" + (f", {has_gender.sum()} with a gender" if "fold" in images else "")
    for metric, k in product(("bias_at", "recall_at"), _RANKS):
        row: dict[str, Any] = {"metric": f"{metric}_{k}", "n": len(images), "reason": reason}
        if k > len(images):
            row["reason"] = f"fewer than {k} images"
        elif metric == "recall_at":
            row |= _clustered_mean_row(recall_at(similarity, k), groups, 0, 100)
        elif has_gender.any():
            row |= _clustered_mean_row((retrieval_bias(similarity, female, k, male=male) + 1) / 2, groups, -1, 1)
            if "fold" in images:
                row |= _fold_limits(similarity, images, k)
        else:
            row["reason"] = "neither captions nor a column name a gender"
        rows.append(row)
    return [
        *rows,
        {"metric": "bias_at_all", "reason": reason} | _clustered_mean_row(male[has_gender], groups[has_gender], -1, 1),
    ]


def _fold_limits(similarity: np.ndarray, images: pd.DataFrame, k: int) -> dict:
    """Return jackknife limits of bias at k over folds; NaN where leaving out a fold leaves fewer than k images."""
    female, male = ((images["gender"] == gender).to_numpy() for gender in GENDERS)
    # No image is in the fold -1, so the first entry has all images.
    index_sets = [np.flatnonzero(images["fold"] != fold) for fold in (-1, *images["fold"].unique())]
    if min(map(len, index_sets)) < k:
        return {"ci_low": np.nan, "ci_high": np.nan, "reason": "too few images for an interval"}
    parts = ((similarity[np.ix_(indices, indices)], female[indices], male[indices]) for indices in index_sets)
    share, *shares = ((retrieval_bias(part, women, k, male=men).mean() + 1) / 2 for part, women, men in parts)
    error = stats.clustered_error((np.array(shares) - np.mean(shares)) * (1 - 1 / len(shares)))
    limits = stats.clustered_share_interval(share, error, images["group"].nunique())
    return {name: 2 * limit - 1 for name, limit in zip(("ci_low", "ci_high"), limits, strict=True)}


# -- images for galleries ------------------------------------------------------------------------------


def examples(verdicts: pd.DataFrame, *, of_each: int = 4) -> pd.DataFrame:
    """Return the first images of each skill and status by the chosen rule, in the order of the prompts."""
    chosen = verdicts[verdicts["chosen"] == "yes"]
    return chosen.groupby(["skill", "status"], sort=False).head(of_each).sort_values("skill", kind="stable")


def faces_by_tone(pipeline: Pipeline | None, *, of_each: int = 3) -> tuple[list[object], pd.DataFrame]:
    """Return the first images of people with each skin tone, and their rows (Figure 10)."""
    if pipeline is None or pipeline.unset_settings("judging.faces"):
        return [], pd.DataFrame(columns=["image_id", "tone", "profession"])
    faces = pipeline.part(DallEval).tones("social")
    faces["gender"] = _add_gender_judgements(pipeline, "social", faces)["gender_judge"]
    faces = faces.dropna(subset="tone")
    rows = faces.groupby("tone").head(of_each).sort_values("tone", kind="stable")
    return pipeline.part(DallEval).images("social").read(list(rows["image_id"])), rows


def render_verdicts(pipeline: Pipeline | None, prompts: pd.DataFrame) -> pd.DataFrame:
    """Return the detector's verdicts on drawings of ``prompts``, by the chosen rule; no rows without drawings."""
    if pipeline is None or not _has_ground_truth(pipeline):
        return prompts.assign(image_id="", status="").head(0)
    source = pipeline.part(DallEval).renders()
    detections, _ = pipeline.part(DallEval).detections(source)
    scenes = prompts.merge(source.table[["prompt_id", "image_id"]], on="prompt_id")
    return judging.verdicts(detections, scenes, **_rule_options(pipeline))


def images_with_boxes(pipeline: Pipeline | None, kind: str, chosen: pd.DataFrame) -> tuple[list[object], pd.DataFrame]:
    """Return images of chosen rows, and the rows with the detections above the threshold.

    ``kind`` is ``skills``, or ``renders``: drawings of the same prompts. Images are ``uint8 (height, width, 3)``. Rows
    have ``boxes`` (left, top, right, bottom in pixels, concatenated) and ``found`` (the labels).
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
        image_detections = by_image.get(image_id, detections.iloc[:0])
        height, width = image.shape[:2] if isinstance(image, np.ndarray) else (1, 1)
        boxes.append((image_detections[list(BOX)].to_numpy(float) * [width, height, width, height]).ravel())
        labels.append(", ".join(image_detections["label"]))
    return images, chosen.assign(boxes=boxes, found=labels, gender="")
