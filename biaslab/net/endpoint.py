"""Requests to a model behind an OpenAI-compatible endpoint, and a key that stays where it is.

A request that meets 408, 425, 429, a status from 500, a broken connection or silence is sent again
(:mod:`biaslab.net.retry`); so is one whose answer is empty or cannot be read, twice at most. What then is no answer has
an outcome that says why. A try ends with the endpoint's timeout, however slowly headers and body come in. The key goes
into the request's header and nowhere else, and is blotted out of whatever the server says.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from biaslab import __version__
from biaslab.ground import redact
from biaslab.ground.errors import ParameterError, RunError
from biaslab.net import connection, replies
from biaslab.net.retry import Failed, policy, retry_after
from biaslab.net.settings import EndpointSettings

# How often a question is asked whose answer is empty or cannot be read.
_READINGS = 3
_UNUSABLE = ("empty", "malformed")
# What goes wrong on the way.
_BROKEN = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
# Questions in a row without any answer after which the endpoint counts as out of order.
_PATIENCE = 3
_BUSY = (408, 425, 429)
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Pause before a request is sent again, which doubles each time, and the longest pause, in seconds."""
_log = logging.getLogger(__name__)


class StoppedError(Exception):
    """Another request ended the work."""


class Requests:
    """The requests of one call, several at a time; each kind of model has a class that adds what is its own.

    ``asked(question)`` returns what a request holds beside ``fields``, ``read(digest, data, headers)`` the answer in a
    reply of status 200, ``nothing(outcome, detail)`` what stands in the place of one, and ``keep(digest, question,
    answer)`` writes it down. Answers have an outcome and a detail.

    Raises ParameterError: There is no URL or model, or the environment has no key.
    """

    # Path of a request below the endpoint's URL; for messages what the endpoint gives, one of them, and what is kept.
    path: str
    gives: str
    unit: str
    stays: str
    # The outcome of what a policy stops; what may become of a question, and what it means; which of it is kept.
    stopped: str
    outcomes: Mapping[str, str]
    kept: Sequence[str]
    # Bytes of a reply that are read, and fields without which a model may be asked that does not take them.
    longest_reply: int
    optional: Sequence[str] = ()

    def __init__(self, settings: EndpointSettings, fields: Mapping[str, Any], *, worked_before: bool) -> None:
        self.settings, self._fields, self._worked = settings, fields, worked_before
        self.left_out: set[str] = set()
        self.stop = threading.Event()
        self.mutex = threading.Lock()
        self._failed_in_a_row = 0
        self._clock = threading.local()
        self.key = settings.check_key()
        parts = urlsplit(settings.url)
        self.target = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/{self.path}", parts.query, ""))
        self.where = f"The endpoint {parts.scheme}://{parts.netloc}{parts.path}"
        try:
            at = httpx.URL(self.target)
        except httpx.InvalidURL:
            raise ParameterError(f"The endpoint's URL {settings.url} is none; check endpoint.url.") from None
        self._at = httpcore.URL(scheme=at.raw_scheme, host=at.raw_host, port=at.port, target=at.raw_path)

    def all(self, questions: Mapping[str, Any], label: str, progress: bool) -> dict[str, Any]:
        """Ask all questions and return their answers, by digest.

        Raises ParameterError: The endpoint does not accept the key (401, 403), or there is no such model or path (404).
        RunError: It is out of order, or wants to be paid.
        """
        from tqdm import tqdm

        found: dict[str, Any] = {}
        bar = {"total": len(questions), "desc": label, "unit": f" {self.unit}", "leave": False}
        client = self._connections()
        with client, ThreadPoolExecutor(self.settings.concurrency) as pool:
            tasks = {pool.submit(self._one, client, digest, q): digest for digest, q in questions.items()}
            try:
                with tqdm(**bar, disable=not progress, file=sys.stderr) as shown:
                    for task in as_completed(tasks):
                        # The error that stopped it comes from another task.
                        with contextlib.suppress(StoppedError):
                            found[tasks[task]] = task.result()
                            shown.update()
            except BaseException:
                # What is under way is waited for and kept: it is paid for.
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if not self._worked:
            raise self.out_of_order(next(iter(found.values())))
        return found

    def _one(self, client: httpcore.ConnectionPool, digest: str, question: Any) -> Any:
        """Ask one question and keep its answer; an error ends the others' work, too."""
        try:
            answer = self.exchange(client, digest, question)
            worked = answer.outcome in self.kept
            if worked:
                self.keep(digest, question, answer)
            with self.mutex:
                self._failed_in_a_row = 0 if worked else self._failed_in_a_row + 1
                self._worked = self._worked or worked
                # Some questions are turned down by an endpoint that works; all are where the settings do not suit it.
                hopeless = answer.outcome != "rejected" or not self._worked
                if self._failed_in_a_row >= _PATIENCE and hopeless:
                    raise self.out_of_order(answer)
            return answer
        except Exception:
            self.stop.set()
            raise

    def exchange(self, client: httpcore.ConnectionPool, digest: str, question: Any) -> Any:
        """Send one question until there is an answer or no more sense in asking."""
        answer, unusable = None, 0

        def once() -> None:
            nonlocal answer, unusable
            if self.stop.is_set():
                raise StoppedError
            answer, wait = self.attempt(client, digest, question)
            unusable += answer.outcome in _UNUSABLE
            if answer.outcome == "unavailable" or (answer.outcome in _UNUSABLE and unusable < _READINGS):
                raise Failed(answer.outcome, answer.detail, retry=True, wait=wait)

        with contextlib.suppress(Failed):
            self.again(self.settings.attempts, once)
        return answer

    def attempt(self, client: httpcore.ConnectionPool, digest: str, question: Any) -> tuple[Any, float | None]:
        """Send one question once; return what came of it, and the seconds after which the server wants to be asked."""
        try:
            status, headers, data = self._sent(client, digest, question)
        except Failed as failed:
            return self.unread(failed), None
        except _BROKEN as error:
            return self.nothing("unavailable", f"{type(error).__name__}: {self.clean(error)}"), None
        if status == 200:
            return self.read(digest, data, headers), None
        if 300 <= status < 400:
            # Its query may hold a key.
            to = self.clean(headers.get("Location", "").partition("?")[0]) or "nowhere"
            raise ParameterError(
                f"{self.where} redirects (HTTP {status}) to {to}. No redirect is followed, since the key would go with "
                f"it: set endpoint.url to where the endpoint is. {self.stays}."
            )
        return self.turned_down(status, data), retry_after(headers.get("Retry-After", ""))

    def _sent(self, client: httpcore.ConnectionPool, digest: str, question: Any) -> tuple[int, httpx.Headers, bytes]:
        """Send a question as :meth:`post` does, without fields that this model does not take."""
        while True:
            fields = {k: v for k, v in self._fields.items() if k not in self.left_out}
            # In ASCII, so that any text fits: JSON has an escape for what UTF-8 does not take.
            whole = json.dumps({**fields, **self.asked(question)}).encode()
            status, headers, data = self.post(client, digest, whole)
            maybe = [name for name in self.optional if name in fields]
            if status not in (400, 422) or not (name := replies.refused_field(data, maybe)):
                return status, headers, data
            with self.mutex:
                if name not in self.left_out:
                    _log.warning("%s takes no %r of its own: it is asked without.", self.settings.model, name)
                    self.left_out.add(name)

    def again(self, tries: int, send: Callable[[], Any]) -> Any:
        """Return what ``send`` does, called up to ``tries`` times."""
        return policy(tries, FIRST_WAIT, LONGEST_WAIT, stop=self.stop)(send)

    def post(self, client: httpcore.ConnectionPool, digest: str, whole: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request; return the status, the headers and the body, all within the endpoint's timeout.

        Gateways pass on with a status of 200 what went wrong: then the status is that of the error in the body.

        Raises Failed: There is an answer, but it is longer than any, or packed as nobody asked.
        """
        self._clock.end, data = time.monotonic() + self.settings.timeout, bytearray()
        headers = {
            "User-Agent": f"biaslab/{__version__}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": connection.ENCODINGS,
            **({"Authorization": f"Bearer {self.key}"} if self.key else {}),
        }
        # A redirect would carry the key to another place: nothing here follows one.
        with client.stream("POST", self._at, headers=headers, content=whole) as response:
            taken = httpx.Headers(response.headers)
            try:
                for piece in connection.read(response.iter_stream(), taken, self.longest_reply):
                    data += piece
            except Failed:
                # Of a reply that turns a question down, the status says enough.
                if response.status == 200:
                    raise
            return replies.status(response.status, bytes(data)), taken, bytes(data)

    def _connections(self) -> httpcore.ConnectionPool:
        """Return connections to the endpoint, through the proxy that the environment names for it."""
        how = {
            "ssl_context": connection.tls(),
            "max_connections": self.settings.concurrency,
            # Seconds after which a connection that nobody uses is no longer trusted.
            "keepalive_expiry": 5.0,
            "network_backend": connection.Backend(self._addresses, self._left),
        }
        parts = urlsplit(self.target)
        proxies = {} if proxy_bypass(parts.netloc) else getproxies()
        address = proxies.get(parts.scheme) or proxies.get("all")
        if not address:
            return httpcore.ConnectionPool(**how)
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
        kind = httpcore.SOCKSProxy if proxy.url.scheme.startswith("socks") else httpcore.HTTPProxy
        return kind(proxy_url=str(proxy.url), proxy_auth=proxy.raw_auth, **how)

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            return connection.resolve(host, port, self._left())
        except Failed as failed:
            raise httpcore.ConnectError(str(failed)) from None

    def _left(self) -> float:
        """Return the seconds that are left for the request of this thread."""
        if (left := self._clock.end - time.monotonic()) <= 0:
            raise httpcore.ReadTimeout(f"the reply took longer than {self.settings.timeout:g} seconds")
        return left

    def unread(self, failed: Failed) -> Any:
        """Return the outcome of an answer that cannot be read to its end."""
        return self.nothing("malformed", f"no {self.gives}: {self.clean(failed.detail)}")

    def turned_down(self, status: int, data: bytes) -> Any:
        """Return the outcome of a reply with another status than 200, or raise where nothing can be asked like this."""
        code, said = replies.error(data)
        told = f"HTTP {status}" + (f": {self.clean(said)}" if said else "")
        model, variable = self.settings.model, self.settings.key_variable
        if replies.is_policy(data):
            return self.nothing(self.stopped, told)
        if status in (401, 403):
            how = f"the key in the environment variable {variable}" if variable else "a request without a key"
            raise ParameterError(
                f"{self.where} does not accept {how} (HTTP {status}). Set endpoint.key_variable to a variable whose "
                f"key is valid there and may use the model {model!r}, and run again. {self.stays}."
            )
        if status == 404:
            raise ParameterError(
                f"{self.where} has no {self.gives} for the model {model!r} ({told}); check endpoint.url and "
                f"endpoint.model. {self.stays}."
            )
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise RunError(f"{self.where} wants to be paid first ({told}). {self.stays}.")
        return self.nothing("unavailable" if status in _BUSY or status >= 500 else "rejected", told)

    def out_of_order(self, last: Any) -> RunError:
        """Return the error for an endpoint that gave nothing, several times in a row."""
        return RunError(
            f"{self.where} does not answer: {last.detail or self.outcomes[last.outcome]}. {self.stays}; see that it "
            "runs and takes such requests, and run again."
        )

    def clean(self, said: object, longest: int | None = 200) -> str:
        """Return what a server said without the key, no longer than ``longest`` characters."""
        return self.keyless(said)[:longest]

    def keyless(self, said: object) -> str:
        """Return what a server said as one text without the key."""
        text = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(said)
        # A lone surrogate comes with a JSON escape and fits in no file.
        text = text.encode("utf-8", errors="replace").decode()
        return (text.replace(self.key, redact.KEY) if self.key else text).strip()
