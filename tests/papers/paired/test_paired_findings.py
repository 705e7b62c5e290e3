"""Findings of the Paired Stereotype Test: which way, only where the interval shows it; and what cannot be told."""

import numpy as np
import pandas as pd
import pytest
from paired_rows import lists
from statsmodels.stats.proportion import proportion_confint

from biaslab.papers import paired

C = {"confidence": 0.95}


def one(findings):
    (found,) = findings
    return found


def words(findings, model="DALL-E 3"):
    return [(f.said, round(f.estimate, 1)) for f in findings if f.model == model]


def test_directions_of_the_printed_numbers(printed):
    f = paired.findings
    scores = f.stereotype_score(printed["stereotype_score"], **C)
    assert words(scores) == [("Towards their stereotypes.", 47.4), ("Towards their stereotypes.", 19.0)]
    # Overall scores with one person and with two (Table 1): 10 and 47.38, of power 4.63 and 18.98.
    assert [[round(m.estimate, 1) for m in found.marks] for found in scores] == [[10.0, 47.4], [4.6, 19.0]]
    # Disjoint lists share images, so the worst dependence is assumed and said; roles are taken together.
    assert [any("as far as they can" in d for d in found.details) for found in scores] == [True, False]
    assert words(f.score_change(printed["score_change"], **C)) == [
        ("It rises.", 37.4),
        ("No change is shown.", 14.4),
    ]
    assert words(f.lean(printed["lean"], **C)) == [("No lean is shown.", 48.8), ("No lean is shown.", 49.3)]
    assert [round(found.estimate, 1) for found in f.power_lean(printed["role_coupling"], **C)] == [66.2, 49.3]
    assert all("cannot be told" in found.said for found in f.power_lean(printed["role_coupling"], **C))
    along = f.labour_correlation(printed["labour_correlation"], **C)
    assert [found.said for found in along] == ["No correlation is shown.", "They rise with them."]


def test_what_no_outcome_could_show_is_said_and_not_counted(printed):
    single, pairs = paired.findings.occupation_score(
        printed["absolute_score"], printed["occupation_score"], **C
    )
    # 2 · 0.5^n of 40 tests: 1 at n = 3, below 0.05 from 2 · 0.5^11 = 0.00098 on.
    assert "cannot be told" in single.answer and "it takes 11 people" in single.details[0]
    assert pairs.answer.startswith("For 22 of 40")
    changes = paired.findings.changed_cases(printed["changed_cases"], printed["identity_change"], **C)
    occupations, roles = (found.answer for found in changes)
    assert occupations.startswith("0 of 40") and "cannot be told" in roles


def test_directions_follow_the_numbers(tables_of):
    rows = lists([5, 6, 5, 6], [5, 4, 5, 4], 10, "single") + lists([1, 2, 2, 1], [9, 8, 8, 9], 10, "paired")
    t = tables_of(percent_female=rows)
    # Four occupations of each list are eight units; an answer from two of each is none, whatever the numbers.
    few = tables_of(percent_female=lists([1, 2], [9, 8], 10, "paired"))
    found = one(paired.findings.stereotype_score(few["stereotype_score"], **C))
    assert found.n == 4 and found.said == "No lean is shown." and not found.decided
    assert one(paired.findings.stereotype_score(t["stereotype_score"], **C)).answer.startswith("Against")
    assert one(paired.findings.score_change(t["score_change"], **C)).answer == "It falls."


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # Scores of 80 before; 60 to 80, and -60 to -40, after.
        (([9] * 3, [1] * 3), ([8, 8, 9], [2, 2, 1]), "Bias towards stereotypes is left."),
        (([9] * 3, [1] * 3), ([3, 3, 2], [7, 7, 8]), "Over-correction, against stereotypes."),
        # Female list 20, -20, 0; male list -20, 20, 0: mean 0, limits on both sides.
        (([9] * 3, [1] * 3), ([6, 4, 5], [6, 4, 5]), "No difference from 0 is shown."),
        (([2] * 3, [8] * 3), ([3, 3, 2], [7, 7, 8]), "Bias against stereotypes is left."),
        (([2] * 3, [8] * 3), ([7, 7, 8], [3, 3, 2]), "Over-correction, towards stereotypes."),
        # All identities alike have neither interval nor test, and two of each list are too few for a verdict.
        (([9] * 3, [1] * 3), ([8] * 3, [2] * 3), "No difference from 0 is shown."),
        (([9] * 2, [1] * 2), ([90, 91], [10, 9]), "No difference from 0 is shown."),
    ],
)
def test_over_correction_is_named_as_plainly_as_bias(tables_of, before, after, said):
    n = 100 if max(after[0]) > 10 else 10
    t = tables_of(percent_female=lists(*before, 10, "paired") + lists(*after, n, "faircritic"))
    found = one(paired.findings.mitigation(t["mitigation"], **C))
    assert found.said == said and found.n == 2 * len(before[0])
    assert not any("chosen for their scores" in detail for detail in found.details)


def test_printed_mitigations_have_a_sign_and_no_interval(printed):
    found = paired.findings.mitigation(printed["mitigation"], **C)
    reversed_ = [f for f in found if "reversed" in f.answer]
    assert len(found) == 4 and [round(f.estimate, 2) for f in reversed_] == [-11.12]
    assert all(np.isnan(f.ci_low) for f in found)


@pytest.mark.parametrize(("model", "planted"), [("mini", True), ("world", True), ("A", False)])
def test_what_was_planted_is_said_with_it(tables_of, model, planted):
    rows = lists([9, 9], [1, 1], 10, "paired", model=model) + lists(
        [5, 6], [5, 5], 10, "faircritic", model=model
    )
    rows += lists([5, 6], [5, 5], 10, "intervention", model=model)
    t = tables_of(percent_female=rows)
    found = [
        *paired.findings.mitigation(t["mitigation"], **C),
        *paired.findings.mitigation_change(t["mitigation_change"], **C),
        *paired.findings.stereotype_score(t["stereotype_score"], **C),
    ]
    assert len(found) == 5
    assert {any("lanted" in detail for detail in f.details) for f in found} == {planted}


def test_the_top_are_said_to_be_chosen_by_the_same_images(tables_of):
    rows = lists([9, 8, 9], [1, 2, 1], 10, "paired")
    rows += lists([10, 9], [0, 1], 10, "paired_top5") + lists([7, 6], [4, 3], 10, "intervention_top5")
    t = tables_of(percent_female=rows)
    for found in (
        one(paired.findings.mitigation(t["mitigation"], **C)),
        one(paired.findings.mitigation_change(t["mitigation_change"], **C)),
    ):
        assert any("chosen for their scores" in detail for detail in found.details)


def test_identities_that_lean_are_counted_or_cannot_be_told(tables_of):
    rows = lists([40, 20], [0, 20], 40, "paired") + lists([2, 20], [20, 38], 40, "faircritic")
    change = tables_of(percent_female=rows)["mitigation_change"]
    said = " ".join(one(paired.findings.mitigation_change(change, **C)).details)
    assert "2 lean towards and 0 against" in said and "0 lean towards and 2 against" in said
    assert said.count("over-correction") == 1
    # 6 people each: p is 0.031 at least, and four times that after correction; 8 · 0.5^n < 0.05 from n = 8 on.
    rows = lists([6, 6], [0, 0], 6, "paired") + lists([3, 3], [3, 3], 6, "faircritic")
    change = tables_of(percent_female=rows)["mitigation_change"]
    said = " ".join(one(paired.findings.mitigation_change(change, **C)).details)
    assert "lean towards" not in said and "cannot be told" in said and "it takes 8 people each" in said


@pytest.mark.parametrize(
    ("low", "high", "said"), [(-45, -25, "Fewer"), (25, 45, "More"), (-5, 3, "No change")]
)
def test_the_cost_is_said_as_it_is(low, high, said):
    row = {"model": "A", "aspect": "power", "setting": "faircritic", "measure": "valid", "n_images": 200}
    row |= {"percent": 60.0, "ci_low": 53.0, "ci_high": 66.0}
    row |= {"change": (low + high) / 2, "change_ci_low": low, "change_ci_high": high}
    found = one(paired.findings.valid_images(pd.DataFrame([row])))
    assert found.details[0].startswith(said) and (found.estimate, found.n) == (60, 200)


@pytest.mark.parametrize(
    ("low", "high", "p", "said"),
    [
        (0.5, 9, 0.02, "The left."),
        (-9, -0.5, 0.02, "The right."),
        (-1, 9, 0.2, "No difference is shown."),
        (np.nan, np.nan, np.nan, "No difference is shown."),
    ],
)
@pytest.mark.parametrize("aspect", ["occupation", "power"])
def test_sides_are_named_where_the_test_shows_it(aspect, low, high, p, said):
    row = {"model": "A", "aspect": aspect, "setting": "paired", "stereotype": "overall"}
    row |= {"difference": 4.0 if np.isnan(low) else (low + high) / 2, "n_occupations": 12}
    row |= {"ci_low": low, "ci_high": high, "p": p, "n": 40, "dependence": "estimated"}
    found = one(paired.findings.position_effect(pd.DataFrame([row]), **C))
    assert found.said == said
    # Of roles only the left one is named with the occupation.
    assert any("named with the occupation" in detail for detail in found.details) == (aspect == "power")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(-60, -2, "fewer than"), (-20, 21, "no difference shown from"), (5, 60, "more than")],
)
def test_coupling_by_images_is_said_as_it_is(low, high, said):
    row = dict.fromkeys(
        ("percent_same_gender_ci_low", "percent_same_gender_ci_high", "fewest_same_gender"), np.nan
    )
    row |= {
        "model": "A",
        "setting": "paired",
        "n_same_score": 3,
        "n": 8,
        "r": 0.5,
        "ci_low": -0.3,
        "ci_high": 0.9,
    }
    row |= {
        "same_gender": 20,
        "n_images": 96,
        "percent_same_gender": 20.8,
        "same_gender_excess": (low + high) / 2,
    }
    row |= {"same_gender_excess_ci_low": low, "same_gender_excess_ci_high": high}
    found = one(paired.findings.role_coupling(pd.DataFrame([row])))
    assert said in found.details[-1] and (found.estimate, found.n) == (0.5, 8)


def test_three_people_count_where_all_are_judged_in_the_order_asked_for():
    trio = [("female", "female"), ("male", "male"), ("male", "female")]
    rows = [
        {"model": "A", "setting": "three", "image_id": i, "outcome": outcome, "role_order": order}
        | {"stereotype": s, "gender": g if outcome == "judged" else ""}
        for i, outcome, order in (("1", "judged", "right"), ("2", "judged", "swapped"), ("3", "one_face", ""))
        for s, g in trio
    ]
    found = one(paired.findings.three(pd.DataFrame(rows), **C))
    low, high = (100 * v for v in proportion_confint(2, 3, method="wilson"))
    assert (
        found.answer == "1 of 3 do." and f"66.7 % ({low:.1f} to {high:.1f}) of 3 people" in found.details[0]
    )


def test_records_of_findings_are_json(printed):
    import json

    found = paired.findings.labour_correlation(printed["labour_correlation"], **C)
    assert json.loads(json.dumps([f.as_record() for f in found]))[1]["n"] == 39


def test_a_correction_larger_than_what_it_leaves_decides_nothing():
    row = {"model": "A", "setting": "paired", "n_occupations": 20, "p": 0.001, "amplification_plain": -2.0}
    rows = [
        row | {"definition": "no_exclusion", "amplification": 3.0, "ci_low": 2.0, "ci_high": 4.0},
        row | {"definition": "directional", "amplification": 3.0, "ci_low": 2.0, "ci_high": 4.0},
    ]
    found = one(paired.findings.labour_amplification(pd.DataFrame(rows), **C))
    # From -2 to +3 is more than 3.
    assert found.said.startswith("No difference is shown") and not found.decided
    assert found.details[-1] == "-2.00 points as observed, 3.00 without image noise."
    rows[0] |= {"amplification_plain": 3.4}
    found = one(paired.findings.labour_amplification(pd.DataFrame(rows), **C))
    assert found.said.startswith("Further from 50 %") and "as observed" not in found.details[-1]


def test_verdicts_carry_the_test_of_their_interval(printed):
    f = paired.findings
    found = [
        *f.stereotype_score(printed["stereotype_score"], **C),
        *f.score_change(printed["score_change"], **C),
        *f.labour_correlation(printed["labour_correlation"], **C),
        *f.labour_amplification(printed["labour_amplification"], **C),
        *f.absolute_score(printed["absolute_score"], **C),
        *f.lean(printed["lean"], **C),
        *f.power_lean(printed["role_coupling"], **C),
    ]
    for each in found:
        assert each.undecided and each.n in (36, 39, 40), each
        reference = each.reference or (50 if each.unit == "% female" else 0)
        outside = each.ci_low > reference or each.ci_high < reference
        assert (each.p < 0.05) == outside, each
