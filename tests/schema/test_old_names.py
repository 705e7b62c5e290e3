"""Names of earlier versions: each new name exists, no old one does, and errors give the new name."""

import json
import re

import pytest

from biaslab.errors import ParameterError, UnknownNameError
from biaslab.execution import kernels
from biaslab.io import places
from biaslab.request import Request
from biaslab.request import names as sources
from biaslab.runs import params, settings_reference
from biaslab.schema import groups, old_names
from biaslab.settings import Settings

SETTINGS = {*groups.names(Settings), *Settings.model_fields}
PAIRED = """
run: mine
source: pipeline
model: mini
settings:
  judging: {tone: pixels}
  people:
    words: mine.yaml
  models: {other: {people: {aspect: 2}}}
notebooks: [paired/4_4_overall]
"""


@pytest.fixture(scope="session")
def notebook_parameters(root):
    notebooks = params.find_notebooks(root / "notebooks", root / "world/biaslab_world/calibration/notebooks")
    return {name for notebook in notebooks for name in notebook.parameters}


def test_settings_new_names_exist_and_old_ones_do_not():
    names_by_old = old_names.table("settings")
    assert set(names_by_old.values()) <= SETTINGS and not set(names_by_old) & SETTINGS


def test_parameters_new_names_exist_and_old_ones_do_not(notebook_parameters):
    names_by_old = old_names.table("parameters")
    assert set(names_by_old.values()) <= notebook_parameters and not set(names_by_old) & notebook_parameters


def test_values_new_sources_exist_and_old_ones_do_not():
    for old, new in old_names.table("values").items():
        if not old.endswith(":"):
            assert new in sources() and old not in sources()


def test_environment_new_variables_are_read():
    names_by_old = old_names.table("environment")
    assert set(names_by_old.values()) == {places.ROOT_VARIABLE, kernels.PREFLIGHT_DONE}


def test_replacement_of_unknown_name_is_none():
    assert old_names.replacement("settings", "judging.tone") == "judging.skin_tone"
    assert old_names.replacement("settings", "judging.skin_tone") is None
    assert old_names.replacement("parameters", "nothing") is None


@pytest.mark.parametrize(("old", "new"), old_names.table("settings").items())
def test_settings_old_name_suggests_new_name(old, new):
    value = 1
    for part in reversed(old.split(".")):
        value = {part: value}
    with pytest.raises(ParameterError, match=re.escape(f"{old} is now {new}.")):
        Settings.from_mapping(value)


def test_settings_of_single_model_old_name_suggests_new_name():
    with pytest.raises(ParameterError, match=r"people\.aspect is now paired\.aspect; rename it in models\.other\."):
        Settings.from_mapping({"models": {"other": {"people": {"aspect": 2}}}})


def test_params_file_old_settings_are_all_named(tmp_path, root):
    (file := tmp_path / "mine.yaml").write_text(PAIRED)
    with pytest.raises(ParameterError) as error:
        params.load(file, notebooks_dir=root / "notebooks")
    assert str(error.value) == (
        f"judging.tone is now judging.skin_tone; rename it in {file}. "
        f"people.words is now paired.vocabulary_file; rename it in {file}. "
        f"people.aspect is now paired.aspect; rename it in {file}."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judging.tone=pixels", "judging.tone is now judging.skin_tone; rename it in --set."),
        ("settings.people.words=a.yaml", "people.words is now paired.vocabulary_file; rename it in --set."),
        ("compare_with=none", "compare_with is now baselines; rename it in --set."),
        ("ratings=a.csv", "ratings is now annotations; rename it in --set."),
    ],
)
def test_override_old_name_suggests_new_name(tmp_path, root, text, message):
    (file := tmp_path / "mine.yaml").write_text("run: mine\nnotebooks: [paradox/ratings]\n")
    with pytest.raises(ParameterError, match=re.escape(message)):
        params.load(file, overrides=[text], notebooks_dir=root / "notebooks")


def test_params_file_old_parameter_suggests_new_name(tmp_path, root):
    (file := tmp_path / "mine.yaml").write_text(
        "run: mine\nnotebooks: [paradox/ratings]\nratings: a.csv\ncompare_with: none\n"
    )
    with pytest.raises(ParameterError) as error:
        params.load(file, notebooks_dir=root / "notebooks")
    assert f"ratings is now annotations; rename it in {file}." in str(error.value)
    assert f"compare_with is now baselines; rename it in {file}." in str(error.value)


def test_params_file_own_parameter_of_old_name_is_loaded(tmp_path):
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": 'ratings = ""\nshown = 0'}
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    (file := tmp_path / "mine.yaml").write_text("run: mine\nratings: a.csv\nshown: 3\n")
    assert params.load(file, notebooks_dir=tmp_path).values == {"ratings": "a.csv", "shown": 3}


def test_source_old_name_suggests_new_name():
    with pytest.raises(ParameterError, match=r"^The source ratings is now called annotations; use the new name\.$"):
        Request.from_parameters({"source": "ratings"})


@pytest.mark.parametrize("judging", [{"gender": "ratings:r.csv"}, {"extra_judges": ["clip", "ratings:r.csv"]}])
def test_judge_old_prefix_suggests_new_prefix(judging):
    with pytest.raises(ParameterError, match=r"ratings:r\.csv is now annotations:r\.csv; rename it\."):
        Settings.from_mapping({"judging": judging})


def test_settings_reference_old_name_suggests_new_name():
    with pytest.raises(UnknownNameError, match=r"The setting captions\.words is now captions\.vocabulary_file\."):
        settings_reference.find_declared("captions.words")
