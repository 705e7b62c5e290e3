"""Sentences about images: transformers' own, in any batch, stored and read again; other models are refused."""

import shutil

import pandas as pd
import pytest
import tiny_blip
from array_images import ArrayImages

from biaslab.ground.errors import ParameterError
from biaslab.judging import blip as blips
from biaslab.judging.vqa import ask_about
from biaslab.keep.store import Store
from biaslab.models.images import Unreadable

pytestmark = pytest.mark.usefixtures("one_thread")

BLIP2 = "Blip2ForConditionalGeneration"


def captioner(folder):
    return blips.load(str(folder), "captioner", device="cpu")


def own_captions(folder, kind, photos, texts):
    """Describe one image at a time through transformers' own processor and generation."""
    import transformers

    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    return [tiny_blip.own_text(model, processor, photo, text, 40) for photo, text in zip(photos, texts, strict=True)]


@pytest.mark.parametrize(
    ("which", "kind"), [("caption_blip", "BlipForConditionalGeneration"), ("opt", BLIP2), ("t5", BLIP2)]
)
def test_captions_are_transformers_own_in_any_batch(which, kind, photos, request):
    made = request.getfixturevalue(which)
    # BLIP is given no text at all, BLIP-2 an empty one, from which its language model goes on.
    expected = own_captions(made, kind, photos, [None if which == "caption_blip" else ""] * 5)
    assert len(set(expected)) >= 3, "the random model must tell images apart"
    # Of the whole length that captions may have, which is more than an answer's.
    assert max(len(text.split()) for text in expected) > 20
    model = captioner(made)
    assert model.ask(photos, range(5), [""] * 5) == expected
    # Of any images in any order.
    assert model.ask(photos, [3, 0, 3], [""] * 3) == [expected[3], expected[0], expected[3]]


@pytest.fixture
def images(photos):
    for photo in photos:
        photo.flags.writeable = False  # as decoded files are
    shown = [photos[0], Unreadable("truncated"), photos[1], Unreadable("blocked"), *photos[2:]]
    return ArrayImages(shown, list("abcdefg"))


def describe(images, ids, name, store, kind="captioner"):
    units = pd.DataFrame({"image_id": list(ids), "question": ""})
    return ask_about(images, units, str(name), store=Store(store), kind=kind, device="cpu", progress=False)


def test_images_are_described_and_those_that_cannot_be_are_counted(caption_blip, images, photos, tmp_path, monkeypatch):
    own, loads, own_load = captioner(caption_blip).ask([photos[4], *photos[:2]], range(3), [""] * 3), [], blips.load
    monkeypatch.setattr(blips, "load", lambda *of, **how: loads.append(of) or own_load(*of, **how))
    found = describe(images, "gabcd", caption_blip, tmp_path)
    assert list(found["image_id"]) == list("gabcd")
    assert found["outcome"].tolist() == ["", "", "unreadable", "", "blocked"]
    assert found["reason"].tolist() == ["", "", "truncated", "", ""]
    assert found["answer"].tolist() == [own[0], own[1], "", own[2], ""]
    # What is known is read again, without the model.
    pd.testing.assert_frame_equal(describe(images, "gabcd", caption_blip, tmp_path), found)
    assert len(loads) == 1
    assert describe(images, "", caption_blip, tmp_path).empty


def test_a_sentence_is_no_answer_of_the_same_model(opt, images, tmp_path):
    """BLIP-2 does both: an empty question about an image is another text than none."""
    answered, said = (describe(images, "ac", opt, tmp_path, kind)["answer"].tolist() for kind in ("vqa", "captioner"))
    assert said != answered
    assert said == describe(images, "ac", opt, tmp_path / "apart")["answer"].tolist()


def changed(folder, made, edit):
    """Copy a model to ``made`` with other weights."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, made)
    weights = load_file(made / "model.safetensors")
    edit(weights)
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    return made


def test_models_for_something_else_are_refused(blip, caption_blip, detector_folder, images, tmp_path):
    for folder, kind, message in (
        (blip, "captioner", "'BlipForQuestionAnswering', which is no BLIP or BLIP-2 for captions"),
        (caption_blip, "vqa", "'BlipForConditionalGeneration', which is no BLIP or BLIP-2 for questions"),
        (detector_folder, "captioner", "'yolos', which is no BLIP or BLIP-2"),
    ):
        with pytest.raises(ParameterError, match=message):
            blips.load(str(folder), kind)
    # Where the configuration does not say, the weights do.
    for folder, kind, message in ((blip, "captioner", "too many"), (caption_blip, "vqa", "lacks")):
        bare = shutil.copytree(folder, tmp_path / kind)
        text = (bare / "config.json").read_text()
        (bare / "config.json").write_text(text.replace('"architectures"', '"built"'))
        with pytest.raises(ParameterError, match=rf"{message}.* text_encoder"):
            blips.load(str(bare), kind)
    headless = changed(
        caption_blip, tmp_path / "headless", lambda w: w.pop("text_decoder.cls.predictions.transform.dense.weight")
    )
    with pytest.raises(ParameterError, match="lacks 1 weights"):
        captioner(headless)
    # The embedded models' kinds are known before they are loaded.
    with pytest.raises(ParameterError, match="'mini-vqa' is a vqa model"):
        describe(images, "a", "mini-vqa", tmp_path)
    with pytest.raises(ParameterError, match="'mini-captioner' is a captioner model"):
        blips.located("vqa:mini-captioner")


def test_buffers_of_old_releases_are_no_other_part(caption_blip, photos, tmp_path):
    """Checkpoints on the hub still have what transformers used to save beside weights."""
    import torch

    def buffers(weights):
        weights["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
        weights["text_decoder.bert.embeddings.buffer"] = torch.arange(64)[None]

    old = captioner(changed(caption_blip, tmp_path / "old", buffers))
    assert old.ask(photos, [0, 1], ["", ""]) == captioner(caption_blip).ask(photos, [0, 1], ["", ""])
