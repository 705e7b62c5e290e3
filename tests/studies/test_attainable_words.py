"""Counts of significant results that could not be other than 0 are not said, in the papers that count them."""

import pandas as pd

from biaslab.findings import none_could
from biaslab.studies import paradox_words


def test_leans_that_no_interval_could_be_clear_of_are_not_counted():
    rows = pd.DataFrame(
        {
            "model": "SD",
            "p_holm": [float("nan")] * 2,
            "lean_flips": ["yes", "no"],
            "flip_possible": ["no", "no"],
            "sd_prompts": [10.0, 20.0],
            "sd_noise": [9.0, 9.0],
        }
    )
    (said,) = paradox_words.headlines_variation(rows)
    assert "0 with intervals" not in said and "so few images cannot show" in said
    (said,) = paradox_words.headlines_variation(rows.assign(flip_possible="yes"))
    assert "0 with intervals clear of 50" in said


def test_what_is_said_where_no_outcome_could():
    said = none_could("6 people", 1.7, 0.05, takes=12, of="people")
    assert said == (
        "with 6 people each no outcome could be significant: corrected, p is 1 at least, not below 0.05; "
        "it takes 12 people each"
    )
