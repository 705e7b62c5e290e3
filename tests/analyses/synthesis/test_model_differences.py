"""Comparison of models: estimates as in the papers' tables, and differences paired over shared units."""

import itertools

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from biaslab import stats
from biaslab.analyses import synthesis
from biaslab.papers import dalleval, paired, paradox, triplets
from biaslab.planning.measures import table_of
from biaslab.schema import tables
from biaslab.study import sources

ESTIMANDS = [*paired.ESTIMANDS, *dalleval.ESTIMANDS, *triplets.ESTIMANDS, *paradox.ESTIMANDS]
DRAWS = {"seed": 1, "replicates": 4000, "confidence": 0.95}


def models_of(**results):
    """Return the estimates of the given tables; other tables are empty."""
    none = {e.table: tables.make_table([], e.table).assign(null_mean=0.0) for e in ESTIMANDS}
    return synthesis.models(ESTIMANDS, none | results)


def units_of(**sources):
    return synthesis.units(ESTIMANDS, {e.source: tables.make_table([], e.source) for e in ESTIMANDS} | sources)


def rows(model, values, *, measure="m", unit="points", of=""):
    columns_of_model = {"model": model, "measure": measure, "measure_unit": unit, "list": of, "cell": "", "n_images": 0}
    return pd.DataFrame({**columns_of_model, "unit": [str(k) for k in range(len(values))], "value": values})


def differences(*frames, **more):
    return synthesis.model_differences(pd.concat(frames, ignore_index=True), **more)


def answer_findings(table, confidence=0.95):
    rows = synthesis.by_pair(table, confidence=confidence)
    return synthesis.answers.differences.findings(rows, confidence=confidence)


def test_model_differences_pair_shared_units():
    a, b = [11.0, 22.0, 33.0, 44.0, 55.0, 66.0, 99.0], [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    result = differences(rows("a", a), rows("b", b)).iloc[0]
    # 1 to 6: the unit that only one of them has does not count.
    assert (result["difference_corrected"], result["n"]) == (3.5, 6)
    # Without skewness the interval is Student's: 3.5 -+ 2.5706 * sqrt(3.5 / 6).
    assert result[["ci_low", "ci_high"]].tolist() == pytest.approx([1.5367, 5.4633], abs=1e-4)
    # All have one sign, so no p may be below 2 of 64 patterns of a sign-flip test, although t has p = 0.006.
    assert result["p"] == result["min_attainable_p"] == 2 / 64 and result["p_holm"] == result["p"]


def test_model_differences_average_two_lists():
    rng = np.random.default_rng(2)
    female, male = rng.normal(5, 3, 12), rng.normal(-1, 3, 8)
    zero = np.zeros
    lists = [rows("a", female, of="female"), rows("a", male, of="male")]
    lists += [rows("b", zero(12), of="female"), rows("b", zero(8), of="male")]
    both = differences(*lists).iloc[0]
    assert both["difference_corrected"] == pytest.approx((female.mean() + male.mean()) / 2)
    alone = [differences(rows("a", of), rows("b", zero(len(of)))).iloc[0] for of in (female, male)]
    # Lists that move together: limits are the means of theirs.
    for end in ("ci_low", "ci_high"):
        assert both[end] == pytest.approx(np.mean([one[end] for one in alone]))
    # At the level of its p the interval ends at 0.
    at = differences(*lists, confidence=1 - both["p"]).iloc[0]
    assert min(abs(at["ci_low"]), abs(at["ci_high"])) < 1e-6


def family(*models, seed=5):
    rng = np.random.default_rng(seed)
    return [
        rows(model, rng.normal(shift * (measure == "far"), 1, 9), measure=measure)
        for model, shift in models
        for measure in ("far", "near", "other")
    ]


@pytest.mark.long
def test_model_differences_adjust_p_by_measure_and_pair():
    result = differences(*family(("a", 0), ("b", 1.2), ("c", 3)))
    assert len(result) == 9 and list(result["model_a"]) == ["a", "a", "b"] * 3
    for _, of in result.groupby("measure"):
        assert np.allclose(of["p_holm"], multipletests(of["p"], method="holm")[1])
    for finding, (_, of) in zip(
        answer_findings(result), result.groupby(["model_a", "model_b"], sort=False), strict=True
    ):
        adjusted = multipletests(of["p_holm"], method="holm")[1]
        assert finding.p == pytest.approx(adjusted.min())
        clear = (adjusted < 0.05).sum()
        # The second model's values are higher.
        claim = f"lower ones in {clear} (Holm" if clear else "In 0 of 3 measures (Holm"
        assert claim in finding.supported_answer


def test_model_differences_printed_pairs_ignore_measured():
    printed = family(("theirs", 0), ("others", 1))
    alone = differences(*printed, printed={"theirs", "others"})
    both = differences(*printed, *family(("mini", 3), ("mine", 0), seed=6), printed={"theirs", "others"})
    printed_rows = both[both["kind"] == "printed"].reset_index(drop=True)
    pd.testing.assert_frame_equal(printed_rows, alone)
    # Models of two kinds are not compared.
    assert len(both) == 6 and set(both.loc[both["kind"] == "measured", "model_b"]) == {"mine"}
    assert set(both.loc[both["kind"] == "measured", "model_a"]) == {"mini"}


def test_model_differences_of_few_units_are_inconclusive():
    # Five datasets, all of one sign: no sign-flip test falls below 2 of 32.
    five = [0.019, 0.021, 0.018, 0.02, 0.004]
    result = differences(rows("a", five), rows("b", [0.0] * 5))
    assert result[["ci_low", "ci_high", "p", "p_holm"]].isna().all(axis=None)
    assert result["min_attainable_p"].item() == 2 / 32 and "requires 6" in result["reason"].item()
    (finding,) = answer_findings(result)
    assert (
        finding.supported_answer == "Inconclusive (only 5 paired units)."
        and not finding.is_significant
        and "requires 6" in finding.details[0]
    )
    # Of twenty units only five differ: differences of 0 could flip either way, and change nothing.
    result = differences(rows("a", five + [0.0] * 15), rows("b", [0.0] * 20))
    assert pd.isna(result["p"].item()) and result["reason"].item().startswith("5 of 20 units differ")
    # An interval of zero width is missing.
    result = differences(rows("a", [1.0] * 8), rows("b", [0.0] * 8))
    assert result[["ci_low", "p"]].isna().all(axis=None) and result["difference_corrected"].item() == 1


def test_differences_answer_names_bounded_scale():
    # A unit such as "0 to 0.5" after a number would read as its interval.
    values = -0.2 - 0.02 * np.arange(8)
    result = differences(rows("a", values, unit="0 to 0.5"), rows("b", np.zeros(8), unit="0 to 0.5"))
    (finding,) = answer_findings(result)
    assert finding.as_record()["significant_texts"] == ["m: -0.27 (range of the measure: 0 to 0.5)"]
    (finding,) = answer_findings(result.assign(unit="points"))
    assert finding.as_record()["significant_texts"] == ["m: -0.27 points"]


def test_differences_answer_of_unattainable_p_is_inconclusive():
    # Six units of one sign have 0.031 at the least, which five measures leave at 0.16.
    both = itertools.product("vwxyz", (("a", 1), ("b", 0)))
    frames = [rows(model, value * np.arange(1, 7.0), measure=measure) for measure, (model, value) in both]
    (finding,) = answer_findings(differences(*frames))
    assert finding.supported_answer == "Inconclusive: no outcome could be significant." and "0.16" in finding.details[0]


# -- differences are corrected for the null expectation -----------------------------------------------------


def presence(model, shares, rng, n=9):
    """Return equal attribute shares of women and men, of n images per prompt and 84 professions."""
    names = [("woman", "man"), [f"p{k}" for k in range(84)], [f"a{k}" for k in range(len(shares))]]
    frame = pd.MultiIndex.from_product(names, names=["prompt", "profession", "attribute"]).to_frame(index=False)
    return frame.assign(model=model, n=n, share=rng.binomial(n, np.tile(shares, 2 * 84)) / n)


def test_model_differences_of_attributes_are_bias_corrected():
    rng, shares = np.random.default_rng(4), np.array([0.5, 0.3, 0.2, 0.1, 0.1])
    both = pd.concat([presence("often", shares, rng), presence("seldom", 0.7 * shares, rng)])
    by_prompt = dalleval.attribute_prompt_difference(tables.make_table(both, "dalleval_attribute_presence"))
    result = differences(units_of(dalleval_attribute_prompt_difference=by_prompt)).iloc[0]
    # Women and men do not differ in either model; more frequent attributes differ more by chance.
    raw = by_prompt.groupby("model")["mean_absolute_difference"].mean()
    assert 100 * (raw["often"] - raw["seldom"]) > 1.5
    assert result["ci_low"] < 0 < result["ci_high"] and abs(result["difference_corrected"]) < 1
    nothing = tables.make_table([], "dalleval_printed_attributes")
    attributes = dalleval.attribute_mean_difference(both, by_prompt, nothing, **DRAWS)
    table = models_of(dalleval_attribute_mean_difference=attributes).set_index("model")
    net = by_prompt[by_prompt["comparison"] == "woman - man"]
    net = 100 * (net["mean_absolute_difference"] - net["null_mean"]).groupby(net["model"], sort=False).mean()
    assert np.allclose(table["estimate_corrected"], net[table.index])
    assert table["n"].tolist() == [84, 84] and (table["null_mean"] == 0).all()
    assert np.allclose(table["estimate"], 100 * raw[table.index])


def tones(model, n, professions=84, shares=(0, 0, 0, 0.1, 0.4, 0.4, 0.1, 0, 0, 0), seed=0):
    rng = np.random.default_rng([seed, n])
    counts = rng.multinomial(n, shares, (professions, 3))
    names = [[f"p{i}" for i in range(professions)], ("person", "woman", "man"), [str(k + 1) for k in range(10)]]
    frame = pd.MultiIndex.from_product(names, names=["profession", "prompt", "tone"]).to_frame(index=False)
    return frame.assign(model=model, n=counts.ravel())


def test_model_differences_of_mad_use_equal_image_counts():
    # The same skin tones, with 9 and with 5 faces per prompt.
    counts = pd.concat([tones("many", 9), tones("few", 5)])
    some = units_of(dalleval_skin_tone_counts=counts)
    assert sorted(some.loc[some["model"] == "many", "n_images"].unique()) == [5, 9]
    assert set(some.loc[some["model"] == "few", "n_images"]) == {5}
    result = differences(some).iloc[0]
    # A profession's three prompts are one unit.
    assert result["n"] == 84 and result["ci_low"] < 0 < result["ci_high"]
    # By brute force: of 9 faces of one profession, all ways to choose 5.
    one = counts.query("model == 'many' and profession == 'p0' and prompt == 'man'")["n"].to_numpy()
    faces = np.repeat(np.arange(10), one)
    chosen = [np.bincount(faces[list(k)], minlength=10) for k in itertools.combinations(range(9), 5)]
    value = some.query("model == 'many' and unit == 'p0' and cell == 'man'").set_index("n_images")["value"]
    assert value[5] == pytest.approx(stats.corrected_mad(chosen).mean())
    # Where both have as many, it is the estimate of all of them.
    assert value[9] == pytest.approx(stats.corrected_mad(one))


def test_model_differences_of_amplification_use_equal_counts():
    rng, rows_ = np.random.default_rng(3), []
    for i in range(62):
        for model, n in (("many", 40), ("few", 8)):
            rows_.append((model, "naive", f"o{i}", "training", "captions", 60.0, 50))
            rows_.append((model, "naive", f"o{i}", "generated", "1", 100 * rng.binomial(n, 0.5) / n, n))
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    shares = pd.DataFrame(rows_, columns=columns)
    occupations = paradox.occupation_amplification(shares, confidence=0.95)
    raw = occupations.groupby("model")["amplification"].mean()
    # A fair model shows 13.7 points at 8 images and 6.3 at 40 by chance.
    assert raw["few"] - raw["many"] > 4
    result = differences(units_of(paradox_occupation_amplification=occupations)).set_index("measure")
    assert (result["n"] == 62).all() and (result["ci_low"] < 0).all() and (result["ci_high"] > 0).all()
    # With different training images the models cannot be compared.
    shares.loc[(shares["source"] == "training") & (shares["model"] == "few"), "percent_female"] = 62.0
    occupations = paradox.occupation_amplification(shares, confidence=0.95)
    result = differences(units_of(paradox_occupation_amplification=occupations))
    assert result["difference_corrected"].isna().all() and result["reason"].ne("").all()


def test_models_separate_uncorrected_printed_mad():
    row = {"category": "skin_tone", "mad": 0.17, "null_mean": 0.078}
    mads = [
        row | {"model": "printed", "evidence": "printed"},
        row
        | {"model": "mine", "evidence": "computed", "mad": 0.09, "mad_corrected": 0.05, "null_mean_corrected": 0.02},
    ]
    table = models_of(dalleval_mad=tables.make_table(mads, "dalleval_mad")).set_index("model")
    assert table["measure"].nunique() == 2 and "uncorrected" in table.loc["printed", "measure"]
    assert table.loc["mine", ["estimate", "estimate_corrected", "null_mean"]].tolist() == [0.09, 0.05, 0.02]


def test_models_average_gaps_over_datasets():
    gap = np.array([0.1, 0.3, 0.5])
    rows = pd.DataFrame({"model": [*"aab"], "dataset": [*"xyx"], "metric": "clip", "gap": gap, "n": [9, 9, 7]})
    rows = rows.assign(ci_low=gap - 0.1, ci_high=gap + 0.1, sample="triplets")
    table = models_of(triplets_disparity_gap=triplets.pooled_gaps(tables.make_table(rows, "triplets_disparity_gap")))
    table = table.sort_values("model")
    # Student's t of two values: 0.2 plus and minus 12.706 times 0.1.
    first = table.iloc[0][["estimate", "ci_low", "ci_high", "n"]].tolist()
    assert first == pytest.approx([0.2, -1.0706, 1.4706, 2], abs=1e-4)
    assert table.iloc[1][["estimate", "ci_low", "ci_high", "n", "n_unit"]].tolist() == [0.5, 0.4, 0.6, 7, "triplets"]


def test_model_differences_of_one_unit_have_reason():
    result = differences(rows("a", [1.0, 2.0]), rows("b", [1.0]))
    assert result["p"].isna().all() and result["reason"].ne("").all() and result["n"].tolist() == [1]
    one = differences(rows("a", [1.0, 2.0]))
    assert one.empty and list(one.columns) == list(differences(rows("a", [1.0]), rows("b", [1.0])).columns)
    assert answer_findings(one) == []


def test_models_take_estimates_of_paper_tables():
    columns = {"model": "a", "aspect": "power", "setting": ["single", "paired", "paired"]}
    columns |= {"stereotype": ["overall", "overall", "female"], "score": [1.0, 2.0, 3.0], "n": 7}
    score = tables.make_table(pd.DataFrame({**columns, "ci_low": -1.0, "ci_high": 4.0}), "paired_stereotype_score")
    skill = {"model": "a", "evaluator": "detector", "skill": ["object", "average"], "percent_correct": 60.0}
    skill |= {"images": "test", "training_percent": 100, "n": 5}
    accuracy = tables.make_table(pd.DataFrame(skill), "dalleval_skill_accuracy").assign(null_mean=12.0)
    table = models_of(paired_stereotype_score=score, dalleval_skill_accuracy=accuracy)
    assert table["estimate"].tolist() == [1.0, 2.0, 60.0] and table["null_mean"].tolist() == [0.0, 0.0, 12.0]
    assert table["unit"].tolist() == ["points", "points", "%"] and table["n"].tolist() == [7, 7, 5]
    assert models_of().empty


def printed(what):
    return sources.load_measured(table_of(what), source="published")


def test_units_of_printed_numbers_average_to_measures():
    shares = printed(paired.percent_female)
    genders = dalleval.average_gender(printed(dalleval.measure.average_gender))
    tones = tables.make_table([], "dalleval_skin_tone_counts")
    mads = dalleval.mad(genders, tones, printed(dalleval.printed.printed_bias))
    similarity = printed(triplets.measure.similarity)
    sources_ = {"paired_percent_female": shares, "dalleval_average_gender": genders, "triplets_similarity": similarity}
    some = units_of(**sources_)
    mean = some.groupby(["model", "measure", "list"])["value"].mean().groupby(["model", "measure"]).mean()
    # Tables 1 and 2 of the Paired Stereotype Test, from its tables per occupation.
    scores = mean["DALL-E 3"]
    assert scores["Stereotype Score, occupations, one person"] == pytest.approx(10.0, abs=0.01)
    assert scores["Stereotype Score, occupations, two people"] == pytest.approx(47.38, abs=0.01)
    assert scores["Stereotype Score, power roles, two people"] == pytest.approx(18.98, abs=0.01)
    # The mean deviation equals the estimate of the paper's analysis.
    expected_mad = mads[mads["category"] == "gender"].set_index("model")["mad_corrected"]
    result = mean.xs("Gender MAD, as judged", level="measure")
    assert len(expected_mad) == 3 and np.allclose(result[expected_mad.index], expected_mad)
    # DALL-Eval's averages (DESIGN): -0.25, -0.22 and -0.42.
    averages = mean.xs("Average perceived gender, as judged (+1 female)", level="measure").round(2)
    assert sorted(averages) == [-0.42, -0.25, -0.22]


def test_units_of_gap_need_both_pairs():
    cell = {"model": "a", "dataset": "d", "space": "image", "n": 1, "unit": "1", "sample": "triplets"}
    values = [("neutral-feminine", "x", 0.2), ("neutral-masculine", "x", 0.5), ("neutral-feminine", "y", 0.4)]
    frame = pd.DataFrame(
        [{**cell, "metric": "ssim", "higher_is_closer": 1, "pair": p, "case": c, "value": v} for p, c, v in values]
    )
    result = units_of(triplets_similarity=tables.make_table(frame, "triplets_similarity"))
    assert result[["unit", "value"]].values.tolist() == [["d x", pytest.approx(0.3)]]
