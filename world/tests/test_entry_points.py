"""Entry points of the synthetic world in biaslab."""

import pytest

from biaslab import plugins
from biaslab.hub import registry
from biaslab.pipeline import Pipeline, Settings
from biaslab_world.brought import WEIGHTS

KINDS = {
    "mini-sd": "text-to-image",
    "mini-sd-pairs": "text-to-image",
    "mini-sd-skills": "text-to-image",
    "mini-sd-triplets": "text-to-image",
    "mini-clip": "clip",
    "mini-detector": "detector",
    "mini-skills-detector": "detector",
    "mini-vqa": "vqa",
    "mini-captioner": "captioner",
    "mini-segmenter": "segmenter",
}


def test_installed_lists_all_weights_as_drawings():
    installed_models = registry.installed().set_index("name")
    rows = installed_models[installed_models["folder"].str.startswith(str(WEIGHTS))]
    assert rows["kind"].to_dict() == KINDS and {folder.name for folder in WEIGHTS.iterdir()} == set(KINDS)
    assert set(rows["pictures"]) == {"drawings"} == {installed_models.loc["world", "pictures"]}
    assert (rows["card"] == rows["folder"] + "/README.md").all() and rows["megabytes"].between(0.1, 20).all()
    for name, kind in KINDS.items():
        assert registry.resolve(name, kind) == str(WEIGHTS / name)


def test_resolve_alias_mini_depends_on_design():
    models = {"captions": "mini-sd", "paired": "mini-sd-pairs", "dalleval": "mini-sd-skills"}
    for design, name in (models | {"triplets": "mini-sd-triplets"}).items():
        assert registry.resolve_alias("mini", "text-to-image", design) == name
        assert registry.find_plugin("mini", "text-to-image", design).folder == WEIGHTS / name
    shared = {"mini-sd-pairs": "mini-sd", "mini-sd-triplets": "mini-sd-skills"}
    for name in (name for name, kind in KINDS.items() if kind == "text-to-image"):
        assert registry.autoencoder(WEIGHTS / name) == WEIGHTS / shared.get(name, name) / "vae"


@pytest.mark.parametrize("name", ["mini", "mini-sd", "mini-sd-pairs", "mini-sd-skills", "mini-sd-triplets", "world"])
def test_settings_of_models_name_existing_judges(name):
    """Each named judge exists and has the required kind."""
    settings = registry.settings(name)
    roles = {"faces": "detector", "gender": "clip", "detector": "detector", "vqa": "vqa", "captioner": "captioner"}
    judges = {**settings["judging"], **settings["dalleval"]}
    assert set(judges) - {"dtype"} == set(roles)
    judges.pop("dtype")
    for role, judge in judges.items():
        assert registry.resolve(judge, roles[role]) == str(WEIGHTS / judge)
    assert registry.resolve(settings["triplets"]["objects"], "segmenter") == str(WEIGHTS / "mini-segmenter")
    assert settings["captions"]["corpus"] in plugins.entry_points("biaslab.corpora")
    assert registry.describe(name, "limits")


@pytest.mark.parametrize("name", ["mini", "mini-sd", "mini-sd-pairs", "mini-sd-skills", "mini-sd-triplets", "world"])
def test_settings_of_models_fix_dtype(cpuinfo, name):
    # A processor on which "auto" is bfloat16.
    cpuinfo("fpu avx512f amx_bf16 amx_tile", "GenuineIntel")
    settings = Pipeline(name, Settings()).settings
    assert settings.generation.dtype == settings.judging.dtype == settings.captions.encoder_dtype == "float32"
    assert Pipeline(name, Settings(generation={"dtype": "bfloat16"})).settings.generation.dtype == "bfloat16"


def test_describe_planted_effects_match_world():
    """The descriptions are plain texts, so that naming a model imports nothing of the world."""
    from biaslab.papers.paired.prompts import sentence
    from biaslab_world.pairs import FORMS
    from biaslab_world.triplets import SKEWS

    text = registry.describe("mini", "paired_faircritic")
    assert f"{100 * FORMS['sentence']:.0f}% of the texts" in text and sentence(["nurse"], ["male"]) in text
    share = f"{100 * SKEWS['default'][1]:.0f}% women"
    for name in ("mini", "mini-sd-triplets", "world"):
        assert share in registry.describe(name, "triplets_shares")
    assert registry.describe("nobodys", "triplets_shares") == "" == registry.describe("mini", "no such effect")
