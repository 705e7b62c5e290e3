"""The reader of delimited text, in formats of users, spreadsheets and crawls."""

import codecs
import csv
import gzip
import io

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from biaslab.captions.corpus import open_corpus
from biaslab.errors import InputError
from biaslab.io import delimited

ROWS = [["text", "n"], ["An infirmière", "1"]]
CONTENT = "text,n\nAn infirmière,1\n"


def read_rows(folder, content, name="a.csv", **options):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(delimited.rows(path, **options))


def test_rows_of_utf_16_and_32_need_byte_order_mark(tmp_path):
    for mark, encoding in ((codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF32_BE, "utf-32-be")):
        assert read_rows(tmp_path, mark + CONTENT.encode(encoding)) == ROWS
    for encoding in ("utf-16-le", "utf-16-be"):
        with pytest.raises(InputError, match=r"a\.csv contains null bytes \(it is UTF-16 without a byte order mark"):
            read_rows(tmp_path, CONTENT.encode(encoding))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.tsv", "url\ttext\n\tA nurse\n\tA chef\n"),
        ("a.txt", "A nurse\nA chef\n"),
        ("a.jsonl", '{"text": "A nurse"}\n{"text": "A chef"}\n'),
    ],
)
def test_captions_with_byte_order_mark_are_read(tmp_path, name, lines):
    for encoding in ("utf-16", "utf-8-sig"):
        (tmp_path / name).write_bytes(lines.encode(encoding))
        assert pd.concat(open_corpus(str(tmp_path / name)).batches())["text"].tolist() == ["A nurse", "A chef"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('text\na\n"open\nb\nc\n', 3),
        ('text,n\n"a",1\n1,"open\n2,b\n', 3),
        ('text\n"a\nb"\n"closed" early\n', 4),
        ('text\na\n"open\n"b"\n', 3),
    ],
    ids=["at the end", "in a later cell", "text behind it", "closed by the next row's"],
)
def test_unclosed_quote_names_its_line(tmp_path, content, line):
    with pytest.raises(InputError, match=rf"in the row that begins in line {line}, .*not closed"):
        read_rows(tmp_path, content)


def test_quotes_in_tab_separated_captions_are_literal(tmp_path):
    content = (
        'text\tn\n"Pilot of the year\t1\n"Good", he said\t2\n"as ""written"" by a program"\t3\n'
        '"two\nlines"\t4\n5" nails\t5\nlast\t"open\nnext\t6\n'
    )
    assert read_rows(tmp_path, content, usual="\t", literal=True)[1:] == [
        ['"Pilot of the year', "1"],
        ['"Good", he said', "2"],
        ['as "written" by a program', "3"],
        ["two\nlines", "4"],
        ['5" nails', "5"],
        ["last", '"open'],
        ["next", "6"],
    ]
    # A last cell that goes on is known by the next line, which is no row.
    content = 'n\ttext\n1\t"two\nlines"\n2\tb\n'
    assert read_rows(tmp_path, content, usual="\t", literal=True)[1:] == [["1", "two\nlines"], ["2", "b"]]
    with pytest.raises(InputError, match=r"begins in line 2, a cell begins with a quotation mark"):
        read_rows(tmp_path, 'text\tn\tm\n"a\t1\nb\t2\t3\n', usual="\t", literal=True)


def test_rows_of_unequal_width_are_padded_or_refused(tmp_path):
    assert read_rows(tmp_path, "a,b\n1\n\n \n2,3\n") == [["a", "b"], ["1", ""], [" ", ""], ["2", "3"]]
    # Empty rows below a spreadsheet's table are ignored.
    assert read_rows(tmp_path, "\n \na;b\n1;2\n;\n ; \n", strict=True) == [["a", "b"], ["1", "2"]]
    with pytest.raises(InputError, match=r"line 3 has 1 cells, but the first row has 2.*separators, too"):
        read_rows(tmp_path, "a,b\n1,2\n3\n", strict=True)
    with pytest.raises(InputError, match=r"line 4 has 3 cells, but the first row has 2"):
        read_rows(tmp_path, 'a,b\n"1\n2",2\n37,5,1\n')


def test_invalid_bytes_are_replaced_or_refused(tmp_path):
    content = "a\nb\ncafé\n".encode("latin-1")
    assert read_rows(tmp_path, content)[-1] == ["caf\ufffd"]
    with pytest.raises(InputError, match=r"a\.csv is not UTF-8 \(line 3: byte 0xe9\); save it as UTF-8"):
        read_rows(tmp_path, content, strict=True)
    with pytest.raises(InputError, match=r"a\.csv is not UTF-16 \(line 1: byte 0x"):
        read_rows(tmp_path, "a".encode("utf-16") + b"\x00", strict=True)


@pytest.mark.parametrize(
    ("line", "separator", "of_tsv"),
    [
        ("a,b", ",", ","),
        ("a;b", ";", ";"),
        ("a|b|c", "|", "|"),
        ("a\tb", "\t", "\t"),
        # The usual separator wins if it occurs.
        ("a, b; c; d", ",", ";"),
        ('"a, b";c', ";", ";"),
        ("text", ",", "\t"),
    ],
)
def test_separator_follows_from_first_line(line, separator, of_tsv):
    assert (delimited.separator(line), delimited.separator(line, "\t")) == (separator, of_tsv)


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=40)
@given(st.data(), st.sampled_from(delimited.SEPARATORS), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_rows_round_trip_csv_writer(tmp_path_factory, data, separator, encoding):
    width = data.draw(st.integers(2, 4))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=5))
    table = [[f"c{i}" for i in range(width)], *rows]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=separator, quoting=csv.QUOTE_ALL).writerows(table)
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    path.write_bytes(buffer.getvalue().encode(encoding))
    assert list(delimited.rows(path)) == table
    assert read_rows(path.parent, gzip.compress(path.read_bytes()), "a.csv.gz") == table
    assert read_rows(path.parent, f"sep={separator}\r\n{buffer.getvalue()}".encode(encoding), "b.csv") == table
    if encoding == "utf-8":
        # By another reader.
        frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8")
        reference = [[cell.replace("\r\n", "\n") for cell in row] for row in frame.to_numpy(object).tolist()]
        assert reference == [[cell.replace("\r\n", "\n") for cell in row] for row in rows]


@given(st.binary(max_size=200), st.booleans(), st.sampled_from([",", "\t"]), st.booleans())
@example(b'"\t"\n\t"', False, "\t", True)
@example(b"\xff\xfe\x00", True, ",", False)
@example(b"sep=\n", True, ",", False)
def test_rows_of_any_bytes_give_rows_or_input_error(tmp_path_factory, content, strict, usual, literal):
    path = tmp_path_factory.mktemp("bytes") / "a.csv"
    path.write_bytes(content)
    try:
        rows = list(delimited.rows(path, usual=usual, strict=strict, literal=literal))
    except InputError as error:
        assert "a.csv" in str(error)
    else:
        assert len({len(row) for row in rows}) <= 1


@settings(max_examples=50)
@given(st.lists(st.sampled_from(['"', "a", "\t", "\n", "b\tc\n", '""']), max_size=30).map("".join))
def test_batches_do_not_depend_on_size(tmp_path_factory, content):
    """A corpus gives the same captions in batches of any size."""
    path = tmp_path_factory.mktemp("pieces") / "a.tsv"
    path.write_text("text\tn\n" + content)
    results = []
    for size in (1, 100):
        try:
            batches = list(open_corpus(str(path)).batches(size))
            results.append([row for batch in batches for row in batch[["text", "n"]].to_numpy().tolist()])
        except InputError as error:
            results.append(str(error))
    assert results[0] == results[1]
