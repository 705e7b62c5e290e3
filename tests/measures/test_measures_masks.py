"""Masks and maps against known ones: plain loops, and scikit-learn."""

import numpy as np
import pytest

from biaslab.ground.errors import InputError
from biaslab.measures.masks import map_auc, mask_overlap


def test_overlap_by_hand():
    first = np.array([[[1, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [1, 1, 1]]], bool)
    second = np.array([[[0, 1, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [0, 0, 0]]], bool)
    # One of three; nothing of nothing; three of six.
    np.testing.assert_allclose(mask_overlap(first, second), [1 / 3, np.nan, 0.5])
    assert mask_overlap(first[:0], second[:0]).shape == (0,)


def test_auc_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the other way")
    rng = np.random.default_rng(0)
    values = rng.integers(0, 6, (5, 7, 8)).astype(np.uint8)  # with ties
    truth = rng.random((5, 7, 8)) < 0.3
    expected = [metrics.roc_auc_score(t.ravel(), v.ravel()) for v, t in zip(values, truth, strict=True)]
    np.testing.assert_allclose(map_auc(values, truth), expected)
    np.testing.assert_allclose(map_auc(-values.astype(int), truth), 1 - np.array(expected))
    # A map that is the same everywhere orders nothing; without an inside or an outside there is no order.
    assert map_auc(np.zeros((1, 2, 2)), np.array([[[True, False], [False, False]]])).tolist() == [0.5]
    assert np.isnan(map_auc(values[:2], np.stack([np.ones((7, 8), bool), np.zeros((7, 8), bool)]))).all()
    assert map_auc(values[:0], truth[:0]).shape == (0,)


def test_what_does_not_fit_is_refused():
    ones = np.ones((1, 2, 3), bool)
    with pytest.raises(InputError, match=r"\(1, 2, 3\) and bool \(1, 3, 2\)"):
        mask_overlap(ones, np.ones((1, 3, 2), bool))
    with pytest.raises(InputError, match="uint8"):
        mask_overlap(ones.astype(np.uint8), ones)
    with pytest.raises(InputError, match="float64"):
        map_auc(np.ones((1, 2, 3)), np.ones((1, 2, 3)))
