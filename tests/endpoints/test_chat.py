"""Asking models behind an endpoint: what is kept, asked again, counted, and never shown."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_endpoint import KEY, at, bytes_below, completion, failure

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints.chat import OUTCOMES, Answer, ask
from biaslab.errors import ParameterError


def say(*texts):
    return [[{"role": "user", "content": text}] for text in texts]


def answers(server, texts, store=None, options=None, **more):
    return ask(at(server, **more), say(*texts), store, options=options, progress=False)


# -- what is asked and kept ----------------------------------------------------------------------------------


def test_answers_come_in_order_and_equal_questions_are_asked_once(server, store):
    found = answers(server, ["one", "two", "one", "trois café 🧑 \ud800"], store)
    assert [a.text for a in found[:3]] == ["ONE", "TWO", "ONE"]
    # A lone surrogate fits in no file; it became a question mark on the way back.
    assert found[3].text == "TROIS CAFÉ 🧑 ?"
    assert {(a.outcome, a.prompt_tokens, a.completion_tokens) for a in found} == {("answered", 7, 3)}
    assert len(server.requests) == 3
    sent = server.requests[0]
    assert sent["path"] == "/v1/chat/completions"
    assert sent["model"] == "some-model" and sent["temperature"] == 0
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_what_was_answered_is_not_asked_again(server, store):
    first = answers(server, ["one", "two"], store)
    assert answers(server, ["two", "three", "one"], store)[::2] == first[::-1]
    assert sorted(server.questions) == ["one", "three", "two"]
    # Another model, another setting and another message are other questions.
    answers(server, ["one"], store, model="other")
    answers(server, ["one"], store, {"max_tokens": 5})
    answers(server, ["one"], store, {"temperature": 0.5})
    system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
    ask(at(server), [system], store, progress=False)
    assert len(server.requests) == 7
    # A version in the URL goes behind the path, and without a key none is sent.
    answers(server, ["one"], url=f"{server.url}?api-version=2", api_key_env="")
    assert server.requests.pop()["path"] == "/v1/chat/completions?api-version=2" and server.keys[-1] == ""
    # Nor does it matter in which form the URL was given, or where the key lies.
    assert answers(server, ["one"], store, url=f"{server.url}/chat/completions/", api_key_env="") == first[:1]
    assert len(server.requests) == 7


def test_parts_of_a_message_and_options_go_through(server):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    server.reply = lambda content, n: completion([{"type": "text", "text": "A "}, {"type": "text", "text": "cat"}])
    parts = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
    (found,) = ask(at(server), [parts], options={"seed": 4}, progress=False)
    assert found.text == "A cat"
    assert (server.requests[0]["messages"], server.requests[0]["seed"]) == (parts, 4)


# -- what is counted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "outcome", "asked"),
    [
        (completion(None), "empty", 3),
        (completion(" \n"), "empty", 3),
        ((200, {}, '{"choices": [{"message": {"content": [3]}}]}'), "malformed", 3),
        ((200, {}, "[" * 100_000), "malformed", 3),
        ((200, {}, b"\xff\xfe"), "malformed", 3),
        (completion("half a", finish_reason="length"), "cut", 1),
        (completion("", finish_reason="content_filter"), "filtered", 1),
        (completion(None, message={"content": None, "refusal": "I cannot."}), "refused", 1),
        (failure(400, "no", "content_filter"), "filtered", 1),
        (failure(400, "too long", "context_length_exceeded"), "rejected", 1),
        (failure(500, "it broke"), "unavailable", 8),
    ],
)
def test_a_question_without_an_answer_has_an_outcome(server, store, reply, outcome, asked):
    server.reply = lambda question, n: completion("fine") if question == "good" else reply
    found = answers(server, ["good", "bad"], store)
    assert found[0].text == "fine"
    assert (found[1].text, found[1].outcome) == ("", outcome)
    assert outcome in OUTCOMES
    assert server.questions.count("bad") == asked
    # What was paid for is not asked again; what may yet be answered is.
    server.reply = lambda question, n: completion("now")
    again = answers(server, ["good", "bad"], store)
    paid = outcome in ("empty", "cut", "filtered", "refused")
    assert again[1] == (found[1] if paid else Answer("now", "answered", "", 7, 3))
    assert server.questions.count("good") == 1


# -- stops ----------------------------------------------------------------------------------------------------


def test_two_that_ask_the_same_pay_once(server, tmp_path):
    """In threads, whose locks are as apart as those of two processes."""
    server.reply = lambda question, n: time.sleep(0.01) or completion(question)
    texts = [str(i) for i in range(20)]
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(answers, server, texts, ResultCache(tmp_path)) for _ in range(2)]
    assert [[a.text for a in task.result()] for task in tasks] == [texts, texts]
    assert sorted(server.questions) == sorted(texts)


# -- the key and the URL --------------------------------------------------------------------------------------


def test_a_missing_key_is_told_before_anything_is_sent(server, monkeypatch):
    for value in (None, "", "  ", "kéy", "a\nb"):
        monkeypatch.delenv("FAKE_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("FAKE_KEY", value)
        with pytest.raises(ParameterError, match="environment variable FAKE_KEY contains no key for http://127"):
            answers(server, ["one"])
    assert server.requests == []


def test_the_key_is_in_no_file_message_or_log(server, store, caplog, capfd):
    """A server that says the key back in every way does not get it written down."""
    replies = [
        completion(f"you are {KEY}"),
        failure(400, f"bad key {KEY}"),
        (200, {}, "x" * 190 + KEY),
        completion(None, message={"content": "", "refusal": KEY}),
        failure(500, f"Bearer {KEY}"),
    ]
    server.reply = lambda question, n: replies[int(question)]
    with caplog.at_level(logging.DEBUG):
        found = answers(server, list("01234"), store, concurrency=1)
    assert [a.outcome for a in found] == ["answered", "rejected", "malformed", "refused", "unavailable"]
    assert found[0].text == "you are [key]"
    told = repr(found) + caplog.text + "".join(capfd.readouterr()) + repr(at(server))
    # Not even half of it, where a message is cut.
    assert KEY[:8] not in told
    assert KEY[:8].encode() not in bytes_below(store.root)


# -- the form of answers --------------------------------------------------------------------------------------

SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
OBJECT = {"type": "json_object"}
# What servers say that take no schema: DeepSeek, its older version, Gemini's compatible endpoint, vLLM, Groq, OpenAI,
# FastAPI, Mistral, LM Studio, and a plain text.
REFUSALS = [
    (400, {"error": {"message": "This response_format type is unavailable now", "code": "invalid_request_error"}}),
    (422, {"error": {"message": "Failed to deserialize: response_format.type `json_schema` is unavailable now"}}),
    (400, {"error": {"code": 400, "message": "Unknown name at 'generation_config.response_schema': no such field."}}),
    (400, {"object": "error", "message": "The provided JSON schema contains features not supported by xgrammar."}),
    (400, {"error": {"message": "This model does not support response format `json_schema`."}}),
    (400, {"error": {"message": "Invalid parameter", "param": "response_format"}}),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"], "msg": "Extra inputs"}]}),
    (422, {"object": "error", "message": {"detail": [{"loc": ["body", "response_format", "json_schema"]}]}}),
    (400, {"error": "'response_format.type' must be 'json_object' or 'text'"}),
    (400, "JSON mode is not enabled for this model"),
]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
def test_schema_that_is_refused_in_any_words_is_asked_for_as_any_object(server, store, status, body):
    def reply(question, n):
        form = server.requests[-1].get("response_format")
        return completion("{}") if form == OBJECT else (status, {}, json.dumps(body))

    server.reply = reply
    options = {"response_format": SCHEMA}
    (found,) = answers(server, ["one"], store, options)
    assert (found.text, found.asked_without) == ("{}", "response_format.json_schema")
    assert [r["response_format"] for r in server.requests] == [SCHEMA, OBJECT]
    # What one answer took is not tried again.
    answers(server, ["two"], store, options)
    assert [r["response_format"] for r in server.requests[2:]] == [OBJECT]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
def test_form_that_is_refused_twice_is_left_out(server, status, body):
    refusal = status, {}, json.dumps(body)
    server.reply = lambda question, n: refusal if "response_format" in server.requests[-1] else completion("female")
    (found,) = answers(server, ["one"], None, {"response_format": SCHEMA})
    assert (found.text, found.asked_without) == ("female", "response_format")
    assert [r.get("response_format") for r in server.requests] == [SCHEMA, OBJECT, None]


@pytest.mark.parametrize(
    ("mode", "sent"), [("json_schema", SCHEMA), ("json_object", OBJECT), ("none", None), ("auto", SCHEMA)]
)
def test_answer_format_fixes_the_form(server, mode, sent):
    answers(server, ["one"], None, {"response_format": SCHEMA}, answer_format=mode)
    assert [r.get("response_format") for r in server.requests] == [sent]


def test_answer_format_that_is_fixed_and_refused_is_not_exchanged(server):
    server.reply = lambda question, n: (
        failure(400, "response_format is unavailable") if question == "bad" else completion("fine")
    )
    options = {"response_format": SCHEMA}
    _, bad = answers(server, ["good", "bad"], None, options, answer_format="json_object")
    assert (bad.outcome, bad.detail) == ("rejected", "HTTP 400: response_format is unavailable")
    assert {r["response_format"]["type"] for r in server.requests} == {"json_object"}
