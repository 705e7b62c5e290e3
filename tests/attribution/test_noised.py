"""Attention in images that are given: what the network is shown, and that maps are those of each image alone."""

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
def test_the_network_sees_the_image_with_noise_of_its_schedule(mini, images, monkeypatch):
    import torch

    monkeypatch.setattr(noised, "LEVELS", (0.2, 0.8))
    seen = []
    hook = mini.pipe.unet.register_forward_pre_hook(lambda m, args, kwargs: seen.append(args[:2]), with_kwargs=True)
    try:
        map_words(mini, images, TEXTS, WORDS, keys=KEYS)
    finally:
        hook.remove()
    assert [len(x) for x, _ in seen] == [2, 2, 1, 1]
    kept = mini.pipe.scheduler.alphas_cumprod
    steps = mini.pipe.scheduler.config.num_train_timesteps
    with torch.inference_mode():
        pixels = torch.from_numpy(images[2] / 127.5 - 1).float().permute(2, 0, 1)[None]
        latent = mini.pipe.vae.encode(pixels).latent_dist.mean * mini.pipe.vae.config.scaling_factor
    noises = []
    for (noisy, t), level in zip(seen[2:], (0.2, 0.8), strict=True):
        assert t.tolist() == [round(level * steps)]
        a = kept[t[0]]
        noises.append((noisy - a.sqrt() * latent) / (1 - a).sqrt())
    torch.testing.assert_close(*noises, rtol=1e-3, atol=1e-3)
    assert 0.9 < float(noises[0].std()) < 1.1


@pytest.mark.long
def test_a_network_in_a_smaller_type_is_looked_at_too(images):
    import torch

    model = load("mini", GenerationSettings(steps=2, dtype="bfloat16", batch_size=2))
    whole, _ = map_words(model, images, TEXTS, WORDS, keys=KEYS)
    assert len(whole) == 3
    with torch.no_grad():
        model.pipe.unet.conv_out.bias[0] = float("nan")
    with pytest.raises(RunError, match=r"not finite in bfloat16\. Set generation\.dtype"):
        map_words(model, images, TEXTS, WORDS, keys=KEYS)


@pytest.mark.long
def test_maps_are_those_of_each_image_and_level_alone(mini, images, monkeypatch):
    monkeypatch.setattr(noised, "LEVELS", (0.2, 0.8))
    whole, apart = map_words(mini, images, TEXTS, WORDS, keys=KEYS, seed=4)
    assert [m.words for m in whole] == [("nurse",), ("face", "pilot"), ("photo",)]
    assert whole[0].missing == {"dog": "not in the text"}
    # Wherever an image stands its noise is its own.
    back, _ = map_words(mini, images[::-1], TEXTS[::-1], WORDS[::-1], keys=KEYS[::-1], seed=4)
    for first, second in zip(whole, back[::-1], strict=True):
        np.testing.assert_allclose(first.maps.astype(int), second.maps.astype(int), atol=1)
    for level, maps in zip((0.2, 0.8), apart, strict=True):
        monkeypatch.setattr(noised, "LEVELS", (level,))
        one, (same,) = map_words(mini, images, TEXTS, WORDS, keys=KEYS, seed=4)
        for first, second, third in zip(maps, one, same, strict=True):
            np.testing.assert_array_equal(first.maps, second.maps)
            np.testing.assert_array_equal(second.maps, third.maps)
    # The same image under another name, or with another seed, has other noise.
    for name, seed in (("b", 4), ("a", 5)):
        other, (at_level,) = map_words(mini, images[:1], TEXTS[:1], WORDS[:1], keys=[name], seed=seed)
        assert (at_level[0].maps != maps[0].maps).any() and (other[0].maps == at_level[0].maps).all()


def test_what_cannot_be_looked_at_is_refused(mini, images, folders):
    small = [image[:32, :32] for image in images]
    with pytest.raises(ParameterError, match="64 x 64 pixels, but these have 32 x 32"):
        map_words(mini, small, TEXTS, WORDS, keys=KEYS)
    sdxl = load(folders("sdxl"), GenerationSettings(steps=1, height=32, width=32, dtype="float32"))
    with pytest.raises(ParameterError, match="this is a StableDiffusionXLPipeline"):
        map_words(sdxl, images, TEXTS, WORDS, keys=KEYS)
