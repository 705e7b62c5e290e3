"""Tables that a user brings: their numbers, their columns, the files of a folder."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biaslab.errors import InputError
from biaslab.io import cells
from biaslab.ratings import shares
from biaslab.schema import tables
from biaslab.study import sources


def numbers(*texts, **options):
    return cells.numbers(pd.Series(texts, name="n", dtype=object), "a.csv", **options).tolist()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["37,5", "40"], [37.5, 40]),
        (["37,500", "40,25"], [37.5, 40.25]),
        (["1.234,5", "2,0"], [1234.5, 2]),
        (["1,234.5", "1,000"], [1234.5, 1000]),
        (["1,234,567", "1,000"], [1234567, 1000]),
        (["1.234.567", "0,5"], [1234567, 0.5]),
        ([" 12.5 ", "\u22123", "1e-3"], [12.5, -3, 0.001]),
        (["37.500", "1.000"], [37.5, 1]),
        (["0,125"], [0.125]),
        # Marks of both kinds make no number.
        (["1,5", "1,234.5"], [np.nan] * 2),
        (["", "nurse", "1,2,3"], [np.nan] * 3),
    ],
)
def test_numbers_are_read_with_the_mark_that_they_have(texts, expected):
    np.testing.assert_array_equal(numbers(*texts), expected)


@pytest.mark.parametrize(
    ("texts", "whole", "told"),
    [
        (["1.000", "40"], True, r"n is '1\.000' in data row 1, which may be 1000 or 1; "),
        (["40", "1,000"], False, r"n is '1,000' in data row 2, which may be 1000 or 1; "),
        (["0,5", "1.234"], False, r"n is '1\.234' in data row 2, which may be 1234 or 1\.234; "),
    ],
    ids=["a count", "a comma alone", "a point among commas"],
)
def test_a_number_of_two_meanings_is_refused(texts, whole, told):
    with pytest.raises(InputError, match=told):
        numbers(*texts, whole=whole)


def test_counts_in_parts_are_as_they_were_written(tmp_path):
    # Of votes that are split: with three decimals no thousands.
    assert numbers("12.125", "0.500", "40", whole=True) == [12.125, 0.5, 40]
    name = "paradox_percent_female"
    written = tables.make_table([["SD", "naive", "nurse", "generated", "1", 50.0, 12.125]], name)
    assert tables.read(tables.write(written, tmp_path / "t.csv"), name)["n"].tolist() == [12.125]


@given(st.lists(st.floats(0, 1e6).map(lambda x: round(x, 2)), min_size=1, max_size=6))
def test_decimals_behind_commas_are_those_behind_points(values):
    # Two decimals are no thousands.
    texts = [f"{value:.2f}" for value in values]
    assert numbers(*(text.replace(".", ",") for text in texts)) == [float(text) for text in texts]


def test_measured_tables_as_a_spreadsheet_saves_them(tmp_path):
    name = "paradox_percent_female"
    rows = ["model;approach;occupation;source;prompt;percent_female;n", "SD;naive;nurse;training;1;80,5;40"]
    rows += ["SD;naive;nurse ;generated;1;97,5;40", "SD;naive;chef;training;1;20,25;40"]
    (tmp_path / f"{name}.csv").write_bytes("\r\n".join(rows).encode("utf-8-sig"))
    table = sources.load_measured(name, source=str(tmp_path))
    assert sorted(set(table["occupation"])) == ["chef", "nurse"]
    assert table["percent_female"].tolist() == [80.5, 97.5, 20.25]
    (tmp_path / f"{name}.csv").write_text("\n".join([*rows, "SD;naive;Nurse;generated;2;90;40"]))
    with pytest.raises(InputError, match="occupation is spelt 'nurse' and 'Nurse'"):
        sources.load_measured(name, source=str(tmp_path))
    (tmp_path / f"{name}.csv").write_text("\n".join([*rows[:3], "SD;naive;chef;generated;1;20,25;1.000"]))
    with pytest.raises(InputError, match=r"n is '1\.000' in data row 3, which may be 1000 or 1"):
        sources.load_measured(name, source=str(tmp_path))


LONG = {"image": ["a", "b"], "source": ["generated", "training"], "occupation": "nurse", "annotator": "Ann"}


def test_columns_that_are_not_used_may_hold_anything(tmp_path):
    path = tmp_path / "r.parquet"
    frame = pd.DataFrame(LONG | {"label": ["female", "male"]})
    frame["tags"] = [["a"], ["b", "c"]]
    frame["seen"] = pd.to_datetime(["2026-01-01", "2026-01-02"])
    frame["raw"] = [{"x": 1}, {"x": 2}]
    frame.to_parquet(path)
    notes = shares.read(path).notes.set_index("item")
    assert notes.loc["columns not used", "detail"] == "seen, tags, raw"
    # In wide form each column is an annotator.
    frame = frame.drop(columns=["annotator", "label", "seen", "raw"]).assign(Ann="female")
    frame.to_parquet(path)
    with pytest.raises(InputError, match=r"column 'tags' holds list<.*>; only text and numbers are read"):
        shares.read(path)
    frame.rename(columns={"tags": "label"}).assign(annotator="Ann").drop(columns="Ann").to_parquet(path)
    with pytest.raises(InputError, match=r"column 'label' holds list<.*>; only text and numbers are read"):
        shares.read(path)


def test_a_folder_of_ratings_is_its_users_files(tmp_path):
    text = "image,source,occupation,annotator,label\n{},{},nurse,r,female\n"
    (tmp_path / "a.csv").write_text(text.format("a", "generated"))
    (tmp_path / "b.tsv").write_text(text.format("b", "training").replace(",", "\t"))
    (tmp_path / "._a.csv").write_bytes(b"\0\5\x16\7Mac OS X")
    (tmp_path / "~$a.csv").write_bytes(b"\1lock")
    (tmp_path / "old.csv").mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints/a-checkpoint.csv").write_text("image\n")
    assert shares.read(tmp_path).images["image_id"].tolist() == ["a", "b"]
