"""Sums of attention compared with pipelines' own, and side effects of capturing that must not occur."""

from types import SimpleNamespace

import numpy as np
import pytest
from tiny_pipelines import settings

from biaslab.attribution.attention import Columns, Part, capture, check, columns
from biaslab.attribution.images import generate_with_attention
from biaslab.attribution.maps import word_maps, word_masks
from biaslab.errors import ParameterError, RunError
from biaslab.generation.generator import load

TEXTS = ["a photo of a nurse", "a photo of the face of a pilot", "the nurse"]
WORDS = [["nurse", "photo", "dog"], ["a", "face"], ["the"]]
# The columns of mini-sd's tokenizer, which has a token for each word after the start's.
PLACES = [{"nurse": [5], "photo": [2]}, {"a": [1, 7], "face": [5]}, {"the": [1]}]
KEYS = [("p", 0), ("q", 0), ("r", 1)]


def mini(**more):
    """Return mini-sd for images of 64 x 96 pixels: latents of 16 x 24, attention at 8 x 12 and 4 x 6."""
    return load(*settings("mini", **{"height": 64, "width": 96} | more))


def tiny(folder: str, **more):
    return load(*settings(folder, **{"width": 48} | more))


def expected_sums(recorded: dict, images: int, places=PLACES) -> dict:
    """Return sums by layer, image, head and word: a loop over all of them, and over steps."""
    sums = {}
    for name, steps in recorded.items():
        for probabilities in steps:
            for i, of_prompt in enumerate(probabilities[-images:]):
                for head, of_head in enumerate(of_prompt):
                    for j, tokens in enumerate(places[i].values()):
                        share = of_head[:, tokens].mean(1).numpy()
                        sums[name, i, head, j] = sums.get((name, i, head, j), 0) + share
    return sums


@pytest.mark.long
@pytest.mark.parametrize("guidance", [3.0, 1.0])
def test_attention_sums_and_maps_match_recorded(recorded_unet, watching, guidance):
    import torch

    generator = mini(guidance_scale=guidance)
    watch, result = watching(generator, TEXTS, WORDS)
    recorded = recorded_unet(generator.pipe.unet)
    generator.images(TEXTS, KEYS, 1, watch=watch)
    (attention,) = result
    # The middle block's attention is recorded, and there is a prompts' half where there is guidance only.
    rows = [len(p) for p in recorded["mid_block.attentions.0.transformer_blocks.0.attn2"]]
    assert rows == [6 if guidance > 1 else 3] * 2
    expected = expected_sums({k: v for k, v in recorded.items() if "mid_block" not in k}, 3)
    assert {name for name, *_ in expected} == {part.layer for part in attention.sums}
    assert attention.latent == (16, 24)
    # One layer down and two up at each of two resolutions, with 4 heads.
    shapes = sorted(tuple(total.shape) for total in attention.sums.values())
    assert shapes == [(3, 4, 2, 4, 6)] * 3 + [(3, 4, 2, 8, 12)] * 3
    assert set(attention.n.values()) == {2}
    for (name, i, head, j), values in expected.items():
        total = attention.sums[Part(name, -1)][i, head, j].flatten().numpy()
        np.testing.assert_allclose(total, values, rtol=2e-5, atol=2e-6)
    # A text with one word has nothing in the place of the second.
    assert not any(total[2, :, 1].any() for total in attention.sums.values())
    of_heads = [of_head for total in attention.sums.values() for of_head in total.unbind(1)]
    on_grid = [
        torch.nn.functional.interpolate(head_map, (16, 24), mode="bicubic").clamp(min=0) for head_map in of_heads
    ]
    # 6 layers, 4 heads and 2 steps.
    np.testing.assert_allclose(attention.maps().numpy(), sum(on_grid).numpy() / 48, rtol=1e-4, atol=1e-8)


def daam(recorded: dict, images: int, latent, size, places=PLACES) -> dict:
    """Return masks as DAAM makes them: each head's sum on the latents' grid, clamped, their mean, above 0.35."""
    import torch
    from torch.nn.functional import interpolate

    maps = {}
    for name, steps in recorded.items():
        if name.startswith("mid_block"):
            continue
        total = torch.stack([probabilities[-images:] for probabilities in steps]).sum(0)
        factor = (latent[0] * latent[1] / total.shape[2]) ** 0.5
        grid = [round(side / factor) for side in latent]
        for i, of_prompt in enumerate(total):
            for of_head in of_prompt:
                on_grid = interpolate(of_head.T.reshape(1, -1, *grid), latent, mode="bicubic").clamp(min=0)
                maps.setdefault(i, []).append(on_grid[0])
    result = {}
    for i, words in enumerate(places):
        whole = torch.stack(maps[i]).mean(0)
        for word, tokens in words.items():
            on_image = interpolate(whole[tokens].mean(0)[None, None], size, mode="bicubic")[0, 0]
            scaled = (on_image - on_image.min()) / (on_image.max() - on_image.min() + 1e-8)
            result[i, word] = (scaled > 0.35).numpy()
    return result


def agreement(made, expected: dict, size) -> float:
    """Return the share of pixels in which masks agree."""
    agrees = []
    for i, maps in enumerate(made):
        masks = word_masks(maps.maps, *size)
        agrees += [masks[j] == expected[i, word] for j, word in enumerate(maps.words)]
    assert len(agrees) == len(expected)
    return np.mean(agrees)


@pytest.mark.long
@pytest.mark.parametrize(("model", "size"), [("mini", (64, 96)), ("mini", (96, 64)), ("sdxl", (32, 48))])
def test_word_masks_match_daam(folders, recorded_unet, model, size):
    given = {"height": size[0], "width": size[1]}
    generator = mini(steps=4, **given) if model == "mini" else tiny(folders(model), **given)
    recorded = recorded_unet(generator.pipe.unet)
    _, made = generate_with_attention(generator, TEXTS, KEYS, 1, WORDS)
    # Pixels for a latent, each way.
    scale = generator.family.scale
    expected = daam(recorded, 3, [side // scale for side in size], size)
    assert 0.05 < np.mean(list(expected.values())) < 0.95
    assert agreement(made, expected, size) >= 0.995
    assert made[0].missing == {"dog": "not in the text"}


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd3", "flux"])
def test_joint_attention_sums_match_recorded(folders, recorded_joint, watching, family):
    generator = tiny(folders(family))
    watch, result = watching(generator, TEXTS, WORDS)
    with_t5 = 12 + 256 if family == "sd3" else 512
    generator.images(TEXTS, KEYS, 1, watch=watch)
    (attention,) = result
    # Images of 32 x 48 pixels are latents of 16 x 24, which are read in patches of 2 x 2.
    places = 8 * 12
    is_text = columns(generator.pipe, TEXTS, WORDS).is_text
    # Text of 7, 10 and 4 tokens, once or for both kinds of text encoders.
    assert is_text.sum(1).tolist() == ([14, 20, 8] if family == "sd3" else [7, 10, 4])
    expected, n = np.zeros((3, 2, places)), 0
    for joint in recorded_joint:
        if joint.shape[-1] == with_t5 + places:
            text, image = slice(with_t5), slice(with_t5, None)
            if family == "sd3":
                text, image = slice(places, None), slice(places)
            of_words = joint[-3:, :, image, text].double().numpy()
            of_words = of_words * is_text[:, None, None, :]
            of_words = of_words / of_words.sum(-1, keepdims=True)
            n += of_words.shape[1]
            for i, words in enumerate(PLACES):
                for j, tokens in enumerate(words.values()):
                    expected[i, j] += of_words[i][..., tokens].mean(-1).sum(0)
                    if family == "sd3":
                        expected[i, j] += of_words[i][..., [12 + t for t in tokens]].mean(-1).sum(0)
    assert {tuple(total.shape) for total in attention.sums.values()} == {(3, 2, 2, 8, 12)}
    assert attention.latent == (16, 24)
    # Two heads and two steps of one block of SD3 and two of Flux, of which one has text and image in one stream.
    assert n == 2 * sum(attention.n.values()) == (4 if family == "sd3" else 8)
    total = sum(attention.sums.values()).sum(1).flatten(2).numpy()
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-7)


def test_joint_attention_with_norms_and_dual_layers(folders, recorded_joint, watching):
    import torch
    from diffusers import SD3Transformer2DModel

    generator = tiny(folders("sd3"))
    config = {**generator.pipe.transformer.config, "num_layers": 2, "qk_norm": "rms_norm"}
    torch.manual_seed(3)
    # As Stable Diffusion 3.5 has it: the second attention of the first block is of the image alone.
    generator.pipe.transformer = SD3Transformer2DModel.from_config({**config, "dual_attention_layers": (0,)})
    watch, result = watching(generator, TEXTS, WORDS)
    generator.images(TEXTS, KEYS, 1, watch=watch)
    is_text = torch.from_numpy(columns(generator.pipe, TEXTS, WORDS).is_text)
    joint = [p for p in recorded_joint if p.shape[-1] == 12 + 256 + 96]
    separate = [p for p in recorded_joint if p.shape[2:] == (96, 96)]
    assert (len(joint), len(separate)) == (4, 2)
    for k in (0, 1):
        total = result[0].sums[Part(f"transformer_blocks.{k}.attn", -1)]
        of_words = [p[-3:, :, :96, 96:] * is_text[:, None, None, :] for p in joint[k::2]]
        of_words = sum(p / p.sum(-1, keepdims=True) for p in of_words)
        expected = of_words[0, ..., 5] + of_words[0, ..., 12 + 5]
        np.testing.assert_allclose(total[0, :, 0].flatten(1).numpy(), expected.numpy(), rtol=1e-4, atol=1e-7)


# -- what must not change --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "dtype"), [("sd1", "bfloat16"), *((name, "float32") for name in ("sd1", "sdxl", "sd3", "flux"))]
)
def test_images_with_attention_are_byte_identical(folders, family, dtype):
    generator = tiny(folders(family), dtype=dtype)
    plain = generator.images(TEXTS, KEYS, 1)
    hooks_before = hooks(generator)
    images, maps = generate_with_attention(generator, TEXTS, KEYS, 1, WORDS)
    assert [i.tobytes() for i in images] == [i.tobytes() for i in plain]
    assert hooks(generator) == hooks_before
    assert [len(m.maps) for m in maps] == [2, 2, 1]
    assert {m.maps.dtype.name for m in maps} == {"uint8"}


def hooks(generator) -> int:
    """Return how many hooks the denoising network has, at any depth."""
    denoiser = getattr(generator.pipe, "unet", None) or generator.pipe.transformer
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in denoiser.modules())


def test_maps_do_not_depend_on_batches(folders):
    generator = tiny(folders("sd1"), batch_size=3)
    small, pairs_generator = (generator.with_settings(generator.settings.with_changes(batch_size=n)) for n in (1, 2))
    batched = generate_with_attention(generator, TEXTS, KEYS, 1, WORDS)[1]
    separate = generate_with_attention(small, TEXTS, KEYS, 1, WORDS)[1]
    pairs = generate_with_attention(pairs_generator, TEXTS[::-1], KEYS[::-1], 1, WORDS[::-1])[1][::-1]
    for whole, *others in zip(batched, separate, pairs, strict=True):
        for other in others:
            assert (other.words, other.missing) == (whole.words, whole.missing)
            assert np.abs(whole.maps.astype(int) - other.maps).max() <= 1


def test_capture_removes_hooks_after_error(folders):
    generator = tiny(folders("sd1"))
    hooks_before = hooks(generator)
    word_columns = columns(generator.pipe, TEXTS[:1], WORDS[:1])
    with pytest.raises(KeyError, match="stop"), capture(generator.pipe, word_columns):
        assert hooks(generator) > hooks_before
        raise KeyError("stop")
    assert hooks(generator) == hooks_before


def test_capture_by_step_sums_to_total(folders, watching):
    generator, totals = tiny(folders("sd1"), steps=3), []
    for by_step in (False, True):
        watch, result = watching(generator, TEXTS, WORDS, by_step=by_step)
        generator.images(TEXTS, KEYS, 1, watch=watch)
        totals += result
    whole, by_step_sums = totals
    assert ({p.step for p in whole.sums}, {p.step for p in by_step_sums.sums}) == ({-1}, {0, 1, 2})
    for layer in {p.layer for p in whole.sums}:
        parts = [by_step_sums.sums[Part(layer, k)].numpy() for k in range(3)]
        np.testing.assert_allclose(sum(parts), whole.sums[Part(layer, -1)].numpy(), rtol=1e-5)
    of_steps = sum(by_step_sums.maps(k) for k in range(3)) / 3
    np.testing.assert_allclose(of_steps.numpy(), by_step_sums.maps().numpy(), rtol=1e-4, atol=1e-8)


# -- what is refused ---------------------------------------------------------------------------------------


def test_check_refuses_fused_and_compiled_networks(folders):
    generator = tiny(folders("sd1"))
    generator.pipe.unet.fuse_qkv_projections()
    with pytest.raises(ParameterError, match=r"attn2 are fused.*unfuse_qkv_projections\(\)"):
        generate_with_attention(generator, TEXTS, KEYS, 1, WORDS)
    generator.pipe.unet.unfuse_qkv_projections()
    for module in generator.pipe.unet.modules():
        if getattr(module, "fused_projections", False):
            module.fused_projections = False
    check(generator.pipe)
    # The state after compiling.
    generator.pipe.unet._compiled_call_impl = generator.pipe.unet.forward
    with pytest.raises(ParameterError, match=r"is compiled.*generation\.compile"):
        check(generator.pipe)
    pipe = tiny(folders("flux")).pipe
    pipe.transformer.fuse_qkv_projections()
    with pytest.raises(ParameterError, match=r"attn are fused"):
        check(pipe)


def test_check_refuses_other_pipelines(folders):
    generator = tiny(folders("sd1"))
    with pytest.raises(ParameterError, match=r"SimpleNamespace.*Use one of StableDiffusionPipeline"):
        check(SimpleNamespace(unet=generator.pipe.unet))
    for module in [m for m in generator.pipe.unet.modules() if hasattr(m, "attn2")]:
        module.attn2 = None
    with pytest.raises(ParameterError, match="has no cross-attention"):
        check(generator.pipe)


def test_processor_without_projections_is_refused(folders):
    generator = tiny(folders("sd1"))

    class Around:
        def __call__(self, attn, hidden_states, *given, **options):
            return hidden_states

    generator.pipe.unet.set_attn_processor(Around())
    with pytest.raises(RunError, match="computed by Around, which does not call its projections"):
        generate_with_attention(generator, TEXTS, KEYS, 1, WORDS)


def test_capture_refuses_wrong_number_of_texts(folders):
    generator = tiny(folders("sd1"))
    word_columns, message = columns(generator.pipe, TEXTS, WORDS), "3 images with texts of 12 columns.*received 2 x 12"
    with pytest.raises(RunError, match=message), capture(generator.pipe, word_columns):
        generator.images(TEXTS[:1], KEYS[:1], 1)


# -- maps and masks ----------------------------------------------------------------------------------------


def test_word_maps_are_limited_in_levels_and_size():
    import torch

    ramp = torch.arange(128.0).repeat(96, 1)
    attention = torch.stack([ramp / 1000, torch.full((96, 128), 0.3)])[None]
    word_columns_given = Columns([("ramp", "flat")], [{"dog": "cut"}], np.zeros(0), np.zeros(0))
    (made,) = word_maps(attention, word_columns_given)
    assert (made.words, made.missing, made.maps.shape) == (("ramp", "flat"), {"dog": "cut"}, (2, 48, 64))
    # Pairs of columns have the means 0.5, 2.5, … 126.5: k-th of 0 to 63 is k / 63 of the range.
    np.testing.assert_array_equal(made.maps[0, 0], np.round(np.arange(64) / 63 * 255))
    assert not made.maps[1].any()
    # A map that is the same everywhere marks nothing.
    masks = word_masks(made.maps, 96, 128)
    assert (masks.shape, masks[1].any(), masks.dtype) == ((2, 96, 128), False, bool)
    # A ramp is above 0.35 in the last 65% of its columns.
    assert abs(masks[0].mean() - 0.65) <= 0.01
    assert (masks[0] == (np.arange(128) >= 128 - masks[0, 0].sum())).all()


def test_images_without_words_have_no_maps(folders):
    assert word_masks(np.zeros((0, 8, 8), np.uint8), 32, 16).shape == (0, 32, 16)
    _, made = generate_with_attention(tiny(folders("sd1")), TEXTS, KEYS, 1, [[], ["dog"], []])
    assert [m.maps.shape for m in made] == [(0, 16, 24)] * 3
    assert [m.missing for m in made] == [{}, {"dog": "not in the text"}, {}]
