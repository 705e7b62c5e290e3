"""Requests to a model behind an OpenAI-compatible endpoint.

A request is sent again after status 408, 425, 429 or 5xx, after a broken connection and after a timeout. A question
without an answer gets an outcome that states the reason. The API key is sent in the request's header only, never to an
address that the endpoint redirects to, and is removed from all text that the server returns.
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

# How often a question is asked, by the outcome of the last try; any other outcome is final.
_TRIES = {"unavailable": 8, "empty": 3, "malformed": 3}
# The same for an endpoint that has never replied, so that a wrong address is reported within seconds.
_TRIES_UNREACHED = 3
# Questions in a row without an answer after which the endpoint counts as out of order.
_PATIENCE = 3
_BUSY = (408, 425, 429)
# Seconds for a connection to one address of the endpoint; another address may take it.
_LONGEST_CONNECT = 10.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Pause before a request is sent again, which doubles each time, and the longest pause, in seconds."""
SCHEMA = f"{FORM}.json_schema"
"""What is left out of a request whose answer is to be any JSON object."""
_OBJECT = {"type": "json_object"}
# Of the certificates that servers are verified with; reading them takes a tenth of a second.
_certificates = functools.cache(httpx.create_ssl_context)
_log = logging.getLogger(__name__)


class Failed(Exception):
    """Why a try failed: ``outcome`` is its name, ``detail`` describes it.

    ``retry``: whether another try may succeed. ``wait``: the seconds that the server asks to wait before, or None.
    """

    def __init__(self, outcome: str, detail: str = "", *, retry: bool = False, wait: float | None = None) -> None:
        super().__init__(detail or outcome)
        self.outcome, self.detail, self.retry, self.wait = outcome, detail, retry, wait


def retrying(tries: int, stop: threading.Event, *, abandons: bool = False) -> tenacity.Retrying:
    """Return the policy that calls a function up to ``tries`` times while it raises :class:`Failed` with ``retry``.

    Pauses are as long as the server asks for, else they double; they are up to a quarter longer at random, so that
    requests do not return all at once, and at most :data:`LONGEST_WAIT` seconds. ``stop`` ends a pause and the calls.
    With ``abandons``, a server that asks for a longer pause is not asked again.
    """

    def is_temporary(error: BaseException) -> bool:
        return isinstance(error, Failed) and error.retry and not (abandons and (error.wait or 0) > LONGEST_WAIT)

    def pause(state: tenacity.RetryCallState) -> float:
        # A server that says "at once" is no less busy.
        seconds = state.outcome.exception().wait or FIRST_WAIT * 2 ** (state.attempt_number - 1)
        return min(seconds * random.uniform(1, 1.25), LONGEST_WAIT)

    def show_retry(state: tenacity.RetryCallState) -> None:
        wait = state.next_action.sleep
        # What takes a second is over before it is read.
        if wait >= 1:
            number = state.attempt_number + 1
            signs.notice(f"{state.outcome.exception()!s:.100}: attempt {number} in {wait:.0f} s")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_temporary),
        stop=tenacity.stop_after_attempt(tries) | tenacity.stop_when_event_set(stop),
        wait=pause,
        sleep=tenacity.sleep_using_event(stop),
        before_sleep=show_retry,
        reraise=True,
    )


class StoppedError(Exception):
    """Another request ended the work."""


class Requests:
    """The requests of one call, several at a time; a subclass adds what differs between kinds of model.

    ``request_fields(question)`` returns the fields of a request in addition to ``fields``, ``read(digest, data,
    headers)`` the answer in a reply with status 200, ``empty_answer(outcome, detail)`` the answer where there is no
    such reply, and ``save(digest, question, answer)`` writes it down. Answers have an outcome and a detail.

    Raises ParameterError: There is no URL or model, the URL is not valid, or the environment has no key.
    """

    # Path of a request below the endpoint's URL; for messages what the endpoint gives, one of them, and what is kept.
    path: str
    product: str
    unit: str
    after_stop: str
    # The outcome of what a policy stops; all outcomes with their meaning; those that are kept.
    stopped: str
    outcomes: Mapping[str, str]
    cached_outcomes: Sequence[str]
    # Most bytes of a reply that are read, and fields that are left out for a model that refuses them.
    longest_reply: int
    optional: Sequence[str] = ()

    def __init__(self, settings: EndpointSettings, fields: Mapping[str, Any], *, worked_before: bool) -> None:
        self.settings, self._fields = settings, fields
        self._worked = self._reached = worked_before
        self.left_out: set[str] = set()
        self.stop = threading.Event()
        self.mutex = threading.Lock()
        self._failed_in_a_row = 0
        self.key = settings.check_key()
        parts = urlsplit(settings.url)
        self.target = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/{self.path}", parts.query, ""))
        self.where = f"The endpoint {parts.scheme}://{parts.netloc}{parts.path}"
        try:
            httpx.URL(self.target).raw_host.decode().encode("idna")
        except (httpx.InvalidURL, UnicodeError):
            raise ParameterError(f"endpoint.url is {settings.url!r}, which is not a valid URL.") from None

    def request_all(self, questions: Mapping[str, Any], label: str, progress: bool) -> dict[str, Any]:
        """Ask all questions and return their answers, by digest.

        Raises ParameterError: The endpoint does not accept the key (401, 403), has no such model or path (404), or
        redirects; or a proxy of the environment cannot be used. RunError: The endpoint is out of order, or wants to be
        paid.
        """
        with contextlib.suppress(OSError):
            # Another notebook of this start of a run has waited for it already.
            raise RunError(self._failure_file.read_text(encoding="utf-8"))
        found: dict[str, Any] = {}
        own = {"total": len(questions), "desc": label, "unit": f" {self.unit}"}
        with self._client() as client, ThreadPoolExecutor(self.settings.concurrency) as pool:
            tasks = {pool.submit(self._request_one, client, digest, q): digest for digest, q in questions.items()}
            try:
                with signs.bar(**own) if progress else contextlib.nullcontext() as shown:
                    for task in as_completed(tasks):
                        # The error that stopped it comes from another task.
                        with contextlib.suppress(StoppedError):
                            found[tasks[task]] = task.result()
                            # Without a bar of their own, questions are part of a stage's batch.
                            shown.update() if shown else signs.count(len(found) / len(questions))
            except BaseException:
                # Replies under way are paid for: they are waited for and kept.
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if not self._worked:
            raise self._stopped(next(iter(found.values())))
        return found

    def _client(self) -> httpx.Client:
        """Return a client that takes proxies and certificates from the environment and follows no redirect."""
        headers = {
            "User-Agent": f"biaslab/{__version__}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            # Compressed replies, which few gateways send all the same, are unpacked up to the limit of bytes.
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {self.key}"} if self.key else {}),
        }
        limits = httpx.Limits(max_connections=self.settings.concurrency)
        timeout = httpx.Timeout(self.settings.timeout, connect=min(self.settings.timeout, _LONGEST_CONNECT))
        options = {"headers": headers, "timeout": timeout, "limits": limits, "verify": _certificates()}
        try:
            return httpx.Client(**options, follow_redirects=False)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ParameterError(
                f"A proxy that the environment names cannot be used: {self.shorten_message(error)}"
            ) from None

    def _request_one(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Ask one question and keep its answer; an error ends the others' work, too."""
        try:
            answer = self.exchange(client, digest, question)
            worked = answer.outcome in self.cached_outcomes
            if worked:
                self.save(digest, question, answer)
            with self.mutex:
                self._failed_in_a_row = 0 if worked else self._failed_in_a_row + 1
                self._worked = self._worked or worked
                # A working endpoint may reject some questions; one with unsuitable settings rejects all.
                hopeless = answer.outcome != "rejected" or not self._worked
                if self._failed_in_a_row >= _PATIENCE and hopeless:
                    raise self._stopped(answer)
            return answer
        except Exception:
            self.stop.set()
            raise

    def exchange(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Ask one question until it has an answer or no further try is allowed; return the last try's answer.

        Raises StoppedError: Another request ended the work.
        """
        answer, tries = None, 0

        def once() -> None:
            nonlocal answer, tries
            if self.stop.is_set():
                raise StoppedError
            answer, wait = self.attempt(client, digest, question)
            tries += 1
            if most := _TRIES.get(answer.outcome):
                retry = tries < (most if self._reached else _TRIES_UNREACHED)
                raise Failed(answer.outcome, answer.detail, retry=retry, wait=wait)

        with contextlib.suppress(Failed):
            retrying(max(_TRIES.values()), self.stop)(once)
        return answer

    def attempt(self, client: httpx.Client, digest: str, question: Any) -> tuple[Any, float | None]:
        """Ask one question once; return the answer, and after how many seconds the server wants to be asked again."""
        try:
            status, headers, data = self._sent(client, digest, question)
        except httpx.TransportError as error:
            return self.empty_answer("unavailable", f"{type(error).__name__}: {self.shorten_message(error)}"), None
        except httpx.DecodingError as error:
            return self.empty_answer("malformed", f"no {self.product}: {self.shorten_message(error)}"), None
        self._reached = True
        if status == 200:
            if len(data) > self.longest_reply:
                return self.handle_oversized(), None
            return self.read(digest, data, headers), None
        if 300 <= status < 400:
            # Its query may hold a key.
            to = self.shorten_message(headers.get("Location", "").partition("?")[0]) or "nowhere"
            raise ParameterError(
                f"{self.where} redirects (HTTP {status}) to {to}. No redirect is followed, since the key would go with "
                f"it: set endpoint.url to where the endpoint is. {self.after_stop}."
            )
        return self.handle_rejection(status, data), retry_after(headers.get("Retry-After", ""))

    def _sent(self, client: httpx.Client, digest: str, question: Any) -> tuple[int, httpx.Headers, bytes]:
        """Send a question as :meth:`post` does, without the optional fields that this model refuses.

        Of a form of answers, first the schema is left out, then the whole field.
        """
        while True:
            fields = {k: v for k, v in self._fields.items() if k not in self.left_out}
            has_schema = FORM in fields and fields[FORM] != _OBJECT
            if has_schema and SCHEMA in self.left_out:
                fields[FORM], has_schema = _OBJECT, False
            # In ASCII, so that any text fits: JSON has an escape for what UTF-8 does not take.
            whole = json.dumps({**fields, **self.request_fields(question)}).encode()
            status, headers, data = self.post(client, digest, whole)
            maybe = [name for name in self.optional if name in fields]
            if status not in (400, 422) or not (name := replies.refused_field(data, maybe)):
                return status, headers, data
            # Servers that know no schema often know the plain form.
            name = SCHEMA if name == FORM and has_schema else name
            with self.mutex:
                if name not in self.left_out:
                    _log.warning("%s takes no %r of its own: the request omits it.", self.settings.model, name)
                    self.left_out.add(name)

    def post(self, client: httpx.Client, digest: str, whole: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request; return status, headers and body, which is cut off once it is longer than any reply.

        Where a gateway sends an error with status 200, the status is that of the error in the body.

        Raises httpx.TransportError: The connection failed, or the reply was not complete within the endpoint's timeout.
        httpx.DecodingError: The reply is compressed, and damaged.
        """
        end, data = time.monotonic() + self.settings.timeout, bytearray()
        with client.stream("POST", self.target, content=whole) as response:
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > self.longest_reply:
                    break
                if time.monotonic() > end:
                    raise httpx.ReadTimeout(f"the reply took longer than {self.settings.timeout:g} seconds")
            return replies.status(response.status_code, bytes(data)), response.headers, bytes(data)

    def handle_oversized(self) -> Any:
        """Return the answer for a reply that is longer than ``longest_reply`` bytes."""
        return self.empty_answer("malformed", f"no {self.product}: more than {self.longest_reply} bytes")

    def handle_rejection(self, status: int, data: bytes) -> Any:
        """Return the outcome of a reply with another status than 200, or raise where nothing can be asked like this."""
        code, said = replies.error(data)
        told = f"HTTP {status}" + (f": {self.shorten_message(said)}" if said else "")
        model, variable = self.settings.model, self.settings.api_key_env
        if replies.is_policy(data):
            return self.empty_answer(self.stopped, told)
        if status in (401, 403):
            options = f"the key in the environment variable {variable}" if variable else "a request without a key"
            raise ParameterError(
                f"{self.where} does not accept {options} (HTTP {status}). Set endpoint.api_key_env to a variable "
                f"whose key is valid there and may use the model {model!r}, and run again. {self.after_stop}."
            )
        if status == 404:
            raise ParameterError(
                f"{self.where} has no {self.product} for the model {model!r} ({told}); check endpoint.url and "
                f"endpoint.model. {self.after_stop}."
            )
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise RunError(f"{self.where} wants to be paid first ({told}). {self.after_stop}.")
        return self.empty_answer("unavailable" if status in _BUSY or status >= 500 else "rejected", told)

    @property
    def _failure_file(self) -> Path:
        """The file with the failure of this endpoint and model, in the folder of a start of a run; else none exists."""
        service = hashlib.sha256(f"{self.target} {self.settings.model}".encode()).hexdigest()[:16]
        return Path(os.environ.get(signs.ATTEMPT) or os.devnull, f"unavailable-{service}")

    def _stopped(self, last: Any) -> RunError:
        """Return the error for an endpoint that gave nothing, and leave it to other notebooks of this run."""
        error = self.repeated_failure(last)
        with contextlib.suppress(OSError):
            self._failure_file.write_text(str(error), encoding="utf-8")
        return error

    def repeated_failure(self, last: Any) -> RunError:
        """Return the error for an endpoint that gave nothing, several times in a row."""
        return RunError(
            f"{self.where} does not answer: {last.detail or self.outcomes[last.outcome]}. {self.after_stop}; "
            "see that it runs and takes such requests, and run again."
        )

    def shorten_message(self, said: object, longest: int | None = 200) -> str:
        """Return what a server said without the key, no longer than ``longest`` characters."""
        return self.redact_key(said)[:longest]

    def redact_key(self, said: object) -> str:
        """Return what a server said as one text without the key."""
        text = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(said)
        # A lone surrogate comes with a JSON escape and fits in no file.
        text = text.encode("utf-8", errors="replace").decode()
        return (text.replace(self.key, redact.KEY) if self.key else text).strip()


def retry_after(value: str) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks for, a number or a date; None where it is neither."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value.strip()):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
