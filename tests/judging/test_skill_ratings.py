"""Ratings of images that were asked to show objects: what files become, and what bad ones say."""

import pandas as pd
import pytest

from biaslab.ground.errors import InputError
from biaslab.ratings.skill_ratings import STEPS, majority, read, read_objects

IDS = ("a", "b", "c", "d", "skills-test-count-00001/0")
# By hand: of a, Ann and Cy say that all is there and Ben that the number is wrong; of b one of two; of c nobody.
RATED = """image_id,rater,objects,number,relation
a,Ann,yes,yes,
a,Ben,yes,no,
a,Cy,yes,yes,
b,Ann,yes,,yes
b,Ben,yes,,no
c,Ann,no,,
"""


def one(**cells):
    """Return a file of one row, empty where nothing is said."""
    row = {"image_id": "a", "rater": "Ann", "objects": "", "number": "", "relation": ""} | cells
    return f"{','.join(row)}\n{','.join(row.values())}\n"


def test_a_row_is_right_where_every_step_that_is_rated_is(write):
    found = read(write(RATED), IDS)
    assert list(found) == ["image_id", "rater", *STEPS, "correct"]
    assert found["image_id"].tolist() == [*"aaabbc"]
    assert found["rater"].tolist() == ["Ann", "Ben", "Cy", "Ann", "Ben", "Ann"]
    assert found["objects"].tolist() == ["yes"] * 5 + ["no"]
    assert found["number"].tolist() == ["yes", "no", "yes", "", "", ""]
    assert found["relation"].tolist() == ["", "", "", "yes", "no", ""]
    assert found["correct"].tolist() == ["yes", "no", "yes", "yes", "no", "no"]
    assert found.index.tolist() == list(range(6))


def test_most_raters_decide_and_a_tie_is_no(write):
    said = majority(read(write(RATED), IDS))
    assert said.to_dict() == {"a": "yes", "b": "no", "c": "no"}


def test_a_parquet_file_says_the_same(write):
    csv = write(RATED)
    frame = pd.read_csv(csv, dtype=str)
    # An empty cell is missing there.
    assert frame["relation"].isna().any()
    pd.testing.assert_frame_equal(read(write(frame, "ratings.parquet"), IDS), read(csv, IDS))


def test_a_rater_is_spelt_one_way_as_in_all_files_of_ratings(write):
    text = "image_id,objects,number,relation,rater\na,yes,,,{}\na,no,,,{}\n"
    with pytest.raises(InputError, match=r"rater is spelt 'r' and 'R'; spell it one way"):
        read(write(text.format("r", "R")), IDS)
    # But for what nobody sees they are one: a mark without width, and blanks.
    for other in ("r\u200b", " r "):
        with pytest.raises(InputError, match="is rated twice by one"):
            read(write(text.format("r", other)), IDS)
    objects = "image_id,object,shown,rater\na,dog,yes,r\na,dog,no,R\n"
    with pytest.raises(InputError, match=r"rater is spelt 'r' and 'R'"):
        read_objects(write(objects), IDS)
    with pytest.raises(InputError, match=r"rater is 'a\\nb' in data row 1; give a name of one line"):
        read(write(text.format('"a\nb"', "c")), IDS)


def test_one_rater_needs_no_name(write):
    found = read(write("image_id,objects,number,relation\na,yes,,\nb,no,,\n"), IDS)
    assert found["rater"].nunique() == 1 and found["correct"].tolist() == ["yes", "no"]
    assert majority(found).to_dict() == {"a": "yes", "b": "no"}


@pytest.mark.parametrize(
    ("spelt", "meant"),
    [
        *((text, "yes") for text in ("yes", "YES", " Yes ", "y", "Y", "1", "true", "TRUE")),
        *((text, "no") for text in ("no", "No", "n", "0", "false", "False")),
        *((text, "") for text in ("", "  ")),
    ],
)
def test_spellings(spelt, meant, write):
    found = read(write(one(objects="yes", number=spelt)), IDS)
    assert found["number"].tolist() == [meant]
    assert found["correct"].tolist() == ["no" if meant == "no" else "yes"]


def test_columns_may_be_capitalised_and_ids_escaped(write):
    # An apostrophe is what tables are written with before what a spreadsheet would run as a formula.
    text = "Image ID,Rater,Objects,Number,Relation,remark\n'=1 ,Ann,y,,,blurred\n'b,Ann,n,,,\n"
    found = read(write(text), ["=1", "'b"])
    assert found["image_id"].tolist() == ["=1", "'b"]
    assert list(found) == ["image_id", "rater", *STEPS, "correct"]


def test_two_raters_may_rate_one_image_and_one_two(write):
    text = "image_id,rater,objects,number,relation\na,Ann,y,,\na,Ben,n,,\nb,Ann,n,,\n"
    assert read(write(text), IDS)["correct"].tolist() == ["yes", "no", "no"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # What is wrong, and the number of the row below the header where it is.
        (RATED + "e,Ann,yes,,\n", r"'e'.* row 7"),
        (one(image_id="a/0"), r"'a/0'.* row 1"),
        (RATED + "d,Ann,maybe,,\n", r"objects is 'maybe'.* row 7"),
        (one(objects="yes", number="2"), r"number is '2'.* row 1"),
        (one(objects="yes", relation="unsure"), r"relation is 'unsure'.* row 1"),
        (RATED + "b,Ben,no,,\n", r"'b'.* twice.* row 7"),
        ("image_id,objects,number,relation\na,yes,,\na,yes,,\n", r"'a'.* twice.* row 2"),
        # The same two, whatever stands around their names.
        ("image_id,rater,objects,number,relation\na,Ann,yes,,\n a, Ann ,yes,,\n", r"'a'.* twice.* row 2"),
        (RATED + "d,Ann,,,\n", r"row 7"),
        (one(), r"row 1"),
        ("image_id,rater,objects,number\na,Ann,yes,yes\n", r"column 'relation'"),
        ("image_id,rater,object,number,relation\na,Ann,yes,,\n", r"column 'objects'.*'object'"),
        ("image,rater,objects,number,relation\na,Ann,yes,,\n", r"column 'image_id'.*'image'"),
        ("image_id,rater,objects,number,relation\n", r"no rows"),
    ],
    ids=[
        *("unknown image", "unknown id", "neither", "number", "unsure"),
        *("twice", "twice unnamed", "twice spaced", "nothing rated", "nothing at all"),
        *("no relation", "misspelt column", "misspelt id", "no rows"),
    ],
)
def test_bad_files_are_errors_that_name_the_value(content, said, write):
    path = write(content)
    with pytest.raises(InputError, match=said) as caught:
        read(path, IDS)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["ratings.xlsx", "missing.csv"])
def test_no_such_file_is_an_error(name, tmp_path):
    if name.endswith("xlsx"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(InputError, match=name):
        read(tmp_path / name, IDS)
