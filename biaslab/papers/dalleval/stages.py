"""Pipeline stages of DALL-Eval: prompts → images → objects, answers, faces and skin tones.

Source: dalleval paper, sections 3 and 4.
"""

from __future__ import annotations

import hashlib
import json
import logging
from typing import NamedTuple

import numpy as np
import pandas as pd

import biaslab.papers.dalleval.paintskills as paintskills
import biaslab.papers.dalleval.prompts as asking
from biaslab.captions.corpus import open_corpus
from biaslab.captions.indicators import indicators
from biaslab.errors import InputError, ParameterError, name_help, unknown_name
from biaslab.hub.image_sources import CaptionImages, DescribedImages, ImageSource
from biaslab.judges import objects
from biaslab.judges.judge_labels import UNCLEAR
from biaslab.judges.people import BOX, locate_people
from biaslab.pipeline.stages import Part, cached_method, with_prompt_columns
from biaslab.prompts import word_files
from biaslab.ratings.annotations import GENDER_LABELS, SYNONYMS
from biaslab.schema.genders import GENDERS

_log = logging.getLogger(__name__)
# PaintSkills' scenes, and people with and without a profession.
KINDS = ("skills", "social")


class Captioned(NamedTuple):
    """Images generated from captions, and the images that the captions describe.

    ``table`` has image_id (generated), real_id (the described image), text (the prompt), references (all captions of
    the image) and group (the cluster of dependent captions: those of an occupation, else of equal words).
    """

    table: pd.DataFrame
    generated_images: ImageSource
    real_images: ImageSource | None


class DallEval(Part):
    """The stages for DALL-Eval's prompts."""

    prompt_set = "dalleval"

    @cached_method
    def prompts(self, kind: str) -> pd.DataFrame:
        """Return the prompts of a kind, sampled as in the settings. Raises UnknownNameError for an unknown kind."""
        if kind not in KINDS:
            raise unknown_name("kind of DALL-Eval's prompts", kind, KINDS)
        s, rng = self._pipeline.settings.dalleval, np.random.default_rng([self._pipeline.seed, 71])
        if kind == "skills":
            prompts = paintskills.scenes(s.paintskills) if s.paintskills else asking.skills()
            prompts = prompts.assign(n_images=1)
            return _sample_scenes(prompts, s.n_scenes, rng).sort_index(ignore_index=True) if s.n_scenes else prompts
        words = word_files.read(s.vocabulary_file, "dalleval.vocabulary_file") if s.vocabulary_file else None
        prompts = asking.social(s.social_images, words)
        names = tuple(dict.fromkeys(prompts["profession"]))[1:]
        if s.n_professions and s.n_professions < len(names):
            selected = {"(none)", *rng.choice(names, s.n_professions, replace=False)}
            prompts = prompts[prompts["profession"].isin(selected)].reset_index(drop=True)
        return prompts

    # -- images and their labels ---------------------------------------------------------------------

    @cached_method
    def images(self, kind: str) -> ImageSource:
        """Return images of a kind, with a table of one row per image and the columns of its prompt."""
        prompts = self.prompts(kind)
        return with_prompt_columns(self._pipeline.generate_images(prompts, kind, "dalleval"), prompts)

    @cached_method
    def renders(self) -> ImageSource:
        """Return images that match PaintSkills' prompts: the authors', where configured, or with ground truth."""
        prompts = self.prompts("skills")
        if folder := self._pipeline.settings.dalleval.paintskills:
            return _authors_images(folder, prompts)
        truth = self._pipeline.require_ground_truth(
            "the detector's accuracy on images that match the prompt", "dalleval"
        )
        return with_prompt_columns(truth.scenes(prompts, seed=self._pipeline.seed + 1), prompts)

    @cached_method
    def reference(self) -> ImageSource:
        """Return images with ground truth, on which the detector's error is measured.

        At most half of them do not match their prompt, by any failure mode of its skill. Where the settings name the
        authors' folder, half of their images have the prompt of another scene.
        """
        pipeline, s = self._pipeline, self._pipeline.settings.dalleval
        rng = np.random.default_rng([pipeline.seed, 72])
        scenes = paintskills.scenes(s.paintskills) if s.paintskills else asking.skills("train")
        sample = _sample_scenes(scenes.assign(n_images=1), s.calibration_images, rng).reset_index(drop=True)
        if s.paintskills:
            return _authors_images(s.paintskills, paintskills.swap_prompts(sample, scenes, rng))
        truth = pipeline.require_ground_truth("the detector's error", "dalleval")
        vae = pipeline.image_model("dalleval").autoencoder
        failures = dict.fromkeys(truth.failure_modes, 0.5 / len(truth.failure_modes))
        images = truth.scenes(sample, seed=pipeline.seed + 2, failures=failures, decoded=vae)
        return with_prompt_columns(images, sample)

    @cached_method
    def people(self, kind: str) -> ImageSource:
        """Return images of people: ``social``, those of the prompts, or ``drawings`` with ground truth."""
        if kind == "social":
            return self.images("social")
        pipeline = self._pipeline
        n, vae = pipeline.settings.dalleval.calibration_images, pipeline.image_model("dalleval").autoencoder
        truth = pipeline.require_ground_truth("the judges' error", "dalleval")
        drawings = truth.people(asking.social(), n, seed=pipeline.seed + 3, decoded=vae)
        return DescribedImages(drawings, drawings.table)

    def detections(self, images: ImageSource) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the detector's boxes and each image's status, from :func:`biaslab.judges.objects.detect`."""
        pipeline, source = self._pipeline, getattr(images, "source", images)
        return pipeline.compute(objects.detect, source, pipeline.check_judge("dalleval.detector", source))

    @cached_method
    def answers(self, kind: str) -> pd.DataFrame:
        """Return the VQA model's answers about each person (:meth:`people`): about gender and each attribute.

        Columns image_id, prompt, profession, attribute (empty for gender), status, reason, answer.
        """
        pipeline = self._pipeline
        pipeline.require("dalleval.vqa", prompt_set="dalleval")
        images = self.people(kind)
        questions = {"": asking.GENDER_QUESTION}
        questions |= {name: asking.attribute_question(name) for name in asking.ATTRIBUTES}
        table = images.table[["image_id", "prompt", "profession"]]
        rows = table.loc[table.index.repeat(len(questions))].reset_index(drop=True)
        rows["attribute"] = list(questions) * len(table)
        units = rows[["image_id"]].assign(question=rows["attribute"].map(questions)).astype(object)
        gender, yes = json.dumps([*GENDERS, UNCLEAR]), json.dumps(["yes", "no", UNCLEAR])
        units["answers"] = np.where(rows["attribute"] == "", gender, yes)
        replies = pipeline.ask("dalleval.vqa", images.source, units)
        return rows.assign(**{c: replies[c].to_numpy() for c in ("status", "reason", "answer")})

    @cached_method
    def captioned(self) -> Captioned:
        """Return images generated from the captions in the settings, else from the paradox's caption prompts.

        Raises InputError if the folder has none of the captioned images.
        """
        pipeline, s = self._pipeline, self._pipeline.settings.dalleval
        if s.captions or s.image_folder or s.max_captions:
            prompts = self.caption_prompts()
            generated = pipeline.generate_images(prompts, "captioned")
            table = generated.table[["image_id", "prompt_id"]].merge(prompts, on="prompt_id")
            real = self.captioned_images().source if s.image_folder else None
        else:
            images = pipeline.images("caption_prompts")
            generated, table = images.source, images.table.drop_duplicates("caption_id", ignore_index=True)
            table = table.assign(
                real_id=table["caption_id"], references=[[text] for text in table["text"]], group=table["occupation"]
            )
            real = pipeline.images("training").source if pipeline.has_images else None
        return Captioned(table[["image_id", "real_id", "text", "references", "group"]], generated, real)

    @cached_method
    def captioned_images(self) -> DescribedImages:
        """Return the images in ``dalleval.image_folder``, with the columns of :meth:`caption_prompts`.

        Raises InputError if the folder has none of the captioned images.
        """
        s, table = self._pipeline.settings.dalleval, self.caption_prompts()
        images = CaptionImages(s.image_folder, table["real_id"])
        missing = [name for name in table["real_id"] if not images.has(name)]
        if len(missing) == len(table):
            raise InputError(
                f"None of the {len(table):,} images of {s.captions} is in {s.image_folder}. Each image_id must be the "
                f"name or path of a file there, but the first is {missing[0]!r}, and an example of a file is "
                f"{images.a_file!r}."
            )
        if missing:
            counts = (s.image_folder, len(missing), len(table), missing[0])
            _log.warning("%s lacks %d of %d images, such as %s.", *counts)
        return DescribedImages(images, table.rename(columns={"real_id": "image_id"}))

    @cached_method
    def caption_prompts(self) -> pd.DataFrame:
        """Return the prompts from the file of captions: prompt_id, real_id, text, references, n_images, group, gender.

        ``gender`` is that of the file's column, else the gender that all gendered captions of the image name; empty
        where they name none. Raises InputError if the file has no column ``image_id``, no caption, or other labels in
        its column ``gender``; ParameterError if the settings name images without captions.
        """
        s = self._pipeline.settings.dalleval
        if not s.captions:
            raise ParameterError(
                "dalleval.image_folder and dalleval.max_captions have an effect only with dalleval.captions. Set "
                "dalleval.captions, too."
            )
        rows = pd.concat(open_corpus(s.captions).batches(), ignore_index=True)
        # A corpus prefixes columns whose names stages use.
        if "corpus_image_id" not in rows:
            raise InputError(f"{s.captions} has no column image_id; its columns are {', '.join(rows.columns)}.")
        rows = rows.rename(columns={"corpus_image_id": "real_id"})
        captions = rows[(rows["text"].fillna("").str.strip() != "") & rows["real_id"].notna()]
        names = captions["real_id"].astype(str)
        # A numeric column with a missing value is read, or was written, as floats.
        if names.str.fullmatch(r"\d+\.0").all():
            names = names.str.removesuffix(".0")
        groups = captions["corpus_occupation" if "corpus_occupation" in captions else "text"]
        captions = captions.assign(real_id=names, group=groups, gender=_genders(captions, s.captions))[names != ""]
        if captions.empty:
            raise InputError(f"{s.captions} contains no caption with an image_id.")
        if len(captions) < len(rows):
            n_excluded = len(rows) - len(captions)
            _log.warning("%s: captions excluded because text or image_id is missing: %d.", s.captions, n_excluded)
        by_image = captions.groupby("real_id", sort=False)
        genders = ("gender", lambda labels: "|".join(set(labels) - {""}))
        prompts = by_image.agg(references=("text", list), group=("group", "first"), gender=genders).reset_index()
        prompts["gender"] = prompts["gender"].where(prompts["gender"].isin(GENDERS), "")
        if s.max_captions and s.max_captions < len(prompts):
            rng = np.random.default_rng([self._pipeline.seed, 77])
            prompts = prompts.iloc[np.sort(rng.permutation(len(prompts))[: s.max_captions])].reset_index(drop=True)
        names = [f"captioned-{hashlib.sha256(name.encode()).hexdigest()[:16]}" for name in prompts["real_id"]]
        return prompts.assign(prompt_id=names, text=prompts["references"].str[0], n_images=1)

    @property
    def gender_is_judged(self) -> bool:
        """Whether gender by profession is by the gender judge: it is set, and the VQA model is explicitly empty."""
        s = self._pipeline.settings
        return not s.dalleval.vqa and "vqa" in s.dalleval.model_fields_set and bool(s.judging.gender)

    @cached_method
    def judged_people(self, kind: str) -> pd.DataFrame:
        """Return the table of :meth:`people` with the columns of :meth:`biaslab.pipeline.Stages.judged`."""
        self._pipeline.require(*self._pipeline.judge_settings, prompt_set="dalleval")
        images = self.people(kind)
        labels = self._pipeline.judge_images(images.source)
        return images.table.drop(columns="status").merge(labels, on="image_id", validate="one_to_one")

    @cached_method
    def tones(self, kind: str) -> pd.DataFrame:
        """Return the skin tone of each person (:meth:`people`) in images with exactly one face.

        The table of the images with the face's box (:func:`biaslab.judges.people.locate_people`), tone (1–10, NaN with
        the cause in ``tone_reason``), red, green, blue (0–255, where pixels were read) and tone_judge.
        """
        pipeline = self._pipeline
        pipeline.require("judging.faces", prompt_set="dalleval")
        images = self.people(kind)
        detector = pipeline.check_judge("judging.faces", images.source)
        requested = images.table[["image_id"]].assign(position=1)
        faces = pipeline.compute(locate_people, images.source, requested, detector)
        people = images.table.merge(faces[["image_id", "n_faces", *BOX, "boxes"]], on="image_id", validate="one_to_one")
        tones = pipeline.skin_tones(images.source, people)
        colour = {name: tones[name].to_numpy() for name in ("tone", "red", "green", "blue")}
        columns = {f"tone_{name}": tones[name].to_numpy() for name in ("reason", "judge")}
        return people.assign(**colour, **columns)


def _genders(captions: pd.DataFrame, file: str) -> pd.Series:
    """Return the gender of each caption: of the column ``gender``, else by the caption's words; empty if neither.

    Raises InputError if the column has another label.
    """
    if "corpus_gender" not in captions:
        return indicators(captions["text"])["indicator"].replace("none", "")
    labels = captions["corpus_gender"].fillna("").astype(str).str.strip()
    genders = labels.str.casefold().replace(SYNONYMS)
    for label in labels[~genders.isin([*GENDER_LABELS, ""])]:
        raise InputError(f"{file} contains {label!r} in the column gender. {name_help(label, GENDER_LABELS)}")
    return genders


def _sample_scenes(scenes: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a sample of ``n`` scenes of each skill, in random order."""
    indices_by_skill = scenes.groupby("skill", sort=False).indices.values()
    return scenes.iloc[np.concatenate([rng.permutation(i)[:n] for i in indices_by_skill])]


def _authors_images(folder: str, prompts: pd.DataFrame) -> ImageSource:
    """Return the images of scenes in PaintSkills' folder, with the columns of ``prompts``."""
    ids = "image_" + prompts["prompt_id"]
    table = prompts.drop(columns="n_images").assign(image_id=ids, status="ok")
    return DescribedImages(CaptionImages(folder, ids), table)
