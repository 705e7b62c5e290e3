"""Features of images by networks of timm and inside of transformers' models, from tiny random weights in folders."""

import json

import numpy as np
import pytest

from biaslab.errors import InputError, ParameterError
from biaslab.judges.features import FeaturesJudge, find_network
from biaslab.judges.judge import JudgeOptions
from biaslab.metrics.similarity import cosines

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"num_classes": 7, "pretrained_cfg_overlay": {"input_size": (3, 32, 32)}}
VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
CPU = JudgeOptions(device="cpu")


def places(judge, images):
    """Return a judge's embedding of each patch."""
    at_places = judge.fresh()
    at_places.places = True
    return at_places.embed(images)


def save(folder, architecture, **options):
    """Save a random network as timm does."""
    # Seconds of imports, which a worker that runs no test of this file does without.
    import timm
    from timm.models import save_for_hf

    torch.manual_seed(2)
    model = timm.create_model(architecture, **options)
    save_for_hf(model, folder, safe_serialization=True)
    return model.eval()


@pytest.fixture(scope="module")
def images():
    from PIL import Image

    rng = np.random.default_rng(0)
    coarse = [rng.integers(0, 256, (4, 4, 3), dtype=np.uint8) for _ in range(4)]
    sizes = [(48, 40), (37, 37), (48, 40), (30, 90)]
    return [np.asarray(Image.fromarray(c).resize(s[::-1])) for c, s in zip(coarse, sizes, strict=True)]


def preprocess(images, model):
    """Return images by Pillow and torchvision, one by one: the shorter side to 37 = 32 / 0.875, the middle 32."""
    import timm
    from PIL import Image
    from torchvision import transforms as tv

    data_config = timm.data.resolve_data_config(model=model)
    interpolation = tv.InterpolationMode(data_config["interpolation"])
    steps = [
        tv.Resize(37, interpolation),
        tv.CenterCrop(32),
        tv.ToTensor(),
        tv.Normalize(data_config["mean"], data_config["std"]),
    ]
    return torch.stack([tv.Compose(steps)(Image.fromarray(i)) for i in images])


def test_features_judge_returns_vit_class_token_and_patches(tmp_path, images):
    model = save(tmp_path, "vit_small_patch16_224.dino", **VIT)
    with torch.no_grad():
        reference = model.forward_features(preprocess(images, model))
    result = FeaturesJudge(str(tmp_path), CPU)
    # Sixteen places of 8 pixels, and before them the class token, which is the vector.
    assert places(result, images).shape == (4, 17, 16)
    # Resizing differs by at most one level of 255, which layer normalization makes a little larger.
    assert cosines(places(result, images), reference).min() > 0.999
    assert cosines(result.embed(images), reference[:, 0]).min() > 0.999
    # 37 x 37 is not resized: then nothing is rounded otherwise than by Pillow.
    np.testing.assert_allclose(places(result, images)[1], reference[1], atol=1e-5)
    with pytest.raises(InputError, match="no image"):
        places(result, [])
    one_by_one = np.concatenate([places(result, [i]) for i in images])
    np.testing.assert_allclose(places(result, images), one_by_one, atol=1e-5)


def test_features_judge_returns_residual_network_scores(tmp_path, images):
    model = save(tmp_path, "resnet10t", **SMALL)
    with torch.no_grad():
        expected = model(preprocess(images, model))
    result = FeaturesJudge(str(tmp_path), CPU)
    assert result.embed(images).shape == (4, 7)
    np.testing.assert_allclose(result.embed(images)[1], expected[1], rtol=1e-4, atol=1e-5)
    assert places(result, images).shape == (4, 1, 512)


@pytest.mark.parametrize("name", ["mini-detector", "segformer"])
def test_features_judge_matches_transformers_backbone(tiny, images, name):
    import transformers

    if name == "segformer":
        name = tiny(name)
        reference_model = transformers.SegformerForSemanticSegmentation.from_pretrained(name).eval()
    else:
        reference_model = transformers.AutoModelForObjectDetection.from_pretrained(find_network(name)).eval()
    result = FeaturesJudge(name, CPU)
    square = [i for i in images if i.shape == (37, 37, 3)]
    pixels = result.model.pixels(square, torch.device("cpu"))
    with torch.no_grad():
        if name == "mini-detector":
            assert pixels.shape == (1, 3, 64, 64) and pixels.max() <= 1
            last_hidden = reference_model.model.backbone.model(pixels).feature_maps[-1]
        else:
            last_hidden = reference_model.segformer(pixels).last_hidden_state
    np.testing.assert_allclose(result.embed(square), last_hidden.mean(dim=(2, 3)), atol=1e-5)
    np.testing.assert_allclose(places(result, square), last_hidden.flatten(2).mT, atol=1e-5)


def test_find_network_resolves_timm_names():
    assert find_network("vit_small_patch16_224.dino") == "timm/vit_small_patch16_224.dino"
    assert find_network("resnet50.tv_in1k") == "timm/resnet50.tv_in1k"
    for name, message in (
        ("vit_smal_patch16_224.dino", r"vit_small_patch16_224\.dino"),
        # timm's own error for weights that it does not know is none of ours.
        (
            "vit_small_patch16_224.dion",
            r"no weights named 'vit_small_patch16_224\.dion'.* 'vit_small_patch16_224\.dino'",
        ),
        ("./nowhere", r"named '\./nowhere'"),
    ):
        with pytest.raises(ParameterError, match=message):
            find_network(name)


def test_features_judge_refuses_unsuitable_folders(tmp_path):
    with pytest.raises(ParameterError, match="no features model named 'mini-sd'"):
        FeaturesJudge("mini-sd", CPU).load()
    save(tmp_path / "whole", "vit_small_patch16_224.dino", **VIT)
    config = json.loads((tmp_path / "whole/config.json").read_text())
    (pickled := tmp_path / "pickled").mkdir()
    (pickled / "config.json").write_text(json.dumps(config))
    torch.save({}, pickled / "pytorch_model.bin")
    with pytest.raises(ParameterError, match=r"only from \.safetensors"):
        FeaturesJudge(str(pickled), CPU).load()
    # Weights of another shape, and a class that no library has.
    config["model_args"]["depth"] = 1
    (tmp_path / "whole/config.json").write_text(json.dumps(config))
    with pytest.raises(ParameterError, match=r"blocks\.1"):
        FeaturesJudge(str(tmp_path / "whole"), CPU).load()
    for name in ("NoSuchModel", "AutoModel", None):
        (tmp_path / "whole/config.json").write_text(json.dumps({"architectures": [name]}))
        with pytest.raises(ParameterError, match="transformers does not contain"):
            FeaturesJudge(str(tmp_path / "whole"), CPU).load()


def test_features_judge_timm_config_fetches_nothing(tmp_path, monkeypatch):
    """timm would fetch weights from the hub, URL or file that its configuration names."""
    import socket

    save(tmp_path, "resnet10t", **SMALL)
    config = json.loads((tmp_path / "config.json").read_text())
    # An impossible image size is refused before any image is read.
    for size in (10**9, 1.5):
        data_config = config["pretrained_cfg"] | {"input_size": [3, size, size]}
        (tmp_path / "config.json").write_text(json.dumps(config | {"pretrained_cfg": data_config}))
        with pytest.raises(ParameterError) as error:
            FeaturesJudge(str(tmp_path), CPU).load()
        assert str(error.value).startswith(f"{tmp_path}: its configuration states {size} as a side of images")
    elsewhere = {"hf_hub_id": "owner/name", "url": "https://example.org/weights.pth", "file": "/etc/hostname"}
    config["pretrained_cfg"] |= elsewhere
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("asked"))
    (tmp_path / "pytorch_model.bin").write_bytes(b"not to be read")
    assert FeaturesJudge(str(tmp_path), CPU).embed([np.zeros((40, 40, 3), np.uint8)]).shape == (1, 7)
    config["architecture"] = "hf-hub:owner/name"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ParameterError, match=r'refers to "hf-hub:owner/name" \(architecture\), another model'):
        FeaturesJudge(str(tmp_path), CPU).load()
