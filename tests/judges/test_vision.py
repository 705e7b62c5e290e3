"""A vision-language model as judge: images and questions sent, accepted answers, cost, and caching."""

import json

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages
from fake_endpoint import completion, failure
from fake_vision import FakeVision, picture_of

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints import chat
from biaslab.endpoints.purchases import summary
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import people, skin_tone, vision
from biaslab.judges.answers import ask_about, question_units
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.people import judge_people
from biaslab.judges.questions import IMAGE, read_questions
from biaslab.judges.settings import VisionSettings
from biaslab.judges.vision import VisionJudge, find_choice
from biaslab.pipeline import Pipeline
from biaslab.planning.records import ModelUse
from biaslab.settings import Settings

REFUSAL = {"message": {"role": "assistant", "content": None, "refusal": "I will not."}, "finish_reason": "stop"}


@pytest.fixture(autouse=True)
def loopback(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def model(tmp_path):
    """Return a judge behind an endpoint, by its settings."""

    def _model(server, *, price=0.0, limit=0.0, person_view="position", concurrency=4, key_env="", **extra):
        at = EndpointSettings(url=server.url, api_key_env=key_env, timeout=5.0, concurrency=concurrency)
        settings = VisionSettings(person_view=person_view, price=price, cost_limit=limit, **extra)
        return VisionJudge("endpoint:eye", JudgeOptions(vision=settings, endpoint=at, cache=tmp_path))

    return _model


def plain_images(*reds):
    """Return images that a fake model distinguishes by their red, in steps of 25."""
    return [np.full((40, 60, 3), (red * 25, 100, 200), np.uint8) for red in reds]


TEN_IMAGES = plain_images(*range(1, 11))


def red(picture):
    return round(float(picture[20, 30, 0]) / 25)


def request_rows(n, positions=1):
    rows = [(str(k), at) for k in range(n) for at in range(1, positions + 1)]
    return pd.DataFrame(rows, columns=["image_id", "position"]).assign(phrase="nurse")


@pytest.fixture
def run_judge(tmp_path):
    def _judged(judge, images, n, positions=1):
        detector, options = Judge("given"), {"cache": ResultCache(tmp_path), "progress": False}
        return judge_people(ArrayImages(images), request_rows(n, positions), judge, detector, **options)

    return _judged


@pytest.fixture
def ask_once(tmp_path):
    """Ask a model one question about one image."""
    units = pd.DataFrame({"image_id": ["0"], "question": "?"})
    return lambda judge: ask_about(ArrayImages(plain_images(0)), units, judge, cache=ResultCache(tmp_path))


def test_vision_question_is_closed_and_hides_prompt(run_judge, model):
    answers = ["female", "male", "unclear", "nobody"]
    with FakeVision(lambda picture, text, form: answers[red(picture)]).running() as server:
        judged = run_judge(model(server), plain_images(0, 1, 2, 3), 4)
    assert judged["status"].tolist() == ["judged", "judged", "uncertain", "no_face"]
    assert judged["gender"].tolist() == ["female", "male", "unsure", ""]
    assert judged["probability_female"].isna().all() and judged["image_width"].tolist() == [60.0] * 4
    texts = [r["messages"][0]["content"][0]["text"] for r in server.requests]
    assert len(texts) == 4 and not any("nurse" in text for text in texts)
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == answers and server.requests[0]["temperature"] == 0


def test_vision_person_view_names_position_or_crops(model, tmp_path):
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[:, 40:] = (200, 100, 200)
    boxes = {1: (10, 5, 30, 25), 2: (50, 5, 70, 25)}
    people_rows = pd.DataFrame([["0", at, *box, 80] for at, box in boxes.items()])
    people_rows.columns = ["image_id", "position", "x0", "y0", "x1", "y1", "image_width"]
    images = ArrayImages([picture])
    with FakeVision(lambda *_: "unclear").running() as server:
        for view in ("position", "crop"):
            judge = model(server, person_view=view)
            units = question_units(people_rows, vision.GENDER, ("female", "male"), judge)
            ask_about(images, units, judge, cache=ResultCache(tmp_path))
    people_rows = pd.DataFrame({"image_id": "0", "position": [1, 2, 3, 4]})
    question_texts = question_units(people_rows, "A hat?", ("yes", "no"), model(server))["question"]
    assert question_texts[3] == "About the person, number 4 from the left, in the picture: A hat?"
    messages = [r["messages"][0] for r in server.requests]
    texts = [m["content"][0]["text"].partition(":")[0] for m in messages[:2]]
    assert sorted(texts) == [f"About the person on the {side} in the picture" for side in ("left", "right")]
    assert all(picture_of(m).shape == (40, 80, 3) for m in messages[:2])
    # The left half is black, and the right is not: each part shows its own half, and nothing of the other.
    parts = sorted((picture_of(m) for m in messages[2:]), key=lambda part: int(part.max()))
    assert [p.shape for p in parts] == [(40, 40, 3)] * 2
    assert parts[0].max() < 30 and parts[1][:, :, 0].min() > 170


def test_vision_crop_requires_matching_face_count(run_judge, model, monkeypatch):
    # Two faces, the right one named first; one face for two people; none; an image that cannot be read.
    boxes = [[50.0, 5.0, 70.0, 25.0, 10.0, 5.0, 30.0, 25.0], [10.0, 5.0, 30.0, 25.0], [], []]
    result = pd.DataFrame({"image_id": list("0123"), "boxes": boxes, "n_faces": [2, 1, 0, np.nan], "reason": ""})
    result = result.assign(status=["", "", "", "unreadable"], image_width=80.0, image_height=40.0)
    result["landmarks"] = [f"[{', '.join(['[]'] * (len(box) // 4))}]" for box in boxes]
    monkeypatch.setattr(people, "find_faces", lambda *_, **__: result)
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[:, 40:] = (200, 100, 200)
    with FakeVision(lambda *_: "female").running() as server:
        judged = run_judge(model(server, person_view="crop"), [*[picture] * 3, UnreadableImage("damaged")], 4, 2)
    outcomes = ["judged", "one_face", "no_face", "unreadable"]
    assert judged["status"].tolist() == [outcome for outcome in outcomes for _ in range(2)]
    assert judged["x0"].tolist()[:2] == [10, 50] and judged["x0"][2:].isna().all() and len(server.requests) == 2


def test_find_choice_returns_one_listed_answer():
    said = {
        "female": ('{"answer": "female"}', "Female.", "The person looks female to me"),
        "male": ('```json\n{"answer": "Male"}\n```',),
        "unclear": ("I would say unclear",),
        "": ("female or male", "not female", "she isn't male", '{"answer": "a robot"}', '{"answer": null}'),
    }
    said[""] += ("femaleness", "true", "[[[[", "")
    # Denied, doubted, hedged, and two answers, in words and as JSON.
    said[""] += ("non-female", "hardly male", "I doubt the person is female.", "anything but female", "female?")
    said[""] += ("It could be female", '{"answer": "male"} {"answer": "female"}', '{"answer":"male","answer":"female"}')
    said["male"] += ('Two people. {"answer": "male"} {"answer": "male"}',)
    for result, texts in said.items():
        assert [find_choice(text, ("female", "male", "unclear")) for text in texts] == [result] * len(texts)
    # The longer of two answers counts, and no is one.
    for text in ("dark brown", "dark brown, I think"):
        assert find_choice(text, ("brown", "dark brown")) == "dark brown"
    assert find_choice("No, there is none", ("yes", "no")) == "no"
    assert find_choice('{"answer": true}', ("yes", "no")) == "yes"
    # One may end in marks.
    for answer in ("Mr.", "A*", "yes!", "doesn’t", "+"):
        form = (answer, "Mrs.", "unclear")
        assert find_choice(json.dumps({"answer": answer}), form) == find_choice(answer, form) == answer


def test_vision_invalid_answer_is_retried_then_unanswered(run_judge, model):
    refusal = 200, {}, json.dumps({"choices": [REFUSAL]})
    replies = {0: completion("A person."), 1: refusal, 2: failure(413, "too large")}
    with FakeVision(lambda picture, *_: replies.get(red(picture), "male")).running() as server:
        images = [*plain_images(0, 1, 2, 3), UnreadableImage("damaged")]
        judged, repeated = (run_judge(model(server), images, 5) for _ in range(2))
    assert judged["status"].tolist() == ["unanswered"] * 3 + ["judged", "unreadable"]
    assert judged["reason"][0] == "no answer of the list: A person."
    assert "refused" in judged["reason"][1] and "413" in judged["reason"][2]
    # Three attempts for the first, and one for each of the others; no request is repeated.
    assert len(server.requests) == 6
    pd.testing.assert_frame_equal(judged, repeated)


def test_vision_cost_limit_stops_and_resumes(run_judge, model, tmp_path):
    with FakeVision(lambda *_: "female").running() as server:
        with pytest.raises(RunError, match=r"cost limit of 0\.5; 0\.5 is already spent"):
            run_judge(model(server, price=0.1, limit=0.5), TEN_IMAGES, 10)
        assert len(server.requests) == 5
        result = run_judge(model(server, price=0.1, limit=1.0), TEN_IMAGES, 10)
    # Answers before the limit are cached, and not paid for again.
    assert len(server.requests) == 10 and (result["gender"] == "female").all()
    (spent,) = summary(tmp_path)
    assert spent["spent"] == 1.0 and spent["images"] == "none"


@pytest.mark.parametrize(
    ("price", "limit", "said"), [(None, 1.0, "is unknown. Set vision.price"), (0.5, 0.1, "one question costs 0.5")]
)
def test_vision_without_price_or_budget_asks_nothing(ask_once, model, price, limit, said):
    with FakeVision(lambda *_: "female").running() as server:
        poor = model(server, price=price, limit=limit)
        for ask in (poor.check, lambda: ask_once(poor)):
            with pytest.raises(ParameterError, match=said):
                ask()
    assert not server.requests


@pytest.mark.parametrize(
    ("reply", "fails", "said"),
    [
        (failure(503), lambda red: red == 10, "run again"),
        (failure(400, "bad day"), lambda red: red > 2, r"8 of 10 questions \(HTTP 400: bad day\)"),
    ],
    ids=["one of them", "most of them"],
)
def test_vision_server_failure_stops_and_caches_answers(run_judge, model, reply, fails, said):
    server_state = {"is": True}
    with FakeVision(
        lambda picture, *_: reply if server_state["is"] and fails(red(picture)) else "male"
    ).running() as server:
        # One at a time: without any answer yet, a failure has another message.
        judging = model(server, concurrency=1)
        with pytest.raises(RunError, match=said):
            run_judge(judging, TEN_IMAGES, 10)
        server_state["is"] = False
        n_before = len(server.requests)
        judged = run_judge(judging, TEN_IMAGES, 10)
    assert (judged["gender"] == "male").all() and len(server.requests) - n_before == sum(map(fails, range(1, 11)))


def test_vision_cache_depends_on_request_settings(ask_once, model):
    with FakeVision(lambda *_: "female").running() as server:
        for extra in ({}, {"max_side": 32}, {"temperature": None}, {"detail": "low"}):
            ask_once(model(server, **extra))
    assert len(server.requests) == 4
    assert "temperature" not in server.requests[2]
    assert server.requests[3]["messages"][0]["content"][1]["image_url"]["detail"] == "low"


def test_vision_skin_tones_are_numbers_or_reasons(model, tmp_path):
    answers = ["3", "10", "unclear", "nobody"]
    people_rows = request_rows(4).assign(**dict.fromkeys(("x0", "y0", "x1", "y1"), np.nan))
    with FakeVision(lambda picture, *_: answers[red(picture)]).running() as server:
        images, cache = ArrayImages(plain_images(0, 1, 2, 3)), ResultCache(tmp_path)
        tones = skin_tone.judge_skin_tones(images, people_rows, model(server), cache=cache)
    assert tones["tone"].tolist()[:2] == [3.0, 10.0] and tones["tone"].isna().tolist() == [False] * 2 + [True] * 2
    assert tones["reason"].tolist() == ["", "", "unclear", "nobody"] and set(tones["judge"]) == {"endpoint:eye"}


def test_read_questions_adds_unclear_answer(tmp_path):
    file = tmp_path / "q.yaml"
    file.write_text(
        "- {name: hat, question: 'A hat?', answers: [yes, no, Unclear]}\n"
        "- {name: look, question: 'What is it?', answers: [drawing, 3], of: image}\n"
    )
    hat, look = read_questions(file)
    assert hat.answers == ("yes", "no", "unclear") and look.answers == ("drawing", "3", "unclear")
    assert look.of == IMAGE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a list of 1 to 20"),
        ("- hat", "which is not a valid question: it needs name, question, and answers or scale"),
        ("- {name: hat, question: 'A?'}", "it needs name, question, and answers or scale"),
        ("- {name: hat, question: 'A?', answers: [yes, Yes]}", "2 to 20 different answers"),
        ("- {name: hat, question: 'A?', answers: [yes, nobody]}", "'nobody' has a special meaning"),
        ("- {name: hat, question: 'A?', answers: [yes, {a: 1}]}", "each answer must be a string"),
        ("- {name: hat, question: '', answers: [yes, no]}", "question must be a string"),
        ("- {name: Group, question: 'A?', answers: [yes, no]}", "'Group', which is a reserved name"),
        ("- {name: a, question: 'A?', answers: [yes, no], of: people}", "of is 'people'"),
        ("- &a {name: a, question: 'A?', answers: [yes, no]}\n- *a", "two questions called 'a'"),
    ],
)
def test_read_questions_invalid_file_is_refused(tmp_path, text, said):
    (tmp_path / "q.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        read_questions(tmp_path / "q.yaml")
    assert said in str(error.value)


def test_vision_packs_image_once_for_several_questions(model, tmp_path, monkeypatch):
    packed_images, original = [], chat.image_message
    monkeypatch.setattr(
        chat, "image_message", lambda *args, **kwargs: packed_images.append(1) or original(*args, **kwargs)
    )
    units = pd.DataFrame({"image_id": ["0", "0", "1", "0"], "question": list("abcd")})
    units["answers"] = ["", '["yes", "no"]', "", ""]
    with FakeVision(lambda *_: "yes").running() as server:
        result = ask_about(ArrayImages(plain_images(0, 1)), units, model(server), cache=ResultCache(tmp_path))
    assert len(packed_images) == 2 and len(server.requests) == 4 and result["answer"].notna().all()


def test_vision_cached_answers_need_no_key_or_budget(ask_once, model, monkeypatch):
    monkeypatch.setenv("EYE_KEY", "sk-test-1234567890")
    with FakeVision(lambda *_: "yes").running() as server:
        first = ask_once(model(server, price=1.0, limit=1.0, key_env="EYE_KEY"))
        monkeypatch.delenv("EYE_KEY")
        bare = model(server, price=None, key_env="EYE_KEY")
        pd.testing.assert_frame_equal(ask_once(bare), first)
    assert len(server.requests) == 1


@pytest.mark.parametrize("setting", ["judging.faces", "dalleval.detector", "triplets.objects", "triplets.similarity"])
def test_endpoint_judge_is_refused_for_detection_settings(setting):
    pipeline = Pipeline("endpoint:maker", Settings(vision={"url": "http://127.0.0.1:9", "price": 0}), progress=False)
    with pytest.raises(ParameterError, match=r"no judge of this kind"):
        ModelUse(setting, "endpoint:eye", judge=pipeline.judge(setting, "endpoint:eye")).files(pipeline)
