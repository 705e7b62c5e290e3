"""Models that answer, behind an OpenAI-compatible endpoint: conversations go to ``<url>/chat/completions``.

An answer is written to the store's database of purchases as soon as it is there, keyed by URL, model, options and
messages, so that nothing is paid for twice, however a run ends. It also contains what questions cost, where they have a
price (:mod:`biaslab.endpoints.purchases`).
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
_STAYS = "Earlier answers are cached"
# What may become of a question, and what it means. Those in _KEPT were paid for and are not asked again.
OUTCOMES: dict[str, str] = {
    "answered": "the model answered with a text",
    "empty": "the model answered without a text, three times",
    "cut": "the answer was cut off at the limit of tokens",
    "filtered": "the answer, or the question, was stopped by a content filter",
    "refused": "the model refused, in the reply's field for refusals",
    "malformed": "the reply is not a chat completion, three times",
    "rejected": "the server does not take this question (status 400, 413, 422, …)",
    "unavailable": "the server did not answer this question after all attempts",
}
_KEPT = ("answered", "empty", "cut", "filtered", "refused")
# Bytes of a reply that are read; a chat completion has a few thousand, and a few hundred thousand of thoughts.
_LONGEST_REPLY = 8 * 2**20

# One message, as in ``{"role": "user", "content": …}``: the content is a text or a list of parts (texts and images).
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What came back for one conversation."""

    text: str  # What the model said; empty where the outcome is not ``answered``.
    outcome: str  # One of :data:`OUTCOMES`.
    detail: str = ""  # More about an outcome without an answer, such as ``HTTP 413: too long``.
    prompt_tokens: int = 0  # As the server counts them; 0 where it does not say.
    completion_tokens: int = 0
    asked_without: str = ""  # Fields of the request that the model does not take, joined by commas.


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
    """Put each conversation to the model, at temperature 0; return its answers in order. Equal ones are asked once.

    A model that takes no temperature is asked without. One that takes no schema of its answers is asked for any JSON
    object, then without a form, unless ``endpoint.answer_format`` fixes it. Thoughts before an answer are removed.

    Args:
        conversations: For each answer its messages, which must fit in JSON.
        cache: Where answers are kept; nothing is kept where it is None.
        options: Further fields of a request, such as ``{"max_tokens": 200}``; one that is None is left out.
        longest: Characters of an answer that are kept.
        charged: Whether each reply costs the endpoint's price, up to its limit of cost over all questions to it.

    Raises as :meth:`biaslab.endpoints.endpoint.Requests.request_all`. ParameterError: There is no URL, model or key.
    RunError: More would pass the limit of cost, or there is no room to keep an answer.
    """
    fields = {"model": endpoint.model, "temperature": 0.0, **(options or {})}
    if FORM in fields and endpoint.answer_format in ("json_object", "none"):
        fields[FORM] = {"type": "json_object"} if endpoint.answer_format == "json_object" else None
    fields = {name: value for name, value in fields.items() if value is not None}
    digests = [digest([dict(m) for m in messages]) for messages in conversations]
    # What an answer is kept by never changes.
    inputs = {"url": endpoint.url, "settings": fields}
    answers = AnswerPurchases(cache.stage("answers", inputs).folder) if cache is not None else None
    with answers.turn(digest(sorted(set(digests)))[:16]) if answers else contextlib.nullcontext():
        before = {question: Answer(**answer) for question, answer in answers.read().items()} if answers else {}
        known = {d: before[d] for d in digests if d in before}
        missing = {d: m for d, m in zip(digests, conversations, strict=True) if d not in known}
        if missing:
            # That it works was seen, too, by an answer to another question.
            asking = _Chats(endpoint, fields, answers=answers, longest=longest, worked_before=bool(before))
            for answer in before.values():
                asking.left_out.update(filter(None, answer.asked_without.split(",")))
            paying = charged and endpoint.price and cache is not None
            with asking.record_purchases(cache) if paying else contextlib.nullcontext():
                known |= asking.request_all(missing, label, progress)
    return [known[d] for d in digests]


def are_answered(
    endpoint: EndpointSettings, conversations: Sequence[Sequence[Message]], cache: ResultCache | None
) -> list[bool]:
    """Return for each conversation, asked without further fields, whether the cache has the model's answer."""
    if cache is None:
        return [False] * len(conversations)
    inputs = {"url": endpoint.url, "settings": {"model": endpoint.model, "temperature": 0.0}}
    answers = AnswerPurchases(cache.stage("answers", inputs).folder).read()
    return [digest([dict(m) for m in messages]) in answers for messages in conversations]


def ask_until(
    endpoint: EndpointSettings,
    conversations: Sequence[Sequence[Message]],
    wrong: Callable[[list[int], list[Answer]], Sequence[str]],
    readings: int,
    cache: ResultCache | None = None,
    *,
    label: str,
    **more: Any,
) -> list[Answer]:
    """Ask as :func:`ask` does, up to ``readings`` times; return the last answer to each conversation.

    ``wrong`` takes indices of conversations and their new answers, and returns for each what to say to the model so
    that it answers once more; empty where the answer will do, or no other would.
    """
    talks = dict(enumerate(conversations))
    found: dict[int, Answer] = {}
    for reading in range(readings):
        if not talks:
            break
        again = " again" if reading else ""
        answers = ask(endpoint, list(talks.values()), cache, label=label + again, **more)
        found |= zip(talks, answers, strict=True)
        said = zip(talks.items(), answers, wrong(list(talks), answers), strict=True)
        talks = {
            i: [*talk, {"role": "assistant", "content": answer.text}, {"role": "user", "content": text}]
            for (i, talk), answer, text in said
            if text
        }
    return [found[i] for i in range(len(conversations))]


class _Chats(Requests):
    path, product, unit, after_stop = "chat/completions", "chat completions", "answers", _STAYS
    outcomes, cached_outcomes, longest_reply, stopped = OUTCOMES, _KEPT, _LONGEST_REPLY, "filtered"
    optional = ("temperature", FORM)
    empty_answer = staticmethod(partial(Answer, ""))

    _purchases: ImagePurchases | None = None

    def __init__(self, *given: Any, answers: AnswerPurchases | None, longest: int, worked_before: bool) -> None:
        super().__init__(*given, worked_before=worked_before)
        if self.settings.answer_format != "auto":
            # A form that a user sets is not exchanged for another.
            self.optional = ("temperature",)
        self._answers, self._longest = answers, longest

    @contextlib.contextmanager
    def record_purchases(self, cache: ResultCache) -> Iterator[None]:
        """Write down what each reply costs, one process at a time."""
        at = {"url": self.settings.url, "model": self.settings.model}
        folder = cache.stage("questions", at).folder
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
            s = self.settings
            raise RunError(
                f"One more question to {s.model} at {s.price:g} would pass the limit of cost, {s.cost_limit:g}: "
                f"{self._purchases.spent:g} is spent. {_STAYS}; set a higher cost_limit, or ask less, and run again."
            ) from None
        charged = True
        try:
            answer, wait = super().attempt(client, digest, question)
            charged = answer.outcome not in ("rejected", "unavailable")
            return answer, wait
        except (ParameterError, RunError):
            # The server turned it down.
            charged = False
            raise
        finally:
            self._purchases.settle(digest, charged=charged)

    def request_fields(self, question: Sequence[Message]) -> dict[str, Any]:
        return {"messages": [dict(m) for m in question]}

    def save(self, digest: str, question: Sequence[Message], answer: Answer) -> None:
        if self._answers is not None:
            self._answers.write(digest, asdict(answer))

    def read(self, digest: str, data: bytes, headers: httpx.Headers) -> Answer:
        try:
            reply = json.loads(data)
            choice = reply["choices"][0]
            message, reason = choice["message"], choice.get("finish_reason")
            text = replies.text(message, ended=reason == "stop")
            used = reply.get("usage") or {}
            counts = (used.get(k) for k in ("prompt_tokens", "completion_tokens"))
            tokens = [count if type(count) is int else 0 for count in counts]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return Answer("", "malformed", f"no chat completion: {self.shorten_message(data)}")
        text = self.shorten_message(text, longest=self._longest)
        if reason == "content_filter":
            return Answer("", "filtered", "finish_reason content_filter", *tokens)
        if reason == "length":
            return Answer("", "cut", "finish_reason length", *tokens)
        if not text and message.get("refusal"):
            return Answer("", "refused", self.shorten_message(message["refusal"]), *tokens)
        names = (*self.optional, *([] if FORM in self.left_out else [SCHEMA]))
        without = ",".join(name for name in names if name in self.left_out)
        return Answer(text, "answered" if text else "empty", "", *tokens, asked_without=without)


def image_message(image: np.ndarray, longest: int, detail: str = "", *, photograph: bool = False) -> dict[str, Any]:
    """Return the part of a message that shows an image, ``uint8 (height, width, 3)`` RGB.

    Its longer side has at most ``longest`` pixels; ``detail`` is how closely the model is to look. A ``photograph`` is
    sent as JPEG of quality 92, which is a tenth of PNG.
    """
    from PIL import Image

    shown, file = Image.fromarray(image), BytesIO()
    shown.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    options = {"format": "JPEG", "quality": 92} if photograph else {"format": "PNG", "optimize": True}
    shown.save(file, **options)
    kind, data = options["format"].lower(), base64.b64encode(file.getvalue()).decode()
    url = {"url": f"data:image/{kind};base64,{data}"}
    return {"type": "image_url", "image_url": {**url, **({"detail": detail} if detail else {})}}
