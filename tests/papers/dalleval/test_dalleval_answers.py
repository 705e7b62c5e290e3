"""DALL-Eval's answers: the text of each form, numbers by hand, and no answer without rows."""

import numpy as np
import pandas as pd
import pytest

from biaslab.papers.dalleval import answers
from biaslab.schema import tables

MODELS = ["minDALL-E", "Karlo", "Stable Diffusion"]


def test_average_gender_answer_names_significant_direction():
    rows = [("a", -0.2, 0.001), ("b", 0.3, 0.002), ("c", -0.001, 0.9)]
    frame = pd.DataFrame(rows, columns=["model", "average", "p"]).assign(category="gender", n=83)
    frame = frame.assign(ci_low=frame["average"] - 0.1, ci_high=frame["average"] + 0.1)
    table = tables.make_table(frame, "dalleval_overall_average")
    findings = answers.average_gender.findings(table)
    leans = [
        "More as male, as judged.",
        "More as female, as judged.",
        "Not significantly different from an even split, as judged.",
    ]
    assert [one.supported_answer for one in findings] == leans
    assert (findings[0].model, findings[0].estimate, findings[0].n) == ("a", -0.2, 83)
    strict = answers.average_gender.findings(table, confidence=0.9985)
    assert [one.is_significant for one in strict] == [True, False, False]
    # With a known judge error, the corrected value is the answer, and the uncorrected one a detail.
    judge_corrected = {"average_judge_corrected": -0.25, "average_judge_corrected_p": 0.06}
    judge_corrected |= {"average_judge_corrected_ci_low": -0.5, "average_judge_corrected_ci_high": 0.01}
    (right, *_) = answers.average_gender.findings(table.assign(**judge_corrected))
    assert (right.estimate, right.ci_high, right.p) == (-0.25, 0.01, 0.06)
    assert (
        right.supported_answer
        == "Not significantly different from an even split, after correction for the judge's errors."
        and "As judged, without this correction: -0.20" in right.details[0]
    )


def test_gender_deviation_answer_needs_judge_error():
    row = {"model": "a", "category": "gender", "mad": 0.2, "mad_ci_low": 0.15, "mad_ci_high": 0.25, "null_mean": 0.137}
    row |= {"n": 83, "p": 0.001, "mad_corrected": 0.1, "ci_low": 0.05, "ci_high": 0.15}
    row |= {"evidence": "computed"}
    judge_corrected = {"mad_judge_corrected": 0.12, "mad_judge_corrected_p": 0.04}
    judge_corrected |= {"mad_judge_corrected_ci_low": 0.01, "mad_judge_corrected_ci_high": 0.2}
    few = row | {"model": "d", "mad_corrected": np.nan, "reason": "2 images a prompt cannot tell"}
    rows = [
        row | judge_corrected,
        row | judge_corrected | {"model": "b", "mad_judge_corrected_p": 0.06},
        row | {"model": "c"},
        few,
    ]
    table = tables.make_table(rows, "dalleval_mad")
    clear, unclear, judged, blind = answers.gender_deviation.findings(table)
    assert (clear.estimate, clear.ci_low, clear.ci_high, clear.p) == (0.12, 0.01, 0.2, 0.04)
    assert clear.supported_answer.startswith("Significantly farther") and unclear.supported_answer.startswith(
        "Not significantly"
    )
    assert "0.10 (0.05 to 0.15)" in clear.details[0] and clear.card_text.endswith("0.10.")
    assert (
        judged.not_significant == ""
        and judged.supported_answer
        == "0.10, bias-corrected (0.05 to 0.15; n = 83 professions). Not tested: the judge's errors are unknown."
        and judged.estimate == 0.1
    )
    assert blind.supported_answer == "Not tested." and np.isnan(blind.estimate) and "2 images" in blind.details[-1]
    assert answers.gender_deviation.findings(table.assign(category="skin_tone")) == []


@pytest.mark.parametrize("model", ["mini", "world"])
def test_answers_of_synthetic_models_state_planted_bias(results, model):
    genders = [{"model": model, "profession": f"p{i}", "value": -1, "n": 9} for i in range(9)]
    shares = [("woman", f"p{i}", 0) for i in range(9)] + [("man", f"p{i}", 0.25 + i % 3 / 4) for i in range(9)]
    presence = pd.DataFrame(shares, columns=["prompt", "profession", "share"])
    presence = presence.assign(model=model, attribute="tie", n=4)
    result_tables = results(average_gender=genders, attribute_presence=presence)
    tables_by_answer = {
        "average_gender": "overall_average",
        "gender_deviation": "mad",
        "attributes": "attribute_difference",
    }
    tables_by_answer |= {"attributes_together": "attribute_mean_difference"}
    findings = [
        one for name, table in tables_by_answer.items() for one in getattr(answers, name).findings(result_tables[table])
    ]
    assert len(findings) == 4 and all(one.details[0].startswith("Planted") for one in findings)


@pytest.mark.long
def test_attributes_answer_counts_by_direction(printed):
    findings = answers.attributes.findings(printed["attribute_difference"])
    assert [one.model for one in findings] == MODELS and all(one.is_significant and one.n == 84 for one in findings)
    clear = printed["attribute_difference"].query("comparison == 'woman - man' and p_holm < 0.05")
    ups = (clear["difference"] > 0).groupby(clear["model"], sort=False).agg(["sum", "size"])
    for one in findings:
        up, size = ups.loc[one.model]
        assert (
            one.supported_answer.startswith(f"{up} of 15")
            and f", {size - up} for prompts with a man" in one.supported_answer
        )
        # Shares in the table are points in the texts.
        largest = clear[clear["model"] == one.model]["difference"].abs().max()
        assert f"{100 * largest:.1f} points" in " ".join(one.as_record()["significant_texts"])
    mean_difference_findings = answers.attributes_together.findings(printed["attribute_mean_difference"])
    assert [one.model for one in mean_difference_findings] == MODELS and all(
        one.supported_answer.startswith("Significantly more") for one in mean_difference_findings
    )


def test_answers_of_empty_tables_are_absent():
    for one in vars(answers).values():
        assert one.findings(tables.make_table([], one.table)) == [], one.name
