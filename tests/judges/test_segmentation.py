"""Instances from segmenters, from tags, boxes and masks, and from files: real architectures with random weights."""

from itertools import chain, pairwise

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError, ParameterError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import instance_models, segmentation
from biaslab.judges.instance_models import Instance
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.registry import parse
from biaslab.judges.settings import Thresholds
from biaslab.metrics.instances import BOX, COLUMNS, encode, masks

pytestmark = pytest.mark.usefixtures("one_thread")
LOW = Thresholds(tag=0, box=0, text=0, area=0)


@pytest.fixture(scope="module")
def photos():
    rng = np.random.default_rng(0)
    result = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((40, 48), (40, 48), (30, 50))]
    for image in result:
        image.flags.writeable = False  # as decoded files are
    return result


# -- regions -----------------------------------------------------------------------------------------------

NAMES = {0: "background", 1: "dog", 2: "wall"}


def test_regions_of_class_map_match_hand_computation():
    classes = np.array([[1, 0, 0, 2], [0, 1, 0, 2], [0, 0, 0, 0], [1, 0, 2, 2]])
    probabilities = np.linspace(0.2, 0.95, 16).reshape(4, 4)
    result = instance_models.regions(classes, probabilities, NAMES)
    # The first two dogs touch at a corner, so they are one; the wall is in two parts.
    assert [i.object for i in result] == ["dog", "dog", "wall", "wall"]
    assert result[0].box == (0.0, 0.0, 0.5, 0.5) and result[1].box == (0.0, 0.75, 0.25, 1.0)
    assert result[0].score == pytest.approx((0.2 + 0.45) / 2)
    assert result[0].mask.sum() == 2 and result[0].mask[0, 0] and result[0].mask[1, 1]
    # Of sixteen pixels an eighth is two.
    assert [i.mask.sum() for i in instance_models.regions(classes, probabilities, NAMES, 2 / 16)] == [2, 2, 2]
    (wall,) = [i for i in instance_models.regions(classes, probabilities, NAMES, stuff={"wall"}) if i.object == "wall"]
    assert wall.box == (0.5, 0.0, 1.0, 1.0) and wall.mask.sum() == 4
    assert wall.score == pytest.approx(probabilities[classes == 2].mean())
    assert instance_models.regions(np.zeros((3, 3), int), np.ones((3, 3)), NAMES) == []
    with pytest.raises(ParameterError, match="class 7"):
        instance_models.regions(np.full((2, 2), 7), np.ones((2, 2)), NAMES)


# -- segmenters --------------------------------------------------------------------------------------------


def test_segformer_instances_match_its_logits(tiny, photos):
    import torch
    import transformers
    from scipy.ndimage import label

    model = transformers.SegformerForSemanticSegmentation.from_pretrained(tiny("segformer")).eval()
    processor = transformers.SegformerImageProcessor.from_pretrained(tiny("segformer"))
    result = instance_models.Segmenter(tiny("segformer"), LOW, device="cpu").segment(photos)
    named = {1: "dog", 2: "coffee cup", 3: "person"}
    for image, instances_seen in zip(photos, result, strict=True):
        with torch.no_grad():
            logits = model(**processor(images=image.copy(), return_tensors="pt")).logits
        (logits,) = torch.nn.functional.interpolate(logits, image.shape[:2], mode="bilinear", align_corners=False)
        shares, best = logits.double().softmax(0).numpy(), logits.argmax(0).numpy()
        for k, name in named.items():
            parts, n = label(best == k, structure=np.ones((3, 3)))
            label_instances = [i for i in instances_seen if i.object == name]
            assert abs(len(label_instances) - n) <= 1  # a tie between classes may go either way
            if len(label_instances) == n:
                sizes = sorted((parts == i).sum() for i in range(1, n + 1))
                assert sorted(i.mask.sum() for i in label_instances) == pytest.approx(sizes, abs=2)
                scores = sorted(shares[k][parts == i].mean() for i in range(1, n + 1))
                np.testing.assert_allclose(sorted(i.score for i in label_instances), scores, atol=1e-2)
    assert {i.object for instances_seen in result for i in instances_seen} == set(named.values())


@pytest.mark.parametrize("kind", ["segformer", "mask2former"])
def test_segmenter_is_independent_of_batch(kind, tiny, photos):
    segmenter = instance_models.Segmenter(tiny(kind), LOW, device="cpu")
    one_by_one, batched = [segmenter.segment([photo])[0] for photo in photos], segmenter.segment(photos)
    for first, second in zip(one_by_one, batched, strict=True):
        assert [i.object for i in first] == [i.object for i in second]
        np.testing.assert_allclose([i.score for i in first], [i.score for i in second], atol=1e-4)
        np.testing.assert_allclose([i.box for i in first], [i.box for i in second], atol=1e-4)
        assert all((a.mask != b.mask).mean() < 0.01 for a, b in zip(first, second, strict=True))
    assert sum(map(len, one_by_one)) > 0
    for image, instances_seen in zip(photos, one_by_one, strict=True):
        assert all(i.mask.shape == image.shape[:2] and 0 <= i.score <= 1 for i in instances_seen)


# -- tags, boxes and masks ---------------------------------------------------------------------------------

WORDS = ("dog", "cup", "skateboard")


@pytest.mark.long
@pytest.mark.parametrize(("tagger", "segmenter"), [("siglip", "sam"), ("clip", "none")])
def test_grounded_finds_instances_in_each_image(tagger, segmenter, tiny, photos):
    names = [tiny(n) if n != "none" else n for n in (tagger, "grounding_dino", segmenter)]
    result = instance_models.Grounded(*names, LOW, WORDS, device="cpu").segment(photos)
    assert len(result) == 3 and all(result)
    for image, instances_seen in zip(photos, result, strict=True):
        for i in instances_seen:
            assert i.object in WORDS and 0 <= i.score <= 1
            assert 0 <= i.box[0] < i.box[2] <= 1 and 0 <= i.box[1] < i.box[3] <= 1
            assert (i.mask is None) == (segmenter == "none")
            assert i.mask is None or (i.mask.shape == image.shape[:2] and i.mask.dtype == bool)


def test_tagger_of_siglip_and_clip_matches_transformers(tiny, photos):
    import torch
    import transformers

    for name, independent in (("siglip", True), ("clip", False)):
        model = transformers.AutoModelForZeroShotImageClassification.from_pretrained(tiny(name)).eval()
        processor = transformers.AutoProcessor.from_pretrained(tiny(name))
        texts = ["A photo of a dog", "A photo of a cup", "A photo of a skateboard"]
        padding = "max_length" if independent else True
        expected = []
        for image in photos:
            given = processor(text=texts, images=image.copy(), padding=padding, return_tensors="pt")
            with torch.no_grad():
                logits = model(**given).logits_per_image[0].double()
            expected.append((1 / (1 + (-logits).exp()) if independent else logits.softmax(0)).numpy())
        expected = np.array(expected)
        threshold = float(np.median(expected))
        tags = list(instance_models._tagger(tiny(name), LOW.with_changes(tag=threshold), WORDS, "cpu")(photos))
        margin = 1e-5
        for tag_set, share in zip(tags, expected, strict=True):
            for word, p in zip(WORDS, share, strict=True):
                assert abs(p - threshold) < margin or (word in tag_set) == (p >= threshold)
        assert 0 < sum(map(len, tags)) < 9


def test_florence_tagger_lists_detected_labels(tiny, photos, monkeypatch):
    from transformers import Florence2Processor

    monkeypatch.setattr(instance_models, "_MAX_TOKENS", 12)
    tagger = instance_models._tagger(tiny("florence2"), LOW, (), "cpu")
    # Random weights give no parseable answer.
    assert [type(tags) for tags in tagger(photos)] == [list] * 3
    answer = "Dog<loc_1><loc_2><loc_3><loc_4>coffee cup<loc_1><loc_1><loc_2><loc_2>dog<loc_0><loc_0><loc_1><loc_1>"
    monkeypatch.setattr(Florence2Processor, "batch_decode", lambda *_, **__: [answer])
    assert list(tagger(photos[:1])) == [["dog", "coffee cup"]]


@pytest.fixture
def boxes(tiny):
    return instance_models._Boxes(tiny("grounding_dino"), Thresholds(), "cpu")


def test_boxes_overlapping_keep_best_score(boxes, monkeypatch):
    import torch

    image = np.zeros((100, 200, 3), np.uint8)
    said = [
        (["dog", "cup", ""], [0.5, 0.9, 0.8], [[0, 0, 100, 100], [0, 0, 100, 90], [150, 0, 200, 50]]),
        (["hat", "hat"], [0.7, 0.6], [[-20, 10, 60, 60], [100, 0, 300, 100]]),
    ]
    requested_tags = []

    def fake_answer(_, tags):
        names, *numbers = said[len(requested_tags)]
        requested_tags.append(tags)
        return {"text_labels": names} | dict(zip(("scores", "boxes"), map(torch.tensor, numbers), strict=True))

    monkeypatch.setattr(boxes, "_ask", fake_answer)
    monkeypatch.setattr(boxes, "_chunks", lambda tags: [tags[:2], tags[2:]])
    names, scores, result = boxes(image, ["dog", "cup", "hat"])
    # The dog's box overlaps the cup's by 0.9; nothing names the third; the hats' are cut at the edge. Of the first of
    # them 60 x 50 of 60 x 50 lie in the cup's 100 x 90: an overlap of a third.
    assert requested_tags == [["dog", "cup"], ["hat"]]
    assert names == ["cup", "hat", "hat"] and scores == pytest.approx([0.9, 0.7, 0.6])
    np.testing.assert_allclose(result, [[0, 0, 100, 90], [0, 10, 60, 60], [100, 0, 200, 100]])


def test_boxes_chunks_fit_token_limit(boxes):
    tags = [f"dog cup hat{' red' * (k % 3)}" for k in range(100)]
    chunks = list(boxes._chunks(tags))
    assert list(chain(*chunks)) == tags and len(chunks) > 1
    for chunk in chunks:
        ids = boxes.processor.tokenizer(" ".join(f"{tag}." for tag in chunk)).input_ids
        assert len(ids) <= instance_models.TOKENS
    # No chunk has room for the next tag.
    for chunk, next_chunk in pairwise(chunks):
        ids = boxes.processor.tokenizer(" ".join(f"{tag}." for tag in [*chunk, next_chunk[0]])).input_ids
        assert len(ids) > instance_models.TOKENS
    with pytest.raises(ParameterError, match="257 tokens"):
        list(boxes._chunks(["dog " * 256]))


def test_match_tag_finds_tag_by_words():
    named = {"dog": "dog", "##board": "skateboard", "table wooden": "wooden table", "moon": "", "": ""}
    named["cup dog"] = "dog"  # both are named: the first tag of those alike
    for text, tag in named.items():
        assert instance_models._match_tag(text, ["dog", "cup", "wooden table", "skateboard"]) == tag


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("siglip", "segformer", "none"), "'segformer', .*this kind: detector with word prompts"),
        (("siglip", "grounding_dino", "segformer"), "segmenter with box prompts"),
    ],
)
def test_grounded_parts_of_other_kind_are_refused(parts, message, tiny):
    names = [tiny(n) if n != "none" else n for n in parts]
    with pytest.raises(ParameterError, match=message):
        parse(f"grounded:{'+'.join(names)}", "triplets.objects").files()


def test_grounded_requires_vocabulary_and_three_parts(tiny):
    with pytest.raises(ParameterError, match="vocabulary"):
        instance_models.Grounded(tiny("siglip"), tiny("grounding_dino"), "none", LOW, device="cpu")
    for parts in ("", "a/b", "a/b+c/d", "a/b++c/d", "a/b+c/d+e/f+g/h"):
        with pytest.raises(ParameterError, match="TAGGER"):
            parse(f"grounded:{parts}", "triplets.objects").digest()


# -- the stage ---------------------------------------------------------------------------------------------


class FakeSegmenter:
    """Returns as many dogs as the first pixel's red, with rising scores; the last has a box and no mask."""

    def __init__(self):
        self.loaded, self.looked = [], 0

    def load(self, judge):
        self.loaded.append((judge.name, judge.vocabulary))
        return self

    def segment(self, images):
        self.looked += len(images)
        result = []
        for image in images:
            n, mask = int(image[0, 0, 0]), np.eye(*image.shape[:2], dtype=bool)
            result.append([Instance("dog", (k + 1) / 10, (0, 0, 1, 1), None if k == n - 1 else mask) for k in range(n)])
        return result


def picture(n):
    image = np.zeros((6, 8, 3), np.uint8)
    image[0, 0, 0] = n
    return image


def test_find_instances_orders_by_score_and_caches(named, tmp_path, monkeypatch):
    source = ArrayImages([picture(3), UnreadableImage("truncated"), picture(0), picture(1)], list("abcd"))
    words = tmp_path / "words.txt"
    words.write_text("Dog\n\ncoffee_cup\ndog\n")
    fake, store = FakeSegmenter(), ResultCache(tmp_path / "store")
    monkeypatch.setattr(segmentation.InstanceJudge, "load", lambda judge: fake.load(judge))

    def find(images, **options):
        given = JudgeOptions(vocabulary_file=str(words), device="cpu", **options)
        judge = parse(str(named), "triplets.objects", given)
        return segmentation.find_instances(images, judge, cache=store, progress=False)

    result = find(source)
    assert list(result.objects) == list(COLUMNS)
    assert result.objects[["image_id", "instance"]].to_numpy().tolist() == [["a", 0], ["a", 1], ["a", 2], ["d", 0]]
    np.testing.assert_allclose(result.objects["score"], [0.3, 0.2, 0.1, 0.1])
    assert (result.objects["rle"] == "").tolist() == [True, False, False, True]
    assert (result.objects[["height", "width"]] == [6, 8]).all(axis=None)
    np.testing.assert_array_equal(masks(result.objects[1:2])[0], np.eye(6, 8, dtype=bool))
    image_rows = [["a", "", ""], ["b", "unreadable", "truncated"], ["c", "", ""], ["d", "", ""]]
    assert result.images.to_numpy().tolist() == image_rows
    assert fake.loaded == [(str(named), ("dog", "coffee cup"))] and fake.looked == 3
    repeated = find(source)
    pd.testing.assert_frame_equal(repeated.objects, result.objects)
    assert fake.looked == 3
    # Another threshold is computed again.
    find(source, thresholds=Thresholds(box=0.3))
    assert fake.looked == 6
    # No image and no object are empty tables.
    for images in ([], [picture(0)]):
        result = find(ArrayImages(images))
        assert result.objects.empty and list(result.objects) == list(COLUMNS) and len(result.images) == len(images)


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [(None, InputError, "does not exist"), (b"\n \n", InputError, "no word"), (b"caf\xe9", InputError, "byte 0xe9")],
)
def test_vocabulary_words_invalid_file_is_refused(tmp_path, content, error, said):
    if content is not None:
        (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(error, match=rf"words\.txt.*{said}"):
        segmentation.words(str(tmp_path / "words.txt"))


# -- files -------------------------------------------------------------------------------------------------

MASK = np.zeros((4, 6), bool)
MASK[1:3, 2:5] = True
ROWS = [
    {"image_id": "a/0", "object": "Coffee_Cup", "score": 0.4, "rle": encode(MASK), "height": 4, "width": 6},
    {"image_id": "b/0", "object": "", "score": ""},
    {"image_id": "a/0", "object": "dog", "score": 0.9},
    {"image_id": "a/0", "object": "dog", "score": 0.9},
]
IDS = ["b/0", "a/0", "c/0"]


def write_instances(tmp_path, rows=ROWS, *, kind="csv", drop=(), **changed):
    """Write a file of instances with the box 0.1 to 0.5, and ``changed`` values of the first row."""
    frame = pd.DataFrame(rows).astype(object)
    for k, side in enumerate(BOX):
        frame[side] = [(0.1, 0.2, 0.5, 0.6)[k] if o else "" for o in frame["object"]]
    for name, value in changed.items():
        frame.loc[0, name] = value
    frame = frame.drop(columns=list(drop))
    path = tmp_path / f"objects.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        numbers = [c for c in frame if c not in ("image_id", "object", "rle")]
        frame[numbers] = frame[numbers].apply(pd.to_numeric, errors="coerce")
        frame.fillna({"rle": ""}).to_parquet(path)
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_read_instance_file_returns_sorted_objects(kind, tmp_path, caplog):
    result = segmentation.read(write_instances(tmp_path, kind=kind), IDS)
    assert list(result.objects) == list(COLUMNS)
    objects = [["a/0", 0, "dog", 0.9], ["a/0", 1, "coffee cup", 0.4]]
    assert result.objects[["image_id", "instance", "object", "score"]].to_numpy().tolist() == objects
    np.testing.assert_array_equal(masks(result.objects[1:])[0], MASK)
    assert result.objects[list(BOX)].iloc[0].tolist() == [0.1, 0.2, 0.5, 0.6]
    # b was judged and has no objects; c is not in the file.
    assert result.images.to_numpy().tolist() == [
        ["b/0", "", ""],
        ["a/0", "", ""],
        ["c/0", "missing", "not in the file"],
    ]
    assert "duplicate instances that are ignored: 1" in caplog.text
    boxes = segmentation.read(write_instances(tmp_path, kind=kind, drop=("rle", "height", "width")), IDS)
    assert (boxes.objects["rle"] == "").all() and boxes.objects["height"].isna().all()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"image_id": "z/9"}, r"'z/9'.* 3 images.*data row 1.*'b/0'"),
        ({"score": 1.5}, r"score is '1.5'.*0 to 1"),
        ({"score": ""}, "score is ''"),
        ({"left": 12}, r"left is '12'.*fraction"),
        ({"right": "nan"}, "right is 'nan'"),
        ({"left": 0.5}, "left is '0.5', which is not below right"),
        ({"object": ""}, "object is empty"),
        ({"height": 5}, r"24 pixels, not 5 x 6"),
        ({"height": ""}, "height is ''"),
        ({"width": 2.5}, "width is '2.5'"),
        ({"rle": "zzz"}, "characters"),
    ],
)
def test_read_instance_file_invalid_value_is_named(changed, said, tmp_path):
    with pytest.raises(InputError, match=said):
        segmentation.read(write_instances(tmp_path, **changed), IDS)


def test_read_instance_file_missing_part_is_named(tmp_path):
    other_row = {"image_id": "a/0", "object": "hat", "score": 1, "rle": encode(np.ones((8, 8), bool))}
    with pytest.raises(InputError, match=r"'a/0' differs in size.*data row 2"):
        segmentation.read(write_instances(tmp_path, [ROWS[0], other_row | {"height": 8, "width": 8}]), IDS)
    for column in ("image_id", "object", "score", "top", "height"):
        with pytest.raises(InputError, match=f"no column '{column}'"):
            segmentation.read(write_instances(tmp_path, drop=[column]), IDS)
    with pytest.raises(InputError, match=r"none\.csv"):
        judge = parse(str(tmp_path / "none.csv"), "triplets.objects")
        segmentation.find_instances(ArrayImages([]), judge, cache=ResultCache(tmp_path))
