"""Ratings of images that were asked to show objects, and of objects in them: what files become, and bad ones say."""

import pytest

from biaslab.errors import InputError
from biaslab.ratings.skill_ratings import STEPS, majority, read, read_objects

IDS = ("a", "b", "c", "d", "skills-test-count-00001/0")
HEAD = "image_id,annotator,objects,number,relation\n"
# By hand: of a, Ann and Cy say that all is there and Ben that the number is wrong; of b one of two; of c nobody.
RATED = f"{HEAD}a,Ann,yes,yes,\na,Ben,yes,no,\na,Cy,yes,yes,\nb,Ann,yes,,yes\nb,Ben,yes,,no\nc,Ann,no,,\n"
BARE = "image_id,objects,number,relation\n"


def test_a_row_is_right_where_every_step_that_is_rated_is_and_most_raters_decide(write):
    found = read(write(RATED), IDS)
    assert list(found) == ["image_id", "annotator", *STEPS, "correct"]
    assert found["image_id"].tolist() == [*"aaabbc"]
    assert found["annotator"].tolist() == ["Ann", "Ben", "Cy", "Ann", "Ben", "Ann"]
    assert found["objects"].tolist() == ["yes"] * 5 + ["no"]
    assert found["number"].tolist() == ["yes", "no", "yes", "", "", ""]
    assert found["relation"].tolist() == ["", "", "", "yes", "no", ""]
    assert found["correct"].tolist() == ["yes", "no", "yes", "yes", "no", "no"]
    # A tie is no.
    assert majority(found).to_dict() == {"a": "yes", "b": "no", "c": "no"}
    # One annotator needs no name.
    found = read(write(f"{BARE}a,yes,,\nb,no,,\n"), IDS)
    assert found["annotator"].nunique() == 1 and found["correct"].tolist() == ["yes", "no"]


def test_a_rater_is_spelt_one_way_as_in_all_files_of_ratings(write):
    text = "image_id,objects,number,relation,annotator\na,yes,,,{}\na,no,,,{}\n"
    # A mark without width and blanks are no part of a name.
    for other, message in (
        ("R", "annotator is spelt 'r' and 'R'"),
        ("r\u200b", "annotated twice"),
        (" r ", "annotated twice"),
    ):
        with pytest.raises(InputError, match=message):
            read(write(text.format("r", other)), IDS)


def test_spellings(write):
    meant = dict.fromkeys(("yes", "YES", " Yes ", "y", "Y", "1", "true", "TRUE"), "yes")
    meant |= dict.fromkeys(("no", "No", "n", "0", "false", "False"), "no") | dict.fromkeys(("", "  "), "")
    rows = [f"a,r{k},yes,{spelt},\n" for k, spelt in enumerate(meant)]
    assert read(write(HEAD + "".join(rows)), IDS)["number"].tolist() == list(meant.values())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # What is wrong, and the number of the row below the header where it is.
        (RATED + "e,Ann,yes,,\n", r"'e'.* row 7"),
        (RATED + "d,Ann,maybe,,\n", r"objects is 'maybe'.* row 7"),
        (RATED + "b,Ben,no,,\n", r"'b'.* twice.* row 7"),
        (f"{BARE}a,yes,,\na,yes,,\n", r"'a'.* twice.* row 2"),
        # The same two, whatever stands around their names.
        (f"{HEAD}a,Ann,yes,,\n a, Ann ,yes,,\n", r"'a'.* twice.* row 2"),
        (RATED + "d,Ann,,,\n", "row 7"),
        ("image_id,annotator,objects,number\na,Ann,yes,yes\n", "column 'relation'"),
        ("image_id,annotator,object,number,relation\na,Ann,yes,,\n", "column 'objects'.*'object'"),
    ],
)
def test_bad_files_are_errors_that_name_the_value(content, said, write):
    path = write(content)
    with pytest.raises(InputError, match=said) as caught:
        read(path, IDS)
    assert str(path) in str(caught.value)


OBJECTS = "image_id,object,shown,annotator\na,Coffee_Cup,yes,1\na,coffee cup,NO,2\na,coffee cup,y,3\nb,dog,no,1\n"


def test_of_objects_most_raters_decide_too(write):
    found = read_objects(write(f"{OBJECTS}b,hat,yes,1\nb,hat,no,2\n"), ["a", "b", "c"])
    assert found.to_numpy().tolist() == [["a", "coffee cup", "yes"], ["b", "dog", "no"], ["b", "hat", "no"]]
    assert read_objects(write("image_id,object,shown\na,hat,yes\n"), ["a"])["shown"].tolist() == ["yes"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{OBJECTS}z,dog,yes,1\n", r"'z' is no image.*data row 5"),
        (f"{OBJECTS}a, ,yes,1\n", "object is empty"),
        (f"{OBJECTS}a,dog,maybe,1\n", "shown is 'maybe'"),
        (f"{OBJECTS}a,coffee  cup,no,1\n", "annotated twice"),
        ("image_id,object\na,dog\n", "no column 'shown'"),
    ],
)
def test_what_does_not_fit_of_objects_is_named(content, said, write):
    with pytest.raises(InputError, match=said):
        read_objects(write(content), ["a", "b"])
