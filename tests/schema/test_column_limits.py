"""Tables with too many columns are refused by every reader quickly, before a row is read."""

import pandas as pd
import pytest

from biaslab.captions.corpus import open_corpus
from biaslab.errors import InputError
from biaslab.io import delimited
from biaslab.ratings import annotations, shares

MOST = 1000


def corpus(path):
    return pd.concat(list(open_corpus(str(path)).batches()), ignore_index=True)


def write(path, n):
    """Write one caption with ``n`` columns."""
    frame = pd.DataFrame([["a nurse"] * n], columns=["text", *(f"c{i}" for i in range(n - 1))])
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.long
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_captions_above_1000_columns_are_refused(tmp_path, ending):
    assert corpus(write(tmp_path / f"a.{ending}", MOST))["text"].tolist() == ["a nurse"]
    wide = write(tmp_path / f"b.{ending}", MOST + 1)
    with pytest.raises(InputError, match=r"b\.\w+.* has 1,001 columns; the maximum is 1,000\. .*Keep only the col"):
        corpus(wide)


def test_annotations_above_1000_columns_are_refused(tmp_path):
    path = tmp_path / "a.csv"

    def wide(n):
        annotators = [f"r{i}" for i in range(n - 3)]
        rows = [["i", "training", "nurse", *["female"] * (n - 3)], ["j", "generated", "nurse", *["male"] * (n - 3)]]
        return pd.DataFrame(rows, columns=["image", "source", "occupation", *annotators])

    wide(MOST).to_csv(path, index=False)
    assert len(annotations.annotators(shares.read(path).table)) == MOST - 3
    wide(MOST + 1).to_csv(path, index=False)
    wide(MOST + 1).to_parquet(parquet := tmp_path / "a.parquet")
    for file in (path, parquet):
        with pytest.raises(InputError, match=r"a\.\w+ has 1,001 columns; .* one row per image and annotator"):
            annotations.read(file)


def test_csv_row_above_limit_is_refused(tmp_path, monkeypatch):
    """Each field is short and closed; only the row continues over many lines."""
    monkeypatch.setattr(delimited, "_LONGEST_ROW", 5000)
    (tmp_path / "a.csv").write_text("text\na nurse\n" + '"x\n",' * 2000)
    with pytest.raises(
        InputError, match=r"a\.csv cannot be read as CSV: in the row that begins in line 3, there are more than 5,000"
    ):
        corpus(tmp_path / "a.csv")
    # Many rows of such a length are accepted.
    (tmp_path / "b.csv").write_text("text\n" + ('"' + "x\n" * 1000 + '"\n') * 20)
    assert len(corpus(tmp_path / "b.csv")) == 20
