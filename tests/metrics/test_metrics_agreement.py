"""Agreement: pair-by-pair loops, the libraries, and intervals against resampled items and ground truth."""

import itertools

import krippendorff
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from biaslab.errors import InputError
from biaslab.metrics.agreement import (
    LABELS,
    _alpha,
    _cohen,
    _fleiss,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    percent_agreement,
)

BINARY = ("female", "male")
OVER_RATERS = (krippendorff_alpha, fleiss_kappa, percent_agreement)


def _ratings(rng, items=60, annotators=4, accuracy=0.8, missing=0.0, prior=(0.45, 0.4, 0.15)):
    """Simulate annotators who give the true label with ``accuracy``, any other one otherwise."""
    true = rng.choice(3, size=items, p=prior)
    right = rng.random((items, annotators)) < accuracy
    other = (true[:, None] + rng.integers(1, 3, size=(items, annotators))) % 3
    ratings = np.array(LABELS, dtype=object)[np.where(right, true[:, None], other)]
    ratings[rng.random(ratings.shape) < missing] = None
    return ratings


# --- point values ---


@pytest.mark.parametrize("labels", [LABELS, BINARY])
def test_agreement_values_equal_libraries(labels):
    ratings, options = _ratings(np.random.default_rng(1), items=120, missing=0.2), {"seed": 0, "replicates": 50}
    item_labels = [[r for r in item if r in labels] for item in ratings]
    paired = [item for item in item_labels if len(item) > 1]
    complete = np.array([item for item in item_labels if len(item) == 4], dtype=str)
    both = [pair for pair in ratings[:, :2] if set(pair) <= set(labels)]
    codes = [[labels.index(r) if r in labels else np.nan for r in item] for item in ratings]
    alpha = krippendorff.alpha(np.transpose(codes), level_of_measurement="nominal")
    agreement = [np.mean([a == b for a, b in itertools.combinations(item, 2)]) for item in paired]
    for result, expected, items, annotators in (
        (krippendorff_alpha(ratings, labels, **options), alpha, paired, 4),
        (fleiss_kappa(ratings, labels, **options), statsmodels_fleiss(aggregate_raters(complete)[0]), complete, 4),
        (cohen_kappa(*ratings[:, :2].T, labels, **options), cohen_kappa_score(*zip(*both, strict=True)), both, 2),
        (percent_agreement(ratings, labels, **options), 100 * np.mean(agreement), paired, 4),
    ):
        assert result.value == pytest.approx(expected)
        assert (result.n_items, result.n_annotators, result.reason) == (len(items), annotators, "")


def test_percent_agreement_omits_ties():
    votes = ["male", "tie", "female", "unannotated"]
    judge = ["male", "male", "male", "male"]
    # items 1 and 3 remain, one agrees
    result = percent_agreement(np.column_stack([votes, judge]), BINARY, seed=0, replicates=50)
    assert (result.value, result.n_items) == (50.0, 2)


def test_krippendorff_alpha_accepts_frames_with_missing_values():
    frame = pd.DataFrame({"r1": ["female", "male", None, "male"], "r2": ["female", "male", "male", "female"]})
    expected = krippendorff_alpha(frame.to_numpy(dtype=object), seed=0, replicates=50)
    for ratings in (frame, frame.astype("string"), frame.astype("category")):
        result = krippendorff_alpha(ratings, seed=0, replicates=50)
        assert result[:6] == expected[:6]
    assert expected.n_items == 3


# --- coefficients of items of each pattern ---


def test_agreement_resample_of_one_label_is_nan():
    counts = np.array([[3, 0], [0, 3]])
    weights = np.array([[5, 0], [0, 5], [3, 2]])
    np.testing.assert_array_equal(np.isnan(_alpha(weights, counts)), [True, True, False])
    np.testing.assert_array_equal(np.isnan(_fleiss(weights, counts)), [True, True, False])
    np.testing.assert_array_equal(np.isnan(_cohen(weights, np.array([[0, 0], [1, 1]]))), [True, True, False])


# --- intervals ---


@pytest.mark.long
@pytest.mark.parametrize("measure", [*OVER_RATERS, cohen_kappa])
def test_agreement_interval_equals_item_bootstrap(measure):
    ratings = _ratings(np.random.default_rng(20), items=150, annotators=2 if measure is cohen_kappa else 4)

    def compute(sample, replicates):
        columns = sample.T if measure is cohen_kappa else (sample,)
        return measure(*columns, seed=3, replicates=replicates)

    rng = np.random.default_rng(99)
    redrawn = [compute(ratings[rng.integers(0, 150, size=150)], 1).value for _ in range(500)]
    result = compute(ratings, 20_000)
    # A 2.5% quantile of 500 draws has a standard error of about 0.12 standard deviations; allow three.
    tolerance = 3 * 0.12 * np.std(redrawn)
    assert [result.ci_low, result.ci_high] == pytest.approx(np.quantile(redrawn, [0.025, 0.975]), abs=tolerance)


def test_krippendorff_alpha_interval_ignores_item_order():
    ratings = _ratings(np.random.default_rng(21))
    first = krippendorff_alpha(ratings, seed=5, replicates=400)
    reverse = krippendorff_alpha(ratings[::-1], seed=5, replicates=400)
    assert (reverse.ci_low, reverse.ci_high) == (first.ci_low, first.ci_high)
    assert krippendorff_alpha(ratings, seed=6, replicates=400).ci_low != first.ci_low
    narrow = krippendorff_alpha(ratings, seed=5, replicates=400, confidence=0.5)
    assert first.ci_low < narrow.ci_low < first.value < narrow.ci_high < first.ci_high


def test_fleiss_kappa_is_independent_of_block_size(monkeypatch):
    ratings = _ratings(np.random.default_rng(22))
    whole = fleiss_kappa(ratings, seed=5, replicates=300)
    monkeypatch.setattr("biaslab.metrics.agreement._BLOCK", 100)
    assert fleiss_kappa(ratings, seed=5, replicates=300)[:6] == whole[:6]


# --- degenerate ratings ---


@pytest.mark.parametrize("measure", OVER_RATERS)
@pytest.mark.parametrize(
    "ratings",
    [np.empty((0, 4), dtype=object), [["female", None], [None, "male"]], [["female"], ["male"]], [[None, None]]],
    ids=["no items", "single ratings", "one annotator", "nothing rated"],
)
def test_agreement_without_pairs_is_nan(measure, ratings):
    result = measure(ratings, seed=0)
    assert np.isnan(result[:3]).all()
    assert result.n_items == 0
    assert result.reason.startswith("no item has ")


def test_agreement_of_one_label_is_nan_with_reason():
    ratings = [["male"] * 3] * 10
    for measure in (krippendorff_alpha, fleiss_kappa):
        result = measure(ratings, seed=0)
        assert np.isnan(result[:3]).all()
        assert result[3:6] == (10, 3, "all ratings are one label: male")
    # not corrected for chance: full agreement, which no resample can vary
    result = percent_agreement(ratings, seed=0)
    assert result.value == 100
    assert np.isnan([result.ci_low, result.ci_high]).all()
    assert result.reason == "no interval: all resamples give the same value"


def test_cohen_kappa_constant_annotator_is_nan_with_reason():
    mixed, constant = ["male", "female", "male"], ["male"] * 3
    assert cohen_kappa(mixed, constant, seed=0).reason == "annotator b uses one label only: male"
    assert cohen_kappa(constant, constant, seed=0).reason == "annotator a uses one label only: male"
    assert np.isnan(cohen_kappa(mixed, constant, seed=0).value)
    empty = cohen_kappa([], [], seed=0)
    assert (empty.n_items, empty.n_annotators, empty.reason) == (0, 0, "no item has a label by both annotators")
    assert np.isnan(empty.value)


def test_agreement_undefined_resamples_give_no_interval():
    # one disputed item of 20: (19/20)^20 = 36% of resamples miss it and hold one label
    ratings = [["male", "male"]] * 19 + [["male", "female"]]
    result = krippendorff_alpha(ratings, seed=0, replicates=4_000)
    assert np.isfinite(result.value)
    assert np.isnan([result.ci_low, result.ci_high]).all()
    undefined = int(result.reason.removeprefix("no interval: undefined in ").split()[0])
    assert undefined / 4_000 == pytest.approx(0.95**20, abs=0.03)


# --- errors ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: krippendorff_alpha([["femal", "male"]], seed=0), r"A label is 'femal'\. Did you mean 'female'"),
        (lambda: krippendorff_alpha([[3, "male"]], seed=0), "A label is 3"),
        (
            lambda: krippendorff_alpha(["male"] * 2, seed=0),
            r"^Labels .* shape \(2,\); it must be \(items, annotators\)\.$",
        ),
        (
            lambda: cohen_kappa(["male"], ["male"] * 2, seed=0),
            r"shapes \(1,\) and \(2,\); both must label the same items",
        ),
        (lambda: percent_agreement([["female", "male"]], seed=0, confidence=95), "confidence.*95"),
        (lambda: percent_agreement([["female", "male"]], seed=0, replicates=0), "replicates.*0"),
    ],
)
def test_agreement_invalid_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
