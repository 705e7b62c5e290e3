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
        self.given = {
            name: tables.of(measured.get(name, []), f"dalleval_{name}") for name in MEASURED | set(measured)
        }

    def __missing__(self, name):
        given, make = self.given, getattr(dalleval, name, None)
        frames = {
            "average_gender": lambda: [given["average_gender"]],
            "gender_balance": lambda: [self["average_gender"]],
            "overall_average": lambda: [
                self["average_gender"],
                self["average_skin_tone"],
                given["printed_bias"],
            ],
            "mad": lambda: [self["average_gender"], given["skin_tone_counts"], given["printed_bias"]],
            "model_difference": lambda: [self["average_gender"]],
            "model_correlation": lambda: [self["average_gender"]],
            "average_skin_tone": lambda: [given["average_skin_tone"], given["skin_tone_counts"]],
            "two_tone_reading": lambda: [self["average_skin_tone"], given["printed_bias"]],
            "attribute_difference": lambda: [self["attribute_presence"], given["printed_attributes"]],
            "attribute_prompt_difference": lambda: [self["attribute_presence"]],
            "attribute_mean_difference": lambda: [
                self["attribute_presence"],
                self["attribute_prompt_difference"],
                given["printed_attributes"],
            ],
            "skill_agreement": lambda: [self["skill_accuracy"]],
            "skill_training": lambda: [self["skill_accuracy"]],
            "metric_agreement": lambda: [self["alignment_quality"]],
        }.get(name, lambda: [given[name]] if name in given else [])()
        if make is None:
            self[name] = frames[0]
        else:
            takes = inspect.signature(make).parameters
            self[name] = make(*frames, **{k: v for k, v in HOW.items() if k in takes})
        return self[name]


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
