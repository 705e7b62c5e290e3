"""Non-finite numbers of a model: decoded again in float32, else an error, and no image is cached."""

import copy

import numpy as np
import pandas as pd
import pytest
from tiny_pipelines import settings

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import RunError
from biaslab.generation import families
from biaslab.generation.generator import load
from biaslab.generation.images import GeneratedImages

torch = pytest.importorskip("torch", reason="models need the extra 'models'")

PROMPT = "a photo of a nurse"


@pytest.fixture(params=["own", "whole"])
def path(request, monkeypatch):
    """Use biaslab's own path, or that of a pipeline of an unknown family."""
    if request.param == "whole":
        monkeypatch.setattr(families, "table", dict)
    return request.param


def load_model(folder, dtype="float32"):
    return load(*settings(folder, dtype=dtype), device="cpu")


def images(model, n=2):
    return model.images([PROMPT] * n, [("p", i) for i in range(n)], seed=1)


def spoil(part, value=float("nan")):
    """Set one weight to NaN, or to ``value``."""
    with torch.no_grad():
        part[(0,) * part.dim()] = value


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sdxl", "sd3", "flux"])
def test_decoder_or_network_with_nan_weights_raises(folders, family, path):
    model = load_model(folders(family))
    bias = model.pipe.vae.decoder.conv_out.bias
    intact = bias.detach().clone()
    # Beyond white, and below black, are infinite numbers, too.
    for value in ("nan", "inf", "-inf"):
        spoil(bias, float(value))
        with pytest.raises(RunError, match=rf"{family} returns numbers that are not finite in float32\. No type"):
            images(model, 1)
    with torch.no_grad():
        bias.copy_(intact)
    images(model, 1)
    spoil(next((getattr(model.pipe, "unet", None) or model.pipe.transformer).parameters()))
    with pytest.raises(RunError, match=r"not finite in float32"):
        images(model, 1)


def test_embeddings_with_nan_weights_raise(folders):
    model = load_model(folders("sd1"))
    assert len(model.embeddings([PROMPT])) == 1
    encoder = model.pipe.text_encoder
    spoil(next(value for name, value in encoder.named_parameters() if "final_layer_norm" in name))
    # Of another text: each is encoded once.
    with pytest.raises(RunError, match="not finite"):
        model.embeddings(["a photo of a man"])


def test_safety_checker_with_nan_weights_raises(folders, path):
    model = load_model(folders("checked"))
    spoil(model.pipe.safety_checker.visual_projection.weight)
    with pytest.raises(RunError, match="not finite"):
        images(model)


def test_images_with_nan_weights_are_not_cached(folders, tmp_path):
    given = (pd.DataFrame({"prompt_id": ["p"], "text": [PROMPT], "n_images": [3]}), *settings(folders("sd1")))
    cache_options = {"seed": 1, "cache": ResultCache(tmp_path), "device": "cpu"}

    def load_broken(*given, **options):
        model = load(*given, **options)
        spoil(model.pipe.vae.decoder.conv_out.bias)
        return model

    generated = GeneratedImages(*given, **cache_options, load=load_broken)
    with pytest.raises(RunError, match="not finite"):
        generated.complete(progress=False)
    assert generated.n_cached() == 0
    repeated = GeneratedImages(*given, **cache_options).complete(progress=False)
    assert [image.any() for image in repeated.read(["p/0", "p/1", "p/2"])] == [True] * 3


# -- overflow of float16 ----------------------------------------------------------------------------------------


def overflow(vae):
    """Let a decoder's first layer overflow float16; the norms after it remove the factor."""
    with torch.no_grad():
        for weights in vae.parameters():
            # What float16 holds exactly, so that both types have the same weights.
            weights.copy_(weights.half())
        vae.decoder.conv_in.weight.copy_((vae.decoder.conv_in.weight * 2**15).clamp(-60000, 60000).half())


def test_unknown_pipeline_overflow_is_decoded_in_float32(folders, monkeypatch):
    monkeypatch.setattr(families, "table", dict)
    model = load_model(folders("sd1"), "float16")
    overflow(model.pipe.vae)
    intact, decode, given = copy.deepcopy(model.pipe.vae).float(), type(model.pipe.vae).decode, []

    def record_decode(self, latents, *args, **kwargs):
        given.append(latents)
        return decode(self, latents, *args, **kwargs)

    monkeypatch.setattr(type(model.pipe.vae), "decode", record_decode)
    generated = images(model)
    assert [latents.dtype for latents in given] == [torch.float16, torch.float32]
    with torch.no_grad():
        expected = decode(intact, given[0].float())[0]
    levels = ((expected / 2 + 0.5).clamp(0, 1) * 255).round().permute(0, 2, 3, 1).numpy().astype(np.uint8)
    assert np.array_equal(np.stack(generated), levels) and np.ptp(levels) > 50
    assert model.pipe.vae.dtype == torch.float16 and "decode" not in vars(model.pipe.vae)


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sd3", "flux"])
def test_float16_overflow_gives_float32_images(folders, family):
    model = load_model(folders(family))
    overflow(model.pipe.vae)
    expected = images(model)
    model.pipe.vae.half()
    generated = images(model)
    assert model.pipe.vae.dtype == torch.float16
    assert all(np.array_equal(a, b) for a, b in zip(generated, expected, strict=True))
    assert np.ptp(generated[0]) > 50 and not np.array_equal(*generated)


def test_only_overflowing_images_are_decoded_again(folders):
    vae = load_model(folders("sd1")).pipe.vae.half()
    latents = torch.randn(3, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        separate = families.decode(vae, latents)
        # Beyond the range of float16, as is its decoded image.
        with_overflow = families.decode(vae, torch.cat([latents, torch.full((1, 4, 16, 16), 1e5)]))
    assert with_overflow.isfinite().all() and torch.equal(with_overflow[:3], separate.float())
    assert vae.dtype == torch.float16


@pytest.mark.long
def test_float32_overflow_names_dtype_setting(folders, path):
    model = load_model(folders("sd1"), "float16" if path == "whole" else "bfloat16")
    spoil(model.pipe.vae.decoder.conv_out.bias)
    with pytest.raises(RunError, match=r"sd1 .* generation\.dtype to bfloat16 or float32"):
        images(model)
