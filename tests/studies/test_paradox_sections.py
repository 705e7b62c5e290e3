"""Tables of the paradox paper's sections that need captions and images: by hand, from made-up measurements."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from biaslab import tables
from biaslab.studies import paradox_sections as sections
from biaslab.study import Study


@pytest.fixture
def measured(tmp_path):
    """Return a function that opens a study on measured tables, given by name as rows or frames."""

    def of(**frames) -> Study:
        source = tmp_path / "measured"
        source.mkdir(exist_ok=True)
        for name, rows in frames.items():
            pd.DataFrame(rows).to_csv(source / f"{name}.csv", index=False)
        return Study(tmp_path / "out", source=str(source), seed=1, bootstrap_replicates=2000)

    return of


def wilson(count, n):
    low, high = proportion_confint(count, n, method="wilson")
    return pytest.approx((100 * low, 100 * high))


def limits(row):
    return row["ci_low"], row["ci_high"]


# -- outcomes ------------------------------------------------------------------------------------------------


def outcome_rows(occupation, **counts):
    of = {"model": "M", "source": "generated", "approach": "naive", "prompt": "1", "occupation": occupation}
    total = sum(counts.values())
    return [
        of | {"outcome": o, "n": n, "percent": 100 * n / total, "n_images": total} for o, n in counts.items()
    ]


def test_outcomes_are_summed_over_occupations(measured):
    rows = outcome_rows("nurse", judged=8, uncertain=2, no_face=0, blocked=0)
    rows += outcome_rows("pilot", judged=6, uncertain=0, no_face=4, blocked=0)
    study = measured(paradox_judgement_outcomes=rows)
    table = study.save_table("paradox_outcomes").set_index("outcome")
    assert table["n"].to_dict() == {"judged": 14, "uncertain": 2, "no_face": 4, "blocked": 0}
    assert set(table["n_images"]) == {20} and table.loc["judged", "percent"] == 70
    assert limits(table.loc["judged"]) == wilson(14, 20)
    # One clear face: judged and uncertain, 16 of 20.
    rates = sections.gate_rates(table.reset_index(), 0.95)
    assert (rates["percent"].item(), rates["n"].item()) == (80, 16)
    assert limits(rates.iloc[0]) == wilson(16, 20)


def test_a_source_without_images_has_a_reason(measured):
    study = measured(
        paradox_judgement_outcomes=[r | {"percent": np.nan} for r in outcome_rows("nurse", judged=1)]
    )
    rows = study.measured("paradox_judgement_outcomes").assign(n=0, n_images=0)
    study._inputs["paradox_judgement_outcomes"] = rows
    row = sections.outcomes(study).iloc[0]
    assert np.isnan(row["percent"]) and np.isnan(row["ci_low"]) and row["reason"] == "Nothing was measured."


# -- indicators ----------------------------------------------------------------------------------------------


def indicator_row(occupation, female, any_female, any_male, **more):
    row = {
        "corpus": "mini",
        "occupation": occupation,
        "n": 100,
        "percent_any": 40,
        "percent_none": 60,
        "percent_female_indicator": 20,
        "percent_male_indicator": 15,
        "percent_both": 5,
        "percent_female": female,
        "n_judged": 90,
        "percent_any_of_female": any_female,
        "n_female": 10,
        "percent_any_of_male": any_male,
        "n_male": 10,
    }
    return row | more


def test_the_rarer_gender_is_each_occupations_own(measured):
    rows = [
        indicator_row("mechanic", 20, 68, 30, percent_any=40),  # women are rarer: 68 against 30
        indicator_row("nurse", 80, 20, 50, percent_any=30),  # men are rarer: 50 against 20
        indicator_row("author", 50, 40, 10, percent_any=20),  # neither is rarer
        indicator_row("dietitian", 100, 25, np.nan, n_male=0, percent_any=10),  # no men to compare with
    ]
    table = measured(paradox_indicators=rows).save_table("paradox_indicator_use").set_index("images")
    assert table["percent"].to_dict() == {"all": 25, "rarer": 59, "commoner": 25, "difference": 34}
    assert table["n"].to_dict() == {"all": 4, "rarer": 2, "commoner": 2, "difference": 2}
    assert limits(table.loc["all"]) == pytest.approx(DescrStatsW([40, 30, 20, 10]).tconfint_mean())
    assert limits(table.loc["difference"]) == pytest.approx(DescrStatsW([38, 30]).tconfint_mean())
    assert table.loc["all", "published"] == 59.5 and table["published"].isna().sum() == 3


def test_one_occupation_has_no_interval_but_a_reason(measured):
    table = measured(paradox_indicators=[indicator_row("author", 50, 40, 10)]).table("paradox_indicator_use")
    table = table.set_index("images")
    assert table.loc["all", "reason"] == "Too few occupations for an interval."
    assert table.loc["rarer", "reason"] == "Nothing was measured." and np.isnan(table.loc["rarer", "percent"])


def test_correlations_count_captions_with_both_genders_for_both(measured):
    shares = [10, 35, 40, 70, 90, 95]
    female, male, both = [30, 24, 25, 18, 9, 12], [11, 12, 20, 22, 31, 28], [5, 1, 4, 0, 2, 3]
    rows = [
        indicator_row(str(i), t, 50, 50, percent_female_indicator=f, percent_male_indicator=m, percent_both=b)
        for i, (t, f, m, b) in enumerate(zip(shares, female, male, both, strict=True))
    ]
    # Without a judged image there is no share, and no pair.
    rows.append(indicator_row("unjudged", np.nan, np.nan, np.nan, n_judged=0))
    table = measured(paradox_indicators=rows).save_table("paradox_indicator_correlation")
    table = table.set_index(["gender", "counted"])
    expected = {
        ("female", "any"): np.corrcoef(shares, np.add(female, both))[0, 1],
        ("female", "only"): np.corrcoef(shares, female)[0, 1],
        ("male", "any"): np.corrcoef(np.subtract(100, shares), np.add(male, both))[0, 1],
        ("male", "only"): np.corrcoef(np.subtract(100, shares), male)[0, 1],
    }
    for name, r in expected.items():
        half = 1.959964 / np.sqrt(6 - 3)
        row = table.loc[name]
        assert row["r"] == pytest.approx(r) and row["n"] == 6
        assert limits(row) == pytest.approx((np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)))
    # The paper's is of captions with female indicators.
    assert table.loc[("female", "any"), "published"] == -0.458 and table["published"].notna().sum() == 1


# -- similarity ----------------------------------------------------------------------------------------------


def test_similarities_by_prompt_and_their_change(measured):
    text = {
        ("naive", "1"): (0.3, 0.4),
        ("naive", "2"): (0.5, 0.4),
        ("nearest", "1"): (0.7, 0.6),
        ("nearest", "2"): (0.7, 0.9),
    }
    rows = [
        {
            "model": "mini",
            "approach": approach,
            "prompt": prompt,
            "occupation": occupation,
            "text_similarity": value,
            "n_captions": 50,
            "image_similarity": np.nan,
            "n_training": 0,
            "n_generated": 0,
        }
        for (approach, prompt), values in text.items()
        for occupation, value in zip("ab", values, strict=True)
    ]
    table = measured(paradox_similarity=rows).save_table("paradox_similarity_mean")
    table = table.set_index(["compared", "approach", "prompt"])
    assert table.loc[("text", "naive", "1"), "similarity"] == pytest.approx(0.35)
    assert table.loc[("text", "nearest", "2"), "similarity"] == pytest.approx(0.8)
    # Over prompts: naive 0.4 and 0.4, nearest 0.7 and 0.75: 0.3 and 0.35 more.
    row = table.loc[("text", "nearest", "mean")]
    assert (row["similarity"], row["change"], row["change_percent"]) == pytest.approx((0.725, 0.325, 81.25))
    assert (row["change_low"], row["change_high"]) == pytest.approx(DescrStatsW([0.3, 0.35]).tconfint_mean())
    assert (row["published"], row["published_percent"]) == (0.704, 83)
    assert table.loc[("text", "naive", "mean"), "published"] == 0.385
    # Without images there is no similarity of images, and the table says so; the paper's number still stands.
    row = table.loc[("image", "nearest", "mean")]
    assert np.isnan(row["similarity"]) and row["reason"] == "Nothing was measured."
    assert row["published_percent"] == 13


# -- changes between approaches ------------------------------------------------------------------------------


def share_rows(approach, training, generated, n_training=1000, n_generated=1000):
    """Give shares per prompt as {prompt: {occupation: percent}}."""
    return [
        {
            "model": "M",
            "approach": approach,
            "occupation": occupation,
            "source": source,
            "prompt": prompt,
            "percent_female": percent,
            "n": n,
        }
        for source, shares, n in (("training", training, n_training), ("generated", generated, n_generated))
        for prompt, of in shares.items()
        for occupation, percent in of.items()
    ]


def test_changes_by_hand(measured):
    generated = {"1": {"a": 10, "b": 95}, "2": {"a": 20, "b": 85}}
    rows = share_rows("naive", {"captions": {"a": 30, "b": 80}}, generated)
    rows += share_rows("no_indicators", {"captions": {"a": 20, "b": 90}}, generated)
    rows += share_rows(
        "caption_prompts", {"captions": {"a": 30, "b": 80, "c": 10}}, {"captions": {"a": 25, "b": 80, "c": 0}}
    )
    table = measured(paradox_percent_female=rows).save_table("paradox_approach_change")
    table = table.set_index(["approach", "definition", "prompt"])
    # Naive: 20 and 15 for prompt 1, 10 and 5 for prompt 2; without indicators 10 and 5, then 0 and -5.
    row = table.loc[("no_indicators", "published", "mean")]
    # With 1,000 images a share noise adds little.
    assert (row["reference_amplification"], row["amplification"], row["change"]) == pytest.approx(
        (12.5, 2.5, -10), abs=0.1
    )
    assert row["change"] == pytest.approx(row["amplification"] - row["reference_amplification"])
    assert row["change_percent"] == pytest.approx(-80, abs=1) and row["n_occupations"] == 2
    assert table.loc[("no_indicators", "published", "1"), "change"] == pytest.approx(-10, abs=0.1)
    # Captions as prompts: 5 and 0, against the mean over naive prompts; c has no naive share. Without pairs both are
    # taken as they are.
    row = table.loc[("caption_prompts", "published", "captions")]
    assert (row["reference_amplification"], row["amplification"], row["change"]) == pytest.approx(
        (12.5, 2.5, -10)
    )
    assert row["n_occupations"] == 2


@pytest.mark.parametrize("n_generated", [12, 1_000_000])
def test_shared_images_do_not_widen_the_change(measured, n_generated):
    # Along the lean the change is that of the training shares alone, whatever was generated: with very many training
    # images its interval is Student's over occupations.
    rng = np.random.default_rng(4)
    names = [f"o{i}" for i in range(30)]
    naive = dict(zip(names, rng.uniform(10, 35, 30).round(4), strict=True))
    other = {
        name: share - step for (name, share), step in zip(naive.items(), rng.uniform(1, 8, 30), strict=True)
    }
    generated = {"1": dict(zip(names, rng.integers(0, 5, 30) * 100 / 12, strict=True))}
    big = {"n_training": 1_000_000, "n_generated": n_generated}
    rows = share_rows("naive", {"captions": naive}, generated, **big)
    rows += share_rows("no_indicators", {"captions": other}, generated, **big)
    table = measured(paradox_percent_female=rows).table("paradox_approach_change").set_index("definition")
    row = table.loc["directional"]
    steps = [naive[o] - other[o] for o in names]
    low, high = DescrStatsW([-s for s in steps]).tconfint_mean()
    # Each estimate has its own images drawn anew, a few hundred times.
    assert row["change"] == pytest.approx(-np.mean(steps), abs=0.2 if n_generated == 12 else 0.001)
    assert limits(row) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_paraphrases_are_compared_with_captions_too(measured):
    one = {"captions": {"a": 30, "b": 80, "c": 20}}
    rows = [r for a in ("naive", "caption_prompts", "paraphrased") for r in share_rows(a, one, one)]
    table = measured(paradox_percent_female=rows).table("paradox_approach_change")
    pairs = set(zip(table["approach"], table["reference"], strict=True))
    assert pairs == {
        ("caption_prompts", "naive"),
        ("paraphrased", "naive"),
        ("paraphrased", "caption_prompts"),
    }
    assert (table["change"] == 0).all()


def test_a_single_approach_has_no_change(measured):
    rows = share_rows("naive", {"captions": {"a": 30}}, {"1": {"a": 20}})
    table = measured(paradox_percent_female=rows).save_table("paradox_approach_change")
    assert table.empty and list(table) == tables.schema("paradox_approach_change").names


def test_means_over_prompts_need_every_prompt():
    rows = pd.DataFrame(
        [
            ("M", "nearest", "a", "1", 20, 10),
            ("M", "nearest", "a", "2", 40, 30),
            ("M", "nearest", "b", "1", 70, 30),
            ("M", "nearest", "b", "2", 50, np.nan),
            ("M", "nearest", "c", "1", 70, 40),
            ("M", "nearest", "c", "2", 60, 20),
        ],
        columns=["model", "approach", "occupation", "prompt", "percent_training", "percent_generated"],
    )
    mean = sections.mean_over_prompts(rows).set_index("occupation")
    assert mean.loc["a", ["percent_training", "percent_generated", "excluded"]].tolist() == [30, 20, ""]
    assert np.isnan(mean.loc["b", "percent_generated"]) and mean.loc["b", "excluded"] == "missing"
    # 65 against 30: the lean turned.
    assert mean.loc["c", "excluded"] == "opposite_lean"
    assert mean["training_low"].isna().all() and set(mean["prompt"]) == {"mean"}


# -- captions as prompts -------------------------------------------------------------------------------------


def word_row(occupation, indicator, same, pairs, followed, judged):
    counts = {
        "n_same": same,
        "n_pairs": pairs,
        "n_followed": followed,
        "n_judged": judged,
        "n_images": judged + 1,
    }
    return {
        "model": "mini",
        "approach": "caption_prompts",
        "occupation": occupation,
        "indicator": indicator,
        **counts,
    }


def test_accuracy_is_summed_over_occupations_and_genders(measured):
    rows = [
        word_row("a", "female", 9, 10, 10, 11),
        word_row("b", "female", 4, 5, 5, 5),
        word_row("a", "male", 15, 15, 15, 15),
    ]
    table = measured(paradox_gender_words=rows).save_table("paradox_gender_word_accuracy")
    table = table.set_index(["against", "indicator"])
    # 28 of 30, 13 of 15 and 15 of 15; against the words 30 of 31.
    row = table.loc[("training image", "all")]
    assert row["percent"] == pytest.approx(100 * 28 / 30) and row["n"] == 30 and row["published"] == 98.41
    assert limits(row) == wilson(28, 30)
    assert table.loc[("training image", "female"), "percent"] == pytest.approx(100 * 13 / 15)
    assert limits(table.loc[("training image", "male")]) == wilson(15, 15)
    assert table.loc[("indicator", "all"), "percent"] == pytest.approx(100 * 30 / 31)
    assert table["published"].notna().sum() == 1


def test_captions_without_a_pair_have_a_reason(measured):
    table = measured(paradox_gender_words=[word_row("a", "female", 0, 0, 1, 1)])
    table = table.table("paradox_gender_word_accuracy").set_index(["against", "indicator"])
    assert table.loc[("training image", "all"), "reason"] == "Nothing was measured."
    assert table.loc[("indicator", "all"), "reason"] == ""


def test_paraphrases_are_checked(measured):
    def row(k, occupation, indicator, caption, paraphrase):
        keys = {"corpus": "mini", "occupation": occupation, "caption_id": f"c{k}", "indicator": indicator}
        return keys | {"caption": caption, "paraphrase": paraphrase}

    rows = [
        row(0, "nurse", "female", "A woman who is a nurse", "A picture of a woman who is a nurse"),
        row(1, "nurse", "none", "nurses at work", "nurses at work"),  # not changed; the plural counts
        row(2, "nurse", "none", "a nurse at work", "a person at work"),  # lost the occupation
        row(3, "cook", "male", "a male cook", "a cook, cookery"),  # lost the indicator
    ]
    table = measured(paradox_paraphrases=rows).save_table("paradox_paraphrase_check").set_index("check")
    assert table["percent"].to_dict() == {"changed": 75, "occupation_kept": 75, "indicator_kept": 75}
    assert limits(table.loc["changed"]) == wilson(3, 4) and set(table["n"]) == {4}


def test_p_is_the_level_at_which_scipys_interval_ends_at_0(measured):
    rows = [
        indicator_row(str(i), t, 50, 50, percent_female_indicator=f, percent_both=0)
        for i, (t, f) in enumerate([(10, 30), (35, 24), (40, 25), (70, 18), (90, 9)])
    ]
    row = measured(paradox_indicators=rows).table("paradox_indicator_correlation").iloc[0]
    found = scipy.stats.pearsonr([10, 35, 40, 70, 90], [30, 24, 25, 18, 9])
    assert row["r"] == pytest.approx(found.statistic)
    assert found.confidence_interval(1 - row["p"]).high == pytest.approx(0, abs=1e-9)
