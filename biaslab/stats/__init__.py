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
from biaslab.stats.bootstrap import Bootstrap, hierarchical_bootstrap
from biaslab.stats.contingency import cramers_v, permuted_chi_square, pool_rare
from biaslab.stats.crossed import (
    Error,
    clustered_error,
    clustered_mean,
    clustered_share_interval,
    crossed_error,
)
from biaslab.stats.deviation import (
    Deviation,
    bias_aware_interval,
    bounded_mean,
    folded_means,
    judged_deviation,
    judged_mean,
    mean_mad,
)
from biaslab.stats.drawing import ByCaption, Drawing, OneByOne
from biaslab.stats.floors import (
    absolute_deviation_floor,
    corrected_absolute_deviation,
    corrected_mad,
    expected_absolute_deviation,
    mad_floor,
)
from biaslab.stats.halves import halves_interval
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
    significance,
    wilson_interval,
)
from biaslab.stats.judge_error import corrected_shares
from biaslab.stats.paired import PairedDifference, paired_difference

__all__ = [
    "Bootstrap",
    "ByCaption",
    "ChiSquare",
    "Deviation",
    "Drawing",
    "Error",
    "Estimate",
    "Interval",
    "OneByOne",
    "PairedDifference",
    "Rivals",
    "absolute_deviation_floor",
    "adjust",
    "attainable",
    "bias_aware_interval",
    "bounded_mean",
    "chi_square",
    "clustered_error",
    "clustered_mean",
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
    "folded_means",
    "halves_interval",
    "hierarchical_bootstrap",
    "judged_deviation",
    "judged_mean",
    "least_binomial_p",
    "least_fisher_p",
    "least_sign_flip_p",
    "mad_floor",
    "mean_interval",
    "mean_mad",
    "needed",
    "one_sample_t",
    "paired_difference",
    "pearson_r",
    "percent",
    "percentile_interval",
    "permuted_chi_square",
    "pool_rare",
    "rivals",
    "sign_flip",
    "significance",
    "wilson_interval",
]
