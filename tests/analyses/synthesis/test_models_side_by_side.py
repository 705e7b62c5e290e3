"""Models side by side: estimates as the papers' tables have them, differences paired over what both were asked."""

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
    """Return the estimates of tables given; others have no rows."""
    none = {e.table: tables.make_table([], e.table).assign(null_mean=0.0) for e in ESTIMANDS}
    return synthesis.models(ESTIMANDS, none | results)


def units_of(**sources):
    return synthesis.units(ESTIMANDS, {e.source: tables.make_table([], e.source) for e in ESTIMANDS} | sources)


def rows(model, values, *, measure="m", unit="points", of=""):
    named = {"model": model, "measure": measure, "measure_unit": unit, "list": of, "cell": "", "n_images": 0}
    return pd.DataFrame({**named, "unit": [str(k) for k in range(len(values))], "value": values})


def differences(*frames, **more):
    return synthesis.model_differences(pd.concat(frames, ignore_index=True), **more)


def answered(table, confidence=0.95):
    rows = synthesis.by_pair(table, confidence=confidence)
    return synthesis.answers.differences.findings(rows, confidence=confidence)


def test_a_difference_is_paired_over_what_both_models_have():
    a, b = [11.0, 22.0, 33.0, 44.0, 55.0, 66.0, 99.0], [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    found = differences(rows("a", a), rows("b", b)).iloc[0]
    # 1 to 6: the unit that only one of them has does not count.
    assert (found["difference_corrected"], found["n"]) == (3.5, 6)
    # Without skewness the interval is Student's: 3.5 -+ 2.5706 * sqrt(3.5 / 6).
    assert found[["ci_low", "ci_high"]].tolist() == pytest.approx([1.5367, 5.4633], abs=1e-4)
    # All have one sign, so no p may be below the 2 of 64 patterns of a sign-flip test, whatever t says (0.006).
    assert found["p"] == found["min_attainable_p"] == 2 / 64 and found["p_holm"] == found["p"]


def test_a_score_over_two_lists_is_their_mean_and_its_interval_the_widest():
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
def test_p_is_adjusted_over_the_pairs_of_a_measure_and_a_card_over_its_measures():
    found = differences(*family(("a", 0), ("b", 1.2), ("c", 3)))
    assert len(found) == 9 and list(found["model_a"]) == ["a", "a", "b"] * 3
    for _, of in found.groupby("measure"):
        assert np.allclose(of["p_holm"], multipletests(of["p"], method="holm")[1])
    for said, (_, of) in zip(answered(found), found.groupby(["model_a", "model_b"], sort=False), strict=True):
        over = multipletests(of["p_holm"], method="holm")[1]
        assert said.p == pytest.approx(over.min())
        clear = (over < 0.05).sum()
        # The second model's values are higher.
        told = f"lower in {clear} (Holm" if clear else "No significant difference in 3 measures"
        assert told in said.supported_answer


def test_another_model_of_another_kind_moves_no_printed_pair():
    printed = family(("theirs", 0), ("others", 1))
    alone = differences(*printed, printed={"theirs", "others"})
    both = differences(*printed, *family(("mini", 3), ("mine", 0), seed=6), printed={"theirs", "others"})
    kept = both[both["kind"] == "printed"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, alone)
    # Models of two kinds are not compared.
    assert len(both) == 6 and set(both.loc[both["kind"] == "measured", "model_b"]) == {"mine"}
    assert set(both.loc[both["kind"] == "measured", "model_a"]) == {"mini"}


def test_few_units_have_no_interval_and_no_verdict():
    # Five data sets, all of one sign: no sign-flip test of them falls below 2 of 32.
    five = [0.019, 0.021, 0.018, 0.02, 0.004]
    found = differences(rows("a", five), rows("b", [0.0] * 5))
    assert found[["ci_low", "ci_high", "p", "p_holm"]].isna().all(axis=None)
    assert found["min_attainable_p"].item() == 2 / 32 and "requires 6" in found["reason"].item()
    (said,) = answered(found)
    assert (
        said.supported_answer == "Inconclusive (only 5 paired units)."
        and not said.is_significant
        and "requires 6" in said.details[0]
    )
    # Of twenty units only five differ: differences of 0 could flip either way, and change nothing.
    found = differences(rows("a", five + [0.0] * 15), rows("b", [0.0] * 20))
    assert pd.isna(found["p"].item()) and found["reason"].item().startswith("5 of 20 units differ")
    # An interval of no width is none.
    found = differences(rows("a", [1.0] * 8), rows("b", [0.0] * 8))
    assert found[["ci_low", "p"]].isna().all(axis=None) and found["difference_corrected"].item() == 1


def test_difference_on_a_bounded_scale_is_named_with_the_scale():
    # A unit such as "0 to 0.5" after a number would read as its interval.
    values = -0.2 - 0.02 * np.arange(8)
    found = differences(rows("a", values, unit="0 to 0.5"), rows("b", np.zeros(8), unit="0 to 0.5"))
    (said,) = answered(found)
    assert said.as_record()["significant_texts"] == ["m: -0.27 on a scale of 0 to 0.5"]
    (said,) = answered(found.assign(unit="points"))
    assert said.as_record()["significant_texts"] == ["m: -0.27 points"]


def test_a_card_whose_tests_could_not_come_out_otherwise_says_so():
    # Six units of one sign have 0.031 at the least, which five measures leave at 0.16.
    both = itertools.product("vwxyz", (("a", 1), ("b", 0)))
    frames = [rows(model, value * np.arange(1, 7.0), measure=measure) for measure, (model, value) in both]
    (said,) = answered(differences(*frames))
    assert said.supported_answer == "Inconclusive: no outcome could be significant." and "0.16" in said.details[0]


# -- what chance alone gives is no difference ---------------------------------------------------------------


def presence(model, shares, rng, n=9):
    """Attributes of women and men alike: shares by attribute, of n images a prompt and 84 professions."""
    names = [("woman", "man"), [f"p{k}" for k in range(84)], [f"a{k}" for k in range(len(shares))]]
    frame = pd.MultiIndex.from_product(names, names=["prompt", "profession", "attribute"]).to_frame(index=False)
    return frame.assign(model=model, n=n, share=rng.binomial(n, np.tile(shares, 2 * 84)) / n)


def test_attributes_are_compared_net_of_what_chance_gives():
    rng, shares = np.random.default_rng(4), np.array([0.5, 0.3, 0.2, 0.1, 0.1])
    both = pd.concat([presence("often", shares, rng), presence("seldom", 0.7 * shares, rng)])
    by_prompt = dalleval.attribute_prompt_difference(tables.make_table(both, "dalleval_attribute_presence"))
    found = differences(units_of(dalleval_attribute_prompt_difference=by_prompt)).iloc[0]
    # Women and men wear them alike in both models; more frequent ones differ by more for chance alone.
    raw = by_prompt.groupby("model")["mean_absolute_difference"].mean()
    assert 100 * (raw["often"] - raw["seldom"]) > 1.5
    assert found["ci_low"] < 0 < found["ci_high"] and abs(found["difference_corrected"]) < 1
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


def test_deviations_are_compared_at_the_same_number_of_images():
    # The same skin tones, with 9 faces a prompt and with 5.
    counts = pd.concat([tones("many", 9), tones("few", 5)])
    some = units_of(dalleval_skin_tone_counts=counts)
    assert sorted(some.loc[some["model"] == "many", "n_images"].unique()) == [5, 9]
    assert set(some.loc[some["model"] == "few", "n_images"]) == {5}
    found = differences(some).iloc[0]
    # A profession's three prompts are one unit.
    assert found["n"] == 84 and found["ci_low"] < 0 < found["ci_high"]
    # By brute force: of 9 faces of one profession, all ways to choose 5.
    one = counts.query("model == 'many' and profession == 'p0' and prompt == 'man'")["n"].to_numpy()
    faces = np.repeat(np.arange(10), one)
    chosen = [np.bincount(faces[list(k)], minlength=10) for k in itertools.combinations(range(9), 5)]
    value = some.query("model == 'many' and unit == 'p0' and cell == 'man'").set_index("n_images")["value"]
    assert value[5] == pytest.approx(stats.corrected_mad(chosen).mean())
    # Where both have as many, it is the estimate of all of them.
    assert value[9] == pytest.approx(stats.corrected_mad(one))


def test_amplification_is_compared_over_one_training_share_at_the_same_number_of_images():
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
    found = differences(units_of(paradox_occupation_amplification=occupations)).set_index("measure")
    assert (found["n"] == 62).all() and (found["ci_low"] < 0).all() and (found["ci_high"] > 0).all()
    # Over other training images there is nothing to compare.
    shares.loc[(shares["source"] == "training") & (shares["model"] == "few"), "percent_female"] = 62.0
    occupations = paradox.occupation_amplification(shares, confidence=0.95)
    found = differences(units_of(paradox_occupation_amplification=occupations))
    assert found["difference_corrected"].isna().all() and found["reason"].ne("").all()


def test_printed_deviations_with_chance_left_in_have_a_measure_of_their_own():
    row = {"category": "skin_tone", "mad": 0.17, "null_mean": 0.078}
    mads = [
        row | {"model": "printed", "evidence": "printed"},
        row
        | {"model": "mine", "evidence": "computed", "mad": 0.09, "mad_corrected": 0.05, "null_mean_corrected": 0.02},
    ]
    table = models_of(dalleval_mad=tables.make_table(mads, "dalleval_mad")).set_index("model")
    assert table["measure"].nunique() == 2 and "uncorrected" in table.loc["printed", "measure"]
    assert table.loc["mine", ["estimate", "estimate_corrected", "null_mean"]].tolist() == [0.09, 0.05, 0.02]


def test_gaps_of_several_data_sets_are_averaged_and_of_one_stay():
    gap = np.array([0.1, 0.3, 0.5])
    rows = pd.DataFrame({"model": [*"aab"], "dataset": [*"xyx"], "metric": "clip", "gap": gap, "n": [9, 9, 7]})
    rows = rows.assign(ci_low=gap - 0.1, ci_high=gap + 0.1, sample="triplets")
    table = models_of(triplets_disparity_gap=triplets.pooled_gaps(tables.make_table(rows, "triplets_disparity_gap")))
    table = table.sort_values("model")
    # Student's t of two values: 0.2 plus and minus 12.706 times 0.1.
    first = table.iloc[0][["estimate", "ci_low", "ci_high", "n"]].tolist()
    assert first == pytest.approx([0.2, -1.0706, 1.4706, 2], abs=1e-4)
    assert table.iloc[1][["estimate", "ci_low", "ci_high", "n", "n_unit"]].tolist() == [0.5, 0.4, 0.6, 7, "triplets"]


def test_models_that_share_nothing_have_no_test_and_say_so():
    found = differences(rows("a", [1.0, 2.0]), rows("b", [1.0]))
    assert found["p"].isna().all() and found["reason"].ne("").all() and found["n"].tolist() == [1]
    one = differences(rows("a", [1.0, 2.0]))
    assert one.empty and list(one.columns) == list(differences(rows("a", [1.0]), rows("b", [1.0])).columns)
    assert answered(one) == []


def test_estimates_are_those_of_the_papers_tables():
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


def test_units_of_printed_numbers_average_to_the_printed_measures():
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
    assert scores["Stereotype Score, roles of power, two people"] == pytest.approx(18.98, abs=0.01)
    # Of the deviation the mean is what the paper's own analysis estimates.
    known = mads[mads["category"] == "gender"].set_index("model")["mad_corrected"]
    found = mean.xs("Gender MAD, as judged", level="measure")
    assert len(known) == 3 and np.allclose(found[known.index], known)
    # DALL-Eval's averages (DESIGN): -0.25, -0.22 and -0.42.
    averages = mean.xs("Average perceived gender, as judged (+1 female)", level="measure").round(2)
    assert sorted(averages) == [-0.42, -0.25, -0.22]


def test_a_gap_needs_both_pairs_and_follows_the_metrics_direction():
    cell = {"model": "a", "dataset": "d", "space": "image", "n": 1, "unit": "1", "sample": "triplets"}
    values = [("neutral-feminine", "x", 0.2), ("neutral-masculine", "x", 0.5), ("neutral-feminine", "y", 0.4)]
    frame = pd.DataFrame(
        [{**cell, "metric": "ssim", "higher_is_closer": 1, "pair": p, "case": c, "value": v} for p, c, v in values]
    )
    found = units_of(triplets_similarity=tables.make_table(frame, "triplets_similarity"))
    assert found[["unit", "value"]].values.tolist() == [["d x", pytest.approx(0.3)]]
