"""A study's tables are computed once, and again when the code that they come from has changed."""

import json

import pandas as pd
import pytest

from biaslab import closure
from biaslab.study import Study


@pytest.fixture
def tables(monkeypatch):
    """Return what was computed, and versions of the code of each table that tests may change."""
    computed, versions = [], {}

    def make(name, *needs):
        def builder(study):
            computed.append(name)
            for need in needs:
                study.table(need) if need in builders else study.measured(need)
            return pd.DataFrame({"n": [len(computed)]})

        versions[builder] = name
        return builder

    builders = {}
    builders |= {
        "base": make("base", "paradox_percent_female"),
        "middle": make("middle", "base"),
        "top": make("top", "middle"),
        "apart": make("apart"),
    }
    changed = set()
    digest = closure.digest

    def told(*works, **more):
        names = [name for work in works if (name := versions.get(work) or getattr(work, "__name__", ""))]
        return digest(*(w for w in works if w not in versions), **more) + "".join(
            f" {name}{'!' * (name in changed)}" for name in names
        )

    monkeypatch.setattr("biaslab.study._builders", lambda: builders)
    monkeypatch.setattr(closure, "digest", told)
    return computed, changed


def test_tables_are_found_again_until_their_code_changes(tmp_path, tables):
    computed, changed = tables

    def ask(name="top"):
        computed.clear()
        Study(tmp_path, bootstrap_replicates=100).table(name)
        return list(computed)

    assert ask() == ["top", "middle", "base"]
    assert ask() == [] and ask("base") == []
    assert ask("apart") == ["apart"]
    # The code of a table that another one is made of.
    changed.add("base")
    assert ask() == ["top", "middle", "base"] and ask() == [] and ask("apart") == []
    # One that was made anew meanwhile is found; what was made of it is not.
    changed.add("middle")
    assert ask("middle") == ["middle"] and ask() == ["top"]
    # The code that measures.
    changed.add("measured")
    assert ask("base") == ["base"] and ask() == ["top", "middle"] and ask("apart") == []
    # Tables that are asked for in another order say the same of what they are made of.
    changed.add("apart")
    assert ask("middle") == [] and ask() == []


@pytest.mark.parametrize("damage", ["table", "note", "no note", "note of another kind"])
def test_a_kept_table_that_was_changed_is_computed_again(tmp_path, tables, damage):
    computed, _ = tables
    first = Study(tmp_path, bootstrap_replicates=100).table("apart")
    (path,) = (tmp_path / ".store").glob("apart-*.parquet")
    note = path.with_suffix(".json")
    assert json.loads(note.read_text())["code"].keys() == {"table apart"}
    if damage == "table":
        pd.DataFrame({"n": [7]}).to_parquet(path)
    elif damage == "note":
        note.write_text("{")
    elif damage == "no note":
        note.unlink()
    else:
        note.write_text("[]")
    again = Study(tmp_path, bootstrap_replicates=100).table("apart")
    assert computed == ["apart", "apart"] and again["n"].tolist() == [2] and first["n"].tolist() == [1]
    assert Study(tmp_path, bootstrap_replicates=100).table("apart")["n"].tolist() == [2]


def test_another_seed_is_another_table(tmp_path, tables):
    computed, _ = tables
    for seed in (0, 1, 0):
        Study(tmp_path, bootstrap_replicates=100, seed=seed).table("apart")
    assert computed == ["apart", "apart"]
