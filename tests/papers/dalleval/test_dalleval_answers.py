"""What DALL-Eval's answers say: one of each form in words, numbers by hand, nothing where nothing is known."""

import numpy as np
import pandas as pd
import pytest

from biaslab.ground import tables
from biaslab.papers import dalleval
from biaslab.papers.dalleval import answers
from biaslab.papers.dalleval.analysis.detector import CANNOT, RIVALS

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]


def test_a_lean_is_named_only_where_its_test_shows_it():
    rows = [("a", -0.2, 0.001), ("b", 0.3, 0.002), ("c", -0.001, 0.9)]
    frame = pd.DataFrame(rows, columns=["model", "average", "p"]).assign(category="gender", n=83)
    table = tables.of(
        frame.assign(ci_low=frame["average"] - 0.1, ci_high=frame["average"] + 0.1), "dalleval_overall_average"
    )
    found = answers.average_gender.findings(table)
    assert [one.said for one in found] == [
        "More men, as judged.",
        "More women, as judged.",
        "No clear lean to either, as judged.",
    ]
    assert (found[0].model, found[0].estimate, found[0].n) == ("a", -0.2, 83)
    strict = answers.average_gender.findings(table, confidence=0.9985)
    assert [one.decided for one in strict] == [True, False, False]
    # Where the judge's error is known, what it leaves is told, and what was judged stands beside it.
    known = {"judge_corrected_average": -0.25, "judge_ci_low": -0.5, "judge_ci_high": 0.01, "judge_p": 0.06}
    (right, *_) = answers.average_gender.findings(table.assign(**known))
    assert (right.estimate, right.ci_high, right.p) == (-0.25, 0.01, 0.06)
    assert right.said == "No clear lean to either." and "as judged: -0.20" in right.details[0]


def test_deviation_is_a_verdict_only_where_the_judges_error_is_known():
    row = {"model": "a", "category": "gender", "mad": 0.2, "ci_low": 0.15, "ci_high": 0.25, "floor": 0.137}
    row |= {"n": 83, "p": 0.001, "corrected_mad": 0.1, "corrected_ci_low": 0.05, "corrected_ci_high": 0.15}
    row |= {"evidence": "computed"}
    known = {"judge_corrected_mad": 0.12, "judge_ci_low": 0.01, "judge_ci_high": 0.2, "judge_p": 0.04}
    few = row | {"model": "d", "corrected_mad": np.nan, "reason": "2 images a prompt cannot tell"}
    rows = [row | known, row | known | {"model": "b", "judge_p": 0.06}, row | {"model": "c"}, few]
    table = tables.of(rows, "dalleval_mad")
    clear, unclear, judged, blind = answers.gender_deviation.findings(table)
    assert (clear.estimate, clear.ci_low, clear.ci_high, clear.p) == (0.12, 0.01, 0.2, 0.04)
    assert clear.said.startswith("Further") and unclear.said.startswith("Not clearly")
    assert "0.10 (0.05 to 0.15)" in clear.details[-1]
    assert judged.undecided == "" and judged.said == "0.10 of 0.5, as judged." and judged.estimate == 0.1
    assert "cannot" in blind.said and np.isnan(blind.estimate) and "2 images" in blind.details[-1]
    assert answers.gender_deviation.findings(table.assign(category="skin_tone")) == []


def test_skin_tones_of_few_faces_cannot_be_told_and_printed_ones_have_chance_in_them(results, printed):
    counts = [
        {"model": "a", "prompt": prompt, "profession": f"p{i}", "tone": t, "n": n}
        for i in range(12)
        for prompt in ("woman", "man")
        for t, n in ((4, 2), (5, 1))
    ]
    (blind,) = answers.tone_deviation.findings(results(skin_tone_counts=counts)["mad"])
    more = [row | {"n": 10 * row["n"]} for row in counts]
    (told,) = answers.tone_deviation.findings(results(skin_tone_counts=more)["mad"])
    assert "cannot" in blind.said and np.isnan(blind.estimate) and "3 images a prompt" in blind.details[-1]
    assert told.said == "Unevenly." and told.p < 0.05 and told.n == 12
    found = answers.tone_deviation.findings(printed["mad"])
    assert [one.estimate for one in found] == [0.1687, 0.1707, 0.1698]
    assert not any(one.undecided for one in found) and "0.08" in found[0].details[0]


@pytest.mark.parametrize("model", ["mini", "world"])
def test_what_was_planted_is_not_told_as_found(results, model):
    genders = [{"model": model, "profession": f"p{i}", "value": -1, "n": 9} for i in range(9)]
    presence = [
        {"model": model, "prompt": prompt, "profession": f"p{i}", "attribute": "tie", "share": share, "n": 4}
        for i in range(9)
        for prompt, share in (("woman", 0), ("man", 0.25 + i % 3 / 4))
    ]
    given = results(average_gender=genders, attribute_presence=presence)
    found = [
        *answers.average_gender.findings(given["overall_average"]),
        *answers.gender_deviation.findings(given["mad"]),
        *answers.attributes.findings(given["attribute_difference"]),
        *answers.attributes_together.findings(given["attribute_mean_difference"]),
    ]
    assert len(found) == 4 and all(one.details[0].startswith("Planted") for one in found)


def test_the_script_reads_one_swatch_of_ten(printed):
    (found,) = answers.tone_script.findings(printed["skin_tone_check"])
    # Its answers for the ten are 5, 5, 5, 5, 5, 5, 6, 6, 6, 4.
    assert found.said == "1 of 10 as released." and sorted(mark.estimate for mark in found.marks) == [1, 1, 10]
    assert any("CIELAB units: 10 of 10" in detail for detail in found.details)


def test_attributes_are_counted_by_direction(printed):
    found = answers.attributes.findings(printed["attribute_difference"])
    assert [one.model for one in found] == MODELS and all(one.decided and one.n == 84 for one in found)
    clear = printed["attribute_difference"].query("comparison == 'woman - man' and p_holm < 0.05")
    ups = (clear["difference"] > 0).groupby(clear["model"], sort=False).agg(["sum", "size"])
    for one in found:
        up, size = ups.loc[one.model]
        assert one.answer.startswith(f"{up} of 15") and f", {size - up} with a man" in one.answer
    together = answers.attributes_together.findings(printed["attribute_mean_difference"])
    assert [one.model for one in together] == MODELS and all(one.said.startswith("More") for one in together)


def test_attributes_of_few_prompt_pairs_are_not_counted():
    rows = pd.DataFrame({"model": "a", "comparison": "woman - man", "attribute": ["tie", "suit"], "n": 8})
    rows = rows.assign(difference=[0.5, 0.1], p_holm=[0.25, 0.5])
    (blind,) = answers.attributes.findings(rows.assign(smallest_possible_p=0.125))
    (none,) = answers.attributes.findings(rows.assign(smallest_possible_p=0.001))
    assert "no outcome" in blind.said and none.said == "None of 2 differs after Holm's adjustment."
    assert (none.p, none.decided) == (0.25, False)


def test_skills_have_their_mean_and_people_do_not_differ(printed):
    found = {one.model: one for one in answers.skills.findings(printed["skill_accuracy"])}
    # (96.2 + 37.8 + 7.9) / 3
    assert found["Stable Diffusion"].estimate == pytest.approx(47.3)
    assert found["Stable Diffusion"].n == 2325 + 2160 + 2700
    assert [mark.name for mark in found["minDALL-E"].marks][:2] == ["objects", "numbers"]
    people = answers.people_and_detector.findings(printed["skill_agreement"])
    assert {one.said for one in people} == {"They differ clearly in none of 3 skills."}
    assert min(one.p for one in people) == printed["skill_agreement"]["p_holm"].min()


def test_corrected_shares_name_range_and_truth():
    row = {"model": "a", "skill": "object", "percent_correct": 60, "percent_corrected": 57.1, "ci_low": 30}
    row |= {"ci_high": 85, "percent_least": 45.5, "percent_most": 64.7, "percent_true": 50.2, "n": 10}
    blind = {"model": "a", "skill": "average", "percent_correct": 41, "reason": CANNOT}
    rows = [row, row | {"skill": "spatial", "percent_true": np.nan}, blind]
    rows += [row | {"skill": "count", "reason": RIVALS}, blind | {"model": "b", "reason": "no drawings"}]
    found = answers.skills_corrected.findings(tables.of(rows, "dalleval_skill_corrected"))
    known, unknown, cannot, rival, nothing = found
    assert (known.estimate, known.ci_low, known.ci_high, known.n) == (57.1, 30, 85, 10)
    assert known.said == "57.1 %, where the detector says 60.0 %." and known.question.endswith("objects?")
    assert known.details == ("Over the ways of failing, one by one: 45.5 to 64.7 %.", "The truth is 50.2 %.")
    assert len(unknown.details) == 1
    # A judge that cannot tell, or takes off more than is left, has no number to be ranked by.
    assert cannot.said == rival.said == "This judge cannot tell." and np.isnan(rival.estimate)
    assert "41.0 %" in cannot.details[0] and RIVALS in rival.details[0] and nothing.said == "Not known."


def test_what_the_detector_can_tell(renders):
    errors = dalleval.detector_error(renders.assign(truth_images="drawings"))
    (blind,) = answers.detector.findings(errors)
    assert blind.said == "No: this judge cannot tell." and (blind.estimate, blind.n) == (75, 4)
    assert "specificity: 66.7 %" in blind.details[0] and blind.details[-1].endswith("on drawings.")
    for kept in ("failure == 'none'", "failure != 'none'"):
        assert answers.detector.findings(dalleval.detector_error(renders.query(kept))) == []


def test_judges_of_people_are_named(social):
    found = answers.judges_of_people.findings(dalleval.social_judges(social))
    # Gender by two judges, and all attributes: sensitivity, with specificity beside it.
    assert [round(one.estimate, 1) for one in found] == [100, 50, 50] and [one.n for one in found] == [1, 2, 2]
    assert [one.question.split(":")[0] for one in found] == ["VQA", "CLIP", "VQA"]
    assert "Specificity 96.4 %" in found[2].details[0]
    # Nobody whose truth is known was judged a man or a woman: nothing is said of that judge.
    unsure = social.assign(gender_vqa="unsure", gender_judge="")
    assert len(answers.judges_of_people.findings(dalleval.social_judges(unsure))) == 1


def test_tones_are_said_with_what_reads_them(social):
    (found,) = answers.tones_read.findings(dalleval.skin_tone_outcomes(social, social.iloc[:0]))
    assert found.said == "Of 80.0 %." and found.n == 5
    assert found.details == (
        "No tone, no face: 20.0 %.",
        "What reads tones: tone by pixels, the colour of a face and not what a person would say.",
        "Of 3 whose true tone is known it is right in 33.3 %.",
    )
    nobody = social.assign(judge_tone="none", skin_tone=np.nan, reason_tone="not read")
    (none,) = answers.tones_read.findings(dalleval.skin_tone_outcomes(nobody, social.iloc[:0]))
    assert none.said == "Of 0.00 %." and "judging.tone" in none.details[1]


def test_nothing_is_found_in_tables_without_rows():
    for one in vars(answers).values():
        assert one.findings(tables.of([], one.table)) == [], one.name
