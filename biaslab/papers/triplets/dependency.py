"""The pipeline's stages for dependency groups: images, their objects and maps of words → which objects words guide.

And the same on drawings, of which it is known. Source: triplets paper, section 6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import biaslab.papers.triplets.nouns as naming
import biaslab.papers.triplets.prompts as asking
from biaslab.attribution import dependency
from biaslab.attribution.images import AttendedImages
from biaslab.attribution.maps import THRESHOLD, WordMaps, on_image
from biaslab.attribution.noised import LEVELS, NoisedImages
from biaslab.cache import code_digest
from biaslab.errors import MissingInputError, ParameterError
from biaslab.hub.ground_truth import GroundTruth
from biaslab.hub.image_sources import ImageSource
from biaslab.judges import duplicates
from biaslab.judges.segmentation import InstanceFile
from biaslab.metrics.instances import map_auc, mask_overlap
from biaslab.metrics.similarity import dependency_groups_of_largest
from biaslab.pipeline.stages import Part, Pipeline, cached_method

NO_MAPS = "Attention to the words of prompts was not saved. Set triplets.attention to true."


class TrueMaps:
    """Maps of words of captions, the texts of images with ground truth, as attention without error gives them."""

    def __init__(self, truth: GroundTruth, images: ImageSource, table: pd.DataFrame) -> None:
        self._truth, self._images = truth, images
        self.texts: dict[str, str] = dict(zip(table["image_id"], table["text"], strict=True))
        whole = repr((images.digest, sorted(self.texts.items()), code_digest.digest(truth.word_masks)))
        self.digest = hashlib.sha256(whole.encode()).hexdigest()

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return where each word belongs, in the order asked for."""
        word_maps = []
        for image_id in image_ids:
            masks = self._truth.word_masks(self._images, image_id, self.texts[image_id])
            maps = np.stack([np.where(mask, 255, 0).astype(np.uint8) for mask in masks.values()])
            word_maps.append(WordMaps(tuple(masks), maps, {}))
        return word_maps


class Dependency(Part):
    """The stages for dependency groups of the images and objects of :class:`.stages.Triplets`."""

    def __init__(self, pipeline: Pipeline, triplets: Any) -> None:
        super().__init__(pipeline)
        self._triplets = triplets

    @cached_method
    def nouns(self) -> naming.Nouns:
        """Return who finds nouns."""
        triplets = self._pipeline.settings.triplets
        return naming.load(triplets.noun_tagger, merge_people=triplets.merge_people)

    @cached_method
    def looked_at(self) -> pd.DataFrame:
        """Return the images in which objects were looked for."""
        self.check_attention()
        looked, table = self._triplets.objects().images, self._triplets.images().table
        seen = looked.loc[looked["status"] == "", "image_id"]
        return table[(table["status"] == "ok") & table["image_id"].isin(seen)].reset_index(drop=True)

    @cached_method
    def groups(self) -> pd.DataFrame:
        """Return how far words cover each object of the images, and the group that follows (section 6.2).

        A row an object: image_id, instance, label (as it was found), object (as a noun), explicit (whether the prompt
        names it), the columns of :data:`biaslab.attribution.dependency.COVERED`, and dependency_group (None where the
        object has no pixel).
        """
        return self._grouped(self.maps(), self._triplets.objects().objects, self.looked_at())

    @cached_method
    def prompt_nouns(self) -> pd.DataFrame:
        """Return the nouns of each image's prompt: image_id, noun, and hidden (whether no object has its name)."""
        images, objects = self.looked_at(), self._triplets.objects().objects
        return self._nouns_of(images, objects.assign(object=self._named(objects["object"])))

    def maps(self) -> AttendedImages | NoisedImages:
        """Return what maps words in the images: the model's attention; with ground truth where words belong.

        Raises MissingInputError: Attention was not kept.
        """
        self.check_attention()
        images = self._triplets.images()
        if self._pipeline.image_model("triplets").truthful:
            return TrueMaps(self._truth, images.source, images.table)
        return duplicates.all_images(images.source)

    def check_attention(self) -> None:
        """Raise MissingInputError, before images are generated, where neither attention nor truth places words."""
        truthful = self._pipeline.image_model("triplets").truthful
        if not (truthful or self._pipeline.settings.triplets.attention):
            raise MissingInputError(NO_MAPS, ["triplets.attention"])
        self.nouns()

    def _named(self, labels: pd.Series) -> pd.Series:
        names = {label: self.nouns().name(label) for label in labels.unique()}
        return labels.map(names).astype(object)

    def _texts(self, images: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Return the nouns of each image's text."""
        nouns_by_text = {text: self.nouns().of(text) for text in images["text"].unique()}
        return {i: nouns_by_text[text] for i, text in zip(images["image_id"], images["text"], strict=True)}

    def _nouns_of(self, images: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
        """Return the nouns of images' texts: image_id, noun, and hidden (whether no object has its name)."""
        shown = named.groupby("image_id")["object"].agg(set)
        rows = []
        for image_id, nouns in self._texts(images).items():
            rows += [(image_id, noun, noun not in shown.get(image_id, ())) for noun in nouns]
        return pd.DataFrame(rows, columns=["image_id", "noun", "hidden"]).astype({"hidden": bool})

    def _grouped(
        self, maps: AttendedImages | NoisedImages, objects: pd.DataFrame, images: pd.DataFrame
    ) -> pd.DataFrame:
        texts = self._texts(images)
        objects = objects[objects["image_id"].isin(texts)].reset_index(drop=True)
        covered = self._pipeline.compute(dependency.covered, maps, objects)
        objects = objects.rename(columns={"object": "label"}).assign(object=self._named(objects["object"]))
        named = [name in texts[i] for i, name in zip(objects["image_id"], objects["object"], strict=True)]
        keys = ["image_id", "instance"]
        objects = objects.assign(explicit=np.array(named, bool))[[*keys, "label", "object", "explicit"]]
        rows = objects.merge(covered, on=keys)
        group = dependency_groups_of_largest(*(rows[c] for c in ("object", "explicit", "coverage", "human_coverage")))
        return rows.assign(dependency_group=group)

    # -- drawings with ground truth ---------------------------------------------------------------

    @cached_method
    def drawn_truth(self) -> TrueMaps:
        """Return where words belong in the drawings."""
        drawings = self._triplets.drawings()
        return TrueMaps(self._truth, drawings, drawings.table)

    @cached_method
    def drawn_maps(self) -> NoisedImages | TrueMaps:
        """Return maps of the words of the drawings' captions, by the model; with ground truth where they belong.

        Raises MissingInputError: Attention is not asked for, or the model's cannot be taken in drawings.
        """
        pipeline, drawings = self._pipeline, self._triplets.drawings()
        if pipeline.image_model("triplets").truthful:
            return self.drawn_truth()
        if not pipeline.settings.triplets.attention:
            raise MissingInputError(NO_MAPS, ["triplets.attention"])
        made_by, table = pipeline.image_model("triplets"), drawings.table
        prompts = table.assign(words=[asking.words(text) for text in table["text"]])
        given = (NoisedImages, drawings, prompts, made_by.load, made_by.digest)
        try:
            return pipeline.compute(*given, seed=pipeline.seed)
        except ParameterError as error:
            # Of other models the run continues without what only drawings tell.
            raise MissingInputError(str(error)) from error

    @cached_method
    def drawn_groups(self) -> pd.DataFrame:
        """Return the groups of objects in the drawings: image_id, object, planted and measured.

        Groups are empty where an object is not shown, or not found. Where objects come from a file, those that are
        shown represent what was found. Objects of one name in one image are compared from left to right.
        """
        drawings = self._triplets.drawings()
        images, shown = drawings.table, self._triplets.truth(drawings).objects
        objects = shown
        if not isinstance(self._triplets.object_judge, InstanceFile):
            objects = self._triplets.find_instances(drawings).objects
        texts = self.drawn_truth().texts
        planted = [
            group
            for i, rows in shown.groupby("image_id", sort=False)
            for group in self._truth.groups(texts[i], list(rows["object"]))
        ]
        shown = shown.assign(object=self._named(shown["object"]), planted=planted)
        groups = self._grouped(self.drawn_maps(), objects, images)
        measured = objects[objects["image_id"].isin(texts)].reset_index(drop=True)
        measured = measured.assign(object=groups["object"], measured=groups["dependency_group"])
        placed, hidden = [], []
        for side, column in ((shown, "planted"), (measured, "measured")):
            sorted_ = side.sort_values(["image_id", "left"], kind="stable")
            place = sorted_.groupby(["image_id", "object"]).cumcount()
            placed.append(sorted_[["image_id", "object", column]].assign(place=place))
            nouns = self._nouns_of(images, side).rename(columns={"noun": "object"})
            nouns[column] = np.where(nouns.pop("hidden"), "hidden", "")
            hidden.append(nouns)
        both = placed[0].merge(placed[1], on=["image_id", "object", "place"], how="outer")
        unseen = hidden[0].assign(measured=hidden[1]["measured"])
        unseen = unseen[(unseen[["planted", "measured"]] != "").any(axis=1)]
        objects = pd.concat([both.drop(columns="place"), unseen], ignore_index=True)
        return objects[["image_id", "object", "planted", "measured"]].fillna("")

    @cached_method
    def drawn_agreement(self) -> pd.DataFrame:
        """Return how well maps of words mark where these belong in the drawings.

        A row a word, level of noise and mask: image_id, word, kind (``person``, ``thing``, ``worn`` or ``place``),
        noise (0–1; 0 represents all levels together), mask (``own``, ``shuffled``: where another word of its drawing
        belongs, or ``other``: where one of its kind does in another), overlap and auc (0–1).
        """
        maps, table = self.drawn_maps(), self._triplets.drawings().table
        ids, places, rows = list(table["image_id"]), self._places(), []
        levels = [{}] if isinstance(maps, TrueMaps) else [{"level": level} for level in (0.0, *LEVELS)]
        for at in levels:
            maps_by_image = dict(zip(ids, maps.word_maps(ids, **at), strict=True))
            for image_id, word, kind, masks in places:
                word_maps = maps_by_image[image_id]
                words = [w.lower() for w in word_maps.words]
                if word not in words:
                    continue
                values = on_image(word_maps.maps[[words.index(word)]], *masks["own"].shape)
                for name, mask in masks.items():
                    both = mask_overlap(values > THRESHOLD, mask[None])[0], map_auc(values, mask[None])[0]
                    rows.append((image_id, word, kind, at.get("level", 0.0), name, *both))
        columns = ["image_id", "word", "kind", "noise", "mask", "overlap", "auc"]
        return pd.DataFrame(rows, columns=columns)

    def _places(self) -> list[tuple[str, str, str, dict[str, np.ndarray]]]:
        """Return the words that name what is to be seen: image_id, word, kind, and the masks it is held against."""
        true, table = self.drawn_truth(), self._triplets.drawings().table
        places = []
        for image_id in table["image_id"]:
            (word_map,) = true.word_maps([image_id])
            kinds = [naming.PERSON if w in naming.PEOPLE else self._truth.kind(w) for w in word_map.words]
            seen = [(w, kind, m > 0) for w, kind, m in zip(word_map.words, kinds, word_map.maps, strict=True)]
            seen = [row for row in seen if row[1] and row[2].any()]
            for k, (word, kind, mask) in enumerate(seen):
                shuffled = {"shuffled": seen[(k + 1) % len(seen)][2]} if len(seen) > 1 else {}
                places.append((image_id, word, kind, {"own": mask} | shuffled))
        for k, (image_id, _, kind, masks) in enumerate(places):
            following = (places[(k + j) % len(places)] for j in range(1, len(places)))
            elsewhere = (f for f in following if f[2] == kind and f[0] != image_id)
            if other := next(elsewhere, None):
                masks["other"] = other[3]["own"]
        return places

    @property
    def _truth(self) -> GroundTruth:
        return self._pipeline.require_ground_truth("where words belong", "triplets")
