"""Training of mini-captioner: its data, a tiny run of the real code, and its metrics."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra 'models'")

from tiny_blip import own_text  # noqa: E402

from biaslab.errors import ParameterError  # noqa: E402
from biaslab.hub import registry  # noqa: E402
from biaslab.judges import blip  # noqa: E402
from biaslab_world import captions, looks  # noqa: E402
from training import captioner, cards, common, loop  # noqa: E402
from training.loop import HELD_OUT_SEED  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


SMALL = {"steps": 4, "batch": 8, "seed": 5, "pool_size": 32, "held_out": 8, "progress": False}


@pytest.fixture(scope="module")
def trained_captioner(tmp_path_factory):
    """The folder of a model after four steps, and its quality; its card is measured on 16 captions."""
    folder = tmp_path_factory.mktemp("captioner")
    return folder, captioner.train(folder, **SMALL)


@pytest.fixture(scope="module")
def data():
    return captioner.pool(40, 3)


def test_pool_matches_corpus_captions(data):
    corpus = captions.Corpus(rows=40, seed=3)
    rows = [corpus.row(i) for i in range(40)]
    assert data.texts == [row.text for row in rows]
    assert data.images.shape == (40, 64, 64, 3) and data.images.dtype == np.uint8
    scenes = [captions.build_scene(row) for row in rows]
    np.testing.assert_array_equal(data.images[:3], loop.renders(scenes[:3], squash=False))
    # The look is that of the person at work, if there is one.
    for look, scene in zip(data.looks, scenes, strict=True):
        at_work = {looks.OUTFITS[p.occupation] for p in scene.people if p.occupation is not None}
        assert at_work == (set() if look is None else {look})
    assert 0 < sum(look is None for look in data.looks) < 40
    # Its seed decides it.
    repeated, other_seed = captioner.pool(6, 3), captioner.pool(6, 4)
    np.testing.assert_array_equal(repeated.images, data.images[:6])
    assert (repeated.texts, repeated.looks) == (data.texts[:6], data.looks[:6]) and other_seed.texts != repeated.texts


@pytest.mark.long
def test_trained_captioner_describes_images(trained_captioner, data):
    from transformers import AutoProcessor, BlipForConditionalGeneration

    folder, quality = trained_captioner
    assert set(quality) == {"held_out_words"}
    sentences = blip.load(str(folder), "captioner", device="cpu").ask(list(data.images[:4]), range(4), [""] * 4)
    # By transformers' own generation, one image at a time.
    model = BlipForConditionalGeneration.from_pretrained(folder).eval()
    processor = AutoProcessor.from_pretrained(folder)
    assert model.dtype == torch.float32
    # Transformers ignores the limit of 24 words and marks.
    assert sentences == [own_text(model, processor, image, None, 23) for image in data.images[:4]]
    # Preprocessing equals that of training.
    pixels = processor.image_processor(list(data.images), return_tensors="pt")["pixel_values"]
    assert torch.allclose(pixels, common.to_tensor(data.images), atol=1e-5)
    with pytest.raises(ParameterError, match="no BLIP or BLIP-2 for questions"):
        blip.load(str(folder))


def test_held_out_words_equal_transformers_loss(trained_captioner):
    """The mean cross-entropy of each next word, as the saved model gives it to one caption at a time."""
    from transformers import AutoProcessor, BlipForConditionalGeneration

    folder, quality = trained_captioner
    model = BlipForConditionalGeneration.from_pretrained(folder).eval()
    processor = AutoProcessor.from_pretrained(folder)
    held_out, errors, n = captioner.pool(8, HELD_OUT_SEED + 5), 0.0, 0
    for image, text in zip(held_out.images, held_out.texts, strict=True):
        inputs = processor(images=image, text=text, return_tensors="pt", truncation=True)
        with torch.no_grad():
            scores = model(pixel_values=inputs["pixel_values"], input_ids=inputs["input_ids"]).logits.log_softmax(-1)
        (ids,) = inputs["input_ids"].tolist()
        errors -= sum(float(scores[0, k, word]) for k, word in enumerate(ids[1:]))
        n += len(ids) - 1
    # Weights are saved in half precision.
    assert quality["held_out_words"] == pytest.approx(errors / n, rel=1e-2)
    # Of a few steps: little better than any word of the vocabulary alike.
    assert 0.5 * math.log(len(processor.tokenizer)) < quality["held_out_words"]


def test_model_card_states_training_and_metrics(trained_captioner):
    folder, _ = trained_captioner
    (note,) = json.loads((folder / "training.json").read_text())
    assert (note["steps"], note["batch"], note["seed"], note["pool_size"]) == (4, 8, 5, 32)
    assert registry.image_domain(folder) == "drawings"
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "`steps` 4, `batch` 8, `seed` 5" in text
    measured = {row.metric: row for row in captioner.card_rows(folder, 16)}
    lines = (folder / "metrics.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == list(measured)
    for line in lines:
        metric, value, *_, n = line.split(",")
        assert value == f"{measured[metric].value:.5f}" and int(n) == measured[metric].n
        assert cards.METRICS[metric] in text


def test_card_rows_match_hand_values(monkeypatch, tmp_path):
    pilot, nurse = looks.OUTFITS["pilot"], looks.OUTFITS["nurse"]
    boss = looks.OUTFITS["ceo"]
    assert boss is looks.OUTFITS["chief executive officer"]
    texts = ["a pilot by a plane", "a nurse", "a CEO at a desk", "a nurse smiles", "a tree"]
    data = captioner.Pool(np.zeros((5, 64, 64, 3), np.uint8), texts, [pilot, nurse, boss, nurse, None])
    # Right; wrong; right by another name; nothing named, "nurses" is another word; no person to name.
    sentences = ["a Pilot by a plane", "a pilot", "a chief executive officer", "two nurses smile", "a pilot"]
    calls = []
    monkeypatch.setattr(captioner, "pool", lambda *indices, **options: calls.append((indices, options)) or data)
    captioner_model = SimpleNamespace(ask=lambda images, indices, questions: [sentences[k] for k in indices])
    monkeypatch.setattr(blip, "load", lambda *_, **__: captioner_model)
    rows = {row.metric: row for row in captioner.card_rows(tmp_path, 5)}
    assert (rows["caption_names_any"].count, rows["caption_names_any"].n) == (3, 4)
    assert (rows["caption_names_right"].count, rows["caption_names_right"].n) == (2, 3)
    # The captions themselves are the references: one of five is said word by word.
    assert all(rows[name].points and rows[name].n == 5 for name in ("BLEU-4", "CIDEr", "ROUGE-L"))
    # Common words: 5 of 5; "a"; "a"; none; "a". F of precision 1/2 and recall 1/2; 1/4 and 1/5; 1/2 and 1/2.
    rouge = [1, 0.5, 2.44 * 0.25 * 0.2 / (0.2 + 1.44 * 0.25), 0, 0.5]
    assert rows["ROUGE-L"].value == pytest.approx(100 * np.mean(rouge))
    # On captions held out from training, all of them decoded if requested.
    assert calls == [((5, HELD_OUT_SEED + 1), {"decoded": None, "part": 1.0})]
