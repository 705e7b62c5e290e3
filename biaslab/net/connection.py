"""Connections whose every wait ends in time, however the bytes come: one by one, or never."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpcore

from biaslab.net.retry import Failed

# Bytes handed over at a time, so that a server that takes them slowly is noticed.
_CHUNK = 16384


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
        for k in range(0, len(buffer), _CHUNK):
            self._stream.write(buffer[k : k + _CHUNK], self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context, server_hostname=None, timeout=None) -> _Stream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._left()), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
