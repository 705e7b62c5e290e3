"""Answers of the Paired Stereotype Test: the text of each form, and the numbers of the main ones by hand."""

import pytest
from paired_rows import lists

from biaslab import reference
from biaslab.papers import paired

SCORE_ABOVE = "Yes, the overall Stereotype Score is significantly above 0."


def texts_and_estimates(answer, table):
    return [(result.supported_answer, round(result.estimate, 1)) for result in answer.findings(table)]


def test_overall_and_power_answers_match_printed_means(printed):
    (result,) = paired.answers.overall.findings(printed["stereotype_score"])
    assert (result.supported_answer, result.n, result.model) == (SCORE_ABOVE, 40, "DALL-E 3")
    # Of the means of both lists (table 11): (50 - 30) / 2 and (45 + 49.75) / 2.
    assert result.estimate == pytest.approx(47.375, abs=0.005)
    assert {m.name: m.estimate for m in result.marks} == pytest.approx(
        {"one person": 10, "two people": 47.375}, abs=0.005
    )
    assert (
        result.details[0].startswith("With one person: 10.0 points (") and "as maximally dependent" in result.details[1]
    )
    roles = reference.load("paired_table_13").query("setting == 'paired'")["score"]
    (result,) = paired.answers.power.findings(printed["stereotype_score"])
    assert (result.supported_answer, result.n) == (SCORE_ABOVE, 36)
    assert result.estimate == pytest.approx(roles.mean(), abs=0.005)


def test_occupations_answer_of_three_people_is_inconclusive(printed):
    single, pairs = paired.answers.occupations.findings(printed["occupation_score"])
    # 2 · 0.5³ of 40 tests: no outcome of three images is significant.
    assert single.supported_answer == "Inconclusive (at most 3 people per occupation)." and not single.is_significant
    assert pairs.supported_answer == (
        "Of 40 occupations, 22 follow their stereotype, 0 contradict it, and 18 do neither significantly "
        "(Holm's correction)."
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Scores of 80 before; 60 to 80, and -60 to -40, after.
        (([9] * 3, [1] * 3), ([8, 8, 9], [2, 2, 1]), "Bias remains, significantly towards stereotypes."),
        (([9] * 3, [1] * 3), ([3, 3, 2], [7, 7, 8]), "Overcorrection, significantly against stereotypes."),
        # Female list 20, -20, 0; male list -20, 20, 0: mean 0, limits on both sides.
        (([9] * 3, [1] * 3), ([6, 4, 5], [6, 4, 5]), "The score is not significantly different from 0."),
        (([2] * 3, [8] * 3), ([3, 3, 2], [7, 7, 8]), "Bias remains, significantly against stereotypes."),
        (([2] * 3, [8] * 3), ([7, 7, 8], [3, 3, 2]), "Overcorrection, significantly towards stereotypes."),
        # Equal identities have neither interval nor test, and two of each list are too few for a verdict.
        (([9] * 3, [1] * 3), ([8] * 3, [2] * 3), "Not tested."),
        (([9] * 2, [1] * 2), ([90, 91], [10, 9]), "Inconclusive (only 4 occupations)."),
    ],
)
def test_mitigation_answer_names_overcorrection(tables_of, before, after, expected):
    n = 100 if max(after[0]) > 10 else 10
    t = tables_of(percent_female=lists(*before, 10, "paired") + lists(*after, n, "faircritic"))
    (result,) = paired.answers.mitigation.findings(t["mitigation"])
    assert result.supported_answer == expected and result.n == 2 * len(before[0])
    assert any(detail.startswith("Without mitigation:") for detail in result.details)


@pytest.mark.parametrize(("model", "planted"), [("mini", True), ("world", True), ("A", False)])
def test_answers_of_synthetic_models_state_planted_bias(tables_of, model, planted):
    rows = lists([9, 9], [1, 1], 10, "paired", model=model)
    for setting in ("faircritic", "intervention"):
        rows += lists([5, 6], [5, 5], 10, setting, model=model)
    t = tables_of(percent_female=rows)
    tables_by_answer = (
        ("mitigation", "mitigation"),
        ("mitigation_change", "mitigation_change"),
        ("overall", "stereotype_score"),
    )
    result = [f for answer, table in tables_by_answer for f in getattr(paired.answers, answer).findings(t[table])]
    assert len(result) == 5
    assert {any("lanted" in detail for detail in f.details) for f in result} == {planted}


def test_answers_p_matches_interval(printed):
    tables = {
        "overall": "stereotype_score",
        "power": "stereotype_score",
        "change": "score_change",
        "percent_female_mean": "percent_female_mean",
    }
    tables |= {"labour": "labour_correlation"}
    result = [one for name, table in tables.items() for one in getattr(paired.answers, name).findings(printed[table])]
    for each in result:
        assert each.not_significant and each.n in (36, 39, 40), each
        outside = each.ci_low > each.reference or each.ci_high < each.reference
        assert (each.p < 0.05) == outside, each


def test_power_lean_answer_is_not_testable(printed):
    # The difference of the roles is an identity of the share over both, so there is nothing to test.
    result = paired.answers.power_direction.findings(printed["role_coupling"])
    assert len(result) == 2 and not any(one.not_significant or one.is_significant for one in result)
    assert result[0].supported_answer.startswith("Not testable: ")


def test_mitigation_answer_of_printed_values_is_not_tested(printed):
    result = paired.answers.mitigation.findings(printed["mitigation"])
    expected = {"Not tested: the paper prints no scores with mitigation per occupation or role."}
    assert {one.supported_answer for one in result} == expected
    # FairCritic leaves 2.00 points; an interval over as many images would be wider than that.
    (faircritic,) = (one for one in result if "FairCritic" in one.question and "occupations" in one.question)
    assert faircritic.estimate == pytest.approx(2.0, abs=0.005) and "6.93 points" in " ".join(faircritic.details)
    assert all(one.has_declared_test for one in result)
