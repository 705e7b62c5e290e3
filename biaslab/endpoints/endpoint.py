"""Requests to a model behind an OpenAI-compatible endpoint.

A request is repeated after status 408, 425, 429 or 5xx, after a broken connection and after a timeout. A question
without an answer gets an outcome that states the reason. The API key is sent only in the request's header, never to an
address to which the endpoint redirects, and is removed from all text that the server returns.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import tenacity

from biaslab import __version__, redact
from biaslab.endpoints import replies
from biaslab.endpoints.replies import FORM
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError, RunError
from biaslab.execution import progress as signs

# Maximum number of attempts of a question by the outcome of the last one; any other outcome is final.
_MAX_ATTEMPTS = {"unavailable": 8, "empty": 3, "malformed": 3}
# The same for an endpoint that has never replied, so that a wrong address is reported within seconds.
_MAX_ATTEMPTS_UNREACHED = 3
# Consecutive questions without an answer after which the endpoint counts as failed.
_MAX_FAILURES = 3
_BUSY_STATUSES = (408, 425, 429)
# Maximum seconds for a connection to one address of the endpoint; another address may accept it.
_CONNECT_TIMEOUT = 10.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Pause before a request is repeated, which doubles each time, and the maximum pause, in seconds."""
SCHEMA = f"{FORM}.json_schema"
"""The part of a request that is omitted to accept any JSON object as an answer."""
_OBJECT = {"type": "json_object"}
# The TLS context with certificates is cached, because reading them takes a tenth of a second.
_certificates = functools.cache(httpx.create_ssl_context)
_log = logging.getLogger(__name__)


class RequestError(Exception):
    """A failed attempt: ``outcome`` is the name of the reason, ``detail`` describes it.

    ``retry`` is whether another attempt may succeed. ``wait`` is the pause requested by the server in seconds, or None.
    """

    def __init__(self, outcome: str, detail: str = "", *, retry: bool = False, wait: float | None = None) -> None:
        super().__init__(detail or outcome)
        self.outcome, self.detail, self.retry, self.wait = outcome, detail, retry, wait


def make_retry_policy(max_attempts: int, stop: threading.Event, *, abandons: bool = False) -> tenacity.Retrying:
    """Return the policy that calls a function up to ``max_attempts`` times while it raises RequestError with ``retry``.

    The server determines a pause, or else pauses double. They are up to a quarter longer at random, so that requests
    are spread, and at most :data:`LONGEST_WAIT` seconds. ``stop`` ends a pause and the calls. With ``abandons``, a
    server that requests a longer pause is not called again.
    """

    def is_temporary(error: BaseException) -> bool:
        return isinstance(error, RequestError) and error.retry and not (abandons and (error.wait or 0) > LONGEST_WAIT)

    def pause(state: tenacity.RetryCallState) -> float:
        # A server that requests no pause is busy nevertheless.
        seconds = state.outcome.exception().wait or FIRST_WAIT * 2 ** (state.attempt_number - 1)
        return min(seconds * random.uniform(1, 1.25), LONGEST_WAIT)

    def show_retry(state: tenacity.RetryCallState) -> None:
        wait = state.next_action.sleep
        # A shorter pause ends before its message is read.
        if wait >= 1:
            number = state.attempt_number + 1
            signs.notice(f"{state.outcome.exception()!s:.100}: attempt {number} in {wait:.0f} s")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_temporary),
        stop=tenacity.stop_after_attempt(max_attempts) | tenacity.stop_when_event_set(stop),
        wait=pause,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=show_retry,
        reraise=True,
    )


class StoppedError(Exception):
    """Another request ended the work."""


class Requests:
    """The requests of one call, several at a time; a subclass implements one kind of model.

    ``request_fields(question)`` returns the fields of a request in addition to ``fields``, ``read(digest, data,
    headers)`` the answer in a reply with status 200, ``empty_answer(outcome, detail)`` the answer without such a reply,
    and ``save(digest, question, answer)`` stores it. Answers have an outcome and a detail.

    Raises ParameterError: URL or model is missing, the URL is not valid, or the environment has no key.
    """

    # Path of a request below the endpoint's URL; for messages the products, their unit, and a note on cached ones.
    path: str
    product: str
    unit: str
    after_stop: str
    # The outcome of questions that a policy stops; all outcomes with their meanings; those that are cached.
    stopped: str
    outcomes: Mapping[str, str]
    cached_outcomes: Sequence[str]
    # Maximum bytes of a reply, and fields that are omitted for a model that rejects them.
    longest_reply: int
    optional: Sequence[str] = ()

    def __init__(self, settings: EndpointSettings, fields: Mapping[str, Any], *, worked_before: bool) -> None:
        self.settings, self._fields = settings, fields
        self._has_worked = self._is_reached = worked_before
        self.omitted_fields: set[str] = set()
        self.stop = threading.Event()
        self.mutex = threading.Lock()
        self._n_failures = 0
        self.key = settings.check_key()
        parts = urlsplit(settings.url)
        self.target = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/{self.path}", parts.query, ""))
        self.address = f"The endpoint {parts.scheme}://{parts.netloc}{parts.path}"
        try:
            httpx.URL(self.target).raw_host.decode().encode("idna")
        except (httpx.InvalidURL, UnicodeError):
            raise ParameterError(f"endpoint.url is {settings.url!r}, which is not a valid URL.") from None

    def request_all(self, questions: Mapping[str, Any], label: str, progress: bool) -> dict[str, Any]:
        """Send all questions and return their answers, by digest.

        Raises ParameterError: The endpoint does not accept the key (401, 403), has no such model or path (404), or
        redirects; or a proxy of the environment cannot be used. RunError: The endpoint fails, or requires payment.
        """
        with contextlib.suppress(OSError):
            # Another notebook of this attempt of the run has already waited for it.
            raise RunError(self._failure_file.read_text(encoding="utf-8"))
        answers: dict[str, Any] = {}
        bar_options = {"total": len(questions), "desc": label, "unit": f" {self.unit}"}
        with self._client() as client, ThreadPoolExecutor(self.settings.concurrency) as pool:
            tasks = {pool.submit(self._request_one, client, digest, q): digest for digest, q in questions.items()}
            try:
                with signs.bar(**bar_options) if progress else contextlib.nullcontext() as bar:
                    for task in as_completed(tasks):
                        # The error that stopped the work comes from another task.
                        with contextlib.suppress(StoppedError):
                            answers[tasks[task]] = task.result()
                            # Without their own bar, questions are part of a stage's batch.
                            bar.update() if bar else signs.count(len(answers) / len(questions))
            except BaseException:
                # Pending replies are paid for, so they are awaited and cached.
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if not self._has_worked:
            raise self._end_work(next(iter(answers.values())))
        return answers

    def _client(self) -> httpx.Client:
        """Return a client that takes proxies and certificates from the environment and follows no redirect."""
        headers = {
            "User-Agent": f"biaslab/{__version__}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            # A few gateways send compressed replies nevertheless; these are unpacked up to the limit of bytes.
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {self.key}"} if self.key else {}),
        }
        limits = httpx.Limits(max_connections=self.settings.concurrency)
        timeout = httpx.Timeout(self.settings.timeout, connect=min(self.settings.timeout, _CONNECT_TIMEOUT))
        options = {"headers": headers, "timeout": timeout, "limits": limits, "verify": _certificates()}
        try:
            return httpx.Client(**options, follow_redirects=False)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ParameterError(
                f"The proxy in the environment variables cannot be used: {self.shorten_message(error)}"
            ) from None

    def _request_one(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Send one question and save its answer; an error also stops all other requests."""
        try:
            answer = self.exchange(client, digest, question)
            has_answer = answer.outcome in self.cached_outcomes
            if has_answer:
                self.save(digest, question, answer)
            with self.mutex:
                self._n_failures = 0 if has_answer else self._n_failures + 1
                self._has_worked = self._has_worked or has_answer
                # A working endpoint may reject some questions; one with unsuitable settings rejects all.
                counts = answer.outcome != "rejected" or not self._has_worked
                if self._n_failures >= _MAX_FAILURES and counts:
                    raise self._end_work(answer)
            return answer
        except Exception:
            self.stop.set()
            raise

    def exchange(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Send one question until it has an answer or no further attempt is allowed; return the last answer.

        Raises StoppedError: Another request ended the work.
        """
        answer, n_attempts = None, 0

        def attempt_once() -> None:
            nonlocal answer, n_attempts
            if self.stop.is_set():
                raise StoppedError
            answer, wait = self.attempt(client, digest, question)
            n_attempts += 1
            if max_attempts := _MAX_ATTEMPTS.get(answer.outcome):
                retry = n_attempts < (max_attempts if self._is_reached else _MAX_ATTEMPTS_UNREACHED)
                raise RequestError(answer.outcome, answer.detail, retry=retry, wait=wait)

        with contextlib.suppress(RequestError):
            make_retry_policy(max(_MAX_ATTEMPTS.values()), self.stop)(attempt_once)
        return answer

    def attempt(self, client: httpx.Client, digest: str, question: Any) -> tuple[Any, float | None]:
        """Send one question once; return the answer, and the pause in seconds that the server requests, or None."""
        try:
            status, headers, data = self._send(client, digest, question)
        except httpx.TransportError as error:
            return self.empty_answer("unavailable", f"{type(error).__name__}: {self.shorten_message(error)}"), None
        except httpx.DecodingError as error:
            return self.empty_answer("malformed", f"not valid {self.product}: {self.shorten_message(error)}"), None
        self._is_reached = True
        if status == 200:
            if len(data) > self.longest_reply:
                return self.handle_oversized(), None
            return self.read(digest, data, headers), None
        if 300 <= status < 400:
            # Its query may hold a key.
            place = self.shorten_message(headers.get("Location", "").partition("?")[0]) or "nowhere"
            raise ParameterError(
                f"{self.address} redirects (HTTP {status}) to {place}. Redirects are not followed, because their "
                "target would receive the key. Set endpoint.url to the actual address of the endpoint. "
                f"{self.after_stop}."
            )
        return self.handle_rejection(status, data), retry_after(headers.get("Retry-After", ""))

    def _send(self, client: httpx.Client, digest: str, question: Any) -> tuple[int, httpx.Headers, bytes]:
        """Send a question by :meth:`post`, without the optional fields that this model rejects.

        For the form of answers, first the schema is omitted, then the whole field.
        """
        while True:
            fields = {k: v for k, v in self._fields.items() if k not in self.omitted_fields}
            has_schema = FORM in fields and fields[FORM] != _OBJECT
            if has_schema and SCHEMA in self.omitted_fields:
                fields[FORM], has_schema = _OBJECT, False
            # ASCII can encode any text: JSON escapes lone surrogates, which UTF-8 cannot encode.
            body = json.dumps({**fields, **self.request_fields(question)}).encode()
            status, headers, data = self.post(client, digest, body)
            optional_fields = [name for name in self.optional if name in fields]
            if status not in (400, 422) or not (name := replies.refused_field(data, optional_fields)):
                return status, headers, data
            # Servers without support for schemas often support plain JSON.
            name = SCHEMA if name == FORM and has_schema else name
            with self.mutex:
                if name not in self.omitted_fields:
                    _log.warning("%s does not accept the field %r; requests omit it.", self.settings.model, name)
                    self.omitted_fields.add(name)

    def post(self, client: httpx.Client, digest: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request; return status, headers and body, which is truncated once it exceeds ``longest_reply``.

        If a gateway sends an error with status 200, the status is that of the error in the body.

        Raises httpx.TransportError: The connection failed, or the reply was not complete within the endpoint's timeout.
        httpx.DecodingError: The reply is compressed, and damaged.
        """
        deadline, data = time.monotonic() + self.settings.timeout, bytearray()
        with client.stream("POST", self.target, content=body) as response:
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > self.longest_reply:
                    break
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"the reply took longer than {self.settings.timeout:g} seconds")
            return replies.status(response.status_code, bytes(data)), response.headers, bytes(data)

    def handle_oversized(self) -> Any:
        """Return the answer for a reply that is longer than ``longest_reply`` bytes."""
        return self.empty_answer("malformed", f"not valid {self.product}: more than {self.longest_reply} bytes")

    def handle_rejection(self, status: int, data: bytes) -> Any:
        """Return the answer for a reply with a status other than 200, or raise if all requests would fail."""
        code, message = replies.error(data)
        detail = f"HTTP {status}" + (f": {self.shorten_message(message)}" if message else "")
        model, variable = self.settings.model, self.settings.api_key_env
        if replies.is_policy(data):
            return self.empty_answer(self.stopped, detail)
        if status in (401, 403):
            options = f"the key in the environment variable {variable}" if variable else "a request without a key"
            raise ParameterError(
                f"{self.address} does not accept {options} (HTTP {status}). Set endpoint.api_key_env to a variable "
                f"with a key that is valid there and may use the model {model!r}, and run again. {self.after_stop}."
            )
        if status == 404:
            raise ParameterError(
                f"{self.address} offers no {self.product} with the model {model!r} ({detail}). Check endpoint.url and "
                f"the name of the model. {self.after_stop}."
            )
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise RunError(
                f"{self.address} requires payment ({detail}). Add credit there, and run again. {self.after_stop}."
            )
        return self.empty_answer("unavailable" if status in _BUSY_STATUSES or status >= 500 else "rejected", detail)

    @property
    def _failure_file(self) -> Path:
        """The file with the failure of this endpoint and model, in the folder of a run's attempt; else a null file."""
        service = hashlib.sha256(f"{self.target} {self.settings.model}".encode()).hexdigest()[:16]
        return Path(os.environ.get(signs.ATTEMPT) or os.devnull, f"unavailable-{service}")

    def _end_work(self, last_answer: Any) -> RunError:
        """Return the error for an endpoint without answers, and save it for other notebooks of this run."""
        error = self.repeated_failure(last_answer)
        with contextlib.suppress(OSError):
            self._failure_file.write_text(str(error), encoding="utf-8")
        return error

    def repeated_failure(self, last_answer: Any) -> RunError:
        """Return the error for an endpoint without answers to several consecutive questions."""
        return RunError(
            f"{self.address} does not answer: {last_answer.detail or self.outcomes[last_answer.outcome]}. "
            f"{self.after_stop}. Check that the endpoint is running and accepts such requests, and run again."
        )

    def shorten_message(self, message: object, longest: int | None = 200) -> str:
        """Return a server's message without the key, truncated to ``longest`` characters."""
        return self.redact_key(message)[:longest]

    def redact_key(self, message: object) -> str:
        """Return a server's message as text without the key."""
        text = message.decode("utf-8", errors="replace") if isinstance(message, bytes) else str(message)
        # A JSON escape can produce a lone surrogate, which no file can contain.
        text = text.encode("utf-8", errors="replace").decode()
        return (text.replace(self.key, redact.KEY) if self.key else text).strip()


def retry_after(value: str) -> float | None:
    """Return the seconds of a header ``Retry-After``, which is a number or a date; None if it is neither."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value.strip()):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
