"""Models of twelve families by their real names: own settings of each, and refusal of ineffective settings."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_pipelines

from biaslab.errors import ParameterError
from biaslab.generation.generator import image_seed, load
from biaslab.generation.models import DiffusersModel
from biaslab.generation.settings import GenerationSettings

pytestmark = pytest.mark.long

# What is built under a name; steps, guidance and its argument that its makers give, and how diffusers is asked for it.
FAMILIES = {
    "CompVis/stable-diffusion-v1-4": ("sd1", 50, 7.5, {}),
    "stabilityai/stable-diffusion-2-1": ("sd2", 50, 7.5, {}),
    "stabilityai/stable-diffusion-xl-base-1.0": ("sdxl", 50, 5, {}),
    "stabilityai/sdxl-turbo": ("sdxl_turbo", 1, 0, {"num_inference_steps": 1, "guidance_scale": 0.0}),
    "stabilityai/stable-diffusion-3.5-medium": (
        "sd35_medium", 40, 4.5, {"num_inference_steps": 40, "guidance_scale": 4.5},
    ),
    "stabilityai/stable-diffusion-3.5-large": (
        "sd35_large", 28, 3.5, {"num_inference_steps": 28, "guidance_scale": 3.5},
    ),
    "stabilityai/stable-diffusion-3.5-large-turbo": (
        "sd35_large", 4, 0, {"num_inference_steps": 4, "guidance_scale": 0.0},
    ),
    "black-forest-labs/FLUX.1-dev": ("flux", 28, 3.5, {}),
    "black-forest-labs/FLUX.1-schnell": (
        "schnell", 4, None, {"num_inference_steps": 4, "guidance_scale": 0.0, "max_sequence_length": 256},
    ),
    "black-forest-labs/FLUX.2-dev": ("flux2", 50, 4, {}),
    "black-forest-labs/FLUX.2-klein-4B": (
        "klein_distilled", 4, None, {"num_inference_steps": 4, "guidance_scale": 1.0},
    ),
    "Qwen/Qwen-Image": ("qwen", 50, 4, {"true_cfg_scale": 4.0, "negative_prompt": " "}),
    "Tongyi-MAI/Z-Image-Turbo": ("zimage", 9, 0, {"num_inference_steps": 9, "guidance_scale": 0.0}),
    "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS": ("pixart", 20, 4.5, {"use_resolution_binning": False}),
}  # fmt: skip
PROMPT, KEY = "a photo of a nurse", ("p1-nurse", 0)
SMALL = {"height": 32, "width": 32, "dtype": "float32"}


def make_model(name, **extra):
    return DiffusersModel(name, GenerationSettings(**SMALL | extra), device="cpu")


def levels(one, other) -> int:
    return int(np.abs(one.astype(int) - other).max())


def draw_image(made_by):
    return made_by.images([PROMPT], [KEY], seed=5)[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_model_has_maker_settings_and_diffusers_pixels(hub, folders, name):
    kind, steps, scale, call_args = FAMILIES[name]
    hub.serve(name, Path(folders(kind)))
    # Before weights are fetched: description of wide images, and refusal of ineffective guidance.
    model = DiffusersModel(name, GenerationSettings(aspect=1.5), device="cpu")
    model.look_up()
    words = model.describe_settings()
    assert f" {steps} step" in words
    assert (f"_scale {scale:g}" if scale is not None else "no guidance") in words
    # In the steps that a model takes, which of these small sizes are large.
    width, height = map(int, re.search(r"(\d+) x (\d+) pixels", words).groups())
    assert width == pytest.approx(1.5 * height, abs=8)
    if scale is None:
        with pytest.raises(ParameterError, match=r"guidance_scale is 7.5, but .* no guidance changes"):
            make_model(name, guidance_scale=7.5).look_up()
    else:
        make_model(name, guidance_scale=7.5).look_up()
    assert not hub.fetched(".safetensors")
    made_by = load(name, GenerationSettings(**SMALL))
    description = made_by.description()
    assert (description["steps"], description["guidance_scale"]) == (steps, scale)
    expected = tiny_pipelines.by_diffusers(Path(folders(kind)), PROMPT, image_seed(5, *KEY), **call_args)
    assert levels(draw_image(made_by), expected) <= 1
    if scale is not None:
        guided = [GenerationSettings(**SMALL, guidance_scale=value, steps=2) for value in (2.0, 7.5)]
        assert levels(*(draw_image(made_by.with_settings(settings)) for settings in guided)) > 1


REFUSALS = {
    "a size": ("black-forest-labs/FLUX.1-dev", {"height": 30}, r"height is 30; .* multiples of 4, for example 32"),
    "a negative prompt of a network that takes its scale": (
        "black-forest-labs/FLUX.1-dev", {"negative_prompt": "blurry"}, r"accepts none, because its network",
    ),
    "a negative prompt of a distilled one": (
        "black-forest-labs/FLUX.2-klein-4B", {"negative_prompt": "blurry"}, r"accepts none",
    ),
    "a negative prompt without guidance": (
        "stabilityai/sdxl-turbo", {"negative_prompt": "blurry"}, r"own one of \S+ is 0; set guidance_scale above 1",
    ),
    "a negative prompt with guidance off": (
        "Qwen/Qwen-Image", {"negative_prompt": "blurry", "guidance_scale": 1}, r"guidance_scale is 1; set .* above 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSALS)
def test_ineffective_setting_is_refused_unfetched(hub, folders, what):
    name, extra, message = REFUSALS[what]
    hub.serve(name, Path(folders(FAMILIES[name][0])))
    with pytest.raises(ParameterError, match=message):
        make_model(name, **extra).look_up()
    assert not hub.fetched(".safetensors")
