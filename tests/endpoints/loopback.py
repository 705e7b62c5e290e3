"""A local server for tests: subclasses or a function define its replies, and it records the requests."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

RESET = "reset"


class Request(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    headers: HTTPMessage
    body: bytes
    time: float
    """Seconds of the monotonic clock."""


# Status, headers and body; pieces of bytes that are sent as they are; or RESET, which cuts the connection.
Reply = tuple[int, dict, bytes | str] | Iterable[bytes] | str


def head(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    """Return the bytes of a reply before its body, for replies in pieces."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines]) + b"\r\n\r\n"


class Server:
    """A server that runs in a ``with`` statement; ``answer(request, n)`` returns the reply to its n-th request, from 1.

    ``answer`` may wait, and runs in a thread of its own for each connection.
    """

    protocol = "HTTP/1.0"

    def __init__(self, answer: Callable[[Request, int], Reply] | None = None):
        if answer is not None:
            self.answer = answer
        self.received: list[Request] = []
        self._mutex = threading.Lock()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.http.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @contextlib.contextmanager
    def running(self) -> Iterator["Server"]:
        """Run on a free port, with a thread per connection."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = server.protocol
            # The parts of a reply would wait for one another, 40 ms each time.
            disable_nagle_algorithm = True

            def do_GET(self):
                # A client may hang up before the reply ends.
                with contextlib.suppress(ConnectionError):
                    _send(self, server._reply(self))

            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.http.shutdown()
            thread.join()
            self.http.server_close()

    def _reply(self, handler: BaseHTTPRequestHandler) -> Reply:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = Request(handler.command, handler.path, handler.headers, body, time.monotonic())
        with self._mutex:
            self.received.append(request)
            n = len(self.received)
        return self.answer(request, n)


def _send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    if reply == RESET:
        # Without lingering, the client sees a broken connection instead of the end of a reply.
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()
    elif isinstance(reply, tuple):
        status, headers, text = reply
        body = text if isinstance(text, bytes) else text.encode()
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
    else:
        handler.close_connection = True
        for piece in reply:
            handler.wfile.write(piece)
