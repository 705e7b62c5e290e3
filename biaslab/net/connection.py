"""Connections, bodies and retries of the guarded fetch: every wait ends in time, bodies have a limit, packed or not.

A few hundred bytes can unpack to gigabytes, and packing can be stacked. So nobody's own unpacking is used: a body is
taken as it came, and what it unpacks to is counted piece by piece.
"""

from __future__ import annotations

import logging
import queue
import random
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import httpcore
import httpx
import tenacity

from biaslab.net.endpoint import Failed

ENCODINGS = "gzip, deflate"
"""What is unpacked, as the value of ``Accept-Encoding``."""
# Bytes sent at a time, so that a server that takes them slowly is noticed; and unpacked at a time.
_SENT, _UNPACKED = 16384, 65536
_log = logging.getLogger(__name__)
_SPREAD = 0.25


def policy(
    tries: int, first_wait: float, longest_wait: float, *, stop: threading.Event | None = None, abandons: bool = False
) -> tenacity.Retrying:
    """Return what calls a function until it does not raise :class:`Failed`, ``tries`` times at most.

    The first pause takes ``first_wait`` seconds, none more than ``longest_wait``. ``stop`` ends a pause, and the try
    after it is the last. With ``abandons``, who wants a longer pause than ``longest_wait`` is not asked again.
    """
    stop = stop or threading.Event()

    def again(error: BaseException) -> bool:
        retry = isinstance(error, Failed) and error.retry
        return retry and not (abandons and (error.wait or 0.0) > longest_wait)

    def wait(state: tenacity.RetryCallState) -> float:
        asked = state.outcome.exception().wait
        seconds = first_wait * 2 ** (state.attempt_number - 1) if asked is None else asked
        return min(seconds * random.uniform(1, 1 + _SPREAD), longest_wait)

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(again),
        stop=tenacity.stop_after_attempt(tries) | tenacity.stop_when_event_set(stop),
        wait=wait,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=tenacity.before_sleep_log(_log, logging.INFO),
        reraise=True,
    )


def pause(policy: tenacity.Retrying, tries: int, failed: Failed) -> float | None:
    """Return the seconds before another try, after ``tries`` the last of which ``failed``; None where there is none."""
    state = tenacity.RetryCallState(policy, None, (), {})
    state.attempt_number = tries
    state.set_exception((Failed, failed, failed.__traceback__))
    return policy.wait(state) if policy.retry(state) and not policy.stop(state) else None


@cache
def tls(*, trust_env: bool = True) -> ssl.SSLContext:
    """Return by whom servers are vouched for: certifi's, or with ``trust_env`` those that the environment names."""
    return httpx.create_ssl_context(trust_env=trust_env)


def resolve(host: str, port: int, seconds: float) -> list[str]:
    """Return a host's addresses; raise :class:`Failed` where it has none, or they take longer than ``seconds``."""
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # The system's resolver cannot be told to hurry, so it is left behind where it takes too long.
    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=max(seconds, 0.001))
    except queue.Empty:
        raise Failed("timed_out", f"no answer about the name {host}") from None
    if isinstance(answer, UnicodeError):
        raise Failed("bad_url", f"{host[:100]} is no name of a host")
    if isinstance(answer, OSError):
        raise Failed("no_address", str(answer), retry=answer.errno == socket.EAI_AGAIN)
    return list(dict.fromkeys(entry[4][0] for entry in answer))


class Backend(httpcore.NetworkBackend):
    """Connects to one of the addresses that ``addresses(host, port)`` returns.

    ``left()`` returns the seconds that a wait may take, or raises ``httpcore.ReadTimeout`` where the time is up.
    """

    def __init__(self, addresses: Callable[[str, int], Sequence[str]], left: Callable[[], float]) -> None:
        self._addresses, self._left = addresses, left
        self.connected = False

    def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None) -> _Stream:
        """Return a connection to the first address that takes one; each wait ends in time."""
        failed: Exception = httpcore.ConnectTimeout("the time for one try is up")
        addresses = self._addresses(host, port)[:4]
        for n, address in enumerate(addresses):
            try:
                # An address that never answers leaves time for the others.
                seconds = self._left() / (len(addresses) - n)
                stream = httpcore.SyncBackend().connect_tcp(address, port, seconds, socket_options=[])
                self.connected = True
                return _Stream(stream, self._left)
            except httpcore.ReadTimeout:
                break
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, left: Callable[[], float]) -> None:
        self._stream, self._left = stream, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._stream.read(max_bytes, self._left())
        except httpcore.ReadTimeout:
            # Says so where the time for all is up, and not for this wait alone.
            self._left()
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for k in range(0, len(buffer), _SENT):
            self._stream.write(buffer[k : k + _SENT], self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context, server_hostname=None, timeout=None) -> _Stream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._left()), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def read(raw: Iterable[bytes], headers: httpx.Headers, most: int) -> Iterator[bytes]:
    """Yield a body in pieces; at ``most`` so many bytes are taken, as they came and unpacked.

    Raises Failed: ``too_many_bytes``: the body, or the length that its header states, is beyond the limit. ``damaged``:
    it is packed more than once, by another way than :data:`ENCODINGS`, or badly.
    """
    packed = [name.lower() for name in headers.get_list("content-encoding", split_commas=True)]
    packed = [name for name in packed if name not in ("", "identity")]
    if len(packed) > 1 or (packed and packed[0] not in ("gzip", "x-gzip", "deflate")):
        raise Failed("damaged", f"Content-Encoding {', '.join(packed)[:50]}, which was not asked for")
    stated = headers.get("content-length", "").strip()
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > most:
        raise Failed("too_many_bytes", f"{int(stated[:20])} bytes stated")
    received = unpacked = 0
    pieces = _unpacking(packed[0]) if packed else lambda chunk: (chunk,)
    for chunk in raw:
        received += len(chunk)
        for piece in pieces(chunk):
            unpacked += len(piece)
            yield piece
            if unpacked > most:
                break
        if max(received, unpacked) > most:
            raise Failed("too_many_bytes", f"more than {most} bytes")


def _unpacking(name: str) -> Callable[[bytes], Iterator[bytes]]:
    # 32 lets zlib see by itself whether it is gzip or deflate.
    unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS)

    def pieces(chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # What follows the end of the compressed data is passed over.
        while (chunk or len(piece) == _UNPACKED) and not unpacker.eof:
            try:
                piece = unpacker.decompress(chunk, _UNPACKED)
            except zlib.error as error:
                raise Failed("damaged", f"Content-Encoding {name}: {error}") from None
            chunk = unpacker.unconsumed_tail
            yield piece

    return pieces
