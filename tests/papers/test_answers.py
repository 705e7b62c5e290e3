"""Answers as data: words by form, numbers by hand, and every answer of a paper against the table that it names."""

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
# Three models: above 0, below it, and not told; of the last more is corrected than is left.
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
    """Return the answer that an entry declares, of the table of amplification where it names none."""

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


def test_a_row_is_told_above_below_or_not_at_all(answer):
    found = answer(rows={"definition": "paper"}, uncorrected="amplification", **COUNTED).findings(ROWS)
    assert [one.supported_answer for one in found] == ["Yes, by 4.00.", "No: by 3.00 less.", "Not told.", "Not told."]
    assert [one.model for one in found] == ["up", "down", "none", "noise"]
    # Units and what n counts are the columns' own.
    assert found[0].numbers == "4.00 points (2.00 to 6.00; n = 40 occupations)"
    # 3 of 4 points are taken off, and 1 is left: larger than what is left, and than half of the interval.
    assert found[3].details == (
        "Corrected for small-sample bias; uncorrected: 4.00 points.",
        "The correction for small-sample bias exceeds the corrected estimate, which is not called significant.",
    )
    # Both estimates are given wherever they differ, as they are written: 4 and 4.5, -3 twice, 1 and 1.1.
    said = "Corrected for small-sample bias; uncorrected: {} points."
    assert [one.details for one in found[:3]] == [(said.format("4.50"),), (), (said.format("1.10"),)]


def test_rows_without_a_test_are_not_tested_whatever_their_limits(answer):
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


def test_verdict_and_interval_that_disagree_say_why(answer):
    one = answer(rows={"definition": "paper"}, **COUNTED)
    # The interval of 2 to 6 excludes 0, p adjusted for other tests does not reach the level.
    adjusted, *_ = one.findings(ROWS.assign(p=0.07))
    assert adjusted.supported_answer == "Not told." and adjusted.p == 0.07
    assert adjusted.details == ("The unadjusted interval excludes 0; the test has p = 0.07.",)
    # The interval of -1 to 3 includes 0: nothing is claimed, and the report counts it with p = 1.
    included = one.findings(ROWS.assign(p=0.01))[2]
    assert included.supported_answer == "Not told." and included.p == 1.0 and included.is_tested
    assert included.details == ("The interval includes 0, although the test has p = 0.01.",)
    assert not any(found.details for found in one.findings(ROWS))


def test_a_group_speaks_by_its_leading_row_and_shows_the_others_beside_it(answer):
    lead = {"group_by": "model", "primary": {"definition": "signed"}, "row_text": "{definition}: {interval}."}
    (found,) = answer(**lead, mark_name="{definition}", **COUNTED).findings(ROWS)
    assert (found.supported_answer, found.n) == ("Yes, by 2.00.", 62)
    assert [(m.name, m.estimate, m.ci_low) for m in found.marks] == [
        ("paper's definition", 4.0, 2.0),
        ("signed change", 2.0, 1.0),
    ]
    assert found.details == ("paper's definition: 2.00 to 6.00.",)


def test_a_group_is_counted_by_its_tests(answer):
    counted = answer(
        group_by="definition",
        answer="{up} up, {down} down, {unclear} open of {rows}.",
        not_significant="Nothing can be told.",
        p="p",
        n="n_occupations",
        row_text="{model} {amplification_corrected:.1f}",
        rows={"definition": "paper"},
    )
    (found,) = counted.findings(ROWS)
    assert (
        found.supported_answer == "2 up, 1 down, 1 open of 4." and found.p == 0.001 and not np.isfinite(found.estimate)
    )
    assert found.details == ("up 4.0; down -3.0; none 1.0; noise 1.0.",)
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


def test_counted_answer_with_a_leading_row_has_its_estimate_and_says_which_rows_are_significant(answer):
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
    (found,) = answer(**texts, **lead).findings(rows)
    assert found.supported_answer == "4.00 (paper's definition); 2.00 (no)."
    assert (found.estimate, found.ci_low, found.n, found.p) == (2.0, 1.0, 62, 0.001)


def test_tests_without_a_direction_are_counted_and_several_models_are_none(answer):
    counted = {"group_by": "definition", "value": "", "answer": "{up} of {rows}.", "not_significant": "None.", "p": "p"}
    found = answer(**counted).findings(ROWS)
    assert [(one.supported_answer, one.model) for one in found] == [("3 of 4.", ""), ("1 of 1.", "up")]


def test_a_count_that_could_not_have_come_out_otherwise_says_so(answer):
    counted = answer(
        group_by="definition",
        answer="{up} up.",
        not_significant="None of {rows}.",
        p="p",
        min_attainable_p="least",
        n="n_occupations",
    )
    rows = ROWS[ROWS["definition"] == "paper"].assign(p=0.4)
    # Adjusted over four rows the least p is four times as large.
    open_ = "Inconclusive: no test could be significant with so few observations."
    for least, words in ((0.012, "None of 4."), (0.013, open_)):
        (found,) = counted.findings(rows.assign(least=least))
        assert found.supported_answer == words


def test_rows_that_an_entry_does_not_take_have_other_words_or_another_value(answer):
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
    found = one.findings(rows)
    assert [(f.model, f.supported_answer, f.estimate) for f in found] == [
        ("up", "Yes, by 4.00.", 4.0),
        ("none", "Not told.", 1.0),
        ("noise", "Yes, by 1.00.", 1.0),
        ("down", "Plainly -3.00.", -3.0),
        ("up", "By direction.", 2.0),
    ]
    assert not found[3].not_significant and found[4].details == ("up.",)
    # Their question has a test, so a report counts them among its headlines.
    assert [f.has_declared_test for f in found] == [False, False, False, True, True]
    with pytest.raises(InputError, match=r"'answr'"):
        answer(fallback={"answr": "Yes."})


def test_what_needs_a_missing_number_is_left_out(answer):
    one = answer(answer="It is {amplification_corrected}.", details=["p is {p}.", "Of {n_occupations:.0f}."])
    found = one.findings(
        ROWS.assign(p=[np.nan, 0.5, *ROWS["p"][2:]], amplification_corrected=[1.0, np.nan, 2.0, 3.0, 4.0])
    )
    assert [f.details for f in found[:2]] == [("Of 40.",), ("p is 0.02.", "Of 40.")] and len(found) == 4
    one = answer(answer="Yes.", details=["It is {definition}."])
    assert one.findings(ROWS.assign(definition=""))[0].details == ()


def test_shares_are_given_in_points_and_units_may_be_columns(answer):
    rows = ROWS[ROWS["model"] == "down"].assign(scale="0 to 0.5", sample="triplets")
    shares = {name: rows[name] / 100 for name in ("amplification_corrected", "ci_low", "ci_high")}
    one = answer(answer="It is {amplification_corrected} points.", as_points=[*shares], n="n_occupations")
    (found,) = one.findings(rows.assign(**shares))
    assert (found.answer, found.estimate, found.ci_low) == ("It is -3.00 points.", -3, -5)
    one = answer(answer="{value_with_unit}.", unit="{scale}", n="n_occupations", n_unit="{sample}")
    (found,) = one.findings(rows)
    assert found.answer == "-3.00 on a scale of 0 to 0.5."
    assert found.numbers == "-3.00 on a scale of 0 to 0.5 (-5.00 to -1.00; n = 40 triplets)"


def test_what_was_planted_may_depend_on_the_row(answer, monkeypatch):
    monkeypatch.setattr(answers.registry, "describe", lambda name, entry: f"{name}: {entry}.")
    (found, *_) = answer(simulated="paradox_{definition}", **COUNTED).findings(ROWS)
    assert found.details == ("up: paradox_paper.",)


def test_faults_of_declarations_and_of_rows_are_named(answer, tmp_path):
    with pytest.raises(InputError, match=r"no column 'p'"):
        answer(**COUNTED).findings(ROWS.drop(columns="p"))
    with pytest.raises(InputError, match=r"'upp'.*'up'"):
        answer(upp="Yes.")
    with pytest.raises(InputError, match=r"asked has no table"):
        (tmp_path / "answers.yaml").write_text("asked: {question: Is it?}")
        answers.load_answers(tmp_path)


def named(one):
    """Yield the columns that an answer names, in its fields and in its texts, and those that it has instead."""
    yield from filter(
        None, (*one.rows, *one.require, *one.group_by, *one.primary, one.value, one.uncorrected, one.p, one.n)
    )
    ways = one.answer, one.up, one.down, one.not_significant, one.significant_text, one.nonsignificant_text
    for text in (one.question, *ways, one.mark_name, one.row_text, one.simulated, *one.details):
        yield from (name for _, name, *_ in Formatter().parse(text) if name)
    yield from named(replace(one, **{"fallback": {}, **one.fallback})) if one.fallback else ()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_answers_name_columns_of_their_table(folder):
    for name, one in vars(answers.load_answers(folder)).items():
        assert one.table in tables.schemas(), name
        known = {c.name for c in tables.schema(one.table).columns} | {"interval", "value_with_unit", *one.columns}
        known |= set(answers.COUNTS) if one.group_by and not one.up else set()
        # A verdict has a test.
        assert one.p or not one.not_significant, name
        assert set(named(one)) - known == set(), name
        assert one.answer or (one.up and one.down and one.not_significant and one.value), name
        assert one.question.endswith("?"), name
