"""Instances' masks, overlaps and matches, against loops over pixels and cases worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from biaslab.errors import InputError
from biaslab.metrics.instances import (
    COLUMNS,
    check_runs,
    encode,
    map_auc,
    mask_overlap,
    masks,
    match,
    overlaps,
    regions,
)

coco = pytest.importorskip("pycocotools.mask", reason="masks need pycocotools")


def rows(*arguments, image_id="a"):
    """Return instances: (object, score, mask or box)."""
    out = []
    for k, (name, score, region) in enumerate(arguments):
        mask = isinstance(region, np.ndarray)
        if mask:
            y, x = np.nonzero(region)
            height, width = region.shape
            box = (x.min() / width, y.min() / height, (x.max() + 1) / width, (y.max() + 1) / height)
            size = (encode(region), height, width)
        else:
            box, size = region, ("", np.nan, np.nan)
        out.append((image_id, k, name, score, *box, *size))
    return pd.DataFrame(out, columns=list(COLUMNS))


def blob(seed, shape=(11, 7), share=0.4):
    return np.random.default_rng(seed).random(shape) < share


@pytest.mark.parametrize("seed", range(6))
def test_encode_and_masks_round_trip(seed):
    mask = blob(seed, (5 + seed, 9), 0.1 + 0.15 * seed)
    rle = encode(mask)
    assert check_runs(rle, *mask.shape) == ""
    np.testing.assert_array_equal(masks(rows(("dog", 1, mask)))[0], mask)


@pytest.mark.parametrize(
    ("rle", "message"),
    [
        ("äö", "characters"),
        ("zz", "characters"),
        ("o", "middle of a run"),
        ("O", "negative"),
        ("o" * 20, "long"),
        ("", "0 pixels"),
    ],
)
def test_check_runs_invalid_run_lengths_are_described(rle, message):
    # By hand: "o" is 111 - 48 = 63, all ones and more to come; "O" is 31, with its sign -1.
    assert message in check_runs(rle, 4, 6)


def test_masks_of_box_contain_pixel_centers():
    # Of 4 x 8 pixels the columns' middles are at 1/16, 3/16, …: 0.25 to 0.5 holds the third and the fourth.
    instance = rows(("cup", 0.5, (0.25, 0.0, 0.5, 0.5)))
    (mask,) = masks(instance, 4, 8)
    expected = np.zeros((4, 8), bool)
    expected[:2, 2:4] = True
    np.testing.assert_array_equal(mask, expected)


def test_overlaps_match_pixel_counts():
    left, right = [blob(k) for k in range(4)], [blob(k) for k in range(10, 13)]
    sides = [regions(rows(*(("x", 1, mask) for mask in side))) for side in (left, right)]
    result, by_mask = overlaps(*sides)
    assert by_mask.all()
    expected = [[(a & b).sum() / (a | b).sum() for b in right] for a in left]
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_overlaps_fall_back_to_boxes():
    half, whole = (0.0, 0.0, 0.5, 1.0), (0.0, 0.0, 1.0, 1.0)
    mask = np.ones((4, 4), bool)
    result, by_mask = overlaps(
        regions(rows(("x", 1, half), ("x", 1, mask))), regions(rows(("x", 1, whole), ("x", 1, np.ones((8, 8), bool))))
    )
    # Half a box in a whole one; masks of 4 x 4 and of 8 x 8 are compared by their boxes, which are equal.
    np.testing.assert_allclose(result, [[0.5, 0.5], [1, 1]])
    assert not by_mask.any()
    one_size, by_mask = overlaps(
        regions(rows(("x", 1, mask), ("x", 1, half))), regions(rows(("x", 1, np.tri(4, dtype=bool))))
    )
    # The lower triangle with its diagonal has 10 of 16 pixels.
    np.testing.assert_allclose(one_size, [[10 / 16], [0.5]])
    assert by_mask.tolist() == [[True], [False]]


def test_match_prefers_higher_score_and_needs_equal_names():
    true = rows(("cup", 1, (0.0, 0.0, 0.4, 0.4)), ("cup", 1, (0.5, 0.5, 0.9, 0.9)), ("dog", 1, (0.0, 0.0, 1.0, 1.0)))
    result = rows(
        ("cup", 0.3, (0.0, 0.0, 0.4, 0.4)),  # fits exactly, but comes second
        ("cup", 0.9, (0.0, 0.0, 0.4, 0.38)),
        ("cat", 0.8, (0.0, 0.0, 1.0, 1.0)),  # the place is right, the name is not
    )
    matched = match(result, true)
    rows_of_side = matched[["object", "found"]].value_counts().to_dict()
    assert rows_of_side == {
        ("cup", "both"): 1,
        ("cup", "finder"): 1,
        ("cup", "truth"): 1,
        ("dog", "truth"): 1,
        ("cat", "finder"): 1,
    }
    both = matched[matched["found"] == "both"].iloc[0]
    assert both["score"] == 0.9 and both["iou"] == pytest.approx(0.95) and both["by"] == "box"


def test_match_keeps_images_separate():
    instance = rows(("cup", 1, (0, 0, 1, 1)), image_id="a")
    other = instance.assign(image_id="b")
    assert sorted(match(instance, other)["found"]) == ["finder", "truth"]
    assert match(pd.concat([instance, other]), other)["found"].tolist() == ["both", "finder"]
    assert match(instance[:0], instance[:0]).empty


def test_match_agrees_with_coco_evaluation():
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    rng = np.random.default_rng(3)
    sides, annotations = ([], []), ([], [])
    for image in range(30):
        for side, rows_of_side in zip(sides, annotations, strict=True):
            for _ in range(rng.integers(0, 9)):
                (x, y), (w, h), score = rng.random(2) * 0.4, 0.2 + rng.random(2) * 0.3, round(rng.random(), 6)
                side.append(rows(("x", score, (x, y, x + w, y + h)), image_id=f"i{image}"))
                instance = {"image_id": image, "category_id": 1, "bbox": [x, y, w, h], "score": score, "area": 1.0}
                rows_of_side.append(instance | {"id": len(rows_of_side) + 1, "iscrowd": 0})
    truth = COCO()
    truth.dataset = {"images": [{"id": k} for k in range(30)], "categories": [{"id": 1}], "annotations": annotations[0]}
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(annotations[1]), "bbox")
    evaluation.params.iouThrs, evaluation.params.areaRng = np.array([0.5]), [[0, 1e10]]
    evaluation.evaluate()
    hits = sum(int((image["dtMatches"] > 0).sum()) for image in evaluation.evalImgs if image)
    assert hits > 10 and (match(*map(pd.concat, sides[::-1]))["found"] == "both").sum() == hits


def test_mask_overlap_matches_hand_values():
    first = np.array([[[1, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]], bool)
    second = np.array([[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [0, 0, 0]]], bool)
    # One of three; nothing of nothing; three of six.
    np.testing.assert_allclose(mask_overlap(first, second), [1 / 3, np.nan, 0.5])
    assert mask_overlap(first[:0], second[:0]).shape == (0,)


def test_map_auc_equals_scikit_learn():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 6, (5, 7, 8)).astype(np.uint8)  # with ties
    truth = rng.random((5, 7, 8)) < 0.3
    expected = [roc_auc_score(t.ravel(), v.ravel()) for v, t in zip(values, truth, strict=True)]
    np.testing.assert_allclose(map_auc(values, truth), expected)
    np.testing.assert_allclose(map_auc(-values.astype(int), truth), 1 - np.array(expected))
    # A map that is the same everywhere orders nothing; without an inside or an outside there is no order.
    assert map_auc(np.zeros((1, 2, 2)), np.array([[[True, False], [False, False]]])).tolist() == [0.5]
    assert np.isnan(map_auc(values[:2], np.stack([np.ones((7, 8), bool), np.zeros((7, 8), bool)]))).all()
    assert map_auc(values[:0], truth[:0]).shape == (0,)


SQUARES = pd.concat([rows(("a", 1, np.ones((4, 4), bool))), rows(("b", 1, np.ones((5, 4), bool)))])
ONES = np.ones((1, 2, 3), bool)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (masks, [SQUARES], r"\(4, 4\), \(5, 4\)"),
        (masks, [SQUARES[:1], 8, 8], r"\(4, 4\), \(8, 8\)"),
        (masks, [rows(("a", 1, (0, 0, 1, 1)))], "unknown"),
        (mask_overlap, [ONES, np.ones((1, 3, 2), bool)], r"\(1, 2, 3\) and bool \(1, 3, 2\)"),
        (mask_overlap, [ONES.astype(np.uint8), ONES], "uint8"),
        (map_auc, [np.ones((1, 2, 3)), np.ones((1, 2, 3))], "float64"),
    ],
)
def test_instances_invalid_input_is_refused(call, arguments, message):
    with pytest.raises(InputError, match=message):
        call(*arguments)


def test_masks_of_no_instances_are_empty():
    assert masks(SQUARES[:0], 6, 5).shape == (0, 6, 5)
