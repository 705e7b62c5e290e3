"""Sentences about images: transformers' own, in any batch, stored and read again; other models are refused."""

import pandas as pd
import pytest
import tiny_blip
from array_images import ArrayImages

from biaslab.ground.errors import ParameterError
from biaslab.judging import blip as blips
from biaslab.judging.vqa import ask_about, describe
from biaslab.keep.store import Store
from biaslab.models.images import Unreadable

KINDS = [("caption_blip", "BlipForConditionalGeneration"), ("opt", "Blip2ForConditionalGeneration")]
KINDS.append(("t5", "Blip2ForConditionalGeneration"))


def own_captions(folder, kind, photos, texts):
    """Describe one image at a time through transformers' own processor and generation."""
    import transformers

    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    return [tiny_blip.own_text(model, processor, photo, text, 40) for photo, text in zip(photos, texts, strict=True)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("which", "kind"), KINDS)
def test_captions_are_transformers_own_in_any_batch(which, kind, photos, request):
    made = request.getfixturevalue(which)
    # BLIP is given no text at all, BLIP-2 an empty one, from which its language model goes on.
    expected = own_captions(made, kind, photos, [None if which == "caption_blip" else ""] * 5)
    assert len(set(expected)) >= 3, "the random model must tell images apart"
    # Of the whole length that captions may have, which is more than an answer's.
    assert max(len(text.split()) for text in expected) > 20
    model = blips.load(str(made), "captioner", device="cpu")
    assert model.ask(photos, range(5), [""] * 5) == expected
    assert [model.ask([photo], [0], [""])[0] for photo in photos] == expected
    # Of any images in any order.
    assert model.ask(photos, [3, 0, 3], [""] * 3) == [expected[3], expected[0], expected[3]]


@pytest.mark.usefixtures("one_thread")
def test_a_text_begins_what_blip_2_says_and_is_nothing_to_blip(caption_blip, opt, photos):
    texts = ["the nurse", "a man on the left", "the nurse", "", "what is"]
    found = blips.load(str(opt), "captioner", device="cpu").ask(photos, range(5), texts)
    expected = own_captions(opt, "Blip2ForConditionalGeneration", photos, texts)
    assert found == expected
    model = blips.load(str(caption_blip), "captioner", device="cpu")
    assert model.ask(photos, range(5), texts) == model.ask(photos, range(5), [""] * 5)


@pytest.fixture
def images(photos):
    for photo in photos:
        photo.flags.writeable = False  # as decoded files are
    shown = [photos[0], Unreadable("truncated"), photos[1], Unreadable("blocked"), *photos[2:]]
    return ArrayImages(shown, list("abcdefg"))


@pytest.mark.usefixtures("one_thread")
def test_images_are_described_and_those_that_cannot_be_are_counted(caption_blip, images, photos, tmp_path, monkeypatch):
    loads, own_load = [], blips.load

    def load(*of, **how):
        loads.append(of)
        return own_load(*of, **how)

    monkeypatch.setattr(blips, "load", load)
    asked = {"store": Store(tmp_path), "device": "cpu", "progress": False}
    found = describe(images, list("gabcd"), str(caption_blip), **asked)
    assert list(found) == ["image_id", "outcome", "reason", "caption"]
    assert list(found["image_id"]) == list("gabcd")
    assert found["outcome"].tolist() == ["", "", "unreadable", "", "blocked"]
    assert found["reason"].tolist() == ["", "", "truncated", "", ""]
    own = own_load(str(caption_blip), "captioner", device="cpu").ask(
        [photos[4], photos[0], photos[1]], range(3), [""] * 3
    )
    assert found["caption"].tolist() == [own[0], own[1], "", own[2], ""]
    # What is known is read again, without the model.
    pd.testing.assert_frame_equal(describe(images, list("gabcd"), str(caption_blip), **asked), found)
    assert loads == [(str(caption_blip), "captioner")]
    assert describe(images, [], str(caption_blip), **asked).shape == (0, 4)


@pytest.mark.usefixtures("one_thread")
def test_a_sentence_is_no_answer_of_the_same_model(opt, images, tmp_path):
    """BLIP-2 does both: an empty question about an image is another text than none."""
    asked = {"store": Store(tmp_path), "device": "cpu", "progress": False}
    units = pd.DataFrame({"image_id": list("ace"), "question": ""})
    answered = ask_about(images, units, str(opt), **asked)["answer"].tolist()
    said = describe(images, list("ace"), str(opt), **asked)["caption"].tolist()
    assert said != answered
    apart = describe(images, list("ace"), str(opt), **asked | {"store": Store(tmp_path / "apart")})
    assert said == apart["caption"].tolist()


def changed(folder, made, edit):
    """Copy a model to ``made`` with other weights."""
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, made)
    weights = load_file(made / "model.safetensors")
    edit(weights)
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    return made


def test_models_for_something_else_are_refused(blip, caption_blip, detector_folder, images, tmp_path):
    with pytest.raises(ParameterError, match=r"weights too many .* text_encoder"):
        blips.load(str(blip), "captioner")
    with pytest.raises(ParameterError, match=r"lacks \d+ weights .* text_encoder"):
        blips.load(str(caption_blip))
    with pytest.raises(ParameterError, match=r"'yolos'.*'blip' or 'blip-2'"):
        blips.load(str(detector_folder), "captioner")
    headless = changed(
        caption_blip, tmp_path / "headless", lambda w: w.pop("text_decoder.cls.predictions.transform.dense.weight")
    )
    with pytest.raises(ParameterError, match="lacks 1 weights"):
        blips.load(str(headless), "captioner")
    # The embedded models' kinds are known before they are loaded.
    with pytest.raises(ParameterError, match="'mini-vqa' is a vqa model"):
        describe(images, ["a"], "mini-vqa", store=Store(tmp_path))
    with pytest.raises(ParameterError, match="'mini-captioner' is a captioner model"):
        blips.located("vqa:mini-captioner")


@pytest.mark.usefixtures("one_thread")
def test_buffers_of_old_releases_are_no_other_part(caption_blip, photos, tmp_path):
    """Checkpoints on the hub still have what transformers used to save beside weights."""
    import torch

    def buffers(weights):
        weights["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
        weights["text_decoder.bert.embeddings.buffer"] = torch.arange(64)[None]

    old = changed(caption_blip, tmp_path / "old", buffers)
    found, whole = (blips.load(str(of), "captioner", device="cpu") for of in (old, caption_blip))
    assert found.ask(photos, [0, 1], ["", ""]) == whole.ask(photos, [0, 1], ["", ""])
