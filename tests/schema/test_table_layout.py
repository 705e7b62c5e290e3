"""Tables as readers see them: in notebooks, and in the pages of runs and comparisons."""

import math

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from biaslab.errors import UnknownNameError
from biaslab.schema.table_layout import lay_out
from biaslab.schema.tables import Column, Schema

PLAIN = Schema("t", "", "", ())
DECLARED = Schema(
    "shares",
    "Shares",
    "One row for each kind.",
    (
        Column("kind", "The kind.", key=True, text=True, labels={"x": "the <first>"}),
        Column("share", "The share.", unit="points"),
        Column("ci_low", "Lower limit.", of="share"),
        Column("ci_high", "Upper limit.", of="share"),
        Column("wide_ci_low", "Lower limit.", of="share", optional=True),
        Column("wide_ci_high", "Upper limit.", of="share", optional=True),
        Column("p", "The p-value."),
        Column("reason", "Why a value is missing.", text=True),
    ),
)
FRAME = pd.DataFrame(
    [
        ["x", 12.345, 1, 20.5, 0, 30, 0.0004, ""],
        ["y", 3, math.nan, math.nan, 0, 30, 0.5, ""],
        ["z", math.nan, 1, 2, 0, 30, math.nan, "no <image>"],
    ],
    columns=[column.name for column in DECLARED.columns],
)


def _html(layout):
    return BeautifulSoup(layout._repr_html_(), "html.parser")


def _cells(frame, declared=PLAIN):
    return {column.name: column.cells for column in lay_out(frame, declared).columns}


def test_lay_out_merges_limits_and_labels():
    layout = lay_out(FRAME, DECLARED)
    assert [column.heading for column in layout.columns] == ["kind", "share (points)", "p", "reason"]
    # Of two intervals the first declared; an estimate that is missing has no limits.
    assert _cells(FRAME, DECLARED) == {
        "kind": ["the <first>", "y", "z"],
        "share": ["12.3 (1.00 to 20.5)", "3.00", None],
        "p": ["<0.001", "0.5", None],
        "reason": ["", "", "no <image>"],
    }


def test_lay_out_limits_without_estimate_keep_columns():
    limits = FRAME[["kind", "ci_low", "ci_high"]]
    assert list(_cells(limits, DECLARED)) == ["kind", "ci_low", "ci_high"]


def test_html_marks_numbers_and_shows_missing_reason():
    page = _html(lay_out(FRAME, DECLARED, ["kind", "share"]))
    assert [(th["scope"], th.get("class"), th.get_text()) for th in page("th")] == [
        ("col", None, "kind"), ("col", ["n"], "share (points)"),
    ]  # fmt: skip
    *_, kind, share = page("td")
    assert (kind.get("class"), kind.get_text()) == (None, "z")
    assert (share["class"], share.get_text(), share.span["title"]) == (["n", "none"], "–", "no <image>")
    gap = _html(lay_out(pd.DataFrame({"x": [1.0, math.nan]}), PLAIN)).find(class_="none")
    assert gap.span["title"] == "no value"


def test_html_limits_number_of_rows():
    frame = pd.DataFrame({"x": range(9)})
    layout = lay_out(frame, PLAIN, max_rows=5)
    assert (len(layout.columns[0].cells), len(layout.reasons), layout.total) == (5, 5, 9)
    rows = BeautifulSoup(layout.html(2), "html.parser").tbody("tr")
    assert [row.get_text() for row in rows] == ["0", "1"]


def test_lay_out_omits_empty_columns_unless_named():
    # The last row is not laid out, but has a value.
    frame = pd.DataFrame({"a": [1, 2], "gap": [math.nan] * 2, "empty": [""] * 2, "late": [math.nan, 3]})
    assert [column.name for column in lay_out(frame, PLAIN, max_rows=1).columns] == ["a", "late"]
    named_columns = lay_out(frame, PLAIN, ["empty", "gap"]).columns
    assert [column.cells for column in named_columns] == [["", ""], [None, None]]


def test_lay_out_unknown_column_is_refused():
    with pytest.raises(UnknownNameError, match="'shar'"):
        lay_out(FRAME, DECLARED, ["shar"])


def test_html_escapes_and_truncates_text():
    hostile = '"><script>x</script>'
    frame = pd.DataFrame({hostile: [1.0, math.nan], "word": ["=1", "x" * 401], "a_reason": ["", hostile * 30]})
    page = _html(lay_out(frame, PLAIN))
    assert not page("script") and page.th.get_text() == hostile
    assert page("tr")[1]("td")[1].get_text() == "=1"
    number, word, _ = page("tr")[2]("td")
    assert word.get_text() == "x" * 400 + " …"
    assert number.span["title"] == (hostile * 30)[:400] + " …"


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([1.0, 2.0, 30.0], ["1", "2", "30"]),  # counts in a column of floats
        ([10.570000000001, 3.25, math.nan], ["10.6", "3.25", None]),
        ([1.3e-05, math.inf, -math.inf], ["1.3e-05", "∞", "-∞"]),
        ([12345, -7], ["12,345", "-7"]),
        # A float would round it.
        ([1234567890123456789, 1], ["1,234,567,890,123,456,789", "1"]),
        (pd.array([1234567890123456789, None], "Int64"), ["1,234,567,890,123,456,789", None]),
        (["1234567890123456789", "007"], ["1234567890123456789", "007"]),
        ([True, False], ["True", "False"]),
        (["a", None, math.nan], ["a", "", ""]),
    ],
)
def test_lay_out_formats_cells(values, cells):
    assert _cells(pd.DataFrame({"x": values})) == {"x": cells}


def test_lay_out_pivot_joins_column_levels():
    wide = FRAME.pivot(index="kind", columns="p", values=["share"]).reset_index()
    assert [column.name for column in lay_out(wide, PLAIN).columns][:2] == ["kind ", "share 0.0004"]


def test_repr_has_headings_and_dashes():
    text = repr(lay_out(FRAME, DECLARED, ["kind", "p"]))
    assert [line.split() for line in text.splitlines()][::3] == [["kind", "p"], ["z", "–"]]
