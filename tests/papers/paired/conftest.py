"""Shared pieces of the tests of the Paired Stereotype Test: its tables from measured rows, computed when asked for."""

from inspect import signature

import pandas as pd
import pytest

from biaslab.papers import paired
from biaslab.schema import tables

# What arguments of analyses are called: the tables, where it is another name.
TAKEN = {
    "shares": "percent_female",
    "pairs": "pair_images",
    "printed": "printed_value",
    "labour": "labour_share",
    "scores": "stereotype_score",
    "comparison": "labour_comparison",
    "changes": "identity_change",
}
ANALYSES = [
    name
    for name in (table.removeprefix("paired_") for table in tables.schemas() if table.startswith("paired_"))
    if hasattr(paired, name) and not hasattr(paired.measure, name)
]


class Tables(dict):
    """Tables by name without the paper's prefix: those given, and those that follow from them."""

    def __init__(self, given, replicates=200, confidence=0.95):
        super().__init__(given)
        self._draws = {"seed": 1, "replicates": replicates, "confidence": confidence}

    def __missing__(self, name):
        self[name] = tables.make_table([], f"paired_{name}")
        if name in ANALYSES:
            taken = signature(getattr(paired, name)).parameters
            frames = [self[TAKEN.get(argument, argument)] for argument in taken if argument not in self._draws]
            draws = {argument: value for argument, value in self._draws.items() if argument in taken}
            self[name] = getattr(paired, name)(*frames, **draws)
        return self[name]


@pytest.fixture(scope="session")
def analyses():
    """Return the names of all tables that are computed."""
    return ANALYSES


@pytest.fixture(scope="session")
def tables_of():
    """Return a function that gives the tables that follow from measured rows, by name without the prefix."""

    def of(replicates=200, confidence=0.95, **measured):
        given = {name: tables.check(pd.DataFrame(rows), f"paired_{name}") for name, rows in measured.items()}
        return Tables(given, replicates, confidence)

    return of


@pytest.fixture(scope="session")
def printed():
    """Return the tables that follow from the numbers that the paper prints."""
    names = ("percent_female", "labour_share", "run_score", "printed_value", "judge_agreement")
    return Tables({name: getattr(paired.printed, name)() for name in names}, replicates=2000)
