"""Chat models behind an OpenAI-compatible endpoint: conversations go to ``<url>/chat/completions``.

An answer is written to the cache's database of purchases as soon as it arrives, keyed by URL, model, options and
messages, so that no answer is paid for twice. The database also contains the cost of questions that have a price
(:mod:`biaslab.endpoints.purchases`).
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from biaslab.cache.result_cache import ResultCache, digest
from biaslab.endpoints import replies
from biaslab.endpoints.endpoint import SCHEMA, Requests
from biaslab.endpoints.purchases import AnswerPurchases, ImagePurchases, LimitError
from biaslab.endpoints.replies import FORM
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError, RunError

if TYPE_CHECKING:
    import httpx
    import numpy as np
_AFTER_STOP = "Earlier answers are cached"
# The outcomes of questions and their meanings. Questions with outcomes in _CACHED_OUTCOMES are not sent again.
OUTCOMES: dict[str, str] = {
    "answered": "the model answered with text",
    "empty": "the model answered three times without text",
    "cut": "the answer was cut off at the token limit",
    "filtered": "a content filter blocked the question or the answer",
    "refused": "the model refused, as stated in the reply's field for refusals",
    "malformed": "three replies were not chat completions",
    "rejected": "the server does not accept this question (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this question in any attempt",
}
_CACHED_OUTCOMES = ("answered", "empty", "cut", "filtered", "refused")
# Maximum bytes of a reply; a chat completion has a few thousand, with reasoning a few hundred thousand.
_MAX_REPLY = 8 * 2**20

# One message, as in ``{"role": "user", "content": …}``: the content is a text or a list of parts (texts and images).
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The answer to one conversation."""

    text: str  # The model's text; empty unless the outcome is ``answered``.
    outcome: str  # One of :data:`OUTCOMES`.
    detail: str = ""  # More about an outcome without an answer, such as ``HTTP 413: too long``.
    prompt_tokens: int = 0  # The server's count; 0 if it gives none.
    completion_tokens: int = 0
    asked_without: str = ""  # Fields of the request that the model does not accept, joined by commas.


def ask(
    endpoint: EndpointSettings,
    conversations: Sequence[Sequence[Message]],
    cache: ResultCache | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    longest: int = 100_000,
    charged: bool = False,
    label: str = "asking",
    progress: bool = True,
) -> list[Answer]:
    """Send each conversation to the model, at temperature 0; return its answers in order. Equal ones are sent once.

    The temperature is omitted for a model that does not accept it. For a model that accepts no schema of answers, the
    request uses a JSON object, then no form, unless ``endpoint.answer_format`` fixes it. Reasoning before an answer is
    removed.

    Args:
        conversations: The messages of each conversation, which must be serializable as JSON.
        cache: The cache of answers; None caches nothing.
        options: Further fields of a request, such as ``{"max_tokens": 200}``; fields that are None are omitted.
        longest: Maximum number of characters of an answer.
        charged: Whether each reply costs the endpoint's price, up to its cost limit over all questions to it.

    Raises as :meth:`biaslab.endpoints.endpoint.Requests.request_all`. ParameterError: URL, model or key is missing.
    RunError: More would exceed the cost limit, or an answer cannot be stored.
    """
    fields = {"model": endpoint.model, "temperature": 0.0, **(options or {})}
    if FORM in fields and endpoint.answer_format in ("json_object", "none"):
        fields[FORM] = {"type": "json_object"} if endpoint.answer_format == "json_object" else None
    fields = {name: value for name, value in fields.items() if value is not None}
    digests = [digest([dict(message) for message in messages]) for messages in conversations]
    # The key of an answer must never change.
    inputs = {"url": endpoint.url, "settings": fields}
    answers = AnswerPurchases(cache.stage("answers", inputs).folder) if cache is not None else None
    with answers.turn(digest(sorted(set(digests)))[:16]) if answers else contextlib.nullcontext():
        stored_answers = {question: Answer(**answer) for question, answer in answers.read().items()} if answers else {}
        answers_by_digest = {question: stored_answers[question] for question in digests if question in stored_answers}
        missing = {d: m for d, m in zip(digests, conversations, strict=True) if d not in answers_by_digest}
        if missing:
            # An earlier answer to another question also shows that the endpoint works.
            chats = _Chats(endpoint, fields, answers=answers, longest=longest, worked_before=bool(stored_answers))
            for answer in stored_answers.values():
                chats.omitted_fields.update(filter(None, answer.asked_without.split(",")))
            is_charged = charged and endpoint.price and cache is not None
            with chats.record_purchases(cache) if is_charged else contextlib.nullcontext():
                answers_by_digest |= chats.request_all(missing, label, progress)
    return [answers_by_digest[question] for question in digests]


def are_answered(
    endpoint: EndpointSettings, conversations: Sequence[Sequence[Message]], cache: ResultCache | None
) -> list[bool]:
    """Return for each conversation whether the cache has the model's answer to a request without further fields."""
    if cache is None:
        return [False] * len(conversations)
    inputs = {"url": endpoint.url, "settings": {"model": endpoint.model, "temperature": 0.0}}
    answers = AnswerPurchases(cache.stage("answers", inputs).folder).read()
    return [digest([dict(m) for m in messages]) in answers for messages in conversations]


def ask_until(
    endpoint: EndpointSettings,
    conversations: Sequence[Sequence[Message]],
    find_follow_ups: Callable[[list[int], list[Answer]], Sequence[str]],
    max_attempts: int,
    cache: ResultCache | None = None,
    *,
    label: str,
    **ask_options: Any,
) -> list[Answer]:
    """Repeat :func:`ask` up to ``max_attempts`` times; return the last answer to each conversation.

    ``find_follow_ups`` takes indices of conversations and their new answers, and returns for each the next message to
    the model; an empty message accepts the answer.
    """
    remaining = dict(enumerate(conversations))
    last_answers: dict[int, Answer] = {}
    for attempt in range(max_attempts):
        if not remaining:
            break
        suffix = " again" if attempt else ""
        answers = ask(endpoint, list(remaining.values()), cache, label=label + suffix, **ask_options)
        last_answers |= zip(remaining, answers, strict=True)
        exchanges = zip(remaining.items(), answers, find_follow_ups(list(remaining), answers), strict=True)
        remaining = {
            i: [*conversation, {"role": "assistant", "content": answer.text}, {"role": "user", "content": text}]
            for (i, conversation), answer, text in exchanges
            if text
        }
    return [last_answers[i] for i in range(len(conversations))]


class _Chats(Requests):
    path, product, unit, after_stop = "chat/completions", "chat completions", "answers", _AFTER_STOP
    outcomes, cached_outcomes, longest_reply, stopped = OUTCOMES, _CACHED_OUTCOMES, _MAX_REPLY, "filtered"
    optional = ("temperature", FORM)
    empty_answer = staticmethod(partial(Answer, ""))

    _purchases: ImagePurchases | None = None

    def __init__(self, *arguments: Any, answers: AnswerPurchases | None, longest: int, worked_before: bool) -> None:
        super().__init__(*arguments, worked_before=worked_before)
        if self.settings.answer_format != "auto":
            # A form that a user sets is not replaced.
            self.optional = ("temperature",)
        self._answers, self._longest = answers, longest

    @contextlib.contextmanager
    def record_purchases(self, cache: ResultCache) -> Iterator[None]:
        """Record the cost of each reply, in one process at a time."""
        inputs = {"url": self.settings.url, "model": self.settings.model}
        folder = cache.stage("questions", inputs).folder
        endpoint = f"{self.settings.model} at {self.settings.url}"
        self._purchases = ImagePurchases(folder, self.settings.price, self.settings.cost_limit, endpoint)
        with self._purchases.buying():
            yield

    def attempt(self, client: httpx.Client, digest: str, question: Any) -> tuple[Any, float | None]:
        if self._purchases is None:
            return super().attempt(client, digest, question)
        try:
            self._purchases.reserve(digest, self.stop.is_set)
        except LimitError:
            settings = self.settings
            raise RunError(
                f"Another question to {settings.model}, at a price of {settings.price:g}, would exceed the cost limit "
                f"of {settings.cost_limit:g}; {self._purchases.spent:g} is already spent. {_AFTER_STOP}. Increase "
                "cost_limit or reduce the number of questions, and run again."
            ) from None
        charged = True
        try:
            answer, wait = super().attempt(client, digest, question)
            charged = answer.outcome not in ("rejected", "unavailable")
            return answer, wait
        except (ParameterError, RunError):
            # The server rejected the request.
            charged = False
            raise
        finally:
            self._purchases.settle(digest, charged=charged)

    def request_fields(self, question: Sequence[Message]) -> dict[str, Any]:
        return {"messages": [dict(message) for message in question]}

    def save(self, digest: str, question: Sequence[Message], answer: Answer) -> None:
        if self._answers is not None:
            self._answers.write(digest, asdict(answer))

    def read(self, digest: str, data: bytes, headers: httpx.Headers) -> Answer:
        try:
            reply = json.loads(data)
            choice = reply["choices"][0]
            message, reason = choice["message"], choice.get("finish_reason")
            text = replies.text(message, is_complete=reason == "stop")
            usage = reply.get("usage") or {}
            counts = (usage.get(k) for k in ("prompt_tokens", "completion_tokens"))
            tokens = [count if type(count) is int else 0 for count in counts]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return Answer("", "malformed", f"not a chat completion: {self.shorten_message(data)}")
        text = self.shorten_message(text, longest=self._longest)
        if reason == "content_filter":
            return Answer("", "filtered", "finish_reason content_filter", *tokens)
        if reason == "length":
            return Answer("", "cut", "finish_reason length", *tokens)
        if not text and message.get("refusal"):
            return Answer("", "refused", self.shorten_message(message["refusal"]), *tokens)
        names = (*self.optional, *([] if FORM in self.omitted_fields else [SCHEMA]))
        omitted_names = ",".join(name for name in names if name in self.omitted_fields)
        return Answer(text, "answered" if text else "empty", "", *tokens, asked_without=omitted_names)


def image_message(image: np.ndarray, longest: int, detail: str = "", *, photograph: bool = False) -> dict[str, Any]:
    """Return the part of a message that contains an image, ``uint8 (height, width, 3)`` RGB.

    Its longer side has at most ``longest`` pixels; ``detail`` is the level of detail requested from the model. A
    ``photograph`` is sent as JPEG of quality 92, which has a tenth of the size of PNG.
    """
    from PIL import Image

    thumbnail, file = Image.fromarray(image), BytesIO()
    thumbnail.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    options = {"format": "JPEG", "quality": 92} if photograph else {"format": "PNG", "optimize": True}
    thumbnail.save(file, **options)
    kind, data = options["format"].lower(), base64.b64encode(file.getvalue()).decode()
    url = {"url": f"data:image/{kind};base64,{data}"}
    return {"type": "image_url", "image_url": {**url, **({"detail": detail} if detail else {})}}
