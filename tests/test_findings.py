"""Findings as data, and the words that they share."""

import json

import numpy as np
import pytest

from biaslab.findings import Finding, count, interval, moved, none_could, spoken


def test_what_is_said_where_no_outcome_could():
    said = none_could("6 people", 1.7, 0.05, takes=12, of="people")
    assert said == (
        "with 6 people each no outcome could be significant: corrected, p is 1 at least, not below 0.05; "
        "it takes 12 people each"
    )


def test_an_answer_is_short_and_a_question_is_one():
    with pytest.raises(ValueError, match="21 words"):
        Finding("Is it so?", " ".join(["word"] * 21))
    with pytest.raises(ValueError, match="ends in"):
        Finding("It is so", "Yes.")


def test_a_record_has_no_missing_numbers_and_none_of_numpys():
    found = Finding(
        "Is it so?", "Yes.", "SD", np.float64(1.25), n=np.int64(62), unit="points", of="occupations"
    )
    record = json.loads(json.dumps(found.as_record(), allow_nan=False))
    assert record["estimate"] == 1.25 and record["n"] == 62 and record["ci_low"] is None
    assert record["numbers"] == found.numbers == "1.25 points (no interval; n = 62 occupations)"


def test_numbers_have_the_digits_that_a_sentence_needs():
    assert [spoken(v) for v in (0.123, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]
    assert count(1, "image", "images") == "1 image" and count(1200, "image", "images") == "1,200 images"
    assert interval({"ci_low": 0.5, "ci_high": 10.04}) == "0.50 to 10.0"
    assert interval({"ci_low": float("nan"), "ci_high": 1.0}) == "no interval"


def test_a_direction_is_named_only_where_the_interval_shows_it():
    words = "up", "down", "neither"
    assert [
        moved(*ends, *words) for ends in ((1, 2), (-2, -1), (-1, 1), (float("nan"),) * 2, (1e-12, 1))
    ] == [
        "up",
        "down",
        "neither",
        "neither",
        "neither",
    ]
