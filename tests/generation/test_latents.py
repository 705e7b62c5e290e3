"""Images that share noise, their latents, and texts as a network receives them: against the pipelines' own."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cosine as cosine_distance
from tiny_pipelines import settings

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError
from biaslab.generation import families, generator, spaces, texts
from biaslab.generation.generator import image_seed
from biaslab.generation.images import GeneratedImages, noise_keys, units_of

FAMILIES = ("sd1", "sdxl", "sd3", "flux")
MEMBERS = ("person", "woman", "man")
GIVEN = settings("", steps=3)[1]
PROMPTS = [f"a photo of a {m}" for m in MEMBERS]


def triplets(n: int, n_images: int = 1) -> pd.DataFrame:
    rows = [(f"t{k}-{m}", f"a photo of a {m}", f"t{k}", n_images) for k in range(n) for m in MEMBERS]
    return pd.DataFrame(rows, columns=["prompt_id", "text", "noise_id", "n_images"])


ASKED = triplets(2)


def made(folder, store, prompts=ASKED, **changes):
    return GeneratedImages(prompts, folder, GIVEN.with_changes(**changes), seed=4, cache=store).complete(progress=False)


def cosine(a, b):
    return 1 - cosine_distance(np.asarray(a, float).ravel(), np.asarray(b, float).ravel())


def trajectory(folder, texts_, keys):
    """Return latents after each step, by a hook behind the scheduler."""
    model, seen = generator.load(folder, GIVEN), []
    step = model.pipe.scheduler.step

    def kept(*given, **more):
        found = step(*given, **more)
        seen.append(model.family.unpack_latents(found[0], 32, 32).numpy().copy())
        return found

    model.pipe.scheduler.step = kept
    return seen, model.images(texts_, keys, seed=4)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_latents_are_those_of_the_scheduler(folders, tmp_path, family):
    source = made(folders(family), ResultCache(tmp_path))
    ids = source.table["image_id"].tolist()
    units = units_of(ASKED)
    seen, images = trajectory(folders(family), units["text"].tolist(), noise_keys(units))
    assert len(seen) == 3
    for i, (image_id, found) in enumerate(zip(ids, source.latents(ids), strict=True)):
        first = i - i % 3
        assert found.reference_image == ids[first] and found.final.dtype == np.float16
        np.testing.assert_allclose(found.final, seen[-1][i], rtol=2e-3, atol=2e-3)
        expected = [cosine(step[i], step[first]) for step in seen]
        np.testing.assert_allclose(found.by_step, expected, rtol=0, atol=1e-6)
        # Following changes no image.
        np.testing.assert_array_equal(source.read([image_id])[0], images[i])
    # The words do something, so the cosines could have come out otherwise.
    assert source.latents(ids[1:2])[0].by_step[-1] < 1 - 1e-6


@pytest.mark.long
def test_a_batch_too_small_for_a_triplet_changes_nothing(folders, tmp_path):
    whole, *others = (made(folders("sd1"), ResultCache(tmp_path / str(n)), batch_size=n) for n in (64, 1, 2, 4))
    ids = whole.table["image_id"].tolist()
    for parted in others:
        for one, other in zip(whole.latents(ids), parted.latents(ids), strict=True):
            np.testing.assert_allclose(one.by_step, other.by_step, rtol=0, atol=1e-5)
            assert one.reference_image == other.reference_image


def test_latents_are_kept_and_found_again(folders, tmp_path, monkeypatch):
    store, folder = ResultCache(tmp_path), folders("sd1")
    ids = made(folder, store).table["image_id"].tolist()
    monkeypatch.setattr("biaslab.generation.loading.load_pipeline", None)
    again = made(folder, store)
    pairs = pd.DataFrame({"first": [ids[0], ids[0], ids[0]], "second": [ids[1], ids[3], ids[1]]})
    found = spaces.compare_latents(again, pairs, cache=store, progress=False)
    last = found[found["metric"] == "z0"].set_index("second")["value"]
    latents = dict(zip(ids, again.latents(ids), strict=True))
    for second in ids[1], ids[3]:
        assert last[second] == pytest.approx(cosine(latents[ids[0]].final, latents[second].final))
    # Steps are told of images from the same noise alone.
    steps = found[found["metric"] != "z0"]
    assert steps["metric"].tolist() == ["z_1", "z_2", "z_3"] and set(steps["second"]) == {ids[1]}
    assert steps["value"].tolist() == latents[ids[1]].by_step.tolist()
    assert steps["value"].iloc[-1] == pytest.approx(last[ids[1]], abs=1e-3)


def test_prompts_of_their_own_noise_keep_no_latents(folders, tmp_path):
    source = made(folders("sd1"), ResultCache(tmp_path), ASKED[:1].drop(columns="noise_id"))
    with pytest.raises(InputError, match="noise_id"):
        source.latents([source.table["image_id"].iloc[0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_are_received_as_the_pipeline_encodes_them(folders, family):
    model = generator.load(folders(family), GIVEN)
    found = model.embeddings([*PROMPTS, PROMPTS[0]])
    pooled = family != "sd1"
    for text, received in zip([*PROMPTS, PROMPTS[0]], found, strict=True):
        more = {} if family == "flux" else {"do_classifier_free_guidance": False}
        more |= {"prompt_2": text} if pooled else {}
        more |= {"prompt_3": text} if family == "sd3" else {}
        encoded = model.pipe.encode_prompt(text, device="cpu", num_images_per_prompt=1, **more)
        np.testing.assert_allclose(received.tokens, encoded[0][0].detach().numpy(), atol=1e-4)
        assert (received.pooled is not None) == pooled
        if pooled:
            own = encoded[1 if family == "flux" else 2][0]
            np.testing.assert_allclose(received.pooled, own.detach().numpy(), atol=1e-4)


@pytest.mark.long
def test_a_pipeline_of_no_known_family_is_followed_and_says_why_texts_are_not_compared(folders, tmp_path, monkeypatch):
    own = made(folders("sd1"), ResultCache(tmp_path / "known"))
    monkeypatch.setattr(families, "table", dict)
    source = made(folders("sd1"), ResultCache(tmp_path / "unknown"))
    ids = source.table["image_id"].tolist()
    for one in source.latents(ids):
        assert one.final.shape == own.latents(ids[:1])[0].final.shape and len(one.by_step) == 3
    pairs = pd.DataFrame({"first": PROMPTS[:1], "second": PROMPTS[1:2]})
    found = spaces.compare_prompts(pairs, folders("sd1"), GIVEN, cache=ResultCache(tmp_path), progress=False)
    assert found["value"].isna().all() and found["metric"].tolist() == list(spaces.OF_PROMPTS)
    assert found["reason"].str.contains("StableDiffusionPipeline").all()


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_prompts_are_compared_by_tokens_words_and_pooled_text(folders, tmp_path, monkeypatch, family):
    folder = folders(family)
    pairs = pd.DataFrame({"first": [PROMPTS[0]] * 3, "second": [PROMPTS[1], PROMPTS[0], PROMPTS[1]]})
    given = {"cache": ResultCache(tmp_path), "progress": False}
    found = spaces.compare_prompts(pairs, folder, GIVEN, **given).set_index(["metric", "second"])
    one, other = generator.load(folder, GIVEN).embeddings(PROMPTS[:2])
    assert found.loc[("t", PROMPTS[1]), "value"] == pytest.approx(cosine(one.tokens, other.tokens))
    # Of twelve columns the first begins the text, five are words, then come the end and padding.
    means = [received.tokens[1:6].mean(axis=0) for received in (one, other)]
    assert found.loc[("t_words", PROMPTS[1]), "value"] == pytest.approx(cosine(*means))
    assert found.loc["t"].loc[PROMPTS[0], "value"] == pytest.approx(1)
    pooled = found.loc[("t_pooled", PROMPTS[1])]
    if family == "sd1":
        assert np.isnan(pooled["value"]) and pooled["reason"] == spaces.NO_POOLED
    else:
        assert pooled["value"] == pytest.approx(cosine(one.pooled, other.pooled)) and pooled["reason"] == ""
    # What was compared is found again.
    monkeypatch.setattr("biaslab.generation.loading.load_pipeline", None)
    again = spaces.compare_prompts(pairs, folder, GIVEN, **given).set_index(["metric", "second"])
    pd.testing.assert_frame_equal(found, again)


@pytest.mark.parametrize("family", ["qwen", "zimage"])
def test_texts_of_several_lengths_are_compared_whatever_the_batch(folders, tmp_path, family):
    pairs = pd.DataFrame({"first": [PROMPTS[0]], "second": ["a photo of the face of a nurse , a woman"]})
    found = spaces.compare_prompts(
        pairs, folders(family), GIVEN.with_changes(batch_size=1), cache=ResultCache(tmp_path), progress=False
    ).set_index("metric")
    one, other = generator.load(folders(family), GIVEN).embeddings([*pairs.iloc[0]])
    # The shorter one ends in zeros, which change no cosine.
    assert one.tokens.shape == other.tokens.shape and not one.tokens[-1].any() and other.tokens[-1].any()
    assert found.loc["t", "value"] == pytest.approx(cosine(one.tokens, other.tokens))
    assert found.loc["t_words", "reason"] == spaces.NO_WORDS


def test_words_of_a_part_without_its_encoder_are_none(folders):
    model = generator.load(folders("sd3"), GIVEN)
    said = texts.are_words(model.pipe, PROMPTS[:1])
    # Two encoders share twelve columns; a T5 encoder reads 256 more.
    assert said.shape == (1, 12 + 256) and said.sum() == 5 + 5
    model.pipe.text_encoder_3 = None
    assert texts.are_words(model.pipe, PROMPTS[:1])[0, 12:].sum() == 0
    assert texts.are_words(object(), PROMPTS) is None


# -- what shares noise, bit by bit, in one batch and one shard ----------------------------------------


@pytest.fixture
def batches(monkeypatch):
    """Return the first latents of each batch, ``float32 (images, channels, height, width)``, as they come."""
    seen, drawn = [], generator.families.Family.noise

    def kept(self, *given):
        noise = drawn(self, *given)
        seen.append(noise.numpy().copy())
        return noise

    monkeypatch.setattr(generator.families.Family, "noise", kept)
    return seen


@pytest.mark.parametrize("family", ["sd1", "flux"])
def test_first_latents_of_a_triplet_are_equal_bit_by_bit(folders, tmp_path, batches, family):
    found = made(folders(family), ResultCache(tmp_path), triplets(3, n_images=2))
    # The images of one index of a triplet stand side by side.
    ids = [f"t{k}-{m}/{i}" for k in range(3) for i in range(2) for m in MEMBERS]
    assert found.table["image_id"].tolist() == ids
    (noise,) = batches
    assert noise.shape[0] == len(ids)
    groups = noise.reshape(6, 3, -1)
    assert (groups == groups[:, :1]).all()
    # Other triplets and indices have other noise.
    assert len(np.unique(groups[:, 0], axis=0)) == 6
    seeds = [image_seed(4, f"t{k}", i) for k in range(3) for i in range(2) for _ in MEMBERS]
    assert found.table["seed"].tolist() == seeds
    # The same noise with other words is another image.
    one, other, _ = found.read([f"t0-{m}/0" for m in MEMBERS])
    assert (one != other).any()


@pytest.mark.long
def test_a_triplet_stays_in_one_batch_and_one_shard(folders, tmp_path, batches):
    found = made(folders("sd1"), ResultCache(tmp_path), triplets(23), batch_size=8, steps=1)
    # 69 images: shards of 63 and 6, batches of two triplets of the eight images that fit.
    assert [len(noise) for noise in batches] == [*[6] * 10, 3, 6]
    for noise in batches:
        parts = noise.reshape(len(noise) // 3, 3, -1)
        assert (parts == parts[:, :1]).all()
    assert sorted(len(pd.read_parquet(p)) for p in (tmp_path / "generated").rglob("*.parquet")) == [6, 63]
    # Images are found where they are kept, in the second shard, too.
    alone = generator.load(folders("sd1"), GIVEN.with_changes(steps=1)).images(
        ["a photo of a man"], [("t22", 0)], seed=4
    )[0]
    assert np.abs(found.read(["t22-man/0"])[0].astype(int) - alone).max() <= 2


def test_a_triplet_stays_together_when_memory_is_short(folders):
    import torch

    model, tried = generator.load(*settings(folders("sd1"), batch_size=8, steps=1)), []

    def small_memory(module, args, kwargs):
        # Guidance doubles the rows: with more than five images, memory is full.
        tried.append(len(args[0]) // 2)
        if tried[-1] > 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.pipe.unet.register_forward_pre_hook(small_memory, with_kwargs=True)
    units = units_of(triplets(4))
    assert len(model.images(units["text"].tolist(), noise_keys(units), seed=1)) == 12
    # Two triplets of eight fail; half of six are three, and a batch of three is one triplet.
    assert tried == [6, 3, 3, 3, 3]


def test_other_noise_is_another_result(folders, tmp_path):
    shared, own = triplets(2), triplets(2).drop(columns="noise_id")
    named = triplets(2).assign(noise_id=lambda t: t["prompt_id"])
    how = {"seed": 4, "cache": ResultCache(tmp_path)}
    assert len({GeneratedImages(asked, folders("sd1"), GIVEN, **how).digest for asked in (shared, own, named)}) == 3
    # A noise of its own by name is that of the prompt.
    assert noise_keys(units_of(named)) == noise_keys(units_of(own))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_id": ["t0", "t0", "t1"]}, "between 1 and 2 consecutive images with the same noise"),
        ({"n_images": [2, 2, 1]}, "between 2 and 3 consecutive images with the same noise"),
        # More than a shard.
        ({"noise_id": "t"}, "between 66 and 66 consecutive images with the same noise"),
    ],
)
def test_noise_that_does_not_fit_is_refused(folders, tmp_path, changes, message):
    asked = triplets(22 if changes == {"noise_id": "t"} else 1)
    with pytest.raises(InputError, match=message):
        made(folders("sd1"), ResultCache(tmp_path), asked.assign(**changes))
