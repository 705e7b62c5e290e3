"""Replies made to fill a client's memory or its time: the same guard stands before every reply that is read."""

import gzip
import json
import time
import tracemalloc
import zlib

import pytest
from test_chat import answers

from biaslab.ground.errors import RunError

# What a good server would send to a chat, and how much of anything a chat takes.
GOOD = json.dumps({"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]})
MOST = 8 * 2**20
_ZEROS = bytes(64 * 2**20)
ONCE, DEFLATED = gzip.compress(_ZEROS, 1), zlib.compress(_ZEROS, 1)
THRICE = gzip.compress(gzip.compress(ONCE))
del _ZEROS
# A stream that is well packed and unpacks to nothing, however long it gets: empty blocks behind gzip's header.
NOTHING = gzip.compress(b"")[:10]
EMPTY_BLOCKS = b"\0\0\0\xff\xff" * 10_000


def plain(*headers, body=b"", length=True):
    """Return the bytes of a reply."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", *headers]
    lines += [f"Content-Length: {len(body)}"] if length else ["Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def endless(head, piece, *, pause=0.0, most=4000):
    """Yield a reply that goes on and on; it ends at some time, so that a client that takes it all fails and ends."""
    yield head
    for _ in range(most):
        yield piece
        time.sleep(pause)


# What is sent, and what a client says that reads no more than it should.
ATTACKS = {
    "stacked": (lambda: [plain("Content-Encoding: gzip, gzip, gzip", body=THRICE)], "gzip, gzip, gzip, which was not"),
    "stacked, hidden": (
        lambda: [plain("content-encoding: Identity, GZIP", "CONTENT-ENCODING: x-gzip", body=THRICE)],
        "gzip, x-gzip, which was not asked for",
    ),
    "gzip": (lambda: [plain("Content-Encoding: gzip", body=ONCE)], f"more than {MOST} bytes"),
    "deflate": (lambda: [plain("Content-Encoding: deflate", body=DEFLATED)], f"more than {MOST} bytes"),
    "zstd": (lambda: [plain("Content-Encoding: zstd", body=b"\x28\xb5\x2f\xfd")], "zstd, which was not asked for"),
    "no gzip": (lambda: [plain("Content-Encoding: gzip", body=b"plain")], "Content-Encoding gzip: Error -3"),
    "stated": (lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"], "1000000000000 bytes stated"),
    "endless": (lambda: endless(plain(length=False), b"{" + b" " * 65536), f"more than {MOST} bytes"),
    "endless nothing": (
        lambda: endless(plain("Content-Encoding: gzip", length=False, body=NOTHING), EMPTY_BLOCKS),
        f"more than {MOST} bytes",
    ),
    "drip of nothing": (
        lambda: endless(plain("Content-Encoding: gzip", length=False, body=NOTHING), b"\0\0\0\xff\xff", pause=0.02),
        "longer than 0.5 seconds",
    ),
    "drip": (lambda: endless(plain(length=False), b" ", pause=0.02, most=500), "longer than 0.5 sec|time for one try"),
}


def sends(server, pieces):
    """Have a server reply with what ``pieces()`` returns."""
    server.reply = lambda question, n: pieces()


@pytest.fixture
def peak():
    """Return what says how many bytes of memory were held at most since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def seconds(name):
    """Only a drip is to meet the limit of time: what is large may take a moment on a busy machine."""
    return 0.5 if name.startswith("drip") else 30.0


def talk(server, timeout=30.0):
    return answers(server, ["Is it?"], timeout=timeout, attempts=3)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_chat_reads_no_more_than_a_chat_can_be(server, peak, name):
    pieces, said = ATTACKS[name]
    sends(server, pieces)
    with pytest.raises(RunError, match=said):
        talk(server, seconds(name))
    # What was answered is read three times at most; what did not end in time is sent again.
    assert len(server.requests) == 3
    assert peak() < 4 * MOST


def test_a_good_reply_is_read_packed_once_or_not_at_all(server):
    body = GOOD.encode()
    for reply in (
        plain(body=body),
        plain("Content-Encoding: identity", body=body),
        plain("Content-Encoding: gzip", body=gzip.compress(body)),
        plain("Content-Encoding: x-gzip", length=False, body=gzip.compress(body)),
        plain("Content-Encoding: deflate", body=zlib.compress(body)),
    ):
        sends(server, lambda reply=reply: [reply])
        (answer,) = talk(server)
        assert (answer.text, answer.outcome) == ("yes", "answered")
    # Only what is unpacked is asked for.
    assert {headers["Accept-Encoding"] for headers in server.headers} == {"gzip, deflate"}


def test_a_length_that_is_a_lie(server):
    body = GOOD.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    sends(server, lambda: [head % 20, body])
    with pytest.raises(RunError, match="no chat completion"):
        talk(server)
    sends(server, lambda: [head % (len(body) + 1), body])
    with pytest.raises(RunError, match="RemoteProtocolError"):
        talk(server)


def test_a_status_says_enough_where_the_body_is_a_bomb(server, peak):
    bomb = plain("Content-Encoding: gzip, gzip, gzip", body=THRICE)
    sends(server, lambda: [bomb.replace(b"200 OK", b"400 Bad Request")])
    with pytest.raises(RunError, match="HTTP 400"):
        talk(server)
    assert len(server.requests) == 1 and peak() < MOST


def test_one_guard_for_all(root):
    """Nothing of ours lets httpx unpack: its own way has no limit."""
    for path in root.glob("biaslab/**/*.py"):
        text = path.read_text(encoding="utf-8")
        if "httpx" in text:
            unsafe = ("iter_bytes(", "iter_text(", "iter_lines(", "httpx.get(", "httpx.post(")
            assert [word for word in unsafe if word in text] == [], path.name
