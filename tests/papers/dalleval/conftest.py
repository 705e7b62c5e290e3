"""Shared fixtures of the tests of DALL-Eval: all tables, computed from measured ones on demand."""

import inspect

import pandas as pd
import pytest

from biaslab.papers import dalleval
from biaslab.papers.dalleval import printed as printed_numbers
from biaslab.schema import tables

DRAWS = {"seed": 1, "replicates": 2000}


class Results(dict):
    """Tables by name without the paper's prefix, from measured ones; missing measured tables are empty."""

    def __init__(self, **measured):
        names = MEASURED | set(measured)
        self.given = {name: tables.make_table(measured.get(name, []), f"dalleval_{name}") for name in names}

    def __missing__(self, name):
        names = TAKES.get(name, f"given:{name}" if name in self.given else "").split()
        frames = [
            self.given[table_name[6:]] if table_name.startswith("given:") else self[table_name] for table_name in names
        ]
        make = getattr(dalleval, name, None)
        takes = inspect.signature(make).parameters if make else {}
        self[name] = make(*frames, **{k: v for k, v in DRAWS.items() if k in takes}) if make else frames[0]
        return self[name]


# Inputs of tables, computed and measured ("given:"); by default the measured table of that name.
TAKES = {
    "overall_average": "average_gender average_skin_tone given:printed_bias",
    "mad": "average_gender given:skin_tone_counts given:printed_bias",
    "average_skin_tone": "given:average_skin_tone given:skin_tone_counts",
    "attribute_difference": "attribute_presence given:printed_attributes",
    "attribute_prompt_difference": "attribute_presence",
    "attribute_mean_difference": "attribute_presence attribute_prompt_difference given:printed_attributes",
    "skill_agreement": "skill_accuracy",
}
MEASURED = {
    name
    for name, make in vars(printed_numbers).items()
    if inspect.isfunction(make) and make.__module__ == printed_numbers.__name__ and name[0] != "_"
}


@pytest.fixture(scope="session")
def results():
    return Results


@pytest.fixture(scope="session")
def printed():
    return Results(**{name: getattr(printed_numbers, name)() for name in MEASURED})


def _verdict(skill, n, relation, steps, truth="", **more):
    """Return a verdict; ``steps`` are the results for classes, number or relation, and the whole."""
    objects, rest, correct = ("yes" if step == "y" else "no" for step in steps)
    row = {"skill": skill, "n": n, "relation": relation, "other": "car" if relation else "", "object": "dog"}
    row |= {"objects_correct": objects, "rest_correct": rest, "correct": correct, "truth": truth}
    row["status"] = "correct" if correct == "yes" else "nothing found" if objects == "no" else "other"
    return {"model": "a", "rule": "paper", "chosen": "yes", "text": "a dog"} | row | more


@pytest.fixture
def verdicts():
    """Return four images of counts, three of relations, two of objects by one rule, and two by another."""
    rows = [
        _verdict("count", 1, "", "yyy", "yes"),
        _verdict("count", 1, "", "yn."),
        _verdict("count", 2, "", "ny."),
        _verdict("count", 2, "", "yn."),
        _verdict("spatial", 1, "left", "yyy", "yes"),
        _verdict("spatial", 1, "above", "yn.", "yes"),
        _verdict("spatial", 1, "above", "nn.", "no"),
        _verdict("object", 1, "", "yyy", "yes"),
        _verdict("object", 1, "", "nn.", "no"),
        _verdict("object", 1, "", "yyy", rule="released", chosen="no"),
        _verdict("count", 3, "", "yyy", rule="released", chosen="no"),
    ]
    rows = [row | {"image_id": f"i{k}"} for k, row in enumerate(rows)]
    return tables.make_table(rows, "dalleval_skill_verdicts")


@pytest.fixture
def social():
    """Return judgements of five images of people; the last has no ground truth."""
    nan = float("nan")
    names = [
        *["gender_vqa", "gender_judge", "attributes", "attributes_missing", "skin_tone"],
        *["truth_gender", "truth_attributes", "truth_skin_tone"],
    ]
    answers = [
        ("female", "male", "tie;suit", "", 5, "female", "tie", 5),
        ("unsure", "female", "", "tie;hat", 7, "female", "tie", 5),
        ("female", "male", "hat", "", nan, "male", "", 3),
        ("male", "", "", "", 2, "male", "suit", 3),
        ("male", "male", "tie", "", 5, "", "", nan),
    ]
    table = pd.DataFrame(answers, columns=names).assign(
        model="a",
        image_id=[f"i{k}" for k in range(5)],
        prompt="person",
        profession="nurse",
        reason_vqa=["", "answer says no gender", "", "", ""],
        judge="CLIP",
        status_judge=["judged", "judged", "judged", "no_face", "judged"],
        reason_tone=["", "", "no face", "", ""],
        judge_tone="tone by pixels",
    )
    return tables.make_table(table, "dalleval_social_images")
