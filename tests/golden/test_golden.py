"""The golden comparison on small tables, and its committed files."""

import golden
import pandas as pd
import pytest
import yaml

from biaslab.schema import tables

PATH = "mini/tables/paired_stereotype_score"
TABLE = "paired_stereotype_score"
ROWS = """\
model,aspect,setting,stereotype,score,ci_low,name
mini,occupation,single,female,40.5,12.25,old
mini,occupation,single,male,-8.125,-31,old
"""


def compare_with_committed(today, renames=None, path=PATH):
    return golden.compare({PATH: ROWS.encode()}, {path: today.encode()}, renames or {})


def test_compare_changed_cell_is_named_by_row():
    differences = compare_with_committed(ROWS.replace("12.25", "12.26"))
    row = "model=mini, aspect=occupation, setting=single, stereotype=female"
    assert differences == {PATH: [f"ci_low of {row}: '12.25' -> '12.26'"]}


def test_compare_ignores_order_of_rows_and_columns():
    frame = pd.DataFrame([line.split(",") for line in ROWS.splitlines()[1:]], columns=ROWS.splitlines()[0].split(","))
    assert compare_with_committed(frame.iloc[::-1, ::-1].to_csv(index=False)) == {}


def test_compare_lost_and_added_rows_are_named():
    (lines,) = compare_with_committed(ROWS.replace("female", "overall")).values()
    row = "model=mini, aspect=occupation, setting=single, stereotype="
    assert lines == [f"row {row}female: no longer written", f"row {row}overall: new"]


def test_compare_names_lost_column_and_ignores_added_one():
    assert compare_with_committed(ROWS.replace(",name", ",other")) == {PATH: ["column name: no longer written"]}
    frame = ROWS.replace("\n", ",1\n").replace("name,1", "name,n")
    assert compare_with_committed(frame) == {}


def test_compare_applies_renamed_column():
    # Two names that change places, as no replacement of one after the other could do.
    today = ROWS.replace("score,ci_low", "score_corrected,score")
    assert PATH in compare_with_committed(today)
    assert compare_with_committed(today, {TABLE: {"score": "score_corrected", "ci_low": "score"}}) == {}
    # The mapping is no licence: another value is found, and a name that has not changed.
    assert PATH in compare_with_committed(
        today.replace("40.5", "40.6"), {TABLE: {"score": "score_corrected", "ci_low": "score"}}
    )
    assert compare_with_committed(ROWS, {TABLE: {"ci_low": "lower"}}) == {PATH: ["column lower: no longer written"]}


@pytest.mark.parametrize("table", [TABLE, "every"])
def test_compare_applies_renamed_value_of_renamed_column(table):
    today = ROWS.replace(",name", ",status").replace(",old", ",new")
    assert compare_with_committed(today, {table: {"name": "status", "status": {"old": "new"}}}) == {}
    assert len(compare_with_committed(today, {table: {"name": "status"}})[PATH]) == 2


def test_compare_applies_dropped_column_and_renamed_table():
    lines = [line.rpartition(",")[0] for line in ROWS.splitlines()]
    renames = {"tables": {TABLE: "my_score"}, "my_score": {"name": None}}
    assert compare_with_committed("\n".join(lines), renames, "mini/tables/my_score") == {}


def test_compare_accepts_dropped_table_only_if_listed():
    assert list(golden.compare({PATH: ROWS.encode()}, {}, {})) == [PATH]
    for name in (TABLE, f"mini/{TABLE}"):
        assert golden.compare({PATH: ROWS.encode()}, {}, {"dropped": {name: "a reason"}}) == {}
    assert list(golden.compare({PATH: ROWS.encode()}, {}, {"dropped": {f"published/{TABLE}": "a reason"}})) == [PATH]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("1.234567891", "1.234567892", True),  # 8e-10 of its size
        ("1.2345678", "1.2345679", False),  # 8e-8
        ("-2.7e-16", "0", True),
        ("1e-07", "2e-07", False),
        ("5", "5.000000001", True),
        ("10000000001", "10000000002", False),  # whole numbers are counts or names
        ("", "0", False),
        ("female", "male", False),
        ("", "nan", False),
    ],
)
def test_equal_follows_tolerance(old, new, same):
    assert golden.equal(old, new) is golden.equal(new, old) is same


def test_unpack_returns_packed_files_and_checks_digests(tmp_path):
    files = {PATH: ROWS.encode(), "inputs/paired_people": "image_id\nä\n".encode()}
    golden.pack(files, tmp_path)
    first = (tmp_path / "tables.tar.xz").read_bytes()
    assert golden.unpack(tmp_path) == files
    golden.pack(dict(reversed(files.items())), tmp_path)
    assert (tmp_path / "tables.tar.xz").read_bytes() == first
    digests = tmp_path / "digests.txt"
    digests.write_text(digests.read_text().replace(digests.read_text()[:8], "0" * 8))
    with pytest.raises(ValueError, match="not of one update"):
        golden.unpack(tmp_path)


def test_main_fails_until_tables_are_updated(monkeypatch, tmp_path, capsys):
    # Results of the runs, from inputs with current names.
    calls = []
    today = {PATH: ROWS.replace("12.25", "12.26").encode()}
    monkeypatch.setattr(golden, "HERE", tmp_path)
    monkeypatch.setattr(golden, "execute", lambda inputs: calls.append(inputs) or today)
    golden.pack({PATH: ROWS.encode(), "inputs/my_people": b"id,old\n1,2\n"}, tmp_path)
    (tmp_path / "renames.yaml").write_text("my_people: {old: new}")
    assert golden.main([]) == 1
    output = capsys.readouterr().out
    assert f"{PATH} differs:\n  ci_low of model=mini, " in output and "1 tables compared" in output
    assert golden.main(["--update"]) == 0
    assert golden.unpack(tmp_path) == {**today, "inputs/my_people": b"id,new\n1,2\n"}
    # Renamed once: the mapping is empty now.
    assert golden.main([]) == 0
    assert calls == [{"my_people": b"id,new\n1,2\n"}] * 3


def test_committed_fixture_has_no_stale_renames():
    files = golden.unpack(golden.HERE)
    assert {path.rpartition("/")[0] for path in files} == {
        "inputs",
        "published/tables",
        "published/measured",
        "mini/tables",
    }
    assert (golden.HERE / "tables.tar.xz").stat().st_size < 5_000_000
    renames = yaml.safe_load((golden.HERE / "renames.yaml").read_text(encoding="utf-8")) or {}
    old_tables = {name for key in ("dropped", "tables") for name in renames.pop(key, {}) if "/" not in name}
    declared = tables.schemas().keys()
    assert not old_tables & declared and renames.keys() - {"every"} <= declared
