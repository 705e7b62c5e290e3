"""Every family of pipelines: images equal diffusers' own, in any batch."""

import inspect

import numpy as np
import pytest
import tiny_pipelines as tiny

from biaslab.errors import ParameterError
from biaslab.generation import families
from biaslab.generation.generator import image_seed, load
from biaslab.generation.settings import GenerationSettings

PROMPTS = ["a photo of the face of a nurse", "a photo of a pilot", "a photo of the face of a nurse"]
KEYS = [("p1-nurse", 0), ("p1-pilot", 0), ("p1-nurse", 1)]


def settings(folder: str, **extra) -> tuple[str, GenerationSettings]:
    return tiny.settings(folder, **{"steps": 3, "guidance_scale": 4.0} | extra)


def most_levels(a: list[np.ndarray], b: list[np.ndarray]) -> int:
    return max(int(np.abs(x.astype(int) - y).max()) for x, y in zip(a, b, strict=True))


# Arguments of diffusers with another name, or in addition to prompt, size, steps and guidance.
DIFFUSERS_ARGS = {
    "qwen": lambda scale: {"true_cfg_scale": scale, "negative_prompt": " "},
    "pixart": lambda scale: {"guidance_scale": scale, "use_resolution_binning": False},
}


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sdxl", "sd3", "qwen", "pixart"])
def test_negative_prompt_and_no_guidance_match_diffusers(folders, family):
    given, prompts, keys = settings(folders(family)), PROMPTS[:1], KEYS[:1]
    diffusers_args, own = (
        DIFFUSERS_ARGS.get(family, lambda scale: {"guidance_scale": scale}),
        {"num_inference_steps": 3},
    )
    negative = {"negative_prompt": "a blurry photo"}
    negative_images = load(given[0], given[1].with_changes(**negative)).images(prompts, keys, seed=5)
    expected = tiny.by_diffusers(given[0], prompts[0], image_seed(5, *keys[0]), **own, **diffusers_args(4.0) | negative)
    assert most_levels(negative_images, [expected]) <= 1
    plain = load(given[0], given[1].with_changes(guidance_scale=1.0)).images(prompts, keys, seed=5)
    expected = tiny.by_diffusers(given[0], prompts[0], image_seed(5, *keys[0]), **own, **diffusers_args(1.0))
    assert most_levels(plain, [expected]) <= 1
    assert most_levels(plain, negative_images) > 5


@pytest.mark.long
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_image_does_not_depend_on_batch(folders, monkeypatch, family):
    generator = load(*settings(folders(family), batch_size=3))
    encode, draw = generator.pipe.encode_prompt, families.Family.noise
    recorded, noises = [], []

    def record_noise(*given):
        noises.append(draw(*given))
        return noises[-1]

    def record_encode(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if given.get("prompt_embeds") is None:
            recorded.append(given["prompt"])
        return encode(*args, **kwargs)

    record_encode.__signature__ = signature = inspect.signature(encode)
    generator.pipe.encode_prompt = record_encode
    monkeypatch.setattr(families.Family, "noise", record_noise)
    batched = generator.images(PROMPTS, KEYS, seed=5)
    repeated = generator.images(PROMPTS, KEYS, seed=5)
    turned = generator.images(PROMPTS[::-1], KEYS[::-1], seed=5)[::-1]
    separate = [generator.images([p], [k], seed=5)[0] for p, k in zip(PROMPTS, KEYS, strict=True)]
    # The guarantee: same batch, same bytes; any batch, the same noise to the bit and pixels within two levels.
    assert most_levels(batched, repeated) == 0
    assert most_levels(batched, separate) <= 2
    assert most_levels(batched, turned) <= 2
    for k in range(3):
        assert noises[0][k].equal(noises[2][2 - k])
        assert noises[0][k].equal(noises[3 + k][0])
    # The pipeline gets encoded texts and encodes none. If guidance uses a negative prompt, that
    # one is encoded, too (SDXL has zeros for none).
    negative = {"sdxl": 0, "flux": 0, "flux2": 0}
    assert len(recorded) == 2 + negative.get(family, 1) and set(recorded) >= set(PROMPTS)


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd2", "qwen", "zimage", "flux2", "klein"])
def test_unknown_family_makes_same_images(folders, monkeypatch, family):
    negative = {"negative_prompt": "a blurry photo"} if family in ("sd2", "qwen", "zimage") else {}
    given = settings(folders(family), **negative)
    by_family = load(*given).images(PROMPTS[:2], KEYS[:2], seed=5)
    monkeypatch.setattr(families, "table", dict)
    assert most_levels(load(*given).images(PROMPTS[:2], KEYS[:2], seed=5), by_family) <= 1


def test_unknown_pipeline_ineffective_guidance_is_refused(folders, monkeypatch):
    monkeypatch.setattr(families, "table", dict)
    with pytest.raises(ParameterError, match=r"guidance_scale is 4, .* guidance scale of 9"):
        load(*settings(folders("schnell")))
    # Its own settings are taken as they are, and no guidance is what it has.
    for own in (None, 1.0):
        load(*settings(folders("schnell"), guidance_scale=own))


@pytest.mark.long
@pytest.mark.parametrize("scheduler", ["EulerAncestralDiscreteScheduler", "ddpm", "DPMSolverMultistep"])
def test_scheduler_is_selected_by_name(folders, scheduler):
    generator = load(*settings(folders("sd1"), scheduler=scheduler))
    assert type(generator.pipe.scheduler).__name__.lower().startswith(scheduler.lower())
    batched = generator.images(PROMPTS[1:], KEYS[1:], seed=5)
    # The first two draw noise at each step, of each image's own generator.
    assert most_levels(batched[1:], generator.images(PROMPTS[2:], KEYS[2:], seed=5)) <= 2
    assert most_levels(batched, load(*settings(folders("sd1"))).images(PROMPTS[1:], KEYS[1:], seed=5)) > 0


@pytest.mark.parametrize(("channels", "turned"), [(64, True), (256, False)])
def test_planar_norms_match_group_norm(channels, turned):
    import torch

    draws = torch.Generator().manual_seed(0)
    norm = torch.nn.GroupNorm(16, channels)
    norm.weight.data, norm.bias.data = (torch.randn(channels, generator=draws) for _ in range(2))
    norm.to(torch.bfloat16)
    images = 2 * torch.randn(4, channels, 8, 8, generator=draws) + 3
    images = images.bfloat16().contiguous(memory_format=torch.channels_last)
    exact = torch.nn.functional.group_norm(images.double(), 16, norm.weight.double(), norm.bias.double())
    recorded = []
    families.planar_norms(norm)
    norm.register_forward_pre_hook(lambda module, args: recorded.append(args[0].is_contiguous()))
    result = norm(images)
    assert recorded == [turned] and result.is_contiguous(memory_format=torch.channels_last)
    # Half a step of a bfloat16 of up to 16, at most, and of one up to 1 on average.
    assert (result.double() - exact).abs().max() <= 2**-5
    assert (result.double() - exact).abs().mean() <= 2**-8
    # Rows without width and height pass through.
    assert norm(images.flatten(2)).shape == (4, channels, 64)
