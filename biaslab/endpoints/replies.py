"""What the replies of OpenAI-compatible servers, and of gateways before them, say beside what was asked for.

Nothing here runs longer than a few passes over what was sent, whatever that is.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

FORM = "response_format"
"""The field of a request that sets the form of an answer."""
# Words of errors that stand for a policy: OpenAI's, Azure's, and those of servers that pass them on.
_POLICY = (
    "content_policy", "content policy", "contentpolicy", "content management policy", "content_filter",
    "contentfilter", "content filter", "content_moderation", "moderation_blocked", "moderation system",
    "safety system", "safety_system", "responsibleaipolicyviolation", "responsible ai",
)  # fmt: skip
# What errors without a number are called -> the status that says the same.
_STATUSES = (
    (("insufficient_quota", "billing"), 402),
    (("rate_limit", "rate limit", "too many requests", "resource_exhausted"), 429),
    (("timeout", "timed out"), 408),
    (("invalid_request", "bad_request", *_POLICY), 400),
)
_SERVER = 502
# How servers say that they do not take a field.
_NOT_TAKEN = (
    "unsupported", "not support", "does not accept", "not allowed", "not permitted", "only the default",
    "unrecognized", "unknown", "unavailable", "extra_forbidden",
)  # fmt: skip
# Words of errors about the form of an answer, without blanks, "_" and "-": the field's name, the schema's, a type's.
_OF_FORM = (b"responseformat", b"schema", b"jsonobject", b"jsonmode", b"structuredoutput", b"guided", b"grammar")
_LONGEST_ERROR = 100_000
FILTER_FIELDS = ("finish_reason", "filtered_reason", "content_filter_results")
"""How descriptions of placeholders begin: the field of a reply that says that its image is one."""
_MARK, _END_OF_MARK, _LONGEST_MARK = "<|", "|>", 40
_THOUGHT, _END_OF_THOUGHT = "<think>", "</think>"


def status(sent: int, data: bytes) -> int:
    """Return the status of a reply: of one with 200 and an error in its body in the place of an answer, the error's."""
    if sent != 200 or b"error" not in data:
        return sent
    reply = _object(data)
    first = _first(reply)
    found = reply.get("error") or first.get("error")
    message = first.get("message") if isinstance(first.get("message"), Mapping) else {}
    if first.get("b64_json") or first.get("url") or message.get("content"):
        return sent
    if not found:
        return _SERVER if first.get("finish_reason") == "error" else sent
    for number in _values(found, ("code", "status", "status_code")):
        if str(number).isascii() and str(number).isdigit() and 400 <= int(str(number)[:4]) <= 599:
            return int(str(number))
    said = _error_text(found)
    return next((number for words, number in _STATUSES if any(w in said for w in words)), _SERVER)


def error(data: bytes) -> tuple[str, str]:
    """Return code and message of an error's body; empty texts where it has none."""
    reply = _object(data)
    found = reply.get("error") or _first(reply).get("error") or reply
    if isinstance(found, str):
        return "", found
    if not isinstance(found, Mapping):
        return "", ""
    code = found.get("code") or found.get("type") or ""
    return str(code), str(found.get("message") or found.get("detail") or "")


def is_policy(data: bytes) -> bool:
    """Return whether an error says that a policy stopped a question or its answer: by its code, type or message."""
    reply = _object(data)
    said = _error_text(reply.get("error") or _first(reply).get("error") or reply)
    return any(words in said for words in _POLICY)


def placeholder(data: bytes) -> str:
    """Return which field says that the image of a reply is a content filter's placeholder; empty where none does.

    Known are ``finish_reason``, ``filtered_reason`` and Azure's ``content_filter_results``, next to the image or
    above it.
    """
    reply = _object(data)
    for said in (_first(reply), reply):
        ended = str(said.get("finish_reason") or said.get("finishReason") or "")
        if any(word in ended.lower() for word in ("filter", "safety")):
            return f"finish_reason {ended}"
        if why := said.get("filtered_reason") or said.get("raiFilteredReason"):
            return f"filtered_reason {why}"
        results = said.get("content_filter_results")
        for kind, result in results.items() if isinstance(results, Mapping) else ():
            if isinstance(result, Mapping) and result.get("filtered") is True:
                return f"content_filter_results {kind}"
    return ""


def refused_field(data: bytes, fields: Iterable[str]) -> str:
    """Return the field of a request that an error says is not taken, with any value or with that one; else empty.

    Servers refuse the form of an answer in many words, so any error that speaks of it counts.
    """
    plain = re.sub(rb"[\s_-]", b"", data[:_LONGEST_ERROR].lower())
    if FORM in fields and any(words in plain for words in _OF_FORM):
        return FORM
    reply = _object(data)
    found = reply.get("error") or reply
    if not isinstance(found, Mapping):
        return ""
    said = _error_text(found)
    named = str(found.get("param") or "")
    if not any(words in said for words in _NOT_TAKEN):
        return ""
    # What the server names, else what its message speaks of.
    return next((name for name in fields if name == named or (not named and name in said)), "")


def text(message: Mapping[str, Any], *, ended: bool) -> str:
    """Return what a message says, without thoughts before it and marks of chats; TypeError where it is none.

    Some servers send it in parts, and some send all that a model wrote as its reasoning: then that counts where the
    model came to its end (``ended``).
    """
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not content and ended:
        content = message.get("reasoning_content")
        content = content if isinstance(content, str) else ""
    return plain_text(content or "")


def plain_text(said: str) -> str:
    """Return a text without what a model thought before it, and without marks that a chat's template knows."""
    _, closed, after = said.rpartition(_END_OF_THOUGHT)
    if closed:
        said = after
    elif said.lstrip().startswith(_THOUGHT):
        # It was cut off before it said anything.
        said = ""
    parts = said.split(_MARK)
    for k, part in enumerate(parts[1:], start=1):
        name, end, rest = part[:_LONGEST_MARK].partition(_END_OF_MARK)
        # Marks are of one word.
        known = end and name.replace("_", "").isalnum()
        parts[k] = rest + part[_LONGEST_MARK:] if known else _MARK + part
    return "".join(parts).strip()


def _object(data: bytes) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(data), Mapping):
            return found
    return {}


def _first(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice, or picture, of a reply."""
    for name in ("choices", "data"):
        some = reply.get(name)
        if isinstance(some, list) and some and isinstance(some[0], Mapping):
            return some[0]
    return {}


def _values(found: object, names: Iterable[str]) -> list[Any]:
    """Return what an error has under some names, at its top or one level below."""
    if not isinstance(found, Mapping):
        return []
    below = [value for value in found.values() if isinstance(value, Mapping)]
    return [one[name] for one in (found, *below) for name in names if one.get(name) is not None]


def _error_text(found: object) -> str:
    """Return what an error says in words, in small letters: its message, code and type, and those within."""
    if isinstance(found, str):
        return found.lower()
    return " ".join(map(str, _values(found, ("code", "type", "message", "detail", "status")))).lower()
