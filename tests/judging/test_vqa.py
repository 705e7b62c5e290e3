"""Asking BLIP and BLIP-2 about people: transformers' own answers, the rule that reads them, and the stage."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages
from tiny_blip import own_text

from biaslab.ground.errors import ParameterError
from biaslab.judging import blip as blips
from biaslab.judging import vqa
from biaslab.judging.questions import question, read_answer, read_yes_no
from biaslab.judging.vqa import ask_about, judge_people_vqa
from biaslab.keep.store import Store
from biaslab.models.images import Unreadable


def test_questions_are_those_of_table_8():
    assert question("nurse", 1, 1) == "What gender is the nurse in the picture?"
    for n, places in {2: ("left", "right"), 3: ("left", "middle", "right")}.items():
        sides = [f"{'in' if place == 'middle' else 'on'} the {place}" for place in places]
        assert [question("pilot", k + 1, n) for k in range(n)] == [
            f"What gender is the pilot {side} in the picture?" for side in sides
        ]


def test_words_decide():
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


def test_yes_and_no_are_whole_words():
    assert [read_yes_no(text)[0] for text in ("yes", "YES!", "Yes, a red tie")] == ["yes"] * 3
    assert [read_yes_no(text)[0] for text in ("No.", "there is no tie", "no, no, no")] == ["no"] * 3
    assert read_yes_no("yes and no") == ("", "answer says both yes and no")
    # "nothing", "not" and "yesterday" begin with one, "casino" ends with one.
    for text in ("nothing", "not", "yesterday", "casino", "a tie", "", "  ", "1"):
        assert read_yes_no(text) == ("", "answer says neither yes nor no")


class Told:
    """Answers with the image's first pixel: red per hundred to the left, green to the right."""

    TEXTS = ("female", "a man", "male and\nfemale", "two people", "no")

    def __init__(self):
        self.asked = []

    def ask(self, images, of, questions):
        self.asked.append(list(zip(of, questions, strict=True)))
        return [self.TEXTS[images[k][0, 0, int("right" in q)]] for k, q in zip(of, questions, strict=True)]


def picture(left, right=0):
    image = np.zeros((6, 9, 3), np.uint8)
    image[0, 0, :2] = left, right
    return image


@pytest.fixture
def images():
    shown = [picture(0, 1), picture(2, 3), Unreadable("truncated"), picture(1), Unreadable("blocked")]
    return ArrayImages(shown, ["two", "odd", "broken", "one", "withheld"])


def people(*rows):
    return pd.DataFrame(rows, columns=["image_id", "position", "phrase"])


ASKED = people(
    *(("one", 1, "pilot"), ("two", 2, "nurse"), ("two", 1, "carpenter"), ("odd", 1, "nurse"), ("odd", 2, "nurse")),
    *(("broken", 1, "nurse"), ("withheld", 1, "nurse")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that is a model by name only: what it loads is told."""
    made = tmp_path_factory.mktemp("named")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


@pytest.fixture
def run(monkeypatch):
    def _run(images, asked, name, store, told):
        monkeypatch.setattr(blips, "load", lambda *_, **__: told)
        return judge_people_vqa(images, asked, f"vqa:{name}", store=Store(store), progress=False)

    return _run


def test_every_person_has_a_row_in_the_order_asked(run, images, folder, tmp_path):
    told = Told()
    found = run(images, ASKED, folder, tmp_path, told)
    assert list(found) == list(vqa.COLUMNS)
    assert list(zip(found["image_id"], found["position"], strict=True)) == list(
        zip(ASKED["image_id"], ASKED["position"], strict=True)
    )
    assert list(found["outcome"]) == ["judged"] * 3 + ["uncertain"] * 2 + ["unreadable", "blocked"]
    assert list(found["gender"]) == ["male", "male", "female", "unsure", "unsure", "", ""]
    # The raw text is kept, on one line.
    assert list(found["answer"]) == ["a man", "a man", "female", "male and female", "two people", "", ""]
    assert list(found["reason"][3:]) == ["answer says both genders", "answer says no gender", "truncated", ""]
    np.testing.assert_array_equal(found["image_width"], [9] * 5 + [np.nan] * 2)
    assert found[["p_female", "n_faces", "x0", "y0", "x1", "y1", "role_p"]].isna().all(axis=None)
    # Each image is shown once, whatever number of people it is asked about.
    asked = [q for q in told.asked[0] if "in the picture" in q[1]]
    assert len(told.asked) == 1 and sorted(k for k, _ in asked) == [0, 1, 1, 2, 2]
    assert asked[0] == (0, "What gender is the pilot in the picture?")


def test_answers_are_kept(run, images, folder, tmp_path, monkeypatch):
    first = run(images, ASKED, folder, tmp_path, Told())
    again = run(images, ASKED, folder, tmp_path, None)  # None cannot answer
    pd.testing.assert_frame_equal(first, again)
    # Other images, other questions or other weights are asked anew.
    other, told = folder.parent / "other", Told()
    other.mkdir(exist_ok=True)
    (other / "model.safetensors").write_bytes(b"other weights")
    run(images, ASKED, other, tmp_path, told)
    run(images, ASKED.assign(phrase="pilot"), folder, tmp_path, told)
    run(ArrayImages([picture(0, 0)], ["one"]), ASKED[:1], folder, tmp_path, told)
    assert len(told.asked) == 3
    monkeypatch.setattr(vqa, "_SHARD_ROWS", 2)
    pd.testing.assert_frame_equal(run(images, ASKED, folder, tmp_path, Told()), first)


# -- questions of any kind ---------------------------------------------------------------------------------


class Echo:
    """Answers with the image's first pixel and the question; keeps which images it was shown at once."""

    def __init__(self):
        self.shown, self.of = [], []

    def ask(self, images, of, questions):
        self.shown.append([int(image[0, 0, 0]) for image in images])
        self.of.append(list(of))
        return [f"{images[k][0, 0, 0]}\n{q}" for k, q in zip(of, questions, strict=True)]


@pytest.fixture
def ask(monkeypatch, folder, tmp_path):
    def _ask(images, told, *rows):
        monkeypatch.setattr(blips, "load", lambda *_, **__: told)
        units = pd.DataFrame(rows, columns=["image_id", "question"])
        return ask_about(images, units, f"vqa:{folder}", store=Store(tmp_path), progress=False)

    return _ask


def test_an_image_is_shown_once_for_all_its_questions(ask, images):
    rows = [("one", "a hat?"), ("one", "a tie?"), ("broken", "a hat?"), ("two", "a hat?")]
    rows += [("withheld", "a hat?"), ("odd", "a hat?"), ("one", "a mask?")]
    told = Echo()
    found = ask(images, told, *rows)
    assert list(found) == ["image_id", "outcome", "reason", "answer", "image_width", "image_height"]
    # By hand: the pictures begin with 1, 0 and 2; two cannot be shown. A text is put on one line.
    assert found["answer"].tolist() == ["1 a hat?", "1 a tie?", "", "0 a hat?", "", "2 a hat?", "1 a mask?"]
    assert found["outcome"].tolist() == ["", "", "unreadable", "", "blocked", "", ""]
    assert found.loc[found["outcome"] == "", ["image_width", "image_height"]].to_numpy().tolist() == [[9, 6]] * 5
    # Though one question about the first image stands apart from the others.
    assert told.shown == [[1, 0, 2]] and told.of == [[0, 0, 1, 2, 0]]


def test_nothing_to_ask_needs_no_model(ask, images):
    found = ask(images, None, ("broken", "a hat?"), ("withheld", "a hat?"))
    assert found["outcome"].tolist() == ["unreadable", "blocked"] and (found["answer"] == "").all()
    none = ask(images, None)
    assert none.empty and none.dtypes.to_dict() == found.dtypes.to_dict()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vqa:", "The vqa model is ''"),
        ("vqa:no/such/folder", "named 'no/such/folder'"),
        ("vqa:blip-vqa-base", "Did you mean 'Salesforce/blip-vqa-base'"),
        ("vqa:minivqa", "Did you mean 'mini-vqa'"),
        ("vqa:mini-clip", "'mini-clip' is a clip model"),
    ],
)
def test_unknown_names_are_errors(images, tmp_path, name, message):
    with pytest.raises(ParameterError, match=message):
        judge_people_vqa(images, ASKED, name, store=Store(tmp_path), progress=False)


# -- the models: tiny random ones in the formats of the real ones (tiny_blip) ------------------------------


OF = [0, 0, 1, 2, 3, 4, 4]
WHOM = [("nurse", 1, 2), ("carpenter manager", 2, 2), ("pilot", 1, 1), ("nurse", 1, 1)]
WHOM += [("carpenter manager", 1, 1), ("nurse", 1, 2), ("pilot", 2, 2)]
QUESTIONS = [question(*whom) for whom in WHOM]


def own_answers(folder, kind, photos, prompt):
    """Ask one question at a time through transformers' own processor and generate."""
    import transformers

    model = getattr(transformers, kind).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    asked = zip(OF, QUESTIONS, strict=True)
    return [own_text(model, processor, photos[k], prompt.format(q)) for k, q in asked]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("which", "kind", "prompt"),
    [
        ("blip", "BlipForQuestionAnswering", "{}"),
        ("opt", "Blip2ForConditionalGeneration", "Question: {} Answer:"),
        ("t5", "Blip2ForConditionalGeneration", "Question: {} Answer:"),
    ],
)
def test_answers_are_transformers_own_in_any_batch(which, kind, prompt, photos, request):
    made = request.getfixturevalue(which)
    expected = own_answers(made, kind, photos, prompt)
    assert len(set(expected)) >= 3, "the random model must tell images and questions apart"
    model = blips.load(f"vqa:{made}", device="cpu")
    assert model.ask(photos, OF, QUESTIONS) == expected
    assert model.ask(photos[:1], [0], QUESTIONS[:1]) == expected[:1]


@pytest.mark.usefixtures("one_thread")
def test_a_tiny_blip_judges_end_to_end(blip, photos, tmp_path):
    for image in photos:
        image.flags.writeable = False  # as decoded files are
    images = ArrayImages(photos, list("abcde"))
    asked = people(("a", 1, "nurse"), ("a", 2, "carpenter manager"), ("b", 1, "pilot"))
    found = judge_people_vqa(images, asked, f"vqa:{blip}", store=Store(tmp_path), device="cpu", progress=False)
    direct = blips.load(str(blip), device="cpu").ask(photos, OF[:3], QUESTIONS[:3])
    assert list(found["answer"]) == direct
    assert list(found["gender"]) == [read_answer(text)[0] for text in direct]
