"""Answers as data: texts by form, numbers by hand, and every answer of a paper checked against its table."""

from dataclasses import replace
from pathlib import Path
from string import Formatter

import numpy as np
import pandas as pd
import pytest
import yaml

from biaslab import plugins
from biaslab.errors import InputError
from biaslab.papers import answers
from biaslab.papers.findings import adjust_across_report
from biaslab.schema import tables

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "biaslab").glob("*/*/answers.yaml"))
FOLDERS += [folder for folder in plugins.notebook_folders().values() if (folder / "answers.yaml").is_file()]
# Models above 0, below it and not significant; for the last the correction exceeds the estimate.
ROWS = pd.DataFrame(
    [
        ("up", "paper", 4.0, 2.0, 6.0, 0.001, 4.5, 40),
        ("up", "signed", 2.0, 1.0, 3.0, 0.01, 2.0, 62),
        ("down", "paper", -3.0, -5.0, -1.0, 0.02, -3.0, 40),
        ("none", "paper", 1.0, -1.0, 3.0, 0.3, 1.1, 40),
        ("noise", "paper", 1.0, 0.5, 1.5, 0.001, 4.0, 40),
    ],
    columns=[
        "model",
        "definition",
        "amplification_corrected",
        "ci_low",
        "ci_high",
        "p",
        "amplification",
        "n_occupations",
    ],
)


@pytest.fixture
def answer(tmp_path):
    """Return the answer that an entry declares, by default for the table of amplification."""

    def declared(**entry):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        whole = {
            "table": "paradox_amplification",
            "question": "Is it amplified?",
            "value": "amplification_corrected",
        } | entry
        (folder / "answers.yaml").write_text(yaml.safe_dump({"asked": whole}))
        return answers.load_answers(folder).asked

    return declared


VERDICT = {
    "up": "Yes, by {amplification_corrected}.",
    "down": "No: by {amplification_corrected:abs} less.",
    "not_significant": "Not told.",
}
COUNTED = {"p": "p", "n": "n_occupations", **VERDICT}


def test_answer_verdict_by_direction_and_significance(answer):
    result = answer(rows={"definition": "paper"}, uncorrected="amplification", **COUNTED).findings(ROWS)
    assert [one.supported_answer for one in result] == ["Yes, by 4.00.", "No: by 3.00 less.", "Not told.", "Not told."]
    assert [one.model for one in result] == ["up", "down", "none", "noise"]
    # Units and what n counts are the columns' own.
    assert result[0].numbers == "4.00 points (2.00 to 6.00; n = 40 occupations)"
    # The correction is 3 of 4 points: larger than the estimate of 1, and than half of the interval.
    assert result[3].details == (
        "Corrected for small-sample bias; uncorrected: 4.00 points.",
        "The correction for small-sample bias exceeds the corrected estimate, which is not called significant.",
    )
    # Both estimates are given if their formatted values differ: 4 and 4.5, -3 twice, 1 and 1.1.
    detail = "Corrected for small-sample bias; uncorrected: {} points."
    assert [one.details for one in result[:3]] == [(detail.format("4.50"),), (), (detail.format("1.10"),)]


def test_answer_without_p_is_not_tested(answer):
    one = answer(rows={"definition": "paper"}, **COUNTED)
    assert {f.supported_answer for f in one.findings(ROWS.assign(p=np.nan))} == {"Not tested."}
    assert {f.supported_answer for f in one.findings(ROWS.assign(n_occupations=5))} == {
        "Inconclusive (only 5 occupations)."
    }
    # Student's t test is allowed from five.
    by_t = answer(rows={"definition": "paper"}, test="t", **COUNTED).findings(ROWS.assign(n_occupations=5))
    assert by_t[0].supported_answer == "Yes, by 4.00." and by_t[0].as_record()["details"] == [
        "Student's t-test over 5 occupations."
    ]


def test_answer_explains_p_and_interval_mismatch(answer):
    one = answer(rows={"definition": "paper"}, **COUNTED)
    # The interval of 2 to 6 excludes 0, p adjusted for other tests does not reach the level.
    adjusted, *_ = one.findings(ROWS.assign(p=0.07))
    assert adjusted.supported_answer == "Not told." and adjusted.p == 0.07
    assert adjusted.details == ("The unadjusted interval excludes 0; the test has p = 0.07.",)
    # The interval of -1 to 3 includes 0: nothing is claimed, and the report counts it with p = 1.
    included = one.findings(ROWS.assign(p=0.01))[2]
    assert included.supported_answer == "Not told." and included.p == 1.0 and included.is_tested
    assert included.details == ("The interval includes 0, although the test has p = 0.01.",)
    assert not any(result.details for result in one.findings(ROWS))


def test_answer_of_group_uses_primary_row(answer):
    lead = {"group_by": "model", "primary": {"definition": "signed"}, "row_text": "{definition}: {interval}."}
    (result,) = answer(**lead, mark_name="{definition}", **COUNTED).findings(ROWS)
    assert (result.supported_answer, result.n) == ("Yes, by 2.00.", 62)
    assert [(m.name, m.estimate, m.ci_low) for m in result.marks] == [
        ("paper's definition", 4.0, 2.0),
        ("signed change", 2.0, 1.0),
    ]
    assert result.details == ("paper's definition: 2.00 to 6.00.",)


def test_answer_of_group_counts_tests(answer):
    counted = answer(
        group_by="definition",
        answer="{up} up, {down} down, {unclear} open of {rows}.",
        not_significant="Nothing can be told.",
        p="p",
        n="n_occupations",
        row_text="{model} {amplification_corrected:.1f}",
        rows={"definition": "paper"},
    )
    (result,) = counted.findings(ROWS)
    assert (
        result.supported_answer == "2 up, 1 down, 1 open of 4."
        and result.p == 0.001
        and not np.isfinite(result.estimate)
    )
    assert result.details == ("up 4.0; down -3.0; none 1.0; noise 1.0.",)
    (strict,) = counted.findings(ROWS, confidence=0.9999)
    assert strict.supported_answer == "Nothing can be told."
    (none,) = counted.findings(ROWS.assign(p=np.nan))
    assert none.supported_answer == "Not tested." and not none.is_significant
    # A row on too few units is not counted, although its p is below the level.
    (few,) = counted.findings(ROWS.assign(n_occupations=[5, 62, 40, 40, 40]))
    assert few.supported_answer == "1 up, 1 down, 2 open of 4." and few.p == 0.001


def test_level_of_untested_finding_follows_confidence(answer):
    (tested,) = answer(**VERDICT, rows={"definition": "signed"}).findings(ROWS, confidence=0.8)
    (untested,) = answer(answer="{amplification} points.", rows={"definition": "signed"}).findings(ROWS, confidence=0.8)
    records = [{**finding.as_record(), "main": True} for finding in (tested, untested)]
    # The report's level is the smallest of its findings: 1 - 0.8.
    assert adjust_across_report(records)[1]["alpha"] == pytest.approx(0.2)


def test_counted_answer_with_primary_row_has_estimate(answer):
    texts = {
        "answer": "{each}.",
        "significant_text": "{amplification_corrected} ({definition})",
        "nonsignificant_text": "{amplification_corrected} (no)",
    }
    lead = {
        "group_by": "model",
        "primary": {"definition": "signed"},
        "p": "p",
        "n": "n_occupations",
        "not_significant": "None.",
    }
    rows = ROWS[ROWS["model"] == "up"].assign(p=[0.001, 0.4])
    (result,) = answer(**texts, **lead).findings(rows)
    assert result.supported_answer == "4.00 (paper's definition); 2.00 (no)."
    assert (result.estimate, result.ci_low, result.n, result.p) == (2.0, 1.0, 62, 0.001)


def test_counted_answer_of_several_models_names_all(answer):
    counted = {"group_by": "definition", "value": "", "answer": "{up} of {rows}.", "not_significant": "None.", "p": "p"}
    result = answer(**counted).findings(ROWS)
    assert [(one.supported_answer, one.model) for one in result] == [
        ("3 of 4.", "up, down, none, noise"),
        ("1 of 1.", "up"),
    ]


def test_counted_answer_without_attainable_p_is_inconclusive(answer):
    counted = answer(
        group_by="definition",
        answer="{up} up.",
        not_significant="None of {rows}.",
        p="p",
        min_attainable_p="least",
        n="n_occupations",
    )
    rows = ROWS[ROWS["definition"] == "paper"].assign(p=0.4)
    # Adjusted over four rows the smallest attainable p is four times as large.
    open_ = "Inconclusive: no test could be significant with so few observations."
    for least, words in ((0.012, "None of 4."), (0.013, open_)):
        (result,) = counted.findings(rows.assign(least=least))
        assert result.supported_answer == words


def test_answer_fallback_covers_other_rows(answer):
    one = answer(
        rows={"definition": "paper"},
        require="amplification_corrected",
        fallback={
            "value": "amplification",
            "require": [],
            "up": "",
            "answer": "Plainly {amplification}.",
        }
        | {"fallback": {"rows": {"definition": "signed"}, "answer": "By direction.", "details": "{model}."}},
        **COUNTED,
    )
    rows = ROWS.assign(amplification_corrected=ROWS["amplification_corrected"].where(ROWS["model"] != "down"))
    result = one.findings(rows)
    assert [(f.model, f.supported_answer, f.estimate) for f in result] == [
        ("up", "Yes, by 4.00.", 4.0),
        ("none", "Not told.", 1.0),
        ("noise", "Yes, by 1.00.", 1.0),
        ("down", "Plainly -3.00.", -3.0),
        ("up", "By direction.", 2.0),
    ]
    assert not result[3].not_significant and result[4].details == ("up.",)
    # Their question has a test, so a report counts them among its headlines.
    assert [f.has_declared_test for f in result] == [False, False, False, True, True]
    with pytest.raises(InputError, match=r"'answr'"):
        answer(fallback={"answr": "Yes."})


def test_answer_omits_texts_with_missing_numbers(answer):
    one = answer(answer="It is {amplification_corrected}.", details=["p is {p}.", "Of {n_occupations:.0f}."])
    result = one.findings(
        ROWS.assign(p=[np.nan, 0.5, *ROWS["p"][2:]], amplification_corrected=[1.0, np.nan, 2.0, 3.0, 4.0])
    )
    assert [f.details for f in result[:2]] == [("Of 40.",), ("p is 0.02.", "Of 40.")] and len(result) == 4
    one = answer(answer="Yes.", details=["It is {definition}."])
    assert one.findings(ROWS.assign(definition=""))[0].details == ()


def test_shares_are_given_in_points_and_units_may_be_columns(answer):
    rows = ROWS[ROWS["model"] == "down"].assign(scale="0 to 0.5", sample="triplets")
    shares = {name: rows[name] / 100 for name in ("amplification_corrected", "ci_low", "ci_high")}
    one = answer(answer="It is {amplification_corrected} points.", as_points=[*shares], n="n_occupations")
    (result,) = one.findings(rows.assign(**shares))
    assert (result.answer, result.estimate, result.ci_low) == ("It is -3.00 points.", -3, -5)
    one = answer(answer="{value_with_unit}.", unit="{scale}", n="n_occupations", n_unit="{sample}")
    (result,) = one.findings(rows)
    assert result.answer == "-3.00 on a scale of 0 to 0.5."
    assert result.numbers == "-3.00 on a scale of 0 to 0.5 (-5.00 to -1.00; n = 40 triplets)"


def test_answer_simulated_note_depends_on_row(answer, monkeypatch):
    monkeypatch.setattr(answers.registry, "describe", lambda name, entry: f"{name}: {entry}.")
    (result, *_) = answer(simulated="paradox_{definition}", **COUNTED).findings(ROWS)
    assert result.details == ("up: paradox_paper.",)


def test_load_answers_names_invalid_entries(answer, tmp_path):
    with pytest.raises(InputError, match=r"no column 'p'"):
        answer(**COUNTED).findings(ROWS.drop(columns="p"))
    with pytest.raises(InputError, match=r"'upp'.*'up'"):
        answer(upp="Yes.")
    with pytest.raises(InputError, match=r"asked lacks 'table'"):
        (tmp_path / "answers.yaml").write_text("asked: {question: Is it?}")
        answers.load_answers(tmp_path)


def column_names(one):
    """Yield the columns that an answer names, in its fields, texts and fallback."""
    yield from filter(
        None, (*one.rows, *one.require, *one.group_by, *one.primary, one.value, one.uncorrected, one.p, one.n)
    )
    ways = one.answer, one.up, one.down, one.not_significant, one.significant_text, one.nonsignificant_text
    for text in (one.question, *ways, one.mark_name, one.row_text, one.simulated, *one.details):
        yield from (name for _, name, *_ in Formatter().parse(text) if name)
    yield from column_names(replace(one, **{"fallback": {}, **one.fallback})) if one.fallback else ()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_answers_use_columns_of_their_table(folder):
    for name, one in vars(answers.load_answers(folder)).items():
        assert one.table in tables.schemas(), name
        known_columns = {c.name for c in tables.schema(one.table).columns} | {
            "interval",
            "value_with_unit",
            *one.columns,
        }
        known_columns |= set(answers.COUNTS) if one.group_by and not one.up else set()
        # A verdict has a test.
        assert one.p or not one.not_significant, name
        assert set(column_names(one)) - known_columns == set(), name
        assert one.answer or (one.up and one.down and one.not_significant and one.value), name
        assert one.question.endswith("?"), name
