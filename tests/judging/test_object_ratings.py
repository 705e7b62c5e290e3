"""What people say images show: majorities, and what does not fit."""

import pandas as pd
import pytest

from biaslab.ground.errors import InputError
from biaslab.ratings.skill_ratings import read_objects as read

ROWS = [
    ("a", "Coffee_Cup", "yes", "1"),
    ("a", "coffee cup", "NO", "2"),
    ("a", "coffee cup", "y", "3"),
    ("b", "dog", "no", "1"),
]


def text(rows, columns=("image_id", "object", "shown", "rater")):
    return pd.DataFrame(rows, columns=list(columns)).to_csv(index=False)


def test_most_raters_decide_and_a_tie_is_no(write):
    tied = [*ROWS, ("b", "hat", "yes", "1"), ("b", "hat", "no", "2")]
    found = read(write(text(tied)), ["a", "b", "c"])
    assert found.to_numpy().tolist() == [["a", "coffee cup", "yes"], ["b", "dog", "no"], ["b", "hat", "no"]]
    alone = read(write(text([r[:3] for r in ROWS[:1]], ("image_id", "object", "shown"))), ["a"])
    assert alone["shown"].tolist() == ["yes"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("z", "dog", "yes", "1"), r"'z' is no image.*data row 5"),
        (("a", " ", "yes", "1"), "object is empty"),
        (("a", "dog", "maybe", "1"), "shown is 'maybe'"),
        (("a", "coffee  cup", "no", "1"), "rated twice"),
    ],
)
def test_what_does_not_fit_is_named(row, said, write):
    with pytest.raises(InputError, match=said):
        read(write(text([*ROWS, row])), ["a", "b"])


def test_a_missing_column_is_named(write):
    with pytest.raises(InputError, match="no column 'shown'"):
        read(write(text([r[:2] for r in ROWS], ("image_id", "object"))), ["a", "b"])
