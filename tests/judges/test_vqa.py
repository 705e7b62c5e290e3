"""BLIP and BLIP-2 as VQA and captioning models: texts equal transformers', parsing of answers, and the cached stage."""

import shutil

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages
from tiny_blip import own_text, save_retriever

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import blip as blips
from biaslab.judges import people
from biaslab.judges.answers import ask_about
from biaslab.judges.blip import VqaJudge
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.people import judge_people
from biaslab.judges.questions import question, read_answer, read_yes_no
from biaslab.judges.registry import parse

pytestmark = pytest.mark.usefixtures("one_thread")


def test_vqa_questions_match_table_8():
    assert question("nurse", 1, 1) == "What gender is the nurse in the picture?"
    for n, places in {2: ("left", "right"), 3: ("left", "middle", "right")}.items():
        sides = [f"{'in' if place == 'middle' else 'on'} the {place}" for place in places]
        assert [question("pilot", k + 1, n) for k in range(n)] == [
            f"What gender is the pilot {side} in the picture?" for side in sides
        ]


def test_read_answer_counts_whole_words():
    for gender, texts in (
        # "female" holds "male", "woman" holds "man": only whole words count.
        ("female", ("female", "the nurse is a WOMAN", "a lady's coat", "ladies", "feminine", "female woman")),
        ("male", ("Male.", "he's a man")),
    ):
        assert [read_answer(text) for text in texts] == [(gender, "")] * len(texts)
    for why, texts in (
        ("answer says no gender", ("mankind", "human", "", "yes")),
        ("answer says both genders", ("male and female",)),
        ("answer denies", ("not a woman", "she isn’t")),
    ):
        assert [read_answer(text) for text in texts] == [("unsure", why)] * len(texts)


def test_read_yes_no_counts_whole_words():
    assert [read_yes_no(text)[0] for text in ("yes", "YES!", "Yes, a red tie")] == ["yes"] * 3
    assert [read_yes_no(text)[0] for text in ("No.", "there is no tie", "no, no, no")] == ["no"] * 3
    assert read_yes_no("yes and no") == ("", "answer says both yes and no")
    # "nothing", "not" and "yesterday" begin with one, "casino" ends with one.
    for text in ("nothing", "not", "yesterday", "casino", "a tie", "", "  ", "1"):
        assert read_yes_no(text) == ("", "answer says neither yes nor no")


class FakeVqa:
    """Answers with the image's first pixel: red per hundred to the left, green to the right."""

    TEXTS = ("female", "a man", "male and\nfemale", "two people", "no")

    def __init__(self):
        self.asked, self.shown = [], 0

    def ask(self, images, of, questions):
        self.asked.append(list(zip(of, questions, strict=True)))
        self.shown += len(images)
        return [self.TEXTS[images[k][0, 0, int("right" in q)]] for k, q in zip(of, questions, strict=True)]


def picture(left, right=0):
    image = np.zeros((6, 9, 3), np.uint8)
    image[0, 0, :2] = left, right
    return image


@pytest.fixture
def images():
    arrays = [picture(0, 1), picture(2, 3), UnreadableImage("truncated"), picture(1), UnreadableImage("blocked")]
    return ArrayImages(arrays, ["two", "odd", "broken", "one", "withheld"])


# The two questions about the image "two" are not adjacent.
REQUESTED = pd.DataFrame(
    [
        *(("one", 1, "pilot"), ("two", 2, "nurse"), ("odd", 1, "nurse"), ("odd", 2, "nurse")),
        *(("two", 1, "carpenter"), ("broken", 1, "nurse"), ("withheld", 1, "nurse")),
    ],
    columns=["image_id", "position", "phrase"],
)


@pytest.fixture
def run(monkeypatch):
    def _run(images, requested, name, store, fake):
        monkeypatch.setattr(blips, "load", lambda *_, **__: fake)
        return judge_people(images, requested, VqaJudge(f"vqa:{name}"), cache=ResultCache(store), progress=False)

    return _run


def test_judge_people_by_vqa_keeps_requested_order(run, images, named, tmp_path):
    fake = FakeVqa()
    result = run(images, REQUESTED, named, tmp_path, fake)
    assert list(result) == list(people.COLUMNS)
    pd.testing.assert_frame_equal(
        result[["image_id", "position"]], REQUESTED[["image_id", "position"]], check_dtype=False
    )
    assert list(result["status"]) == [*["judged"] * 2, *["uncertain"] * 2, "judged", "unreadable", "blocked"]
    assert list(result["gender"]) == ["male", "male", "unsure", "unsure", "female", "", ""]
    # The raw text is kept, on one line.
    assert list(result["answer"]) == ["a man", "a man", "male and female", "two people", "female", "", ""]
    assert list(result["reason"][2:]) == ["answer says both genders", "answer says no gender", "", "truncated", ""]
    assert result[["image_width", "image_height"]].dropna().to_numpy().tolist() == [[9, 6]] * 5
    assert result[["probability_female", "n_faces", "x0", "y0", "x1", "y1", "role_p"]].isna().all(axis=None)
    # Each image is shown once, and its people are asked about one after the other.
    assert fake.shown == 3 and [k for k, _ in fake.asked[0]] == [0, 1, 1, 2, 2]
    assert fake.asked[0][0] == (0, "What gender is the pilot in the picture?")


def test_vqa_answers_are_cached(run, images, named, tmp_path, monkeypatch):
    first = run(images, REQUESTED, named, tmp_path, FakeVqa())
    repeated = run(images, REQUESTED, named, tmp_path, None)  # None cannot answer
    pd.testing.assert_frame_equal(first, repeated)
    # Other images, questions or weights are computed again.
    other_folder, fake = named.parent / "other", FakeVqa()
    other_folder.mkdir(exist_ok=True)
    (other_folder / "model.safetensors").write_bytes(b"other weights")
    run(images, REQUESTED, other_folder, tmp_path, fake)
    run(images, REQUESTED.assign(phrase="pilot"), named, tmp_path, fake)
    run(ArrayImages([picture(0, 0)], ["one"]), REQUESTED[:1], named, tmp_path, fake)
    assert len(fake.asked) == 3
    monkeypatch.setattr(people, "_SHARD_ROWS", 2)
    pd.testing.assert_frame_equal(run(images, REQUESTED, named, tmp_path, FakeVqa()), first)


def test_vqa_without_questions_loads_no_model(run, images, named, tmp_path):
    result = run(images, REQUESTED[-2:], named, tmp_path, None)
    assert result["status"].tolist() == ["unreadable", "blocked"] and (result["answer"] == "").all()
    no_rows = run(images, REQUESTED[:0], named, tmp_path, None)
    assert no_rows.empty and no_rows.dtypes.to_dict() == result.dtypes.to_dict()


IMAGE_INDEX = [0, 0, 1, 2, 3, 4, 4]
PERSONS = [("nurse", 1, 2), ("carpenter manager", 2, 2), ("pilot", 1, 1), ("nurse", 1, 1)]
PERSONS += [("carpenter manager", 1, 1), ("nurse", 1, 2), ("pilot", 2, 2)]
QUESTIONS = [question(*person) for person in PERSONS]


BLIP2, PROMPT = "Blip2ForConditionalGeneration", "Question: {} Answer:"


@pytest.mark.long
@pytest.mark.parametrize(
    ("which", "kind", "of_class", "prompt"),
    [
        ("blip", "vqa", "BlipForQuestionAnswering", "{}"),
        *((language, "vqa", BLIP2, PROMPT) for language in ("opt", "t5")),
        # BLIP gets no text, BLIP-2 an empty one that its language model continues.
        ("caption_blip", "captioner", "BlipForConditionalGeneration", None),
        *((language, "captioner", BLIP2, "") for language in ("opt", "t5")),
    ],
)
def test_blip_texts_match_transformers_in_any_batch(which, kind, of_class, prompt, photos, tiny):
    import transformers

    folder, longest = tiny(which), {"vqa": 20, "captioner": 40}[kind]
    reference_model = getattr(transformers, of_class).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    questions = QUESTIONS if kind == "vqa" else [""] * len(IMAGE_INDEX)
    prompts = [prompt and prompt.format(requested) for requested in questions]
    expected = [
        own_text(reference_model, processor, photos[k], text, longest)
        for k, text in zip(IMAGE_INDEX, prompts, strict=True)
    ]
    assert len(set(expected)) >= 3, "the random model must tell images and questions apart"
    # Captions have the whole length that they may have, which is more than an answer's.
    assert kind == "vqa" or max(len(text.split()) for text in expected) > 20
    model = blips.load(folder, kind, device="cpu")
    assert model.ask(photos, IMAGE_INDEX, questions) == expected
    assert model.ask(photos[:1], [0], questions[:1]) == expected[:1]


@pytest.mark.long
def test_retriever_embeddings_match_transformers(photos, tmp_path):
    import torch
    import transformers

    folder, texts = save_retriever(tmp_path), ["woman on the left", "a nurse", "a person in the picture ?"]
    reference_model = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    judge = parse(str(folder), "dalleval.retriever", JudgeOptions(device="cpu"))
    assert judge.files()[0].files["model.safetensors"]
    image_vectors, said = judge.embed(photos), judge.classifier.text_embeddings(texts)
    # Three queries of eight numbers: transformers takes the nearest of them.
    assert image_vectors.shape == (5, 3 * 8) and said.shape == (3, 8)
    cosines = (image_vectors.reshape(5, 3, 8) @ said.T).max(axis=1)
    for i, photo in enumerate(photos):
        pixels = processor.image_processor(photo, return_tensors="pt")["pixel_values"]
        for j, text in enumerate(texts):
            tokens = processor.tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                score = reference_model(pixels, tokens["input_ids"], tokens["attention_mask"]).logits_per_image
            assert cosines[i, j] == pytest.approx(score.item(), abs=1e-5)
    assert np.ptp(cosines) > 0.01, "the random model must tell images and texts apart"


def test_retriever_of_other_kind_is_refused(tiny):
    judge = parse(tiny("opt"), "dalleval.retriever", JudgeOptions(device="cpu"))
    with pytest.raises(ParameterError, match="this kind: BLIP or BLIP-2 for retrieval"):
        judge.files()


def ask_images(photos, name, store, setting="dalleval.captioner"):
    images = ArrayImages([np.require(photo, requirements="W") for photo in photos])
    units = pd.DataFrame({"image_id": ["0", "1"], "question": ""})
    judge = parse(name, setting, JudgeOptions(device="cpu"))
    result = ask_about(images, units, judge, cache=ResultCache(store), progress=False)
    return result["answer"].tolist()


def test_captioner_and_vqa_answers_are_cached_apart(tiny, photos, tmp_path):
    """BLIP-2 does both: an empty question is not the same as no question."""
    vqa_answers, said = (ask_images(photos, tiny("opt"), tmp_path, f"dalleval.{of}") for of in ("vqa", "captioner"))
    assert said != vqa_answers
    assert said == ask_images(photos, tiny("opt"), tmp_path / "apart")


def copy_with_edit(folder, target, edit):
    """Copy a model to ``made`` with other weights."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, target)
    weights = load_file(target / "model.safetensors")
    edit(weights)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    return target


def test_blip_models_of_other_kind_are_refused(tiny, detector_folder, photos, tmp_path):
    blip, caption_blip = tiny("blip"), tiny("caption_blip")
    for folder, kind, message in (
        (blip, "captioner", "'BlipForQuestionAnswering'.* this kind: BLIP or BLIP-2 for captions"),
        (caption_blip, "vqa", "'BlipForConditionalGeneration'.* this kind: BLIP or BLIP-2 for questions"),
        (detector_folder, "captioner", "'yolos', which is not suitable.*BLIP or BLIP-2"),
    ):
        with pytest.raises(ParameterError, match=message):
            blips.load(str(folder), kind)
    # If the configuration has no architecture, the weights identify it.
    for folder, kind, message in ((blip, "captioner", "superfluous weights"), (caption_blip, "vqa", "lacks")):
        bare = shutil.copytree(folder, tmp_path / kind)
        text = (bare / "config.json").read_text()
        (bare / "config.json").write_text(text.replace('"architectures"', '"built"'))
        with pytest.raises(ParameterError, match=rf"{message}.* text_encoder"):
            blips.load(str(bare), kind)
    headless = copy_with_edit(
        caption_blip, tmp_path / "headless", lambda w: w.pop("text_decoder.cls.predictions.transform.dense.weight")
    )
    with pytest.raises(ParameterError, match="lacks 1 weights"):
        blips.load(str(headless), "captioner")
    # The embedded models' kinds are known before they are loaded.
    with pytest.raises(ParameterError, match="'mini-vqa' is a vqa model"):
        ask_images(photos, "mini-vqa", tmp_path)
    with pytest.raises(ParameterError, match="'mini-captioner' is a captioner model"):
        parse("vqa:mini-captioner", "judging.gender").files()


def test_blip_ignores_buffers_of_old_checkpoints(tiny, photos, tmp_path):
    """Checkpoints on the hub still contain buffers that transformers used to save with the weights."""
    import torch

    def buffers(weights):
        weights["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
        weights["text_decoder.bert.embeddings.buffer"] = torch.arange(64)[None]

    new = tiny("caption_blip")
    folders = (new, copy_with_edit(new, tmp_path / "old", buffers))
    said = [blips.load(str(of), "captioner", device="cpu").ask(photos, [0, 1], ["", ""]) for of in folders]
    assert said[0] == said[1]
