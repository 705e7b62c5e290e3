"""Requests to an endpoint: sending, retries, limits and giving up, with a faulty server."""

import gzip
import threading
import time
from email.utils import formatdate

import pytest
from fake_endpoint import KEY, completion, failure
from loopback import RESET, head
from test_chat import answers

from biaslab.endpoints import endpoint
from biaslab.endpoints.chat import Answer
from biaslab.errors import ParameterError, RunError
from biaslab.execution import progress

# Maximum size of a chat reply in bytes.
MAX_BYTES = 8 * 2**20
GOOD = completion("yes")[2].encode()
NEVER_SET = threading.Event()


def plain(*headers, body=b"", length=True, status=b"200 OK"):
    """Return the bytes of a reply."""
    end = b"Content-Length: %d" % len(body) if length else b"Connection: close"
    return head(b"Content-Type: application/json", *headers, end, status=status) + body


def endless(start, piece, pause=0.0):
    """Yield a reply that does not end until the client hangs up; 4,000 pieces at most."""
    yield start
    for _ in range(4000):
        yield piece
        time.sleep(pause)


# -- requests that are sent again ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        *(failure(status) for status in (408, 425, 429, 500, 503)),
        failure(429, Retry_After="0.1"),
        RESET,
        completion(""),
        # The body is shorter than its stated length.
        [head(b"Content-Length: %d" % (len(GOOD) + 1)), GOOD],
        # It is shorter than it says, and no JSON.
        [head(b"Content-Length: 20"), GOOD],
    ],
)
def test_request_is_retried_after_temporary_failure(server, trouble, monkeypatch):
    server.reply = lambda question, n: trouble if n < 3 else completion("at last")
    if isinstance(trouble, tuple) and "Retry-After" in trouble[1]:
        # The server's pause replaces ours, which would take a minute.
        monkeypatch.setattr(endpoint, "FIRST_WAIT", 30)
        monkeypatch.setattr(endpoint, "LONGEST_WAIT", 60)
    assert answers(server, ["one"])[0] == Answer("at last", "answered", "", 7, 3)
    assert len(server.requests) == 3 and server.times[1] - server.times[0] < 25


def test_retry_pauses_double_up_to_limit(monkeypatch):
    pauses = []

    class Stop(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)

    def recorded_pauses(asked, tries):
        def send():
            raise endpoint.RequestError("busy", retry=True, wait=asked)

        pauses.clear()
        with pytest.raises(endpoint.RequestError, match="busy"):
            endpoint.make_retry_policy(tries, Stop())(send)
        return list(pauses)

    monkeypatch.setattr(endpoint, "FIRST_WAIT", 1.0)
    monkeypatch.setattr(endpoint, "LONGEST_WAIT", 20.0)
    for result, shortest in zip(recorded_pauses(None, 7), (1, 2, 4, 8, 16, 20), strict=True):
        # Up to a quarter longer at random, so that requests do not return all at once.
        assert shortest <= result <= min(shortest * 1.25, 20)
    assert len(set(recorded_pauses(0.1, 20))) > 1 and all(0.1 <= result <= 0.125 for result in pauses)
    assert recorded_pauses(3600.0, 2) == recorded_pauses(float("inf"), 2) == [20]
    assert recorded_pauses(None, 1) == []


def test_retry_after_is_number_or_date():
    seconds = {"12": 12, " 0 ": 0, "0.5": 0.5, "9" * 400: float("inf")}
    invalid_values = ("", "soon", "-5", "1e9", "inf", "\u0663", "Mon, 01 Jan 99999 00:00:00 GMT")
    result = {value: endpoint.retry_after(value) for value in (*seconds, *invalid_values)}
    assert result == seconds | dict.fromkeys(invalid_values)
    assert 50 < endpoint.retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert endpoint.retry_after(formatdate(time.time() - 60, usegmt=True)) == 0


@pytest.mark.parametrize(
    ("url", "reply", "error", "n"),
    [
        # The first is a port at which no server listens.
        ("http://127.0.0.1:9/v1", None, "ConnectError", 0),
        (None, lambda: NEVER_SET.wait(1.5) or RESET, "ReadTimeout", 3),
        (None, lambda: endless(plain(length=False), b" ", 0.05), "ReadTimeout: the reply took longer than 0.5 sec", 3),
    ],
    ids=["absent", "silent", "slow"],
)
def test_unreachable_endpoint_fails_after_three_tries(server, url, reply, error, n):
    server.reply = lambda question, _: reply()
    with pytest.raises(RunError, match=f"does not answer: {error}"):
        answers(server, ["one"], timeout=0.5, **({"url": url} if url else {}))
    assert len(server.requests) == n


# -- requests that end the work --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (failure(401, f"Incorrect API key provided: {KEY}"), ParameterError, "environment variable FAKE_KEY"),
        (failure(403, KEY), ParameterError, r"HTTP 403.*may use the model 'some-model'"),
        (failure(404, "no such model"), ParameterError, r"HTTP 404: no such model.*name of the model"),
        ((302, {"Location": "http://h.org/?key=x"}, ""), ParameterError, r"302. to http://h.org/\. Redirects"),
        ((301, {}, ""), ParameterError, "redirects .HTTP 301. to nowhere"),
        (failure(402, "pay"), RunError, "requires payment .HTTP 402: pay"),
        (failure(429, "quota", "insufficient_quota"), RunError, "requires payment"),
    ],
)
def test_permanent_error_stops_work(server, reply, kind, message):
    server.reply = lambda question, n: reply
    with pytest.raises(kind, match=message) as error:
        answers(server, [str(i) for i in range(40)], concurrency=1)
    assert len(server.requests) <= 2
    assert KEY not in str(error.value)


def test_replies_under_way_are_kept_after_error(server, store):
    barrier = threading.Barrier(3)

    def reply(question, n):
        if int(question) < 3:
            barrier.wait(30)
        if question == "1":
            return failure(401)
        # The error arrives before.
        time.sleep(0.2)
        return completion(question)

    server.reply = reply
    with pytest.raises(ParameterError, match="does not accept the key"):
        answers(server, [str(i) for i in range(40)], store, concurrency=3)
    asked = len(server.requests)
    assert [a.text for a in answers(server, ["0", "2"], store)] == ["0", "2"]
    assert len(server.requests) == asked


def test_retry_pause_ends_after_permanent_error(server, monkeypatch):
    monkeypatch.setattr(endpoint, "FIRST_WAIT", 300)
    monkeypatch.setattr(endpoint, "LONGEST_WAIT", 300)
    barrier = threading.Barrier(2)

    def reply(question, n):
        barrier.wait(30)
        return failure(503 if question == "waits" else 401)

    server.reply = reply
    begun = time.monotonic()
    with pytest.raises(ParameterError, match="does not accept the key"):
        answers(server, ["waits", "ends"], concurrency=2)
    assert time.monotonic() - begun < 200 and len(server.requests) == 2


def test_failing_endpoint_stops_and_keeps_answers(server, store):
    server.reply = lambda question, n: completion(question) if n <= 4 else failure(503, "overloaded")
    texts = [str(i) for i in range(40)]
    with pytest.raises(RunError, match=r"127\.0\.0\.1:\d+/v1 does not answer: HTTP 503: overloaded\. Earlier answers"):
        answers(server, texts, store, concurrency=1)
    # Three questions in a row, eight times each.
    assert len(server.requests) == 4 + 3 * 8
    server.reply = lambda question, n: completion(question)
    assert [a.text for a in answers(server, texts, store)] == texts
    assert sorted(set(server.questions[28:])) == sorted(texts[4:])
    # Some rejected questions in a row do not end it.
    server.reply = lambda question, n: completion("ok") if question == "new 0" else failure(413)
    result = answers(server, [f"new {i}" for i in range(9)], concurrency=1)
    assert [a.outcome for a in result] == ["answered"] + ["rejected"] * 8


# -- bodies ----------------------------------------------------------------------------------------------------

BOMB = gzip.compress(bytes(MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("pieces", "said", "n"),
    [
        (lambda: [plain(b"Content-Encoding: gzip", body=BOMB)], f"more than {MAX_BYTES} bytes", 3),
        (lambda: [plain(b"Content-Encoding: gzip", body=BOMB[:-9] + b"x" * 9)], f"more than {MAX_BYTES} bytes", 3),
        (lambda: [plain(b"Content-Encoding: gzip", body=GOOD)], "not valid chat completions: Error -3", 3),
        (lambda: endless(plain(length=False), b"{" + b" " * 65536), f"more than {MAX_BYTES} bytes", 3),
        (lambda: [plain(b"Content-Length: 99999999999", length=False)], "RemoteProtocolError", 3),
        # The status is enough where the body is of no use.
        (lambda: [plain(b"Content-Encoding: gzip", body=BOMB, status=b"413 Too Large")], "HTTP 413", 1),
        (lambda: endless(plain(length=False, status=b"413 Too Large"), bytes(65536)), "HTTP 413", 1),
    ],
    ids=["gzip", "damaged gzip", "no gzip", "endless", "cut off", "gzip with a status", "endless with a status"],
)
def test_oversized_or_invalid_body_is_limited(server, pieces, said, n):
    server.reply = lambda question, _: pieces()
    with pytest.raises(RunError, match=said):
        answers(server, ["one"], timeout=60.0)
    assert len(server.requests) == n


def test_identity_and_gzip_replies_are_read(server):
    compressed = plain(b"Content-Encoding: gzip", body=gzip.compress(GOOD))
    for reply in (plain(body=GOOD, length=False), plain(b"Content-Encoding: identity", body=GOOD), compressed):
        server.reply = lambda question, n, reply=reply: [reply]
        assert answers(server, ["one"])[0].text == "yes"
    assert {headers["Accept-Encoding"] for headers in server.headers} == {"identity"}


# -- connections -----------------------------------------------------------------------------------------------


def test_concurrency_limits_requests_under_way(server):
    active, n_active = [], []

    def reply(question, n):
        active.append(n)
        n_active.append(len(active))
        time.sleep(0.05)
        active.remove(n)
        return completion(question)

    server.reply = reply
    texts = [str(i) for i in range(12)]
    assert [a.text for a in answers(server, texts, concurrency=3)] == texts
    assert max(n_active) == 3


def test_endpoint_uses_proxy_of_environment(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1").removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "elsewhere.test")
    assert answers(server, ["one"], url="http://endpoint.test/v1")[0].text == "ONE"
    # A proxy receives the whole URL.
    assert server.requests[0]["path"] == "http://endpoint.test/v1/chat/completions"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    answers(server, ["two"])
    assert server.requests[1]["path"] == "/v1/chat/completions"


def test_unusable_proxy_error_hides_password(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "gopher://me:secret-word@proxy.test")
    with pytest.raises(
        ParameterError, match=r"The proxy in the environment variables cannot be used: .*gopher"
    ) as error:
        answers(server, ["one"])
    assert "secret-word" not in str(error.value) and server.requests == []


def test_invalid_url_is_refused(server):
    with pytest.raises(ParameterError, match=r"endpoint\.url is 'http://a\.\.b/v1', which is not a valid URL"):
        answers(server, ["one"], url="http://a..b/v1")


def test_retry_shows_reason_and_next_attempt(server, monkeypatch, capsys):
    monkeypatch.setattr(endpoint, "LONGEST_WAIT", 1.0)
    server.reply = lambda question, n: failure(503, "overloaded", Retry_After="1") if n == 1 else completion("yes")
    assert answers(server, ["one"])[0].text == "yes"
    assert capsys.readouterr().err == "HTTP 503: overloaded: attempt 2 in 1 s\n"


def test_failed_endpoint_is_not_retried_in_same_attempt(server, monkeypatch, tmp_path):
    server.reply = lambda question, n: failure(503, "down")
    monkeypatch.setenv(progress.ATTEMPT, str(tmp_path))
    with pytest.raises(RunError, match="does not answer: HTTP 503: down") as first:
        answers(server, ["one"])
    n_requests = len(server.requests)
    # Like another notebook of the run.
    with pytest.raises(RunError) as second:
        answers(server, ["two"])
    assert str(second.value) == str(first.value) and len(server.requests) == n_requests
    # Another model, and another start of the run, ask.
    server.reply = lambda question, n: completion("yes")
    assert answers(server, ["two"], model="other")[0].text == "yes"
    (tmp_path / "next").mkdir()
    monkeypatch.setenv(progress.ATTEMPT, str(tmp_path / "next"))
    assert answers(server, ["two"])[0].text == "yes"
