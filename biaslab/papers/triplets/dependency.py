"""Pipeline stages of dependency groups: images, their objects and maps of words → the objects that words guide.

Drawings, whose groups are known, have the same stages. Source: triplets paper, section 6.
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
from biaslab.attribution.maps import THRESHOLD, WordMaps, resize_maps
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
    """True maps of the words of captions for images with ground truth, in the form of attention maps."""

    def __init__(self, truth: GroundTruth, images: ImageSource, table: pd.DataFrame) -> None:
        self._truth, self._images = truth, images
        self.texts: dict[str, str] = dict(zip(table["image_id"], table["text"], strict=True))
        content = repr((images.digest, sorted(self.texts.items()), code_digest.digest(truth.word_masks)))
        self.digest = hashlib.sha256(content.encode()).hexdigest()

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return the true maps of words, in the order of ``image_ids``."""
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
        """Return the tagger of nouns."""
        triplets = self._pipeline.settings.triplets
        return naming.load(triplets.noun_tagger, merge_people=triplets.merge_people)

    @cached_method
    def looked_at(self) -> pd.DataFrame:
        """Return the images that the object detector processed."""
        self.check_attention()
        statuses, table = self._triplets.objects().images, self._triplets.images().table
        examined_ids = statuses.loc[statuses["status"] == "", "image_id"]
        return table[(table["status"] == "ok") & table["image_id"].isin(examined_ids)].reset_index(drop=True)

    @cached_method
    def groups(self) -> pd.DataFrame:
        """Return how far words cover each object of the images, and its group (section 6.2).

        One row per object: image_id, instance, label (the detected one), object (as a noun), explicit (whether the
        prompt names it), the columns of :data:`biaslab.attribution.dependency.COVERED`, and dependency_group (None
        where the object has no pixel).
        """
        return self._assign_groups(self.maps(), self._triplets.objects().objects, self.looked_at())

    @cached_method
    def prompt_nouns(self) -> pd.DataFrame:
        """Return the nouns of each image's prompt: image_id, noun, and hidden (whether no object has its name)."""
        images, objects = self.looked_at(), self._triplets.objects().objects
        return self._list_nouns(images, objects.assign(object=self._to_nouns(objects["object"])))

    def maps(self) -> AttendedImages | NoisedImages:
        """Return the source of word maps: the model's attention, or the true maps of a model with ground truth.

        Raises MissingInputError if attention was not saved.
        """
        self.check_attention()
        images = self._triplets.images()
        if self._pipeline.image_model("triplets").truthful:
            return TrueMaps(self._truth, images.source, images.table)
        return duplicates.all_images(images.source)

    def check_attention(self) -> None:
        """Raise MissingInputError, before images are generated, if neither attention nor true maps are available."""
        truthful = self._pipeline.image_model("triplets").truthful
        if not (truthful or self._pipeline.settings.triplets.attention):
            raise MissingInputError(NO_MAPS, ["triplets.attention"])
        self.nouns()

    def _to_nouns(self, labels: pd.Series) -> pd.Series:
        names = {label: self.nouns().name(label) for label in labels.unique()}
        return labels.map(names).astype(object)

    def _nouns_by_image(self, images: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Return the nouns of each image's text."""
        nouns_by_text = {text: self.nouns().find_nouns(text) for text in images["text"].unique()}
        return {i: nouns_by_text[text] for i, text in zip(images["image_id"], images["text"], strict=True)}

    def _list_nouns(self, images: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
        """Return the nouns of images' texts: image_id, noun, and hidden (whether no object has its name)."""
        names_by_image = objects.groupby("image_id")["object"].agg(set)
        rows = []
        for image_id, nouns in self._nouns_by_image(images).items():
            rows += [(image_id, noun, noun not in names_by_image.get(image_id, ())) for noun in nouns]
        return pd.DataFrame(rows, columns=["image_id", "noun", "hidden"]).astype({"hidden": bool})

    def _assign_groups(
        self, maps: AttendedImages | NoisedImages, objects: pd.DataFrame, images: pd.DataFrame
    ) -> pd.DataFrame:
        texts = self._nouns_by_image(images)
        objects = objects[objects["image_id"].isin(texts)].reset_index(drop=True)
        covered = self._pipeline.compute(dependency.measure_coverage, maps, objects)
        objects = objects.rename(columns={"object": "label"}).assign(object=self._to_nouns(objects["object"]))
        is_named = [name in texts[i] for i, name in zip(objects["image_id"], objects["object"], strict=True)]
        keys = ["image_id", "instance"]
        objects = objects.assign(explicit=np.array(is_named, bool))[[*keys, "label", "object", "explicit"]]
        rows = objects.merge(covered, on=keys)
        group = dependency_groups_of_largest(*(rows[c] for c in ("object", "explicit", "coverage", "human_coverage")))
        return rows.assign(dependency_group=group)

    # -- drawings with ground truth ---------------------------------------------------------------

    @cached_method
    def drawing_truth(self) -> TrueMaps:
        """Return the true maps of words in the drawings."""
        drawings = self._triplets.drawings()
        return TrueMaps(self._truth, drawings, drawings.table)

    @cached_method
    def drawing_maps(self) -> NoisedImages | TrueMaps:
        """Return maps of the words of the drawings' captions: the model's, or the true ones of a model with them.

        Raises MissingInputError if attention is off in the settings, or cannot be captured from this model.
        """
        pipeline, drawings = self._pipeline, self._triplets.drawings()
        if pipeline.image_model("triplets").truthful:
            return self.drawing_truth()
        if not pipeline.settings.triplets.attention:
            raise MissingInputError(NO_MAPS, ["triplets.attention"])
        model, table = pipeline.image_model("triplets"), drawings.table
        prompts = table.assign(words=[asking.words(text) for text in table["text"]])
        arguments = (NoisedImages, drawings, prompts, model.load, model.digest)
        try:
            return pipeline.compute(*arguments, seed=pipeline.seed)
        except ParameterError as error:
            # The run continues without results on drawings.
            raise MissingInputError(str(error)) from error

    @cached_method
    def drawing_groups(self) -> pd.DataFrame:
        """Return the groups of objects in the drawings: image_id, object, planted and measured.

        Groups are empty where an object is not shown, or not detected. Where objects come from a file, true objects
        replace detections. Objects with the same name in an image are matched from left to right.
        """
        drawings = self._triplets.drawings()
        images, true_objects = drawings.table, self._triplets.truth(drawings).objects
        objects = true_objects
        if not isinstance(self._triplets.object_judge, InstanceFile):
            objects = self._triplets.find_instances(drawings).objects
        texts = self.drawing_truth().texts
        planted = [
            group
            for i, rows in true_objects.groupby("image_id", sort=False)
            for group in self._truth.groups(texts[i], list(rows["object"]))
        ]
        true_objects = true_objects.assign(object=self._to_nouns(true_objects["object"]), planted=planted)
        groups = self._assign_groups(self.drawing_maps(), objects, images)
        measured_objects = objects[objects["image_id"].isin(texts)].reset_index(drop=True)
        measured_objects = measured_objects.assign(object=groups["object"], measured=groups["dependency_group"])
        frames, hidden = [], []
        for side, column in ((true_objects, "planted"), (measured_objects, "measured")):
            ordered = side.sort_values(["image_id", "left"], kind="stable")
            rank = ordered.groupby(["image_id", "object"]).cumcount()
            frames.append(ordered[["image_id", "object", column]].assign(place=rank))
            nouns = self._list_nouns(images, side).rename(columns={"noun": "object"})
            nouns[column] = np.where(nouns.pop("hidden"), "hidden", "")
            hidden.append(nouns)
        matched_objects = frames[0].merge(frames[1], on=["image_id", "object", "place"], how="outer")
        hidden_nouns = hidden[0].assign(measured=hidden[1]["measured"])
        hidden_nouns = hidden_nouns[(hidden_nouns[["planted", "measured"]] != "").any(axis=1)]
        objects = pd.concat([matched_objects.drop(columns="place"), hidden_nouns], ignore_index=True)
        return objects[["image_id", "object", "planted", "measured"]].fillna("")

    @cached_method
    def drawing_agreement(self) -> pd.DataFrame:
        """Return how well maps of words agree with the true masks of the drawings.

        One row per word, level of noise and mask: image_id, word, kind (``person``, ``thing``, ``worn`` or ``place``),
        noise (0–1; 0 represents all levels together), mask, overlap and auc (0–1). The mask is the word's ``own``, or
        ``shuffled``: that of another word in its drawing, or ``other``: that of its kind in another drawing.
        """
        maps, table = self.drawing_maps(), self._triplets.drawings().table
        ids, places, rows = list(table["image_id"]), self._places(), []
        level_options = [{}] if isinstance(maps, TrueMaps) else [{"level": level} for level in (0.0, *LEVELS)]
        for options in level_options:
            maps_by_image = dict(zip(ids, maps.word_maps(ids, **options), strict=True))
            for image_id, word, kind, masks in places:
                word_maps = maps_by_image[image_id]
                words = [w.lower() for w in word_maps.words]
                if word not in words:
                    continue
                values = resize_maps(word_maps.maps[[words.index(word)]], *masks["own"].shape)
                for name, mask in masks.items():
                    scores = mask_overlap(values > THRESHOLD, mask[None])[0], map_auc(values, mask[None])[0]
                    rows.append((image_id, word, kind, options.get("level", 0.0), name, *scores))
        columns = ["image_id", "word", "kind", "noise", "mask", "overlap", "auc"]
        return pd.DataFrame(rows, columns=columns)

    def _places(self) -> list[tuple[str, str, str, dict[str, np.ndarray]]]:
        """Return the words of visible things: image_id, word, kind, and the masks that its map is compared with."""
        truth_maps, table = self.drawing_truth(), self._triplets.drawings().table
        places = []
        for image_id in table["image_id"]:
            (word_map,) = truth_maps.word_maps([image_id])
            kinds = [naming.PERSON if w in naming.PEOPLE else self._truth.kind(w) for w in word_map.words]
            word_masks = [(w, kind, m > 0) for w, kind, m in zip(word_map.words, kinds, word_map.maps, strict=True)]
            word_masks = [row for row in word_masks if row[1] and row[2].any()]
            for k, (word, kind, mask) in enumerate(word_masks):
                shuffled = {"shuffled": word_masks[(k + 1) % len(word_masks)][2]} if len(word_masks) > 1 else {}
                places.append((image_id, word, kind, {"own": mask} | shuffled))
        for k, (image_id, _, kind, masks) in enumerate(places):
            next_places = (places[(k + j) % len(places)] for j in range(1, len(places)))
            candidates = (f for f in next_places if f[2] == kind and f[0] != image_id)
            if match := next(candidates, None):
                masks["other"] = match[3]["own"]
        return places

    @property
    def _truth(self) -> GroundTruth:
        return self._pipeline.require_ground_truth("the regions of words", "triplets")
