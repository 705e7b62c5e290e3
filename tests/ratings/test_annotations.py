"""The reader of annotations: every format becomes one long table, and errors name the cell."""

import datetime
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.ratings import annotations
from biaslab.ratings.annotations import LABELS, YES_NO, judgements, read, skills, votes

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "laion_sd_gender_ratings.csv"
# Image a shows one person, b two, c three, d one without a label, e one that the file lacks.
PEOPLE = pd.DataFrame(
    [("a", 1), ("b", 2), ("b", 1), ("c", 1), ("c", 2), ("c", 3), ("d", 1), ("e", 1)], columns=["image_id", "position"]
)
# By hand: a female 2 of 3; b left a tie, right male 2 of 3; c left unsure, middle female, right male; d nothing.
WIDE = """Image ID,Position,Ann,Ben,Cy
a,,feminine,female,Masculine
b,left,female,male,
b,right,male,unsure,man
c,1,Cannot Identify,unsure,
c,middle,F,,
c,right,,,m
d,1,,,
"""
LONG = """annotator,image_id,position,label
Ann,a,1,female
Ben,a,,female
Cy,a,1,male
Ann,b,1,female
Ben,b,left,male
Ann,b,2,male
Ben,b,right,unsure
Cy,b,2,man
Ann,c,left,unsure
Ben,c,1,unsure
Ann,c,2,female
Cy,c,3,male
,d,1,
"""
STEPS = "image_id,annotator,objects,number,relation\n"
OBJECTS = "image_id,object,shown,annotator\n"
# The names, texts and ids of questions, then a row per respondent.
QUALTRICS = """ResponseId,a,b
Response ID,The person is,The person is
"{""ImportId"":""_recordId""}","{""ImportId"":""Q1""}","{""ImportId"":""Q2""}"
R_1,Male,
R_2,,Female
"""
PAGE = "image_id,position,question,annotator,label,probability,model,source,occupation,prompt\n"


def labelled(frame):
    """Return image_id, position, question, annotator and label of what is labelled."""
    labelled_rows = frame[frame["label"] != ""]
    return labelled_rows[["image_id", "position", "question", "annotator", "label"]].to_numpy().tolist()


# -- forms and questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("image,Ann\na,F\nb,\n", [["a", 1, "", "Ann", "female"]]),
        ("image,Ann,ann\na,not  sure,NB\n", [["a", 1, "", "Ann", "unsure"], ["a", 1, "", "ann", "other"]]),
        ("File,worker-id,Perceived Gender\na,1,Man\n", [["a", 1, "", "1", "male"]]),
        ("Input.image_id,WorkerId,Answer.gender\na,A1,woman\n", [["a", 1, "", "A1", "female"]]),
        ("image,Gender\na,F\n", [["a", 1, "", "Gender", "female"]]),
        (QUALTRICS, [["a", 1, "", "R_1", "male"], ["b", 1, "", "R_2", "female"]]),
        (f"{STEPS}a,Ann,YES,n,\n", [["a", 1, "objects", "Ann", "yes"], ["a", 1, "number", "Ann", "no"]]),
        ("image,objects,number,relation\na,,,1\n", [["a", 1, "relation", "1", "yes"]]),
        (f"{OBJECTS}a,Coffee_Cup,true,x\n", [["a", 1, "object: coffee cup", "x", "yes"]]),
        ("image_id,object,shown\na,hat,0\n", [["a", 1, "object: hat", "1", "no"]]),
        (f"{PAGE}a,2,,x,female,0.5,m,generated,nurse,a nurse\n", [["a", 2, "", "x", "female"]]),
        (f"{PAGE}a,1,skin tone,x,7,,,,,\n", [["a", 1, "skin tone", "x", "7"]]),
        (f"{PAGE}a,1,alignment,x,1,,,,,\n", [["a", 1, "alignment", "x", "1"]]),
        (f"{PAGE}a,1,hat,x,Bowler,,,,,\n", [["a", 1, "hat", "x", "Bowler"]]),
        (f"{PAGE}a,1,mood,x,HAPPY,,,,,\n", [["a", 1, "mood", "x", "Happy"]]),
    ],
)
def test_read_each_format_gives_one_long_table(content, expected, write):
    frame = read(write(content), {**LABELS, "mood": ("Happy", "sad")})
    assert list(frame) == list(annotations.COLUMNS)
    assert labelled(frame) == expected


@pytest.mark.parametrize("content", [f"{WIDE}e,,NB,,\n", f"{LONG}Ann,e,1,other\n"])
def test_judgements_resolve_positions_and_votes(content, write):
    result = judgements(PEOPLE, write(content))
    pd.testing.assert_frame_equal(result[["image_id", "position"]], PEOPLE, check_dtype=False)
    assert list(result["status"]) == [
        "judged", "judged", "uncertain", "uncertain", "judged", "judged", "unannotated", "uncertain",
    ]  # fmt: skip
    assert list(result["gender"]) == ["female", "male", "unsure", "unsure", "female", "male", "", "unsure"]
    assert list(result["reason"]) == ["", "", "tie", "unsure", "", "", "", "other"]
    assert result[["female", "male", "unsure", "other"]].sum(axis=1).tolist() == [3, 3, 2, 2, 1, 1, 0, 1]


def test_judgements_of_missing_people_are_unannotated(write):
    result = judgements(pd.DataFrame({"image_id": ["q"], "position": [1]}), write(WIDE))
    assert result[["status", "gender", "reason"]].to_numpy().tolist() == [["unannotated", "", "not in the file"]]


def test_judgements_duplicate_image_is_refused(write):
    text = "image,source,occupation,model,Ann\na,generated,nurse,A,female\na,generated,nurse,B,male\n"
    with pytest.raises(InputError, match="'a' occurs in several rows of the annotations"):
        judgements(PEOPLE, write(text))


def test_read_unknown_people_are_listed_or_refused(write):
    # Image b shows two people, a one: there is no third, middle or left one.
    path = write("image_id,position,Ann\na,1,female\nzz,1,male\nb,3,male\na,left,male\nb,middle,female\n")
    frame = read(path, people=PEOPLE)
    assert labelled(frame) == [["a", 1, "", "Ann", "female"]]
    assert frame.attrs["others"] == [("zz", 1), ("b", 3), ("a", 0), ("b", 0)]
    with pytest.raises(InputError, match=r"4 people or images .*data row 2\); their images are 'zz', 'b', 'a'"):
        read(path, people=PEOPLE, strict=True)
    with pytest.raises(InputError, match="annotates none of the people"):
        read(write("image_id,Ann\na,\n"), people=PEOPLE, strict=True)


def test_read_page_selects_requested_questions(write):
    path = write(f"{PAGE}a,1,,x,male,0.5,m,,nurse,\na,1,mood,x,glad,0.5,m,,nurse,\na,1,objects,x,yes,,m,,nurse,\n")
    assert labelled(read(path, {"": LABELS[""]})) == [["a", 1, "", "x", "male"]]
    assert labelled(read(path, {"obj*": YES_NO})) == [["a", 1, "objects", "x", "yes"]]
    assert read(path, {"other": YES_NO}).empty
    result = read(path, {"": LABELS[""]}).iloc[0]
    assert result[["model", "source", "occupation", "probability"]].tolist() == ["m", "generated", "nurse", 0.5]


def test_skills_are_correct_if_all_steps_are(write):
    text = f"{STEPS}a,Ann,yes,yes,\na,Ben,yes,no,\nb,Ann,yes,,yes\nb,Ben,yes,,no\nc,Ann,no,,\n"
    result = skills(write(text), ["a", "b", "c", "d"])
    assert list(result) == ["image_id", "annotator", "objects", "number", "relation", "correct"]
    assert result["image_id"].tolist() == [*"aabbc"] and result["annotator"].tolist() == [*("Ann", "Ben") * 2, "Ann"]
    assert result["number"].tolist() == ["yes", "no", "", "", ""]
    assert result["correct"].tolist() == ["yes", "no", "yes", "no", "no"]
    with pytest.raises(InputError, match=r"1 people or images .*data row 5\); their images are 'c'"):
        skills(write(text), ["a", "b"])


def test_votes_return_most_frequent_label(write):
    frame = read(write(f"{OBJECTS}a,cup,yes,1\na,cup,no,2\na,cup,y,3\nb,dog,no,1\nb,hat,yes,1\nb,hat,no,2\n"))
    result = votes(frame, ["image_id", "question"])
    assert result[["image_id", "question", "label", "n_annotators"]].to_numpy().tolist() == [
        ["a", "object: cup", "yes", 3], ["b", "object: dog", "no", 1], ["b", "object: hat", "tie", 2],
    ]  # fmt: skip


def test_read_several_waves_are_refused(write):
    text = "image,probability,wave,annotator,label\na,0.5,1,r,female\n"
    assert labelled(read(write(f"{text}b,0.5,1,r,male\n")))[1] == ["b", 1, "", "r", "male"]
    with pytest.raises(InputError, match=r"annotations\.csv.*wave is '2'.*not one random sample"):
        read(write(f"{text}b,0.5,2,r,male\n"))


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,Ann\nb,female\n", "position is empty for an image of several people in data row 1"),
        ("image,positoin,Ann\na,1,female\n", "Rename 'positoin' to 'position'"),
        ("imgae,Ann\na,female\n", "Rename 'imgae' to 'image_id'"),
        ("a,b\n1,2\n", r"no column 'image_id'.* It has: a, b\."),
        ("image_id,position\na,1\n", "no column of annotations"),
        ("image_id,annotator\na,Ann\n", "no column 'label'"),
        (
            "annotator,a,Progress\nR_1,male,100\n",
            "'Progress' contains '100' in data row 1.* 'Progress' is not a column of labels",
        ),
        ("image_id,rater,label\na,Ann,male\n", "rater is now annotator"),
        ("image_id,about,annotator,label\na,hat,Ann,yes\n", "about is now question"),
        (
            "image_id,Ann\na,femal\n",
            r"'Ann' contains 'femal' in data row 1.*Did you mean 'female'.*'Ann' is not a column of labels",
        ),
        ("image_id,annotator,label\na,x,male\na,y,man?\n", "column 'label' contains 'man\\?' in data row 2"),
        ("image_id,question,annotator,label\na,number,x,female\n", "'female' in data row 1.* question 'number'"),
        ("image_id,question,annotator,label\na,skin tone,x,11\n", "'11' in data row 1.* question 'skin tone'"),
        ("image_id,question,annotator,label\na,alignment,x,good\n", "'good' in data row 1.* 'alignment'"),
        ("image_id,position,Ann\na,top,female\n", "position is 'top' in data row 1"),
        ("image_id,position,Ann\na,1.5,female\n", "position is '1.5' in data row 1"),
        ("image_id,position,Ann\na,0,female\n", "position is '0' in data row 1"),
        ("image_id,Ann\n,female\n", "image_id is '', empty or of several lines in data row 1"),
        ('image_id,Ann\n"a\nb",female\n', "check for an unclosed quotation mark"),
        (
            "image_id,position,Ann\nb,1,female\nb,left,male\n",
            "'b', position '1' has two annotations by annotator 'Ann'",
        ),
        ("image_id,annotator,label\na,Ann,male\na, Ann ,male\n", "two annotations by annotator 'Ann', .* data row 2"),
        ("image_id,annotator,label\na,Ann,male\na,ann,male\n", "annotator is spelt 'Ann' and 'ann'"),
        ("image_id,annotator,label\na,,male\n", "annotator is empty in data row 1"),
        ("image_id,annotator,label,source\na,r,f,web\n", "source is 'web'.*training or generated"),
        ("image_id,annotator,label,probability\na,r,f,1.5\n", "probability is '1.5'.*at most 1"),
        ("image_id,annotator,label,probability\na,r,f,0.5\na,s,f,0.6\n", "several probabilities"),
        (f"{STEPS}a,Ann,maybe,,\n", "column 'objects' contains 'maybe' in data row 1"),
        (f"{STEPS}a,Ann,yes,,\na,Ann,no,,\n", "two annotations by annotator 'Ann', the second in data row 2"),
        (f"{STEPS}a,Ann,,,\n", "nothing is annotated in data row 1"),
        ("image_id,annotator,objects,number\na,Ann,yes,yes\n", "no column 'relation'"),
        ("image_id,annotator,object,number,relation\na,Ann,yes,,\n", "Rename 'object' to 'objects'"),
        (f"{OBJECTS}a, ,yes,1\n", "object or shown is empty in data row 1"),
        (f"{OBJECTS}a,dog,,1\n", "object or shown is empty in data row 1"),
        (f"{OBJECTS}a,dog,maybe,1\n", "contains 'maybe' in data row 1.* question 'object: dog'"),
        (f"{OBJECTS}a,coffee_cup,no,1\na,coffee  cup,no,1\n", "two annotations"),
        ("image_id,object\na,dog\n", "no column 'shown'"),
    ],
)
def test_read_invalid_file_names_value(content, message, write):
    with pytest.raises(InputError, match=message) as error:
        read(path := write(content), people=PEOPLE)
    assert str(path) in str(error.value)


def test_position_words_without_people_are_refused(write):
    with pytest.raises(InputError, match=r"position is 'left' in data row 1; use 1, 2, … from the left\."):
        read(write("image,annotator,label,position\na,r,f,left\n"))


def test_read_workbook_names_cells_with_dates_or_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="Excel needs the extra 'excel'")

    def workbook(*rows):
        book = openpyxl.Workbook()
        for row in (("image_id", "annotator", "label", "seen"), *rows):
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    day = datetime.datetime(2026, 2, 1)
    assert labelled(read(workbook((7, "x", "male", day)))) == [["7", 1, "", "x", "male"]]
    with pytest.raises(
        InputError, match=r"'image_id' contains a date in cell A3 \(2026-02-01;.* Format the column as text"
    ):
        read(workbook(("a", "x", "male"), (day, "x", "male")))
    with pytest.raises(InputError, match="cell C2 contains a formula without a value"):
        read(workbook(("a", "x", '=IF(1=1,"male","female")')))


# -- a real file -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.exists(), reason="the file of real annotations is not next to the repository")
def test_votes_on_real_annotations_match_counts():
    result = votes(read(REAL))
    frame = pd.read_csv(REAL, keep_default_na=False)
    labels = [majority(row) for row in frame[["r1", "r2", "r3", "r4"]].to_numpy()]
    assert len(labels) == 3572 and result["label"].tolist() == labels


def majority(row) -> str:
    """Return the majority by counting, without the package."""
    count = Counter(label for label in row if label)
    if not count:
        return "unannotated"
    (first, n), *rest = count.most_common()
    return "tie" if rest and rest[0][1] == n else first


def test_votes_of_many_annotators_match_counts(write):
    rng = np.random.default_rng(5)
    rows = [
        (f"i{i}", f"w{w}", rng.choice(["female", "male", "unsure"]))
        for i in range(60)
        for w in rng.choice(90, size=rng.integers(1, 6), replace=False)
    ]
    frame = pd.DataFrame(rows, columns=["image", "annotator", "label"])
    result = votes(read(write(frame.to_csv(index=False))))
    expected = {image: majority(part["label"]) for image, part in frame.groupby("image")}
    assert dict(zip(result["image_id"], result["label"], strict=True)) == expected


def test_read_without_annotator_column_assumes_one(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("image_id,label\na,F\nb,male\n")
    frame = read(file)
    assert frame[["image_id", "annotator", "label"]].to_numpy().tolist() == [["a", "1", "female"], ["b", "1", "male"]]
    # A column that is nearly called annotator is not taken for one without a meaning.
    file.write_text("image_id,anotator,label\na,x,F\n")
    with pytest.raises(InputError, match="Rename 'anotator' to 'annotator'"):
        read(file)
