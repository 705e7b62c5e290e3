"""Training of mini-vqa: its data, a tiny run of the real code, and its metrics."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="training needs the extra 'models'")

from biaslab.papers.dalleval import prompts  # noqa: E402
from training import common, loop  # noqa: E402
from training import vqa as train_vqa  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "no_card")


SMALL = {"steps": 4, "batch": 8, "seed": 5, "pool_size": 32, "held_out": 8, "progress": False}


@pytest.fixture(scope="module")
def asked_model(tmp_path_factory):
    """The folder of a model after four steps, and its quality."""
    folder = tmp_path_factory.mktemp("vqa")
    return folder, train_vqa.train(folder, **SMALL)


@pytest.fixture(scope="module")
def pool_and_scenes():
    """A pool of 400 people without rendered images, and their scenes."""
    with pytest.MonkeyPatch.context() as patch:
        scenes = []

        def renders(scenes_given, **options):
            scenes.extend(scenes_given)
            return np.zeros((len(scenes_given), 64, 64, 3), np.uint8)

        patch.setattr(loop, "renders", renders)
        return train_vqa.pool(400, 3), scenes


def test_pool_answers_match_scenes(pool_and_scenes):
    pool, scenes = pool_and_scenes
    assert pool.answers.shape == (400, 16)
    words = np.array(["no", "yes", "male", "female"])[pool.answers]
    for row, scene in zip(words, scenes, strict=True):
        (person,) = scene.people
        assert row[0] == person.gender
        worn = [name for name, expected in zip(prompts.ATTRIBUTES, row[1:], strict=True) if expected == "yes"]
        assert set(worn) == set(person.attributes)
        assert set(row[1:]) <= {"no", "yes"}
    # Genders are even whatever is worn, and everything is worn by some and not by others.
    women = words[:, 0] == "female"
    assert stats.binomtest(int(women.sum()), 400, 0.5).pvalue > 1e-4
    share = (words[:, 1:] == "yes").mean(axis=0)
    assert (share > 0.01).all() and (share < 0.75).all()
    for k in range(1, 16):
        worn = words[:, k] == "yes"
        assert stats.binomtest(int(women[worn].sum()), int(worn.sum()), 0.5).pvalue > 1e-4


def test_tokenizer_knows_questions_and_answers():
    words = train_vqa.tokenizer()
    ids = train_vqa.question_ids(words)
    assert train_vqa.questions() == [prompts.GENDER_QUESTION, *map(prompts.attribute_question, prompts.ATTRIBUTES)]
    assert len(ids) == 16 and not (ids == words.unk_token_id).any()
    # No longer than the longest, each with its start and end.
    assert (ids[:, 0] == words.bos_token_id).all() and ((ids == words.eos_token_id).sum(1) == 1).all()
    assert (ids[:, -1] == words.eos_token_id).any()
    assert words.convert_tokens_to_ids(["no", "yes", "male", "female"]).count(words.unk_token_id) == 0


@pytest.mark.long
def test_trained_vqa_answers_questions(asked_model):
    from transformers import AutoProcessor, BlipForQuestionAnswering

    from biaslab.judges import blip

    folder, quality = asked_model
    assert {"vqa_gender", "vqa_sensitivity", "vqa_specificity"} <= quality.keys()
    # Of 8 people with 15 attributes.
    assert quality["vqa_gender"] * 8 == pytest.approx(round(quality["vqa_gender"] * 8))
    data = train_vqa.pool(3, 11)
    indices, questions = [0, 0, 1, 2], train_vqa.questions()[:3] + train_vqa.questions()[-1:]
    answers = blip.load(str(folder), device="cpu").ask(list(data.images), indices, questions)
    # By transformers' own generation, one question at a time.
    model = BlipForQuestionAnswering.from_pretrained(folder).eval()
    processor = AutoProcessor.from_pretrained(folder)
    assert model.dtype == torch.float32
    for k, question, answer in zip(indices, questions, answers, strict=True):
        inputs = processor(images=data.images[k], text=question, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=20, do_sample=False)[0]
        assert answer == processor.tokenizer.decode(tokens, skip_special_tokens=True)
    # Preprocessing equals that of training.
    pixels = processor.image_processor(list(data.images), return_tensors="pt")["pixel_values"]
    assert torch.allclose(pixels, common.to_tensor(data.images), atol=1e-5)


def test_measure_matches_hand_values(monkeypatch):
    words = train_vqa.tokenizer()
    ids = train_vqa.question_ids(words)
    no, yes, male, female = range(4)
    # Four people: one wears boots, two a hat.
    true = np.full((4, 16), no, np.uint8)
    true[:, 0] = [male, female, female, male]
    boots, hat = (1 + list(prompts.ATTRIBUTES).index(name) for name in ("boots", "hat"))
    true[0, boots] = true[1, hat] = true[2, hat] = yes
    # One gender is wrong, one hat is missed, and one person is wrongly answered to wear gloves.
    answers = true.copy()
    answers[3, 0], answers[2, hat], answers[0, 1 + list(prompts.ATTRIBUTES).index("gloves")] = female, no, yes
    places = torch.tensor(words.convert_tokens_to_ids(["no", "yes", "male", "female"]))

    def answered(model, encoded, questions, inputs, _):
        # The pixels encode the image's number.
        images = ((encoded[:, 0, 0, 0] + 1) * 127.5).round().long()
        (question,) = torch.where((ids == questions[0]).all(1))[0].tolist()
        logits = torch.zeros(len(images), len(words))
        # An answer that is none of the four does not count.
        logits[:, words.unk_token_id] = 2
        for row, k in enumerate(images.tolist()):
            logits[row, places[answers[k, question]]] = 1
        return logits[:, None]

    monkeypatch.setattr(train_vqa, "_logits", answered)
    model = SimpleNamespace(vision_model=lambda pixel_values: SimpleNamespace(last_hidden_state=pixel_values))
    images = np.zeros((4, 64, 64, 3), np.uint8) + np.arange(4, dtype=np.uint8)[:, None, None, None]
    measured = {m.metric: m for m in train_vqa.measure(model, words, train_vqa.Pool(images, true))}
    counts = {name: (m.count, m.n) for name, m in measured.items()}
    assert counts["vqa_gender"] == (3, 4)
    # Of three worn attributes two are seen; of 4 * 15 - 3 others 56 are denied.
    assert counts["vqa_sensitivity"] == (2, 3)
    assert counts["vqa_specificity"] == (56, 57)
    assert counts["sensitivity boots"] == (1, 1) and counts["sensitivity hat"] == (1, 2)
    assert counts["sensitivity tie"] == (0, 0) and np.isnan(measured["sensitivity tie"].value)
