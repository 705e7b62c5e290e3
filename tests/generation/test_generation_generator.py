"""Seeds, batches, memory, types of numbers, safety checker and what is refused."""

import hashlib
import logging
import re

import numpy as np
import pytest
from tiny_pipelines import settings

from biaslab.errors import ParameterError, RunError
from biaslab.generation import generator
from biaslab.generation.generator import image_seed, load, max_batch_size

PROMPT = "a photo of the face of a nurse"


def images(model: generator.Generator, n: int, prompt: str = PROMPT) -> list:
    return model.images([prompt] * n, [("p", i) for i in range(n)], seed=1)


def test_seed_is_a_hash_of_run_prompt_and_index():
    # BLAKE2b of "3", "p1-nurse", "7" with a zero byte between; its first 8 bytes without the lowest bit.
    whole = hashlib.blake2b(b"3\x00p1-nurse\x007", digest_size=8).hexdigest()
    assert image_seed(3, "p1-nurse", 7) == int(whole, 16) // 2 < 2**63
    # What stands beside each other does not run together, and numbers of any kind are the same number.
    assert image_seed(3, "p1", 17) != image_seed(3, "p11", 7)
    assert image_seed(np.int64(3), "p1-nurse", np.int32(7)) == image_seed(3, "p1-nurse", 7)
    assert len({image_seed(s, p, i) for s in range(5) for p in "abcde" for i in range(40)}) == 1000


def test_out_of_memory_halves_the_batch_and_goes_on(folders, caplog):
    import torch

    model = load(*settings(folders("sd1"), batch_size=8))
    expected = images(model, 8)
    tried, most = [], 3

    def small_memory(module, args, kwargs):
        # Guidance doubles the rows: with more than three images, memory is full.
        tried.append(len(args[0]) // 2)
        if tried[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.pipe.unet.register_forward_pre_hook(small_memory, with_kwargs=True)
    with caplog.at_level(logging.WARNING):
        made = images(model, 8)
    # Eight and four fail, then pairs, two steps each.
    assert tried == [8, 4, *[2] * 8]
    assert model.batch_size == 2
    assert re.findall("batches have at most [0-9]+", caplog.text) == [
        "batches have at most 4",
        "batches have at most 2",
    ]
    assert max(np.abs(a.astype(int) - b).max() for a, b in zip(made, expected, strict=True)) <= 2
    most = 0
    with pytest.raises(RunError, match=r"one image of 32 x 32 pixels.*smaller size"):
        images(model, 2)


@pytest.mark.parametrize(
    ("free", "one", "two", "expected"),
    [
        # Weights aside, 2 GB whatever comes and 1 GB an image; 0.85 of 20 GB less 2 hold 15, the power below is 8.
        (20 * 10**9, 3 * 10**9, 4 * 10**9, 8),
        (200 * 10**9, 3 * 10**9, 4 * 10**9, 64),
        (1 * 10**9, 3 * 10**9, 4 * 10**9, 1),
        # A measurement that shows nothing for the second image must not divide by zero.
        (20 * 10**9, 10**6, 10**6, 64),
    ],
)
def test_batches_are_fitted_to_free_memory(free, one, two, expected):
    assert max_batch_size(free, one, two) == expected


def test_batches_on_a_cpu_shrink_with_pixels_and_guidance(folders):
    model = load(*settings(folders("sd1")))
    cases = [(64, 1, 64), (64, 4, 32), (128, 1, 16), (128, 4, 8), (512, 4, 1), (1024, 1, 1), (32, 4, 32)]
    for size, guidance, expected in cases:
        _, asked = settings("", height=size, width=size, guidance_scale=guidance)
        assert model.with_settings(asked).batch_size == expected


def test_a_scheduler_that_draws_shared_noise_is_refused(folders):
    model = load(*settings(folders("flux")))
    model.pipe.scheduler.register_to_config(stochastic_sampling=True)
    with pytest.raises(ParameterError, match=r"FlowMatchEulerDiscreteScheduler.*seeded"):
        images(model, 1)


@pytest.mark.parametrize(
    ("family", "scheduler", "message"),
    [("sd1", "EulerAncestral", "Did you mean 'EulerAncestralDiscreteScheduler'"), ("flux", "DDIMScheduler", "cannot")],
)
def test_unknown_schedulers_are_named_with_near_ones(folders, family, scheduler, message):
    with pytest.raises(ParameterError, match=f"scheduler is '{scheduler}'.*{message}"):
        load(*settings(folders(family), scheduler=scheduler))


def test_type_of_numbers_is_found(folders, monkeypatch, cpuinfo):
    folder = folders("sd1")
    cpuinfo("avx512_bf16 amx_bf16")
    small = load(*settings(folder, dtype="auto"))
    assert small.settings.dtype == small.description()["dtype"] == "bfloat16"
    # Only the denoising network is small; what it is given and gives stays float32 around it.
    types = [str(part.dtype) for part in (small.pipe.unet, small.pipe.vae, small.pipe.text_encoder)]
    assert types == ["torch.bfloat16", "torch.float32", "torch.float32"]
    whole = load(*settings(folder))
    close = np.abs(np.subtract(images(small, 2), images(whole, 2), dtype=float)).mean()
    assert 0 < close < 3

    monkeypatch.setattr(generator, "_MAX_ERROR", 0.0)
    assert load(*settings(folder, dtype="auto")).settings.dtype == "float32"
    monkeypatch.setattr(generator, "_MAX_ERROR", 1.0)
    cpuinfo("avx512_bf16")
    assert load(*settings(folder, dtype="auto")).settings.dtype == "float32"


@pytest.mark.long
@pytest.mark.parametrize("family", ["sdxl", "sd3", "flux"])
def test_small_numbers_change_little_in_every_family(folders, family):
    model, small = (load(*settings(folders(family), dtype=d)) for d in ("float32", "bfloat16"))
    difference = np.abs(np.subtract(images(model, 2), images(small, 2), dtype=float))
    assert 0 < difference.mean() < 4


def test_size_is_the_models_own_or_fits_it(folders):
    own = load(*settings(folders("sd1"), height=0, width=0))
    # 16 latents a side, each of 2 x 2 pixels in the tiny autoencoder.
    assert (own.height, own.width) == (32, 32)
    wide = load(*settings(folders("flux"), height=32, width=64))
    assert images(wide, 1)[0].shape == (32, 64, 3)
    with pytest.raises(ParameterError, match=r"height is 36; .* in multiples of 8, for example 32"):
        own.with_settings(own.settings.with_changes(height=36))


def test_words_that_a_tokenizer_lacks_are_named(folders):
    model = load(*settings(folders("sd1")))
    model.check(["a Photo of the face of a NURSE, a pilot"])
    with pytest.raises(ParameterError, match=r"'plumber', 'Zürich' .*'a photo of a plumber'"):
        model.check(["a photo of a nurse", "a photo of a plumber", "a plumber of Zürich"])
    with pytest.raises(ParameterError, match="'ugly'"):
        load(*settings(folders("sd1"), negative_prompt="ugly")).check(["a nurse"])


def test_ends_that_nothing_reads_are_counted(folders):
    # The tokenizers of the tiny models read 12 tokens, of which [bos] and [eos] are two.
    texts = ["a nurse", "a nurse of " * 3 + "a", "a nurse of " * 3 + "a nurse of a pilot"]
    model = load(*settings(folders("sdxl")))
    assert model.n_tokens_truncated(texts).tolist() == [0, 0, 4] and model.n_tokens_truncated([]).tolist() == []
    # The T5 encoders of these read 256 and 512.
    for family in ("sd3", "flux"):
        assert load(*settings(folders(family))).n_tokens_truncated(texts).tolist() == [0, 0, 0]


@pytest.mark.long
def test_a_compiled_network_gives_the_same_images(folders, monkeypatch):
    import torch

    plain, compiled, compile_module = load(*settings(folders("sd1"), steps=1)), [], torch.nn.Module.compile

    def traced(module, **options):
        # The default backend needs a compiler for C++; what can go wrong here is the tracing.
        compiled.append(type(module).__name__)
        return compile_module(module, backend="eager", **options)

    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    model = load(*settings(folders("sd1"), steps=1, compile=True))
    assert compiled == ["UNet2DConditionModel"]
    assert all((a == b).all() for a, b in zip(images(model, 2), images(plain, 2), strict=True))
