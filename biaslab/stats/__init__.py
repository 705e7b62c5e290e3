"""Statistics: intervals, bootstraps, tests, floors of folded measures, and judge error.

Pure functions over arrays or pandas objects. Several pandas objects are matched by their labels and refused where these
differ (:func:`biaslab.stats.checks.align`); arrays and lists are matched by position. Shares are 0–1.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from biaslab.stats.absolute_deviation import (
    Deviation,
    bias_aware_interval,
    bounded_mean,
    corrected_shares,
    folded_means,
    judge_corrected_deviation,
    judge_corrected_mean,
    mean_deviation,
    mean_distance,
    mean_mad,
    normal_null_mean,
)
from biaslab.stats.bootstrap import Bootstrap, hierarchical_bootstrap
from biaslab.stats.clusters import clustered_homogeneity, clustered_share, clustered_share_test, design_effect
from biaslab.stats.contingency import ChiSquare, chi_square, cramers_v, permuted_chi_square, pool_rare
from biaslab.stats.hypothesis import (
    TESTS,
    adjust,
    adjust_families,
    can_be_significant,
    min_binomial_p,
    min_fisher_p,
    min_units,
    one_sample_t,
    paired_difference,
    sign_flip,
)
from biaslab.stats.intervals import (
    Estimate,
    Interval,
    StandardError,
    clustered_error,
    clustered_mean,
    clustered_share_interval,
    correction_dominates,
    crossed_error,
    difference_interval,
    exact_interval,
    halves_interval,
    mean_interval,
    pearson_r,
    percent,
    percent_columns,
    significance,
    strata_mean,
    wilson_interval,
)
from biaslab.stats.null_expectation import (
    absolute_deviation_null_mean,
    corrected_absolute_deviation,
    corrected_mad,
    expected_absolute_deviation,
    mad_null_mean,
)
from biaslab.stats.prediction_powered import MIN_ANNOTATIONS as FEWEST_RATINGS
from biaslab.stats.prediction_powered import prediction_powered
from biaslab.stats.resampling import CaptionClusterSampling, IndependentSampling
from biaslab.stats.sample_size import Design, design_from_pilot
