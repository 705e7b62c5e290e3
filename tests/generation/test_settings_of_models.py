"""Compared models have their own generation settings and get the same prompts."""

import pytest

from biaslab.errors import ParameterError
from biaslab.papers import paradox
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import validation
from biaslab.runs import params
from biaslab.study import Study, sources

TURBO = {"generation": {"steps": 1, "guidance_scale": 0.0}, "paired": {"guidance_scale": 0.5}}


def compare_pipeline(first, other, **extra):
    given = {"baselines": [other], "models": {other: TURBO}, "generation": {"steps": 30}} | extra
    return Pipeline(first, Settings.from_mapping(given), progress=False)


def test_baseline_has_own_settings(folders):
    pipeline = compare_pipeline("mini", folders("sd1"))
    (other,) = pipeline.baseline_pipelines
    assert (pipeline.settings.generation.steps, pipeline.settings.paired.guidance_scale) == (30, 2.0)
    assert (other.settings.generation.steps, other.settings.generation.guidance_scale) == (1, 0.0)
    assert other.settings.paired.guidance_scale == 0.5
    # Settings of one model override those of its plugin, which override defaults.
    own_settings = Pipeline("mini", Settings.from_mapping({"models": {"mini": TURBO}})).settings
    assert own_settings.generation.steps == 1 and own_settings.judging.gender == "mini-clip"
    assert own_settings.paired.n_occupations == pipeline.settings.paired.n_occupations


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
def test_invalid_model_setting_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        Settings.from_mapping({"models": {"a/b": given}})


def test_settings_of_unused_model_are_refused():
    settings = Settings.from_mapping({"models": {"mni": TURBO}})
    with pytest.raises(ParameterError, match=r"models contains 'mni'.* Did you mean 'mini'"):
        validation.check_settings(Pipeline("mini", settings))


def test_model_settings_with_dots_are_set_by_override(root):
    name = "stabilityai/sdxl-turbo-1.0@v1.1"
    loaded = params.load(
        root / "world/params/mini.yaml",
        overrides=[f"models.{name}.generation.steps=4", f"settings.models.{name}.generation.guidance_scale=0"],
    )
    assert loaded.values["settings"]["models"] == {name: {"generation": {"steps": 4, "guidance_scale": 0}}}
    # The file's settings for all models are unchanged.
    assert loaded.values["settings"]["generation"]["steps"] == 3


def test_generation_settings_are_described_per_model(folders, tmp_path):
    sd1 = folders("sd1")
    extra = {"compute": {"cache": str(tmp_path)}, "endpoint": {"url": "http://127.0.0.1:9/v1", "price": 0.0}}
    given = {"baselines": [sd1], "models": {sd1: TURBO}, "generation": {"steps": 30, "images_per_prompt": 2}}
    pipeline = Pipeline("mini", Settings.from_mapping(given | extra), progress=False)
    endpoint_pipeline = Pipeline("endpoint:dall-e-3", pipeline.settings, progress=False)
    rows = [
        paradox.measure.settings(one).set_index("setting")["set_to"]
        for one in (pipeline, *pipeline.baseline_pipelines, endpoint_pipeline)
    ]
    assert [row["generation.steps"] for row in rows[:2]] == ["30", "1"]
    # Settings of a remote model are unknown, and none were sent; the number of images is known.
    assert not {"generation.steps", "generation.guidance_scale", "generation.scheduler"} & set(rows[2].index)
    assert rows[2]["generation.images_per_prompt"] == "2" and rows[2]["model"] == "dall-e-3"
    study = Study(tmp_path / "out", source="pipeline", model="mini", settings=given | extra)
    assert study.settings.generation.steps == 30
    made = study.describe_generation()
    guidance = "guidance scale 1.5 (2 for the Paired Stereotype Test, 4 for the gender triplets)"
    assert f"mini (a small bundled test model): {guidance}, 30 denoising steps." in made
    assert "sd1: guidance scale 0 (0.5 for the Paired Stereotype Test), 1 denoising step." in made
    assert study.describe_generation("paired").startswith(
        "mini (a small bundled test model): guidance scale 2, 30 denoising steps. sd1: guidance scale 0.5, 1 "
    )
    assert study.describe_generation("dalleval").startswith(
        "mini (a small bundled test model): guidance scale 1.5, 30 denoising steps."
    )
    assert sources.has_table("pipeline_settings", source="pipeline")


@pytest.mark.parametrize(
    ("family", "made"),
    [("schnell", "no guidance scale, 4 denoising steps"), ("sd1", "guidance scale 7.5, 50 denoising steps")],
)
def test_default_settings_are_described_by_family(folders, tmp_path, family, made):
    folder, given = folders(family), {"compute": {"cache": str(tmp_path)}}
    study = Study(tmp_path / "out", source="pipeline", model=folder, settings=given)
    assert study.describe_generation() == f"{family}: {made}."
