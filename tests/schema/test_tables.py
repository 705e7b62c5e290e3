"""Tables keep their declared shape, on writing and on reading."""

from collections import defaultdict

import hypothesis
import pandas as pd
import pytest

from biaslab.errors import InputError, UnknownNameError
from biaslab.schema import tables
from biaslab.schema.tables import Column, Schema

NAME = "paradox_percent_female"


def rows(**changes):
    frame = pd.DataFrame({"n": [500, 500], "model": "SD", "approach": "naive", "occupation": ["ceo", "nurse"]})
    return frame.assign(source="generated", prompt="1", percent_female=[2.5, 99.0]).assign(**changes)


def test_write_and_read_round_trip(tmp_path):
    # Text that a spreadsheet would run, quotes, a comma, an emoji, and a text that starts with an apostrophe.
    names = ["NA", "null", "=cmd|' /C calc'!A0", '\'quoted, and \U0001f9d1 "more"', "-1", "'=x", "plain"]
    frame = pd.concat([rows().iloc[[0]]] * 7, ignore_index=True).assign(occupation=names)
    frame.loc[6, "percent_female"] = float("nan")
    checked = tables.check(frame.assign(judge="clip"), NAME)
    # Declared columns come first, in order.
    assert list(checked) == [*tables.schema(NAME).names, "judge"]
    path = tables.write(checked, tmp_path / "t.csv")
    back = tables.read(path, NAME)
    assert back["occupation"].tolist() == names
    assert back["percent_female"].isna().tolist() == [False] * 6 + [True]
    # In the file itself no cell starts with what would run.
    assert ",'=cmd" in path.read_text(encoding="utf-8")
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".tmp"]


def test_write_uses_10_significant_digits(tmp_path):
    # 200 / 3, and 1 / 3 in a column that holds a text as well, by hand.
    mixed = pd.Series([1 / 3, "none"], dtype=object)
    path = tables.write(rows(percent_female=[200 / 3, 2 / 3e7], note=mixed), tmp_path / "t.csv")
    first, second = (line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:])
    assert first[-2:] == ["66.66666667", "0.3333333333"] and second[-2:] == ["6.666666667e-08", "none"]


@hypothesis.given(hypothesis.strategies.lists(hypothesis.strategies.floats(0, 100), min_size=2, max_size=2))
def test_write_after_read_gives_same_bytes(tmp_path_factory, numbers):
    frame = tables.check(rows(percent_female=numbers), NAME)
    path = tables.write(frame, tmp_path_factory.getbasetemp() / "t.csv")
    content = path.read_bytes()
    assert tables.write(tables.read(path, NAME), path).read_bytes() == content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"percent_female": [2.5, 101]}, "percent_female is 101 in row 2; it must be 0 to 100%."),
        ({"percent_female": [-0.1, 5]}, "percent_female is -0.1 in row 1; it must be 0 to 100%."),
        ({"percent_female": ["half", 5]}, "percent_female is 'half' in row 1; enter a finite number"),
        ({"n": [-1, 5]}, "n is -1 in row 1; it must be 0 or more images."),
        ({"source": "genrated"}, "source is 'genrated'. Did you mean 'generated'?"),
        ({"occupation": "ceo"}, "table paradox_percent_female has two rows for {'model': 'SD', "),
    ],
)
def test_check_invalid_values_are_named(changes, message):
    with pytest.raises(InputError) as error:
        tables.check(rows(**changes), NAME)
    assert message in str(error.value)


def test_check_missing_column_or_table_suggests_nearest():
    with pytest.raises(InputError, match=r"has no column 'occupation'\. Rename 'ocupation' to 'occupation'\."):
        tables.check(rows().rename(columns={"occupation": "ocupation"}), NAME)
    with pytest.raises(UnknownNameError, match="There is no table named 'paradox_percent_femal'"):
        tables.check(rows(), "paradox_percent_femal")


def test_check_clips_rounding_beyond_limits():
    x = 200 * 7 / 9 - 100  # A score; 100 * x / x is the next number above 100.
    shares = [100 * x / x, 0.1 + 0.2 - 0.3 - 1e-16]
    assert shares[0] > 100 and shares[1] < 0
    assert list(tables.check(rows(percent_female=shares), NAME)["percent_female"]) == [100, 0]
    with pytest.raises(InputError, match=r"percent_female is 100\.000001 in row 1"):
        tables.check(rows(percent_female=[100 + 1e-6, 0]), NAME)


def test_read_invalid_file_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    with pytest.raises(InputError, match="does not exist"):
        tables.read(path, NAME)
    for content, message in ((b"", "is empty"), (b"model\ncaf\xe9\n", r"is not UTF-8 \(line 2: byte 0xe9\)")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            tables.read(path, NAME)


@pytest.mark.parametrize(
    ("value", "message"),
    [("inf", "'inf' in row 2"), ("-1e999", "'-1e999' in row 2"), ("9" * 400, "'9{60}' in row 2"), ("NaN", "'NaN'")],
)
def test_read_non_finite_number_is_refused(tmp_path, value, message):
    head = "model,approach,occupation,source,prompt,percent_female,n\n"
    (tmp_path / "t.csv").write_text(f"{head}SD,naive,ceo,generated,1,,0\nSD,naive,nurse,generated,1,{value},5\n")
    with pytest.raises(InputError, match=rf"t\.csv: percent_female is {message}"):
        tables.read(tmp_path / "t.csv", NAME)


def test_schemas_are_complete_and_consistent():
    own_tables = tables._schemas(tuple((path, "") for path, package in tables.files().items() if package == "biaslab"))
    for name, schema in tables.schemas().items():
        if not schema.description:
            # Tables that no notebook saves are declared by their column names.
            continue
        if name in own_tables:
            known_prefixes = (*tables.measuring_papers(), "ratings", "calibration", "pipeline", "synthesis")
            assert name.split("_")[0] in known_prefixes, name
        assert len(set(schema.names)) == len(schema.names), name
        assert schema.keys, name
        assert schema.description.endswith("."), name
        assert all(column.description for column in schema.columns), name
        # Limits are declared as those of an interval, but for ranges of shuffles and of what a fair model shows.
        ends = {column.name for column in schema.columns if column.name.endswith(("_low", "_high"))}
        limits = {limit for _, *ends in schema.intervals for limit in ends}
        assert {end for end in ends - limits if not end.startswith(("shuffled_", "fair_"))} == set(), name
        # Columns that a comparison adds are not declared.
        assert not {"in_runs", "basis"} & {column.name for column in schema.columns}, name


def test_make_table_fills_missing_columns():
    records_given = [{"n": 500, "model": "SD", "approach": "naive", "occupation": "ceo", "source": "generated"}]
    records_given[0] |= {"prompt": "1", "percent_female": 2.5, "note": "not declared"}
    assert tables.make_table(records_given, NAME).filter(["n", "note"]).to_dict("list") == {"n": [500]}
    assert pd.isna(tables.make_table([{k: v for k, v in records_given[0].items() if k != "n"}], NAME)["n"].iloc[0])
    empty = tables.make_table([], NAME)
    assert empty.empty and list(empty) == tables.schema(NAME).names
    with pytest.raises(InputError, match="two rows for"):
        tables.make_table(records_given * 2, NAME)


# -- meaning of names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        *([("ci_low", "", low), ("ci_high", "", high)] for low, high in ("bb", "an", ("key", "key"))),
        [("ci_low", "", "a")],
        [("low", "", "a"), ("b_high", "", "a")],
        [("ci_low", "points", "a"), ("ci_high", "", "a")],
    ],
)
def test_schema_interval_without_estimate_is_refused(limits):
    estimates = Column("key", "K.", key=True, text=True), Column("a", "A.", "%"), Column("n", "N.")
    with pytest.raises(InputError, match="not the lower and upper limit of one column"):
        Schema("t", "T", "T.", (*estimates, *(Column(name, "L.", unit, of=of) for name, unit, of in limits)))


def columns_by_name():
    columns_found = defaultdict(list)
    for schema in tables.schemas().values():
        for column in (column for column in schema.columns if column.description):
            columns_found[column.name].append((schema.name, column))
    return columns_found


SHARED = tables.load_yaml(tables._SHARED_COLUMNS)


def test_columns_of_one_name_share_type_and_unit():
    for name, columns in columns_by_name().items():
        kinds = {c.text for _, c in columns}
        assert len(kinds) == 1, (name, [table for table, c in columns if c.text])
        units = {c.unit for _, c in columns if not c.of}
        assert len(units) <= 1 or name in SHARED["units_vary"], (name, [(table, c.unit) for table, c in columns])


def test_columns_with_varying_descriptions_have_shared_meaning():
    descriptions_by_name = {
        name: {c.description for _, c in columns if not c.of}
        for name, columns in columns_by_name().items()
        if not columns[0][1].text
    }
    several = {name for name, descriptions in descriptions_by_name.items() if len(descriptions) > 1}
    meanings = {
        name: words for path in tables.files() for name, words in tables.load_yaml(path).get("meanings", {}).items()
    }
    assert several == set(meanings) and set(SHARED["units_vary"]) <= several
    assert all(meaning.endswith(".") for meaning in meanings.values())


@pytest.mark.parametrize("name", sorted(tables.schemas()))
def test_schema_intervals_belong_to_declared_estimates(name):
    columns = {c.name: c for c in tables.schema(name).columns}
    limits = [c for c in columns.values() if c.of]
    # Every column named as a limit declares its estimate.
    assert {c.name for c in limits} >= {n for n in columns if n.endswith(("ci_low", "ci_high"))}
    for limit in limits:
        assert not (columns[limit.of].text or columns[limit.of].key or columns[limit.of].of)


@pytest.mark.parametrize("name", sorted(tables.schemas()))
def test_schema_intervals_belong_to_corrected_estimates(name):
    columns = {c.name for c in tables.schema(name).columns}
    whose = {low: of for of, low, _ in tables.schema(name).intervals}
    # No other way to name a corrected estimate or an uncorrected one.
    assert not [n for n in columns if n.startswith(("corrected_", "judge_corrected")) or n.endswith("_plain")]
    # Of an estimate with a corrected one, the corrected one carries the interval.
    assert f"{whose.get('ci_low')}_corrected" not in columns
