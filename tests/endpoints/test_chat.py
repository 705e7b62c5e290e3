"""Chat requests to an endpoint: caching, retries, outcomes, and secrecy of the key."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_endpoint import KEY, bytes_below, completion, endpoint_settings, failure

from biaslab.cache.result_cache import ResultCache
from biaslab.endpoints.chat import OUTCOMES, Answer, ask
from biaslab.errors import ParameterError


def say(*texts):
    return [[{"role": "user", "content": text}] for text in texts]


def answers(server, texts, store=None, options=None, **more):
    return ask(endpoint_settings(server, **more), say(*texts), store, options=options, progress=False)


# -- requests and caching ------------------------------------------------------------------------------------


def test_chat_answers_keep_order_and_ask_once(server, store):
    result = answers(server, ["one", "two", "one", "trois café 🧑 \ud800"], store)
    assert [a.text for a in result[:3]] == ["ONE", "TWO", "ONE"]
    # A lone surrogate fits in no file; it became a question mark on the way back.
    assert result[3].text == "TROIS CAFÉ 🧑 ?"
    assert {(a.outcome, a.prompt_tokens, a.completion_tokens) for a in result} == {("answered", 7, 3)}
    assert len(server.requests) == 3
    sent = server.requests[0]
    assert sent["path"] == "/v1/chat/completions"
    assert sent["model"] == "some-model" and sent["temperature"] == 0
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_chat_answers_are_cached(server, store):
    first = answers(server, ["one", "two"], store)
    assert answers(server, ["two", "three", "one"], store)[::2] == first[::-1]
    assert sorted(server.questions) == ["one", "three", "two"]
    # Another model, another setting and another message are other questions.
    answers(server, ["one"], store, model="other")
    answers(server, ["one"], store, {"max_tokens": 5})
    answers(server, ["one"], store, {"temperature": 0.5})
    system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
    ask(endpoint_settings(server), [system], store, progress=False)
    assert len(server.requests) == 7
    # A version in the URL is appended to the path, and no key is sent if none is set.
    answers(server, ["one"], url=f"{server.url}?api-version=2", api_key_env="")
    assert server.requests.pop()["path"] == "/v1/chat/completions?api-version=2" and server.keys[-1] == ""
    # The form of the URL and the key's variable do not matter.
    assert answers(server, ["one"], store, url=f"{server.url}/chat/completions/", api_key_env="") == first[:1]
    assert len(server.requests) == 7


def test_chat_sends_message_parts_and_options(server):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    server.reply = lambda content, n: completion([{"type": "text", "text": "A "}, {"type": "text", "text": "cat"}])
    parts = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
    (result,) = ask(endpoint_settings(server), [parts], options={"seed": 4}, progress=False)
    assert result.text == "A cat"
    assert (server.requests[0]["messages"], server.requests[0]["seed"]) == (parts, 4)


# -- outcomes -------------------------------------------------------------------------------------------------


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
def test_chat_question_without_answer_has_outcome(server, store, reply, outcome, asked):
    server.reply = lambda question, n: completion("fine") if question == "good" else reply
    result = answers(server, ["good", "bad"], store)
    assert result[0].text == "fine"
    assert (result[1].text, result[1].outcome) == ("", outcome)
    assert outcome in OUTCOMES
    assert server.questions.count("bad") == asked
    # Paid requests are not repeated; unanswered ones are.
    server.reply = lambda question, n: completion("now")
    repeated = answers(server, ["good", "bad"], store)
    is_paid = outcome in ("empty", "cut", "filtered", "refused")
    assert repeated[1] == (result[1] if is_paid else Answer("now", "answered", "", 7, 3))
    assert server.questions.count("good") == 1


# -- stops ----------------------------------------------------------------------------------------------------


def test_chat_concurrent_askers_pay_once(server, tmp_path):
    """In threads, whose locks are as separate as those of two processes."""
    server.reply = lambda question, n: time.sleep(0.01) or completion(question)
    texts = [str(i) for i in range(20)]
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(answers, server, texts, ResultCache(tmp_path)) for _ in range(2)]
    assert [[a.text for a in task.result()] for task in tasks] == [texts, texts]
    assert sorted(server.questions) == sorted(texts)


# -- the key and the URL --------------------------------------------------------------------------------------


def test_chat_missing_key_is_refused_before_sending(server, monkeypatch):
    for value in (None, "", "  ", "kéy", "a\nb"):
        monkeypatch.delenv("FAKE_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("FAKE_KEY", value)
        with pytest.raises(ParameterError, match="environment variable FAKE_KEY contains no key for http://127"):
            answers(server, ["one"])
    assert server.requests == []


def test_chat_key_is_in_no_file_message_or_log(server, store, caplog, capfd):
    """A key that a server repeats in any reply is never written."""
    replies = [
        completion(f"you are {KEY}"),
        failure(400, f"bad key {KEY}"),
        (200, {}, "x" * 190 + KEY),
        completion(None, message={"content": "", "refusal": KEY}),
        failure(500, f"Bearer {KEY}"),
    ]
    server.reply = lambda question, n: replies[int(question)]
    with caplog.at_level(logging.DEBUG):
        result = answers(server, list("01234"), store, concurrency=1)
    assert [a.outcome for a in result] == ["answered", "rejected", "malformed", "refused", "unavailable"]
    assert result[0].text == "you are [key]"
    output = repr(result) + caplog.text + "".join(capfd.readouterr()) + repr(endpoint_settings(server))
    # Not even half of it, where a message is cut.
    assert KEY[:8] not in output
    assert KEY[:8].encode() not in bytes_below(store.root)


# -- the form of answers --------------------------------------------------------------------------------------

SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
OBJECT = {"type": "json_object"}
# Refusals of a schema: DeepSeek, its older version, Gemini's compatible endpoint, vLLM, Groq, OpenAI,
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
def test_chat_refused_schema_falls_back_to_object(server, store, status, body):
    def reply(question, n):
        form = server.requests[-1].get("response_format")
        return completion("{}") if form == OBJECT else (status, {}, json.dumps(body))

    server.reply = reply
    options = {"response_format": SCHEMA}
    (result,) = answers(server, ["one"], store, options)
    assert (result.text, result.asked_without) == ("{}", "response_format.json_schema")
    assert [r["response_format"] for r in server.requests] == [SCHEMA, OBJECT]
    # The accepted form is used for later questions.
    answers(server, ["two"], store, options)
    assert [r["response_format"] for r in server.requests[2:]] == [OBJECT]


@pytest.mark.parametrize(("status", "body"), REFUSALS)
def test_chat_form_refused_twice_is_omitted(server, status, body):
    refusal = status, {}, json.dumps(body)
    server.reply = lambda question, n: refusal if "response_format" in server.requests[-1] else completion("female")
    (result,) = answers(server, ["one"], None, {"response_format": SCHEMA})
    assert (result.text, result.asked_without) == ("female", "response_format")
    assert [r.get("response_format") for r in server.requests] == [SCHEMA, OBJECT, None]


@pytest.mark.parametrize(
    ("mode", "sent"), [("json_schema", SCHEMA), ("json_object", OBJECT), ("none", None), ("auto", SCHEMA)]
)
def test_answer_format_fixes_response_form(server, mode, sent):
    answers(server, ["one"], None, {"response_format": SCHEMA}, answer_format=mode)
    assert [r.get("response_format") for r in server.requests] == [sent]


def test_fixed_answer_format_is_not_exchanged(server):
    server.reply = lambda question, n: (
        failure(400, "response_format is unavailable") if question == "bad" else completion("fine")
    )
    options = {"response_format": SCHEMA}
    _, bad = answers(server, ["good", "bad"], None, options, answer_format="json_object")
    assert (bad.outcome, bad.detail) == ("rejected", "HTTP 400: response_format is unavailable")
    assert {r["response_format"]["type"] for r in server.requests} == {"json_object"}
