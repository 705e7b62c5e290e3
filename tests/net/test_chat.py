"""Asking models behind an endpoint: what is kept, asked again, counted, and never shown."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_endpoint import KEY, at, bytes_below, completion, failure

from biaslab.ground.errors import ParameterError, RunError
from biaslab.keep.store import Store
from biaslab.net import endpoint
from biaslab.net.chat import OUTCOMES, Answer, ask


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
    answers(server, ["one"], url=f"{server.url}?api-version=2", key_variable="")
    assert server.requests.pop()["path"] == "/v1/chat/completions?api-version=2" and server.keys[-1] == ""
    # Nor does it matter in which form the URL was given, or where the key lies.
    assert answers(server, ["one"], store, url=f"{server.url}/chat/completions/", key_variable="") == first[:1]
    assert len(server.requests) == 7


def test_parts_of_a_message_and_options_go_through(server):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    server.reply = lambda content, n: completion([{"type": "text", "text": "A "}, {"type": "text", "text": "cat"}])
    parts = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]
    (found,) = ask(at(server), [parts], options={"seed": 4}, progress=False)
    assert found.text == "A cat"
    assert (server.requests[0]["messages"], server.requests[0]["seed"]) == (parts, 4)


def test_several_are_under_way_at_a_time_and_no_more(server):
    running, counted = [], []

    def reply(question, n):
        running.append(n)
        counted.append(len(running))
        time.sleep(0.05)
        running.remove(n)
        return completion(question)

    server.reply = reply
    texts = [str(i) for i in range(12)]
    assert [a.text for a in answers(server, texts, concurrency=3)] == texts
    assert max(counted) == 3


# -- what is asked again --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble", [failure(500), failure(429, Retry_After="0.1"), failure(408), "hang up", completion("")]
)
def test_a_server_that_is_busy_or_says_nothing_is_asked_again(server, trouble, monkeypatch):
    server.reply = lambda question, n: trouble if n < 3 else completion("at last")
    # What a server asks for comes before our own pause.
    if "Retry-After" in trouble[1]:
        monkeypatch.setattr(endpoint, "FIRST_WAIT", 30)
        monkeypatch.setattr(endpoint, "LONGEST_WAIT", 60)
    assert answers(server, ["one"])[0] == Answer("at last", "answered", "", 7, 3)
    assert len(server.requests) == 3 and server.times[1] - server.times[0] < 25


def test_a_silent_server_is_given_up(server):
    gone = threading.Event()
    server.reply = lambda question, n: (gone.wait(5), "hang up")[1]
    with pytest.raises(RunError, match="does not answer: ReadTimeout"):
        answers(server, ["one"], timeout=0.2, attempts=2)
    gone.set()


def dripping(start, piece):
    """Yield the start of a reply, and then a piece of it again and again, until nobody listens."""
    yield start
    while True:
        time.sleep(0.05)
        yield piece


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"", b"H"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"a"),
    ],
    ids=["header", "headers", "status", "continue", "body"],
)
def test_a_reply_that_drips_is_given_up_wherever_it_does(server, start, piece):
    """Each piece comes well within the timeout, and they never end."""
    server.reply = lambda question, n: dripping(start, piece)
    with pytest.raises(RunError, match=r"ReadTimeout: the reply took longer than 1 seconds"):
        answers(server, ["one"], timeout=1, attempts=1)


def test_an_endpoint_is_asked_through_the_proxy_that_the_environment_names(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1").removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "elsewhere.test")
    assert answers(server, ["one"], url="http://endpoint.test/v1")[0].text == "ONE"
    # A proxy is asked for the whole URL.
    assert server.requests[0]["path"] == "http://endpoint.test/v1/chat/completions"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    answers(server, ["two"])
    assert server.requests[1]["path"] == "/v1/chat/completions"


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


def test_an_endpoint_out_of_order_ends_the_work_and_keeps_what_was_answered(server, store):
    server.reply = lambda question, n: completion(question) if n <= 4 else failure(503, "overloaded")
    texts = [str(i) for i in range(40)]
    with pytest.raises(RunError, match=r"127\.0\.0\.1:\d+/v1 does not answer: HTTP 503: overloaded\. Answers before"):
        answers(server, texts, store, concurrency=1, attempts=2)
    # Three questions in a row, twice each.
    assert len(server.requests) == 4 + 3 * 2
    server.reply = lambda question, n: completion(question)
    assert [a.text for a in answers(server, texts, store)] == texts
    assert sorted(set(server.questions[10:])) == sorted(texts[4:])
    # Some rejected questions in a row do not end it.
    server.reply = lambda question, n: completion("ok") if question == "new 0" else failure(413)
    found = answers(server, [f"new {i}" for i in range(9)], concurrency=1)
    assert [a.outcome for a in found] == ["answered"] + ["rejected"] * 8


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (failure(401, f"Incorrect API key provided: {KEY}"), ParameterError, "environment variable FAKE_KEY"),
        (failure(403, KEY), ParameterError, r"HTTP 403.*may use the model 'some-model'"),
        (failure(404, "no such model"), ParameterError, r"HTTP 404: no such model.*endpoint.model"),
        ((302, {"Location": "http://h.org/?key=x"}, ""), ParameterError, r"302. to http://h.org/\. No redirect"),
        ((302, {"Location": "http://[::1"}, ""), ParameterError, "redirects .HTTP 302. to http://.::1"),
        ((301, {}, ""), ParameterError, "redirects .HTTP 301. to nowhere"),
        (failure(402, "pay"), RunError, "wants to be paid first .HTTP 402: pay"),
        (failure(429, "quota", "insufficient_quota"), RunError, "wants to be paid first"),
    ],
)
def test_what_no_further_request_can_mend_ends_it_at_once(server, reply, kind, message):
    server.reply = lambda question, n: reply
    with pytest.raises(kind, match=message) as error:
        answers(server, [str(i) for i in range(40)], concurrency=1)
    assert len(server.requests) <= 2
    assert KEY not in str(error.value)


# -- stops ----------------------------------------------------------------------------------------------------


def test_two_that_ask_the_same_pay_once(server, tmp_path):
    """In threads, whose locks are as apart as those of two processes."""
    server.reply = lambda question, n: time.sleep(0.01) or completion(question)
    texts = [str(i) for i in range(20)]
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(answers, server, texts, Store(tmp_path)) for _ in range(2)]
    assert [[a.text for a in task.result()] for task in tasks] == [texts, texts]
    assert sorted(server.questions) == sorted(texts)


# -- the key and the URL --------------------------------------------------------------------------------------


def test_a_missing_key_is_told_before_anything_is_sent(server, monkeypatch):
    for value in (None, "", "  ", "kéy", "a\nb"):
        monkeypatch.delenv("FAKE_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("FAKE_KEY", value)
        with pytest.raises(ParameterError, match="environment variable FAKE_KEY holds no key for http://127"):
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
        found = answers(server, list("01234"), store, attempts=2, concurrency=1)
    assert [a.outcome for a in found] == ["answered", "rejected", "malformed", "refused", "unavailable"]
    assert found[0].text == "you are [key]"
    told = repr(found) + caplog.text + "".join(capfd.readouterr()) + repr(at(server))
    # Not even half of it, where a message is cut.
    assert KEY[:8] not in told
    assert KEY[:8].encode() not in bytes_below(store.root)
