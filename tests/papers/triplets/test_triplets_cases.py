"""From single images to measured tables: compared pairs, and values of triplets or seeds, by plain loops."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from scipy.spatial.distance import cosine as cosine_distance
from triplet_rows import GENDERS, NO_TESTS, images_of

from biaslab import stats
from biaslab.errors import InputError
from biaslab.papers import triplets
from biaslab.papers.triplets import cases
from biaslab.schema import tables


def objects_of(images, rng, odds=None):
    """Return objects of images at random: each of five kinds up to three times, by the gender's odds."""
    rows = []
    for image in images.itertuples():
        mean = np.array([0.6, 0.5, 0.4, 0.3, 0.02]) * (odds or {}).get(image.prompt_gender, 1)
        for name, n in zip("abcde", rng.poisson(mean), strict=True):
            rows += [{"image_id": image.image_id, "object": name, "count": int(n)}] if n else []
    return pd.DataFrame(rows)


def values_of(images, rng, metric="clip", pairs=None):
    result = cases.pairs(images) if pairs is None else pairs
    return result.assign(metric=metric, value=rng.uniform(0.2, 0.9, len(result)), reason="")


def test_pairs_by_seed_and_between_neutral_images():
    images = images_of(1, 5, (*GENDERS, "placebo"))
    images = images[images["image_id"] != "D-t0-1-feminine"]
    result = cases.pairs(images)
    short = [tuple(i.removeprefix("D-t0-") for i in row) for row in result[["first", "second"]].to_numpy()]
    pair_by_images = dict(zip(short, result["pair"], strict=True))
    same = {
        (f"{s}-neutral", f"{s}-{g}"): f"neutral-{g}"
        for s, g in itertools.product(range(5), ("feminine", "masculine", "placebo"))
    }
    del same["1-neutral", "1-feminine"]
    # The fifth neutral image is unpaired.
    other = {(f"{s}-neutral", f"{s + 1}-neutral"): "neutral-another_seed" for s in (0, 2)}
    assert pair_by_images == same | other and len(result) == len(pair_by_images)
    first = result["first"].tolist()
    assert [k for k, _ in itertools.groupby(first)] == sorted(set(first))


def test_similarity_is_mean_over_complete_seeds():
    rng = np.random.default_rng(1)
    values = values_of(images_of(2, 3), rng)
    missing_rows = (values["second"] == "D-t1-2-feminine") | (
        values["first"].str.startswith("D-t0") & (values["seed"] == 0)
    )
    values.loc[missing_rows, ["value", "reason"]] = [np.nan, "blocked"]
    result = cases.similarity(values).set_index(["case", "pair"])
    one = values[(values["triplet_id"] == "t1") & (values["pair"] == "neutral-masculine") & (values["seed"] < 2)]
    assert result.loc[("t1", "neutral-masculine"), "value"] == pytest.approx(one["value"].mean())
    assert result["n"].tolist() == [2, 2, 2, 2]
    assert set(result["space"]) == {"image"} and set(result["unit"]) == {"1"} and set(result["sample"]) == {"triplets"}
    values.loc[values["triplet_id"] == "t1", ["value", "reason"]] = [np.nan, "blocked"]
    result = cases.similarity(values).set_index(["case", "pair"])
    assert np.isnan(result.loc[("t1", "neutral-feminine"), "value"])
    assert result.loc[("t1", "neutral-feminine"), ["n", "reason"]].tolist() == [0, "blocked"]


def test_similarity_of_one_triplet_has_seeds_as_cases():
    measured = cases.similarity(values_of(images_of(1, 4), np.random.default_rng(3)))
    assert set(measured["sample"]) == {"seeds"} and set(measured["case"]) == {"0", "1", "2", "3"}
    assert triplets.disparity_gap(measured)["n"].tolist() == [4]


def test_object_counts_match_loop():
    rng = np.random.default_rng(4)
    images = images_of(3, 2)
    objects = objects_of(images, rng)
    images = images[images["image_id"] != "D-t2-1-masculine"]
    result = cases.object_counts(images, objects)
    expected = {}
    for row in objects.itertuples():
        _, triplet, seed, gender = row.image_id.split("-")
        # For that seed of the third triplet one image is missing, so the others are not compared.
        if (triplet, seed) != ("t2", "1"):
            key = (gender, triplet, row.object)
            expected[key] = expected.get(key, 0) + row.count
    got = result.set_index(["prompt_gender", "case", "object"])["count"].to_dict()
    assert got == expected and set(result["n_images"]) == {5}
    assert cases.object_counts(images, objects[:0]).empty


def test_object_similarity_is_cosine_of_counts():
    rng = np.random.default_rng(5)
    images = images_of(4, 3)
    objects = objects_of(images, rng)
    # A neutral image without objects: two pairs have no cosine, which is not 0.
    objects = objects[objects["image_id"] != "D-t0-0-neutral"]
    vectors = objects.pivot(index="image_id", columns="object", values="count").reindex(images["image_id"]).fillna(0)
    result = cases.object_similarity(images, objects).set_index(["pair", "case"])
    for pair, t in itertools.product(("neutral-feminine", "neutral-masculine"), range(4)):
        sides = [[vectors.loc[f"D-t{t}-{s}-{g}"] for g in pair.split("-")] for s in range(3)]
        each = [1 - cosine_distance(a, b) for a, b in sides if a.any() and b.any()]
        row = result.loc[(pair, f"t{t}")]
        assert (row["n"], row["n_pairs_excluded"]) == (len(each), 3 - len(each))
        assert row["value"] == pytest.approx(np.mean(each)) and row["reason"] == ""
    assert result["n_pairs_excluded"].sum() >= 2
    gap = triplets.co_occurrence(result.reset_index())
    assert gap["n_pairs_excluded"].item() == result["n_pairs_excluded"].sum()
    differences = result.loc["neutral-masculine", "value"] - result.loc["neutral-feminine", "value"]
    assert gap["gap"].item() == pytest.approx(differences.mean()) and gap["p"].item() >= 2 / 16
    none = cases.object_similarity(images, objects[~objects["image_id"].str.startswith("D-t0")]).set_index("case")
    assert none.loc["t0", "value"].isna().all() and (none.loc["t0", "n_pairs_excluded"] == 3).all()
    assert (none.loc["t0", "reason"] != "").all()


def test_chi_square_with_cases_adds_permutation_test():
    rng = np.random.default_rng(7)
    images = images_of(30, 2)
    counts = cases.object_counts(images, objects_of(images, rng, {"feminine": [2, 1, 1, 1, 1]}))
    result = triplets.chi_square(counts, NO_TESTS, seed=3, replicates=300).set_index("pair")
    keys = ["model", "dataset", "prompt_gender", "object", "n_images"]
    pooled_counts = counts.groupby(keys, as_index=False)["count"].sum()
    plain = triplets.chi_square(pooled_counts, NO_TESTS).set_index("pair")
    assert plain["p_permutation"].isna().all()
    same = ["chi_square", "p", "dof", "n_pooled", "cramers_v_corrected"]
    pd.testing.assert_frame_equal(result[same], plain[same])
    # "e" is rare and pooled with "d", as in the table of the statistic.
    dense = counts.pivot(index=["prompt_gender", "case"], columns="object", values="count")
    names = [f"t{i}" for i in range(30)]
    whole = [dense.loc[g].reindex(index=names, columns=list("abcde")).fillna(0).to_numpy() for g in GENDERS]
    merged = [np.column_stack([w[:, :3], w[:, 3] + w[:, 4]]) for w in whole]
    assert result.loc["triplet", "n_pooled"] == 2
    expected = stats.permuted_chi_square(merged, 4000, seed=1)
    assert result.loc["triplet", "p_permutation"] == pytest.approx(expected, abs=0.03)
    assert result["p_primary_holm"].tolist() == pytest.approx(stats.adjust(result["p_permutation"], "holm"))
    assert result["p_primary_bh"].tolist() == pytest.approx(stats.adjust(result["p_permutation"], "benjamini_hochberg"))
    assert (result["n_cases"] == 30).all()
    # Without cases, the plain p is the primary one.
    assert plain["p_primary_holm"].tolist() == plain["p_holm"].tolist()
    grouped = triplets.chi_square(counts.assign(dependency_group="hidden"), NO_TESTS, seed=3, replicates=300)
    assert grouped["p_permutation"].tolist() == result["p_permutation"].tolist()


def test_groups_answer_uses_permutation_p():
    """Objects of a triplet's image occur in groups of eight: the chi-square test treats them as independent."""
    rng = np.random.default_rng(11)
    rows = pd.DataFrame(itertools.product(GENDERS, range(24)), columns=["prompt_gender", "case"]).astype(str)
    shown_objects = rng.choice(["cup", "hat", "dog"], len(rows))
    rows = rows.assign(model="M", dataset="D", object=shown_objects, count=8, n_images=24)
    counts = tables.make_table(rows, "triplets_object_counts")
    result = triplets.chi_square(counts, NO_TESTS, seed=1, replicates=999)
    assert (result["p_holm"] < 0.05).any() and (result["p_primary_holm"] > 0.05).all()
    grouped = counts.assign(dependency_group="implicitly_guided")
    grouped = triplets.chi_square(grouped, NO_TESTS, seed=1, replicates=999)
    (finding,) = triplets.answers.groups.findings(grouped.assign(kind="implicit"))
    assert not finding.is_significant and (finding.n, finding.p) == (24, grouped["p_primary_holm"].min())


def dogs(**genders):
    """Return counts of dogs by gender: in how many cases, how many in each, in how many images."""
    rows = [(g, f"t{k}{g}", n, size) for g, (times, n, size) in genders.items() for k in range(times)]
    frame = pd.DataFrame(rows, columns=["prompt_gender", "case", "count", "n_images"])
    return frame.assign(model="M", dataset="D", object="dog")


def test_bias_score_interval_is_clustered_by_case():
    # Ten feminine triplets with 4 each, ten masculine: ten occurrences are as informative as forty in groups of four.
    rows = tables.make_table(dogs(feminine=(10, 4, 99), masculine=(15, 4, 99)), "triplets_object_counts")
    result = triplets.bias_score(rows).iloc[0]
    single = triplets.bias_score(rows.assign(count=1)).iloc[0]
    assert result["bias_score"] == single["bias_score"] == pytest.approx(0.6)
    assert result[["ci_low", "ci_high", "p"]].tolist() == pytest.approx(single[["ci_low", "ci_high", "p"]].tolist())
    # Each is a fair coin: 15 of 25.
    assert single["p"] == pytest.approx(scipy_stats.binomtest(15, 25).pvalue)
    # Wilson's limits of 15 of 25, a little wider by Student's t and by the 24 of 25 in the variance.
    low, high = stats.wilson_interval(15, 25)
    assert 0 < low - single["ci_low"] < 0.02 and 0 < single["ci_high"] - high < 0.02
    loose = triplets.bias_score(rows.iloc[[0, -1]], min_count=1)
    # In only two triplets, one of either kind: the interval is 0 to 1.
    assert loose[["ci_low", "ci_high"]].to_numpy().ravel() == pytest.approx([0, 1], abs=0.02)


def test_bias_score_tests_rates_of_unequal_sets():
    rows = dogs(feminine=(20, 1, 20), masculine=(20, 3, 60)).assign(case=[f"t{k}" for k in [*range(20)] * 2])
    result = triplets.bias_score(tables.make_table(rows, "triplets_object_counts")).iloc[0]
    # The same rate in both sets: p is 1.
    assert result["bias_score"] == pytest.approx(0.5) and result["p"] == 1


def floor_of(values):
    return triplets.null_similarity(cases.similarity(values), cases.reference_similarity(values))


@pytest.mark.long
def test_null_similarity_by_hand():
    rng = np.random.default_rng(10)
    images = images_of(6, 4, (*GENDERS, "placebo"))
    values = pd.concat([values_of(images, rng, "clip"), values_of(images, rng, "diff_pix")])
    t = values_of(images_of(6, 1, (*GENDERS, "placebo")), rng, "t").assign(seed=None)
    result = floor_of(pd.concat([values, t])).set_index(["metric", "reference", "pair"])
    assert len(result) == 2 * 2 * 2 + 2  # a prompt has no noise
    for metric, reference, pair in result.index:
        metric_values = (t if metric == "t" else values)[lambda v, m=metric: v["metric"] == m]
        means = metric_values.groupby(["pair", "triplet_id"])["value"].mean().unstack("pair")
        difference = (means[pair] - means[reference]) * (-1 if metric == "diff_pix" else 1)
        row = result.loc[(metric, reference, pair)]
        assert row["value"] == pytest.approx(means[reference].mean())
        assert row["difference"] == pytest.approx(difference.mean())
        ends = scipy_stats.t.interval(0.95, 5, difference.mean(), scipy_stats.sem(difference))
        assert row[["difference_ci_low", "difference_ci_high"]].tolist() == pytest.approx(list(ends))
        ends = scipy_stats.t.interval(0.95, 5, means[reference].mean(), scipy_stats.sem(means[reference]))
        assert row[["ci_low", "ci_high"]].tolist() == pytest.approx(list(ends))
        assert row["n"] == 6 and row["reason"] == ""
        assert row["p"] == pytest.approx(scipy_stats.ttest_1samp(difference, 0).pvalue)
    for _, rows in result.groupby(level="reference"):
        assert rows["p_holm"].tolist() == pytest.approx(stats.adjust(rows["p"], "holm"))
    # A single seed has no other noise, and without values the table is empty.
    assert floor_of(values_of(images_of(6, 1), rng)).empty
    lone = values_of(images_of(6, 2), rng)
    nothing = lone["value"].mask(lone["pair"] == "neutral-another_seed")
    unseen = floor_of(lone.assign(value=nothing, reason=np.where(nothing.isna(), "unreadable", "")))
    assert unseen["value"].isna().all() and unseen["difference"].isna().all()
    assert set(unseen["reason"]) == {"unreadable"} and len(unseen) == 2
    assert list(floor_of(values[:0])) == tables.schema("triplets_null_similarity").names


def test_gap_by_step_by_hand():
    rng = np.random.default_rng(12)
    images = images_of(5, 2)
    values = pd.concat([values_of(images, rng, f"z_{k}") for k in (2, 10, 1)])
    result = triplets.gap_by_step(cases.similarity(values, "triplets_step_similarity"))
    assert result["denoising_step"].tolist() == [2, 10, 1]
    for row in result.itertuples():
        metric_values = values[values["metric"] == f"z_{row.denoising_step}"]
        means = metric_values.groupby(["pair", "triplet_id"])["value"].mean().unstack("pair")
        gaps = means["neutral-masculine"] - means["neutral-feminine"]
        assert row.gap == pytest.approx(gaps.mean()) and row.n == 10
        ends = scipy_stats.t.interval(0.95, 4, gaps.mean(), scipy_stats.sem(gaps))
        assert (row.ci_low, row.ci_high) == pytest.approx(ends)
    assert result["p_holm"].tolist() == pytest.approx(stats.adjust(result["p"], "holm"))


def test_prompts_of_pairs_are_once_per_triplet():
    images = images_of(2, 3, (*GENDERS, "placebo"))
    texts = images.set_index("image_id").apply(lambda row: f"{row.triplet_id} {row.prompt_gender}", axis=1)
    result = cases.prompts_of_pairs(cases.pairs(images), texts)
    rows = list(result[["triplet_id", "pair", "first", "second"]].itertuples(index=False, name=None))
    both = itertools.product(("t0", "t1"), ("feminine", "masculine", "placebo"))
    assert sorted(rows) == sorted((t, f"neutral-{g}", f"{t} neutral", f"{t} {g}") for t, g in both)
    assert result["seed"].isna().all()


def test_extremes_take_largest_and_smallest_gaps():
    rng = np.random.default_rng(13)
    table = cases.similarity(values_of(images_of(9, 2), rng, "ssim"))
    wide = table.pivot(index="case", columns="pair", values="value")
    gaps = (wide["neutral-masculine"] - wide["neutral-feminine"]).sort_values()
    result = triplets.extremes(table, n_per_end=2)
    assert result["triplet_id"].tolist() == [*gaps.index[::-1][:2], gaps.index[1], gaps.index[0]]
    assert result["gap"].tolist() == pytest.approx([*gaps.iloc[::-1][:2], *gaps.iloc[[1, 0]]])
    # With few triplets none is at both ends, and metrics of differences are reversed.
    few = cases.similarity(values_of(images_of(3, 1), rng, "diff_pix"))
    assert triplets.extremes(few, metric="diff_pix")["triplet_id"].is_unique
    assert triplets.extremes(table, metric="clip").empty


def test_bias_score_refuses_mixed_cases():
    objects = pd.DataFrame({"image_id": ["D-t0-0-neutral"], "object": ["a"], "count": [1]})
    counts = cases.object_counts(images_of(1, 1), objects)
    mixed = pd.concat([counts, counts.assign(case="", prompt_gender="feminine")])
    with pytest.raises(InputError, match="with and without a case"):
        triplets.bias_score(mixed)
