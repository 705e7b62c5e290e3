"""Every family of pipelines: the images are diffusers' own, whatever stands beside them in a batch."""

import dataclasses
import inspect
import re

import numpy as np
import pytest
import tiny_pipelines as tiny

from biaslab.generation import families
from biaslab.generation.generator import image_seed, load
from biaslab.generation.loading import quiet
from biaslab.generation.settings import GenerationSettings
from biaslab.ground.errors import ParameterError

PROMPTS = ["a photo of the face of a nurse", "a photo of a pilot", "a photo of the face of a nurse"]
KEYS = [("p1-nurse", 0), ("p1-pilot", 0), ("p1-nurse", 1)]
SIZE = 32


def settings(folder: str, **more) -> tuple[str, GenerationSettings]:
    given = {"steps": 3, "guidance_scale": 4.0, "height": SIZE, "width": SIZE, "dtype": "float32"}
    return folder, GenerationSettings(**given | more)


def most_levels(a: list[np.ndarray], b: list[np.ndarray]) -> int:
    return max(int(np.abs(x.astype(int) - y).max()) for x, y in zip(a, b, strict=True))


# What diffusers is asked by another name, or beside prompt, size, steps and guidance.
ASKED = {
    "qwen": lambda scale: {"true_cfg_scale": scale, "negative_prompt": " "},
    "pixart": lambda scale: {"guidance_scale": scale, "use_resolution_binning": False},
}


def by_diffusers(
    folder: str, prompt: str, key: tuple[str, int], family: str = "", scale: float = 4.0, **more
) -> np.ndarray:
    """Return the image of diffusers' default call on one prompt, with the generator that the key seeds."""
    import torch
    from diffusers import AutoPipelineForText2Image

    with quiet():
        pipe = AutoPipelineForText2Image.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(image_seed(5, *key))
    given = {"num_inference_steps": 3, "height": SIZE, "width": SIZE}
    given |= ASKED.get(family, lambda scale: {"guidance_scale": scale})(scale) | more
    with quiet():
        found = pipe(prompt=prompt, generator=generator, output_type="np", **given).images[0]
    return (found * 255).round().astype(np.uint8)


@pytest.mark.parametrize("family", ["sd1", "sdxl", "sd3", "qwen", "pixart"])
def test_negative_prompt_and_no_guidance_are_those_of_diffusers(folders, family):
    folder, prompts, keys = folders(family), PROMPTS[:1], KEYS[:1]
    pushed = load(*settings(folder, negative_prompt="a blurry photo")).images(prompts, keys, seed=5)
    theirs = by_diffusers(folder, prompts[0], keys[0], family, negative_prompt="a blurry photo")
    assert most_levels(pushed, [theirs]) <= 1
    plain = load(*settings(folder, guidance_scale=1.0)).images(prompts, keys, seed=5)
    assert most_levels(plain, [by_diffusers(folder, prompts[0], keys[0], family, 1.0)]) <= 1
    assert most_levels(plain, pushed) > 5


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_an_image_does_not_depend_on_its_batch(folders, family):
    generator = load(*settings(folders(family), batch_size=3))
    noises, family_of = [], generator.family
    draw = family_of.noise

    def drawn(*given):
        noises.append(draw(*given))
        return noises[-1]

    object.__setattr__(family_of, "noise", drawn)
    try:
        together = generator.images(PROMPTS, KEYS, seed=5)
        again = generator.images(PROMPTS, KEYS, seed=5)
        alone = [generator.images([p], [k], seed=5)[0] for p, k in zip(PROMPTS, KEYS, strict=True)]
        turned = generator.images(PROMPTS[::-1], KEYS[::-1], seed=5)[::-1]
    finally:
        object.__delattr__(family_of, "noise")
    # The guarantee: same batch, same bytes; any batch, the same noise to the bit and pixels within two levels.
    assert most_levels(together, again) == 0
    assert most_levels(together, alone) <= 2
    assert most_levels(together, turned) <= 2
    one_by_one = [noise[0] for noise in noises[2:5]]
    for k in range(3):
        assert noises[0][k].equal(one_by_one[k])
        assert noises[0][k].equal(noises[5][2 - k])


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_each_text_is_encoded_once(folders, family):
    generator = load(*settings(folders(family), batch_size=2))
    encode, seen = generator.pipe.encode_prompt, []

    def encoded(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if given.get("prompt_embeds") is None:
            seen.append(given["prompt"])
        return encode(*args, **kwargs)

    encoded.__signature__ = signature = inspect.signature(encode)
    generator.pipe.encode_prompt = encoded
    generator.images(PROMPTS * 2, [(p, i) for i in range(2) for p in "abc"], seed=5)
    generator.images(PROMPTS, KEYS, seed=6)
    # The pipeline itself is given what is encoded, and encodes none. Where guidance works by a negative prompt, that
    # one is encoded, too (SDXL has zeros for none).
    negative = {"sdxl": 0, "flux": 0, "flux2": 0}
    assert len(seen) == 2 + negative.get(family, 1) and set(seen) >= set(PROMPTS)


@pytest.mark.parametrize("family", ["sd2", "qwen", "zimage", "flux2", "klein"])
def test_a_pipeline_of_no_known_family_makes_the_same_images(folders, monkeypatch, family):
    negative = {"negative_prompt": "a blurry photo"} if family in ("sd2", "qwen", "zimage") else {}
    given = settings(folders(family), **negative)
    known = load(*given).images(PROMPTS, KEYS, seed=5)
    monkeypatch.setattr(families, "table", dict)
    assert most_levels(load(*given).images(PROMPTS, KEYS, seed=5), known) <= 1


def test_guidance_that_changes_no_pixel_of_an_unknown_pipeline_is_refused(folders, monkeypatch):
    monkeypatch.setattr(families, "table", dict)
    with pytest.raises(ParameterError, match=r"guidance_scale is 4, .* guidance of 9"):
        load(*settings(folders("schnell")))
    # Its own settings are taken as they are, and no guidance is what it has.
    for own in (None, 1.0):
        load(*settings(folders("schnell"), guidance_scale=own))


def test_the_table_names_pipelines_that_there_are_and_what_is_known_of_them():
    import diffusers

    known = {field.name for field in dataclasses.fields(families.Family)} | {"side"}
    for name, entry in families.table().items():
        takes = inspect.signature(getattr(diffusers, name).__call__).parameters
        assert set(entry) <= known | {"variants"} and entry.get("latents", "grid") in ("grid", "rows", "patches")
        for part in entry["parts"]:
            assert {part, f"negative_{part}"} <= set(takes) or not entry.get("negative", True)
        for variant in entry.get("variants", {}).values():
            assert set(variant) <= known | {"when", "named"} and {"when", "named"} & set(variant)
            for where in variant.get("when", {}):
                assert re.fullmatch(r"(unet|transformer|vae|scheduler|index)\.\w+", where)


@pytest.mark.parametrize("scheduler", ["EulerAncestralDiscreteScheduler", "ddpm", "DPMSolverMultistep"])
def test_schedulers_by_name(folders, scheduler):
    generator = load(*settings(folders("sd1"), scheduler=scheduler, steps=4))
    assert type(generator.pipe.scheduler).__name__.lower().startswith(scheduler.lower())
    together = generator.images(PROMPTS, KEYS, seed=5)
    # The first two draw noise at each step, of each image's own generator.
    alone = [generator.images([p], [k], seed=5)[0] for p, k in zip(PROMPTS, KEYS, strict=True)]
    assert most_levels(together, alone) <= 2
    assert most_levels(together, load(*settings(folders("sd1"), steps=4)).images(PROMPTS, KEYS, seed=5)) > 0


@pytest.mark.parametrize(("channels", "turned"), [(64, True), (256, False)])
def test_norms_of_few_channels_a_group_are_the_same_when_turned(channels, turned):
    import torch

    draws = torch.Generator().manual_seed(0)
    norm = torch.nn.GroupNorm(16, channels)
    norm.weight.data, norm.bias.data = (torch.randn(channels, generator=draws) for _ in range(2))
    norm.to(torch.bfloat16)
    images = 2 * torch.randn(4, channels, 8, 8, generator=draws) + 3
    images = images.bfloat16().contiguous(memory_format=torch.channels_last)
    exact = torch.nn.functional.group_norm(images.double(), 16, norm.weight.double(), norm.bias.double())
    seen = []
    families.planar_norms(norm)
    norm.register_forward_pre_hook(lambda module, args: seen.append(args[0].is_contiguous()))
    found = norm(images)
    assert seen == [turned] and found.is_contiguous(memory_format=torch.channels_last)
    # Half a step of a bfloat16 of up to 16, at most, and of one up to 1 on average.
    assert (found.double() - exact).abs().max() <= 2**-5
    assert (found.double() - exact).abs().mean() <= 2**-8
    # Rows without width and height pass through.
    assert norm(images.flatten(2)).shape == (4, channels, 64)
