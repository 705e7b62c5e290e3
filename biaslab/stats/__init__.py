"""Statistics: intervals, bootstraps, tests, floors of folded measures, and judge error.

Pure functions over arrays or pandas objects (matched by position, never by index). Shares are 0–1.
"""

from biaslab.stats.attainable import (
    attainable,
    fewest_units,
    least_binomial_p,
    least_fisher_p,
    least_sign_flip_p,
    needed,
)
from biaslab.stats.bootstrap import Bootstrap, bootstrap_mean, hierarchical_bootstrap
from biaslab.stats.contingency import cramers_v, permuted_chi_square, pool_rare
from biaslab.stats.crossed import Error, clustered_error, clustered_share_interval, crossed_error
from biaslab.stats.drawing import ByCaption, Drawing, OneByOne
from biaslab.stats.floors import (
    absolute_deviation_floor,
    corrected_absolute_deviation,
    corrected_mad,
    expected_absolute_deviation,
    mad_floor,
)
from biaslab.stats.hypothesis import ChiSquare, adjust, chi_square, one_sample_t, sign_flip
from biaslab.stats.intervals import (
    Estimate,
    Interval,
    Rivals,
    difference_interval,
    exact_interval,
    mean_interval,
    pearson_r,
    percent,
    percentile_interval,
    rivals,
    wilson_interval,
)
from biaslab.stats.judge_error import corrected_shares

__all__ = [
    "Bootstrap",
    "ByCaption",
    "ChiSquare",
    "Drawing",
    "Error",
    "Estimate",
    "Interval",
    "OneByOne",
    "Rivals",
    "absolute_deviation_floor",
    "adjust",
    "attainable",
    "bootstrap_mean",
    "chi_square",
    "clustered_error",
    "clustered_share_interval",
    "corrected_absolute_deviation",
    "corrected_mad",
    "corrected_shares",
    "cramers_v",
    "crossed_error",
    "difference_interval",
    "exact_interval",
    "expected_absolute_deviation",
    "fewest_units",
    "hierarchical_bootstrap",
    "least_binomial_p",
    "least_fisher_p",
    "least_sign_flip_p",
    "mad_floor",
    "mean_interval",
    "needed",
    "one_sample_t",
    "pearson_r",
    "percent",
    "percentile_interval",
    "permuted_chi_square",
    "pool_rare",
    "rivals",
    "sign_flip",
    "wilson_interval",
]
