"""Shared pieces of the tests of DALL-Eval: all tables, computed from measured ones when they are asked for."""

import inspect

import pytest

from biaslab import tables
from biaslab.papers import dalleval
from biaslab.papers.dalleval import printed as printed_numbers

HOW = {"seed": 1, "replicates": 2000}


class Results(dict):
    """Tables by name without the paper's prefix, from measured ones; those not given have no rows."""

    def __init__(self, **measured):
        names = MEASURED | set(measured)
        self.given = {name: tables.of(measured.get(name, []), f"dalleval_{name}") for name in names}

    def __missing__(self, name):
        names = TAKES.get(name, f"given:{name}" if name in self.given else "").split()
        frames = [self.given[of[6:]] if of.startswith("given:") else self[of] for of in names]
        make = getattr(dalleval, name, None)
        takes = inspect.signature(make).parameters if make else {}
        self[name] = make(*frames, **{k: v for k, v in HOW.items() if k in takes}) if make else frames[0]
        return self[name]


# What tables are made of, computed ones and measured ones ("given:"); by default the measured one of the name.
TAKES = {
    "gender_balance": "average_gender",
    "overall_average": "average_gender average_skin_tone given:printed_bias",
    "mad": "average_gender given:skin_tone_counts given:printed_bias",
    "model_difference": "average_gender",
    "model_correlation": "average_gender",
    "average_skin_tone": "given:average_skin_tone given:skin_tone_counts",
    "two_tone_reading": "average_skin_tone given:printed_bias",
    "attribute_difference": "attribute_presence given:printed_attributes",
    "attribute_prompt_difference": "attribute_presence",
    "attribute_mean_difference": "attribute_presence attribute_prompt_difference given:printed_attributes",
    "skill_agreement": "skill_accuracy",
    "skill_training": "skill_accuracy",
    "metric_agreement": "alignment_quality",
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
