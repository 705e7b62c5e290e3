"""Objects by any detector of transformers: scores and boxes of two kinds, and the cached stage."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import model_loading
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.objects import MIN_SCORE, ObjectDetector, columns, detect

LABELS = {0: "N/A", 1: "Dog", 2: "fire_hydrant", 3: "bicycle"}
SIZE = {"height": 32, "width": 32}
SIZES = {"layers": 1, "ffn_dim": 16, "attention_heads": 2}


def save(folder, kind):
    """Save a tiny random detector and its preprocessing; its weights are large enough to tell images apart."""
    import torch
    import transformers

    torch.manual_seed(1)
    config_args = {"id2label": LABELS, "label2id": {v: k for k, v in LABELS.items()}}
    resnet = {"embedding_size": 8, "layer_type": "basic"}
    config_args |= {f"{part}_{size_name}": n for part in ("encoder", "decoder") for size_name, n in SIZES.items()}
    config_args |= {"d_model": 16, "num_queries": 5}
    if kind == "Detr":
        sizes = {"hidden_sizes": [8, 16], "depths": [1, 1], "out_features": ["stage2"]}
        config_args |= {"backbone_config": transformers.ResNetConfig(**resnet, **sizes), "backbone": None}
        config_args |= {"use_timm_backbone": False, "use_pretrained_backbone": False}
    if kind == "RTDetr":
        sizes = {"hidden_sizes": [8, 8, 16], "depths": [1, 1, 1], "out_indices": [2, 3]}
        config_args |= {"backbone_config": transformers.RTDetrResNetConfig(**resnet, **sizes), "num_denoising": 0}
        config_args |= {"encoder_in_channels": [8, 16], "feat_strides": [8, 16], "num_feature_levels": 2}
        config_args |= {"encode_proj_layers": [1], "encoder_hidden_dim": 16, "decoder_in_channels": [16, 16]}
        config_args |= {"decoder_n_points": 2}
    config = getattr(transformers, f"{kind}Config")(**config_args)
    model = getattr(transformers, f"{kind}ForObjectDetection")(config).eval()
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() in (2, 3):
                value.normal_(0, 0.5)
        # Every label is the best somewhere: none is favoured over all images.
        usual = model(torch.nn.functional.interpolate(torch.rand(16, 3, 4, 4), 32)).logits.mean((0, 1))
        for name, value in model.named_parameters():
            if "class" in name and value.shape == usual.shape:
                value.sub_(usual)
    model.save_pretrained(folder)
    processor_args = {} if kind == "RTDetr" else {"do_pad": False}
    processor = getattr(transformers, f"{kind}ImageProcessor")(size=SIZE, **processor_args)
    processor.save_pretrained(folder)
    return model, processor


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["Detr", "RTDetr"])
def test_object_detector_matches_transformers_postprocessing(kind, tmp_path, photos):
    import torch

    model, processor = save(tmp_path, kind)
    with torch.no_grad():
        outputs = [model(**processor(images=[photo], return_tensors="pt")) for photo in photos]
    result = ObjectDetector(str(tmp_path), JudgeOptions(classes={v: [] for v in LABELS.values()}, device="cpu")).detect(
        photos
    )
    # DETR has a fifth class, no object.
    assert outputs[0].logits.shape[-1] == (4 if kind == "RTDetr" else 5)
    labels_seen = set()
    for image, (scores, boxes), output in zip(photos, result, outputs, strict=True):
        height, width = image.shape[:2]
        (reference,) = processor.post_process_object_detection(output, threshold=0.0, target_sizes=[(height, width)])
        assert len(reference["scores"]) == 5 and boxes.min() >= 0 and boxes.max() <= 1
        sides = np.clip(reference["boxes"].numpy() / [width, height, width, height], 0, 1)
        for box, label, score in zip(sides, reference["labels"].tolist(), reference["scores"].tolist(), strict=True):
            matches = (np.abs(boxes - box).max(axis=1) < 1e-4) & (np.abs(scores[:, label] - score) < 1e-4)
            assert matches.any(), (label, score)
            labels_seen.add(label)
    assert len(labels_seen) >= 2, "the random model must tell classes apart"


def test_detector_boxes_of_padded_images_are_relative_to_image(tmp_path):
    """As transformers' training script saves a detector: images are padded to a square, below or on the right."""
    import torch
    from transformers import RTDetrImageProcessor

    save(tmp_path, "RTDetr")
    square = {"size": {"max_height": 32, "max_width": 32}, "do_pad": True, "pad_size": SIZE}
    RTDetrImageProcessor(**square).save_pretrained(tmp_path)
    wide_image = np.random.default_rng(0).integers(0, 256, (16, 32, 3), np.uint8)
    padded_image = np.concatenate([wide_image, np.zeros_like(wide_image)])
    detector = model_loading.Detector(str(tmp_path), "cpu", 0)
    with torch.no_grad():
        of_image, of_square = detector.predict([wide_image]), detector.predict([padded_image])
    np.testing.assert_allclose(of_image.logits, of_square.logits, atol=1e-4)
    # The image is the upper half of the square: center, width and height.
    np.testing.assert_allclose(of_image.pred_boxes, of_square.pred_boxes.numpy() * [1, 2, 1, 2], atol=1e-4)


def test_columns_match_labels_in_any_case_and_by_alias():
    requested = {"DOG": [], "Fire Hydrant": [], "hydrant": ["Fire_Hydrant"], "bike": ["bicycle"]}
    assert columns(LABELS, requested, "a detector") == [1, 2, 2, 3]
    with pytest.raises(ParameterError, match=r"'airplane'.* dog, fire hydrant, bicycle"):
        columns(LABELS, {"dog": [], "airplane": ["aeroplane", "plane"]}, "a detector")
    # Its own name comes first, then the others in their order.
    assert columns(LABELS, {"dog": ["bicycle"], "cycle": ["velocipede", "bicycle", "dog"]}, "a detector") == [1, 3]


class FakeDetector:
    """Detects as many queries as the first pixel's red; the third has scores near 0."""

    SCORES = np.array([[0.2, 0.1], [0.3, 0.9], [0.004, 0.0099], [0.6, 0.5]], np.float32)
    BOXES = np.array([[0, 0, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [0.5, 0.5, 1, 0.75]], np.float32)

    def __init__(self):
        self.looked, self.loaded = [], []

    def __call__(self, name, classes, **options):
        self.loaded.append((name, list(classes), options))
        return self

    def detect(self, images):
        numbers = [int(image[0, 0, 0]) for image in images]
        self.looked += numbers
        return [(self.SCORES[:n], self.BOXES[:n]) for n in numbers]


def picture(queries, width=8):
    image = np.zeros((6, width, 3), np.uint8)
    image[0, 0, 0] = queries
    return image


TWO = {"dog": [], "bicycle": ["bike"]}


@pytest.fixture
def source():
    images = [picture(4), UnreadableImage("truncated"), picture(0), UnreadableImage("blocked"), picture(2, width=9)]
    return ArrayImages(images, ["four", "broken", "none", "withheld", "two"])


@pytest.fixture
def run_detect(monkeypatch):
    def _look(images, named, store, fake, classes=TWO, device="cpu"):
        def load(judge):
            return fake(judge.name, judge.options.classes, device=judge.options.device)

        monkeypatch.setattr(ObjectDetector, "load", load)
        monkeypatch.setattr(ObjectDetector, "detect", lambda judge, images: judge.model.detect(images))
        judge = ObjectDetector(str(named), JudgeOptions(classes=classes, device=device))
        return detect(images, judge, cache=ResultCache(store), progress=False)

    return _look


def test_detect_orders_rows_by_image_and_score(run_detect, source, named, tmp_path):
    fake = FakeDetector()
    result, images = run_detect(source, named, tmp_path, fake)
    # By hand: the third query's best, 0.0099, is less than a hundredth; the others go by their best class.
    assert MIN_SCORE == 0.01
    assert result["image_id"].tolist() == ["four"] * 3 + ["two"] * 2
    assert result["label"].tolist() == ["bicycle", "dog", "dog", "bicycle", "dog"]
    np.testing.assert_allclose(result["score"], [0.9, 0.6, 0.2, 0.9, 0.2], rtol=1e-6)
    np.testing.assert_allclose(result["p_dog"], [0.3, 0.6, 0.2, 0.3, 0.2], rtol=1e-6)
    np.testing.assert_allclose(result["p_bicycle"], [0.9, 0.5, 0.1, 0.9, 0.1], rtol=1e-6)
    sides = ["left", "top", "right", "bottom"]
    np.testing.assert_allclose(result[sides], FakeDetector.BOXES[[1, 3, 0, 1, 0]], rtol=1e-6)
    assert list(result) == ["image_id", "label", "score", *sides, "p_dog", "p_bicycle"]
    # One row per image, in the source's order; unreadable images have a reason.
    assert images["image_id"].tolist() == ["four", "broken", "none", "withheld", "two"]
    assert images["status"].tolist() == ["", "unreadable", "", "blocked", ""]
    assert images["reason"].tolist() == ["", "truncated", "", "", ""]
    assert fake.looked == [4, 0, 2]
    assert fake.loaded == [(str(named), ["dog", "bicycle"], {"device": "cpu"})]


def test_detect_reads_cached_results_only_if_unchanged(run_detect, source, named, tmp_path):
    first = run_detect(source, named, tmp_path, FakeDetector())
    unused_fake = FakeDetector()
    for a, b in zip(first, run_detect(source, named, tmp_path, unused_fake, device="auto"), strict=True):
        pd.testing.assert_frame_equal(a, b)
    assert unused_fake.loaded == [] and unused_fake.looked == []
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    (other_folder / "model.safetensors").write_bytes(b"other weights")
    for images, folder, classes in (
        (ArrayImages([picture(1)], ["four"]), named, TWO),
        (source, named, {"dog": [], "bicycle": []}),
        (source, other_folder, TWO),
    ):
        fake = FakeDetector()
        run_detect(images, folder, tmp_path, fake, classes)
        assert fake.looked == ([4, 0, 2] if images is source else [1])


@pytest.mark.parametrize(
    "images", [[], [picture(0), picture(0)], [UnreadableImage("truncated"), UnreadableImage("blocked")]]
)
def test_detect_without_objects_is_empty_table(images, run_detect, named, tmp_path):
    fake = FakeDetector()
    result, image_rows = run_detect(ArrayImages(images), named, tmp_path, fake)
    assert result.empty and {"image_id", "label", "score", "p_dog", "p_bicycle"} <= set(result)
    assert result["score"].dtype == float
    assert image_rows["image_id"].tolist() == [str(k) for k in range(len(images))]
    # A model is loaded to look at an image, not before.
    assert len(fake.loaded) == sum(isinstance(image, np.ndarray) for image in images[:1])
