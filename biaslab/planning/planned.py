"""Empty, typed results of stage functions in a plan: one function here for each stage function, of the same name.

Every image is unreadable, no person is judged, no text is embedded. A stage function without a counterpart here cannot
be planned. Arguments are those of the stage function, without cache and progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.attribution import dependency
from biaslab.captions import paraphrase
from biaslab.generation import spaces
from biaslab.generation.images import image_ids_of, units_of
from biaslab.hub import registry
from biaslab.hub.image_sources import ImageSource, domain_of
from biaslab.io.image_files import UnreadableImage
from biaslab.judges import answers as asking
from biaslab.judges import people, segmentation
from biaslab.judges.judge import Judge
from biaslab.judges.segmentation import Instances
from biaslab.metrics import similarity
from biaslab.metrics.instances import COLUMNS

if TYPE_CHECKING:
    from biaslab.endpoints.settings import EndpointSettings
    from biaslab.generation.models import ImageModel

REASON = "planned"
_UNREADABLE = {"status": "unreadable", "reason": REASON}


class PlannedImages:
    """Images with a table and no contents; each reads as unreadable."""

    digest = REASON

    def __init__(self, table: pd.DataFrame, name: str, image_domain: str) -> None:
        self.table, self.name, self.image_domain = table, name, image_domain

    def read(self, image_ids: Sequence[str]) -> list[UnreadableImage]:
        """Return an unreadable image for each id."""
        return [UnreadableImage(REASON)] * len(image_ids)


def generate(prompts: pd.DataFrame, model: ImageModel) -> PlannedImages:
    """Return placeholders for the images of prompts that a model has not generated."""
    units = units_of(prompts)
    columns = {"image_id": image_ids_of(units), "prompt_id": units["prompt_id"], "index": units["index_"]}
    table = pd.DataFrame(columns).assign(seed=0, status="ok")
    return PlannedImages(table, model.label, model.image_domain)


def fetch_images(captions: pd.DataFrame, folder: str, settings: Any) -> PlannedImages:
    """Return placeholders for the images of captions that are not downloaded."""
    ids = captions["caption_id"].drop_duplicates().to_numpy()
    table = pd.DataFrame({"image_id": ids, "caption_id": ids, "status": REASON})
    return PlannedImages(table, "fetched images", registry.PHOTOGRAPHS)


# -- texts ---------------------------------------------------------------------------------------------------


def find_indicators(captions: pd.DataFrame, name_recognizer: str, words: Any) -> pd.DataFrame:
    """Return captions without gender indicators."""
    return pd.DataFrame({"indicator": "none", "spans": ""}, index=range(len(captions)), dtype=object)


def embed_texts(texts: Sequence[str], model: Any) -> np.ndarray:
    """Return identical embeddings with one dimension."""
    return np.ones((len(texts), 1), np.float32)


def paraphrases(
    captions: Sequence[str],
    occupations: Sequence[str],
    *,
    seed: int = 0,
    endpoint: EndpointSettings | None = None,
    name_recognizer: str = "",
) -> pd.DataFrame:
    """Return the paraphrases by rule; the answers of an endpoint are unknown."""
    return paraphrase.paraphrases(captions, occupations, seed=seed)


def compare_prompts(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of texts without similarity."""
    return spaces.missing_values(pairs, spaces.OF_PROMPTS, REASON)


def critiques(briefs: Sequence[Any], endpoint: EndpointSettings) -> list:
    """Return no critique."""
    return []


# -- images --------------------------------------------------------------------------------------------------


def judge_people(
    images: ImageSource,
    requested: pd.DataFrame,
    judge: Judge,
    detector: Judge | None = None,
    *,
    every_face: bool = False,
) -> pd.DataFrame:
    """Return people in unreadable images."""
    rows = requested[["image_id", "position"]].reset_index(drop=True)
    rows = rows.assign(**_UNREADABLE, gender="", answer="", role="", boxes=[[] for _ in range(len(rows))])
    return people.frame(rows)


def locate_people(images: ImageSource, requested: pd.DataFrame, detector: Judge | None) -> pd.DataFrame:
    """Return people without faces."""
    frame = people.locate_people(images, requested, None, cache=None, progress=False)
    return frame.assign(**_UNREADABLE)


def ask_about(images: ImageSource, units: pd.DataFrame, judge: Judge, *, unit: str = "") -> pd.DataFrame:
    """Return questions without answers."""
    rows = units[["image_id"]].reset_index(drop=True).assign(**_UNREADABLE, answer="")
    return people.frame(rows, asking.ANSWERED)


def judge_skin_tones(images: ImageSource, people: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Return people without skin tones."""
    numbers = dict.fromkeys(("tone", "angle", "red", "green", "blue", "share"), np.nan)
    return pd.DataFrame(numbers, index=range(len(people)), dtype=float).assign(reason=REASON, judge=judge.name)


def mean_skin_colours(images: ImageSource, image_ids: Sequence[str]) -> np.ndarray:
    """Return missing colours for all images."""
    return np.full((len(image_ids), 3), np.nan)


def detect(images: ImageSource, detector: Judge) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return no detection in any image."""
    from biaslab.judges import objects

    return objects.table([], [], list(detector.options.classes)), _mark_unreadable(images)


def find_instances(images: ImageSource, judge: Judge) -> Instances:
    """Return no instance in any image."""
    return Instances(segmentation.typed_instances(pd.DataFrame(columns=list(COLUMNS))), _mark_unreadable(images))


def find_true_instances(images: ImageSource, instances: Callable) -> Instances:
    """Return no instance in any image."""
    return Instances(segmentation.typed_instances(pd.DataFrame(columns=list(COLUMNS))), _mark_unreadable(images))


def _mark_unreadable(images: ImageSource) -> pd.DataFrame:
    return images.table[["image_id"]].astype(object).reset_index(drop=True).assign(**_UNREADABLE)


def embed_images(images: ImageSource, image_ids: Sequence[str], judge: Judge) -> pd.DataFrame:
    """Return images without embeddings."""
    return pd.DataFrame({"image_id": list(dict.fromkeys(image_ids)), "vector": None}, dtype=object)


def compare(images: ImageSource, pairs: pd.DataFrame, by: str, judge: Judge | None) -> pd.DataFrame:
    """Return pairs of images without similarity."""
    return spaces.missing_values(pairs, similarity.METRICS[by], REASON)


def compare_latents(images: ImageSource, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of latents without similarity."""
    return spaces.missing_values(pairs, spaces.OF_LATENTS, REASON)


def measure_coverage(images: Any, instances: pd.DataFrame) -> pd.DataFrame:
    """Return objects that no word covers."""
    keys = ["image_id", "instance"]
    columns = instances[keys].reindex(columns=[*keys, *dependency.COVERED])
    return columns.astype(dependency.COVERED)


def NoisedImages(
    images: ImageSource, requested: pd.DataFrame, load: Callable, weights: str, *, seed: int
) -> PlannedImages:
    """Return images whose words have no maps."""
    return PlannedImages(pd.DataFrame({"image_id": []}), images.name, domain_of(images))
