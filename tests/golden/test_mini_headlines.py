"""The comparison of the default report's headline numbers with committed ones."""

import json

import mini_headlines
import pandas as pd
import pytest


def headlines(**changes) -> pd.DataFrame:
    rows = pd.DataFrame(
        {
            "notebook": "paper/notebook",
            "model": ["mini", "", "mini"],
            "question": ["A?", "B?", "C?"],
            "estimate": [10.0, 50.0, 0.0],
            "ci_low": [5.0, None, -1.0],
            "ci_high": [15.0, None, 1.0],
            "unit": "points",
        }
    )
    for name, value in changes.items():
        rows[name] = value
    return rows


@pytest.mark.parametrize(
    ("changes", "questions"),
    [
        # A tenth of widths of 10 and 2 is 1 and 0.2; 1 % of 50 is 0.5.
        ({"estimate": [11.0, 50.5, 0.2], "ci_high": [16.0, None, 0.8]}, []),
        ({"estimate": [11.1, 50.6, -0.3]}, ["A?", "B?", "C?"]),
        ({"ci_low": [3.9, None, -1.0]}, ["A?"]),
        ({"ci_high": [None, None, 1.0]}, ["A?"]),
        ({"question": ["A?", "B?", "D?"]}, ["C?", "D?"]),
    ],
)
def test_moved_lists_headlines_beyond_tolerance(tmp_path, changes, questions):
    headlines().to_csv(tmp_path / "committed.csv", index=False)
    committed = pd.read_csv(tmp_path / "committed.csv")
    assert sorted(mini_headlines.moved(committed, headlines(**changes))["question"]) == questions


def test_read_returns_main_measured_estimates(tmp_path):
    finding = {"notebook": "n", "model": "mini", "question": "A?", "unit": "%", "ci_low": 1.0, "ci_high": 3.0}
    finding |= {"estimate": 2.0, "main": True, "printed": False}
    others = [{"estimate": None}, {"main": False}, {"printed": True}]
    (tmp_path / "run.json").write_text(
        json.dumps({"findings": [finding, *({**finding, **changes_of_finding} for changes_of_finding in others)]})
    )
    (row,) = mini_headlines.read(tmp_path).to_dict("records")
    assert row == {name: finding[name] for name in row} and set(mini_headlines.KEY) < set(row)


def test_committed_estimates_lie_in_intervals():
    rows = pd.read_csv(mini_headlines.FILE)
    rows_with_interval = rows.dropna(subset="ci_low")
    assert (
        len(rows_with_interval) >= 15
        and rows_with_interval["estimate"].between(rows_with_interval["ci_low"], rows_with_interval["ci_high"]).all()
    )
    assert not rows.duplicated(mini_headlines.KEY).any()
