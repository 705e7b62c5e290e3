"""What the pipeline's own stages compute, apart from what connects them, so that their keys follow no more than it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from biaslab.hub.image_sources import ImageSource
from biaslab.judges import inception
from biaslab.judges.judge_names import files_digest
from biaslab.judges.zero_shot import ZeroShot


def embed_images(source: ImageSource, model: str, device: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return the embeddings of images; None where one cannot be read."""
    read = source.read(images["image_id"].tolist())
    there = [i for i, image in enumerate(read) if isinstance(image, np.ndarray)]
    vectors: list = [None] * len(read)
    found = embedder(model, device).image_embeddings([read[i] for i in there]) if there else []
    for i, vector in zip(there, found, strict=True):
        vectors[i] = vector
    return pd.DataFrame({"image_id": images["image_id"], "vector": vectors})


def weights_digest(name: str) -> str:
    """Return a digest of the weights of the model that embeds images."""
    if name.startswith(inception.INCEPTION):
        return inception.check_weights(name.removeprefix(inception.INCEPTION))
    return files_digest(name, "clip")


@lru_cache(maxsize=1)
def embedder(name: str, device: str):
    """Return the model, loaded once in each process."""
    if name.startswith(inception.INCEPTION):
        return inception.Inception(name.removeprefix(inception.INCEPTION), device=device)
    return ZeroShot(name, device=device)
