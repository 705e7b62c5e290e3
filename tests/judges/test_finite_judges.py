"""Judges with numbers that are not finite raise an error that names the judge, its type and a fix."""

from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest

from biaslab.errors import InputError
from biaslab.judges import blip as vqa
from biaslab.judges import faces, instance_models, objects
from biaslab.judges.face_classifiers import FairFaceJudge
from biaslab.judges.features import FeaturesJudge, InceptionJudge
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.settings import Thresholds
from biaslab.judges.zero_shot import ZeroShot

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

LOW = Thresholds(tag=0, box=0, text=0, area=0)
NOT_FINITE = r"returns numbers that are not finite in float32\. No type has a larger range"


def spoil(model, *parts):
    """Set one weight to NaN, in the part with these names."""
    weights = [value for name, value in model.state_dict().items() if all(part in name for part in parts)]
    assert weights, f"no weight of {type(model).__name__} is named {parts}"
    # A view of the weights: what is written here is in the model.
    weights[-1].data[(0,) * weights[-1].dim()] = float("nan")


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)


def resnet(folder):
    """Save a random network of timm, and return its features."""
    import timm
    from timm.models import save_for_hf

    save_for_hf(timm.create_model("resnet10t", num_classes=3), folder, safe_serialization=True)
    return FeaturesJudge(folder, JudgeOptions(device="cpu"))


def ask(model, image):
    return model.ask([image], [0], ["is the person a woman"])


def tagger(folder):
    return instance_models._tagger(folder, LOW, () if "florence" in folder else ("dog", "cup"), "cpu")


def detect(model, image):
    return model.detect([image])


def segment(model, image):
    return model.segment([image])


def boxes(model, image):
    # Places that no tag takes are infinitely below all others, and are no error.
    assert set(model(image, ["dog", "cup"])[0]) <= {"dog", "cup"}


def masks(model, image):
    assert model(image, np.array([[4.0, 4.0, 30.0, 30.0]]))[0].shape == (40, 48)


VQA, CAPTIONS = ((ask, partial(vqa.load, kind=kind, device="cpu")) for kind in ("vqa", "captioner"))
FACES = (lambda model, image: model.faces([image]), partial(faces.HubFaces, options=JudgeOptions(device="cpu")))
OBJECTS = (detect, lambda folder: objects.ObjectDetector(folder, JudgeOptions(classes={"dog": []}, device="cpu")))
REGIONS = (segment, lambda folder: instance_models.Segmenter(folder, LOW, device="cpu"))
TAGS = (lambda model, image: list(model([image])), tagger)
BOXES = (boxes, lambda folder: instance_models._Boxes(folder, LOW, "cpu"))
MASKS = (masks, lambda folder: instance_models._Masks(folder, "cpu"))
FEATURES = (lambda model, image: model.embed([image]), resnet)


@pytest.mark.parametrize(
    ("name", "judge", "parts"),
    [
        *(("detector_folder", kind, ("class_labels_classifier",)) for kind in (FACES, OBJECTS)),
        *(("detector_folder", kind, ("bbox_predictor",)) for kind in (FACES, OBJECTS)),
        ("segformer", REGIONS, ("classifier.bias",)),
        ("mask2former", REGIONS, ("class_predictor.bias",)),
        *((name, TAGS, ("vision", "post_layernorm.weight")) for name in ("siglip", "clip")),
        ("florence2", TAGS, ("decoder", "final_layer_norm.weight")),
        *(("grounding_dino", BOXES, (part,)) for part in ("bbox_embed", "text_projection")),
        ("sam", MASKS, ("mask_decoder", "output_hypernetworks_mlps.0", "proj_out.weight")),
        ("blip", VQA, ("vision_model", "post_layernorm.weight")),
        ("blip", VQA, ("text_decoder", "cls", "bias")),
        ("caption_blip", CAPTIONS, ("text_decoder", "cls", "bias")),
        ("opt", VQA, ("qformer", "LayerNorm.weight")),
        ("opt", VQA, ("language_model", "final_layer_norm.weight")),
        ("t5", VQA, ("language_model", "decoder", "final_layer_norm.weight")),
        ("tmp_path", FEATURES, ("fc.weight",)),
    ],
)
def test_judge_with_nan_weight_raises(request, tiny, image, monkeypatch, name, judge, parts):
    monkeypatch.setattr(instance_models, "_MAX_TOKENS", 8)
    (see, load), is_folder_fixture = judge, name in ("detector_folder", "tmp_path")
    folder = str(request.getfixturevalue(name)) if is_folder_fixture else tiny(name)
    model = load(folder)
    with torch.inference_mode():
        see(model, image)
        spoil(model.model if isinstance(model.model, torch.nn.Module) else model.model.model, *parts)
        with pytest.raises(InputError, match=rf"{folder} {NOT_FINITE}"):
            see(model, image)


@pytest.mark.parametrize("part", ["visual", "text_projection", "logit_scale"])
def test_zero_shot_with_nan_weight_raises(clip_folder, image, part):
    model = ZeroShot(str(clip_folder), device="cpu")
    assert model.probabilities([image], ("a man", "a woman")).shape == (1, 2)
    spoil(model._model, part)
    model._scale, model._texts = float(model._model.logit_scale.detach().exp()), {}
    with pytest.raises(InputError, match=rf"{clip_folder.name} {NOT_FINITE}"):
        model.probabilities([image], ("a man", "a woman"))


def test_fairface_and_inception_with_nan_output_raise(image):
    """FairFace and Inception, whose weights are not checked."""
    for judge, name, n in (
        (FairFaceJudge("fairface:fairface.safetensors"), "fairface.safetensors", 18),
        (InceptionJudge("weights.pth"), "Inception-v3", 2048),
    ):
        judge.model = Mock(side_effect=lambda pixels, n=n: torch.full((len(pixels), n), float("nan")))
        judge.model.fc.weight = torch.zeros(1)
        with pytest.raises(InputError, match=rf"{name} {NOT_FINITE}"):
            judge.probe(image)


def test_vqa_greedy_allows_minus_infinity_scores(tiny):
    (watch,) = vqa.load(tiny("blip"), device="cpu").greedy(1)["logits_processor"]
    scores = torch.tensor([[0.0, float("-inf"), 2.0]])
    assert watch(None, scores) is scores
    for bad_score in ("nan", "inf"):
        with pytest.raises(InputError, match="returns numbers"):
            watch(None, torch.tensor([[0.0, float(bad_score)]]))
