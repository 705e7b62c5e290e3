"""Tables of captions and their images: by hand, from synthetic measurements."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from biaslab.papers import paradox
from biaslab.papers.paradox.analysis.captions import NOTHING, TOO_FEW
from biaslab.schema import tables

LEVEL = {"confidence": 0.95}


def wilson(count, n):
    low, high = proportion_confint(count, n, method="wilson")
    return pytest.approx((100 * low, 100 * high))


def limits(row):
    return row["ci_low"], row["ci_high"]


# -- outcomes ------------------------------------------------------------------------------------------------


def outcome_rows(occupation, **counts):
    of = {"model": "M", "source": "generated", "approach": "naive", "prompt": "1", "occupation": occupation}
    total = sum(counts.values())
    return [of | {"status": o, "n": n, "percent": 100 * n / total, "n_images": total} for o, n in counts.items()]


def test_outcomes_and_gate_rates_sum_over_occupations():
    rows = outcome_rows("nurse", judged=8, uncertain=2, no_face=0, blocked=0)
    rows += outcome_rows("pilot", judged=6, uncertain=0, no_face=4, blocked=0)
    table = paradox.outcomes(pd.DataFrame(rows), **LEVEL).set_index("status")
    assert table["n"].to_dict() == {"judged": 14, "uncertain": 2, "no_face": 4, "blocked": 0}
    assert set(table["n_images"]) == {20} and table.loc["judged", "percent"] == 70
    assert limits(table.loc["judged"]) == wilson(14, 20)
    # One clear face: judged and uncertain, 16 of 20.
    rates = paradox.inclusion_rates(table.reset_index(), **LEVEL)
    assert (rates["percent"].item(), rates["n"].item()) == (80, 16)
    assert limits(rates.iloc[0]) == wilson(16, 20) and rates["judged"].item() == 70
    # A source without images has a reason.
    row = paradox.outcomes(pd.DataFrame(outcome_rows("nurse", judged=1)).assign(n=0, n_images=0), **LEVEL).iloc[0]
    assert np.isnan(row["percent"]) and np.isnan(row["ci_low"]) and row["reason"] == NOTHING


# -- indicators ----------------------------------------------------------------------------------------------


def indicator_row(occupation, female, any_female, any_male, **more):
    row = {"corpus": "mini", "occupation": occupation, "n": 100, "percent_any": 40, "percent_none": 60, "n_judged": 90}
    row |= {"percent_female_indicator": 20, "percent_male_indicator": 15, "percent_both": 5, "percent_female": female}
    row |= {"percent_any_of_female": any_female, "n_female": 10, "percent_any_of_male": any_male, "n_male": 10}
    return row | more


def test_indicator_use_takes_rarer_gender_by_occupation():
    rows = [
        indicator_row("mechanic", 20, 68, 30, percent_any=40),  # women are rarer: 68 against 30
        indicator_row("nurse", 80, 20, 50, percent_any=30),  # men are rarer: 50 against 20
        indicator_row("author", 50, 40, 10, percent_any=20),  # neither is rarer
        indicator_row("dietitian", 100, 25, np.nan, n_male=0, percent_any=10),  # no men to compare with
    ]
    table = paradox.indicator_use(pd.DataFrame(rows), **LEVEL).set_index("images")
    assert table["percent"].to_dict() == {"all": 25, "minority": 59, "majority": 25, "difference": 34}
    assert table["n"].to_dict() == {"all": 4, "minority": 2, "majority": 2, "difference": 2}
    assert limits(table.loc["all"]) == pytest.approx(DescrStatsW([40, 30, 20, 10]).tconfint_mean())
    assert limits(table.loc["difference"]) == pytest.approx(DescrStatsW([38, 30]).tconfint_mean())
    assert table.loc["difference", "p"] == pytest.approx(DescrStatsW([38, 30]).ttest_mean()[1])
    assert table["p"].notna().sum() == 1
    assert table.loc["all", "paper_text_value"] == 59.5 and table["paper_text_value"].isna().sum() == 3
    # One occupation has no interval, but a reason.
    table = paradox.indicator_use(pd.DataFrame(rows[2:3]), **LEVEL).set_index("images")
    assert table.loc["all", "reason"] == TOO_FEW
    assert table.loc["minority", "reason"] == NOTHING and np.isnan(table.loc["minority", "percent"])


def test_indicator_correlation_counts_both_genders():
    shares = [10, 35, 40, 70, 90, 95]
    female, male, both = [30, 24, 25, 18, 9, 12], [11, 12, 20, 22, 31, 28], [5, 1, 4, 0, 2, 3]
    rows = [
        indicator_row(str(i), t, 50, 50, percent_female_indicator=f, percent_male_indicator=m, percent_both=b)
        for i, (t, f, m, b) in enumerate(zip(shares, female, male, both, strict=True))
    ]
    # Without a judged image there is no share, and no pair.
    rows.append(indicator_row("unjudged", np.nan, np.nan, np.nan, n_judged=0))
    table = paradox.indicator_correlation(pd.DataFrame(rows), **LEVEL).set_index(["gender", "counted"])
    expected = {
        ("female", "any"): np.corrcoef(shares, np.add(female, both))[0, 1],
        ("female", "only"): np.corrcoef(shares, female)[0, 1],
        ("male", "any"): np.corrcoef(np.subtract(100, shares), np.add(male, both))[0, 1],
        ("male", "only"): np.corrcoef(np.subtract(100, shares), male)[0, 1],
    }
    for name, r in expected.items():
        ends = np.tanh(np.arctanh(r) + np.array([-1, 1]) * 1.959964 / np.sqrt(6 - 3))
        row = table.loc[name]
        assert row[["r", "n", "ci_low", "ci_high"]].tolist() == pytest.approx([r, 6, *ends])
    # The paper's is of captions with female indicators.
    assert table.loc[("female", "any"), "paper_text_value"] == -0.458 and table["paper_text_value"].notna().sum() == 1


# -- similarity ----------------------------------------------------------------------------------------------


def test_similarity_mean_by_prompt_and_change():
    text = {("naive", "1"): (0.3, 0.4), ("naive", "2"): (0.5, 0.4)}
    text |= {("nearest", "1"): (0.7, 0.6), ("nearest", "2"): (0.7, 0.9)}
    rows = [(*key, *of) for key, values in text.items() for of in zip("ab", values, strict=True)]
    rows = pd.DataFrame(rows, columns=["approach", "prompt", "occupation", "text_similarity"])
    without = {"image_similarity": np.nan, "n_training": 0, "n_generated": 0}
    table = paradox.similarity_mean(rows.assign(model="mini", n_captions=50, **without), **LEVEL)
    table = table.set_index(["compared", "approach", "prompt"])
    assert table.loc[("text", "naive", "1"), "similarity"] == pytest.approx(0.35)
    assert table.loc[("text", "nearest", "2"), "similarity"] == pytest.approx(0.8)
    # Over prompts: naive 0.4 and 0.4, nearest 0.7 and 0.75: 0.3 and 0.35 more.
    row = table.loc[("text", "nearest", "mean")]
    assert (row["similarity"], row["change"], row["change_percent"]) == pytest.approx((0.725, 0.325, 81.25))
    assert (row["change_ci_low"], row["change_ci_high"]) == pytest.approx(DescrStatsW([0.3, 0.35]).tconfint_mean())
    assert row["p"] == pytest.approx(DescrStatsW([0.3, 0.35]).ttest_mean()[1])
    assert (row["paper_text_value"], row["paper_text_change_percent"]) == (0.704, 83)
    assert table.loc[("text", "naive", "mean"), "paper_text_value"] == 0.385
    # Without images, image similarity is missing with a reason; the paper's value is present.
    row = table.loc[("image", "nearest", "mean")]
    assert np.isnan(row["similarity"]) and row["reason"] == NOTHING
    assert row["paper_text_change_percent"] == 13


# -- captions as prompts -------------------------------------------------------------------------------------


def word_row(occupation, indicator, same, pairs, followed, judged):
    counts = {"n_same": same, "n_pairs": pairs, "n_followed": followed, "n_judged": judged, "n_images": judged + 1}
    return {"model": "mini", "approach": "caption_prompts", "occupation": occupation, "indicator": indicator, **counts}


def test_gender_word_accuracy_sums_over_occupations():
    rows = [word_row("a", "female", 9, 10, 10, 11), word_row("b", "female", 4, 5, 5, 5)]
    rows.append(word_row("a", "male", 15, 15, 15, 15))
    table = paradox.gender_word_accuracy(pd.DataFrame(rows), **LEVEL).set_index(["reference", "indicator"])
    # 28 of 30, 13 of 15 and 15 of 15; against the words 30 of 31.
    row = table.loc[("training image", "all")]
    assert row["percent"] == pytest.approx(100 * 28 / 30) and row["n"] == 30 and row["paper_text_value"] == 98.41
    assert limits(row) == wilson(28, 30)
    assert table.loc[("training image", "female"), "percent"] == pytest.approx(100 * 13 / 15)
    assert limits(table.loc[("training image", "male")]) == wilson(15, 15)
    assert table.loc[("indicator", "all"), "percent"] == pytest.approx(100 * 30 / 31)
    assert table["paper_text_value"].notna().sum() == 1
    # Captions without a pair have a reason.
    rows = pd.DataFrame([word_row("a", "female", 0, 0, 1, 1)])
    table = paradox.gender_word_accuracy(rows, **LEVEL).set_index(["reference", "indicator"])
    assert table.loc[("training image", "all"), "reason"] == NOTHING
    assert table.loc[("indicator", "all"), "reason"] == ""


# -- training images that could not be fetched -----------------------------------------------------------------

COUNTS = [
    # approach, prompt, occupation, outcome, n, female, male
    ("naive", "captions", "nurse", "ok", 8, 6, 1),
    ("naive", "captions", "nurse", "not_found", 1, 0, 0),
    ("naive", "captions", "nurse", "timed_out", 2, 0, 0),
    ("naive", "captions", "engineer", "ok", 10, 2, 8),
    ("naive", "captions", "pilot", "gone", 4, 0, 0),
    ("nearest", "1", "nurse", "ok", 1, 1, 0),
]


def test_image_survival_and_bounds_by_hand():
    keys = ["corpus", "approach", "prompt", "occupation", "status", "n", "n_female", "n_male"]
    survival = paradox.image_survival(pd.DataFrame([("urls", *row) for row in COUNTS], columns=keys), **LEVEL)
    result = survival.set_index(["approach", "occupation"])
    nurse = result.loc[("naive", "nurse")]
    assert (nurse["n"], nurse["n_not_fetched"], nurse["most_frequent_reason"]) == (11, 3, "timed_out")
    assert nurse["percent"] == pytest.approx(100 * 8 / 11) and limits(nurse) == wilson(8, 11)
    # 6 of 7, and with 3 missing 6 to 9 of 10.
    assert nurse["percent_female"] == pytest.approx(600 / 7)
    assert (nurse["percent_lower_bound"], nurse["percent_upper_bound"]) == pytest.approx((60, 90))
    engineer = result.loc[("naive", "engineer")]
    assert (engineer["percent"], engineer["n_not_fetched"], engineer["most_frequent_reason"]) == (100, 0, "")
    assert engineer["percent_lower_bound"] == engineer["percent_female"] == engineer["percent_upper_bound"] == 20
    pilot = result.loc[("naive", "pilot")]
    assert (pilot["percent"], pilot["percent_lower_bound"], pilot["percent_upper_bound"]) == (0, 0, 100)
    assert np.isnan(pilot["percent_female"]) and pilot["reason"]
    assert result.loc[("nearest", "nurse"), "prompt"] == "1"


# -- examples ----------------------------------------------------------------------------------------------------


def test_marked_examples_follow_requested_order():
    rows = [
        ("cook", "female", "Ms. Ann says she cooks", "0:2:female-title;4:7:female-name;13:16:female-pronoun", ""),
        ("cook", "none", "a cook", "", "male"),
        ("nurse", "male", "his nurse", "0:3:male-pronoun", ""),
        ("nurse", "male", "a male nurse", "2:6:male-word", "male"),
    ]
    table = pd.DataFrame(rows, columns=["occupation", "indicator", "caption", "spans", "gender"])
    examples = paradox.marked_examples(table, ["nurse", "cook"])
    assert examples["caption"].tolist() == ["[his] nurse", "[Ms]. [Ann] says [she] cooks"]


# -- empty tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compute", "table"),
    [
        (paradox.outcomes, "paradox_judgement_outcomes"),
        (paradox.image_survival, "paradox_download_outcomes"),
        (paradox.indicator_use, "paradox_indicators"),
        (paradox.indicator_correlation, "paradox_indicators"),
        (paradox.similarity_mean, "paradox_similarity"),
        (paradox.gender_word_accuracy, "paradox_gender_words"),
        (paradox.occupation_amplification, "paradox_percent_female"),
        (paradox.share_intervals, "paradox_percent_female"),
    ],
)
def test_analyses_of_empty_tables_are_empty(compute, table):
    result = compute(tables.make_table([], table), **LEVEL)
    assert result.empty and len(result.columns)
