"""The papers' printed numbers: the loader, and the tables of `paradox` and `paired` against each other."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from biaslab import published
from biaslab.ground import tables
from biaslab.ground.errors import UnknownNameError

# Half a unit of the last printed digit: values with one decimal and with two.
HALF_TENTH, HALF_HUNDREDTH = 0.05, 0.005
EPS = 1e-9


# -- loader ----------------------------------------------------------------------------------------------


def test_importing_and_describing_load_no_pandas():
    code = (
        "import sys; from biaslab import published; published.describe('paradox_table_6'); "
        "sys.exit(any(m in sys.modules for m in ('pandas', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_csv_has_a_description_and_the_reverse():
    stems = {".csv": set(), ".json": set()}
    for entry in published._DATA.iterdir():
        stem, _, suffix = entry.name.partition(".")
        stems[f".{suffix}"].add(stem)
    assert stems[".csv"] == stems[".json"] == set(published.names())


def test_names_are_in_numeric_order():
    paired = [name for name in published.names() if name.startswith("paired_table")]
    assert paired == [f"paired_table_{number}" for number in (1, 2, 3, 4, 7, 9, 10, 11, 12, 13)]


@pytest.mark.parametrize("name", published.names())
def test_table_is_what_its_description_says(name):
    about = published.describe(name)
    frame = published.load(name)
    assert about.paper in tables.measuring()
    assert name.startswith(f"{about.paper}_")
    assert name.endswith(about.table.rsplit(" ", 1)[-1])
    assert about.title and about.section and about.unit and all(about.notes)
    assert list(frame.columns) == list(about.columns)
    with (published._DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    assert len(frame) == about.rows == len(rows)
    assert {len(row) for row in rows} <= {len(header)}
    # Decimals as papers print them: Python would also take "nan", "inf" and "1_000".
    numbers = [i for i, key in enumerate(header) if about.columns[key].unit is not None]
    assert all(re.fullmatch(r"(-?\d+(\.\d+)?)?", row[i], re.ASCII) for row in rows for i in numbers)
    for key, column in about.columns.items():
        assert column.description
        if column.unit is None:
            assert all(isinstance(value, str) and value == value.strip() for value in frame[key]), key
        else:
            assert column.unit
            assert frame[key].dtype == np.float64
            assert not np.isinf(frame[key]).any()
            if column.unit == "%":
                assert frame[key].dropna().between(-100, 100).all(), key


def test_load_gives_strings_floats_and_missing():
    frame = published.load("paired_table_11")
    chief = frame[(frame["occupation"] == "chief") & (frame["setting"] == "labour_statistics")].iloc[0]
    assert np.isnan(chief["percent_female"])
    assert chief["note"] == "no statistic: printed as N/A"
    assert frame["note"].iloc[0] == ""
    assert set(published.load("paradox_table_3")["prompt"]) == {"1", "2", "3", "4", "mean"}


def test_attrs_say_where_the_numbers_come_from():
    assert published.load("paradox_table_6").attrs == {
        "name": "paradox_table_6",
        "paper": "paradox",
        "table": "6",
        "title": "Share of images perceived as female for each occupation, Stable Diffusion 1.4",
        "unit": "%",
    }


def test_each_load_is_a_fresh_frame():
    first = published.load("paradox_table_3")
    first["amplification"] = 0.0
    assert published.load("paradox_table_3")["amplification"].min() == 1.11


def test_index_lists_every_table():
    index = published.index()
    assert list(index.columns) == ["name", "paper", "table", "title", "unit", "rows"]
    assert index["name"].tolist() == published.names()
    row = index.set_index("name").loc["paired_table_13"]
    # 36 occupations, 2 levels of power, 2 settings
    assert row.tolist() == ["paired", "13", published.describe("paired_table_13").title, "points", 144]


@pytest.mark.parametrize("name", [n for n in published.names() if n.startswith(("paradox_", "paired_"))])
def test_no_row_is_printed_twice(name):
    assert not published.load(name).duplicated().any()


@pytest.mark.parametrize("call", [published.load, published.describe])
def test_unknown_name_gets_near_matches(call):
    with pytest.raises(UnknownNameError) as raised:
        call("paradox_tabel_6")
    start = "There is no published table named 'paradox_tabel_6'. Did you mean 'paradox_table_6' or "
    assert str(raised.value).startswith(start)
    with pytest.raises(UnknownNameError):
        call("../data/paradox_table_6")


def test_cells_may_hold_commas_lines_and_nothing(tmp_path, monkeypatch):
    text = {"unit": None, "description": "Occupation."}
    columns = {"occupation": text, "percent": {"unit": "%", "description": "Share."}}
    about = dict.fromkeys(("paper", "table", "title", "section", "unit"), "x")
    (tmp_path / "x.json").write_text(json.dumps({**about, "columns": columns, "rows": 2, "notes": []}))
    (tmp_path / "x.csv").write_text('occupation,percent\n"a, ""b""\nc",-1.50\nNA,\n')
    monkeypatch.setattr(published, "_DATA", tmp_path)
    frame = published.load("x")
    assert frame["occupation"].tolist() == ['a, "b"\nc', "NA"]
    assert frame["percent"].iloc[0] == -1.5
    assert np.isnan(frame["percent"].iloc[1])


# -- paradox ---------------------------------------------------------------------------------------------

SHARES = {"SD 1.4": "paradox_table_6", "SD 1.5": "paradox_table_7"}
PROMPTS = ["1", "2", "3", "4"]


def spread(frame: pd.DataFrame, index, columns: str, values: str) -> pd.DataFrame:
    """Return ``values`` with a column for each value of ``columns``; fails where two rows share a cell."""
    return frame.pivot(index=index, columns=columns, values=values)


def wide(name: str) -> pd.DataFrame:
    """Return a table of shares with one row per occupation and the columns captions, 1, 2, 3, 4."""
    return spread(published.load(name), "occupation", "prompt", "percent_female")


def stated(quantity: str, approach: str = "") -> float:
    words = published.load("paradox_text")
    return words[(words["quantity"] == quantity) & (words["approach"] == approach)]["value"].item()


@pytest.mark.parametrize("name", SHARES.values())
def test_paradox_shares_are_complete(name):
    frame = published.load(name)
    assert len(frame) == stated("occupations") * 5  # training and four prompts
    assert frame["occupation"].nunique() == stated("occupations")
    assert set(zip(frame["source"], frame["prompt"], strict=True)) == {
        ("training", "captions"),
        *(("generated", prompt) for prompt in PROMPTS),
    }
    assert not frame.duplicated(["occupation", "prompt"]).any()
    assert frame["percent_female"].between(0, 100).all()
    # Names are words, the same in all tables.
    assert frame["occupation"].str.fullmatch("[a-z]+( [a-z]+)*").all()
    assert {"hairdresser", "fashion designer", "prime minister", "ceo"} < set(frame["occupation"])


def test_paradox_amplification_averages():
    table = published.load("paradox_table_3")
    assert len(table) == 40
    by_prompt = spread(table, ["model", "approach"], "prompt", "amplification")
    assert by_prompt.shape == (8, 5)
    away = by_prompt["mean"] - by_prompt[PROMPTS].mean(axis=1)
    # The notes name the exception: (1.11 + 8.72 + 3.06 + 4.05) / 4 = 4.235, printed 4.35.
    assert away.pop(("SD 1.4", "nearest_no_indicators")) == pytest.approx(0.115)
    # Four values and their mean, each rounded to 0.005.
    assert away.abs().max() <= 2 * HALF_HUNDREDTH + EPS
    for approach in ("naive", "no_indicators", "nearest", "nearest_no_indicators"):
        assert stated("amplification", approach) == by_prompt["mean"]["SD 1.4", approach]


# -- paired ----------------------------------------------------------------------------------------------


def paired(number: int) -> pd.DataFrame:
    return published.load(f"paired_table_{number}")


def test_paired_names_are_canonical():
    names = set(paired(3)["occupation"])
    assert len(names) == len(paired(3)) == 40
    assert paired(3)["stereotype"].value_counts().to_dict() == {"female": 20, "male": 20}
    changed = paired(3).query("occupation != printed_name")
    assert dict(zip(changed["occupation"], changed["printed_name"], strict=True)) == {
        "mechanic": "mechanician",
        "hairdresser": "hairstresser",
    }
    assert set(paired(11)["occupation"]) == set(paired(12)["occupation"]) == names
    assert set(paired(13)["occupation"]) == names - {"manager", "supervisor", "ceo", "assistant"}
    roles = paired(4).groupby(["power_level", "stereotype"]).size().to_dict()
    assert roles == {("high", "male"): 4, ("low", "female"): 4}
