"""Models side by side: estimates as the papers' tables have them, differences paired over what both were asked."""

import itertools
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests
from without_rows import of_models, of_units

from biaslab import sources, tables
from biaslab.papers import dalleval, paired, synthesis, triplets

DRAWS = {"seed": 1, "replicates": 4000, "confidence": 0.95}


def rows(model, values, *, measure="m", unit="points", of=""):
    named = {"model": model, "measure": measure, "measure_unit": unit, "list": of}
    return pd.DataFrame({**named, "unit": [str(k) for k in range(len(values))], "value": values})


def differences(*frames, **more):
    return synthesis.model_differences(pd.concat(frames, ignore_index=True), **DRAWS | more)


def test_a_difference_is_paired_over_what_both_models_have():
    a, b = [10.0, 20.0, 30.0, 40.0, 99.0], [9.0, 18.0, 27.0, 36.0]
    found = differences(rows("a", a), rows("b", b)).iloc[0]
    # 1, 2, 3 and 4: the unit that only one of them has does not count.
    assert (found["difference"], found["n"]) == (2.5, 4)
    # All four differences have one sign: 2 of the 16 patterns of signs reach their mean.
    assert found["p"] == pytest.approx(2 / 16) and found["p_holm"] == found["p"]
    # The two unpaired samples overlap widely; the pairs do not.
    assert 0 < found["ci_low"] < 2.5 < found["ci_high"]


def test_a_score_over_two_lists_is_their_mean_and_its_interval_the_widest():
    rng = np.random.default_rng(2)
    female, male = rng.normal(5, 3, 12), rng.normal(-1, 3, 8)
    zero = np.zeros
    lists = [rows("a", female, of="female"), rows("a", male, of="male")]
    lists += [rows("b", zero(12), of="female"), rows("b", zero(8), of="male")]
    both = differences(*lists).iloc[0]
    assert both["difference"] == pytest.approx((female.mean() + male.mean()) / 2)
    alone = [differences(rows("a", of), rows("b", zero(len(of)))).iloc[0] for of in (female, male)]
    # Lists that move together: limits are the means of theirs.
    for end in ("ci_low", "ci_high"):
        assert both[end] == pytest.approx(np.mean([one[end] for one in alone]))
    # By brute force over signs, each list's means in order: how many pairs of equal rank reach the difference.
    means = []
    for of in (female, male):
        signs = np.array(list(itertools.product((-1, 1), repeat=len(of))))
        means.append(np.quantile(signs @ of / len(of), np.linspace(0, 1, 4001)))
    expected = (np.abs(np.mean(means, axis=0)) >= abs(both["difference"])).mean()
    assert both["p"] == pytest.approx(expected, abs=0.02)


def test_p_is_adjusted_over_all_measures_and_pairs_of_models():
    rng = np.random.default_rng(5)
    frames = [
        rows(model, rng.normal(shift * (measure == "far"), 1, 14), measure=measure)
        for measure in ("far", "near")
        for model, shift in (("a", 0), ("b", 1.5), ("c", 3))
    ]
    found = differences(*frames)
    assert len(found) == 6 and list(found["model_a"]) == ["a", "a", "b"] * 2
    assert np.allclose(found["p_holm"], multipletests(found["p"], method="holm")[1])
    (said, *_) = synthesis.findings.model_differences(found)
    clear = ((found["p_holm"] < 0.05) & (found["model_b"] == "b") & (found["model_a"] == "a")).sum()
    assert f"{clear} of 2" in said.answer


def test_printed_models_are_compared_with_one_another_alone():
    rng = np.random.default_rng(6)
    frames = [rows(model, rng.normal(0, 1, 9)) for model in ("mine", "theirs", "yours", "others")]
    found = differences(*frames, printed={"theirs", "others"})
    assert list(zip(found["model_a"], found["model_b"], strict=True)) == [
        ("mine", "yours"),
        ("theirs", "others"),
    ]
    # Tests that are not made are not adjusted for.
    assert np.allclose(found["p_holm"], multipletests(found["p"], method="holm")[1])


def test_gaps_of_several_data_sets_are_averaged_and_of_one_stay():
    rows = pd.DataFrame(
        {"model": ["a", "a", "b"], "dataset": ["x", "y", "x"], "metric": "clip", "gap": [0.1, 0.3, 0.5],
         "ci_low": [0.0, 0.2, 0.4], "ci_high": [0.2, 0.4, 0.6], "n": [9, 9, 7]}
    )  # fmt: skip
    found = import_module("biaslab.papers.synthesis.models")._over_datasets(rows, 0.95)
    # Student's t of two values: 0.2 plus and minus 12.706 times 0.1.
    assert found.iloc[0][["gap", "ci_low", "ci_high", "n"]].tolist() == pytest.approx(
        [0.2, -1.0706, 1.4706, 2], abs=1e-4
    )
    assert found.iloc[1][["gap", "ci_low", "ci_high", "n", "of"]].tolist() == [0.5, 0.4, 0.6, 7, "triplets"]


def test_too_few_shared_prompts_have_no_test_and_say_so():
    found = differences(rows("a", [1.0, 2.0]), rows("b", [1.0]))
    assert found["p"].isna().all() and found["reason"].ne("").all() and found["n"].tolist() == [1]
    one = differences(rows("a", [1.0, 2.0]))
    assert one.empty and list(one.columns) == list(differences(rows("a", [1.0]), rows("b", [1.0])).columns)
    assert not synthesis.findings.model_differences(one)


def test_estimates_are_those_of_the_papers_tables():
    columns = {"model": "a", "aspect": "power", "setting": ["single", "paired", "paired"]}
    columns |= {"stereotype": ["overall", "overall", "female"], "score": [1.0, 2.0, 3.0], "n": 7}
    score = tables.of(pd.DataFrame({**columns, "ci_low": -1.0, "ci_high": 4.0}), "paired_stereotype_score")
    skill = {"model": "a", "evaluator": "detector", "skill": ["object", "average"], "percent_correct": 60.0}
    skill |= {"images": "test", "training_percent": 100, "n": 5}
    shuffled = {"reference": "shuffled", "measure": "object", "judge": "detector", "value": 12.0, "n": 5}
    table = synthesis.models(
        **of_models(
            scores=score,
            accuracy=tables.of(pd.DataFrame(skill), "dalleval_skill_accuracy"),
            references=tables.of([shuffled], "dalleval_references"),
        )
    )
    assert table["estimate"].tolist() == [1.0, 2.0, 60.0] and table["floor"].tolist() == [0.0, 0.0, 12.0]
    assert table["unit"].tolist() == ["points", "points", "%"] and table["n"].tolist() == [7, 7, 5]
    assert synthesis.models(**of_models()).empty


def printed(what):
    return sources.measured(sources.table_of(what), source="published")


def test_units_of_printed_numbers_average_to_the_printed_measures():
    shares = printed(paired.percent_female)
    genders = dalleval.average_gender(printed(dalleval.measure.average_gender))
    tones = tables.of([], "dalleval_skin_tone_counts")
    mads = dalleval.mad(genders, tones, printed(dalleval.printed.printed_bias))
    some = synthesis.units(
        shares=shares,
        genders=genders,
        deviations=dalleval.deviations(genders, tones),
        verdicts=tables.of([], "dalleval_skill_verdicts"),
        by_prompt=tables.of([], "dalleval_attribute_prompt_difference"),
        similarity=printed(triplets.measure.similarity),
        occupations=tables.of([], "paradox_occupation_amplification"),
    )
    mean = some.groupby(["model", "measure", "list"])["value"].mean().groupby(["model", "measure"]).mean()
    # Tables 1 and 2 of the Paired Stereotype Test, from its tables per occupation.
    scores = mean["DALL-E 3"]
    assert scores["Stereotype Score, occupations, one person"] == pytest.approx(10.0, abs=0.01)
    assert scores["Stereotype Score, occupations, two people"] == pytest.approx(47.38, abs=0.01)
    assert scores["Stereotype Score, roles of power, two people"] == pytest.approx(18.98, abs=0.01)
    # Of the deviation the mean is what the paper's own analysis estimates.
    known = mads[mads["category"] == "gender"].set_index("model")["corrected_mad"]
    found = mean.xs("Gender: deviation from even (MAD)", level="measure")
    assert len(known) == 3 and np.allclose(found[known.index], known)
    # DALL-Eval's averages (DESIGN): -0.25, -0.22 and -0.42.
    averages = mean.xs("Average gender, women above 0", level="measure").round(2)
    assert sorted(averages) == [-0.42, -0.25, -0.22]


def test_a_gap_needs_both_pairs_and_follows_the_metrics_direction():
    cell = {"model": "a", "dataset": "d", "space": "image", "n": 1, "unit": "1", "sample": "triplets"}
    values = [("neutral-feminine", "x", 0.2), ("neutral-masculine", "x", 0.5), ("neutral-feminine", "y", 0.4)]
    frame = pd.DataFrame(
        [
            {**cell, "metric": "ssim", "higher_is_closer": 1, "pair": p, "case": c, "value": v}
            for p, c, v in values
        ]
    )
    found = synthesis.units(**of_units(similarity=tables.of(frame, "triplets_similarity")))
    assert found[["unit", "value"]].values.tolist() == [["d x", pytest.approx(0.3)]]
