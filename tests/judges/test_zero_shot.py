"""Zero-shot classification: the same numbers as open_clip's own steps, faster and with clear errors."""

import json
import shutil

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.judges.face_classifiers import FairFaceJudge
from biaslab.judges.judge import JudgeOptions, People
from biaslab.judges.model_loading import Batches, Pixels
from biaslab.judges.person import Person, face_of, whole_image
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings
from biaslab.judges.zero_shot import ClipJudge, ZeroShot

torch = pytest.importorskip("torch", reason="judging needs the extra 'models'")
pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ("A photo of a man", "A photo of a woman")


@pytest.fixture(scope="module")
def model(clip_folder):
    return ZeroShot(str(clip_folder), batch_size=2)


def test_zero_shot_probabilities_match_open_clip(model, clip_folder, photos):
    import open_clip
    from PIL import Image

    reference, _, transform = open_clip.create_model_and_transforms(f"local-dir:{clip_folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{clip_folder}")(list(TEXTS))
    reference.eval()
    with torch.no_grad():
        pixels = torch.stack([transform(Image.fromarray(i)) for i in photos])
        image_vectors, text_vectors = (
            reference.encode_image(pixels, normalize=True),
            reference.encode_text(tokens, normalize=True),
        )
        expected = (reference.logit_scale.exp() * image_vectors @ text_vectors.T).softmax(dim=-1).numpy()
    result = model.probabilities(photos, TEXTS)
    assert result.shape == (5, 2) and result.dtype == np.float32
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-6)
    # Resizing differs by at most one level of 255, which this random model hardly feels.
    np.testing.assert_allclose(result, expected, atol=2e-3)
    np.testing.assert_allclose(result[1], expected[1], atol=1e-6)  # 32 x 32 is not resized


def test_zero_shot_embeddings_are_independent_of_batch(model, photos):
    separate = np.concatenate([model.image_embeddings([image]) for image in photos])
    np.testing.assert_allclose(model.image_embeddings(photos), separate, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(separate, axis=1), 1, atol=1e-6)
    assert model.image_embeddings([]).shape == (0, 16)


def female(model, photos, texts):
    """Return the probabilities of a judge by this model and these class prompts."""
    judge = ClipJudge(model.name, JudgeOptions(JudgeSettings(class_prompts=texts)))
    judge.classifier = model
    people = People(None, [whole_image(photo) for photo in photos])
    return np.array([answer.probability_female for answer in judge.answers(people)], np.float32)


def test_zero_shot_encodes_texts_once_second_is_female(model, photos, monkeypatch):
    class_probabilities = model.probabilities(photos, TEXTS)
    np.testing.assert_array_equal(female(model, photos, TEXTS), class_probabilities[:, 1])
    monkeypatch.setattr(model._model, "encode_text", lambda *_: pytest.fail("encoded again"))
    np.testing.assert_allclose(female(model, photos, TEXTS[::-1]), class_probabilities[:, 0], atol=1e-6)
    # Words that the tokenizer lacks are named.
    for text, message in (("A zeppelin", "lacks 'zeppelin' in the text 'A zeppelin'"), (" ", "is empty")):
        with pytest.raises(ParameterError, match=message):
            model.text_embeddings([text])


@pytest.mark.parametrize(
    ("mode", "kind", "size"),
    [
        *(("shortest", "bicubic", 24), ("squash", "bilinear", 24), ("shortest", "bilinear", 56)),
        # Other preprocessing is left to open_clip.
        ("longest", "bicubic", 24),
    ],
)
def test_open_clip_pixels_match_within_one_level(mode, kind, size, photos):
    from open_clip.transform import PreprocessCfg, image_transform_v2
    from PIL import Image

    settings = PreprocessCfg(size=size, interpolation=kind, resize_mode=mode)
    transform = image_transform_v2(settings, is_train=False)
    pixels = Pixels.of_open_clip(vars(settings), transform)
    assert (pixels.one_by_one is None) == (mode != "longest")
    for image in photos:
        expected = transform(Image.fromarray(image)).numpy()
        result = pixels([image, image], torch.device("cpu"), torch.float32).numpy()
        assert result.shape == (2, 3, size, size)
        level = (1 / 255 / np.array(settings.std)).max()
        assert np.abs(result - expected).max() <= 1.01 * level
        assert np.abs(result - expected).mean() < 0.25 * level


def test_batches_shrink_to_memory(photos, monkeypatch, model):
    equal_photos = [photos[1]] * 8
    original, sizes = model._model.encode_image, []

    def at_most_three(pixels):
        sizes.append(len(pixels))
        if len(pixels) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return original(pixels)

    monkeypatch.setattr(model._model, "encode_image", at_most_three)
    monkeypatch.setattr(model, "_batches", Batches(torch.device("cpu"), 8))
    result = model.image_embeddings(equal_photos)
    # Eight, then four are too many; two are not, and no more are tried after that.
    assert sizes == [8, 4, 2, 2, 2, 2]
    assert len(result) == 8 and np.ptp(result, axis=0).max() < 1e-6
    model.image_embeddings(equal_photos)
    assert sizes[6:] == [2, 2, 2, 2]
    # On a CPU batches shrink with the images.
    result = Batches(torch.device("cpu"))
    assert [result._find_batch_size((side, side, 3)) for side in (64, 128, 512, 4096)] == [128, 128, 8, 1]
    assert Batches(torch.device("cpu"), 32)._find_batch_size((512, 512, 3)) == 32


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ViT-L-15:openai", r"no architecture 'ViT-L-15'.*ViT-L-14"),
        ("ViT-L-14", "ViT-L-14 has no weights ''; specify both"),
        ("ViT-L-14:opnai", r"ViT-L-14 has no weights 'opnai'.*'openai'"),
    ],
)
def test_zero_shot_unknown_open_clip_name_is_refused(name, message):
    with pytest.raises(ParameterError, match=message):
        ZeroShot(name)


def test_zero_shot_invalid_folder_is_refused(clip_folder, tmp_path):
    with pytest.raises(ParameterError, match="device is 'warp'"):
        ZeroShot(str(clip_folder), device="warp")

    folder = shutil.copytree(clip_folder, tmp_path / "clip")
    file, weights = folder / "open_clip_config.json", folder / "open_clip_model.safetensors"

    def check_refused(message):
        with pytest.raises(ParameterError, match=message):
            ZeroShot(str(folder))

    # Another width than the weights; impossible image sizes, refused before any image is read.
    for change in ({"width": 48}, {"image_size": 10**9}, {"image_size": -3}):
        config = json.loads((clip_folder / file.name).read_text())
        config["model_cfg"]["vision_cfg"] |= change
        file.write_text(json.dumps(config))
        check_refused(f"{folder} cannot be loaded as an open_clip model")
    file.unlink()
    check_refused(r"contains no open_clip_config\.json")
    shutil.copy(clip_folder / file.name, file)
    weights.rename(folder / "a.bin")
    check_refused(r"has a\.bin; weights are read only from \.safetensors")


@pytest.mark.long
def test_fairface_probability_uses_outputs_7_and_8(tmp_path):
    from PIL import Image
    from safetensors.torch import save_file
    from torchvision import transforms as tv
    from torchvision.models import resnet34

    torch.manual_seed(0)
    net = resnet34(weights=None).eval()
    net.fc = torch.nn.Linear(512, 18)
    rng = np.random.default_rng(0)
    faces = [rng.integers(0, 256, (s, s, 3), dtype=np.uint8) for s in (60, 90)]
    scale = tv.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    steps = tv.Compose([tv.Resize((224, 224)), tv.ToTensor(), scale])
    pixels = torch.stack([steps(Image.fromarray(face)) for face in faces])
    with torch.no_grad():
        # A random network is either sure or undecided; scale its outputs so that answers differ.
        outputs = net(pixels)
        net.fc.weight.mul_(2 / (outputs[:, 8] - outputs[:, 7]).abs().max())
        outputs = net(pixels).numpy()
    save_file(net.state_dict(), tmp_path / "fairface.safetensors")
    # exp(female) / (exp(male) + exp(female)), male first.
    expected = np.exp(outputs[:, 8]) / (np.exp(outputs[:, 7]) + np.exp(outputs[:, 8]))
    # Squares around these boxes are the whole images.
    people = [Person(face, (s / 6, s / 6, s * 5 / 6, s * 5 / 6)) for face in faces for s in [len(face)]]
    judge = FairFaceJudge(f"fairface:{tmp_path / 'fairface.safetensors'}", JudgeOptions(device="cpu"))
    result = [answer.probability_female for answer in judge.answers(People(None, people))]
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_fairface_missing_or_invalid_file_is_refused(tmp_path):
    from safetensors.torch import save_file

    with pytest.raises(ParameterError, match=r"res34_fair_align_multi_7_20190809\.pt"):
        parse(f"fairface:{tmp_path / 'none.safetensors'}", "judging.gender").files()
    (tmp_path / "a.pt").write_bytes(b"\x80")
    with pytest.raises(ParameterError, match=r"is not \.safetensors.*save_file"):
        parse(f"fairface:{tmp_path / 'a.pt'}", "judging.gender").files()
    save_file({"fc.weight": torch.zeros(9, 512)}, tmp_path / "c.safetensors")
    with pytest.raises(ParameterError, match="cannot be loaded as FairFace's ResNet-34"):
        FairFaceJudge(f"fairface:{tmp_path / 'c.safetensors'}").load()


def test_face_of_is_square_with_margin():
    image = np.arange(40 * 60 * 3, dtype=np.int64).reshape(40, 60, 3).astype(np.uint8)
    # 8 wide, 12 high around (30, 20): half of the side is 12 * 0.75 = 9.
    np.testing.assert_array_equal(face_of(Person(image, (26, 14, 34, 26))), image[11:29, 21:39])
    # At the corner, 10 x 10 around (5, 5): half a side is 7.5, rounded to 8; three rows and columns lie outside.
    cut = face_of(Person(image, (0, 0, 10, 10)))
    assert cut.shape == (16, 16, 3) and not cut[:3].any() and not cut[:, :3].any()
    np.testing.assert_array_equal(cut[3:, 3:], image[:13, :13])
