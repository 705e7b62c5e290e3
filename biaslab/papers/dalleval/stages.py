"""The pipeline's stages for DALL-Eval: prompts → images → objects, answers, faces and skin tones.

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
    """Images generated from captions, and those behind the captions.

    ``table`` has image_id (generated), real_id (behind the caption), text (the prompt), references (all captions of the
    image) and group (what captions share, so that they are not independent: the occupation, else their words).
    """

    table: pd.DataFrame
    generated_images: ImageSource
    real_images: ImageSource | None


class DallEval(Part):
    """The stages for DALL-Eval's prompts."""

    prompt_set = "dalleval"

    @cached_method
    def prompts(self, kind: str) -> pd.DataFrame:
        """Return the prompts of a kind, a sample as settings ask, one a row. Raises UnknownNameError: No such kind."""
        if kind not in KINDS:
            raise unknown_name("kind of DALL-Eval's prompts", kind, KINDS)
        s, rng = self._pipeline.settings.dalleval, np.random.default_rng([self._pipeline.seed, 71])
        if kind == "skills":
            whole = paintskills.scenes(s.paintskills) if s.paintskills else asking.skills()
            whole = whole.assign(n_images=1)
            return _drawn(whole, s.n_scenes, rng).sort_index(ignore_index=True) if s.n_scenes else whole
        words = word_files.read(s.vocabulary_file, "dalleval.vocabulary_file") if s.vocabulary_file else None
        whole = asking.social(s.social_images, words)
        names = tuple(dict.fromkeys(whole["profession"]))[1:]
        if s.n_professions and s.n_professions < len(names):
            some = {"(none)", *rng.choice(names, s.n_professions, replace=False)}
            whole = whole[whole["profession"].isin(some)].reset_index(drop=True)
        return whole

    # -- images and what judges say of them ----------------------------------------------------------

    @cached_method
    def images(self, kind: str) -> ImageSource:
        """Return images of a kind, with a table of one row per image and the columns of its prompt."""
        asked = self.prompts(kind)
        return with_prompt_columns(self._pipeline.generate_images(asked, kind, "dalleval"), asked)

    @cached_method
    def renders(self) -> ImageSource:
        """Return images that show what PaintSkills' prompts ask for: the authors' where named, or with ground truth."""
        asked = self.prompts("skills")
        if folder := self._pipeline.settings.dalleval.paintskills:
            return _authors_images(folder, asked)
        truth = self._pipeline.require_ground_truth(
            "the detector's accuracy on images that match the prompt", "dalleval"
        )
        return with_prompt_columns(truth.scenes(asked, seed=self._pipeline.seed + 1), asked)

    @cached_method
    def reference(self) -> ImageSource:
        """Return images with ground truth, on which the detector's error is measured.

        Half of them fail at their prompt, in all ways that its skill has alike; of the authors' images, where the
        settings name their folder, half are asked for what another scene shows.
        """
        pipeline, s = self._pipeline, self._pipeline.settings.dalleval
        rng = np.random.default_rng([pipeline.seed, 72])
        whole = paintskills.scenes(s.paintskills) if s.paintskills else asking.skills("train")
        asked = _drawn(whole.assign(n_images=1), s.calibration_images, rng).reset_index(drop=True)
        if s.paintskills:
            return _authors_images(s.paintskills, paintskills.swapped(asked, whole, rng))
        truth = pipeline.require_ground_truth("the detector's error", "dalleval")
        vae = pipeline.image_model("dalleval").autoencoder
        failures = dict.fromkeys(truth.failure_modes, 0.5 / len(truth.failure_modes))
        made = truth.scenes(asked, seed=pipeline.seed + 2, failures=failures, decoded=vae)
        return with_prompt_columns(made, asked)

    @cached_method
    def people(self, kind: str) -> ImageSource:
        """Return images of people: ``social``, those of the prompts, or ``drawings`` with ground truth."""
        if kind == "social":
            return self.images("social")
        pipeline = self._pipeline
        n, vae = pipeline.settings.dalleval.calibration_images, pipeline.image_model("dalleval").autoencoder
        truth = pipeline.require_ground_truth("the judges' error", "dalleval")
        made = truth.people(asking.social(), n, seed=pipeline.seed + 3, decoded=vae)
        return DescribedImages(made, made.table)

    def detections(self, images: ImageSource) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return what the detector finds in images, as :func:`biaslab.judges.objects.detect`."""
        pipeline, source = self._pipeline, getattr(images, "source", images)
        return pipeline.compute(objects.detect, source, pipeline.check_judge("dalleval.detector", source))

    @cached_method
    def answers(self, kind: str) -> pd.DataFrame:
        """Return what the VQA model answers about each person (:meth:`people`): about gender and each attribute.

        Columns image_id, prompt, profession, attribute (empty of gender), outcome, reason, answer.
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
        """Return images generated from the captions that the settings name, else of the paradox's caption prompts.

        Raises InputError: The folder has none of the images behind captions.
        """
        pipeline, s = self._pipeline, self._pipeline.settings.dalleval
        if s.captions or s.image_folder or s.max_captions:
            asked = self.caption_prompts()
            made = pipeline.generate_images(asked, "captioned")
            table = made.table[["image_id", "prompt_id"]].merge(asked, on="prompt_id")
            real = self.captioned_images().source if s.image_folder else None
        else:
            described = pipeline.images("caption_prompts")
            made, table = described.source, described.table.drop_duplicates("caption_id", ignore_index=True)
            table = table.assign(
                real_id=table["caption_id"], references=[[text] for text in table["text"]], group=table["occupation"]
            )
            real = pipeline.images("training").source if pipeline.has_images else None
        return Captioned(table[["image_id", "real_id", "text", "references", "group"]], made, real)

    @cached_method
    def captioned_images(self) -> DescribedImages:
        """Return the images in ``dalleval.image_folder``, with the columns of :meth:`caption_prompts`.

        Raises InputError: The folder has none of the images that captions describe.
        """
        s, table = self._pipeline.settings.dalleval, self.caption_prompts()
        images = CaptionImages(s.image_folder, table["real_id"])
        missing = [name for name in table["real_id"] if not images.has(name)]
        if len(missing) == len(table):
            raise InputError(
                f"None of the {len(table):,} images of {s.captions} is in {s.image_folder}. image_id must be the "
                f"name or path of a file there: the first is {missing[0]!r}, and a file is {images.a_file!r}."
            )
        if missing:
            lacks = (s.image_folder, len(missing), len(table), missing[0])
            _log.warning("%s lacks %d of %d images, such as %s.", *lacks)
        return DescribedImages(images, table.rename(columns={"real_id": "image_id"}))

    @cached_method
    def caption_prompts(self) -> pd.DataFrame:
        """Return the prompts from the file of captions: prompt_id, real_id, text, references, n_images, group, gender.

        ``gender`` is that of the file's column, else the one that all captions of the image with a word for a gender
        name; empty where there is none. Raises InputError: The file has no column ``image_id`` or no caption, or its
        column ``gender`` has other labels. ParameterError: Images are named in the settings, captions are not.
        """
        s = self._pipeline.settings.dalleval
        if not s.captions:
            raise ParameterError("dalleval.image_folder and .captioned are of dalleval.captions: set it, too.")
        rows = pd.concat(open_corpus(s.captions).batches(), ignore_index=True)
        # As a corpus carries columns whose names stages use.
        if "corpus_image_id" not in rows:
            raise InputError(f"{s.captions} has no column image_id; it has {', '.join(rows.columns)}.")
        rows = rows.rename(columns={"corpus_image_id": "real_id"})
        known = rows[(rows["text"].fillna("").str.strip() != "") & rows["real_id"].notna()]
        names = known["real_id"].astype(str)
        # A column of numbers that lacks one comes, or was written, as fractions.
        if names.str.fullmatch(r"\d+\.0").all():
            names = names.str.removesuffix(".0")
        shared = known["corpus_occupation" if "corpus_occupation" in known else "text"]
        known = known.assign(real_id=names, group=shared, gender=_genders(known, s.captions))[names != ""]
        if known.empty:
            raise InputError(f"{s.captions} holds no caption with an image_id.")
        if len(known) < len(rows):
            left_out = len(rows) - len(known)
            _log.warning("%s: left out for want of text or image_id: %d captions.", s.captions, left_out)
        of = known.groupby("real_id", sort=False)
        genders = ("gender", lambda labels: "|".join(set(labels) - {""}))
        found = of.agg(references=("text", list), group=("group", "first"), gender=genders).reset_index()
        found["gender"] = found["gender"].where(found["gender"].isin(GENDERS), "")
        if s.max_captions and s.max_captions < len(found):
            rng = np.random.default_rng([self._pipeline.seed, 77])
            found = found.iloc[np.sort(rng.permutation(len(found))[: s.max_captions])].reset_index(drop=True)
        names = [f"captioned-{hashlib.sha256(name.encode()).hexdigest()[:16]}" for name in found["real_id"]]
        return found.assign(prompt_id=names, text=found["references"].str[0], n_images=1)

    @property
    def gender_is_judged(self) -> bool:
        """Whether gender by profession is by the judge of gender: it is named, and on purpose no VQA model is."""
        s = self._pipeline.settings
        return not s.dalleval.vqa and "vqa" in s.dalleval.model_fields_set and bool(s.judging.gender)

    @cached_method
    def judged_people(self, kind: str) -> pd.DataFrame:
        """Return the table of :meth:`people` with the columns of :meth:`biaslab.pipeline.Stages.judged`."""
        self._pipeline.require(*self._pipeline.gate, prompt_set="dalleval")
        images = self.people(kind)
        judged = self._pipeline.judge_images(images.source)
        return images.table.drop(columns="status").merge(judged, on="image_id", validate="one_to_one")

    @cached_method
    def tones(self, kind: str) -> pd.DataFrame:
        """Return the skin tone of each person (:meth:`people`) whose face is the only one.

        The table of the images with the face's box (:func:`biaslab.judges.people.locate_people`), tone (1–10, NaN where
        ``tone_reason`` says why), red, green, blue (0–255, where pixels were read) and tone_judge.
        """
        pipeline = self._pipeline
        pipeline.require("judging.faces", prompt_set="dalleval")
        images = self.people(kind)
        detector = pipeline.check_judge("judging.faces", images.source)
        requested = images.table[["image_id"]].assign(position=1)
        located = pipeline.compute(locate_people, images.source, requested, detector)
        whole = images.table.merge(
            located[["image_id", "n_faces", *BOX, "boxes"]], on="image_id", validate="one_to_one"
        )
        tones = pipeline.skin_tones(images.source, whole)
        colour = {name: tones[name].to_numpy() for name in ("tone", "red", "green", "blue")}
        of = {f"tone_{name}": tones[name].to_numpy() for name in ("reason", "judge")}
        return whole.assign(**colour, **of)


def _genders(captions: pd.DataFrame, file: str) -> pd.Series:
    """Return whom each caption's image shows, by its column ``gender``, else what the caption says; empty if nothing.

    Raises InputError: The column has another label.
    """
    if "corpus_gender" not in captions:
        return indicators(captions["text"])["indicator"].replace("none", "")
    labels = captions["corpus_gender"].fillna("").astype(str).str.strip()
    genders = labels.str.casefold().replace(SYNONYMS)
    for label in labels[~genders.isin([*GENDER_LABELS, ""])]:
        raise InputError(f"{file} has {label!r} in the column gender. {name_help(label, GENDER_LABELS)}")
    return genders


def _drawn(scenes: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a sample of ``n`` scenes of each skill, in an order of chance."""
    of_skill = scenes.groupby("skill", sort=False).indices.values()
    return scenes.iloc[np.concatenate([rng.permutation(i)[:n] for i in of_skill])]


def _authors_images(folder: str, asked: pd.DataFrame) -> ImageSource:
    """Return the images of scenes in PaintSkills' folder, with what is asked of them."""
    ids = "image_" + asked["prompt_id"]
    described = asked.drop(columns="n_images").assign(image_id=ids, status="ok")
    return DescribedImages(CaptionImages(folder, ids), described)
