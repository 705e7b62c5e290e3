"""Variance components, and sample sizes for half-widths: by hand, and against the intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.errors import InputError
from biaslab.stats import Design
from biaslab.stats.sample_size import variance_within

NOBODY = pd.DataFrame({"cell": [], "image_id": [], "judged": []})


def cells(count, n, coefficient, stratum="", source="generated", template=""):
    columns = {"count": count, "n": n, "coefficient": coefficient, "stratum": stratum, "template": template}
    rows = pd.DataFrame(columns | {"source": source})
    return rows.assign(cluster=rows.index.astype(str))


def test_variance_within_matches_hand_values():
    """Templates of A have means 4 and 10, of B 2 and 4; every value lies 1 off: 8 / 4 = 2 within.

    Templates: 2 (9 + 9 + 1 + 1) / 2 = 20, of which (20 - 2) / 2 values are theirs.
    """
    values = [3, 5, 9, 11, 1, 3, 3, 5]
    assert variance_within(values, list("AAAABBBB"), list("11221122")) == pytest.approx((9, 2))
    # Without templates: 2 (9 + 9) + 2 (1 + 1) + 8 within, over 6.
    assert variance_within(values, list("AAAABBBB"), [""] * 8) == pytest.approx((np.nan, 8), nan_ok=True)
    # A: 0 and 2, and 6; B: 9, and 10 and 14. Within 2 + 8 over 2 is 5. Templates: 2 (1 - 8/3)² + (6 - 8/3)² + 4 + 2 =
    # 68/3, of which 2 x 5 is expected, and each counts 6 - 10/3 times: 19/4.
    assert variance_within([0, 2, 6, 9, 10, 14], list("AAABBB"), list("112122")) == pytest.approx((19 / 4, 5))
    # One value per template: the variance of templates is part of the residual.
    assert variance_within([1, 0, 1, 0], list("AABB"), list("1212")) == pytest.approx((np.nan, 0.5), nan_ok=True)
    assert variance_within([1, 1, 0, 0, 1, 1, 0, 0], list("AAAABBBB"), list("1" * 8))[1] == pytest.approx(2 / 6)
    # Templates that differ less than chance would have them.
    assert variance_within([1, 0, 1, 0], list("AAAA"), list("1122"))[0] == 0


def test_half_width_matches_intervals():
    # 10 clusters of 9 images: V = 2² / 10 (0.1 + 0.15 / 9).
    averages = Design(10, 1, 9, 2, group=0.1, seed=0.15)
    assert averages.half_width() == pytest.approx(2.262157 * np.sqrt(0.4 * (0.1 + 0.15 / 9)), rel=1e-6)
    assert sum(averages.variances.values()) == pytest.approx(0.4 * (0.1 + 0.15 / 9))
    # Wording counts by prompts, whatever the images; two lists take a degree of freedom more.
    worded = Design(10, 4, 5, 2, lists=2, group=0.1, template=0.04, seed=0.1)
    assert worded.half_width() == pytest.approx(scipy_stats.t.ppf(0.975, 8) * np.sqrt(0.4 * (0.1 + 0.01 + 0.005)))
    low, high = stats.wilson_interval(20, 40)
    assert Design(1, 2, 20, 100, False).half_width() == pytest.approx(50 * (high - low))
    # Two groups of 10, over all that may be counted.
    likely = scipy_stats.binom.pmf(np.arange(11), 10, 0.3)
    result = [stats.strata_mean([i, j], [10, 10], 0.9) for i in range(11) for j in range(11)]
    widths = np.array([each.ci_high - each.ci_low for each in result])
    expected = Design(2, 1, 10, 100, False, seed=0.21, share=0.3).half_width(0.9)
    assert expected == pytest.approx(50 * np.outer(likely, likely).ravel() @ widths, rel=0.02)
    assert replace(averages, youden=0.8).half_width() == pytest.approx(averages.half_width() / 0.8)
    assert Design(2, 1, 9, lists=2).half_width() == float("inf")
    # With one image, noise and deviation are not separable: there is no interval.
    assert Design(10, 1, 1, is_absolute=True).half_width() == float("inf")


@pytest.mark.parametrize(
    "design",
    [Design(83, 1, 9, 2, group=0.1, seed=0.15), Design(6, 2, 10, 2, False), Design(1, 1, 10, 2, False, share=0.1)],
)
def test_minimum_images_is_smallest_sufficient_number(design):
    target = 0.95 * design.half_width()
    for unit_name in ("images", "clusters") if design.clusters > 1 else ("images",):
        n = design.minimum_images(target, unit=unit_name)
        assert n > getattr(design, unit_name) and replace(design, **{unit_name: n}).half_width() <= target
        assert replace(design, **{unit_name: n - 1}).half_width() > target


def test_minimum_images_few_clusters_is_none():
    few_clusters = Design(10, 1, 9, 2, group=0.1, seed=0.15)
    # With endless images 2.262 x 2 x sqrt(0.01) = 0.452 is left.
    assert few_clusters.minimum_images(0.453) and few_clusters.minimum_images(0.451) is None
    with pytest.raises(InputError, match=r"half_width is 0; it must be a number above 0"):
        few_clusters.minimum_images(0)


def test_design_from_pilot_matches_its_interval():
    count, n = np.array([0, 1, 5, 9]), 10
    result = stats.mean_interval(200 * count / n - 100)
    design = stats.design_from_pilot(cells(count, n, 200 / 4), NOBODY, clusters_random=True)
    assert design.half_width() == pytest.approx((result.ci_high - result.ci_low) / 2)
    # Images of a share vary by p (1 - p) n / (n - 1): 0, 0.1, 0.2778 and 0.1 here.
    assert design.seed == pytest.approx((0 + 0.09 + 0.25 + 0.09) / 4 * 10 / 9)
    low, high = stats.wilson_interval(21, 42)
    single_cell = stats.design_from_pilot(cells([20], 40, 100.0), NOBODY, clusters_random=False)
    assert (single_cell.clusters, single_cell.images, single_cell.share) == (1, 40, 0.5)
    assert replace(single_cell, images=42).half_width() == pytest.approx(50 * (high - low))
    with pytest.raises(InputError, match="No classified people"):
        stats.design_from_pilot(cells([0], 0, 1.0), NOBODY, clusters_random=False)


def test_design_from_pilot_correlated_people_double_variance():
    """Images 0 to 3 show an f and an m; both people of an image fit their list, or neither does."""
    fits = np.array([1.0, 0, 1, 1, 0, 0, 1, 0])
    rows = cells([3, 1, 1, 3], 4, [50.0, 50, -50, -50], ["f", "f", "m", "m"])
    person = pd.DataFrame({"image_id": np.arange(8), "judged": fits, "cell": [0] * 4 + [1] * 4})
    other = person.assign(judged=1 - fits, cell=person["cell"] + 2)
    together = stats.design_from_pilot(rows, pd.concat([person, other], ignore_index=True), clusters_random=True)
    independent_design = stats.design_from_pilot(rows, NOBODY, clusters_random=True)
    assert together.seed == pytest.approx(2 * independent_design.seed) and (together.clusters, together.lists) == (4, 2)
    # Unclassified: the number of images per prompt is the requested one.
    unseen = pd.DataFrame({"image_id": np.arange(8, 16), "judged": np.nan, "cell": [0] * 4 + [1] * 4})
    whole = pd.concat([person, other, unseen, unseen.assign(cell=unseen["cell"] + 2)], ignore_index=True)
    assert stats.design_from_pilot(rows, whole, clusters_random=True).images == 8


def test_design_from_pilot_training_variance_is_fixed():
    generated_cells, training_cells = cells([2, 8], 10, [50.0, 50]), cells([5, 5], 10, [-50.0, -50], source="training")
    both = pd.concat([generated_cells, training_cells], ignore_index=True)
    design = stats.design_from_pilot(both, NOBODY, clusters_random=True, is_absolute=True)
    whole = sum(design.variances.values())
    many = replace(design, images=1e9)
    # Without the variance of generated images, 2 x 50² x 0.2278 / 10 by their pooled variance over 4 shares of 10.
    pooled = (0.16 + 0.16 + 0.25 + 0.25) / 4 * 10 / 9
    assert whole - sum(many.variances.values()) == pytest.approx(2 * 50**2 * pooled / 10)
