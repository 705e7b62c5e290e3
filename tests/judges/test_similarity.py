"""Pairs of images compared once, by pixels and by networks, with a reason where there is no value."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import similarity
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.similarity import METRICS, compare, embedding
from biaslab.metrics.similarity import diff_pix, luma, ssim, ssim_maps

pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytest.importorskip("cv2", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

PAIRS = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "small"), ("a", "lost"), ("a", "a"), ("small", "small")]
PAIRS = pd.DataFrame(PAIRS, columns=["first", "second"])


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    arrays = [np.repeat(np.repeat(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8), 8, 0), 8, 1) for _ in range(3)]
    unreadable, small = UnreadableImage("truncated"), arrays[0][:32, :32]
    return ArrayImages([*arrays, small, unreadable], ["a", "b", "c", "small", "lost"])


@pytest.fixture
def compare_pairs(images, tmp_path):
    """Compare pairs of the images by a metric."""

    def _compared(by, name="", pairs=PAIRS):
        judge = embedding(by, name, JudgeOptions(device="cpu")) if name else None
        return compare(images, pairs, by, judge, cache=ResultCache(tmp_path), progress=False)

    return _compared


def pivot_values(result):
    return result.pivot(index=["first", "second"], columns="metric", values="value")


def test_compare_pixels_of_each_pair(images, compare_pairs, monkeypatch):
    monkeypatch.setitem(similarity._AT_ONCE, "cpu", 2)  # two pairs at a time
    result = compare_pairs("pixels")
    assert list(result) == ["first", "second", "metric", "value", "reason"]
    assert set(result["metric"]) == set(METRICS["pixels"]) and len(result) == 3 * len(PAIRS)
    values = pivot_values(result)
    for a, b in (("a", "b"), ("b", "c"), ("small", "small")):
        maps = ssim_maps(*(luma(np.stack(images.read([i]))) for i in (a, b)))
        metrics = [ssim(maps), diff_pix(maps), diff_pix(maps, fixed=True)]
        np.testing.assert_allclose(values.loc[a, b][list(METRICS["pixels"])], np.ravel(metrics))
    assert values.loc["a", "a"].to_dict() == {"ssim": 1, "diff_pix": 0, "diff_pix_fixed": 0}
    why = result.drop_duplicates(["first", "second"]).set_index(["first", "second"])["reason"]
    assert why["a", "lost"] == "truncated" and "sizes" in why["a", "small"] and why["a", "b"] == ""
    assert values.loc[[("a", "lost"), ("a", "small")]].isna().all(axis=None)


@pytest.mark.long
@pytest.mark.parametrize("by", ["resnet", "clip", "dino"])
def test_compare_network_embeds_each_image_once(images, compare_pairs, monkeypatch, by):
    network = embedding(by, "mini", JudgeOptions(device="cpu"))
    kind = type(network)
    batch_sizes = []
    whole = kind.embed
    monkeypatch.setattr(kind, "embed", lambda self, batch: batch_sizes.append(len(batch)) or whole(self, batch))
    result = compare_pairs(by, "mini")
    pd.testing.assert_frame_equal(compare_pairs(by, "mini"), result)
    assert batch_sizes == [4]
    vectors = {i: whole(network, images.read([i]))[0].astype(float) for i in ("a", "b", "c", "small")}
    for (a, b), value in pivot_values(result)[by].dropna().items():
        expected = vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
        assert value == pytest.approx(expected, abs=1e-5)
    # Images of another size are embedded as well; unreadable ones are not.
    assert list(result.loc[result["value"].isna(), "second"]) == ["lost"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["mini-detector", "mini"])
def test_compare_split_product_matches_definition(images, compare_pairs, monkeypatch, name):
    monkeypatch.setitem(similarity._AT_ONCE, "cpu", 3)  # three pairs at a time
    result = pivot_values(compare_pairs("split_product", name))
    network = embedding("split_product", name, JudgeOptions(device="cpu"))
    places = {i: network.embed(images.read([i]))[0] for i in ("a", "b")}
    a, b = places["a"].astype(float), places["b"].astype(float)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    assert result.loc[("a", "b"), "split_product"] == pytest.approx(((a * b).sum(axis=1) / lengths).max(), abs=1e-5)
    whole = (a * b).sum(axis=1).max() / np.linalg.norm(a) / np.linalg.norm(b)
    assert result.loc[("a", "b"), "split_product_dcr"] == pytest.approx(whole, abs=1e-5)
    assert result.loc[("a", "a"), "split_product"] == pytest.approx(1, abs=1e-5)


def test_compare_unknown_network_is_refused_unread(images, compare_pairs, monkeypatch):
    monkeypatch.setattr(images, "read", lambda _: pytest.fail("read"))
    with pytest.raises(ParameterError, match="no features model named 'resnet5O'"):
        compare_pairs("resnet", "resnet5O")
    assert compare_pairs("pixels", pairs=PAIRS[:0]).empty
