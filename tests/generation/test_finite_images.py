"""Numbers of a model that are not finite: decoded once more in float32, else an error, and no image is kept."""

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
    """Let a pipeline go biaslab's own path, or as one of no known family by its own call."""
    if request.param == "whole":
        monkeypatch.setattr(families, "table", dict)
    return request.param


def loaded(folder, dtype="float32"):
    return load(*settings(folder, dtype=dtype), device="cpu")


def images(model, n=2):
    return model.images([PROMPT] * n, [("p", i) for i in range(n)], seed=1)


def spoil(part, value=float("nan")):
    """Let one weight be no number."""
    with torch.no_grad():
        part[(0,) * part.dim()] = value


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sdxl", "sd3", "flux"])
def test_a_decoder_or_a_network_that_is_broken_in_float32_is_an_error(folders, family, path):
    model = loaded(folders(family))
    bias = model.pipe.vae.decoder.conv_out.bias
    whole = bias.detach().clone()
    # Beyond white, and below black, are infinite numbers, too.
    for value in ("nan", "inf", "-inf"):
        spoil(bias, float(value))
        with pytest.raises(RunError, match=rf"{family} returns numbers that are not finite in float32\. No type"):
            images(model, 1)
    with torch.no_grad():
        bias.copy_(whole)
    images(model, 1)
    spoil(next((getattr(model.pipe, "unet", None) or model.pipe.transformer).parameters()))
    with pytest.raises(RunError, match=r"not finite in float32"):
        images(model, 1)


def test_what_text_is_read_as_is_checked_without_an_image(folders):
    model = loaded(folders("sd1"))
    assert len(model.embeddings([PROMPT])) == 1
    encoder = model.pipe.text_encoder
    spoil(next(value for name, value in encoder.named_parameters() if "final_layer_norm" in name))
    # Of another text: each is encoded once.
    with pytest.raises(RunError, match="not finite"):
        model.embeddings(["a photo of a man"])


def test_a_safety_checker_that_sees_nothing_is_an_error(folders, path):
    model = loaded(folders("checked"))
    spoil(model.pipe.safety_checker.visual_projection.weight)
    with pytest.raises(RunError, match="not finite"):
        images(model)


def test_no_image_is_kept(folders, tmp_path):
    given = (pd.DataFrame({"prompt_id": ["p"], "text": [PROMPT], "n_images": [3]}), *settings(folders("sd1")))
    kept = {"seed": 1, "cache": ResultCache(tmp_path), "device": "cpu"}

    def broken(*given, **where):
        model = load(*given, **where)
        spoil(model.pipe.vae.decoder.conv_out.bias)
        return model

    made = GeneratedImages(*given, **kept, load=broken)
    with pytest.raises(RunError, match="not finite"):
        made.complete(progress=False)
    assert made.n_cached() == 0
    again = GeneratedImages(*given, **kept).complete(progress=False)
    assert [image.any() for image in again.read(["p/0", "p/1", "p/2"])] == [True] * 3


# -- an overflow that float32 holds ----------------------------------------------------------------------------


def overflow(vae):
    """Let a decoder's first layer give more than float16 holds; the norms after it take the factor off again."""
    with torch.no_grad():
        for weights in vae.parameters():
            # What float16 holds exactly, so that both types have the same weights.
            weights.copy_(weights.half())
        vae.decoder.conv_in.weight.copy_((vae.decoder.conv_in.weight * 2**15).clamp(-60000, 60000).half())


def test_a_pipeline_that_decodes_by_itself_gets_the_images_of_float32(folders, monkeypatch):
    monkeypatch.setattr(families, "table", dict)
    model = loaded(folders("sd1"), "float16")
    overflow(model.pipe.vae)
    whole, decode, given = copy.deepcopy(model.pipe.vae).float(), type(model.pipe.vae).decode, []

    def seen(self, latents, *args, **how):
        given.append(latents)
        return decode(self, latents, *args, **how)

    monkeypatch.setattr(type(model.pipe.vae), "decode", seen)
    made = images(model)
    assert [latents.dtype for latents in given] == [torch.float16, torch.float32]
    with torch.no_grad():
        expected = decode(whole, given[0].float())[0]
    levels = ((expected / 2 + 0.5).clamp(0, 1) * 255).round().permute(0, 2, 3, 1).numpy().astype(np.uint8)
    assert np.array_equal(np.stack(made), levels) and np.ptp(levels) > 50
    assert model.pipe.vae.dtype == torch.float16 and "decode" not in vars(model.pipe.vae)


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sd3", "flux"])
def test_images_that_overflow_in_float16_are_those_of_float32(folders, family):
    model = loaded(folders(family))
    overflow(model.pipe.vae)
    expected = images(model)
    model.pipe.vae.half()
    made = images(model)
    assert model.pipe.vae.dtype == torch.float16
    assert all(np.array_equal(a, b) for a, b in zip(made, expected, strict=True))
    assert np.ptp(made[0]) > 50 and not np.array_equal(*made)


def test_only_images_that_overflow_are_decoded_again(folders):
    vae = loaded(folders("sd1")).pipe.vae.half()
    latents = torch.randn(3, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        alone = families.decode(vae, latents)
        # Beyond what float16 holds, as is what a decoder makes of it.
        there = families.decode(vae, torch.cat([latents, torch.full((1, 4, 16, 16), 1e5)]))
    assert there.isfinite().all() and torch.equal(there[:3], alone.float())
    assert vae.dtype == torch.float16


@pytest.mark.long
def test_where_float32_overflows_too_the_error_says_what_to_set(folders, path):
    model = loaded(folders("sd1"), "float16" if path == "whole" else "bfloat16")
    spoil(model.pipe.vae.decoder.conv_out.bias)
    with pytest.raises(RunError, match=r"sd1 .* generation\.dtype to bfloat16 or float32"):
        images(model)
