"""Attention in existing images: noisy inputs of the network, and independent maps of each image."""

import numpy as np
import pytest

from biaslab.attribution import noised
from biaslab.attribution.noised import map_words
from biaslab.errors import ParameterError, RunError
from biaslab.generation.generator import load
from biaslab.generation.settings import GenerationSettings

TEXTS = ["a photo of a nurse", "the face of a pilot", "a photo of the face of a nurse"]
WORDS = [["nurse", "dog"], ["face", "pilot"], ["photo"]]
KEYS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def mini():
    return load("mini", GenerationSettings(steps=2, dtype="float32", batch_size=2))


@pytest.fixture(scope="module")
def images():
    return list(np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8))


@pytest.mark.long
def test_map_words_adds_noise_of_schedule(mini, images, monkeypatch):
    import torch

    monkeypatch.setattr(noised, "LEVELS", (0.2, 0.8))
    inputs = []
    hook = mini.pipe.unet.register_forward_pre_hook(lambda m, args, kwargs: inputs.append(args[:2]), with_kwargs=True)
    try:
        map_words(mini, images, TEXTS, WORDS, keys=KEYS)
    finally:
        hook.remove()
    assert [len(x) for x, _ in inputs] == [2, 2, 1, 1]
    alphas = mini.pipe.scheduler.alphas_cumprod
    steps = mini.pipe.scheduler.config.num_train_timesteps
    with torch.inference_mode():
        pixels = torch.from_numpy(images[2] / 127.5 - 1).float().permute(2, 0, 1)[None]
        latent = mini.pipe.vae.encode(pixels).latent_dist.mean * mini.pipe.vae.config.scaling_factor
    noises = []
    for (noisy, t), level in zip(inputs[2:], (0.2, 0.8), strict=True):
        assert t.tolist() == [round(level * steps)]
        a = alphas[t[0]]
        noises.append((noisy - a.sqrt() * latent) / (1 - a).sqrt())
    torch.testing.assert_close(*noises, rtol=1e-3, atol=1e-3)
    assert 0.9 < float(noises[0].std()) < 1.1


@pytest.mark.long
def test_map_words_in_bfloat16_checks_finite(images):
    import torch

    model = load("mini", GenerationSettings(steps=2, dtype="bfloat16", batch_size=2))
    whole, _ = map_words(model, images, TEXTS, WORDS, keys=KEYS)
    assert len(whole) == 3
    with torch.no_grad():
        model.pipe.unet.conv_out.bias[0] = float("nan")
    with pytest.raises(RunError, match=r"not finite in bfloat16\. Set generation\.dtype"):
        map_words(model, images, TEXTS, WORDS, keys=KEYS)


@pytest.mark.long
def test_map_words_is_independent_by_image_and_level(mini, images, monkeypatch):
    monkeypatch.setattr(noised, "LEVELS", (0.2, 0.8))
    whole, by_level = map_words(mini, images, TEXTS, WORDS, keys=KEYS, seed=4)
    assert [m.words for m in whole] == [("nurse",), ("face", "pilot"), ("photo",)]
    assert whole[0].missing == {"dog": "not in the text"}
    # The noise of an image does not depend on its position.
    reversed_maps, _ = map_words(mini, images[::-1], TEXTS[::-1], WORDS[::-1], keys=KEYS[::-1], seed=4)
    for first, second in zip(whole, reversed_maps[::-1], strict=True):
        np.testing.assert_allclose(first.maps.astype(int), second.maps.astype(int), atol=1)
    for level, maps in zip((0.2, 0.8), by_level, strict=True):
        monkeypatch.setattr(noised, "LEVELS", (level,))
        mean_maps, (level_maps,) = map_words(mini, images, TEXTS, WORDS, keys=KEYS, seed=4)
        for first, second, third in zip(maps, mean_maps, level_maps, strict=True):
            np.testing.assert_array_equal(first.maps, second.maps)
            np.testing.assert_array_equal(second.maps, third.maps)
    # The same image under another name, or with another seed, has other noise.
    for name, seed in (("b", 4), ("a", 5)):
        other_maps, (at_level,) = map_words(mini, images[:1], TEXTS[:1], WORDS[:1], keys=[name], seed=seed)
        assert (at_level[0].maps != maps[0].maps).any() and (other_maps[0].maps == at_level[0].maps).all()


def test_map_words_refuses_other_size_or_pipeline(mini, images, folders):
    small = [image[:32, :32] for image in images]
    with pytest.raises(ParameterError, match="64 x 64 pixels, but these have 32 x 32"):
        map_words(mini, small, TEXTS, WORDS, keys=KEYS)
    sdxl = load(folders("sdxl"), GenerationSettings(steps=1, height=32, width=32, dtype="float32"))
    with pytest.raises(ParameterError, match="this is a StableDiffusionXLPipeline"):
        map_words(sdxl, images, TEXTS, WORDS, keys=KEYS)
