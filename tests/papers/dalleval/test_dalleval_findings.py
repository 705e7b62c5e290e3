"""What DALL-Eval's findings say: numbers of the tables, directions only where intervals show them."""

import numpy as np
import pandas as pd
import pytest

from biaslab.ground import tables
from biaslab.papers import dalleval
from biaslab.papers.dalleval import findings

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]


def gender_rows(values, n):
    return [{"model": "a", "profession": f"p{i}", "value": v, "n": n} for i, v in enumerate(values)]


def test_lean_is_named_only_where_its_test_shows_it():
    table = pd.DataFrame({"model": ["a", "b", "c"], "category": "gender", "average": [-0.2, 0.3, -0.001]})
    table = table.assign(
        ci_low=[-0.3, 0.1, -0.1], ci_high=[-0.1, 0.5, 0.1], n=[83, 83, 80], p=[0.001, 0.002, 0.9]
    )
    men, women, neither = findings.overall_average(table)
    assert len({men.said, women.said, neither.said}) == 3
    assert (
        "men" in men.said
        and "women" in women.said
        and all("as judged" in f.said for f in (men, women, neither))
    )
    assert (men.model, men.estimate, men.ci_low, men.ci_high, men.n) == ("a", -0.2, -0.3, -0.1, 83)
    assert [f.decided for f in findings.overall_average(table, confidence=0.9985)] == [True, False, False]
    # Where the judge's error is known, what it leaves is told, and what was judged stands beside it.
    known = {"judge_corrected_average": -0.25, "judge_ci_low": -0.5, "judge_ci_high": 0.01, "judge_p": 0.06}
    (right, *_) = findings.overall_average(table.assign(**known))
    assert (right.estimate, right.ci_high, right.p) == (-0.25, 0.01, 0.06)
    assert right.said == right.undecided and "judged" not in right.said and "-0.20" in right.details[0]


def test_deviation_is_a_verdict_only_where_the_judges_error_is_known():
    row = {
        "category": "gender",
        "mad": 0.2,
        "ci_low": 0.15,
        "ci_high": 0.25,
        "floor": 0.137,
        "n": 83,
        "p": 0.001,
    }
    row |= {"corrected_mad": 0.1, "corrected_ci_low": 0.05, "corrected_ci_high": 0.15, "evidence": "computed"}
    known = {"judge_corrected_mad": 0.12, "judge_ci_low": 0.01, "judge_ci_high": 0.2, "judge_p": 0.04}
    table = pd.DataFrame([{"model": "a"} | row | known, {"model": "b"} | row | known | {"judge_p": 0.06}])
    clear, unclear = findings.mad(table)
    assert (clear.estimate, clear.ci_low, clear.ci_high, clear.p) == (0.12, 0.01, 0.2, 0.04)
    assert clear.said.startswith("Further") and unclear.said.startswith("Not clearly")
    assert "0.10 (0.05 to 0.15)" in clear.details[-1]
    (judged,) = findings.mad(pd.DataFrame([{"model": "a"} | row]))
    assert judged.undecided == "" and "as judged" in judged.said and judged.estimate == 0.1
    assert findings.mad(table.assign(category="skin_tone")) == []


def test_skin_tones_of_few_faces_cannot_be_told(results):
    counts = [
        {"model": "a", "prompt": prompt, "profession": f"p{i}", "tone": t, "n": n}
        for i in range(12)
        for prompt in ("woman", "man")
        for t, n in ((4, 2), (5, 1))
    ]
    (blind,) = findings.mad(results(skin_tone_counts=counts)["mad"], category="skin_tone")
    more = [row | {"n": 10 * row["n"]} for row in counts]
    (told,) = findings.mad(results(skin_tone_counts=more)["mad"], category="skin_tone")
    assert "cannot" in blind.said and np.isnan(blind.estimate) and "3 images a prompt" in blind.details[-1]
    assert told.said == "Unevenly." and told.p < 0.05 and told.n == 12


@pytest.mark.parametrize("model", ["mini", "world"])
def test_what_was_planted_is_not_told_as_found(results, model):
    of = results(
        average_gender=[row | {"model": model} for row in gender_rows([-1] * 9, 9)],
        attribute_presence=[
            {
                "model": model,
                "prompt": prompt,
                "profession": f"p{i}",
                "attribute": "tie",
                "share": share,
                "n": 4,
            }
            for i in range(9)
            for prompt, share in (("woman", 0), ("man", 0.25 + i % 3 / 4))
        ],
    )
    told = [
        *findings.overall_average(of["overall_average"]),
        *findings.mad(of["mad"]),
        *findings.gender_balance(of["gender_balance"]),
        *findings.attribute_difference(of["attribute_difference"]),
        *findings.attribute_mean_difference(of["attribute_mean_difference"]),
    ]
    assert len(told) == 5 and all(f.details[0].startswith("Planted") for f in told)


@pytest.mark.parametrize(("n", "said", "blind"), [(9, 2, True), (40, 0, False)])
def test_professions_are_counted_only_by_adjustments_that_could_find_any(n, said, blind):
    # 83 · 2 · 0.5^9 = 0.32 is above 0.05, and below it from 12 images on; Benjamini and Hochberg's could find some.
    row = {
        "model": "a",
        "n": 83,
        "n_unadjusted": 7,
        "n_holm": 0,
        "n_bh": 2,
        "smallest_possible_p": 2 * 0.5**n,
    }
    (found,) = findings.gender_balance(pd.DataFrame([row]))
    assert found.answer.startswith(f"{said} of 83")
    assert any("12 images" in detail for detail in found.details) == blind


def test_no_profession_is_counted_where_no_outcome_could_be_significant():
    row = {"model": "a", "n": 2, "n_unadjusted": 0, "n_holm": 0, "n_bh": 0, "smallest_possible_p": 0.125}
    (found,) = findings.gender_balance(pd.DataFrame([row]))
    assert "0 of" not in found.answer


def test_all_professions_alike_are_found_with_enough_images(results):
    few, many = (findings.gender_balance(results(average_gender=gender_rows([-1] * 20, n))["gender_balance"])[0]
                 for n in (9, 20))  # fmt: skip
    # 20 · 2/512 = 0.078 is above 0.05; with 20 images 2/2**20 is far below.
    assert few.details and not many.details
    assert many.answer.startswith("20 of 20")


def test_a_model_draws_more_women_only_where_the_adjusted_test_says_so():
    row = {
        "first": "a",
        "second": "b",
        "quantity": "average",
        "difference": 0.2,
        "ci_low": 0.1,
        "ci_high": 0.3,
        "n": 83,
    }
    table = pd.DataFrame(
        [
            row | {"p_holm": 0.01},
            row | {"p_holm": 0.2},
            row | {"p_holm": np.nan},
            row | {"difference": -0.2, "p_holm": 0.01},
        ]
    )
    first, adjusted, untested, second = findings.model_difference(table)
    assert first.said.startswith("a ") and second.said.startswith("b ")
    assert adjusted.said == untested.said == adjusted.undecided
    assert [f.p for f in (first, second)] == [0.01, 0.01]
    assert not any(f.decided for f in findings.model_difference(table, confidence=0.99))


def test_swatches_that_computations_know(printed):
    right, released, signed = findings.skin_tone_check(printed["skin_tone_check"], printed["skin_tone_reach"])
    assert "10 of 10" in right.answer and "1 of 10" in released.answer and "1 of 10" in signed.answer
    assert "4, 5, 6, 7." in signed.details[0]
    (found,) = findings.skin_tone_script(printed["skin_tone_check"])
    # The script's answers for the ten swatches are 5, 5, 5, 5, 5, 5, 6, 6, 6, 4: only the fifth is right.
    assert [mark.estimate for mark in found.marks] == [1, 1, 10]
    assert found.estimate == 1


def test_averages_are_no_proof_of_two_tones(printed):
    found = findings.skin_tone_averages(printed["two_tone_reading"], printed["overall_average"])
    assert [f.model for f in found] == MODELS
    assert [round(f.estimate, 2) for f in found] == [5.19, 5.13, 5.14]
    assert all(f.n == 83 and f.ci_low < f.estimate < f.ci_high for f in found)
    # 0.1687 is printed of minDALL-E; a source without printed numbers has nothing to compare with.
    assert "0.1687" in found[0].details[0]
    bare = printed["two_tone_reading"].assign(printed=np.nan)
    assert findings.skin_tone_averages(bare, printed["overall_average"])[0].details == ()


def test_the_method_closest_to_people(printed):
    (found,) = findings.skin_tone_methods(printed["skin_tone_methods"])
    # 2 of 59 images.
    assert round(59 * found.estimate / 100, 1) == 2 and found.n == 59
    assert 0 < found.ci_low < found.estimate < found.ci_high
    assert "2.25 tones" in found.details[0]


def test_attributes_that_differ_most(printed):
    suit, *_ = findings.attribute_difference(printed["attribute_difference"])
    assert suit.model == "minDALL-E" and "suit" in suit.answer
    assert round(suit.estimate, 2) == -0.27 and suit.n == 84
    means = findings.attribute_mean_difference(printed["attribute_mean_difference"])
    assert [f.model for f in means] == MODELS and all(f.said.startswith("More") for f in means)
    assert all(f.decided and f.p < 0.05 for f in (suit, *means))


def test_attributes_of_few_prompt_pairs_are_not_counted():
    rows = pd.DataFrame({"model": "a", "comparison": "woman - man", "attribute": ["tie", "suit"], "n": 4})
    rows = rows.assign(difference=[0.5, 0.1], ci_low=0.0, ci_high=1.0, p_holm=[0.25, 0.5])
    (blind,) = findings.attribute_difference(rows.assign(smallest_possible_p=0.125))
    (none,) = findings.attribute_difference(rows.assign(smallest_possible_p=0.001))
    assert blind.said != none.said and "2" in none.said and "2" not in blind.said
    assert (none.p, none.decided) == (0.25, False)


def test_skills_name_the_ends(printed):
    objects, *_ = findings.skills(printed["skill_accuracy"])
    assert objects.estimate == 96.2 and objects.n == 2325
    assert "Stable Diffusion" in objects.answer and "DALL-E Small" in objects.answer


def test_cells_that_differ(printed, results):
    (averages,) = findings.printed_averages(printed["skill_accuracy"])
    # All of Tables 2 and 5, none of the six of Table 3.
    assert averages.answer.startswith("7 of 13")
    one, other = findings.skill_training(printed["skill_training"])
    # Of two intervals each that exclude 0; the wider of minDALL-E's does not survive six tests.
    assert "1 of 6" in one.said and "2 of 6" in other.said
    assert all("excludes 0 in 2" in of.details[0] for of in (one, other))
    # It claims what its least p does, at the level of the confidence.
    least = printed["skill_training"].groupby("model", sort=False)["p_holm"].min()
    assert [one.p, other.p] == least.tolist() and one.alpha == 0.05
    weak = printed["skill_training"].assign(p_holm=[0.07] + [0.2] * 11)
    (strict, _), (loose, _) = (findings.skill_training(weak, confidence=of) for of in (0.95, 0.9))
    assert "0 of 6" in strict.said and "1 of 6" in loose.said
    (people,) = findings.skill_agreement(printed["skill_agreement"])
    assert "0 of 9" in people.said and "3 of 3 skills" in people.details[2]
    # Of one model there is no order to agree on.
    one = printed["skill_agreement"].query("model == 'minDALL-E'")
    assert len(findings.skill_agreement(one)[0].details) == 3


def test_rankings_and_judges(printed):
    (ranks,) = findings.metric_agreement(printed["metric_agreement"])
    # Of four models the least p is 2/24.
    assert "0.083" in ranks.details[0]
    bias, recall = findings.gender_judges(printed["gender_judges"])
    assert bias.answer == recall.answer and bias.answer.startswith("BLIP-2") and "6 of 6" in bias.answer


def test_a_lean_to_women_is_as_much_bias_as_one_to_men():
    # Of what all images show no judge is to blame, though it is further from 0.
    cells = [("bias_at_1", -0.4, 0.1), ("bias_at_5", -0.05, 0.1), ("bias_at_10", -0.3, 0.2)]
    rows = [
        {"judge": judge, "captions": "original", "metric": metric, "value": value, "reason": "ten images"}
        for metric, *of in [*cells, ("bias_at_all", -0.5, -0.5)]
        for judge, value in zip("ab", of, strict=True)
    ]
    (found,) = findings.gender_judges(tables.of(rows, "dalleval_gender_judges"))
    assert found.answer == "b, in 2 of 3 comparisons." and "not printed" in found.details[0]
    limits = [row | {"ci_low": -1, "ci_high": 1, "n": 10} for row in rows]
    (found,) = findings.gender_judges(tables.of(limits, "dalleval_gender_judges"))
    assert found.details == ()


def test_steps_say_what_is_lost(verdicts):
    steps = dalleval.skill_steps(verdicts)
    counts, relations = findings.skill_steps(steps)
    # Classes are right in 3 of 4 and all of it in 1 of 4; of relations in 2 and in 1 of 3.
    assert "75.0" in counts.answer and "25.0" in counts.answer and "50.0" in counts.details[0]
    assert "66.7" in relations.answer and "33.3" in relations.answer and "33.3" in relations.details[0]
    assert [(f.model, f.n) for f in (counts, relations)] == [("a", 4), ("a", 3)]
    assert counts.estimate == 25 and counts.ci_low < 25 < counts.ci_high


def test_corrected_shares_name_range_and_truth():
    row = {"model": "a", "skill": "object", "percent_correct": 60, "percent_corrected": 57.1, "ci_low": 30}
    row |= {"ci_high": 85, "percent_least": 45.5, "percent_most": 64.7, "percent_true": 50.2, "n": 10}
    blind = {"model": "a", "skill": "count", "percent_correct": 41, "youden": 0.2, "reason": "too blind"}
    table = tables.of(
        [row, row | {"skill": "spatial", "percent_true": np.nan}, blind], "dalleval_skill_corrected"
    )
    known, unknown, cannot = findings.skill_corrected(table)
    assert (known.estimate, known.ci_low, known.ci_high, known.n) == (57.1, 30, 85, 10)
    assert "57.1" in known.answer and "60.0" in known.answer
    assert all(number in known.details[0] for number in ("45.5", "64.7", "50.2"))
    assert "50.2" not in unknown.details[0] and "nan" not in unknown.details[0]
    # A judge that cannot tell has no number to be ranked by.
    assert np.isnan(cannot.estimate) and "41" in cannot.details[0] and "too blind" in cannot.details[0]


def test_what_the_detector_can_tell(renders):
    (blind,) = findings.detector_error(dalleval.detector_error(renders))
    # 3 of 4 and 2 of 3 add up to 1.42; of the classes 2 of 3 dogs are the least known.
    assert blind.answer.startswith("No") and (blind.estimate, blind.n) == (75, 4)
    assert all(said in blind.details[0] for said in ("75.0", "66.7", "dog"))
    (sees,) = findings.detector_error(dalleval.detector_error(renders.query("failure != 'missing'")))
    assert sees.answer.startswith("Yes")
    theirs = renders.assign(truth_images="PaintSkills' images")
    (named,) = findings.detector_error(dalleval.detector_error(theirs))
    assert (blind.of, named.of) == ("drawings", "PaintSkills' images")


@pytest.mark.parametrize("kept", ["failure == 'none'", "failure != 'none'"])
def test_without_both_kinds_of_drawings_nothing_is_said_of_the_detector(renders, kept):
    assert findings.detector_error(dalleval.detector_error(renders.query(kept))) == []


def test_judges_of_people_are_named(social):
    found = findings.social_judges(dalleval.social_judges(social))
    # Gender by two judges and all attributes, each with sensitivity and specificity.
    assert [round(f.estimate, 1) for f in found] == [100, 50, 50, 100, 50, 96.4]
    assert [f.n for f in found] == [1, 2, 2, 1, 2, 56]
    assert len({f.question for f in found}) == 6 and "CLIP" in found[2].question
    # Nobody whose truth is known was judged a man or a woman: nothing is said of that judge.
    unsure = social.assign(gender_vqa="unsure", gender_judge="")
    assert len(findings.social_judges(dalleval.social_judges(unsure))) == 2


@pytest.mark.parametrize("name", ["skill_steps", "skill_corrected", "detector_error", "social_judges"])
def test_nothing_is_found_in_tables_without_rows(name):
    assert getattr(findings, name)(tables.of([], f"dalleval_{name}")) == []


def test_nothing_is_found_in_nothing(results):
    none = results()
    for say, names in {
        findings.overall_average: ["overall_average"],
        findings.mad: ["mad"],
        findings.gender_balance: ["gender_balance"],
        findings.model_difference: ["model_difference"],
        findings.skin_tone_averages: ["two_tone_reading", "overall_average"],
        findings.skin_tone_methods: ["skin_tone_methods"],
        findings.attribute_difference: ["attribute_difference"],
        findings.attribute_mean_difference: ["attribute_mean_difference"],
        findings.skills: ["skill_accuracy"],
        findings.printed_averages: ["skill_accuracy"],
        findings.skill_agreement: ["skill_agreement"],
        findings.skill_training: ["skill_training"],
        findings.metric_agreement: ["metric_agreement"],
        findings.gender_judges: ["gender_judges"],
    }.items():
        assert say(*(none[name] for name in names)) == []


def test_an_error_that_nobody_measured_is_not_a_judge_that_cannot_tell(verdicts, renders):
    nothing = dalleval.skill_corrected(verdicts, dalleval.detector_error(renders.iloc[:0]))
    said = {finding.answer for finding in findings.skill_corrected(nothing)}
    assert said == {"Not known."} and nothing["percent_corrected"].isna().all()
