"""Shared fixtures of the tests of the Paired Stereotype Test: its tables from measured rows, computed on demand."""

from inspect import signature

import pandas as pd
import pytest

from biaslab.papers import paired
from biaslab.schema import tables

# Tables of arguments of analyses whose names differ.
TABLE_OF_PARAMETER = {
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
    """Tables by name without the paper's prefix: measured ones, and those computed from them."""

    def __init__(self, measured_tables, replicates=200, confidence=0.95):
        super().__init__(measured_tables)
        self._draws = {"seed": 1, "replicates": replicates, "confidence": confidence}

    def __missing__(self, name):
        self[name] = tables.make_table([], f"paired_{name}")
        if name in ANALYSES:
            parameters = signature(getattr(paired, name)).parameters
            frames = [
                self[TABLE_OF_PARAMETER.get(argument, argument)]
                for argument in parameters
                if argument not in self._draws
            ]
            draws = {argument: value for argument, value in self._draws.items() if argument in parameters}
            self[name] = getattr(paired, name)(*frames, **draws)
        return self[name]


@pytest.fixture(scope="session")
def analyses():
    """Return the names of all tables that are computed."""
    return ANALYSES


@pytest.fixture(scope="session")
def tables_of():
    """Return a function that gives the tables that follow from measured rows, by name without the prefix."""

    def make_tables(replicates=200, confidence=0.95, **measured):
        measured_tables = {name: tables.check(pd.DataFrame(rows), f"paired_{name}") for name, rows in measured.items()}
        return Tables(measured_tables, replicates, confidence)

    return make_tables


@pytest.fixture(scope="session")
def printed():
    """Return the tables that follow from the paper's printed numbers."""
    names = ("percent_female", "labour_share", "run_score", "printed_value", "judge_agreement")
    return Tables({name: getattr(paired.printed, name)() for name in names}, replicates=2000)
