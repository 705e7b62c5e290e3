"""Tiny random models in the formats of the real ones, and judges whose answers are read from pixels."""

import json
from functools import partial

import numpy as np
import pytest
import tiny_blip
import tiny_grounding
from pixel_judges import PixelFaces, PixelGender

from biaslab.judges.judge import JudgeOptions
from biaslab.judges.settings import JudgeSettings

WORDS = ("a", "photo", "of", "man", "woman", "nurse")


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory):
    """A folder that open_clip loads by itself: a random ViT with two layers and a tokenizer of whole words."""
    torch, open_clip = pytest.importorskip("torch"), pytest.importorskip("open_clip")
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("clip")
    vision = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
    text = {"context_length": 12, "vocab_size": 10, "width": 32, "heads": 2, "layers": 1}
    text |= {"hf_tokenizer_name": "local", "pad_id": 0, "tokenizer_kwargs": {"clean": "whitespace"}}
    config = {"model_cfg": {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    tiny_blip.tokenizer(WORDS, length=12).save_pretrained(folder)
    torch.manual_seed(0)
    cfg = {**text}
    cfg.pop("hf_tokenizer_name"), cfg.pop("tokenizer_kwargs")
    model = open_clip.CLIP(16, vision, cfg)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors")
    return folder


@pytest.fixture(scope="session")
def detector_folder(tmp_path_factory):
    """A random YOLOS of one layer that knows faces, as transformers saves it."""
    torch = pytest.importorskip("torch")
    from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessor

    folder, labels = tmp_path_factory.mktemp("detector"), {0: "person", 1: "face", 2: "dog"}
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    sizes |= {"image_size": [32, 32], "patch_size": 16, "num_detection_tokens": 6}
    config = YolosConfig(**sizes, id2label=labels, label2id={v: k for k, v in labels.items()})
    YolosForObjectDetection(config).save_pretrained(folder)
    YolosImageProcessor(size=tiny_grounding.SIZE, do_pad=False).save_pretrained(folder)
    return folder


# Language models of BLIP-2: opt is a decoder only, t5 has an encoder and a decoder.
SAVED = tiny_grounding.SAVED | {
    "blip": tiny_blip.save_blip,
    "caption_blip": partial(tiny_blip.save_blip, kind="BlipForConditionalGeneration"),
    **{language: partial(tiny_blip.save_blip2, language=language) for language in ("opt", "t5")},
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Return the folder of a tiny model by its name; each is built when first asked for."""
    pytest.importorskip("torch", reason="judging needs the extra 'models'")
    root = tmp_path_factory.mktemp("tiny")

    def folder(name):
        if not (root / name).is_dir():
            SAVED[name](root / name)
        return str(root / name)

    return folder


@pytest.fixture
def photos():
    return tiny_blip.photos()


@pytest.fixture(scope="session")
def named(tmp_path_factory):
    """A folder with a file of fake weights; tests replace what is loaded from it."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def picture():
    """Make images whose first pixel defines the answers of the pixel detector and gender judge."""

    def make(kind, value=0, height=20, width=20):
        image = np.zeros((height, width, 3), np.uint8)
        image[0, 0] = (kind, value, 0)
        return image

    return make


@pytest.fixture
def make_judges():
    """Return a judge and a face detector with these options that answer by an image's first pixel."""

    def make(allowed=True, faces="told", **judging):
        options = JudgeOptions(JudgeSettings(**judging), device="cpu")
        return PixelGender("told", options, allowed), PixelFaces(faces, options, allowed)

    return make
