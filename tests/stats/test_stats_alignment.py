"""Every function of two or more array-likes matches pandas objects by their labels, or refuses them."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import biaslab.metrics
import biaslab.stats
from biaslab import metrics, stats
from biaslab.errors import InputError
from biaslab.metrics import agreement, captioning, headline, instances, retrieval, shares, similarity
from biaslab.stats import checks, resampling, sample_size

LABELS = list("abcdef")
COUNT, N = [3, 0, 5, 2, 7, 1], [9, 4, 5, 8, 7, 6]
SHARE, OTHER = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2], [0.4, 0.2, 0.6, 0.8, 0.1, 0.5]
PERCENT, SCORE = [10, 90, 50, 30, 70, 20], [-40, 60, 0, 20, -80, 5]
GENDER = ["female", "male", "male", "female", "female", "male"]
TABLE = [[1, 4], [3, 0], [2, 2], [5, 1], [0, 6], [2, 3]]
# Arguments that have one value for each of six units, by function; a value that is alone is the function itself.
CALLS = {
    agreement.cohen_kappa: ({"a": GENDER, "b": GENDER[::-1]}, {"seed": 1}),
    captioning.caption_scores: (
        {
            "captions": ["a cat", "a dog", "two men", "a red bus", "the sea", "a cat on a mat"],
            "references": [["a cat"], ["a cow"], ["two men"], ["a bus"], ["a red sea"], ["a mat"]],
            "groups": [0, 0, 1, 1, 2, 2],
        },
        {"seed": 1},
    ),
    metrics.amplification: {"percent_generated": PERCENT, "percent_training": PERCENT[::-1]},
    metrics.directional_amplification: {"percent_generated": PERCENT, "percent_training": PERCENT[::-1]},
    metrics.exclusion_reason: {"percent_generated": PERCENT, "percent_training": PERCENT[::-1]},
    metrics.expected_amplification: {"percent_generated": PERCENT, "percent_training": PERCENT[::-1]},
    retrieval.retrieval_bias: (
        {"female": [True, False, True, True, False, False]},
        {"similarity": np.arange(12.0).reshape(2, 6) % 5, "k": 2},
    ),
    shares.average_gender: {"n_female": COUNT, "n_male": N},
    shares.mean_absolute_difference: {"presence_a": SHARE, "presence_b": OTHER},
    shares.biased_images: {"first_adheres": [1, 0, 1, 1, 0, 0], "second_adheres": [1, 1, 0, 1, 0, 1]},
    shares.stereotype_score_from_percent: {"percent_female": PERCENT, "stereotype": GENDER},
    shares.percent_female_from_stereotype_score: {"score": SCORE, "stereotype": GENDER},
    similarity.cosines: {"a": TABLE, "b": TABLE[::-1]},
    similarity.bias_score: {"count_masculine": COUNT, "count_feminine": N, "n_masculine": N, "n_feminine": N[::-1]},
    similarity.dependency_groups_of_largest: {
        "objects": ["person", "car", "person", "tree", "dog", "cat"],
        "explicit": [True, False, False, True, True, False],
        "coverage": SHARE,
        "human_coverage": OTHER,
    },
    stats.hierarchical_bootstrap: (
        {
            "counts": [[1, 2], [3, 0], [2, 2], [5, 1], [0, 6], [2, 3]],
            "n": [[4, 6], [3, 5], [7, 2], [5, 5], [4, 6], [8, 3]],
        },
        {"statistic": lambda s: s.mean(axis=(-2, -1)), "replicates": 10, "seed": 1},
    ),
    checks.check_counts: {"count": COUNT, "n": N},
    checks.ratio: {"numerator": COUNT, "denominator": N},
    sample_size.variance_within: {"values": SCORE, "group": list("xxxyyy"), "template": list("pqqppq")},
    stats.mean_mad: {"counts": TABLE, "units": [0, 0, 1, 1, 2, 2]},
    stats.mean_deviation: {"count": COUNT, "n": N, "center": OTHER},
    stats.judge_corrected_deviation: (
        {"count": COUNT, "n": N},
        {"sensitivity": 0.9, "specificity": 0.8, "n_sensitivity": 50, "n_specificity": 50},
    ),
    stats.corrected_shares: {
        "count": COUNT,
        "n": N,
        "sensitivity": [0.9, 0.8, 0.95, 0.85, 0.99, 0.7],
        "specificity": [0.7, 0.8, 0.9, 0.75, 0.6, 0.9],
        "n_sensitivity": [50, 60, 70, 80, 90, 100],
        "n_specificity": [100, 90, 80, 70, 60, 50],
    },
    resampling.CaptionClusterSampling: (
        {"group": [0, 0, 1, 1, 2, 2], "own": [1, 0, 1, 0, 1, 0], "female": COUNT, "n_judged": N, "captions": N[::-1]},
        {"groups": 3},
    ),
    stats.expected_absolute_deviation: {"share": SHARE, "n": N},
    stats.corrected_absolute_deviation: {"count": COUNT, "n": N, "subset_size": [2, 3, 4, 2, 1, 5]},
    stats.corrected_mad: {"counts": TABLE, "subset_size": [2, 3, 4, 2, 1, 5]},
    stats.min_fisher_p: {"first": COUNT, "second": N},
    stats.correction_dominates: {"uncorrected": SCORE, "corrected": PERCENT},
    stats.wilson_interval: {"count": COUNT, "n": N},
    stats.percent: {"count": COUNT, "n": N},
    stats.percent_columns: {"count": COUNT, "n": N},
    stats.exact_interval: {"count": COUNT, "n": N},
    stats.difference_interval: {
        "first": SHARE,
        "first_low": OTHER,
        "first_high": SCORE,
        "second": PERCENT,
        "second_low": N,
        "second_high": COUNT,
        "correlation": OTHER[::-1],
    },
    stats.pearson_r: {"x": SHARE, "y": OTHER},
    stats.clustered_mean: {"values": SHARE, "groups": [0, 0, 1, 1, 2, 2]},
    stats.crossed_error: (
        {"rows": [0.1, -0.1, 0.2, -0.2, 0.3, -0.3], "cells": [[0.1, 0.2]] * 3 + [[-0.3, 0.1]] * 3},
        {"columns": [0.1, -0.1]},
    ),
    stats.strata_mean: {"count": COUNT, "n": N},
    stats.mean_interval: ({"values": SCORE, "clusters": list("aabbcd")}, {}),
    stats.design_effect: {"count": COUNT, "n": N, "stratum": list("uuuvvv"), "image": list("aabbcd")},
    stats.clustered_share: {"count": COUNT, "n": N},
    stats.clustered_share_test: ({"count": COUNT, "n": N}, {"center": 0.4, "seed": 1}),
    stats.clustered_homogeneity: (
        {"count": COUNT, "n": N, "stratum": list("uuuvvv")},
        {"replicates": 2000, "seed": 1},
    ),
    stats.mean_distance: ({"difference": np.divide(SCORE, 1000), "error": np.divide(N, 1000)}, {"largest": 0.5}),
    stats.prediction_powered: (
        {"count": COUNT, "n": N, "coefficients": SHARE, "strata": list("uuuvvv"), "clusters": [0, 0, 1, 1, 2, 2]},
        {"group": np.arange(12) % 6, "predictions": [0, 1] * 6, "annotations": [0, 1, 1] * 4},
    ),
}
# Functions without two columns of one value per unit, with the reason.
OTHERS = {
    agreement.fleiss_kappa: "takes a table of labels",
    checks.mean_where: "takes arrays that functions here have made",
    resampling.small_sample_bias: "takes arrays that functions here have made",
    resampling.cross: "takes matrices",
    headline.pool_cells: "takes a table of cells (tested below)",
    instances.match: "takes tables whose rows have keys",
    instances.mask_overlap: "takes arrays of three axes",
    instances.map_auc: "takes arrays of three axes",
    retrieval.frechet_distance: "compares two sets (tested below)",
    retrieval.kernel_distance: "compares two sets (tested below)",
    similarity.word_mean: "takes an array of three axes",
    similarity.ssim_maps: "takes arrays of three axes",
    similarity.split_product: "takes arrays of three axes",
    similarity.coverage: "takes arrays of three axes",
    sample_size.design_from_pilot: "takes tables that refer to each other",
    stats.halves_interval: "takes lists of samples (tested below)",
}
ARRAYS = ("ArrayLike", "ndarray", "Series", "DataFrame", "Sequence[np")


def modules(package: ModuleType):
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def array_likes(function) -> list[str]:
    """Return the parameters of a function that may be arrays."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if any(word in str(p.annotation) for word in ARRAYS)]


def functions() -> set:
    """Return the public functions, and classes that are no results, with two parameters or more that may be arrays."""
    results = set()
    for package in (biaslab.metrics, biaslab.stats):
        for module in modules(package):
            for name, function in vars(module).items():
                is_own = getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
                result = inspect.isclass(function) and (
                    issubclass(function, tuple) or hasattr(function, "__dataclass_fields__")
                )
                if is_own and callable(function) and not result and len(array_likes(function)) > 1:
                    results.add(function)
    return results


def numbers_of(function, columns, more):
    """Return the numbers in the result of a function, of any type, as a list of arrays."""
    result = function(**columns, **more)
    result = vars(result) if isinstance(result, resampling.CaptionClusterSampling) else result
    parts = result.values() if isinstance(result, dict) else result
    parts = parts if isinstance(result, dict | tuple) else [result]
    return [np.asarray(part) for part in parts if not isinstance(part, stats.Estimate)] + [
        np.asarray(part) for estimate in parts if isinstance(estimate, stats.Estimate) for part in estimate
    ]


def labelled(values, labels):
    table = isinstance(values[0], list) and not isinstance(values[0][0], str)
    return pd.DataFrame(values, labels) if table else pd.Series(list(values), labels)


def call_arguments(function) -> tuple[dict, dict]:
    call = CALLS[function]
    return call if isinstance(call, tuple) else (call, {})


def test_all_public_functions_of_two_arrays_are_covered():
    names = {f"{f.__module__}.{f.__qualname__}" for f in functions()}
    covered = {f"{f.__module__}.{f.__qualname__}" for f in (*CALLS, *OTHERS)}
    assert names - covered == set()
    assert len(names) > 40


@pytest.mark.parametrize("function", [f for f in CALLS if len(call_arguments(f)[0]) > 1], ids=lambda f: f.__name__)
def test_reordered_labels_give_same_result(function):
    columns, more = call_arguments(function)
    expected = numbers_of(function, columns, more)
    for name in list(columns)[1:]:
        frames = {key: labelled(values, LABELS) for key, values in columns.items()}
        frames[name] = frames[name].iloc[[3, 5, 0, 2, 4, 1]]
        for one, other in zip(numbers_of(function, frames, more), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("function", [f for f in CALLS if len(call_arguments(f)[0]) > 1], ids=lambda f: f.__name__)
def test_different_labels_are_refused_by_name(function):
    columns, more = call_arguments(function)
    first, name, *_ = columns
    frames = {key: labelled(values, LABELS) for key, values in columns.items()}
    for labels in (list("abcdeg"), list("abcdea")):
        frames[name] = labelled(columns[name], labels)
        with pytest.raises(InputError, match=f"^{first} and {name} have different labels"):
            function(**frames, **more)


def test_stereotype_score_from_percent_matches_labels():
    # 2 · 70 - 100 of a female stereotype, 100 - 2 · 20 of a male one.
    percent = pd.Series({"nurse": 70, "pilot": 20})
    stereotype = pd.Series({"pilot": "male", "nurse": "female"})
    assert shares.stereotype_score_from_percent(percent, stereotype).tolist() == [40, 60]


def test_amplification_matches_rows_and_columns():
    percent = pd.DataFrame({"p": [10, 20], "q": [60, 90]}, index=["a", "b"])
    other = percent.loc[["b", "a"], ["q", "p"]]
    assert metrics.amplification(percent, other).to_dict("list") == {"p": [0, 0], "q": [0, 0]}
    with pytest.raises(InputError, match="different labels in their columns"):
        metrics.amplification(percent, percent.rename(columns={"q": "r"}))


def test_duplicate_labels_are_matched_by_position():
    duplicate_labels = pd.Series([1, 2], index=["a", "a"])
    assert stats.percent(duplicate_labels, duplicate_labels * 2)[0].tolist() == [50, 50]


def test_feature_distances_match_columns():
    rng = np.random.default_rng(0)
    first, second = (pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "y"]) for n in (5, 7))
    for distance in (retrieval.frechet_distance, retrieval.kernel_distance):
        assert distance(first, second[["y", "x"]]) == distance(first, second)


def test_retrieval_bias_matches_genders_with_columns():
    similarity = pd.DataFrame([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], columns=list("abc"))
    female = pd.Series({"c": True, "b": False, "a": True})
    # The two most similar: a and c, both women; b and c, one of each.
    assert retrieval.retrieval_bias(similarity, female, 2).tolist() == [-1, 0]


def test_crossed_error_matches_columns_with_cells():
    cells = pd.DataFrame([[0.1, 0.3], [-0.2, -0.2]], index=["r", "s"], columns=["x", "y"])
    rows, columns = pd.Series({"s": -0.2, "r": 0.2}), pd.Series({"y": 0.05, "x": -0.05})
    expected = stats.crossed_error([0.2, -0.2], [-0.05, 0.05], cells.to_numpy())
    assert stats.crossed_error(rows, columns, cells) == expected


def test_prediction_powered_matches_people_by_label():
    groups = {"count": [3, 5, 4], "n": [8, 9, 7], "coefficients": [0.2, 0.3, 0.5]}
    people = {"group": [0, 1, 2, 0, 1, 2, 1], "predictions": [1, 0, 1, 0, 0, 1, 1]}
    people["annotations"] = [1, 0, 0, 0, 1, 1, 1]
    expected = stats.prediction_powered(**groups, **people)
    people = {name: pd.Series(values, list("tuvwxyz")) for name, values in people.items()}
    people["annotations"] = people["annotations"][::-1]
    assert stats.prediction_powered(**groups, **people) == expected


def test_pool_cells_matches_coefficients_by_label():
    cells = pd.DataFrame(
        {"source": "generated", "cluster": ["a", "b"], "template": "", "stratum": "", "count": [1, 2], "n": [2, 4]},
        index=["x", "y"],
    )
    pooled = headline.pool_cells(cells, pd.Series({"y": 3.0, "x": 1.0}))
    assert pooled["coefficient"].tolist() == [1, 3]


def test_halves_interval_matches_groups_by_label():
    values = pd.Series(np.arange(8.0) ** 2, list("abcdefgh"))
    groups = pd.Series([0, 0, 1, 1, 2, 2, 3, 3], values.index)
    results = [
        stats.halves_interval([values], [group_labels], lambda a: float(np.mean(a)), seed=1)
        for group_labels in (groups, groups[::-1])
    ]
    assert results[0] == results[1]


def test_permuted_chi_square_matches_cases_by_label():
    first = pd.DataFrame([[3, 0], [2, 1], [4, 0], [1, 1], [3, 1]], index=list("vwxyz"))
    second = pd.DataFrame([[0, 2], [1, 3], [1, 2], [0, 2], [2, 2]], index=list("vwxyz"))
    p = stats.permuted_chi_square([first, second], seed=1)
    assert stats.permuted_chi_square([first, second[::-1]], seed=1) == p


# -- results with labels ---------------------------------------------------------------------------------------

LABELLED = [function for function in CALLS if hasattr(function, "__wrapped__")]


def parts_of(result):
    parts = list(result.values()) if isinstance(result, dict) else result
    return list(parts) if isinstance(parts, tuple | list) else [parts]


@pytest.mark.parametrize("function", LABELLED, ids=lambda function: function.__name__)
def test_elementwise_functions_keep_labels(function):
    columns, more = call_arguments(function)
    frames = {key: labelled(values, LABELS) for key, values in columns.items()}
    for labels, array in zip(parts_of(function(**frames, **more)), parts_of(function(**columns, **more)), strict=True):
        if np.ndim(array) and np.shape(array)[0] == len(LABELS):
            assert isinstance(labels, pd.Series | pd.DataFrame) and list(labels.index) == list(LABELS)
        np.testing.assert_array_equal(labels, array)


def test_labelled_results_align_with_tables():
    percent = pd.Series({"nurse": 95, "pilot": 10})
    table = pd.DataFrame({"training": [25, 80]}, index=["pilot", "nurse"])
    # |10 - 50| - |25 - 50| and |95 - 50| - |80 - 50|.
    table["direction"] = metrics.directional_amplification(percent, table["training"])
    # -(10 - 25) and 95 - 80; and with the pilots' training share at 60, 10 - 60.
    assert table["direction"].to_dict() == {"pilot": 15, "nurse": 15}
    # By keyword, in another order: labels go with values.
    training = pd.Series({"pilot": 60, "nurse": 80})
    result = metrics.directional_amplification(percent_training=training, percent_generated=percent)
    assert result.to_dict() == {"nurse": 15, "pilot": -50}
    low, high = stats.wilson_interval(pd.Series({"a": 45}), 500)
    assert (list(low.index), high["a"]) == (["a"], pytest.approx(stats.wilson_interval(45, 500).high))


def test_row_wise_results_are_series():
    counts = pd.DataFrame({"female": [9, 5], "male": [1, 5]}, index=["nurse", "cook"])
    # |0.9 - 0.5| twice over 2, and 0.
    assert metrics.mean_absolute_deviation(counts).to_dict() == pytest.approx({"nurse": 0.4, "cook": 0})
    percent = pd.DataFrame({"nurse": [90.0, 80.0], "cook": [60.0, 70.0]}, index=["A", "B"])
    expected = metrics.expected_amplification(percent, 60.0)
    assert expected.amplification.to_dict() == {"A": 15, "B": 15} and expected.n_excluded.to_dict() == {"A": 0, "B": 0}


def test_arrays_and_numbers_keep_their_type():
    assert type(metrics.amplification([95, 10], [80, 25])) is np.ndarray
    assert np.ndim(metrics.amplification(95, 80)) == 0
