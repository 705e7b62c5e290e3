"""Findings as data, and the words that they share."""

import json

import numpy as np
import pytest

from biaslab.ground.wording import count, durations, interval, moved, spoken
from biaslab.papers.findings import Finding, held_together


def test_an_answer_is_short_and_a_question_is_one():
    with pytest.raises(ValueError, match="21 words"):
        Finding("Is it so?", " ".join(["word"] * 21))
    with pytest.raises(ValueError, match="ends in"):
        Finding("It is so", "Yes.")


def test_a_record_has_no_missing_numbers_and_none_of_numpys():
    found = Finding("Is it so?", "Yes.", "SD", np.float64(1.25), n=np.int64(62), unit="points", of="occupations")
    record = json.loads(json.dumps(found.as_record(), allow_nan=False))
    assert record["estimate"] == 1.25 and record["n"] == 62 and record["ci_low"] is None
    assert record["numbers"] == found.numbers == "1.25 points (no interval; n = 62 occupations)"


def test_a_notebook_shows_a_finding_as_text_and_its_words_as_they_are():
    found = Finding("Is <b> so?", "Yes & no.", "SD", 1.25, unit="points", details=("More.", "1 < 2."))
    assert found._repr_html_() == (
        "<p><b>SD: Is &lt;b&gt; so?</b> Yes &amp; no. 1.25 points (no interval).</p>"
        "<p><small>More. 1 &lt; 2.</small></p>"
    )


def test_numbers_have_the_digits_that_a_sentence_needs():
    assert [spoken(v) for v in (0.123, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]
    # What rounds to nothing has no sign.
    assert [spoken(v) for v in (-0.004, -0.006, -0.0)] == ["0.00", "-0.01", "0.00"]
    assert count(1, "image", "images") == "1 image" and count(1200, "image", "images") == "1,200 images"
    assert interval({"ci_low": 0.5, "ci_high": 10.04}) == "0.50 to 10.0"
    assert interval({"ci_low": float("nan"), "ci_high": 1.0}) == "no interval"
    told = [durations(*ends) for ends in ((2.9, 4.02), (90, 150), (3600, 9000))]
    assert told == ["2.9 to 4 seconds", "1.5 to 2.5 minutes", "1 to 2.5 hours"]


def test_a_direction_is_named_only_where_the_interval_shows_it():
    ends = {(1, 2): "up", (-2, -1): "down", (-1, 1): "0", (float("nan"),) * 2: "0", (1e-12, 1): "0"}
    assert [moved(*limits, "up", "down", "0") for limits in ends] == [*ends.values()]


def verdict(p, *, n=62, estimate=1.0, main=True, **more):
    """Return the record of a verdict as a study writes it."""
    said = {"undecided": "It cannot be told.", "p": p, "n": n, "of": "occupations", "estimate": estimate}
    return Finding("Is there more?", "More.", **said | more).as_record() | {"main": main}


def test_a_verdict_stands_where_its_test_reaches_the_level():
    assert [verdict(p)["answer"] for p in (0.049, 0.05)] == ["More.", "It cannot be told."]
    assert [verdict(p, alpha=0.01)["decided"] for p in (0.009, 0.01)] == [True, False]
    # Without an undecided answer it is a description, and p changes nothing.
    assert Finding("How many?", "Five.", p=0.9).said == "Five."


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 6), (0.01, 8), (0.1, 5)])
def test_no_verdict_rests_on_fewer_units_than_an_exact_test_takes(alpha, least):
    # All of n alike: 2 * 0.5**5 = 0.0625 and 2 * 0.5**6 = 0.031; 2 * 0.5**8 = 0.0078; 2 * 0.5**5 = 0.0625 < 0.1.
    few, enough = (verdict(0.001 * alpha, n=n, alpha=alpha) for n in (least - 1, least))
    assert few["answer"] == "It cannot be told." and enough["answer"] == "More."
    assert few["details"] == [f"A verdict takes {least} occupations or more."] and not enough["details"]
    # Also where an interval decides.
    assert verdict(float("nan"), n=1)["answer"] == "It cannot be told."


def test_what_is_counted_once_is_singular():
    counted = {"triplets": "triplet", "people": "person", "identities": "identity", "images (naive)": "image (naive)"}
    for many, one in counted.items():
        assert Finding("Is it?", "Yes.", estimate=1.0, n=1, of=many).numbers == f"1.00 (no interval; n = 1 {one})"
        assert Finding("Is it?", "Yes.", estimate=1.0, n=2, of=many).numbers.endswith(f"n = 2 {many})")


def test_a_page_holds_its_level_over_its_main_verdicts():
    # Holm by hand over three tests: 3 * 0.01 = 0.03, 2 * 0.03 = 0.06, 0.5.
    records = [
        verdict(0.03),
        verdict(0.01),
        verdict(0.5),
        verdict(0.04, main=False),
        Finding("How many?", "Five.", n=62).as_record() | {"main": True},
        verdict(0.0001, n=3),
        verdict(float("nan")),
    ]
    held, counts = held_together(records)
    undecided = "It cannot be told."
    # One of too few units says nothing, but was tested: it counts against the others.
    assert counts["tested"] == 4 and counts["stand"] == 1
    answers = [undecided, "More.", undecided, "More.", "Five.", undecided, undecided]
    assert [record["answer"] for record in held] == answers
    assert held[1]["p_page"] == pytest.approx(0.03)
    assert held[0]["details"][-1] == "Alone p = 0.03, over the page p = 0.06."
    assert (counts["withdrawn"], counts["others"], counts["others_stand"]) == (2, 1, 1)
    numbers = ("tested", "stand", "withdrawn", "others", "others_stand")
    assert held_together([]) == ([], counts | dict.fromkeys(numbers, 0))


def test_what_is_measured_beside_printed_numbers_moves_no_verdict_on_them():
    printed = verdict(0.04) | {"printed": True}
    alone, beside = ([printed], [printed, *(verdict(0.5) for _ in range(20))])
    assert [held_together(records)[0][0]["p_page"] for records in (alone, beside)] == [0.04, 0.04]
    # And the other way round: 2 * 0.04.
    assert held_together([verdict(0.04), verdict(0.9), printed])[0][0]["p_page"] == 0.08
