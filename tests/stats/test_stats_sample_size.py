"""What variance is made of, and the sizes that half-widths take: by hand, and against the intervals themselves."""

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
    given = {"count": count, "n": n, "coefficient": coefficient, "stratum": stratum, "template": template}
    rows = pd.DataFrame(given | {"source": source})
    return rows.assign(cluster=rows.index.astype(str))


def test_variances_within_groups_by_hand():
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
    # One value a template: what templates bring is in what differs besides.
    assert variance_within([1, 0, 1, 0], list("AABB"), list("1212")) == pytest.approx((np.nan, 0.5), nan_ok=True)
    assert variance_within([1, 1, 0, 0, 1, 1, 0, 0], list("AAAABBBB"), list("1" * 8))[1] == pytest.approx(2 / 6)
    # Templates that differ less than chance would have them.
    assert variance_within([1, 0, 1, 0], list("AAAA"), list("1122"))[0] == 0


def test_half_widths_by_hand_and_as_intervals_have_them():
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
    found = [stats.strata_mean([i, j], [10, 10], 0.9) for i in range(11) for j in range(11)]
    widths = np.array([each.ci_high - each.ci_low for each in found])
    expected = Design(2, 1, 10, 100, False, seed=0.21, share=0.3).half_width(0.9)
    assert expected == pytest.approx(50 * np.outer(likely, likely).ravel() @ widths, rel=0.02)
    assert replace(averages, youden=0.8).half_width() == pytest.approx(averages.half_width() / 0.8)
    assert Design(2, 1, 9, lists=2).half_width() == float("inf")
    # One image cannot tell chance from deviation: there is no interval.
    assert Design(10, 1, 1, is_absolute=True).half_width() == float("inf")


@pytest.mark.parametrize(
    "design",
    [Design(83, 1, 9, 2, group=0.1, seed=0.15), Design(6, 2, 10, 2, False), Design(1, 1, 10, 2, False, share=0.1)],
)
def test_the_fewest_images_give_the_half_width_and_one_less_does_not(design):
    wanted = 0.95 * design.half_width()
    for of in ("images", "clusters") if design.clusters > 1 else ("images",):
        n = design.minimum_images(wanted, unit=of)
        assert n > getattr(design, of) and replace(design, **{of: n}).half_width() <= wanted
        assert replace(design, **{of: n - 1}).half_width() > wanted


def test_of_few_clusters_no_number_of_images_is_enough():
    few = Design(10, 1, 9, 2, group=0.1, seed=0.15)
    # With endless images 2.262 x 2 x sqrt(0.01) = 0.452 is left.
    assert few.minimum_images(0.453) and few.minimum_images(0.451) is None
    with pytest.raises(InputError, match=r"half_width is 0; it must be a number above 0"):
        few.minimum_images(0)


def test_a_pilot_has_the_half_width_of_its_own_interval():
    count, n = np.array([0, 1, 5, 9]), 10
    found = stats.mean_interval(200 * count / n - 100)
    design = stats.design_from_pilot(cells(count, n, 200 / 4), NOBODY, clusters_random=True)
    assert design.half_width() == pytest.approx((found.ci_high - found.ci_low) / 2)
    # Images of a share vary by p (1 - p) n / (n - 1): 0, 0.1, 0.2778 and 0.1 here.
    assert design.seed == pytest.approx((0 + 0.09 + 0.25 + 0.09) / 4 * 10 / 9)
    low, high = stats.wilson_interval(21, 42)
    alone = stats.design_from_pilot(cells([20], 40, 100.0), NOBODY, clusters_random=False)
    assert (alone.clusters, alone.images, alone.share) == (1, 40, 0.5)
    assert replace(alone, images=42).half_width() == pytest.approx(50 * (high - low))
    with pytest.raises(InputError, match="No classified people"):
        stats.design_from_pilot(cells([0], 0, 1.0), NOBODY, clusters_random=False)


def test_people_of_one_image_who_move_as_one_count_double():
    """Images 0 to 3 show an f and an m; whoever is judged as the list is asked for, so is the other."""
    fits = np.array([1.0, 0, 1, 1, 0, 0, 1, 0])
    rows = cells([3, 1, 1, 3], 4, [50.0, 50, -50, -50], ["f", "f", "m", "m"])
    person = pd.DataFrame({"image_id": np.arange(8), "judged": fits, "cell": [0] * 4 + [1] * 4})
    other = person.assign(judged=1 - fits, cell=person["cell"] + 2)
    together = stats.design_from_pilot(rows, pd.concat([person, other], ignore_index=True), clusters_random=True)
    apart = stats.design_from_pilot(rows, NOBODY, clusters_random=True)
    assert together.seed == pytest.approx(2 * apart.seed) and (together.clusters, together.lists) == (4, 2)
    # Not judged: the images of a prompt are those asked for.
    unseen = pd.DataFrame({"image_id": np.arange(8, 16), "judged": np.nan, "cell": [0] * 4 + [1] * 4})
    whole = pd.concat([person, other, unseen, unseen.assign(cell=unseen["cell"] + 2)], ignore_index=True)
    assert stats.design_from_pilot(rows, whole, clusters_random=True).images == 8


def test_images_of_training_are_no_more_however_many_are_made():
    made, there = cells([2, 8], 10, [50.0, 50]), cells([5, 5], 10, [-50.0, -50], source="training")
    both = pd.concat([made, there], ignore_index=True)
    design = stats.design_from_pilot(both, NOBODY, clusters_random=True, is_absolute=True)
    whole = sum(design.variances.values())
    many = replace(design, images=1e9)
    # What is left: all but the images made, 2 x 50² x 0.2278 / 10 by their pooled variance over 4 shares of 10.
    pooled = (0.16 + 0.16 + 0.25 + 0.25) / 4 * 10 / 9
    assert whole - sum(many.variances.values()) == pytest.approx(2 * 50**2 * pooled / 10)
