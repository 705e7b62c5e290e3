"""Models that are compared have settings of their own for how their images are made, and are asked for the same."""

import pytest

from biaslab.errors import ParameterError
from biaslab.papers import paradox
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import validation
from biaslab.runs import params
from biaslab.study import Study, sources

TURBO = {"generation": {"steps": 1, "guidance_scale": 0.0}, "paired": {"guidance_scale": 0.5}}


def compared(first, other, **more):
    given = {"baselines": [other], "models": {other: TURBO}, "generation": {"steps": 30}} | more
    return Pipeline(first, Settings.from_mapping(given), progress=False)


def test_each_has_its_own_and_all_else_is_that_of_all(folders):
    pipeline = compared("mini", folders("sd1"))
    (other,) = pipeline.baseline_pipelines
    assert (pipeline.settings.generation.steps, pipeline.settings.paired.guidance_scale) == (30, 2.0)
    assert (other.settings.generation.steps, other.settings.generation.guidance_scale) == (1, 0.0)
    assert other.settings.paired.guidance_scale == 0.5
    # Its own goes before what a model brings, and what a model brings before a default.
    own = Pipeline("mini", Settings.from_mapping({"models": {"mini": TURBO}})).settings
    assert own.generation.steps == 1 and own.judging.gender == "mini-clip"
    assert own.paired.n_occupations == pipeline.settings.paired.n_occupations


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"generation": {"stps": 4}}, r"models\.a/b is .*Did you mean 'generation\.steps'"),
        ({"generation": {"images_per_prompt": 4}}, "settings of a single model can only concern image generation"),
        ({"captions": {"max_captions": 4}}, "settings of a single model can only concern image generation"),
        ({"generation": 4}, "settings of a single model can only concern image generation"),
        (4, "settings of a single model can only concern image generation"),
        ({"generation": {"steps": 0}}, r"models\.a/b: generation\.steps is 0; it must be 1 to 1,000 steps"),
    ],
)
def test_what_cannot_be_set_of_one_model_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        Settings.from_mapping({"models": {"a/b": given}})


def test_a_model_that_is_not_in_the_run_is_refused():
    settings = Settings.from_mapping({"models": {"mni": TURBO}})
    with pytest.raises(ParameterError, match=r"models sets 'mni'.* Did you mean 'mini'"):
        validation.check_settings(Pipeline("mini", settings))


def test_names_with_dots_are_set_on_the_command_line(root):
    name = "stabilityai/sdxl-turbo-1.0@v1.1"
    loaded = params.load(
        root / "world/params/mini.yaml",
        overrides=[f"models.{name}.generation.steps=4", f"settings.models.{name}.generation.guidance_scale=0"],
    )
    assert loaded.values["settings"]["models"] == {name: {"generation": {"steps": 4, "guidance_scale": 0}}}
    # What the file sets for all stays.
    assert loaded.values["settings"]["generation"]["steps"] == 3


def test_tables_and_captions_say_what_each_was_sent(folders, tmp_path):
    sd1 = folders("sd1")
    more = {"compute": {"cache": str(tmp_path)}, "endpoint": {"url": "http://127.0.0.1:9/v1", "price": 0.0}}
    given = {"baselines": [sd1], "models": {sd1: TURBO}, "generation": {"steps": 30, "images_per_prompt": 2}}
    pipeline = Pipeline("mini", Settings.from_mapping(given | more), progress=False)
    bought = Pipeline("endpoint:dall-e-3", pipeline.settings, progress=False)
    rows = [
        paradox.measure.settings(one).set_index("setting")["set_to"]
        for one in (pipeline, *pipeline.baseline_pipelines, bought)
    ]
    assert [of["generation.steps"] for of in rows[:2]] == ["30", "1"]
    # Of a model that is elsewhere nobody knows, and nothing was asked; how many were asked for is known.
    assert not {"generation.steps", "generation.guidance_scale", "generation.scheduler"} & set(rows[2].index)
    assert rows[2]["generation.images_per_prompt"] == "2" and rows[2]["model"] == "dall-e-3"
    study = Study(tmp_path / "out", source="pipeline", model="mini", settings=given | more)
    assert study.settings.generation.steps == 30
    made = study.describe_generation
    assert "mini (a small bundled test model): guidance 1.5 (2 for people in pairs), 30 steps." in made
    assert "sd1: guidance 0 (0.5 for people in pairs), 1 steps." in made
    assert sources.has_table("pipeline_settings", source="pipeline")


@pytest.mark.parametrize(("family", "made"), [("schnell", "no guidance, 4 steps"), ("sd1", "guidance 7.5, 50 steps")])
def test_what_is_not_set_is_said_as_the_makers_of_a_model_give_it(folders, tmp_path, family, made):
    folder, given = folders(family), {"compute": {"cache": str(tmp_path)}}
    study = Study(tmp_path / "out", source="pipeline", model=folder, settings=given)
    assert study.describe_generation == f"{family}: {made}."
