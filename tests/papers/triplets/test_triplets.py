"""Gender triplets: gaps, tests, bias scores and groups, from the printed numbers and from frames of known truth."""

import re
import types
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from triplet_rows import GENDERS, NO_TESTS, cell

from biaslab import reference
from biaslab.errors import InputError
from biaslab.papers import triplets
from biaslab.papers.triplets import answers, figures
from biaslab.papers.triplets import printed as prints
from biaslab.schema import tables

PAIRS = ["neutral-feminine", "neutral-masculine"]
ALL_MODELS = "SD v1.4, SD v2.0, SD v2.1"


@pytest.fixture(scope="module")
def printed():
    """Return every table as it follows from the printed numbers, by name."""
    given = {
        f.__name__: tables.check(f(), f"triplets_{f.__name__}")
        for f in list(vars(prints).values())
        if getattr(f, "__module__", "") == prints.__name__ and not f.__name__.startswith("_")
    }
    gap = triplets.disparity_gap(given["similarity"])
    co_occurrence = triplets.co_occurrence(given["object_similarity"])
    objects = triplets.group_objects(given["group_object_counts"], given["printed_group_objects"])
    summary = triplets.gap_summary(gap)
    return types.SimpleNamespace(
        given=given,
        datasets=triplets.datasets(given["prompt_sets"]),
        disparity=triplets.disparity(given["similarity"]),
        gap=gap,
        summary=summary,
        together=triplets.select_pooled(summary),
        co_occurrence=co_occurrence,
        told=triplets.co_occurrence_summary(co_occurrence),
        tests=triplets.chi_square(given["object_counts"], given["printed_chi_square"]),
        group_tests=triplets.chi_square(given["group_object_counts"], given["printed_chi_square"]),
        share=triplets.group_share(given["group_images"]),
        objects=objects,
        shared=triplets.intersection(given["group_object_counts"], given["printed_intersection"], objects),
        detector=triplets.detector(given["detector_counts"]),
    )


def similarity(feminine, masculine, *, metric="clip"):
    """Return measured similarities: one case per value."""
    both = {"neutral-feminine": feminine, "neutral-masculine": masculine}
    rows = [(pair, f"t{i}", value) for pair, values in both.items() for i, value in enumerate(values)]
    same = {"model": "M", "dataset": "D", "space": "image", "metric": metric, "unit": "1", "n": 1}
    rows = pd.DataFrame(rows, columns=["pair", "case", "value"]).assign(**same, higher_is_closer=1, sample="triplets")
    return tables.make_table(rows, "triplets_similarity")


def object_counts(counts, *, dataset="D", n_images=(100, 100, 100), group=None):
    """Return measured counts from object: (neutral, feminine, masculine)."""
    rows = [
        {"model": "M", "dataset": dataset, "prompt_gender": gender, "object": name, "count": c, "n_images": n}
        | ({"dependency_group": group} if group else {})
        for name, row in counts.items()
        for gender, c, n in zip(GENDERS, row, n_images, strict=True)
        if c is not None
    ]
    return tables.make_table(rows, "triplets_group_object_counts" if group else "triplets_object_counts")


def numbers(text):
    """Return the whole numbers in a text."""
    return [int(n) for n in re.findall(r"\d+", text)]


# -- section 4: printed --------------------------------------------------------------------------------


@pytest.mark.long
def test_datasets_match_table_4(printed):
    expected = reference.load("triplets_table_4").set_index("dataset")
    table = printed.datasets.set_index("dataset")
    assert (table["n_prompts"] == expected["prompts"]).all() and (table["n_images"] == expected["images"]).all(
        axis=None
    )


def test_disparity_n_depends_on_space(printed):
    table = printed.disparity
    assert (table.loc[table["value"].isna(), "n"] == 0).all()
    n = table[table["value"].notna()].groupby(["dataset", "space"])["n"].agg(set)
    # Table 4: 418 triplets with 5 seeds; 811 with 5; the others with 1. One triplet: 1000 seeds (section 7.1).
    assert n["GCC", "prompt"] == {418} and n["GCC", "image"] == {2090}
    assert n["Profession", "denoising"] == {4055} and n["COCO", "image"] == {51219}
    assert n[prints.ONE_TRIPLET, "prompt"] == {1} and n[prints.ONE_TRIPLET, "image"] == {1000}


def test_disparity_gap_reverses_if_lower_is_closer(printed):
    pixels = cell(printed.gap, model="SD v1.4", dataset="GCC", metric="diff_pix")
    assert pixels["gap"] == pytest.approx(42.61 - 39.34)
    assert pixels["relative_gap"] == pytest.approx(100 * 3.27 / 42.61)
    text = cell(printed.gap, model="SD v1.4", dataset="GCC", metric="t")
    assert text["gap"] == pytest.approx(0.931 - 0.909)
    # distances 1 - 0.909 and 1 - 0.931
    assert text["relative_gap"] == pytest.approx(100 * (0.091 - 0.069) / 0.091)
    clip = cell(printed.gap, model="SD v2.1", dataset="Flickr30k", metric="clip")
    assert (clip["direction"], clip["gap"], clip["rounding"]) == (
        "feminine",
        pytest.approx(-0.010),
        pytest.approx(0.001),
    )


def test_gap_summary_is_student_t_over_datasets(printed):
    dino = printed.gap[(printed.gap["sample"] == "triplets") & (printed.gap["metric"] == "dino")]
    means = dino.groupby("dataset")["gap"].mean().to_numpy()
    assert len(means) == 5
    row = cell(printed.summary, model=ALL_MODELS, metric="dino")
    low, high = scipy_stats.t.interval(0.95, 4, means.mean(), scipy_stats.sem(means))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([means.mean(), low, high])
    # 15 cells minus the two illegible ones of SD v2.1.
    assert (row["n_datasets"], row["n_cells"], row["n_missing"], row["n_masculine"]) == (5, 13, 2, 13)
    assert set(printed.together["model"]) == {ALL_MODELS} and len(printed.together) == 8


@pytest.mark.long
def test_nearer_answer_counts_adjusted_metrics(printed):
    gap = printed.gap[printed.gap["sample"] == "triplets"]
    means = gap.groupby(["metric", "dataset"], sort=False)["relative_gap"].mean()
    p = means.groupby("metric", sort=False).apply(lambda m: scipy_stats.ttest_1samp(m.dropna(), 0).pvalue)
    rows = printed.together.set_index("metric")
    assert rows["relative_gap_p"].to_dict() == pytest.approx(p.to_dict())
    assert rows["relative_gap_p_holm"].to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    undecided_metrics = [
        m for m in rows.index if rows.loc[m, "relative_gap_ci_low"] <= 0 <= rows.loc[m, "relative_gap_ci_high"]
    ]
    assert undecided_metrics == ["clip", "split_product"] and (rows["relative_gap_p_holm"] < 0.05).sum() == 6
    # Student's t test is allowed from five datasets, and the answer states it.
    (finding,) = answers.direction.findings(printed.together)
    assert (
        numbers(finding.supported_answer) == [6, 8, 0, 2]
        and finding.is_significant
        and (finding.n, finding.model) == (5, ALL_MODELS)
    )
    assert finding.as_record()["details"][-1] == "Student's t-test over 5 datasets."
    assert finding.p == rows["relative_gap_p_holm"].min() < 0.05
    assert [mark.estimate for mark in finding.marks] == rows["relative_gap"].tolist()
    (finding,) = answers.direction.findings(printed.together.assign(n_datasets=4))
    assert finding.supported_answer == "Inconclusive (at most 4 datasets)."


def test_gap_summary_excludes_single_triplet(printed):
    one = printed.gap[printed.gap["sample"] == "seeds"]
    assert len(one) == 8 and set(one["dataset"]) == {"GCC (one triplet)"}
    assert printed.summary["n_datasets"].max() == 5
    # 0.981 and 0.982 are one unit apart; printed means have no test.
    assert one["direction"].value_counts().to_dict() == {"masculine": 7, "tie": 1}
    (finding,) = answers.one_triplet.findings(printed.gap)
    # Without a test no direction is named.
    assert finding.supported_answer == "Not tested." and "masculine" not in " ".join(finding.details)


# -- section 4: measured -------------------------------------------------------------------------------


def test_disparity_gap_interval_is_paired():
    feminine = np.array([0.50, 0.60, 0.55, 0.70, np.nan])
    masculine = np.array([0.53, 0.62, 0.60, np.nan, 0.80])
    measured_similarity = similarity(feminine, masculine)
    row = triplets.disparity_gap(measured_similarity).iloc[0]
    differences = (masculine - feminine)[:3]
    low, high = scipy_stats.t.interval(0.95, 2, differences.mean(), scipy_stats.sem(differences))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([differences.mean(), low, high])
    assert row["masculine"] - row["feminine"] == pytest.approx(row["gap"])
    assert (row["direction"], row["rounding"], row["reading"]) == ("masculine", 0, "")
    mean = cell(triplets.disparity(measured_similarity), pair="neutral-feminine")
    known = feminine[:4]
    low, high = scipy_stats.t.interval(0.95, 3, known.mean(), scipy_stats.sem(known))
    assert [mean["value"], mean["ci_low"], mean["ci_high"]] == pytest.approx([known.mean(), low, high])


def test_disparity_gap_without_values_has_reason():
    measured_similarity = [similarity([np.nan, np.nan], [0.6, 0.7]), similarity([0.1], [0.2], metric="dino")]
    gaps = triplets.disparity_gap(pd.concat(measured_similarity, ignore_index=True))
    gap = gaps.set_index("metric")
    assert np.isnan(gap.loc["clip", "gap"]) and gap.loc["clip", "direction"] == ""
    assert gap.loc["clip", "reason"] == "no value is given"
    assert np.isnan(gap.loc["dino", "ci_low"]) and gap.loc["dino", "reason"] == "an interval needs at least two cases"
    summary = triplets.gap_summary(gaps).set_index("metric")
    assert (summary["n_missing"].tolist(), summary["n_cells"].tolist()) == ([1, 0], [0, 1])
    assert summary.loc["dino", "reason"] == "an interval needs at least two datasets"


@pytest.mark.long
def test_measured_answer_counts_adjusted_gaps():
    # Two metrics whose intervals exclude 0 barely (p of t about 0.03), and one that is clear: of the three Holm leaves
    # the clear one, though each interval alone excludes 0.
    t = np.linspace(-1, 1, 20) / np.linspace(-1, 1, 20).std(ddof=1)
    means = {"dino": 2.35, "ssim": 2.35, "clip": 6.0}
    values = {metric: 0.5 + 0.01 * (t + mean / np.sqrt(20)) for metric, mean in means.items()}
    rows = pd.concat(
        [similarity(np.full(20, 0.5), group_values, metric=metric) for metric, group_values in values.items()]
    )
    rows = rows.reset_index(drop=True)
    gap = triplets.disparity_gap(rows).assign(note="A note.")
    p = [2 * scipy_stats.t.sf(mean, 19) for mean in means.values()]
    assert gap["p"].to_numpy() == pytest.approx(p) and p[0] < 0.05 < 2 * p[0]
    assert gap["p_holm"].to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    assert (gap["ci_low"] > 0).all() and (gap["n_cases"] == 20).all()
    (counted_finding,) = answers.measured.findings(gap)
    assert counted_finding.card_text == "Above 0: nearer to masculine ones. A note."
    assert numbers(counted_finding.supported_answer) == [1, 3, 0, 2] and counted_finding.p == pytest.approx(3 * p[2])
    # At a level below every p nothing is significant.
    (strict,) = answers.measured.findings(gap, confidence=1 - 1e-6)
    assert not strict.is_significant
    # p is below 1 - confidence exactly where the interval excludes 0.
    for confidence in (0.95, 0.975, 0.99, 0.9999):
        result = triplets.disparity_gap(rows, confidence=confidence)
        assert ((result["p"] < 1 - confidence) == (result["ci_low"] > 0)).all()


@pytest.mark.parametrize("n", [4, 5])
def test_measured_answer_of_few_triplets_is_inconclusive(n):
    (counted_finding,) = answers.measured.findings(
        triplets.disparity_gap(measured_similarity(0.05, n=n, model="M")).assign(note="")
    )
    assert (counted_finding.n, counted_finding.n_unit) == (n, "triplets") and counted_finding.is_significant == (n > 4)
    assert (
        counted_finding.supported_answer == "Inconclusive (at most 4 triplets)." if n < 5 else counted_finding.p < 0.001
    )


def test_disparity_gap_of_equal_cases_has_no_interval():
    gap = cell(triplets.disparity_gap(similarity([0.5, 0.5, 0.5], [0.75, 0.75, 0.75])), metric="clip")
    assert np.isnan(gap["p"]) and np.isnan(gap["ci_low"]) and gap["reason"] == "all cases have the same value"
    assert gap["gap"] == 0.25


def test_similarity_refuses_invalid_values():
    rows = similarity([0.5], [0.6])
    # Names are checked where a source is read.
    for column, value in (("pair", "neutral-male"), ("sample", "prompts")):
        with pytest.raises(InputError, match=f"triplets_similarity: {column} is '{value}'"):
            tables.check(rows.assign(**{column: value}), "triplets_similarity")
    for analysis in (triplets.disparity, triplets.disparity_gap):
        with pytest.raises(InputError, match=r"triplets_similarity: higher_is_closer is 0\.5"):
            analysis(rows.assign(higher_is_closer=[1, 0.5]))
    # A mean in addition to its values is refused as well.
    rows = similarity([0.5, 0.6], [0.6, 0.7])
    rows.loc[rows["case"] == "t1", "case"] = "mean"
    with pytest.raises(InputError, match=r"contains the case 'mean' and other cases for \{'model': 'M'"):
        triplets.disparity_gap(rows)


# -- section 5 -----------------------------------------------------------------------------------------


def test_co_occurrence_matches_table_6(printed):
    row = cell(printed.co_occurrence, model="SD v2.0", dataset="COCO")
    assert row["gap"] == pytest.approx(0.531 - 0.512) and row["n"] == 51219
    one = cell(printed.co_occurrence, model="SD v2.0", dataset="GCC (one triplet)")
    assert (one["feminine"], one["masculine"], one["n"], one["sample"]) == (0.733, 0.773, 1000, "seeds")
    values = reference.load("triplets_table_6").pivot(index=["model", "dataset"], columns="pair", values="value")
    means = (values["neutral-masculine"] - values["neutral-feminine"]).groupby("dataset").mean()
    # Over datasets; printed cells by themselves have no interval.
    row = cell(printed.told, dataset="all datasets")
    low, high = scipy_stats.t.interval(0.95, 4, means.mean(), scipy_stats.sem(means))
    assert [row["gap"], row["ci_low"], row["ci_high"]] == pytest.approx([means.mean(), low, high])
    assert (row["n_cases"], len(printed.told)) == (5, 1)
    percent = 100 * (values["neutral-masculine"] - values["neutral-feminine"]) / (1 - values["neutral-feminine"])
    percent = percent.groupby("dataset").mean()
    (finding,) = answers.co_occurrence.findings(printed.told)
    assert finding.estimate == pytest.approx(percent.mean()) and finding.is_significant
    assert finding.as_record()["details"][-1] == "Student's t-test over 5 datasets."
    assert finding.p == pytest.approx(scipy_stats.ttest_1samp(percent, 0).pvalue)


@pytest.mark.long
def test_chi_square_matches_scipy():
    counts = {"suit": (50, 20, 90), "dress": (40, 80, 10), "tree": (70, 60, 65)}
    tests = triplets.chi_square(object_counts(counts), NO_TESTS)
    row = cell(tests, pair="feminine-masculine")
    test = scipy_stats.chi2_contingency([[20, 90], [80, 10], [60, 65]], correction=False)
    assert [row["chi_square"], row["p"], row["dof"]] == pytest.approx([test.statistic, test.pvalue, 2])
    assert (row["n"], row["n_objects"], row["n_pooled"], row["evidence"]) == (325, 3, 0, "computed")
    assert row["cramers_v_corrected"] == pytest.approx(np.sqrt((test.statistic - 2) / 325))
    assert row["ci_low"] < row["cramers_v_corrected"] < row["ci_high"]
    triplet = cell(tests, pair="triplet")
    assert triplet["chi_square"] == pytest.approx(scipy_stats.chi2_contingency(list(counts.values())).statistic)
    for column, method in (("p_holm", "holm"), ("p_bh", "fdr_bh")):
        assert tests[column].to_numpy() == pytest.approx(multipletests(tests["p"], method=method)[1])


def test_chi_square_of_missing_counts_has_reason():
    rows = object_counts({"suit": (None, 3, 1), "hat": (None, 0, 2)})
    table = triplets.chi_square(rows, NO_TESTS).set_index("pair")
    assert table.loc["neutral-feminine", "reason"] == "no counts for neutral prompts"
    assert table.loc["feminine-masculine", "reason"] == "fewer than two objects are common enough"
    assert table["p"].isna().all()


@pytest.mark.long
def test_bias_score_of_equal_sets_by_hand():
    counts = object_counts({"suit": (5, 10, 30), "dress": (9, 24, 0), "tree": (7, 20, 20), "rare": (20, 9, 9)})
    scores = triplets.bias_score(counts).set_index("object")
    # Dataset D has no threshold in the paper: 10. The neutral count of "rare" does not count.
    assert list(scores.index) == ["suit", "tree", "dress"]
    assert scores["bias_score"].tolist() == [0.75, 0.5, 0.0]
    low, high = proportion_confint([30, 20, 0], [40, 40, 24], method="wilson")
    assert scores["ci_low"].to_numpy() == pytest.approx(low, abs=1e-12)
    assert scores["ci_high"].to_numpy() == pytest.approx(high, abs=1e-12)
    p = [scipy_stats.binomtest(k, n).pvalue for k, n in ((30, 40), (20, 40), (0, 24))]
    assert scores["p"].to_numpy() == pytest.approx(p)
    assert scores["p_holm"].to_numpy() == pytest.approx(multipletests(p, method="holm")[1])
    assert scores["n"].tolist() == [40, 40, 24]
    assert set(triplets.bias_score(counts, min_count=25)["object"]) == {"suit"}
    # 0.05: suit 3 x 0.0022 and dress 3 x 1.2e-7 are left.
    (finding,) = answers.bias_scores.findings(scores.reset_index())
    assert numbers(finding.supported_answer) == [1, 3, 1] and finding.model == "M"


def test_bias_score_of_unequal_sets_by_hand():
    # Twice as many masculine as feminine images: 30 / (30 + 2 x 10) = 0.6, and 20 against 10 is balance.
    counts = object_counts({"suit": (0, 10, 30), "tree": (0, 10, 20)}, n_images=(100, 100, 200))
    scores = triplets.bias_score(counts).set_index("object")
    assert scores["bias_score"].to_dict() == pytest.approx({"suit": 0.6, "tree": 0.5})
    low, high = proportion_confint(30, 40, method="wilson")
    expected = [s / (s + 2 * (1 - s)) for s in (low, high)]
    assert scores.loc["suit", ["ci_low", "ci_high"]].tolist() == pytest.approx(expected)
    binomial = scipy_stats.binom(40, 2 / 3)
    assert scores.loc["suit", "p"] == pytest.approx(2 * min(binomial.cdf(30), binomial.sf(29)))
    assert scores.loc["tree", "p"] == 1


def test_bias_score_threshold_depends_on_dataset():
    datasets = ("GCC", "COCO", "TextCaps", "Flickr30k", "Profession", "world")
    counts = {f"o{k}": (0, k, 1) for k in (4, 5, 9, 10, 19, 20)}
    rows = pd.concat([object_counts(counts, dataset=d) for d in datasets], ignore_index=True)
    n_objects = triplets.bias_score(rows).groupby("dataset")["object"].nunique()
    assert n_objects.to_dict() == {"GCC": 3, "COCO": 1, "TextCaps": 1, "Flickr30k": 1, "Profession": 5, "world": 3}


def test_object_counts_refuse_invalid_values():
    rows = object_counts({"suit": (1, 2, 3), "hat": (1, 2, 3)})
    rows.loc[0, "n_images"] = 7
    with pytest.raises(InputError, match=r"triplets_object_counts: n_images differs within \{'model': 'M'"):
        triplets.chi_square(rows, NO_TESTS)
    with pytest.raises(InputError, match="triplets_object_counts: prompt_gender is 'female'"):
        tables.check(rows.assign(prompt_gender="female"), "triplets_object_counts")
    with pytest.raises(InputError, match="dependency_group is 'guided'"):
        object_counts({"suit": (1, 2, 3)}, group="guided")


# -- sections 6 and 7 ----------------------------------------------------------------------------------


def test_chi_square_holm_changes_printed_results(printed):
    many = printed.group_tests[printed.group_tests["sample"] == "triplets"]
    lost = many[(many["p"] < 0.05) & (many["p_holm"] >= 0.05)]
    # p = 0.002 follows 141 smaller ones: 0.002 x 159 = 0.318.
    result = cell(lost, model="SD v2.0", dataset="GCC", dependency_group="implicitly_independent")
    assert (len(lost), result["pair"], result["p_holm"]) == (1, "neutral-masculine", pytest.approx(0.318))
    # 12 + 10 of the explicit groups' 120, 60 + 59 of the implicit ones'; they are of all three models.
    kinds = printed.group_tests["dependency_group"].str.partition("ly_")[0]
    result = answers.groups.findings(printed.group_tests.assign(kind=kinds))
    assert [numbers(f.supported_answer) for f in result] == [[22, 120], [119, 120]] and {f.model for f in result} == {
        "SD v1.4, SD v2.0, SD v2.1"
    }


def test_chi_square_of_untested_groups_has_reason(printed):
    one = printed.group_tests[printed.group_tests["sample"] == "seeds"].set_index(["dependency_group", "pair"])
    assert len(one) == 20
    assert np.isnan(one.loc[("hidden", "triplet"), "p"])
    assert one.loc[("hidden", "triplet"), "reason"] == "not tested: fewer than 5 objects"
    # Eight tests were: the bound times 8.
    assert one.loc[("implicitly_guided", "triplet"), "p_holm"] == pytest.approx(8e-5)


def test_chi_square_of_counts_replaces_printed_tests():
    counts = {"suit": (50, 20, 90), "dress": (40, 80, 10)}
    groups = ("implicitly_guided", "hidden", "nouns")
    rows = pd.concat([object_counts(counts, group=g) for g in groups], ignore_index=True)
    printed_test = {"model": "M", "pair": "triplet", "p_relation": "=", "p": 0.5, "sample": "triplets"}
    stated = [printed_test | {"dataset": d, "dependency_group": "hidden"} for d in ("D", "E")]
    table = triplets.chi_square(rows, tables.make_table(stated, "triplets_printed_chi_square"))
    # The nouns of the prompts are not a dependency group; without counts the printed test is used.
    assert table["dependency_group"].tolist() == ["implicitly_guided"] * 4 + ["hidden"] * 5
    assert cell(table, dataset="E")["evidence"] == "printed"
    test = scipy_stats.chi2_contingency([[50, 90], [40, 10]], correction=False)
    row = cell(table, dependency_group="hidden", pair="neutral-masculine")
    assert row["p"] == pytest.approx(test.pvalue)
    scores = triplets.bias_score(rows)
    assert cell(scores, dependency_group="hidden", object="suit")["bias_score"] == pytest.approx(90 / 110)


def test_group_share_interval_is_over_triplets(printed):
    row = cell(printed.share, dataset="GCC", dependency_group="explicitly_guided")
    # 64.48% of 418 triplets is 269.5; 6270 images.
    low, high = proportion_confint(round(0.6448 * 418), 418, method="wilson")
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([100 * low, 100 * high])
    assert (row["percent_images"], row["n"], row["n_triplets"]) == (64.48, 6270, 418)


def test_group_objects_and_intersection_by_hand():
    counts_by_group = {
        "explicitly_guided": {"cat": (1, 0, 0), "dog": (0, 2, 0), "bus": (0, 0, 0)},
        "implicitly_guided": {"cat": (1, 1, 1), "sky": (1, 1, 1), "sea": (0, 1, 0)},
        "nouns": {"cat": (3, 3, 3), "dog": (3, 3, 3), "joy": (3, 3, 3)},
    }
    rows = pd.concat(object_counts(counts, group=group) for group, counts in counts_by_group.items())
    result = triplets.group_objects(rows, tables.make_table([], "triplets_printed_group_objects"))
    objects = result.set_index("dependency_group")
    # A bus was never found.
    assert objects["n_objects"].to_dict() == {"explicitly_guided": 2, "implicitly_guided": 3, "nouns": 3}
    assert objects["percent_of_nouns"].tolist() == pytest.approx([200 / 3, 100, 100])
    shared = triplets.intersection(rows, tables.make_table([], "triplets_printed_intersection"), result)
    shared = shared.set_index(["base_group", "dependency_group"])
    assert shared.loc[("explicitly_guided", "implicitly_guided"), "percent"] == 50
    assert shared.loc[("implicitly_guided", "explicitly_guided"), "percent"] == pytest.approx(100 / 3)
    assert shared.loc[("explicitly_guided", "nouns"), "n_shared"] == 2
    assert (shared["agrees"] == "yes").all() and (shared["evidence"] == "computed").all()


def test_intersection_finds_inconsistent_printed_values(printed):
    table = printed.shared
    assert len(table) == 180
    odd = table[table["agrees"] == "no"]
    # The three that the notes of the published table name; 78.82% of 85 is 67, and 67 / 1059 is 6.33%.
    assert odd[["dataset", "base_group", "dependency_group", "percent"]].to_numpy().tolist() == [
        ["GCC", "implicitly_guided", "explicitly_independent", 0.63],
        ["TextCaps", "hidden", "explicitly_guided", 9.5],
        ["TextCaps", "hidden", "implicitly_guided", 13.9],
    ]
    assert odd["n_shared"].tolist()[0] == 67
    assert odd["percent_implied"].tolist()[0] == pytest.approx(6700 / 1059)
    # The values implied by their mirrored cells are then unknown.
    assert (table["agrees"] == "").sum() == 3


def test_detector_recall_is_lower_bound(printed):
    table = printed.detector.set_index("quantity")
    # 346 nouns, 227 found by both, 8 by the detector alone: people see at most 346 - 8.
    assert table["n"].to_dict() == {"found_by_both": 346, "detector_precision": 235, "detector_recall": 338}
    assert table["percent"].tolist() == pytest.approx([65.6069, 96.5957, 67.1598], abs=1e-4)
    low, high = proportion_confint(227, 235, method="wilson")
    limits = table.loc["detector_precision", ["ci_low", "ci_high"]].tolist()
    assert limits == pytest.approx([100 * low, 100 * high])
    recall = table.loc["detector_recall"]
    assert np.isnan(recall["ci_high"]) and recall["bound"] == "at least"
    counts = {
        "model": "M",
        "n_images": 10,
        "n_nouns": 50,
        "n_nouns_both": 20,
        "n_nouns_detector_only": 5,
        "n_nouns_people_only": 20,
    }
    known = triplets.detector(tables.make_table([counts], "triplets_detector_counts")).set_index("quantity")
    assert known.loc["detector_recall", ["percent", "bound"]].tolist() == [50.0, ""]
    assert known.loc["detector_recall", "ci_high"] > 50


# -- figures -------------------------------------------------------------------------------------------


def measured_similarity(shift, *, metrics=("t", "ssim"), n=8, model="mini"):
    """Return measured similarities whose gap is ``shift`` in each triplet, plus an alternating term."""
    rows = []
    for metric, k in product(metrics, range(n)):
        near = 0.5 + 0.01 * k
        for pair, value in zip(PAIRS, (near, near + shift + 0.001 * (-1) ** k), strict=True):
            rows.append(("prompt" if metric == "t" else "image", metric, pair, f"c{k}", value))
    rows = pd.DataFrame(rows, columns=["space", "metric", "pair", "case", "value"])
    same = {"model": model, "dataset": "ours", "n": 1, "unit": "1", "higher_is_closer": 1, "sample": "triplets"}
    return tables.make_table(rows.assign(**same), "triplets_similarity")


@pytest.mark.long
def test_gap_summary_separates_measured_and_printed(printed):
    both = pd.concat([measured_similarity(0.05), printed.given["similarity"]], ignore_index=True)
    gap = triplets.disparity_gap(both)
    summary = triplets.gap_summary(gap)
    alone = ["SD v1.4", "SD v2.0", "SD v2.1"]
    assert list(dict.fromkeys(summary["model"])) == [", ".join(alone), "mini", *alone]
    # The pooled results of the printed models do not depend on the measured one.
    both = triplets.select_pooled(summary), printed.together
    pd.testing.assert_frame_equal(*(table.drop(columns="model") for table in both))
    (counted_finding,) = answers.measured.findings(gap.assign(note=""))
    assert (
        counted_finding.model == "mini"
        and numbers(counted_finding.supported_answer) == [2, 2, 0, 0]
        and counted_finding.details[0].startswith("Planted")
    )
    (turned,) = answers.measured.findings(triplets.disparity_gap(measured_similarity(-0.05)).assign(note=""))
    assert numbers(turned.supported_answer) == [0, 2, 2, 0]
    (open_,) = answers.measured.findings(triplets.disparity_gap(measured_similarity(0.0)).assign(note=""))
    assert not open_.is_significant


def test_relative_gap_limits_scale_with_gap():
    rows = [measured_similarity(0.05, model="one"), measured_similarity(-0.02, model="two")]
    gap = triplets.disparity_gap(pd.concat(rows, ignore_index=True))
    for end in ("low", "high"):
        times = gap["relative_gap"] / gap["gap"]
        assert gap[f"relative_gap_ci_{end}"].to_numpy() == pytest.approx((times * gap[f"ci_{end}"]).to_numpy())
    assert (gap["relative_gap_ci_low"] < gap["relative_gap"]).all()
    assert triplets.gap_summary(gap)["relative_gap_ci_low"].isna().all()


def test_null_similarity_answer_in_both_directions():
    similarities = measured_similarity(0.05, metrics=("ssim",))
    level = similarities.drop_duplicates("case").assign(pair="neutral-another_seed")
    null_mean = triplets.null_similarity(similarities, level.assign(value=[0.1, 0.12] * 4))
    (counted_finding,) = answers.null_similarity.findings(null_mean)
    assert numbers(counted_finding.supported_answer) == [2, 2, 0]
    # A placebo that changes images less than the gendered words do.
    near = level.assign(value=[0.99, 0.98] * 4, pair="neutral-placebo")
    (placebo,) = answers.null_similarity.findings(triplets.null_similarity(similarities, near))
    assert numbers(placebo.supported_answer) == [0, 2, 2]


def test_bias_score_figure_fills_significant_marks():
    counts = {"suit": (5, 10, 60), "hat": (5, 20, 30), "dress": (9, 54, 2), "tree": (7, 20, 20)}
    ax = figures.bias_score(triplets.bias_score(object_counts(counts))).axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["suit (n = 70)", "hat (n = 50)", "dress (n = 56)"]
    marks = [line for line in ax.lines if line.get_marker() == "o" and line.get_markerfacecolor() != "white"]
    filled = {round(float(x), 6) for line in marks for x in line.get_xdata()}
    assert filled == {round(60 / 70, 6), round(2 / 56, 6)}


# -- notebooks -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_notebooks_of_object_counts_have_figures(notebook, tmp_path):
    # A folder with counts of objects alone: no similarities, no tests.
    folder = tmp_path / "counted"
    counts = {"suit": (50, 20, 90), "dress": (40, 80, 10), "tree": (70, 60, 65)}
    for name, group in (("object_counts", None), ("group_object_counts", "implicitly_guided")):
        tables.write(object_counts(counts, group=group), folder / f"triplets_{name}.csv")
    of_groups = {f"triplets_group_{name}" for name in ("chi_square", "bias_score", "top_objects")}
    for name, expected_figures in (("5_co_occurrence", {"triplets_bias_score"}), ("6_dependency_groups", of_groups)):
        recorded = notebook(f"triplets/{name}", source=str(folder))
        assert {figure["name"] for figure in recorded["figures"]} == expected_figures
        pointed = {finding["figure"] for finding in recorded["findings"]} - {""}
        assert pointed and pointed <= expected_figures
