"""Shared pieces of the tests of the Paired Stereotype Test: its tables from measured rows, computed when asked for."""

import pandas as pd
import pytest

from biaslab.ground import tables
from biaslab.papers import paired


@pytest.fixture(autouse=True)
def drawn(plain_look):
    """Give every test here matplotlib's own look."""


@pytest.fixture
def without_pictures(monkeypatch):
    """Lay figures out but write none of them: what is written is tested with the study."""
    monkeypatch.setattr("biaslab.study.study._save_png", lambda *given: None)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *given, **options: None)


class Tables(dict):
    """Tables by name without the paper's prefix: those given, and those that follow from them."""

    def __init__(self, given, replicates=200, confidence=0.95):
        super().__init__(given)
        self._c = {"confidence": confidence}
        self._draws = {"seed": 1, "replicates": replicates, **self._c}

    def __missing__(self, name):
        t, c = self, self._c
        made = {
            "stereotype_score": lambda: (t["percent_female"], t["pair_images"], t["printed_value"], c),
            "occupation_score": lambda: (t["percent_female"], c),
            "power_score": lambda: (t["percent_female"], c),
            "absolute_score": lambda: (t["percent_female"], t["pair_images"], c),
            "lean": lambda: (t["percent_female"], t["pair_images"], t["stereotype_score"], c),
            "biased_images": lambda: (t["percent_female"], t["pair_images"], t["stereotype_score"], c),
            "role_coupling": lambda: (t["percent_female"], t["pair_images"], c),
            "labour_comparison": lambda: (t["percent_female"], t["labour_share"], c),
            "labour_correlation": lambda: (t["labour_comparison"], c),
            "score_change": lambda: (t["percent_female"], t["pair_images"], c),
            "identity_change": lambda: (t["percent_female"], c),
            "adherence": lambda: (t["percent_female"], self._draws),
            "changed_cases": lambda: (t["identity_change"], t["printed_value"], c),
            "mitigation": lambda: (t["stereotype_score"], c),
            "mitigation_change": lambda: (t["percent_female"], t["pair_images"], c),
            "truth": lambda: (t["renders"], c),
            "questions": lambda: (t["people"], {}),
        } | {
            of: lambda: (t["people"], c)
            for of in ("outcomes", "valid_images", "control_score")
        }  # fmt: skip
        if name in made:
            *frames, options = made[name]()
            self[name] = getattr(paired, name)(*frames, **options)
        else:
            self[name] = empty(name)
        return self[name]


def empty(name):
    return tables.of([], f"paired_{name}")


@pytest.fixture(scope="session")
def analyses():
    """Return the names of all tables that are computed."""
    measured = set(dir(paired.measure)) | set(dir(paired.printed))
    return [
        n.removeprefix("paired_")
        for n in tables.schemas()
        if hasattr(paired, n.removeprefix("paired_"))
        and n.startswith("paired_")
        and n.removeprefix("paired_") not in measured
    ]


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
