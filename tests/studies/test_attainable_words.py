"""Counts of significant results that could not be other than 0 are not said, in the papers that count them."""

import pandas as pd

from biaslab.findings import none_could
from biaslab.studies import dalleval_words, paradox_words


def test_professions_of_nine_images_are_not_counted_after_holm():
    balance = {"n": 83, "n_p05": 7, "n_holm": 0, "n_bh": 2}
    rows = [{"model": "few", "smallest_possible_p": 2 * 0.5**9} | balance]
    rows.append({"model": "many", "smallest_possible_p": 2 * 0.5**40} | balance)
    said = dalleval_words.gender_balance(pd.DataFrame(rows))
    # 83 · 2 · 0.5^9 = 0.32; it falls below 0.05 from 12 images on. After Benjamini and Hochberg's some could.
    assert "few 7 of 83 (2 after Benjamini-Hochberg)" in said and "it takes 12 images of each" in said
    assert "many 7 of 83 (0 after Holm, 2 after Benjamini-Hochberg)" in said
    assert "many: p cannot fall" not in said


def test_attributes_of_few_prompt_pairs_are_not_counted():
    rows = pd.DataFrame(
        {
            "model": ["a"] * 2,
            "comparison": ["woman - man"] * 2,
            "attribute": ["tie", "suit"],
            "difference": [0.5, 0.1],
            "p_holm": [0.25, 0.5],
            "smallest_possible_p": [0.125] * 2,
            "n": [4] * 2,
        }
    )
    said = dalleval_words.attribute_difference(rows, 0.95)
    assert "0 of 2" not in said and "With 4 prompt pairs no outcome could be significant" in said


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
