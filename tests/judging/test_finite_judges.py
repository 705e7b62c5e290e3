"""Judges whose numbers are not finite are an error that names them, their type and what to do: never an answer."""

import numpy as np
import pytest
import tiny_grounding

from biaslab.ground.errors import InputError
from biaslab.judging import blip as vqa
from biaslab.judging import faces, grounded, loaded, objects, segmenters
from biaslab.judging.fairface import FairFaceGender
from biaslab.judging.features import Features
from biaslab.judging.inception import Inception
from biaslab.judging.settings import Thresholds
from biaslab.judging.zero_shot import ZeroShot, ZeroShotGender

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

LOW = Thresholds(tag=0, box=0, text=0, area=0)
DAMAGED = r"gives numbers that are not finite in float32\. No type holds more"


def spoil(model, *parts):
    """Let one number of the weights be none, in a part of which the names are given."""
    named = [value for name, value in model.state_dict().items() if all(part in name for part in parts)]
    assert named, f"no weight of {type(model).__name__} is named {parts}"
    # A view of the weights: what is written here is in the model.
    named[-1].data[(0,) * named[-1].dim()] = float("nan")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return the folder of a tiny model by its name, saved anew for each call."""

    def folder(name):
        return str(tiny_grounding.SAVED[name](tmp_path_factory.mktemp(name)))

    return folder


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)


# -- gender ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["visual", "text_projection", "logit_scale"])
def test_zero_shot(clip_folder, image, part):
    model = ZeroShot(str(clip_folder), device="cpu")
    assert ZeroShotGender(model, ("a man", "a woman")).p_female([image]).shape == (1,)
    spoil(model._model, part)
    model._scale, model._texts = float(model._model.logit_scale.detach().exp()), {}
    with pytest.raises(InputError, match=rf"{clip_folder.name} {DAMAGED}"):
        ZeroShotGender(model, ("a man", "a woman")).p_female([image])


def test_zero_shot_in_a_smaller_type(clip_folder, image):
    model = ZeroShot(str(clip_folder), device="cpu", dtype="bfloat16")
    spoil(model._model, "visual")
    with pytest.raises(InputError, match=r"finite in bfloat16\. Set judging\.dtype to float32\."):
        model.image_embeddings([image])


def test_fairface(tmp_path, image):
    from safetensors.torch import save_file
    from torchvision.models import resnet34

    network = resnet34(weights=None)
    network.fc = torch.nn.Linear(network.fc.in_features, 18)
    spoil(network, "fc.weight")
    save_file(network.state_dict(), tmp_path / "fairface.safetensors")
    with pytest.raises(InputError, match=rf"fairface\.safetensors {DAMAGED}"):
        FairFaceGender(tmp_path / "fairface.safetensors", device="cpu").p_female([image])


# -- faces and objects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["class_labels_classifier", "bbox_predictor"])
def test_detectors(detector_folder, image, part):
    found = faces.load(str(detector_folder), device="cpu")
    other = objects.Detector(str(detector_folder), {"dog": []}, device="cpu")
    # All queries count, were their scores numbers.
    assert len(found.faces([image])) == len(other.look([image])) == 1
    for model in (found, other):
        spoil(model._model, part)
    for look in (found.faces, other.look):
        with pytest.raises(InputError, match=rf"{detector_folder.name} {DAMAGED}"):
            look([image])


@pytest.mark.parametrize(("name", "part"), [("segformer", "classifier.bias"), ("mask2former", "class_predictor.bias")])
def test_segmenters(tiny, image, name, part):
    model = segmenters.Segmenter(tiny(name), LOW, device="cpu")
    model.look([image])
    spoil(model._model, part)
    with pytest.raises(InputError, match=DAMAGED):
        model.look([image])


@pytest.mark.parametrize("name", ["siglip", "clip"])
def test_zero_shot_taggers(tiny, image, name):
    model = grounded._tagger(tiny(name), LOW, ("dog", "cup"), "cpu")
    assert len(model([image])) == 1
    spoil(model._model, "vision", "post_layernorm.weight")
    with pytest.raises(InputError, match=DAMAGED):
        model([image])


def test_a_tagger_that_writes(tiny, image, monkeypatch):
    monkeypatch.setattr(grounded, "_LONGEST", 8)
    model = grounded._tagger(tiny("florence2"), LOW, (), "cpu")
    assert len(list(model([image]))) == 1
    spoil(model._model, "decoder", "final_layer_norm.weight")
    with pytest.raises(InputError, match=DAMAGED):
        list(model([image]))


@pytest.mark.parametrize("part", ["bbox_embed", "text_projection"])
def test_detectors_that_are_asked(tiny, image, part):
    model = grounded._Boxes(tiny("grounding_dino"), LOW, "cpu")
    with torch.inference_mode():
        # Places that no tag takes are infinitely below all others, and are no error.
        names, *_ = model(image, ["dog", "cup"])
        spoil(model._model, part)
        with pytest.raises(InputError, match=DAMAGED):
            model(image, ["dog", "cup"])
    assert set(names) <= {"dog", "cup"}


def test_masks_of_boxes(tiny, image):
    model = grounded._Masks(tiny("sam"), "cpu")
    boxes = np.array([[4.0, 4.0, 30.0, 30.0]])
    with torch.inference_mode():
        assert model(image, boxes)[0].shape == (40, 48)
        spoil(model._model, "mask_decoder", "output_hypernetworks_mlps.0", "proj_out.weight")
        with pytest.raises(InputError, match=DAMAGED):
            model(image, boxes)


# -- answers and sentences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixture", "kind", "parts"),
    [
        ("blip", "vqa", ("vision_model", "post_layernorm.weight")),
        ("blip", "vqa", ("text_encoder", "LayerNorm.weight")),
        ("blip", "vqa", ("text_decoder", "cls", "bias")),
        ("caption_blip", "captioner", ("vision_model", "post_layernorm.weight")),
        ("caption_blip", "captioner", ("text_decoder", "cls", "bias")),
        ("opt", "vqa", ("qformer", "LayerNorm.weight")),
        ("opt", "vqa", ("language_model", "final_layer_norm.weight")),
        ("t5", "vqa", ("language_model", "decoder", "final_layer_norm.weight")),
    ],
)
def test_answers(request, photos, fixture, kind, parts):
    folder = str(request.getfixturevalue(fixture))
    model = vqa.load(folder, kind, device="cpu")
    question = "is the person a woman"
    assert len(model.ask(photos[:1], [0], [question])) == 1
    spoil(model._model, *parts)
    with pytest.raises(InputError, match=rf"{folder} {DAMAGED}"):
        model.ask(photos[:1], [0], [question])


def test_words_that_must_not_be_written_are_no_error():
    (watch,) = loaded.finite_words("a model", "float32")
    scores = torch.tensor([[0.0, float("-inf"), 2.0]])
    assert watch(None, scores) is scores
    for wrong in ("nan", "inf"):
        with pytest.raises(InputError, match="a model gives numbers"):
            watch(None, torch.tensor([[0.0, float(wrong)]]))


# -- what images are compared by -----------------------------------------------------------------------------------


def test_features(tmp_path, image):
    timm = pytest.importorskip("timm")
    from timm.models import save_for_hf

    network = timm.create_model("resnet18", num_classes=3)
    save_for_hf(network, tmp_path, safe_serialization=True)
    model = Features(str(tmp_path), device="cpu")
    assert model.image_embeddings([image]).shape == (1, 3)
    spoil(model._network.model, "fc.weight")
    with pytest.raises(InputError, match=rf"{tmp_path} {DAMAGED}"):
        model.image_embeddings([image])


def test_inception(image):
    # Its weights are 95 MB, and no part of the check.
    model = Inception.__new__(Inception)
    model._device, model._batches = torch.device("cpu"), loaded.Batches(torch.device("cpu"), 1)
    model._model = lambda pixels: torch.full((len(pixels), 2048), float("nan"))
    with pytest.raises(InputError, match=rf"Inception-v3 {DAMAGED}"):
        model.image_embeddings([image])


def test_sentences(monkeypatch):
    from biaslab.captions import neighbours

    pytest.importorskip("sentence_transformers")
    encoder = neighbours.Encoder(device="cpu", dtype="float32")
    assert encoder.encode(["a nurse"]).shape == (1, 384)
    network = neighbours._model(encoder.name, "cpu", "float32")
    norms = network[0].auto_model.encoder.layer[-1].output.LayerNorm.weight
    kept = norms.detach().clone()
    norms.data[0] = float("nan")
    try:
        with pytest.raises(InputError, match=rf"all-MiniLM-L6-v2' {DAMAGED}"):
            encoder.encode(["a nurse"])
    finally:
        norms.data.copy_(kept)
