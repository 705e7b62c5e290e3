"""Models behind an OpenAI-compatible endpoint: what is asked, what came back, and a key that stays where it is.

:func:`ask` sends conversations to ``<url>/chat/completions`` and returns an :class:`Answer` for each. Whoever hosts
the model (a company, vLLM, Ollama, llama.cpp), the request is the same.

- **Kept.** An answer is written to the store as soon as it is there, keyed by URL, model, settings and messages, so
  that nothing is paid for twice, however a run ends. Two processes that ask the same wait for one another.
- **Asked again.** A request that meets 408, 425, 429, a status from 500, a broken connection or silence is sent
  again after a growing pause, or after the pause that ``Retry-After`` names, both up to a limit. So is one whose
  answer is empty or cannot be read, twice at most.
- **Counted.** What then has no text has an outcome that says why (:data:`OUTCOMES`); it is never an empty answer.
- **The key** is read from an environment variable when a request is sent. It goes into the request's header and
  nowhere else: it is no part of an :class:`Endpoint`, and it is blotted out of whatever the server says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from biaslab.captions import _body
from biaslab.errors import ParameterError, RunError
from biaslab.store import room_on

if TYPE_CHECKING:
    import httpx

    from biaslab.store import Store

_log = logging.getLogger(__name__)
_STAYS = (
    "Answers before are kept and will be found again: free some space, or choose another folder for the store, and "
    "run again."
)

# What may become of a question, and what it means. Those in _KEPT were paid for and are not asked again.
OUTCOMES: dict[str, str] = {
    "answered": "there is a text",
    "empty": "the model answered without a text, three times",
    "cut": "the answer was cut off at the limit of tokens",
    "filtered": "the answer, or the question, was stopped by a content filter",
    "refused": "the model refused in the field that is there for it",
    "malformed": "what came back is no chat completion, three times",
    "rejected": "the server does not take this question (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this question, however often it was asked",
}
_KEPT = ("answered", "empty", "cut", "filtered", "refused")
# How often a question is asked whose answer is empty or cannot be read.
_READINGS = 3
# Questions in a row without any answer after which the endpoint counts as out of order.
_PATIENCE = 3
# Bytes of a reply that are read; a chat completion has a few thousand.
_LONGEST_REPLY = 8 * 2**20
_AGAIN = (408, 425, 429)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_SECRET_WORDS = re.compile(r"(?i)key|token|secret|password|passwd|signature|^sig$|^auth")

# One message: role and content, the latter a text or a list of parts (texts and images), as the API has it.
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What came back for one conversation."""

    text: str
    """What the model said, without white space around it; empty where the outcome is not ``answered``."""
    outcome: str
    """One of :data:`OUTCOMES`."""
    detail: str = ""
    """More about an outcome without an answer, such as ``HTTP 413: too long``."""
    prompt_tokens: int = 0
    """Tokens of the question, as the server counts them; 0 where it does not say."""
    completion_tokens: int = 0
    """Tokens of the answer, likewise."""


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
        problem = variable_problem(self.key_variable)
        if problem:
            raise ParameterError(problem)
        if not self.model:
            raise ParameterError(
                "The endpoint's model is empty; give the name that the endpoint knows it by."
            )
        for name, low in (("concurrency", 1), ("attempts", 1), ("timeout", 0.01)):
            if getattr(self, name) < low:
                raise ParameterError(f"{name} is {getattr(self, name)}; it must be at least {low}.")

    def check_key(self) -> None:
        """Look whether there is a key, without telling it.

        Raises:
            ParameterError: The environment has none.
        """
        _key(self)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a request beside its messages."""
        given = {"model": self.model, "temperature": self.temperature, **self.options}
        return {name: value for name, value in given.items() if value is not None}


def checked_url(url: str) -> str:
    """Return a base URL in its plain form: without the path of one kind of request and slashes at its end.

    Raises:
        ParameterError: It is no http or https URL, or it holds a user, a password or what looks like a key.
    """
    problem = url_problem(url)
    if problem:
        raise ParameterError(problem)
    parts = urlsplit(url.strip())
    path = parts.path.rstrip("/")
    for kind in ("/chat/completions", "/images/generations"):
        path = path.removesuffix(kind).rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def url_problem(url: str) -> str:
    """Return why a base URL cannot be used, or an empty text; a secret in it is not repeated."""
    example = "such as https://api.openai.com/v1 or http://localhost:8000/v1"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
        named = bool(parts.hostname) and not re.search(r"\s", url.strip())
    except ValueError:
        return f"The endpoint's URL is none; give one {example}."
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        return (
            "The endpoint's URL holds a user or a password, which would be written into reports. Take it out, and "
            "put the key into an environment variable (key_variable)."
        )
    if any(_SECRET_WORDS.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return (
            "The endpoint's URL holds what looks like a key after '?', which would be written into reports. Take it "
            "out, and put the key into an environment variable (key_variable)."
        )
    if parts.scheme.lower() not in ("http", "https") or not named:
        return f"The endpoint's URL is {url!r}; give an http or https URL {example}."
    return ""


def variable_problem(name: str) -> str:
    """Return why the name of an environment variable cannot be used, or an empty text; it is not repeated."""
    if not name or _VARIABLE.fullmatch(name):
        return ""
    return (
        "The endpoint's key variable is no name of an environment variable: capitals, digits and '_', such as "
        "OPENAI_API_KEY. It takes the variable's name, never the key itself."
    )


def ask(
    endpoint: Endpoint,
    conversations: Sequence[Sequence[Message]],
    store: Store | None = None,
    *,
    label: str = "",
    progress: bool = True,
) -> list[Answer]:
    """Put each conversation to the model and return its answers, in order; equal ones are asked once.

    Args:
        endpoint: The model.
        conversations: For each answer its messages: ``{"role": "user", "content": …}``, content being a text or a
            list of parts, as for images. They must fit in JSON.
        store: Where answers are kept; nothing is kept where it is None.
        label: What the progress bar calls the work; the model's name where it is empty.
        progress: Whether to show a bar while something is asked.

    Raises:
        ParameterError: The environment has no key, the key is not accepted (401, 403), or there is no such model or
            path (404).
        RunError: The endpoint is out of order, wants to be paid, or there is no room to keep an answer. What was
            answered before is kept.
    """
    digests = [_digest(messages) for messages in conversations]
    journal = _Journal(_journal_path(store, endpoint))
    with journal.turn(digests):
        known = journal.read(set(digests))
        missing = {d: m for d, m in zip(digests, conversations, strict=True) if d not in known}
        if missing:
            asking = _Asking(endpoint, journal, worked_before=bool(known))
            known |= asking.all(missing, label or endpoint.model, progress)
    return [known[d] for d in digests]


def _digest(messages: Sequence[Message]) -> str:
    whole = json.dumps([dict(m) for m in messages], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(whole.encode()).hexdigest()


def _journal_path(store: Store | None, endpoint: Endpoint) -> Path | None:
    if store is None:
        return None
    # An answer depends on no code of ours, so no change of code has it paid for again.
    inputs = {"url": endpoint.url, "settings": endpoint.settings}
    return store.stage("answers", inputs).folder / "answers.jsonl"


class _Journal:
    """Answers in a file, a line each with its checksum, written once and never changed."""

    def __init__(self, path: Path | None):
        self._path = path
        self._mutex = threading.Lock()

    @contextlib.contextmanager
    def turn(self, digests: Sequence[str]) -> Iterator[None]:
        """Hold these questions: another process that asks the same ones waits and then finds the answers."""
        from filelock import Timeout

        if self._path is None:
            yield
            return
        with room_on(self._path, _STAYS):
            (self._path.parent / "locks").mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256("".join(sorted(set(digests))).encode()).hexdigest()[:16]
        lock = self._locked(name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _log.info("%s: waiting for another process that asks the same.", self._path)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _locked(self, name: str):
        from filelock import FileLock

        return FileLock(self._path.parent / "locks" / f"{name}.lock")

    def read(self, wanted: set[str]) -> dict[str, Answer]:
        """Return the answers to the questions ``wanted`` that are kept; damaged lines are passed over."""
        found: dict[str, Answer] = {}
        for record in self.records():
            digest = record.pop("question")
            if digest in wanted:
                found[digest] = Answer(**record)
        return found

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield what was written, oldest first; damaged lines are passed over."""
        damaged = 0
        for line in self.lines():
            record = record_of(line)
            if record is None:
                damaged += bool(line.strip())
            else:
                yield record
        if damaged:
            _log.warning("%s: damaged lines: %d. They are passed over and asked again.", self._path, damaged)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without their ends; half a line at the end of the file, which a kill leaves, is none."""
        if self._path is None or not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n") or record_of(line) is not None:
                    yield line.removesuffix(b"\n")

    def add(self, digest: str, answer: Answer) -> None:
        """Keep an answer."""
        self.write({"question": digest, **asdict(answer)})

    def write(self, record: Mapping[str, Any], *, sync: bool = False) -> None:
        """Write a record that fits in JSON as a line of its own; with ``sync`` it outlasts a power cut."""
        if self._path is None:
            return
        line = line_of(record)
        with self._mutex, room_on(self._path, _STAYS), self._locked("write"), self._path.open("a+b") as file:
            if half := _half_line(file):
                # Whoever was killed while writing left it; the lock says that nobody is writing it now.
                if record_of(half) is None:
                    file.truncate(file.seek(0, os.SEEK_END) - len(half))
                else:
                    line = b"\n" + line
            file.write(line)
            if sync:
                file.flush()
                os.fsync(file.fileno())


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line: the beginning of its SHA-256, a space, and JSON."""
    content = json.dumps(record).encode()
    return hashlib.sha256(content).hexdigest()[:16].encode() + b" " + content + b"\n"


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line, or None where it is damaged."""
    checksum, _, content = line.rstrip(b"\n").partition(b" ")
    if hashlib.sha256(content).hexdigest()[:16].encode() != checksum:
        return None
    return json.loads(content)


def _half_line(file: Any) -> bytes:
    """Return what stands behind the last line feed of a file."""
    half, at = b"", file.seek(0, os.SEEK_END)
    while at and b"\n" not in half:
        size = min(at, 65536)
        at = file.seek(at - size)
        half = file.read(size) + half
    return half.rpartition(b"\n")[2]


class _StoppedError(Exception):
    """Another request ended the work."""


class _Asking:
    """The requests of one call of :func:`ask`; other kinds of requests change the attributes and what they need."""

    path = "chat/completions"
    # What the endpoint gives, which parameter names the model, and what is kept when the work ends: for messages.
    gives, unit, setting, stays = "chat completions", "answers", "endpoint.model", "Answers before are kept"
    # Outcomes that are kept, and bytes of a reply that are read.
    kept: Sequence[str] = _KEPT
    longest_reply = _LONGEST_REPLY

    def __init__(self, endpoint: Endpoint, journal: _Journal, *, worked_before: bool):
        self._endpoint = endpoint
        self._journal = journal
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._cause: Exception | None = None
        self._failed_in_a_row = 0
        self._worked = worked_before
        self._key = _key(endpoint)
        parts = urlsplit(endpoint.url)
        self._target = urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/{self.path}", parts.query, ""))
        self._where = f"The endpoint {parts.scheme}://{parts.netloc}{parts.path}"

    def all(self, questions: Mapping[str, Any], label: str, progress: bool) -> dict[str, Any]:
        """Ask all questions, several at a time, and return their answers, each with an outcome and a detail."""
        from concurrent.futures import ThreadPoolExecutor, as_completed

        from tqdm import tqdm

        found: dict[str, Any] = {}
        bar = {"total": len(questions), "desc": label, "unit": f" {self.unit}", "leave": False}
        with self._client() as client, ThreadPoolExecutor(self._endpoint.concurrency) as pool:
            tasks = {pool.submit(self._one, client, digest, q): digest for digest, q in questions.items()}
            try:
                with tqdm(**bar, disable=not progress, file=sys.stderr) as shown:
                    for task in as_completed(tasks):
                        found[tasks[task]] = task.result()
                        shown.update()
            except _StoppedError:
                raise self._cause from None
            except BaseException:
                # What is under way is waited for and kept: it is paid for.
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        if not self._worked:
            raise self._out_of_order(next(iter(found.values())))
        return found

    def _client(self) -> httpx.Client:
        import httpx

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers["Accept-Encoding"] = _body.ENCODINGS
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # A redirect would carry the key to another place, so none is followed.
        return httpx.Client(headers=headers, timeout=self._endpoint.timeout, follow_redirects=False)

    def _one(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Ask one question and keep its answer; an error ends the others' work, too."""
        try:
            return self._answered(client, digest, question)
        except _StoppedError:
            raise
        except Exception as error:
            with self._mutex:
                self._cause = self._cause or error
            self._stop.set()
            raise

    def _answered(self, client: httpx.Client, digest: str, question: Any) -> Any:
        answer = self._exchange(client, digest, question)
        if answer.outcome in self.kept:
            self._keep(digest, question, answer)
        with self._mutex:
            failed = answer.outcome not in self.kept
            self._failed_in_a_row = self._failed_in_a_row + 1 if failed else 0
            self._worked = self._worked or not failed
            # Some questions are turned down by an endpoint that works; all are where the settings do not suit it.
            hopeless = answer.outcome != "rejected" or not self._worked
            if self._failed_in_a_row >= _PATIENCE and hopeless:
                raise self._out_of_order(answer)
        return answer

    def _keep(self, digest: str, question: Any, answer: Any) -> None:
        self._journal.add(digest, answer)

    def _out_of_order(self, last: Any) -> RunError:
        return RunError(
            f"{self._where} does not answer: {last.detail or OUTCOMES[last.outcome]}. {self.stays}; see that it runs "
            "and takes such requests, and run again."
        )

    def _asked(self, question: Any) -> dict[str, Any]:
        """Return what a request holds beside the endpoint's settings."""
        return {"messages": [dict(m) for m in question]}

    def _exchange(self, client: httpx.Client, digest: str, question: Any) -> Any:
        """Send one question until there is an answer or no more sense in asking."""
        import httpx

        endpoint, readings = self._endpoint, 0
        # In ASCII, so that any text fits: JSON has an escape for what UTF-8 does not take.
        body = json.dumps({**endpoint.settings, **self._asked(question)}).encode()
        last: Any = Answer("", "unavailable")
        for attempt in range(endpoint.attempts):
            if self._stop.is_set():
                raise _StoppedError
            asked_to_wait: float | None = None
            try:
                status, headers, data = self._post(client, digest, body)
            except httpx.InvalidURL:
                raise ParameterError(
                    f"The endpoint's URL {endpoint.url} is none; check endpoint.url."
                ) from None
            except _body.BodyError as error:
                last, readings = self._unread(error), readings + 1
                if last.outcome != "malformed" or readings == _READINGS:
                    return last
            except httpx.RequestError as error:
                last = Answer("", "unavailable", f"{type(error).__name__}: {self._clean(error)}")
            else:
                if status == 200:
                    last, readings = self._read(digest, data, headers), readings + 1
                    if last.outcome not in ("empty", "malformed") or readings == _READINGS:
                        return last
                else:
                    last = self._turned_down(status, data)
                    if last.outcome != "unavailable":
                        return last
                    asked_to_wait = _retry_after(headers.get("Retry-After", ""))
            if attempt + 1 < endpoint.attempts:
                pause = self._pause(attempt, asked_to_wait, digest)
                _log.info("%s is asked again in %.1f s: %s.", self._where, pause, last.detail or last.outcome)
                self._stop.wait(pause)
        return last

    def _pause(self, attempt: int, asked: float | None, digest: str) -> float:
        """Return how many seconds to wait: what was asked for, or twice as long each time; never beyond the limit."""
        endpoint = self._endpoint
        wait = endpoint.first_wait * 2**attempt if asked is None else asked
        # Up to a quarter more, different for each question, so that not all come back at once.
        return min(wait * (1 + int(digest[:4], 16) / 0x40000), endpoint.longest_wait)

    def _post(self, client: httpx.Client, digest: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; return the status, the headers and the body.

        Raises:
            BodyError: There is an answer, but it is longer than any, or packed as nobody asked.
        """
        import httpx

        # The client's own limit is for each read, so a slow drip would never meet it.
        end = time.monotonic() + self._endpoint.timeout
        data = bytearray()
        with client.stream("POST", self._target, content=body) as response:
            try:
                for piece in _body.read(response.iter_raw(), response.headers.raw, self.longest_reply, end):
                    data += piece
            except _body.BodyError as error:
                if error.outcome == "timed_out":
                    wait = f"{self._endpoint.timeout:g} seconds"
                    raise httpx.ReadTimeout(f"the reply took longer than {wait}") from None
                # Of a reply that turns a question down, the status says enough.
                if response.status_code == 200:
                    raise
            return response.status_code, response.headers, bytes(data)

    def _unread(self, error: _body.BodyError) -> Any:
        """Return what became of a question whose answer cannot be read to its end."""
        return Answer("", "malformed", f"no {self.gives}: {self._clean(error.detail)}")

    def _read(self, digest: str, data: bytes, headers: Mapping[str, str]) -> Any:
        """Return the answer in the body of a reply with status 200."""
        try:
            reply = json.loads(data)
            choice = reply["choices"][0]
            message, reason = choice["message"], choice.get("finish_reason")
            text = _text_of(message.get("content"))
            used = reply.get("usage") or {}
            tokens = [_count(used.get(k)) for k in ("prompt_tokens", "completion_tokens")]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return Answer("", "malformed", f"no chat completion: {self._clean(data)}")
        text = self._clean(text, longest=_LONGEST_REPLY)
        if reason == "content_filter":
            return Answer("", "filtered", "finish_reason content_filter", *tokens)
        if reason == "length":
            return Answer("", "cut", "finish_reason length", *tokens)
        if not text and message.get("refusal"):
            return Answer("", "refused", self._clean(message["refusal"]), *tokens)
        return Answer(text, "answered" if text else "empty", "", *tokens)

    def _turned_down(self, status: int, data: bytes) -> Answer:
        """Return the outcome of a reply with another status, or raise where nothing can be asked like this."""
        code, said = _error_in(data)
        told = f"HTTP {status}" + (f": {self._clean(said)}" if said else "")
        variable = self._endpoint.key_variable
        if status in (401, 403):
            how = f"the key in the environment variable {variable}" if variable else "a request without a key"
            raise ParameterError(
                f"{self._where} does not accept {how} (HTTP {status}). Set the variable to a key that is valid there "
                f"and may use the model {self._endpoint.model!r}, and run again. {self.stays}."
            )
        if status == 404 or 300 <= status < 400:
            raise ParameterError(
                f"{self._where} has no {self.gives} for the model {self._endpoint.model!r} ({told}); check "
                f"endpoint.url and {self.setting}. {self.stays}."
            )
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            raise RunError(f"{self._where} wants to be paid first ({told}). {self.stays}.")
        if code == "content_filter":
            return Answer("", "filtered", told)
        again = status in _AGAIN or status >= 500
        return Answer("", "unavailable" if again else "rejected", told)

    def _clean(self, said: object, longest: int = 200) -> str:
        """Return what a server said as one text without the key, no longer than ``longest``."""
        text = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(said)
        # A lone surrogate comes with a JSON escape and fits in no file.
        text = text.encode("utf-8", errors="replace").decode()
        text = text.replace(self._key, "[key]") if self._key else text
        return text.strip()[:longest]


def _key(endpoint: Endpoint) -> str:
    if not endpoint.key_variable:
        return ""
    key = os.environ.get(endpoint.key_variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ParameterError(
            f"The environment variable {endpoint.key_variable} holds no key for {endpoint.url}. Set it to the key, or "
            "name another with endpoint.key_variable; for an endpoint without keys, leave that empty."
        )
    return key


def _text_of(content: object) -> str:
    """Return a message's content as text; some servers send it in parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part.get("type", "text") == "text")


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _error_in(data: bytes) -> tuple[str, str]:
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


def _retry_after(value: str, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks for (a number, or a date); None without one."""
    from email.utils import parsedate_to_datetime

    value = value.strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d+)?", value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now())
    except (ValueError, TypeError):
        return None
