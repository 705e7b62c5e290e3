"""Columns of earlier versions: an error that gives the name of today, in tables and in files of annotations."""

import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.ratings import annotations, shares
from biaslab.schema import old_names, tables


def test_old_columns_are_in_no_table():
    declared = {name for schema in tables.schemas().values() for name in schema.names}
    declared |= {column.name for schema in tables.schemas().values() for column in schema.columns}
    columns = old_names.table("columns")
    assert not declared & set(columns)
    assert set(columns.values()) <= declared


def test_check_of_a_table_with_an_old_column_gives_the_new_name():
    frame = pd.DataFrame({"model": ["a"], "metric": ["m"], "value": [1.0], "floor": [0.5], "images": ["all"], "n": [9]})
    with pytest.raises(InputError, match=r"a\.csv: the column floor is now null_mean"):
        tables.check(frame, "dalleval_image_quality", where="a.csv")
    # A further column of a reader's own may have any name.
    own = frame.rename(columns={"floor": "null_mean"}).assign(outcome="x", reason="", ci_low=0.1, ci_high=0.2)
    assert "outcome" in tables.check(own, "dalleval_image_quality")


def test_shares_with_an_old_prompt_give_the_new_one(tmp_path):
    text = "occupation,source,percent_female,n,prompt\nnurse,training,70,10,ratings\nnurse,generated,80,10,ratings\n"
    (path := tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match="prompt is ratings in data row 1; it is now annotations"):
        shares.read(path)


@pytest.mark.parametrize("called", ["annotator", "Annotator ID", "rater_id", "worker", "participant"])
def test_annotations_with_the_columns_of_annotation_tools_are_read(tmp_path, called):
    text = f"image,source,occupation,{called},label\na,generated,nurse,Ann,female\nb,training,nurse,Ben,male\n"
    (path := tmp_path / "a.csv").write_text(text)
    assert annotations.annotators(shares.read(path).table) == ["Ann", "Ben"]
