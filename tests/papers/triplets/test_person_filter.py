"""Whether a caption depicts the people it names: the rule, the labels, and its error rates."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import gcc
import pandas as pd
import pytest

from biaslab import lexicons, stats
from biaslab.papers.triplets import person_filter
from biaslab.papers.triplets.prompts import excluded_forms

SHOWN = [
    "person performs on stage",
    "Person walking up the stairs",
    "a person in a red coat",
    "people walk past a building",
    "view of person using a laptop",
    "person, left, holds a flag",
    "person quickly climbs a wall",
    "many people wearing masks",
    # Three tokens are read.
    "person so glad in the snow",
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
    "person of great charm in the snow",
    "person themed prints",
    "people will gather in the park",
    "person in the arms of a businessman",
    "person performs at the show in person",
    "person",
    "a dog in the snow",
    "",
]


@pytest.mark.parametrize("text", SHOWN)
def test_shows_people_accepts_depicted_people(text):
    assert person_filter.shows_people(text) and person_filter.shows_people(text.upper())


@pytest.mark.parametrize("text", NOT_SHOWN)
def test_shows_people_rejects_undepicted_people(text):
    assert not person_filter.shows_people(text)


def test_shows_people_handles_odd_text():
    assert not person_filter.shows_people("person " * 20_000 + "\ud800 ſ İ")
    assert not person_filter.shows_people("\x00" * 1000)


def test_gendered_nouns_are_not_in_table_2():
    nouns = set(lexicons.load("gendered_nouns"))
    assert nouns and not nouns & set(excluded_forms())


# -- lines of GCC's validation split labelled by hand, as described in depicted_labels.md -------------------------

SPLITS = ("dev", "test")
_LABELS = Path(__file__).parent / "depicted_labels.csv"


def labels(split: str) -> pd.DataFrame:
    """Return the labelled lines of ``dev`` (400) or ``test`` (200)."""
    table = pd.read_csv(_LABELS, dtype={"sha256": str})
    return table[table["split"] == split].reset_index(drop=True)


def agreement(captions: Sequence[str]) -> pd.DataFrame:
    """Return how well the rule agrees with the labels, as :func:`person_filter.error_rates` has it.

    ``captions`` are all lines of the file, in order.
    """
    rows = []
    for split in SPLITS:
        table = labels(split)
        texts = [captions[line - 1] for line in table["line"]]
        # These are the labelled lines.
        assert [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts] == table["sha256"].tolist()
        predicted_usable = pd.Series([person_filter.shows_people(text) for text in texts])
        yes = table[["depicted", "grammatical", "no_other_cue"]] == "yes"
        for target, true in {"usable": yes.all(axis=1), "depicted": yes["depicted"]}.items():
            right = int((true & predicted_usable).sum())
            rows += [(split, target, "precision", right, int(predicted_usable.sum()))]
            rows += [(split, target, "recall", right, int(true.sum()))]
    result = pd.DataFrame(rows, columns=["split", "target", "statistic", "count", "n"])
    value, low, high = stats.percent(result["count"], result["n"])
    return result.assign(value=value, ci_low=low, ci_high=high)


def test_error_rates_match_labelled_lines(root):
    recomputed = agreement(gcc.captions(root))
    pd.testing.assert_frame_equal(person_filter.error_rates(), recomputed, check_dtype=False, atol=1e-3)


def test_error_rates_support_stated_precision():
    rows = person_filter.error_rates().set_index(["split", "target", "statistic"])
    # On lines not used to develop the rule: about five in six accepted captions are usable (95% limits), and its
    # limits include nine in ten.
    precision, recall = (rows.loc[("test", "usable", s)] for s in ("precision", "recall"))
    assert precision["ci_low"] > 70 and precision["ci_high"] > 90
    assert recall["ci_low"] > 50
    # Without the rule, fewer than half of the neutral captions are usable.
    for split in SPLITS:
        share = rows.loc[(split, "usable", "recall"), "n"] / len(labels(split))
        assert share < 0.5 < rows.loc[(split, "usable", "precision"), "ci_low"] / 100
