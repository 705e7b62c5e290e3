"""Questions for annotators: built-in ones, user files, and which images each applies to."""

import pandas as pd
import pytest

from biaslab import cli
from biaslab.errors import InputError, ParameterError, UnknownNameError
from biaslab.judges.annotation_questions import IMAGE_KEYS, ask, built_in, describe, find_questions
from biaslab.judges.questions import IMAGE, PERSON, Question, question, read_questions
from biaslab.metrics.skin_tone import MONK_SWATCHES
from biaslab.papers.dalleval.prompts import ATTRIBUTES, attribute_question

# Image a shows a nurse and a pilot, b a scene of one skill, and c a person whose prompt is not known.
PEOPLE = pd.DataFrame(
    [
        ("a", 0, 1, "nurse", "a nurse and a pilot with a dog", "", ["dog"]),
        ("a", 0, 2, "pilot", "a nurse and a pilot with a dog", "", ["dog"]),
        ("b", 1, 0, "person", "two dogs", "count", ["dog", "bench"]),
        ("c", 2, 1, "person", "", "", None),
    ],
    columns=["image_id", "picture", "position", "phrase", "prompt", "skill", "object"],
).assign(source="generated", model="m", noun=[["nurse"], ["nurse"], [], None])


def ask_rows(names):
    """Return image, position, question and wording of each row to annotate."""
    rows = ask(PEOPLE, find_questions(names))
    return list(zip(rows["image_id"], rows["position"], rows["question"], rows["words"], strict=True))


def test_find_questions_without_names_returns_perceived_gender():
    (item,) = find_questions()
    assert (item.name, item.answers, item.of) == ("perceived gender", ("female", "male", "unclear"), PERSON)
    assert find_questions("attributes,dress, skin tone")[-1].answers == (*map(str, range(1, 11)), "unclear")


def test_built_in_attributes_match_dalleval():
    assert [item.question for item in built_in()["attributes"]] == [attribute_question(name) for name in ATTRIBUTES]
    assert {name: item.skills for name in ("objects", "number", "relation") for item in built_in()[name]} == {
        "objects": ("object", "count", "spatial"),
        "number": ("count",),
        "relation": ("spatial",),
    }


def test_annotate_help_lists_built_in_questions(capsys):
    with pytest.raises(SystemExit):
        cli.main(["annotate", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert [name for name in built_in() if name not in ATTRIBUTES and f" {name}" not in words] == []


def test_find_questions_of_unknown_name_lists_known_names():
    with pytest.raises(UnknownNameError, match=r"named 'skin'.*Known: alignment, attributes, boots, .*skin tone"):
        find_questions("skin")


def test_find_questions_joins_names_and_files(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "- {name: fit, question: 'How well does it fit {text}?', scale: 1-5, ends: [badly, well], of: image}\n"
        "- {name: dress, question: 'A dress?', answers: [yes, no], hint: Look closely.}\n"
    )
    gender, fit, dress = find_questions(f"perceived gender,{path}")
    assert gender.name == "perceived gender" and fit.ends == ("badly", "well") and fit.of == IMAGE
    assert fit.answers == ("1", "2", "3", "4", "5", "unclear") and dress.hint == "Look closely."
    with pytest.raises(InputError, match="Two questions are called 'dress'"):
        find_questions(f"dress,{path}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("scale: 1-7", "use monk or 1-5, without answers"),
        ("scale: 1-5, answers: [yes, no]", "use monk or 1-5, without answers"),
        ("scale: 1-5, ends: [bad]", "ends must be two labels"),
        ("answers: [yes, no], ends: [bad, good]", "ends must be two labels"),
        ("answers: [yes, no], hint: ''", "hint must be a string"),
        ("answers: [yes, no], skills: [{a: b}]", "must be a string"),
        ("answers: [yes, no], colour: red", "of, ends, hint and skills are optional"),
    ],
)
def test_read_questions_wrong_field_is_refused(tmp_path, fields, said):
    (tmp_path / "q.yaml").write_text(f"- {{name: a, question: 'A?', {fields}}}")
    with pytest.raises(InputError, match=said):
        read_questions(tmp_path / "q.yaml")


@pytest.mark.parametrize(("of", "name", "other"), [("person", "object", "image"), ("image", "phrase", "person")])
def test_read_questions_foreign_placeholder_is_refused(tmp_path, of, name, other):
    (tmp_path / "q.yaml").write_text(f"- {{name: a, question: 'A {{{name}}}?', answers: [yes, no], of: {of}}}")
    with pytest.raises(InputError, match=rf"{{{name}}} is only for questions about: {other}"):
        read_questions(tmp_path / "q.yaml")


def test_read_questions_for_model_with_placeholder_is_refused(tmp_path):
    (tmp_path / "q.yaml").write_text("- {name: a, question: 'Does it fit {text}?', answers: [yes, no], of: image}")
    with pytest.raises(InputError, match=r"has {text}, which only 'biaslab annotate' replaces"):
        read_questions(tmp_path / "q.yaml")
    assert find_questions(str(tmp_path / "q.yaml"))[0].placeholders == {"text"}


@pytest.mark.parametrize(
    ("position", "people", "where"),
    [(1, 1, ""), (2, 2, " on the right"), (2, 3, " in the middle"), (4, 4, ", number 4 from the left,")],
)
def test_question_names_position_of_person(position, people, where):
    expected = f"What gender is the nurse{where} in the picture?"
    assert question("nurse", position, people) == expected
    assert question("nurse", position, people, "Who is the {phrase} {place}?") == (
        f"Who is the nurse{where.removesuffix(',')}?"
    )


def test_ask_person_question_skips_images_without_people():
    assert ask_rows("") == [
        ("a", 1, "", "Which gender do you perceive in the nurse on the left?"),
        ("a", 2, "", "Which gender do you perceive in the pilot on the right?"),
        ("c", 1, "", "Which gender do you perceive in the person?"),
    ]
    # An attribute's question has no place of its own.
    assert [words for *_, words in ask_rows("hat")][:2] == [
        "About the person on the left: Is the person wearing a hat?",
        "About the person on the right: Is the person wearing a hat?",
    ]


def test_ask_image_questions_follow_skills_objects_prompts():
    assert [row[:3] for row in ask_rows("number,object,noun,alignment")] == [
        ("a", 1, "object: dog"),
        ("a", 1, "noun: nurse"),
        ("a", 1, "alignment"),
        ("b", 1, "number"),
        ("b", 1, "object: dog"),
        ("b", 1, "object: bench"),
        ("b", 1, "alignment"),
    ]
    assert ask_rows("number") == [
        ("b", 1, "number", "The prompt is “two dogs”. Does the image show the number of objects stated in the prompt?")
    ]


def test_ask_prompt_with_braces_is_unchanged():
    people = PEOPLE.assign(prompt="a {object} {place}")
    assert "“a {object} {place}”" in ask(people, find_questions("alignment"))["words"].iloc[0]


def test_ask_question_applying_to_no_image_is_refused():
    with pytest.raises(ParameterError, match=r"'relation' applies to none .*needs: image, text, spatial.*--subset"):
        ask(PEOPLE, find_questions("relation"))
    assert IMAGE_KEYS == ["source", "model", "image_id"]


def test_describe_assigns_answer_keys():
    gender, tone, fit = map(describe, find_questions("perceived gender,skin tone,alignment"))
    assert [(a["label"], a["keys"]) for a in gender["answers"]] == [
        ("female", ["f", "1"]),
        ("male", ["m", "2"]),
        ("unsure", ["u"]),
    ]
    assert [a["keys"] for a in tone["answers"]] == [*([str(k)] for k in range(1, 10)), ["0"], ["u"]]
    assert [a.get("swatch") for a in tone["answers"]] == [*MONK_SWATCHES, None]
    assert fit["answers"][-1]["text"] == "Cannot judge" and fit["ends"] == ("not at all", "completely")
    # Letters that two answers share, B (back) and U (unsure) are no keys; an eleventh answer has no digit.
    names = ("blond", "dark", "dyed", "umber", *"acefghi", "unclear")
    keys = [a["keys"] for a in describe(Question("hair", "Hair?", names, PERSON))["answers"]]
    assert keys[:5] == [["1"], ["2"], ["3"], ["4"], ["a", "5"]] and keys[-2:] == [["i"], ["u"]]
