"""Tables of users: numbers, columns, and files of a folder."""

import json
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biaslab.errors import InputError
from biaslab.io import cells, reading
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
def test_numbers_detect_decimal_mark(texts, expected):
    np.testing.assert_array_equal(numbers(*texts), expected)


@pytest.mark.parametrize(
    ("texts", "whole", "told"),
    [
        (["1.000", "40"], True, r"n is '1\.000' in data row 1, which may be 1000 or 1\. "),
        (["40", "1,000"], False, r"n is '1,000' in data row 2, which may be 1000 or 1\. "),
        (["0,5", "1.234"], False, r"n is '1\.234' in data row 2, which may be 1234 or 1\.234\. "),
    ],
    ids=["a count", "a comma alone", "a point among commas"],
)
def test_numbers_ambiguous_value_is_refused(texts, whole, told):
    with pytest.raises(InputError, match=told):
        numbers(*texts, whole=whole)


def test_fractional_counts_are_read_as_written(tmp_path):
    # Of votes that are split: with three decimals no thousands.
    assert numbers("12.125", "0.500", "40", whole=True) == [12.125, 0.5, 40]
    name = "paradox_percent_female"
    written_table = tables.make_table([["SD", "naive", "nurse", "generated", "1", 50.0, 12.125]], name)
    assert tables.read(tables.write(written_table, tmp_path / "t.csv"), name)["n"].tolist() == [12.125]


@given(st.lists(st.floats(0, 1e6).map(lambda x: round(x, 2)), min_size=1, max_size=6))
def test_numbers_with_decimal_commas_equal_points(values):
    # Two decimals are no thousands.
    texts = [f"{value:.2f}" for value in values]
    assert numbers(*(text.replace(".", ",") for text in texts)) == [float(text) for text in texts]


def test_load_measured_reads_spreadsheet_table(tmp_path):
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


def test_unused_columns_may_hold_any_type(tmp_path):
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
    with pytest.raises(InputError, match=r"column 'tags' contains list<.*>; only text and numbers are read"):
        shares.read(path)
    frame.rename(columns={"tags": "label"}).assign(annotator="Ann").drop(columns="Ann").to_parquet(path)
    with pytest.raises(InputError, match=r"column 'label' contains list<.*>; only text and numbers are read"):
        shares.read(path)


def test_annotation_folder_ignores_system_files(tmp_path):
    text = "image,source,occupation,annotator,label\n{},{},nurse,r,female\n"
    (tmp_path / "a.csv").write_text(text.format("a", "generated"))
    (tmp_path / "b.tsv").write_text(text.format("b", "training").replace(",", "\t"))
    (tmp_path / "._a.csv").write_bytes(b"\0\5\x16\7Mac OS X")
    (tmp_path / "~$a.csv").write_bytes(b"\1lock")
    (tmp_path / "old.csv").mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints/a-checkpoint.csv").write_text("image\n")
    assert shares.read(tmp_path).images["image_id"].tolist() == ["a", "b"]


# -- expanding files ---------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path):
    """Return a function that writes a workbook of two rows, with more XML in its sheet and its styles."""
    openpyxl = pytest.importorskip("openpyxl", reason="Excel needs the extra 'excel'")

    def write(sheet="", styles=""):
        book = openpyxl.Workbook()
        for row in (("image", "label"), ("a.png", "female")):
            book.active.append(row)
        book.save(tmp_path / "plain.xlsx")
        ends = {"xl/worksheets/sheet1.xml": ("</sheetData>", sheet), "xl/styles.xml": ("</cellXfs>", styles)}
        with (
            zipfile.ZipFile(tmp_path / "plain.xlsx") as plain,
            zipfile.ZipFile(tmp_path / "it.xlsx", "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name in plain.namelist():
                end, extra = ends.get(name, ("", ""))
                text = plain.read(name).decode()
                archive.writestr(name, text.replace(end, extra + end) if extra else text)
        return tmp_path / "it.xlsx"

    return write


def one_cell(row, column):
    return f'<row r="{row}"><c r="{column}{row}" t="inlineStr"><is><t>x</t></is></c></row>'


@pytest.mark.parametrize(
    "sheet",
    [
        one_cell(1048576, "XFD"),
        one_cell(999999999999, "A"),
        "".join(f'<row r="{row}"><c r="XFD{row}"/></row>' for row in range(3, 1003)),
    ],
    ids=["far cell", "far row", "many far cells"],
)
def test_distant_cell_is_refused(workbook, sheet):
    with pytest.raises(InputError, match=r"on the sheet 'Sheet', a cell is far below or to the right of all others"):
        cells.load(workbook(sheet), {"image"})


def test_cells_at_moderate_distance_are_read(workbook):
    frame, _ = cells.load(workbook(one_cell(5000, "B")), {"image"})
    assert frame["label"].tolist() == ["female", "x"]


@pytest.mark.parametrize("part", ["sheet", "styles"])
def test_expanding_workbook_is_refused_unread(workbook, monkeypatch, part):
    path = workbook(**{part: {"sheet": "<row/>", "styles": "<xf/>"}[part] * 2_000_000})
    monkeypatch.setattr(cells, "_sheets", lambda *_: pytest.fail("read"))
    assert path.stat().st_size < 40_000
    with pytest.raises(InputError, match=r"unpacks to 1\d,\d{3},\d{3} bytes of cells and styles, too many"):
        cells.load(path, {"image"})


def test_workbook_with_too_many_styles_is_refused(workbook):
    with pytest.raises(InputError, match="bytes of cells and styles, too many"):
        cells.load(workbook(styles="<xf/>" * 60_000), {"image"})


def test_shared_parquet_text_counts_for_each_row(tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table({"image": texts}), tmp_path / "it.parquet")
    assert (tmp_path / "it.parquet").stat().st_size < 100_000
    # 100,000 rows of a million characters.
    with pytest.raises(InputError, match=r"unpacks to 100,000,000,000 bytes of text; the maximum is 1,000,000,000"):
        cells.load(tmp_path / "it.parquet", {"image"})


def test_parquet_columns_are_read_as_text(tmp_path):
    columns = {"image": ["a", None, "a"], "n": [1, 2, 3], "kind": pd.Categorical(["u", "v", "u"])}
    pd.DataFrame(columns | {"tags": [[1], [], []]}).to_parquet(tmp_path / "it.parquet")
    frame, left_out = cells.load(tmp_path / "it.parquet", {"image"})
    assert frame.to_dict("list") == {"image": ["a", "", "a"], "n": ["1", "2", "3"], "kind": ["u", "v", "u"]}
    assert set(left_out) == {"tags"}


def test_changed_table_of_run_is_refused_as_source(tmp_path):
    name = "paradox_percent_female"
    table = tables.make_table(
        [["SD", "naive", "nurse", side, "1", 50.0, 40] for side in ("training", "generated")], name
    )
    path = tables.write(table, tmp_path / "measured" / f"{name}.csv")
    record = {"run": "r", "files": reading.digests(tmp_path, [path])}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert len(sources.load_measured(name, source=str(tmp_path))) == 2
    path.write_text(path.read_text().replace(",40", ",41"))
    with pytest.raises(
        InputError, match=rf"{name}\.csv was changed since the run ended\. Start the run again, or copy"
    ):
        sources.load_measured(name, source=str(tmp_path))
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match=r"run\.json is not the record of a run"):
        sources.load_measured(name, source=str(tmp_path))
    # Without a run record the table is the user's own.
    (tmp_path / "run.json").unlink()
    assert sources.load_measured(name, source=str(tmp_path))["n"].tolist() == [41, 41]


def test_image_ids_match_unique_file_names():
    known_ids = ["nurse/a.jpg", "nurse/b.jpg", "engineer/b.jpg", "c.jpg", "engineer/c.jpg"]
    column = pd.Series(["a.jpg", "b.jpg", "engineer/b.jpg", "c.jpg", "d.jpg"])
    # Two folders hold b.jpg, and c.jpg is the id of an image itself.
    expected = ["nurse/a.jpg", "b.jpg", "engineer/b.jpg", "c.jpg", "d.jpg"]
    assert cells.image_ids(column, known_ids).tolist() == expected
