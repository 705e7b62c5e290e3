"""Images with shared noise, their latents, and text embeddings, compared with the pipelines' own."""

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
SETTINGS = settings("", steps=3)[1]
PROMPTS = [f"a photo of a {m}" for m in MEMBERS]


def triplets(n: int, n_images: int = 1) -> pd.DataFrame:
    rows = [(f"t{k}-{m}", f"a photo of a {m}", f"t{k}", n_images) for k in range(n) for m in MEMBERS]
    return pd.DataFrame(rows, columns=["prompt_id", "text", "noise_id", "n_images"])


TWO_TRIPLETS = triplets(2)


def generate(folder, store, prompts=TWO_TRIPLETS, **changes):
    return GeneratedImages(prompts, folder, SETTINGS.with_changes(**changes), seed=4, cache=store).complete(
        progress=False
    )


def cosine(a, b):
    return 1 - cosine_distance(np.asarray(a, float).ravel(), np.asarray(b, float).ravel())


def trajectory(folder, texts_, keys):
    """Return latents after each step, by wrapping the scheduler."""
    model, recorded = generator.load(folder, SETTINGS), []
    step = model.pipe.scheduler.step

    def record(*given, **extra):
        result = step(*given, **extra)
        recorded.append(model.family.unpack_latents(result[0], 32, 32).numpy().copy())
        return result

    model.pipe.scheduler.step = record
    return recorded, model.images(texts_, keys, seed=4)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_latents_match_scheduler_steps(folders, tmp_path, family):
    source = generate(folders(family), ResultCache(tmp_path))
    ids = source.table["image_id"].tolist()
    units = units_of(TWO_TRIPLETS)
    recorded, images = trajectory(folders(family), units["text"].tolist(), noise_keys(units))
    assert len(recorded) == 3
    for i, (image_id, result) in enumerate(zip(ids, source.latents(ids), strict=True)):
        first = i - i % 3
        assert result.reference_image == ids[first] and result.final.dtype == np.float16
        np.testing.assert_allclose(result.final, recorded[-1][i], rtol=2e-3, atol=2e-3)
        expected = [cosine(step[i], step[first]) for step in recorded]
        np.testing.assert_allclose(result.by_step, expected, rtol=0, atol=1e-6)
        # Recording latents changes no image.
        np.testing.assert_array_equal(source.read([image_id])[0], images[i])
    # The words have an effect, so that the cosines are informative.
    assert source.latents(ids[1:2])[0].by_step[-1] < 1 - 1e-6


@pytest.mark.long
def test_triplet_latents_do_not_depend_on_batch_size(folders, tmp_path):
    one_batch, *other_runs = (
        generate(folders("sd1"), ResultCache(tmp_path / str(n)), batch_size=n) for n in (64, 1, 2, 4)
    )
    ids = one_batch.table["image_id"].tolist()
    for smaller_batches in other_runs:
        for one, other in zip(one_batch.latents(ids), smaller_batches.latents(ids), strict=True):
            np.testing.assert_allclose(one.by_step, other.by_step, rtol=0, atol=1e-5)
            assert one.reference_image == other.reference_image


def test_latents_are_cached_and_compared(folders, tmp_path, monkeypatch):
    store, folder = ResultCache(tmp_path), folders("sd1")
    ids = generate(folder, store).table["image_id"].tolist()
    monkeypatch.setattr("biaslab.generation.loading.load_pipeline", None)
    reloaded = generate(folder, store)
    pairs = pd.DataFrame({"first": [ids[0], ids[0], ids[0]], "second": [ids[1], ids[3], ids[1]]})
    result = spaces.compare_latents(reloaded, pairs, cache=store, progress=False)
    final_cosines = result[result["metric"] == "z0"].set_index("second")["value"]
    latents = dict(zip(ids, reloaded.latents(ids), strict=True))
    for second in ids[1], ids[3]:
        assert final_cosines[second] == pytest.approx(cosine(latents[ids[0]].final, latents[second].final))
    # Values by step exist only for images from the same noise.
    steps = result[result["metric"] != "z0"]
    assert steps["metric"].tolist() == ["z_1", "z_2", "z_3"] and set(steps["second"]) == {ids[1]}
    assert steps["value"].tolist() == latents[ids[1]].by_step.tolist()
    assert steps["value"].iloc[-1] == pytest.approx(final_cosines[ids[1]], abs=1e-3)


def test_prompts_without_shared_noise_have_no_latents(folders, tmp_path):
    source = generate(folders("sd1"), ResultCache(tmp_path), TWO_TRIPLETS[:1].drop(columns="noise_id"))
    with pytest.raises(InputError, match="noise_id"):
        source.latents([source.table["image_id"].iloc[0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_match_pipeline_encoding(folders, family):
    model = generator.load(folders(family), SETTINGS)
    result = model.embeddings([*PROMPTS, PROMPTS[0]])
    pooled = family != "sd1"
    for text, embedding in zip([*PROMPTS, PROMPTS[0]], result, strict=True):
        extra = {} if family == "flux" else {"do_classifier_free_guidance": False}
        extra |= {"prompt_2": text} if pooled else {}
        extra |= {"prompt_3": text} if family == "sd3" else {}
        encoded = model.pipe.encode_prompt(text, device="cpu", num_images_per_prompt=1, **extra)
        np.testing.assert_allclose(embedding.tokens, encoded[0][0].detach().numpy(), atol=1e-4)
        assert (embedding.pooled is not None) == pooled
        if pooled:
            own = encoded[1 if family == "flux" else 2][0]
            np.testing.assert_allclose(embedding.pooled, own.detach().numpy(), atol=1e-4)


@pytest.mark.long
def test_unknown_family_has_latents_but_no_text_comparison(folders, tmp_path, monkeypatch):
    own = generate(folders("sd1"), ResultCache(tmp_path / "known"))
    monkeypatch.setattr(families, "table", dict)
    source = generate(folders("sd1"), ResultCache(tmp_path / "unknown"))
    ids = source.table["image_id"].tolist()
    for one in source.latents(ids):
        assert one.final.shape == own.latents(ids[:1])[0].final.shape and len(one.by_step) == 3
    pairs = pd.DataFrame({"first": PROMPTS[:1], "second": PROMPTS[1:2]})
    result = spaces.compare_prompts(pairs, folders("sd1"), SETTINGS, cache=ResultCache(tmp_path), progress=False)
    assert result["value"].isna().all() and result["metric"].tolist() == list(spaces.OF_PROMPTS)
    assert result["reason"].str.contains("StableDiffusionPipeline").all()


@pytest.mark.long
@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_compare_prompts_by_tokens_words_and_pooled_text(folders, tmp_path, monkeypatch, family):
    folder = folders(family)
    pairs = pd.DataFrame({"first": [PROMPTS[0]] * 3, "second": [PROMPTS[1], PROMPTS[0], PROMPTS[1]]})
    given = {"cache": ResultCache(tmp_path), "progress": False}
    result = spaces.compare_prompts(pairs, folder, SETTINGS, **given).set_index(["metric", "second"])
    one, other = generator.load(folder, SETTINGS).embeddings(PROMPTS[:2])
    assert result.loc[("t", PROMPTS[1]), "value"] == pytest.approx(cosine(one.tokens, other.tokens))
    # Of twelve columns the first begins the text, five are words, then come the end and padding.
    means = [embedding.tokens[1:6].mean(axis=0) for embedding in (one, other)]
    assert result.loc[("t_words", PROMPTS[1]), "value"] == pytest.approx(cosine(*means))
    assert result.loc["t"].loc[PROMPTS[0], "value"] == pytest.approx(1)
    pooled = result.loc[("t_pooled", PROMPTS[1])]
    if family == "sd1":
        assert np.isnan(pooled["value"]) and pooled["reason"] == spaces.NO_POOLED
    else:
        assert pooled["value"] == pytest.approx(cosine(one.pooled, other.pooled)) and pooled["reason"] == ""
    # Comparisons are cached.
    monkeypatch.setattr("biaslab.generation.loading.load_pipeline", None)
    reloaded = spaces.compare_prompts(pairs, folder, SETTINGS, **given).set_index(["metric", "second"])
    pd.testing.assert_frame_equal(result, reloaded)


@pytest.mark.parametrize("family", ["qwen", "zimage"])
def test_compare_prompts_pads_texts_of_different_length(folders, tmp_path, family):
    pairs = pd.DataFrame({"first": [PROMPTS[0]], "second": ["a photo of the face of a nurse , a woman"]})
    result = spaces.compare_prompts(
        pairs, folders(family), SETTINGS.with_changes(batch_size=1), cache=ResultCache(tmp_path), progress=False
    ).set_index("metric")
    one, other = generator.load(folders(family), SETTINGS).embeddings([*pairs.iloc[0]])
    # The shorter one ends in zeros, which change no cosine.
    assert one.tokens.shape == other.tokens.shape and not one.tokens[-1].any() and other.tokens[-1].any()
    assert result.loc["t", "value"] == pytest.approx(cosine(one.tokens, other.tokens))
    assert result.loc["t_words", "reason"] == spaces.NO_WORDS


def test_are_words_skips_missing_encoder(folders):
    model = generator.load(folders("sd3"), SETTINGS)
    word_mask = texts.are_words(model.pipe, PROMPTS[:1])
    # Two encoders share twelve columns; a T5 encoder reads 256 more.
    assert word_mask.shape == (1, 12 + 256) and word_mask.sum() == 5 + 5
    model.pipe.text_encoder_3 = None
    assert texts.are_words(model.pipe, PROMPTS[:1])[0, 12:].sum() == 0
    assert texts.are_words(object(), PROMPTS) is None


# -- shared noise: bitwise, in one batch and one shard ------------------------------------------------


@pytest.fixture
def batches(monkeypatch):
    """Return the first latents of each batch, ``float32 (images, channels, height, width)``, in order."""
    recorded, original = [], generator.families.Family.noise

    def record(self, *given):
        noise = original(self, *given)
        recorded.append(noise.numpy().copy())
        return noise

    monkeypatch.setattr(generator.families.Family, "noise", record)
    return recorded


@pytest.mark.parametrize("family", ["sd1", "flux"])
def test_triplet_shares_first_latents_exactly(folders, tmp_path, batches, family):
    result = generate(folders(family), ResultCache(tmp_path), triplets(3, n_images=2))
    # The images of one index of a triplet are adjacent.
    ids = [f"t{k}-{m}/{i}" for k in range(3) for i in range(2) for m in MEMBERS]
    assert result.table["image_id"].tolist() == ids
    (noise,) = batches
    assert noise.shape[0] == len(ids)
    groups = noise.reshape(6, 3, -1)
    assert (groups == groups[:, :1]).all()
    # Other triplets and indices have other noise.
    assert len(np.unique(groups[:, 0], axis=0)) == 6
    seeds = [image_seed(4, f"t{k}", i) for k in range(3) for i in range(2) for _ in MEMBERS]
    assert result.table["seed"].tolist() == seeds
    # The same noise with other words is another image.
    one, other, _ = result.read([f"t0-{m}/0" for m in MEMBERS])
    assert (one != other).any()


@pytest.mark.long
def test_triplet_stays_in_one_batch_and_shard(folders, tmp_path, batches):
    result = generate(folders("sd1"), ResultCache(tmp_path), triplets(23), batch_size=8, steps=1)
    # 69 images: shards of 63 and 6, batches of two triplets of the eight images that fit.
    assert [len(noise) for noise in batches] == [*[6] * 10, 3, 6]
    for noise in batches:
        parts = noise.reshape(len(noise) // 3, 3, -1)
        assert (parts == parts[:, :1]).all()
    assert sorted(len(pd.read_parquet(p)) for p in (tmp_path / "generated").rglob("*.parquet")) == [6, 63]
    # Images are read from the second shard, too.
    single = generator.load(folders("sd1"), SETTINGS.with_changes(steps=1)).images(
        ["a photo of a man"], [("t22", 0)], seed=4
    )[0]
    assert np.abs(result.read(["t22-man/0"])[0].astype(int) - single).max() <= 2


def test_triplet_stays_together_after_out_of_memory(folders):
    import torch

    model, batch_sizes = generator.load(*settings(folders("sd1"), batch_size=8, steps=1)), []

    def small_memory(module, args, kwargs):
        # Guidance doubles the rows: with more than five images, memory is full.
        batch_sizes.append(len(args[0]) // 2)
        if batch_sizes[-1] > 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.pipe.unet.register_forward_pre_hook(small_memory, with_kwargs=True)
    units = units_of(triplets(4))
    assert len(model.images(units["text"].tolist(), noise_keys(units), seed=1)) == 12
    # Two triplets of eight fail; half of six are three, and a batch of three is one triplet.
    assert batch_sizes == [6, 3, 3, 3, 3]


def test_digest_depends_on_noise_ids(folders, tmp_path):
    shared_noise, own = triplets(2), triplets(2).drop(columns="noise_id")
    named_noise = triplets(2).assign(noise_id=lambda t: t["prompt_id"])
    run_options = {"seed": 4, "cache": ResultCache(tmp_path)}
    assert (
        len(
            {
                GeneratedImages(requested, folders("sd1"), SETTINGS, **run_options).digest
                for requested in (shared_noise, own, named_noise)
            }
        )
        == 3
    )
    # A noise of its own by name is that of the prompt.
    assert noise_keys(units_of(named_noise)) == noise_keys(units_of(own))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_id": ["t0", "t0", "t1"]}, "between 1 and 2 consecutive images with the same noise"),
        ({"n_images": [2, 2, 1]}, "between 2 and 3 consecutive images with the same noise"),
        # More than a shard.
        ({"noise_id": "t"}, "between 66 and 66 consecutive images with the same noise"),
    ],
)
def test_inconsistent_noise_ids_are_refused(folders, tmp_path, changes, message):
    requested = triplets(22 if changes == {"noise_id": "t"} else 1)
    with pytest.raises(InputError, match=message):
        generate(folders("sd1"), ResultCache(tmp_path), requested.assign(**changes))
