"""DALL-Eval's tables: from the printed numbers, and from measurements of known truth."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from biaslab import reference, stats
from biaslab.errors import InputError
from biaslab.papers import dalleval
from biaslab.papers.dalleval.analysis.attributes import pooled_difference_null_mean
from biaslab.papers.dalleval.analysis.skills import SKILLS
from biaslab.study import sources

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]
# E|k/9 - 1/2| with k of 9 fair images: 9 C(8, 4) / 2**9 / 9.
FLOOR_9 = comb(8, 4) / 2**9


def gender_rows(model, values, n=9):
    frame = pd.DataFrame({"model": model, "value": values, "n": n})
    return frame.assign(profession=[f"p{i}" for i in frame.index]).to_dict("records")


# -- gender ------------------------------------------------------------------------------------------


def test_overall_average_of_printed_professions(printed):
    table = printed["overall_average"].query("category == 'gender'").set_index("model")
    rows = pd.concat([reference.load(f"dalleval_table_{n}") for n in (16, 17)]).query("kind == 'profession'")
    for model, rounded in zip(MODELS, (-0.25, -0.22, -0.42), strict=True):
        ninths = np.rint(9 * rows[rows["model"] == model]["value"]) / 9
        assert len(ninths) == 83
        assert table.loc[model, "average"] == pytest.approx(ninths.mean(), abs=1e-12)
        assert round(table.loc[model, "average"], 2) == table.loc[model, "paper_table_value"] == rounded
        low, high = scipy_stats.t.interval(0.95, 82, ninths.mean(), scipy_stats.sem(ninths))
        assert (table.loc[model, "ci_low"], table.loc[model, "ci_high"]) == pytest.approx((low, high))


def test_mad_of_printed_professions_and_null_mean(printed):
    table = printed["mad"].query("category == 'gender'").set_index("model")
    # 83 professions give 0.196, 0.358, 0.363 from exact ninths; the paper's 0.1984, 0.3545, 0.3618 count
    # the prompt without profession too, so they differ by at most one prompt's share of the mean (0.5/84).
    assert table["mad"].round(3).to_dict() == dict(zip(MODELS, (0.196, 0.358, 0.363), strict=True))
    assert table["paper_table_value"].to_dict() == dict(zip(MODELS, (0.1984, 0.3545, 0.3618), strict=True))
    assert (abs(table["mad"] - table["paper_table_value"]) < 0.5 / 84).all()
    assert table["null_mean"].to_numpy() == pytest.approx(FLOOR_9)
    assert (table["n"] == 83).all()
    assert (table["mad_ci_low"] < table["mad"]).all()
    assert (table["mad"] < table["mad_ci_high"]).all()
    # The correction is largest for the model nearest to balance, and leaves little for a balanced one.
    correction = table["mad"] - table["mad_corrected"]
    assert correction.idxmax() == "minDALL-E"
    assert (table["ci_low"] < table["mad_corrected"]).all()
    k = np.arange(10)
    remaining_bias = scipy_stats.binom.pmf(k, 9, 0.5) @ stats.corrected_absolute_deviation(k, 9)
    assert table["null_mean_corrected"].to_numpy() == pytest.approx(remaining_bias)
    assert remaining_bias < FLOOR_9 / 3


@pytest.mark.long
def test_average_gender_tests_match_scipy_and_statsmodels(printed):
    table = printed["average_gender"]
    exact = [scipy_stats.binomtest(int(k), int(n)).pvalue for k, n in zip(table["n_female"], table["n"], strict=True)]
    np.testing.assert_allclose(table["p"], exact, atol=1e-12)
    for _, rows in table.groupby("model"):
        for name, method in (("p_bh", "fdr_bh"), ("p_holm", "holm")):
            np.testing.assert_allclose(rows[name], multipletests(rows["p"], method=method)[1])
    low, high = proportion_confint(table["n_female"], table["n"], method="wilson")
    np.testing.assert_allclose(table[["ci_low", "ci_high"]], 2 * np.transpose([low, high]) - 1, atol=1e-12)
    # The smallest p of 9 images is 2/512, and 83 times that is above 0.05.
    assert table["p"].min() == pytest.approx(2 / 512) and table["p_holm"].min() > 0.05


def test_mad_ignores_prompt_without_profession(results):
    rows = gender_rows("a", [-1] * 8 + [1], 9)
    none = [row | {"profession": "(none)"} for row in gender_rows("a", [1], 9)]
    without, result = results(average_gender=rows), results(average_gender=rows + none)
    for name in ("overall_average", "mad"):
        pd.testing.assert_frame_equal(result[name], without[name])
        assert (result[name]["n"] == 9).all()
    table = result["average_gender"]
    assert len(table) == 10 and table["p"].notna().all()
    # 2/512 over nine professions.
    assert table["p_holm"].to_numpy()[:9] == pytest.approx(9 * 2 / 512) and np.isnan(table["p_holm"].iloc[9])


def test_overall_average_and_mad_correct_judge_error(results):
    # A judge with sensitivity 0.9 and specificity 0.8: it labels 0.9 of women female, and 0.55 of an even split.
    rows = gender_rows("a", [0.8] * 11 + [1.0], 10)
    judges = pd.DataFrame({"measure": ["sensitivity", "specificity"], "value": [90.0, 80.0]})
    judges = judges.assign(model="a", judge="VQA", quantity="gender", n=1000)
    genders = results(average_gender=rows)["average_gender"]
    none = {name: results().given[name] for name in ("average_skin_tone", "skin_tone_counts", "printed_bias")}
    overall = dalleval.overall_average(genders, none["average_skin_tone"], none["printed_bias"], judges).iloc[0]
    # (mean + specificity - sensitivity) / (sensitivity + specificity - 1), of a mean of 9.8 / 12, is 1.02: at most 1.
    assert overall["average"] == pytest.approx(9.8 / 12) and overall["average_judge_corrected"] == 1
    assert overall["average_judge_corrected_ci_low"] < 1 == overall["average_judge_corrected_ci_high"]
    assert overall["average_judge_corrected_p"] < 0.05
    mad = dalleval.mad(genders, none["skin_tone_counts"], none["printed_bias"], judges).iloc[0]
    each = stats.corrected_absolute_deviation([9] * 11 + [10], 10, 0.55) / 0.7
    assert mad["mad_judge_corrected"] == pytest.approx(min(each.mean(), 0.5))
    assert mad["mad_corrected"] == pytest.approx(stats.corrected_absolute_deviation([9] * 11 + [10], 10).mean())
    # An unreliable or unmeasured judge leaves the numbers uncorrected.
    for unknown in (judges.assign(value=70.0), judges.assign(judge="CLIP"), judges.iloc[:0], None):
        result = dalleval.mad(genders, none["skin_tone_counts"], none["printed_bias"], unknown).iloc[0]
        assert np.isnan(result["mad_judge_corrected"]) and result["mad_corrected"] == mad["mad_corrected"]


def test_average_gender_with_missing_and_uneven_n(results):
    # p0: 3 of 4 female, so 0.5; p1: no image; p2 and p3: 0 of 2. Mean over the three known: -1.5 / 3.
    result = results(average_gender=gender_rows("a", [0.5, np.nan, -1, -1], [4, 0, 2, 2]))
    table = result["average_gender"]
    assert table["n_female"].tolist()[::2] == [3, 0]
    assert table["reason"].tolist() == ["", "no image perceived as female or male", "", ""]
    assert np.isnan(table.loc[1, ["value", "ci_low", "p"]].to_numpy(dtype=float)).all()
    overall = result["overall_average"].iloc[0]
    assert (overall["average"], overall["n"]) == (-0.5, 3)
    assert np.isnan(overall["paper_table_value"])
    # |p - 0.5| is 0.25, 0.5 and 0.5; null expectations are E|k/4 - 0.5| = 3/16 and twice E|k/2 - 0.5| = 1/4.
    mad = result["mad"].iloc[0]
    assert (mad["mad"], mad["n"]) == (pytest.approx(1.25 / 3), 3)
    assert mad["null_mean"] == pytest.approx((3 / 16 + 1 / 4 + 1 / 4) / 3)
    assert np.isnan(mad[["mad_ci_low", "ci_low", "p"]].to_numpy(dtype=float)).all()
    assert mad["reason"] == "an interval needs 6 or more professions"


def test_average_gender_refuses_impossible_value(results):
    # 0.33 needs a multiple of 3 images (or many): of 4 images, 0 and 0.5 are nearest.
    result = results(average_gender=gender_rows("a", [0.5, 0.33], 4))
    with pytest.raises(InputError, match="dalleval_average_gender: value in row 2 cannot come from n = 4 images"):
        result["average_gender"]


# -- skin tone ---------------------------------------------------------------------------------------


def test_printed_skin_tone_has_reason_and_no_interval(printed):
    mad = printed["mad"].query("category == 'skin_tone'").set_index("model")
    assert mad["mad"].to_dict() == dict(zip(MODELS, (0.1687, 0.1707, 0.1698), strict=True))
    assert (mad["evidence"] == "printed").all()
    assert mad[["mad_ci_low", "ci_low", "ci_high", "n", "mad_corrected"]].isna().all(axis=None)
    assert mad["reason"].str.startswith("the paper prints no per-image values").all()
    # E|k/9 - 0.1| of one of ten even tones, by summing over k.
    null_mean = sum(comb(9, k) * 0.1**k * 0.9 ** (9 - k) * abs(k / 9 - 0.1) for k in range(10))
    assert mad["null_mean"].to_numpy() == pytest.approx(null_mean)
    table = printed["average_skin_tone"]
    assert (table["n"] == 27).all()
    assert table["reason"].str.contains("n is nominal").all()
    overall = printed["overall_average"].query("category == 'skin_tone'")
    assert overall["average"].round(2).tolist() == overall["paper_table_value"].tolist() == [5.19, 5.13, 5.14]


def test_skin_tone_mad_of_counts_has_interval(results):
    # p0 to p5: eight images of tone 3 by each of two prompts, so 0.18; p6: one image of each tone by one prompt and ten
    # of tone 1 by another, so (0 + 0.18) / 2 = 0.09. Mean over seven professions.
    prompts = "woman", "man"
    counts = [{"prompt": prompt, "profession": f"p{i}", "tone": 3, "n": 8} for i in range(6) for prompt in prompts]
    counts += [{"prompt": "woman", "profession": "p6", "tone": t, "n": 1} for t in range(1, 11)]
    counts += [{"prompt": "man", "profession": "p6", "tone": 1, "n": 10}]
    counts = pd.DataFrame(counts).assign(model="a")
    averages = [
        {"model": "a", "profession": "p0", "value": 3, "n": 16},
        {"model": "a", "profession": "p6", "value": 3.25, "n": 20},
    ]
    result = results(average_skin_tone=averages, skin_tone_counts=counts)
    mad = result["mad"].iloc[0]
    value = pytest.approx((6 * 0.18 + 0.09) / 7)
    assert (mad["category"], mad["mad"], mad["n"], mad["evidence"]) == ("skin_tone", value, 7, "computed")
    assert mad["mad_ci_low"] <= mad["mad"] <= mad["mad_ci_high"] <= 0.18
    assert 0 < mad["ci_low"] <= mad["mad_corrected"] <= mad["ci_high"] <= 0.18
    few = counts.assign(n=3).query("profession != 'p6'")
    blind = results(skin_tone_counts=few)["mad"].iloc[0]
    # At three images per prompt the corrected value is 0.077 for an even model and 0.078 for a deviation of 0.04.
    assert blind["mad"] == pytest.approx(0.18) and "too few" in blind["reason"]
    assert np.isnan(blind[["mad_corrected", "ci_low", "p"]].to_numpy(dtype=float)).all()
    # Images of people without a profession are counted by tone as well.
    professions = ("p1", "(none)")
    result = results(
        average_skin_tone=[{"model": "a", "profession": p, "value": 5.5, "n": 10} for p in professions],
        skin_tone_counts=[
            {"model": "a", "profession": p, "tone": t, "n": 1} for p in professions for t in range(1, 11)
        ],
    )
    table = result["average_skin_tone"].set_index("profession")
    low, high = scipy_stats.t.interval(0.95, 9, 5.5, scipy_stats.sem(np.arange(1, 11)))
    for profession in professions:
        row_values = table.loc[profession, ["value", "ci_low", "ci_high"]]
        assert tuple(row_values) == pytest.approx((5.5, low, high)) and table.loc[profession, "reason"] == ""
    bad = [{"model": "a", "profession": "p0", "tone": 11, "n": 4}]
    with pytest.raises(InputError, match="tone is '11'"):
        results(average_skin_tone=averages, skin_tone_counts=bad)["mad"]


# -- attributes --------------------------------------------------------------------------------------


def presence_rows(shares, n=4):
    return [
        {"model": "a", "prompt": prompt, "profession": f"p{i}", "attribute": attribute, "share": share, "n": n}
        for (prompt, attribute), values in shares.items()
        for i, share in enumerate(values)
    ]


@pytest.mark.long
def test_attribute_difference_matches_printed(printed):
    table = printed["attribute_difference"]
    with_paper_value = table[table["paper_table_value"].notna()]
    assert len(with_paper_value) == 3 * 3 * 11
    # Printed differences follow from the printed averages, each at most 0.0005 below and under 0.0095 above
    # the mean (rounded to three decimals, then cut to two): two of them differ by less than 0.01.
    assert abs(with_paper_value["difference"] - with_paper_value["paper_table_value"]).max() < 0.01
    printed_attributes = sources.load_measured("dalleval_printed_attributes", source="published")
    value = printed_attributes.set_index(["model", "prompt", "attribute"])["value"]
    for row in with_paper_value.itertuples():
        first, second = (value[row.model, prompt, row.attribute] for prompt in row.comparison.split(" - "))
        assert row.paper_table_value == pytest.approx(first - second, abs=1e-9)
    assert (table["n"] == 84).all()
    mean = printed["attribute_mean_difference"]
    assert abs(mean["mean_absolute_difference"] - mean["paper_table_value"]).max() < 0.01
    assert (mean["n_attributes"] == 15).all()
    suit = table.set_index(["model", "comparison", "attribute"]).loc[("minDALL-E", "woman - man", "suit")]
    assert round(suit["difference"], 2) == suit["paper_table_value"] == -0.27


def test_attribute_difference_by_hand(results):
    shares = {("woman", "hat"): [0.5, 0.75, 0.25, np.nan], ("man", "hat"): [0.25, 0.25, 0.25, 0.5]}
    shares |= {("woman", "tie"): [0] * 4, ("man", "tie"): [0] * 4}
    table = results(attribute_presence=presence_rows(shares))["attribute_difference"].set_index("attribute")
    assert set(table["comparison"]) == {"woman - man"}
    hat = table.loc["hat"]
    # Differences 0.25, 0.5, 0; the fourth profession has no share for the woman prompt.
    # Two of three professions differ, which no test can show to be significant.
    assert hat["difference"] == pytest.approx(0.25) and np.isnan(hat["ci_low"])
    assert (hat["n"], hat["n_images"], hat["share_first"], hat["share_second"]) == (3, 12, 0.5, 0.25)
    assert np.isnan(hat["p"]) and hat["min_attainable_p"] == 2 * 0.5**2
    tie = table.loc["tie"]
    assert (tie["difference"], tie["reason"]) == (0, "no image of either prompt shows it")
    assert tie[["ci_low", "ci_high", "p", "p_holm"]].isna().all()


def test_attribute_difference_tests_differing_professions(results):
    # Four of twelve professions differ: the smallest attainable p is 2 of 2**4, regardless of the other eight.
    hats, none = [0.5] * 4 + [0.25] * 8, [0.25] * 12
    ties = [0.5, 0.75, 1, 0.5, 0.75, 0.5, 0.25, 0.5, 0.75, 1, 0.5, 0.75]
    shares = {("woman", "hat"): hats, ("man", "hat"): none, ("woman", "tie"): ties, ("man", "tie"): [0.25] * 12}
    table = results(attribute_presence=presence_rows(shares))["attribute_difference"].set_index("attribute")
    # Eleven of the twelve differ in ties.
    assert table["min_attainable_p"].to_dict() == {"hat": 2 * 0.5**4, "tie": 2 * 0.5**11}
    hat, tie = table.loc["hat"], table.loc["tie"]
    assert np.isnan(hat["p"]) and hat["reason"].startswith("4 of 12")
    assert tie["p"] < 0.05 and tie["ci_low"] > 0 and tie["reason"] == ""


def test_pooled_difference_null_mean_by_hand():
    # 2 of 4 images show it, 2 per prompt: of the 6 splits, 1 + 1 put both in one prompt (difference 1), 4 none.
    assert pooled_difference_null_mean(1, 2, 1, 2) == pytest.approx(2 / 6)
    # No or all images: no difference; without images or with a missing count: missing.
    np.testing.assert_allclose(
        pooled_difference_null_mean([0, 9, 1, np.nan], [9, 9, 0, 9], [0, 9, 1, 1], [9, 9, 9, 9]), [0, 0, np.nan, np.nan]
    )
    # By simulation: 5 of 12 images, 9 and 3 per prompt.
    rng = np.random.default_rng(3)
    pool = np.array([1] * 5 + [0] * 7)
    shuffled = rng.permuted(np.tile(pool, (20_000, 1)), axis=1)
    simulated = abs(shuffled[:, :9].mean(axis=1) - shuffled[:, 9:].mean(axis=1)).mean()
    assert pooled_difference_null_mean(4, 9, 1, 3) == pytest.approx(simulated, abs=0.005)


# -- skills, alignment and quality -------------------------------------------------------------------


def test_skill_accuracy_of_printed_numbers(printed):
    table = printed["skill_accuracy"]
    result = table.query("skill == 'average'").set_index(["model", "evaluator", "images", "training_percent"])
    # Tables 2 and 5 print means of their rows; (57.5 + 18.2 + 2.4) / 3 is 26.03.
    test = result.xs("test", level="images")
    assert len(test) == 7
    assert abs(test["percent_correct"] - test["paper_table_value"]).max() < 0.1
    # Table 3 does not: (64 + 34 + 0) / 3 is 32.7 where 28.0 is printed.
    row = result.loc[("DALL-E Small", "DETR", "sample", "100")]
    assert (row["percent_correct"], row["paper_table_value"]) == (pytest.approx(98 / 3), 28.0)
    row = table.query("model == 'Stable Diffusion' and skill == 'spatial' and images == 'test'").iloc[0]
    # 7.9% of 2,700 scenes are 213 images.
    low, high = proportion_confint(213, 2700, method="wilson")
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((100 * low, 100 * high))


def test_tables_of_results_are_valid_inputs(printed, results):
    names = ("skill_accuracy", "average_gender", "attribute_presence")
    recomputed = results(**{name: printed[name] for name in names})
    for name in names:
        pd.testing.assert_frame_equal(recomputed[name], printed[name], check_dtype=False)


def test_skill_accuracy_average_interval_matches_simulation(results):
    rng = np.random.default_rng(2)
    truth, n = np.array([0.9, 0.5, 0.1]), 200
    rows = pd.DataFrame({"skill": SKILLS, "percent_correct": 100 * truth, "n": n, "model": "a", "evaluator": "DETR"})
    rows = rows.assign(images="test", training_percent="100")
    row = results(skill_accuracy=rows)["skill_accuracy"].query("skill == 'average'").iloc[0]
    means = rng.binomial(n, truth, (20_000, 3)).mean(axis=1) / n * 100
    assert row["percent_correct"] == pytest.approx(50)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.5)


@pytest.mark.long
def test_skill_agreement_matches_newcombe_and_z_test(printed):
    table = printed["skill_agreement"].set_index(["model", "skill"])
    assert len(table) == 9
    for _, row in table.iterrows():
        counts = round(row["percent_human"] / 2), 50, round(row["percent_detr"] / 2), 50
        low, high = confint_proportions_2indep(*counts, method="newcomb", compare="diff")
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((100 * low, 100 * high), abs=1e-6)
    # For equal numbers of images: people's share minus the detector's over √(2 · pooled · (1 - pooled) / 50).
    human, detr = (table[f"percent_{who}"] / 100 for who in ("human", "detr"))
    pooled = (human + detr) / 2
    z = (human - detr) / np.sqrt(2 * pooled * (1 - pooled) / 50)
    np.testing.assert_allclose(table["p"], 2 * scipy_stats.norm.sf(abs(z)))
    np.testing.assert_allclose(table["p_holm"], multipletests(table["p"], method="holm")[1])


def test_alignment_quality_ranks_better_first(printed):
    table = printed["alignment_quality"].set_index(["metric", "model"])
    ranks = {("FID", "Stable Diffusion"): 1, ("FID", "DALL-E Small"): 4, ("CIDEr", "X-LXMERT"): 2}
    ranks |= {("human rating", "X-LXMERT"): 2.5, ("human rating", "minDALL-E"): 2.5}
    assert table.loc[list(ranks), "rank"].to_dict() == ranks
    low, high = proportion_confint(0.737 * 30000, 30000, method="wilson")
    limits = table.loc[("R-precision", "Stable Diffusion"), ["ci_low", "ci_high"]]
    assert limits.tolist() == pytest.approx([100 * low, 100 * high])
    assert table.loc["FID"][["ci_low", "ci_high"]].isna().all(axis=None)


def test_overall_average_of_skin_tone_matches_printed(printed):
    overall = printed["overall_average"].query("category == 'skin_tone'")
    assert overall["average"].round(2).tolist() == overall["paper_table_value"].tolist() == [5.19, 5.13, 5.14]


def test_skin_tone_check_of_swatches(printed):
    tones = printed["skin_tone_check"].groupby("computation")["nearest_tone"].apply(list)
    assert tones["cielab"] == list(range(1, 11))
    assert tones["released"] == [5, 5, 5, 5, 5, 5, 6, 6, 6, 4]
    # Of the released script's tones only the fifth is correct.
    right = printed["skin_tone_check"].drop_duplicates("computation").set_index("computation")["n_swatches_correct"]
    assert right.to_dict() == {"cielab": 10, "released": 1, "released_signed": 1}
