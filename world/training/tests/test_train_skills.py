"""Training of mini-sd-skills: the data of its autoencoder, and a tiny run of the real code."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="training needs the extra 'models'")


from biaslab.papers.dalleval import prompts  # noqa: E402
from biaslab_world import render, skills, social  # noqa: E402
from biaslab_world.brought import WEIGHTS  # noqa: E402
from training import autoencoder, diffusion  # noqa: E402
from training import skills as train_skills  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread", "no_card")]


# Of 58,350 scenes to train on.
FEW = {"share": 40 / 58_350, "people": 30, "steps": 2, "batch": 2, "progress": False}


@pytest.fixture(scope="module")
def drawing_model(quick, tmp_path_factory):
    """The folder of a pipeline after two steps, the folder of its data, and its quality."""
    # Few renders for the autoencoder, and one step of it.
    train, small = autoencoder.train, {"pool_size": 16, "compiled": False, "steps": 1}
    quick.setattr(autoencoder, "train", lambda folder, **options: train(folder, **options | small))
    quick.setattr(autoencoder, "HELD_OUT", 12)
    # All the texts to train on are gone through once.
    quick.setattr(diffusion, "tokenizer_of", functools.cache(diffusion.tokenizer_of))
    quick.setattr(prompts, "skills", functools.cache(prompts.skills))
    folder, work = tmp_path_factory.mktemp("skills"), tmp_path_factory.mktemp("work")
    quality = train_skills.train(folder, checkpoint=work / "state.pt", log=work / "curve.csv", **FEW)
    return folder, work, quality


def test_pool_marks_objects_and_faces(monkeypatch):
    scenes = []
    for module, name in ((skills, "skill_scene"), (social, "social_scene")):
        original = getattr(module, name)

        def record(*arguments, original=original, name=name):
            scenes.append((name, original(*arguments)))
            return scenes[-1][1]

        monkeypatch.setattr(module, name, record)
    images, places = train_skills.pool(120, 4)
    assert images.shape == (120, 64, 64, 3) and images.dtype == np.uint8
    assert places.shape == (120, 64, 64) and places.dtype == bool
    kinds = [name for name, _ in scenes]
    assert stats.binomtest(kinds.count("skill_scene"), 120, train_skills.SCENES).pvalue > 1e-4
    for (name, scene), image, place in zip(scenes, images, places, strict=True):
        np.testing.assert_array_equal(image, render.render(scene, 64))
        empty_render = render.render(replace(scene, things=(), people=()), 64)
        changed = (np.abs(image.astype(int) - empty_render) > 12).any(axis=2)
        if name == "skill_scene":
            # Marked pixels change the image, except for outlines and background-like colors.
            assert (place & changed).sum() >= 0.85 * changed.sum()
            assert place.any() == bool(scene.things or scene.people)
        else:
            # Of a person only the face, and its middle.
            (person,) = scene.people
            assert place[int(64 * person.y), int(64 * person.x)]
            assert place.sum() < 0.75 * changed.sum()


def test_train_continues_from_mini_sd_with_own_autoencoder(drawing_model):
    folder, work, quality = drawing_model
    assert set(quality) == {"psnr", "psnr_faces", "held_out_skills", "held_out_social"}
    assert 0 < quality["held_out_skills"] < 3 and 0 < quality["held_out_social"] < 3
    name = "vae/diffusion_pytorch_model.safetensors"
    assert (folder / name).read_bytes() != (WEIGHTS / "mini-sd" / name).read_bytes()
    # After one small step it still is mini-sd's: far better than nothing, about 10 dB.
    assert quality["psnr"] > 15
    assert np.load(work / "skills" / "latents.npy").shape == (40, autoencoder.LATENTS, 16, 16)
    assert np.load(work / "social" / "latents.npy").shape == (30, autoencoder.LATENTS, 16, 16)
    notes = json.loads((folder / "training.json").read_text())
    assert notes[:-1] == json.loads((WEIGHTS / "mini-sd" / "training.json").read_text())
    assert (notes[-1]["steps"], notes[-1]["batch"]) == (2, 2)
    assert (folder / "unet" / "diffusion_pytorch_model.safetensors").stat().st_size < 7_000_000
    assert (work / "curve.csv").exists() and (work / "curve-autoencoder.csv").exists()


def test_trained_tokenizer_knows_every_prompt_word(drawing_model):
    import diffusers

    pipe = diffusers.AutoPipelineForText2Image.from_pretrained(drawing_model[0], use_safetensors=True)
    texts = [*prompts.skills()["text"].drop_duplicates(), *prompts.social()["text"]]
    tokens = pipe.tokenizer(texts)["input_ids"]
    assert not any(pipe.tokenizer.unk_token_id in ids for ids in tokens)
    assert max(map(len, tokens)) <= pipe.tokenizer.model_max_length
