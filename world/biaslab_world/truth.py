"""Ground truth of the synthetic world's images; implements :class:`biaslab.hub.ground_truth.GroundTruth`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.hub import model_files, registry
from biaslab_world import pairs as of_pairs
from biaslab_world import skills, social, triplets
from biaslab_world.truthful import WORLD, Renders

image_domain, corpus, model = registry.DRAWINGS, "mini", WORLD
words = {
    "training": "Not its training data: captions and training images are a synthetic world's.",
    "indicators": "The synthetic world was set to that share: their agreement is no replication.",
}
failure_modes = skills.FAILURES
scenes = skills.generate
nouns, groups = triplets.nouns, triplets.planted_groups
people, pairs = social.balanced, of_pairs.held_out_pairs


def depictions(n: int, *, seed: int, decoded: Path | None = None) -> Renders:
    """Return drawings of captions with independent noise."""
    texts = [triplets.write(*triplets.draw(seed, k, "off")) for k in range(n)]
    prompts = pd.DataFrame({"prompt_id": [f"drawing-{k:05d}" for k in range(n)], "text": texts})
    renders = triplets.generate(prompts.assign(n_images=1), seed=seed, skew="off")
    digest = f"{renders.digest} {model_files.digest(str(decoded)) if decoded else ''}"
    table = renders.table.merge(prompts, on="prompt_id")
    return Renders("drawings of depictions", digest, table, renders.scene, 64, decoded=decoded)


def instances(images: Renders, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the instances of drawings."""
    return pd.concat([triplets.instances(images.scene(i), i) for i in rows["image_id"]], ignore_index=True)


def expected(prompts: pd.DataFrame, synthetic_bias: str) -> pd.DataFrame:
    """Return the mean count of each object in images of prompts, under the skew that matches ``synthetic_bias``."""
    return triplets.expected(prompts, triplets.skew_of(synthetic_bias))


def word_masks(images: Renders, image_id: str, text: str) -> Mapping[str, np.ndarray]:
    """Return the region of its drawing to which each word of a caption refers."""
    return triplets.word_masks(images.scene(image_id), text)


def kind(word: str) -> str:
    """Return the kind of thing that a word of the captions names, or an empty string."""
    kinds: dict[str, Sequence[str]] = {"thing": triplets.THINGS, "worn": triplets.WORN, "place": triplets.PLACES}
    return next((name for name, words in kinds.items() if word in words), "")
