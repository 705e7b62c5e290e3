"""Measures that other packages bring: an example package, installed as a user would, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest
from without_rows import of_models, of_units

from biaslab.ground import tables
from biaslab.ground.errors import InputError, ParameterError, UnknownNameError
from biaslab.measures import plugins
from biaslab.papers import paired, synthesis
from biaslab.pipeline import Pipeline, checks
from biaslab.settings import Settings
from biaslab.study import Study, sources

EXAMPLE = Path(__file__).parent / "example_measure"


@pytest.fixture
def installed(use):
    return use(EXAMPLE)


@pytest.fixture
def study(installed, tmp_path):
    """The papers' printed numbers, of two models in which one occupation is added to another."""
    study = Study(tmp_path, source="mini", settings={"measures": ["even"]})
    shares = sources.measured("paired_percent_female", source="published")
    other = shares.assign(model="other", percent_female=50.0)
    study._inputs["paired_percent_female"] = pd.concat([shares, other], ignore_index=True)
    return study


def frame(**changed):
    row = {"model": "a", "measure": "m", "measure_unit": "%", "unit": "u", "value": 1.0}
    return pd.DataFrame([row | changed])


def test_a_measure_of_another_package_stands_beside_the_papers(study):
    own = study.own_measures()
    shares = study.load(paired.percent_female)
    pairs = shares[(shares["setting"] == "paired") & (shares["model"] != "other")].dropna(subset="percent_female")
    by_occupation = pairs.groupby("occupation")["percent_female"].mean()
    table = synthesis.models(**of_models(), own=own)
    first = table[table["model"] != "other"].iloc[0]
    assert first["estimate"] == pytest.approx((by_occupation - 50).abs().mean())
    assert first["ci_low"] < first["estimate"] < first["ci_high"] and pd.isna(first["floor"])
    assert (first["measure"], first["unit"], first["paper"]) == ("Distance from even, two people", "points", "own")
    assert first["n"] == len(by_occupation)
    assert table[table["model"] == "other"]["estimate"].tolist() == [0.0]
    # The same occupations of both: the difference is the first's distance.
    units = synthesis.units(**of_units(), own=own)
    differences = synthesis.model_differences(units)
    assert differences["difference"].tolist() == [pytest.approx(first["estimate"])]
    assert differences["measure"].tolist() == ["Distance from even, two people"]


def test_a_measure_has_a_name_of_its_own(study):
    own = study.own_measures()
    score = {"model": "a", "aspect": "power", "setting": "paired", "stereotype": "overall", "score": 1.0, "n": 7}
    scores = tables.of([score], "paired_stereotype_score")
    taken = own.assign(measure="Stereotype Score, roles of power, two people")
    with pytest.raises(InputError, match="of your own is called 'Stereotype Score, roles of power, two people'"):
        synthesis.models(**of_models(scores=scores), own=taken)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3.0, "returns float; it must return a pandas DataFrame"),
        (frame().drop(columns="unit"), r"returns no column 'unit' \(what was asked"),
        (frame(value="much"), "returns value 'much'; it must be a finite number"),
        (frame(value=float("inf")), r"returns value .*inf"),
        (frame(floor="low"), "returns floor 'low'"),
        (frame(model=3), "returns model 3; it must be a text"),
        (frame(measure=" "), "returns measure ' '"),
        (pd.concat([frame(), frame(value=2.0)]), "returns 'm' of 'a' and 'u' twice"),
    ],
)
def test_what_is_no_measurement_is_refused_by_name(wrong, message):
    with pytest.raises(InputError, match=f"The measure own {message}"):
        plugins.checked(wrong, "own")


def test_missing_values_are_left_out():
    assert plugins.checked(pd.concat([frame(), frame(unit="v", value=None)]), "own")["unit"].tolist() == ["u"]


def test_measures_are_looked_up_before_any_work(installed):
    with pytest.raises(UnknownNameError, match="even"):
        checks.check(Pipeline("mini", Settings.of({"measures": ["evn"]})))
    with pytest.raises(ParameterError, match="nothing is no measure: example_measure:NOTHING cannot be called"):
        checks.check(Pipeline("mini", Settings.of({"measures": "nothing"})))


def test_what_is_kept_depends_on_the_measures_code(installed):
    first = checks.digest(Pipeline("mini", Settings.of({"measures": "even"})))
    assert first != checks.digest(Pipeline("mini", Settings()))
    module = installed / "example_measure.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("- 50", "- 40"), encoding="utf-8")
    assert checks.digest(Pipeline("mini", Settings.of({"measures": "even"}))) != first
    module.write_text(text, encoding="utf-8")
