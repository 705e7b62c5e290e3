"""Shares of annotated images and counted shares: contents of files, and errors for invalid ones."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab.analyses import ratings as rating
from biaslab.analyses.ratings import analysis
from biaslab.errors import InputError
from biaslab.ratings import annotations, shares
from biaslab.schema import tables

# Votes by hand: a is female (2 of 3), b a tie of female and male, c unsure (2 of 3), d unannotated, e male (one
# rating), f female (2 of 4 would do: here 1 of 1), g male (2 of 3, one unsure).
WIDE = """image,source,occupation,r1,r2,r3
a,training,nurse,female,female,male
b,training,nurse,female,male,
c,training,nurse,unsure,unsure,female
d,training,nurse,,,
e,training,nurse,male,,
f,generated,nurse,female,,
g,generated,nurse,male,male,unsure
"""
LONG = """image,source,occupation,annotator,label
a,training,nurse,x,female
a,training,nurse,y,male
b,generated,nurse,x,female
a,training,nurse,z,female
b,generated,nurse,y,
c,generated,nurse,,
"""
SHARES = """occupation,source,percent_female,n
nurse,training,90,200
nurse,generated,97.5,40
carpenter,training,5,100
carpenter,generated,0,50
"""


@pytest.fixture
def write(tmp_path):
    def _write(content: str | bytes, name: str = "file.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


def note(annotated_images: shares.AnnotatedImages, item: str) -> float:
    return annotated_images.notes.set_index("item")["n"][item]


def cell(annotated_images: shares.AnnotatedImages, source: str, occupation: str = "nurse") -> pd.Series:
    rows = annotated_images.outcomes
    return rows[(rows["source"] == source) & (rows["occupation"] == occupation)].iloc[0]


# -- the three formats -----------------------------------------------------------------------------------


def test_read_resolves_votes_and_counts_statuses(write):
    annotated_images = shares.read(write(WIDE))
    assert annotations.annotators(annotated_images.table) == ["r1", "r2", "r3"]
    assert annotated_images.images["label"].tolist() == [
        "female",
        "tie",
        "unsure",
        "unannotated",
        "male",
        "female",
        "male",
    ]
    training = cell(annotated_images, "training")
    assert training[["n_images", *shares.OUTCOMES, "n"]].tolist() == [5, 1, 1, 0, 1, 1, 1, 2]  # no other
    assert training["percent_female"] == 50.0  # a female, e male
    result = annotated_images.percent_female.set_index("source")
    assert result["percent_female"].to_dict() == {"generated": 50.0, "training": 50.0} and set(result["n"]) == {2}
    same = {"model": "unnamed", "approach": "naive", "occupation": "nurse", "prompt": "annotations"}
    assert (result[list(same)] == list(same.values())).all(axis=None)
    # 3 + 2 + 3 + 0 + 1 + 1 + 3 annotations; b, e and f lack some but not all.
    assert note(annotated_images, "annotations") == 13
    assert note(annotated_images, "images with a missing annotation") == 3
    assert note(annotated_images, "images excluded: unannotated") == 1


def test_label_matrix_of_many_annotators_is_compact(write):
    rows = [(f"i{i}", "generated", "nurse", f"w{i + k}", "female") for i in range(60) for k in range(1 + i % 3)]
    frame = pd.DataFrame(rows, columns=["image", "source", "occupation", "annotator", "label"])
    annotated_images = shares.read(write(frame.to_csv(index=False)))
    labels = annotations.label_matrix(annotated_images.table, annotated_images.images)
    assert len(annotations.annotators(annotated_images.table)) == 62 and labels.shape == (60, 3)
    assert labels.notna().sum(axis=1).tolist() == [1, 2, 3] * 20


def test_read_shares_keep_values_and_n(write):
    annotated_images = shares.read(write(SHARES))
    assert (
        annotated_images.table.empty
        and annotated_images.images.empty
        and annotations.annotators(annotated_images.table) == []
    )
    got = annotated_images.percent_female.set_index(["occupation", "source"])[["percent_female", "n"]]
    assert got.loc[("nurse", "generated")].tolist() == [97.5, 40]
    assert got.loc[("carpenter", "training")].tolist() == [5, 100]
    assert annotated_images.outcomes["n_images"].isna().all() and (annotated_images.outcomes["reason"] == "").all()
    tables.check(annotated_images.percent_female, "paradox_percent_female")
    # Of 97.5 and 0%: the number of undecided people is unknown.
    means = rating.shares(annotated_images).set_index(["source", "answer"])["percent"]["generated"]
    assert means.to_dict() == pytest.approx({"female": 48.75, "male": 51.25})
    none = shares.read(write(f"{SHARE_HEAD}nurse,training,0,9\nnurse,generated,0,9\n"))
    assert (none.percent_female["percent_female"] == 0).all()


def test_read_reports_other_label_spellings(write):
    content = "image,source,occupation,r1,r2,r3\na,training,nurse,F,Woman,not  sure\nb,training,nurse,m,N/A,?\n"
    annotated_images = shares.read(write(content))
    assert annotations.label_matrix(annotated_images.table, annotated_images.images).loc[0].tolist() == [
        "female",
        "female",
        "unsure",
    ]
    assert (
        note(annotated_images, "read 'woman' as female") == 1
        and note(annotated_images, "read 'n/a' as not annotated") == 1
    )


def test_read_reports_unused_columns(write):
    annotated_images = shares.read(write(",image,source,occupation,r1,r2,prompt\n0,a,training,nurse,female,,a nurse\n"))
    assert annotations.annotators(annotated_images.table) == ["r1"]
    assert (
        note(annotated_images, "columns not used") == 2
        and note(annotated_images, "annotators without annotations") == 1
    )
    annotated_images = shares.read(write(SHARES.replace("n\n", "n,note\n", 1).replace("0\n", "0,x\n")))
    notes = annotated_images.notes.set_index("item")
    assert notes.loc["columns not used", "detail"] == "note"


def test_read_same_image_name_in_several_groups_is_reported(write):
    annotated_images = shares.read(
        write(f"{HEAD}1,training,nurse,female\n1,generated,nurse,male\n1,training,maid,female\n")
    )
    assert len(annotated_images.images) == 3
    assert annotated_images.notes.set_index("item").loc["images under several sources or occupations"].tolist() == [
        1,
        "counted as a separate image in each; if it is one image, correct the file: '1'",
    ]


# -- models and prompts ----------------------------------------------------------------------------------


def test_read_training_images_serve_every_model(write):
    content = (
        "image,source,occupation,model,r1\na,training,nurse,,female\nb,training,nurse,,male\n"
        "c,generated,nurse,SD 1.4,female\nd,generated,nurse,SD 1.5,male\n"
    )
    frame = shares.read(write(content)).percent_female.set_index(["model", "source"])
    generated, training = (frame["percent_female"].xs(s, level="source").to_dict() for s in ("generated", "training"))
    assert generated == {"SD 1.4": 100.0, "SD 1.5": 0.0} and training == {"SD 1.4": 50.0, "SD 1.5": 50.0}
    assert frame["n"].tolist() == [1, 2, 1, 2]


def test_read_shares_keep_prompts(write):
    head = "occupation,source,percent_female,n,prompt\n"
    annotated_images = shares.read(
        write(head + "nurse,training,90,9,\nnurse,generated,0.5,9,1\nnurse,generated,70,9,2\n")
    )
    assert annotated_images.percent_female["prompt"].tolist() == ["1", "2", "annotations"]
    with pytest.raises(InputError, match="prompt '2' has shares of one source only"):
        shares.read(write(head + "nurse,training,90,9,1\nnurse,generated,80,9,1\nnurse,generated,70,9,2\n"))


# -- exclusions with a reason ----------------------------------------------------------------------------


def test_read_occupation_of_one_source_has_reason(write):
    annotated_images = shares.read(write(SHARES + "maid,generated,95,100\n"))
    row = cell(annotated_images, "generated", "maid")
    assert row["reason"] == "no training images of this occupation" and row["percent_female"] == 95
    assert annotated_images.notes.set_index("item").loc["occupations with one source only"].tolist() == [1, "maid"]
    assert (annotated_images.outcomes.loc[annotated_images.outcomes["occupation"] != "maid", "reason"] == "").all()
    annotated_images = shares.read(write(f"{HEAD}a,training,nurse,unsure\nb,generated,nurse,female\n"))
    row = cell(annotated_images, "training")
    assert row["n"] == 0 and np.isnan(row["percent_female"])
    assert annotated_images.outcomes["reason"].unique().tolist() == ["no training image was decided female or male"]


# -- bad input -------------------------------------------------------------------------------------------

HEAD = "image,source,occupation,r1\n"
SHARE_HEAD = "occupation,source,percent_female,n\n"
NO_NUMBER = "percent_female is {!r} in data row 2; enter a number"
MODEL_HEAD = "image,source,occupation,model,r1\n"
BAD = [
    (
        f"{MODEL_HEAD}a,training,nurse,SD 1.4,female\nb,generated,nurse,SD 1.5,male\n",
        "have the model 'SD 1.4', which has no generated images",
    ),
    (
        f"{MODEL_HEAD}a,generated,nurse,SD 1.4,female\nb,generated,nurse,,male\n",
        "model is empty for generated images in data row 2",
    ),
    (b"", "is empty"),
    (HEAD, "has a header but no rows"),
    (f"{HEAD}a,training,caf\u00e9 owner,female\n".encode("latin-1"), "is not UTF-8 (line 2: byte 0xe9)"),
    (WIDE.replace("nurse", "nur\0se", 1), "column 'occupation' contains null bytes"),
    ("image,source,Source,occupation,r1\na,training,training,nurse,female\n", "two columns named 'source'"),
    (SHARES.replace("percent_female", "percent_femal"), "Rename 'percent_femal' to 'percent_female'."),
    ("occupation,source,percent_female\nnurse,training,40\n", "no column 'n'. Shares need the columns occupation, "),
    (SHARE_HEAD.replace("n\n", "n,modle\n") + "nurse,training,40,9,a\n", "'modle'. Did you mean 'model'?"),
    (f"{HEAD}a,training,nurse,female\nb,genrated,nurse,male\n", "source is 'genrated' in data row 2"),
    ("image,source,occupation,modle,r1\na,training,nurse,SD 1.4,female\n", "'modle' contains 'SD 1.4'"),
    (f"{HEAD}a,training,nurse,\n", "contains no annotation"),
    (f"{HEAD}a,training, ,female\n", "occupation is ' ' in data row 1"),
    (f"{HEAD}a,training,Nurse,female\nb,training,nurse,female\n", "spelt 'Nurse' and 'nurse'"),
    (SHARES.replace("97.5", "197.5"), "percent_female is '197.5' in data row 2; enter a number from 0 to 100"),
    (f"{SHARE_HEAD}nurse,training,0.9,200\nnurse,generated,1,40\n", "Multiply them by 100"),
    (f"{SHARES}nurse,training,90,200\n", "'nurse' ('training') has two shares, the second in data row 5"),
    *((SHARES.replace(",40\n", f",{n}\n"), f"n is '{n}' in data row 2") for n in ("0", "40.5", "1e+300")),
    *((SHARES.replace("97.5", x), NO_NUMBER.format(x)) for x in ("97 or 98", "", "nan", "1e999")),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_read_invalid_input_names_file_and_value(write, content, message):
    path = write(content)
    with pytest.raises(InputError) as error:
        shares.read(path)
    assert str(path) in str(error.value) and message in str(error.value)


def test_read_invalid_file_is_refused(write, tmp_path):
    for path, message in (
        (write(WIDE, "ratings.ods"), r"ratings\.ods.; it must be an existing file that ends in \.csv"),
        (write(WIDE, "ratings.xlsx"), r"ratings\.xlsx cannot be read as Excel: .*; save it as CSV"),
        (tmp_path / "no.csv", r"no\.csv.; it must be an existing file"),
        (write(b"this is not Parquet at all", "no.parquet"), r"no\.parquet cannot be read as Parquet: '"),
    ):
        with pytest.raises(InputError, match=message):
            shares.read(path)


# -- common file formats ---------------------------------------------------------------------------------


def workbook(path, **sheets):
    """Write rows of text as sheets, as a spreadsheet does: numbers as numbers, and an empty row and column."""
    openpyxl = pytest.importorskip("openpyxl", reason="Excel needs the extra 'excel'")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, text in sheets.items():
        sheet = book.create_sheet(name)
        for line in text.splitlines():
            sheet.append([int(cell) if cell.isdigit() else cell or None for cell in line.split(",")])
        sheet.cell(sheet.max_row + 2, sheet.max_column + 2).value = ""
    book.save(path)
    return path


@pytest.mark.long
def test_read_accepts_other_separators_and_excel(write, tmp_path):
    expected = shares.read(write(LONG))
    assert expected.images["label"].tolist() == ["female", "female", "unannotated"] and annotations.annotators(
        expected.table
    ) == ["x", "y", "z"]
    renamed_text = LONG.replace("image,source,occupation,annotator,label", "File,Source,Profession,Annotator ID,Gender")
    files = [
        write(renamed_text.replace(",", ";"), "semicolons.csv"),
        write(renamed_text.replace(",", "\t"), "tabs.tsv"),
    ]
    files.append(write(LONG.replace("annotator,label", "worker-id,Perceived Gender"), "other.csv"))
    for path in files:
        annotated_images = shares.read(path)
        assert annotations.annotators(annotated_images.table) == annotations.annotators(expected.table)
        pd.testing.assert_frame_equal(annotated_images.images, expected.images)
    for text, name in ((LONG, "long"), (renamed_text, "named"), (WIDE, "wide"), (SHARES, "shares")):
        annotated_images = shares.read(workbook(tmp_path / f"{name}.xlsx", Sheet1=text, Empty=""))
        same = shares.read(write(text))
        pd.testing.assert_frame_equal(annotated_images.percent_female, same.percent_female)
        pd.testing.assert_frame_equal(annotated_images.images, same.images)


def test_read_workbook_without_single_table_is_refused(tmp_path):
    for sheets, message in (
        ({"a": WIDE, "b": LONG}, "contains tables on the sheets 'a', 'b'; keep one sheet with one table"),
        ({"a": ""}, "contains no cells; keep one sheet"),
        ({"a": "image,source,occupation,r1,r1\na,training,nurse,f,m"}, r"book\.xlsx has two columns named 'r1'"),
    ):
        with pytest.raises(InputError, match=message):
            shares.read(workbook(tmp_path / "book.xlsx", **sheets))


# By hand: of three nurses one female, one male, one other; of two pilots one other (2 of 3), one a tie.
OTHER = """image,source,occupation,r1,r2,r3
a,generated,nurse,female,female,Non-binary
b,generated,nurse,male,,
c,generated,nurse,nonbinary,other,
d,generated,pilot,other,other,male
e,generated,pilot,female,enby,
f,generated,pilot,,,
"""


def test_read_other_is_separate_class(write):
    annotated_images = shares.read(write(OTHER))
    assert annotated_images.images["label"].tolist() == ["female", "male", "other", "other", "tie", "unannotated"]
    assert note(annotated_images, "images decided other") == 2
    nurse, pilot = (cell(annotated_images, "generated", job) for job in ("nurse", "pilot"))
    assert (nurse["other"], nurse["n"], nurse["percent_female"]) == (1, 2, 50)
    assert (pilot["other"], pilot["tie"], pilot["n"]) == (1, 1, 0)
    # Means over occupations, of annotated images: nurse 1/3 each, pilot 1/2 other, 1/2 undecided.
    result = rating.shares(annotated_images).set_index("answer")
    expected = {"female": 100 / 6, "male": 100 / 6, "other": 500 / 12, "undecided": 25}
    assert result["percent"].to_dict() == pytest.approx(expected) and set(result["n"]) == {5}
    assert (result["ci_low"] < result["percent"]).all()
    # Agreement has them as a label of its own, and set aside; what is decided as other is no open question.
    sets = set(rating.agreement(annotated_images.table, annotated_images.images, replicates=10)["labels"])
    assert sets == {"female/male/other/unsure", "female/male/unsure", "female/male"}
    votes = np.array([[2, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 2], [0, 1, 0, 2], [1, 0, 0, 1], [0, 0, 0, 0]])
    women, _ = analysis.RULES["undecided_training_male"][2](votes, annotated_images.images)
    assert women.tolist() == [1, 0, 0, 0, 1, 1]


def test_headline_of_generated_images_only_is_their_share(write):
    annotated_images = shares.read(write("\n".join(line for line in OTHER.splitlines() if "other" not in line)))
    answer, rows = rating.headline(annotated_images, pd.DataFrame())
    (finding,) = answer.findings(rows)
    assert finding.question == "In what share of generated images is the person perceived as female?"
    # One of two nurses, no pilot (a tie): (1/2 + 0) / 2.
    assert finding.estimate == pytest.approx(25) and "male 25.0%, undecided 50.0%" in finding.answer
