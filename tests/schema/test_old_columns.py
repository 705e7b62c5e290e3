"""Columns of earlier versions: the error gives the current name, in tables and in files of annotations."""

import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.ratings import annotations, shares
from biaslab.schema import old_names, tables


def test_no_table_has_an_old_column():
    declared = {name for schema in tables.schemas().values() for name in schema.names}
    declared |= {column.name for schema in tables.schemas().values() for column in schema.columns}
    columns = old_names.table("columns")
    assert not declared & set(columns)
    assert set(columns.values()) <= declared


def test_check_old_column_suggests_new_name():
    frame = pd.DataFrame({"model": ["a"], "metric": ["m"], "value": [1.0], "floor": [0.5], "images": ["all"], "n": [9]})
    with pytest.raises(InputError, match=r"a\.csv: the column floor is now null_mean"):
        tables.check(frame, "dalleval_image_quality", where="a.csv")
    # A further column of a reader's own may have any name.
    renamed_frame = frame.rename(columns={"floor": "null_mean"}).assign(outcome="x", reason="", ci_low=0.1, ci_high=0.2)
    assert "outcome" in tables.check(renamed_frame, "dalleval_image_quality")


def test_shares_old_prompt_suggests_new_name(tmp_path):
    text = "occupation,source,percent_female,n,prompt\nnurse,training,70,10,ratings\nnurse,generated,80,10,ratings\n"
    (path := tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match="prompt is ratings in data row 1; it is now called annotations"):
        shares.read(path)


@pytest.mark.parametrize("called", ["annotator", "Annotator ID", "rater_id", "worker", "participant"])
def test_annotations_accept_columns_of_annotation_tools(tmp_path, called):
    text = f"image,source,occupation,{called},label\na,generated,nurse,Ann,female\nb,training,nurse,Ben,male\n"
    (path := tmp_path / "a.csv").write_text(text)
    assert annotations.annotators(shares.read(path).table) == ["Ann", "Ben"]
