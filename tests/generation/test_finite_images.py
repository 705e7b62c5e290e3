"""Numbers of a model that are not finite: decoded once more in float32, else an error, and no image is kept."""

import copy

import numpy as np
import pandas as pd
import pytest

from biaslab.generation import families
from biaslab.generation.generator import load
from biaslab.generation.images import GeneratedImages
from biaslab.generation.settings import GenerationSettings
from biaslab.ground.errors import RunError
from biaslab.keep.store import Store

torch = pytest.importorskip("torch", reason="models need the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ("sd1", "sdxl", "sd3", "flux")
PROMPT = "a photo of a nurse"


@pytest.fixture(params=["own", "whole"])
def path(request, monkeypatch):
    """Let a pipeline go biaslab's own path, or as one of no known family by its own call."""
    if request.param == "whole":
        monkeypatch.setattr(families, "table", dict)
    return request.param


def loaded(folder, dtype="float32"):
    settings = GenerationSettings(steps=2, guidance_scale=3.0, height=32, width=32, dtype=dtype)
    return load(folder, settings, device="cpu")


def images(model, n=2):
    return model.images([PROMPT] * n, [("p", i) for i in range(n)], seed=1)


def spoil(part, value=float("nan")):
    """Let one weight be no number."""
    with torch.no_grad():
        part[(0,) * part.dim()] = value


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_decoder_that_is_broken_in_float32_is_an_error(folders, family, value, path):
    model = loaded(folders(family))
    # Beyond white, and below black, are infinite numbers, too.
    spoil(model.pipe.vae.decoder.conv_out.bias, value)
    with pytest.raises(RunError, match=rf"{family} gives numbers that are not finite in float32\. No type"):
        images(model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_that_is_broken_is_an_error(folders, family, path):
    model = loaded(folders(family))
    network = model.pipe.unet if family in ("sd1", "sdxl") else model.pipe.transformer
    spoil(next(network.parameters()))
    with pytest.raises(RunError, match=r"not finite in float32\. No type holds more"):
        images(model)


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
    images(model)
    spoil(model.pipe.safety_checker.visual_projection.weight)
    with pytest.raises(RunError, match="not finite"):
        images(model)


def test_no_image_is_kept(folders, tmp_path):
    folder, settings = folders("sd1"), GenerationSettings(steps=2, height=32, width=32, dtype="float32")
    prompts = pd.DataFrame({"prompt_id": ["p"], "text": [PROMPT], "n_images": [3]})

    def broken(*given, **where):
        model = load(*given, **where)
        spoil(model.pipe.vae.decoder.conv_out.bias)
        return model

    made = GeneratedImages(prompts, folder, settings, seed=1, store=Store(tmp_path), device="cpu", load=broken)
    with pytest.raises(RunError, match="not finite"):
        made.complete(progress=False)
    assert made.n_there() == 0
    again = GeneratedImages(prompts, folder, settings, seed=1, store=Store(tmp_path), device="cpu")
    assert [image.any() for image in again.complete(progress=False).read(["p/0", "p/1", "p/2"])] == [True] * 3


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


@pytest.mark.parametrize("family", ["sd1", "sd3", "flux"])
def test_images_that_overflow_in_float16_are_those_of_float32(folders, family):
    model = loaded(folders(family))
    overflow(model.pipe.vae)
    expected = images(model)
    latents = []
    decode = model.pipe.vae.decode
    model.pipe.vae.half()

    def seen(given, **how):
        found = decode(given, **how)
        latents.append((given.dtype, bool(found[0].isfinite().all())))
        return found

    model.pipe.vae.decode = seen
    made = images(model)
    # Decoded in float16, which overflows, then in float32; the decoder is in float16 as before.
    assert latents == [(torch.float16, False), (torch.float32, True)]
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


def test_where_float32_overflows_too_the_error_says_what_to_set(folders, path):
    model = loaded(folders("sd1"), "float16" if path == "whole" else "bfloat16")
    spoil(model.pipe.vae.decoder.conv_out.bias)
    with pytest.raises(RunError, match=r"sd1 .* generation\.dtype to bfloat16 or float32"):
        images(model)
