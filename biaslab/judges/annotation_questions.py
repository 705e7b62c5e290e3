"""The questions that annotators answer about images: built-in ones, and those of a user's file.

Sources: paired paper, Table 6; DALL-Eval paper, section 5.2, Table 3 and appendix E; triplets paper, section 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.errors import InputError, ParameterError, unknown_name
from biaslab.judges.questions import PERCEIVED, PERSON, PLACEHOLDERS, Question, fill, place, read_questions
from biaslab.metrics.skin_tone import MONK_SWATCHES

IMAGE_KEYS = ["source", "model", "image_id"]
"""Columns that identify an image."""
UNSURE = "unsure"
"""The label that answers any question."""
_FILES = (".yaml", ".yml")


@cache
def built_in() -> dict[str, tuple[Question, ...]]:
    """Return the built-in questions by the name that selects them: each question's own name, and ``attributes`` for
    all of DALL-Eval's.
    """
    options = {"placeholders": PLACEHOLDERS, "reserved": ()}
    files = [Path(__file__).with_name(f"annotation_{name}.yaml") for name in ("questions", "attributes")]
    questions, attributes = (read_questions(file, **options) for file in files)
    return {question.name: (question,) for question in (*questions, *attributes)} | {"attributes": tuple(attributes)}


def find_questions(names: str = "") -> list[Question]:
    """Return the questions of a comma-separated list of names and YAML files; empty selects perceived gender.

    Raises UnknownNameError: No question has such a name. InputError: A file cannot be used, or two questions have the
    same name.
    """
    questions: list[Question] = []
    for name in filter(None, map(str.strip, (names or PERCEIVED).split(","))):
        if name.endswith(_FILES):
            questions += read_questions(name, placeholders=PLACEHOLDERS)
        elif name in built_in():
            questions += built_in()[name]
        else:
            raise unknown_name("question", name, built_in())
    questions = list(dict.fromkeys(questions))
    question_names = [question.name for question in questions]
    if duplicates := [name for name in question_names if question_names.count(name) > 1]:
        raise InputError(f"Two questions are called {duplicates[0]!r}; rename one.")
    return questions


def name_objects(images: pd.DataFrame, find_nouns: Callable[[str], Sequence[str]]) -> pd.DataFrame:
    """Return images with the nouns of their prompts as ``noun``, and these joined with their objects as ``object``."""
    by_prompt = {text: list(find_nouns(text)) for text in images["prompt"].unique() if text}
    prompt_nouns = [by_prompt.get(text, []) for text in images["prompt"]]
    detected = [names if isinstance(names, list) else [] for names in images.get("object", prompt_nouns)]
    objects = [list(dict.fromkeys([*names, *nouns])) for names, nouns in zip(detected, prompt_nouns, strict=True)]
    return images.assign(noun=prompt_nouns, object=objects)


def ask(people: pd.DataFrame, questions: Sequence[Question]) -> pd.DataFrame:
    """Return the questions about each image: rows of ``people`` for each question that applies to them.

    Args:
        people: A row for each person: :data:`IMAGE_KEYS`, image (the image's place on the page), position (1 is the
            leftmost; 0 for an image without people), phrase, prompt and skill (empty where unknown), object and noun
            (lists of names, or None).
        questions: The questions.

    Returns:
        The rows with kind (index of the question), question (as files of annotations name it: empty for perceived
        gender, ``object: NAME`` for one object) and words.

    Raises:
        ParameterError: A question applies to none of the images.
    """
    people, frames = people.assign(n=people.groupby(IMAGE_KEYS)["position"].transform("max")), []
    for kind, question in enumerate(questions):
        about_person = question.of == PERSON
        rows = people[people["position"] > 0] if about_person else people.drop_duplicates(IMAGE_KEYS).assign(position=1)
        rows = rows.assign(kind=kind, question="" if question.name == PERCEIVED else question.name)
        for name in question.placeholders & {"object", "noun"}:
            rows = rows.explode(name).dropna(subset=name)
            rows["question"] = rows["question"] + ": " + rows[name]
        rows = rows[rows["skill"].isin(question.skills)] if question.skills else rows
        rows = rows[rows["prompt"] != ""] if "text" in question.placeholders else rows
        if rows.empty:
            needs = ", ".join([question.of, *sorted(question.placeholders - {"place", "phrase"}), *question.skills])
            raise ParameterError(
                f"The question {question.name!r} applies to none of these images, because it needs: {needs}. Choose "
                "other images with --paper or --subset, or other questions with --questions."
            )
        rows["place"] = [place(k, n) if about_person else "" for k, n in zip(rows["position"], rows["n"], strict=True)]
        rows["words"] = [fill(question.question, {**row, "text": row["prompt"]}) for row in rows.to_dict("records")]
        if "place" not in question.placeholders:
            about = "About the person" + rows["place"].str.rstrip(",") + ": "
            rows["words"] = about.where(rows["place"] != "", "") + rows["words"]
        frames.append(rows)
    return pd.concat(frames).sort_values("picture", kind="stable", ignore_index=True)


def describe(question: Question) -> dict[str, Any]:
    """Return a question as the annotation page needs it: name, hint, scale and ends, and for each answer its label,
    text, keys (``1`` to ``9``, ``0`` for the tenth; the first letter if unique) and, on the Monk scale, the swatch.
    """
    labels = question.answers[:-1]
    letters = [label[0].lower() for label in labels]
    answers = []
    for k, (label, letter) in enumerate(zip(labels, letters, strict=True)):
        # B goes back, and U is unsure.
        is_key = letters.count(letter) == 1 and letter in "acdefghijklmnopqrstvwxyz"
        keys = [*([letter] if is_key else []), *([str((k + 1) % 10)] if k < 10 else [])]
        answer = {"label": label, "text": label[0].upper() + label[1:], "keys": keys}
        answers.append(answer | ({"swatch": MONK_SWATCHES[k]} if question.scale == "monk" else {}))
    unsure = "Cannot judge" if question.scale == "1-5" else "Unsure"
    answers.append({"label": UNSURE, "text": unsure, "keys": ["u"]})
    return {
        "name": question.name,
        "hint": question.hint,
        "scale": question.scale,
        "ends": question.ends,
        "answers": answers,
    }
