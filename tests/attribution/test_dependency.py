"""Coverage of objects by word maps, compared with plain loops over pixels."""

import itertools

import numpy as np
import pandas as pd
import pytest

from biaslab.attribution import dependency
from biaslab.attribution.maps import WordMaps, word_masks
from biaslab.cache.result_cache import ResultCache
from biaslab.metrics.instances import encode
from biaslab.metrics.instances import masks as masks_of

SIZE = 12


pytest.importorskip("pycocotools.mask", reason="masks need the extra 'models'")


def instance(image_id, number, name, mask=None, box=(0, 0, 1, 1), size=(SIZE, SIZE)):
    sides = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    return {
        "image_id": image_id, "instance": number, "object": name, "score": 1.0, **sides,
        "rle": "" if mask is None else encode(mask), "height": size[0], "width": size[1],
    }  # fmt: skip


def brute_force(rows, words, regions):
    """Return the largest coverage of each object by all words and by words for people, pixel by pixel."""
    coverages = []
    for row in rows.to_dict("records"):
        (mask,) = masks_of(pd.DataFrame([row]), SIZE, SIZE)
        pixels = [(y, x) for y in range(mask.shape[0]) for x in range(mask.shape[1]) if mask[y, x]]
        shares = [np.mean([r[p] for p in pixels]) if pixels else np.nan for r in regions]
        humans = [s for s, w in zip(shares, words, strict=True) if w.lower() in ("woman", "people")]
        coverages.append((max(shares, default=0), max(humans, default=0)))
    return np.array(coverages)


@pytest.mark.parametrize("held", [2**26, 1])
def test_word_coverage_matches_pixel_loop(monkeypatch, held):
    monkeypatch.setattr(dependency, "_MAX_PIXELS", held)
    rng = np.random.default_rng(1)
    words = ("a", "Woman", "hat", "people")
    maps = rng.integers(0, 256, (4, 5, 5)).astype(np.uint8)
    regions = word_masks(maps, SIZE, SIZE, 0.5)
    masks = [rng.random((SIZE, SIZE)) < share for share in (0.2, 0.6, 0, 0.1)]
    rows = pd.DataFrame(
        [instance("a", k, "x", mask) for k, mask in enumerate(masks)]
        + [instance("a", 4, "x", box=(0.1, 0.2, 0.6, 0.9))]
    )
    result = dependency.word_coverage(rows, words, maps, 0.5)
    expected = brute_force(rows, words, regions)
    np.testing.assert_allclose(result[["coverage", "human_coverage"]].to_numpy(float), expected)
    assert result["region"].tolist() == ["mask"] * 4 + ["box"]
    assert np.isnan(result["coverage"][2]) and result["word"][2] == ""
    for k in (0, 1, 3, 4):
        (mask,) = masks_of(rows.iloc[[k]])
        shares = [(mask & r).sum() for r in regions]
        assert result["word"][k] == words[int(np.argmax(shares))]


def test_word_coverage_of_boxes_without_size():
    rows = pd.DataFrame([instance("a", 0, "y", box=(0, 0.5, 0.75, 1), size=(np.nan, np.nan))])
    left_half = np.array([[[255, 0]]], np.uint8)
    result = dependency.word_coverage(rows, ("x",), left_half, 0.5)
    assert result["coverage"].tolist() == pytest.approx([2 / 3]) and result["region"].tolist() == ["box"]
    # Without a word there is nothing to cover it.
    no_words = dependency.word_coverage(rows, (), left_half[:0], 0.5)
    assert no_words["coverage"].tolist() == no_words["human_coverage"].tolist() == [0]
    assert no_words["word"].tolist() == [""]


class Maps:
    """Images with a map of random words each."""

    def __init__(self, image_ids, seed=3):
        rng = np.random.default_rng(seed)
        self.digest, self.asked = "maps", []
        self._maps = {
            i: WordMaps(("woman", "hat"), rng.integers(0, 256, (2, 4, 4)).astype(np.uint8), {}) for i in image_ids
        }

    def word_maps(self, image_ids):
        self.asked += image_ids
        return [self._maps[i] for i in image_ids]


def test_measure_coverage_compares_objects_once(tmp_path):
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(
        [instance(i, k, "x", rng.random((SIZE, SIZE)) < 0.3) for i, k in itertools.product("abc", range(2))]
    ).sample(frac=1, random_state=0)
    images, store = Maps("abc"), ResultCache(tmp_path)
    result = dependency.measure_coverage(images, rows, cache=store, progress=False)
    keys = ["image_id", "instance"]
    assert result[keys].to_numpy().tolist() == rows[keys].to_numpy().tolist()
    for row, coverage_row in zip(rows.to_dict("records"), result.itertuples(), strict=True):
        (maps,) = images.word_maps([row["image_id"]])
        regions = word_masks(maps.maps, SIZE, SIZE)
        np.testing.assert_allclose(
            [coverage_row.coverage, coverage_row.human_coverage],
            brute_force(pd.DataFrame([row]), maps.words, regions)[0],
        )
    images.asked.clear()
    pd.testing.assert_frame_equal(dependency.measure_coverage(images, rows, cache=store, progress=False), result)
    assert images.asked == []
    assert dependency.measure_coverage(images, rows[:0], cache=store, progress=False).empty
