"""Whether a caption shows the people it names: the rule, the labels, and what was measured on them."""

import gcc
import labelled_lines
import pandas as pd
import pytest

from biaslab import lexicons
from biaslab.prompts import depicted
from biaslab.prompts.triplets import excluding

SHOWN = [
    "person performs on stage",
    "Person walking up the stairs",
    "a person in a red coat",
    "people walk past a building",
    "view of person using a laptop",
    "person, left, holds a flag",
    "person quickly climbs a wall",
    "many people wearing masks",
]
NOT_SHOWN = [
    "photo by person",
    "person says it is on sale",
    "statue of person at the entrance",
    "image may contain: person, on stage, playing",
    "you and a person in the park",
    "the island of person with palms",
    "person was designed by architect",
    "person of the year . a dog in the snow",
    "person themed prints",
    "people will gather in the park",
    "person in the arms of a businessman",
    "person performs at the show in person",
    "person",
    "a dog in the snow",
    "",
]


@pytest.mark.parametrize("text", SHOWN)
def test_shown(text):
    assert depicted.shows_people(text) and depicted.shows_people(text.upper())


@pytest.mark.parametrize("text", NOT_SHOWN)
def test_not_shown(text):
    assert not depicted.shows_people(text)


def test_reach_is_three_tokens():
    assert depicted.shows_people("person of great charm in the snow") is False
    assert depicted.shows_people("person so glad in the snow")


def test_odd_text_is_read_like_any():
    assert not depicted.shows_people("person " * 20_000 + "\ud800 ſ İ")
    assert not depicted.shows_people("\x00" * 1000)


def test_gendered_nouns_are_beyond_table_2():
    nouns = set(lexicons.load("gendered_nouns"))
    assert nouns and not nouns & set(excluding())


def test_what_was_measured_is_measured_again(root):
    again = labelled_lines.agreement(gcc.captions(root))
    pd.testing.assert_frame_equal(depicted.measured(), again, check_dtype=False, atol=1e-3)


def test_the_rule_is_as_good_as_was_said():
    rows = depicted.measured().set_index(["split", "target", "statistic"])
    # On lines that the rule was not made with: about five in six kept captions can be used (95 % limits), and its
    # limits do not exclude nine in ten.
    precision, recall = (rows.loc[("test", "usable", s)] for s in ("precision", "recall"))
    assert precision["ci_low"] > 70 and precision["ci_high"] > 90
    assert recall["ci_low"] > 50
    # Without the rule, fewer than half of the neutral captions can be used.
    for split in labelled_lines.SPLITS:
        share = rows.loc[(split, "usable", "recall"), "n"] / len(labelled_lines.labels(split))
        assert share < 0.5 < rows.loc[(split, "usable", "precision"), "ci_low"] / 100
