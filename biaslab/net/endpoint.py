"""Models behind an OpenAI-compatible endpoint: what all kinds have in common, and a key that stays where it is.

- **Asked again.** A request that meets 408, 425, 429, a status from 500, a broken connection or silence is sent
  again (:mod:`biaslab.net.retry`). So is one whose answer is empty or cannot be read, twice at most.
- **Counted.** What then is no answer has an outcome that says why; it is never an empty answer.
- **The key** is read from an environment variable when a request is sent. It goes into the request's header and
  nowhere else: it is no part of an :class:`Endpoint`, and it is blotted out of whatever the server says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx

from biaslab.errors import ParameterError, RunError
from biaslab.net import body
from biaslab.net.retry import Failed, policy, retry_after

# How often a question is asked whose answer is empty or cannot be read.
_READINGS = 3
_UNUSABLE = ("empty", "malformed")
# Questions in a row without any answer after which the endpoint counts as out of order.
_PATIENCE = 3
_BUSY = (408, 425, 429)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_SECRET_WORDS = re.compile(r"(?i)key|token|secret|password|passwd|signature|^sig$|^auth")


@dataclass(frozen=True)
class Endpoint:
    """A model behind an endpoint, and how it is asked.

    Raises:
        ParameterError: A value cannot be used. A URL or a variable that seems to hold a secret is not repeated.
    """

    url: str
    """Base URL, such as ``https://api.openai.com/v1`` or ``http://localhost:8000/v1``: without user and password."""
    model: str
    """The model's name there."""
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; empty where the endpoint asks for none."""
    temperature: float | None = 0.0
    """0 makes answers repeat as far as the server can; None leaves it out, for models that do not take it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, such as ``{"max_tokens": 200}``; they are part of what an answer is kept by."""
    concurrency: int = 4
    """Requests under way at a time."""
    attempts: int = 8
    """How often a request is sent that meets a busy server or a broken connection."""
    timeout: float = 120.0
    """Seconds in which a reply is whole."""
    first_wait: float = 1.0
    """Seconds before a request is sent again; each further pause is twice as long."""
    longest_wait: float = 60.0
    """Seconds that a pause takes at most, whatever the server asks for."""

    def __post_init__(self) -> None:
        """Check the values and bring the URL into its plain form."""
        object.__setattr__(self, "url", checked_url(self.url))
        checked_variable(self.key_variable)
        if not self.model:
            raise ParameterError(
                "The endpoint's model is empty; give the name that the endpoint knows it by."
            )
        for name, low in (("concurrency", 1), ("attempts", 1), ("timeout", 0.01)):
            if getattr(self, name) < low:
                raise ParameterError(f"{name} is {getattr(self, name)}; it must be at least {low}.")

    def check_key(self) -> str:
        """Look whether there is a key, and return it; it is empty where the endpoint asks for none.

        Raises:
            ParameterError: The environment has none. What it has instead is not told.
        """
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ParameterError(
                f"The environment variable {self.key_variable} holds no key for {self.url}. Set it to the key, or "
                "name another with endpoint.key_variable; for an endpoint without keys, leave that empty."
            )
        return key

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a request beside what is asked."""
        given = {"model": self.model, "temperature": self.temperature, **self.options}
        return {name: value for name, value in given.items() if value is not None}


def checked_url(url: str) -> str:
    """Return a base URL in its plain form: without the path of one kind of request and slashes at its end.

    Raises:
        ParameterError: It is no http or https URL, or it holds a user, a password or what looks like a key, which is
            not repeated.
    """
    example = "such as https://api.openai.com/v1 or http://localhost:8000/v1"
    secret = (
        "The endpoint's URL holds {}, which would be written into reports. Take it out, and put the key into an "
        "environment variable (key_variable)."
    )
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
        named = bool(parts.hostname) and not re.search(r"\s", url.strip())
    except ValueError:
        raise ParameterError(f"The endpoint's URL is none; give one {example}.") from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ParameterError(secret.format("a user or a password"))
    if any(_SECRET_WORDS.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ParameterError(secret.format("what looks like a key after '?'"))
    if parts.scheme.lower() not in ("http", "https") or not named:
        raise ParameterError(f"The endpoint's URL is {url!r}; give an http or https URL {example}.")
    path = parts.path.rstrip("/")
    for kind in ("/chat/completions", "/images/generations"):
        path = path.removesuffix(kind).rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def checked_variable(name: str) -> str:
    """Return the name of an environment variable, or an empty text.

    Raises:
        ParameterError: It can be none, so it may be a key; it is not repeated.
    """
    if name and not _VARIABLE.fullmatch(name):
        raise ParameterError(
            "The endpoint's key variable is no name of an environment variable: capitals, digits and '_', such as "
            "OPENAI_API_KEY. It takes the variable's name, never the key itself."
        )
    return name


class StoppedError(Exception):
    """Another request ended the work."""


class Requests:
    """The requests of one call, several at a time; for each kind of model there is a class that adds what is its own.

    ``asked(question)`` returns what a request holds beside the endpoint's fields, ``read(digest, data, headers)`` the
    answer in a reply of status 200, ``nothing(outcome, detail)`` what stands in the place of one, and
    ``keep(digest, question, answer)`` writes it down. Answers have an outcome and a detail.

    Args:
        endpoint: The model.
        worked_before: Whether it is known to answer.

    Raises:
        ParameterError: The environment has no key.
    """

    # Path of a request below the endpoint's URL; for messages what the endpoint gives, one of them, which parameter
    # names the model, and what is kept when the work ends.
    path: str
    gives: str
    unit: str
    setting: str
    stays: str
    # What may become of a question, with what it means; which of it is kept; and bytes of a reply that are read.
    outcomes: Mapping[str, str]
    kept: Sequence[str]
    longest_reply: int

    def __init__(self, endpoint: Endpoint, *, worked_before: bool):
        self._endpoint = endpoint
        self.stop = threading.Event()
        self.mutex = threading.Lock()
        self._failed_in_a_row = 0
        self._worked = worked_before
        self.key = endpoint.check_key()
        parts = urlsplit(endpoint.url)
        self.target = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/{self.path}", parts.query, ""))
        self.where = f"The endpoint {parts.scheme}://{parts.netloc}{parts.path}"

    def all(self, questions: Mapping[str, Any], label: str, progress: bool) -> dict[str, Any]:
        """Ask all questions and return their answers, by digest.

        Raises:
            ParameterError: The endpoint does not accept the key (401, 403), or there is no such model or path (404).
            RunError: It is out of order, or wants to be paid.
        """
        from tqdm import tqdm

        found: dict[str, Any] = {}
        bar = {"total": len(questions), "desc": label, "unit": f" {self.unit}", "leave": False}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers["Accept-Encoding"] = body.ENCODINGS
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        # A redirect would carry the key to another place, so none is followed.
        client = httpx.Client(headers=headers, timeout=self._endpoint.timeout, follow_redirects=False)
        with client, ThreadPoolExecutor(self._endpoint.concurrency) as pool:
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

    def _one(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Ask one question and keep its answer; an error ends the others' work, too."""
        try:
            answer = self.exchange(client, digest, question)
            failed = answer.outcome not in self.kept
            if not failed:
                self.keep(digest, question, answer)
            with self.mutex:
                self._failed_in_a_row = self._failed_in_a_row + 1 if failed else 0
                self._worked = self._worked or not failed
                # Some questions are turned down by an endpoint that works; all are where the settings do not suit it.
                hopeless = answer.outcome != "rejected" or not self._worked
                if self._failed_in_a_row >= _PATIENCE and hopeless:
                    raise self.out_of_order(answer)
            return answer
        except Exception:
            self.stop.set()
            raise

    def exchange(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Send one question until there is an answer or no more sense in asking."""
        # In ASCII, so that any text fits: JSON has an escape for what UTF-8 does not take.
        whole = json.dumps({**self._endpoint.settings, **self.asked(question)}).encode()
        answer, readings = None, 0

        def once() -> None:
            nonlocal answer, readings
            if self.stop.is_set():
                raise StoppedError
            wait = None
            try:
                status, headers, data = self.post(client, digest, whole)
            except httpx.InvalidURL:
                raise ParameterError(
                    f"The endpoint's URL {self._endpoint.url} is none; check endpoint.url."
                ) from None
            except Failed as failed:
                answer, readings = self.unread(failed), readings + 1
            except httpx.RequestError as error:
                answer = self.nothing("unavailable", f"{type(error).__name__}: {self.clean(error)}")
            else:
                if status == 200:
                    answer, readings = self.read(digest, data, headers), readings + 1
                else:
                    answer, wait = self.turned_down(status, data), retry_after(headers.get("Retry-After", ""))
            again = answer.outcome in _UNUSABLE and readings < _READINGS
            if again or answer.outcome == "unavailable":
                raise Failed(answer.outcome, answer.detail, retry=True, wait=wait)

        with contextlib.suppress(Failed):
            self.policy(self._endpoint.attempts)(once)
        return answer

    def policy(self, tries: int) -> Callable[[Callable[[], Any]], Any]:
        """Return what sends a request again, up to a number of ``tries`` in all."""
        return policy(tries, self._endpoint.first_wait, self._endpoint.longest_wait, stop=self.stop)

    def post(self, client: httpx.Client, digest: str, whole: bytes) -> tuple[int, httpx.Headers, bytes]:
        """Send one request; return the status, the headers and the body.

        Raises:
            Failed: There is an answer, but it is longer than any, or packed as nobody asked.
        """
        # The client's own limit is for each read, so a slow drip would never meet it.
        seconds = self._endpoint.timeout
        end, data = time.monotonic() + seconds, bytearray()
        with client.stream("POST", self.target, content=whole) as response:
            try:
                for piece in body.read(response.iter_raw(), response.headers, self.longest_reply, end):
                    data += piece
            except Failed as failed:
                if failed.outcome == "timed_out":
                    raise httpx.ReadTimeout(f"the reply took longer than {seconds:g} seconds") from None
                # Of a reply that turns a question down, the status says enough.
                if response.status_code == 200:
                    raise
            return response.status_code, response.headers, bytes(data)

    def unread(self, failed: Failed) -> Any:
        """Return what became of a question whose answer cannot be read to its end."""
        return self.nothing("malformed", f"no {self.gives}: {self.clean(failed.detail)}")

    def turned_down(self, status: int, data: bytes) -> Any:
        """Return the outcome of a reply with another status than 200, or raise where nothing can be asked like this."""
        code, said = error_in(data)
        told = f"HTTP {status}" + (f": {self.clean(said)}" if said else "")
        model, variable = self._endpoint.model, self._endpoint.key_variable
        if status in (401, 403):
            how = f"the key in the environment variable {variable}" if variable else "a request without a key"
            raise ParameterError(
                f"{self.where} does not accept {how} (HTTP {status}). Set the variable to a key that is valid there "
                f"and may use the model {model!r}, and run again. {self.stays}."
            )
        if status == 404 or 300 <= status < 400:
            raise ParameterError(
                f"{self.where} has no {self.gives} for the model {model!r} ({told}); check endpoint.url and "
                f"{self.setting}. {self.stays}."
            )
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise RunError(f"{self.where} wants to be paid first ({told}). {self.stays}.")
        if code == "content_filter":
            return self.nothing("filtered", told)
        return self.nothing("unavailable" if status in _BUSY or status >= 500 else "rejected", told)

    def out_of_order(self, last: Any) -> RunError:
        """Return the error for an endpoint that gave nothing, several times in a row."""
        return RunError(
            f"{self.where} does not answer: {last.detail or self.outcomes[last.outcome]}. {self.stays}; see that it "
            "runs and takes such requests, and run again."
        )

    def clean(self, said: object, longest: int = 200) -> str:
        """Return what a server said as one text without the key, no longer than ``longest``."""
        text = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(said)
        # A lone surrogate comes with a JSON escape and fits in no file.
        text = text.encode("utf-8", errors="replace").decode()
        text = text.replace(self.key, "[key]") if self.key else text
        return text.strip()[:longest]


def error_in(data: bytes) -> tuple[str, str]:
    """Return code and message of an error's body; empty texts where it has none."""
    try:
        error = json.loads(data)
        error = error.get("error", error)
        if isinstance(error, str):
            return "", error
        code = error.get("code") or error.get("type") or ""
        return str(code), str(error.get("message") or error.get("detail") or "")
    except (ValueError, AttributeError, RecursionError):
        return "", ""
