"""Seeds, batches, memory, number types, safety checker and refusals."""

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


def test_image_seed_hashes_run_prompt_and_index():
    # BLAKE2b of "3", "p1-nurse", "7" with a zero byte between; its first 8 bytes without the lowest bit.
    whole = hashlib.blake2b(b"3\x00p1-nurse\x007", digest_size=8).hexdigest()
    assert image_seed(3, "p1-nurse", 7) == int(whole, 16) // 2 < 2**63
    # Adjacent fields are separated, and integers of any type are equal.
    assert image_seed(3, "p1", 17) != image_seed(3, "p11", 7)
    assert image_seed(np.int64(3), "p1-nurse", np.int32(7)) == image_seed(3, "p1-nurse", 7)
    assert len({image_seed(s, p, i) for s in range(5) for p in "abcde" for i in range(40)}) == 1000


def test_out_of_memory_halves_batch_and_continues(folders, caplog):
    import torch

    model = load(*settings(folders("sd1"), batch_size=8))
    expected = images(model, 8)
    batch_sizes, capacity = [], 3

    def small_memory(module, args, kwargs):
        # Guidance doubles the rows: with more than three images, memory is full.
        batch_sizes.append(len(args[0]) // 2)
        if batch_sizes[-1] > capacity:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.pipe.unet.register_forward_pre_hook(small_memory, with_kwargs=True)
    with caplog.at_level(logging.WARNING):
        generated = images(model, 8)
    # Eight and four fail, then pairs, two steps each.
    assert batch_sizes == [8, 4, *[2] * 8]
    assert model.batch_size == 2
    assert re.findall("batches have at most [0-9]+", caplog.text) == [
        "batches have at most 4",
        "batches have at most 2",
    ]
    assert max(np.abs(a.astype(int) - b).max() for a, b in zip(generated, expected, strict=True)) <= 2
    capacity = 0
    with pytest.raises(RunError, match=r"one image of 32 x 32 pixels.*smaller size"):
        images(model, 2)


@pytest.mark.parametrize(
    ("free", "one", "two", "expected"),
    [
        # Besides weights, 2 GB constant and 1 GB per image; 0.85 * 20 GB - 2 GB holds 15, the power of 2 below is 8.
        (20 * 10**9, 3 * 10**9, 4 * 10**9, 8),
        (200 * 10**9, 3 * 10**9, 4 * 10**9, 64),
        (1 * 10**9, 3 * 10**9, 4 * 10**9, 1),
        # No measured increase for the second image must not divide by zero.
        (20 * 10**9, 10**6, 10**6, 64),
    ],
)
def test_max_batch_size_fits_free_memory(free, one, two, expected):
    assert max_batch_size(free, one, two) == expected


def test_batch_size_on_cpu_shrinks_with_pixels(folders):
    model = load(*settings(folders("sd1")))
    cases = [(64, 1, 64), (64, 4, 32), (128, 1, 16), (128, 4, 8), (512, 4, 1), (1024, 1, 1), (32, 4, 32)]
    for size, guidance, expected in cases:
        _, cpu_settings = settings("", height=size, width=size, guidance_scale=guidance)
        assert model.with_settings(cpu_settings).batch_size == expected


def test_scheduler_with_shared_noise_is_refused(folders):
    model = load(*settings(folders("flux")))
    model.pipe.scheduler.register_to_config(stochastic_sampling=True)
    with pytest.raises(ParameterError, match=r"FlowMatchEulerDiscreteScheduler.*seeded"):
        images(model, 1)


@pytest.mark.parametrize(
    ("family", "scheduler", "message"),
    [
        ("sd1", "EulerAncestral", "Did you mean 'EulerAncestralDiscreteScheduler'"),
        ("flux", "DDIMScheduler", "not support"),
    ],
)
def test_unknown_scheduler_names_nearest(folders, family, scheduler, message):
    with pytest.raises(ParameterError, match=f"scheduler is '{scheduler}'.*{message}"):
        load(*settings(folders(family), scheduler=scheduler))


def test_dtype_auto_is_chosen_by_hardware_and_error(folders, monkeypatch, cpuinfo):
    folder = folders("sd1")
    cpuinfo("avx512_bf16 amx_bf16")
    small = load(*settings(folder, dtype="auto"))
    assert small.settings.dtype == small.description()["dtype"] == "bfloat16"
    # Only the denoising network is bfloat16; the parts before and after it stay float32.
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
def test_bfloat16_changes_pixels_little(folders, family):
    model, small = (load(*settings(folders(family), dtype=d)) for d in ("float32", "bfloat16"))
    difference = np.abs(np.subtract(images(model, 2), images(small, 2), dtype=float))
    assert 0 < difference.mean() < 4


def test_size_defaults_to_model_and_must_fit(folders):
    default_size = load(*settings(folders("sd1"), height=0, width=0))
    # 16 latents a side, each of 2 x 2 pixels in the tiny autoencoder.
    assert (default_size.height, default_size.width) == (32, 32)
    wide_model = load(*settings(folders("flux"), height=32, width=64))
    assert images(wide_model, 1)[0].shape == (32, 64, 3)
    with pytest.raises(ParameterError, match=r"height is 36; .* in multiples of 8, for example 32"):
        default_size.with_settings(default_size.settings.with_changes(height=36))


def test_check_names_words_missing_from_tokenizer(folders):
    model = load(*settings(folders("sd1")))
    model.check(["a Photo of the face of a NURSE, a pilot"])
    with pytest.raises(ParameterError, match=r"'plumber', 'Zürich' .*'a photo of a plumber'"):
        model.check(["a photo of a nurse", "a photo of a plumber", "a plumber of Zürich"])
    with pytest.raises(ParameterError, match="'ugly'"):
        load(*settings(folders("sd1"), negative_prompt="ugly")).check(["a nurse"])


def test_n_tokens_truncated_counts_unread_tokens(folders):
    # The tokenizers of the tiny models read 12 tokens, of which [bos] and [eos] are two.
    texts = ["a nurse", "a nurse of " * 3 + "a", "a nurse of " * 3 + "a nurse of a pilot"]
    model = load(*settings(folders("sdxl")))
    assert model.n_tokens_truncated(texts).tolist() == [0, 0, 4] and model.n_tokens_truncated([]).tolist() == []
    # The T5 encoders of these read 256 and 512.
    for family in ("sd3", "flux"):
        assert load(*settings(folders(family))).n_tokens_truncated(texts).tolist() == [0, 0, 0]


@pytest.mark.long
def test_compiled_network_gives_same_images(folders, monkeypatch):
    import torch

    plain, compiled_classes, compile_module = load(*settings(folders("sd1"), steps=1)), [], torch.nn.Module.compile

    def compile_eager(module, **options):
        # The default backend needs a C++ compiler; this tests the tracing only.
        compiled_classes.append(type(module).__name__)
        return compile_module(module, backend="eager", **options)

    monkeypatch.setattr(torch.nn.Module, "compile", compile_eager)
    model = load(*settings(folders("sd1"), steps=1, compile=True))
    assert compiled_classes == ["UNet2DConditionModel"]
    assert all((a == b).all() for a, b in zip(images(model, 2), images(plain, 2), strict=True))
