"""All images of a table of prompts: cached, resumed, and the same after interruptions."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from tiny_pipelines import settings

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.generation import generator
from biaslab.generation.generator import image_seed
from biaslab.generation.images import GeneratedImages
from biaslab.hub.image_sources import UnreadableImage

BLANK = np.zeros((8, 8, 3), np.uint8)


def generate(*given, seed: int = 4, **run) -> GeneratedImages:
    return GeneratedImages(*given, seed=seed, **run).complete(progress=False)


@pytest.fixture
def batches(monkeypatch):
    """Return the prompts of each generated batch, in order."""
    recorded, denoise = [], generator.Generator._latents

    def count_batches(self, prompts, *given):
        recorded.append(prompts)
        return denoise(self, prompts, *given)

    monkeypatch.setattr(generator.Generator, "_latents", count_batches)
    return recorded


def prompts(**n_images: int) -> pd.DataFrame:
    texts = {"nurse": "a photo of the face of a nurse", "pilot": "a photo of a pilot"}
    return pd.DataFrame(
        {"prompt_id": list(n_images), "text": [texts[k] for k in n_images], "n_images": list(n_images.values())}
    )


def make_loader(allowed: bool):
    """Return a model loader that may be forbidden; its code, part of an image's key, is the same in both cases."""

    def load(*given, **options):
        assert allowed, "the model is loaded although every image is there"
        return generator.load(*given, **options)

    return load


load_allowed, load_forbidden = make_loader(True), make_loader(False)


def test_generated_images_have_table_and_pixels(folders, tmp_path):
    given = settings(folders("sd1"))
    generated = generate(prompts(nurse=3, pilot=2), *given, cache=ResultCache(tmp_path))
    parts = [("nurse", 0), ("nurse", 1), ("nurse", 2), ("pilot", 0), ("pilot", 1)]
    rows = [(f"{name}/{k}", name, k, image_seed(4, name, k), "ok", 0) for name, k in parts]
    names = ["image_id", "prompt_id", "index", "seed", "status", "n_tokens_truncated"]
    texts = dict.fromkeys(("image_id", "prompt_id", "status"), object)
    pd.testing.assert_frame_equal(generated.table, pd.DataFrame(rows, columns=names).astype(texts))
    keys = [("pilot", 1), ("nurse", 0)]
    direct = generator.load(*given).images(["a photo of a pilot", "a photo of the face of a nurse"], keys, seed=4)
    for pixels, image in zip(generated.read(["pilot/1", "nurse/0"]), direct, strict=True):
        assert pixels.shape == (32, 32, 3) and pixels.dtype == np.uint8
        assert np.abs(pixels.astype(int) - image).max() <= 2
    with pytest.raises(InputError, match=r"has no image 'pilot/2'; its table lists"):
        generated.read(["pilot/2"])


def test_generated_images_are_cached_without_model(folders, tmp_path):
    given, store = settings(folders("sd1")), ResultCache(tmp_path)
    first = generate(prompts(nurse=2, pilot=1), *given, cache=store, load=load_allowed)
    # Device and speed do not change the cache key.
    faster = settings(folders("sd1"), batch_size=1, compile=True)
    reloaded = generate(prompts(nurse=2, pilot=1), *faster, cache=store, device="cpu", load=load_forbidden)
    pd.testing.assert_frame_equal(reloaded.table, first.table)
    assert reloaded.digest == first.digest
    assert all((a == b).all() for a, b in zip(reloaded.read(["nurse/1"]), first.read(["nurse/1"]), strict=True))
    changes = {
        "seed": 5,
        "settings": given[1].with_changes(steps=3),
        "model": folders("sd2"),
        "prompts": prompts(nurse=3),
    }
    for other in ({name: value} for name, value in changes.items()):
        with pytest.raises(AssertionError, match="the model is loaded"):
            asked = {"prompts": prompts(nurse=2, pilot=1), "model": given[0], "settings": given[1]}
            generate(**asked | other, cache=store, load=load_forbidden)


def test_generated_images_make_only_new_images(folders, tmp_path, batches):
    given, run_options = settings(folders("sd1")), {"cache": ResultCache(tmp_path)}
    first = generate(prompts(nurse=2, pilot=1), *given, **run_options, load=load_allowed)
    batches.clear()
    more = generate(prompts(nurse=3, pilot=2), *given, **run_options, load=load_allowed)
    assert [text.split()[-1] for batch in batches for text in batch] == ["nurse", "pilot"]
    assert list(more.table["image_id"]) == ["nurse/0", "nurse/1", "nurse/2", "pilot/0", "pilot/1"]
    kept = list(first.table["image_id"])
    assert all((a == b).all() for a, b in zip(more.read(kept), first.read(kept), strict=True))
    # Fewer, or in another order, are all cached; another text is another image.
    generate(prompts(pilot=2, nurse=1), *given, **run_options, load=load_forbidden)
    with pytest.raises(AssertionError, match="the model is loaded"):
        other = prompts(nurse=1).assign(text="a photo of a pilot")
        generate(other, *given, **run_options, load=load_forbidden)


@pytest.mark.long
def test_safety_checker_blocked_image_has_status(folders, tmp_path):
    def strict(*given, **options):
        model = generator.load(*given, **options)
        # A threshold below every cosine makes the checker find its concepts in all images.
        model.pipe.safety_checker.concept_embeds_weights.data.fill_(-2)
        return model

    generated = generate(
        prompts(nurse=2), *settings(folders("checked")), cache=ResultCache(tmp_path / "strict"), load=strict
    )
    assert generated.table["status"].tolist() == ["blocked", "blocked"]
    assert generated.read(["nurse/1"]) == [UnreadableImage("blocked")]
    ids, kept = ["nurse/0", "nurse/1"], {"cache": ResultCache(tmp_path)}
    free = generate(prompts(nurse=2), *settings(folders("checked")), **kept).read(ids)
    unchecked = generate(prompts(nurse=2), *settings(folders("checked"), safety_checker="off"), **kept).read(ids)
    np.testing.assert_array_equal(unchecked, free)


@pytest.mark.long
def test_dtype_and_batch_size_persist_when_resumed(folders, tmp_path):
    given, kept, asked = settings(folders("sd1"), dtype="auto"), {"cache": ResultCache(tmp_path)}, []

    def recording_load(folder, said, **options):
        asked.append((said.dtype, said.batch_size))
        return generator.load(folder, said, **options)

    generate(prompts(nurse=1), *given, **kept, load=recording_load)
    (note,) = tmp_path.rglob("made.json")
    said = json.loads(note.read_text())
    assert said["pipeline"] == "StableDiffusionPipeline" and said["scheduler"] == "DDIMScheduler"
    assert (said["dtype"] in ("float32", "bfloat16"), said["batch_size"], said["height"]) == (True, 32, 32)
    note.write_text(json.dumps(said | {"dtype": "float32", "batch_size": 16}))
    generate(prompts(nurse=2), *given, **kept, load=recording_load)
    assert asked == [("auto", 0), ("float32", 16)]
    # An unreadable note is determined again.
    note.write_text('{"dtype":')
    generate(prompts(nurse=3), *given, **kept, load=recording_load)
    assert asked[-1] == ("auto", 0)


def test_unknown_words_are_refused_before_first_image(folders, tmp_path):
    asked = prompts(nurse=70, pilot=1).assign(text=["a nurse", "a photo of a plumber"])
    with pytest.raises(ParameterError, match="'plumber'"):
        generate(asked, *settings(folders("sd1")), cache=ResultCache(tmp_path))
    assert not list(tmp_path.rglob("*.parquet"))


def test_truncated_prompts_are_counted_and_warned(folders, tmp_path, caplog):
    asked = prompts(nurse=2, pilot=1).assign(text=["a photo of a nurse , " * 3, "a pilot"])
    with caplog.at_level(logging.WARNING, logger="biaslab"):
        generated = generate(asked, *settings(folders("sd1")), cache=ResultCache(tmp_path))
    # 18 words with [bos] and [eos] are 20 tokens, of which 12 are read.
    assert generated.table["n_tokens_truncated"].tolist() == [8, 8, 0]
    assert "1 of 2 prompts are too long for the text encoder of sd1" in caplog.text


def test_no_images_give_empty_table(folders, tmp_path):
    generated = generate(prompts(nurse=0), *settings(folders("sd1")), cache=ResultCache(tmp_path), load=load_forbidden)
    assert generated.table.columns.tolist() == [
        "image_id",
        "prompt_id",
        "index",
        "seed",
        "status",
        "n_tokens_truncated",
    ]
    assert generated.table.empty and generated.read([]) == []


def test_identical_images_from_different_noise_are_refused(folders, tmp_path, monkeypatch):
    original = generator.Generator.images

    def repeat_image(self, texts, *given, **more):
        return original(self, texts, *given, **more)[:1] * len(texts)

    given = settings(folders("sd1"))
    monkeypatch.setattr(generator.Generator, "images", repeat_image)
    with pytest.raises(RunError, match=r"generates the same image from different noise: .*'a photo of a pilot'"):
        generate(prompts(pilot=2), *given, cache=ResultCache(tmp_path))
    # Images of two prompts are not compared with each other, and a single image with none.
    assert len(generate(prompts(nurse=1, pilot=1), *given, cache=ResultCache(tmp_path)).table) == 2
    # Black images are not compared.
    monkeypatch.setattr(generator.Generator, "images", lambda self, texts, *_, **__: [BLANK] * len(texts))
    assert len(generate(prompts(nurse=2), *given, cache=ResultCache(tmp_path)).table) == 2
