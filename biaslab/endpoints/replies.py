"""Read replies of OpenAI-compatible servers and gateways: statuses, errors, policies and texts.

All functions take linear time for any reply.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

FORM = "response_format"
"""The field of a request that sets the form of an answer."""
# Words of errors that indicate a policy: OpenAI's, Azure's, and those of servers that forward them.
_POLICY = (
    "content_policy", "content policy", "contentpolicy", "content management policy", "content_filter",
    "contentfilter", "content filter", "content_moderation", "moderation_blocked", "moderation system",
    "safety system", "safety_system", "responsibleaipolicyviolation", "responsible ai",
)  # fmt: skip
# Words of errors without a number -> the equivalent status.
_STATUSES = (
    (("insufficient_quota", "billing"), 402),
    (("rate_limit", "rate limit", "too many requests", "resource_exhausted"), 429),
    (("timeout", "timed out"), 408),
    (("invalid_request", "bad_request", *_POLICY), 400),
)
_SERVER_ERROR = 502
# Words of errors that reject a field.
_REJECTION_WORDS = (
    "unsupported", "not support", "does not accept", "not allowed", "not permitted", "only the default",
    "unrecognized", "unknown", "unavailable", "extra_forbidden",
)  # fmt: skip
# Words of errors about the form of an answer, without spaces, "_" and "-": names of the field, the schema, a type.
_FORM_WORDS = (b"responseformat", b"schema", b"jsonobject", b"jsonmode", b"structuredoutput", b"guided", b"grammar")
_MAX_ERROR = 100_000
FILTER_FIELDS = ("finish_reason", "filtered_reason", "content_filter_results")
"""Prefixes of descriptions of placeholders: the field of a reply that marks its image as one."""
_MARK, _END_OF_MARK, _MAX_MARK = "<|", "|>", 40
_THOUGHT, _END_OF_THOUGHT = "<think>", "</think>"


def status(http_status: int, data: bytes) -> int:
    """Return the status of a reply; with status 200 and an error in place of an answer, the status of the error."""
    if http_status != 200 or b"error" not in data:
        return http_status
    reply = _parse_object(data)
    choice = _first_choice(reply)
    reported_error = reply.get("error") or choice.get("error")
    message = choice.get("message") if isinstance(choice.get("message"), Mapping) else {}
    if choice.get("b64_json") or choice.get("url") or message.get("content"):
        return http_status
    if not reported_error:
        return _SERVER_ERROR if choice.get("finish_reason") == "error" else http_status
    for number in _find_values(reported_error, ("code", "status", "status_code")):
        if str(number).isascii() and str(number).isdigit() and 400 <= int(str(number)[:4]) <= 599:
            return int(str(number))
    error_text = _error_text(reported_error)
    return next((number for words, number in _STATUSES if any(w in error_text for w in words)), _SERVER_ERROR)


def error(data: bytes) -> tuple[str, str]:
    """Return code and message of an error's body; empty texts for missing ones."""
    reply = _parse_object(data)
    reported_error = reply.get("error") or _first_choice(reply).get("error") or reply
    if isinstance(reported_error, str):
        return "", reported_error
    if not isinstance(reported_error, Mapping):
        return "", ""
    code = reported_error.get("code") or reported_error.get("type") or ""
    return str(code), str(reported_error.get("message") or reported_error.get("detail") or "")


def is_policy(data: bytes) -> bool:
    """Return whether the code, type or message of an error indicates that a policy stopped a question or answer."""
    reply = _parse_object(data)
    error_text = _error_text(reply.get("error") or _first_choice(reply).get("error") or reply)
    return any(words in error_text for words in _POLICY)


def placeholder(data: bytes) -> str:
    """Return the field that marks the image of a reply as a content filter's placeholder; empty without one.

    Supported are ``finish_reason``, ``filtered_reason`` and Azure's ``content_filter_results``, next to the image or
    at the top level.
    """
    reply = _parse_object(data)
    for part in (_first_choice(reply), reply):
        finish_reason = str(part.get("finish_reason") or part.get("finishReason") or "")
        if any(word in finish_reason.lower() for word in ("filter", "safety")):
            return f"finish_reason {finish_reason}"
        if reason := part.get("filtered_reason") or part.get("raiFilteredReason"):
            return f"filtered_reason {reason}"
        results = part.get("content_filter_results")
        for kind, result in results.items() if isinstance(results, Mapping) else ():
            if isinstance(result, Mapping) and result.get("filtered") is True:
                return f"content_filter_results {kind}"
    return ""


def refused_field(data: bytes, fields: Iterable[str]) -> str:
    """Return the field of a request that an error rejects, with any value or with its current one; else empty.

    Servers reject the form of an answer in many wordings, so any error that mentions it counts.
    """
    plain = re.sub(rb"[\s_-]", b"", data[:_MAX_ERROR].lower())
    if FORM in fields and any(words in plain for words in _FORM_WORDS):
        return FORM
    reply = _parse_object(data)
    reported_error = reply.get("error") or reply
    if not isinstance(reported_error, Mapping):
        return ""
    error_text = _error_text(reported_error)
    parameter = str(reported_error.get("param") or "")
    if not any(words in error_text for words in _REJECTION_WORDS):
        return ""
    # The field that the server names, else one in its message.
    return next((name for name in fields if name == parameter or (not parameter and name in error_text)), "")


def text(message: Mapping[str, Any], *, is_complete: bool) -> str:
    """Return the text of a message, without reasoning before it and marks of chat templates; TypeError if invalid.

    Some servers send it in parts, and some send the whole output of a model as reasoning, which then counts if the
    output is complete (``is_complete``).
    """
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not content and is_complete:
        content = message.get("reasoning_content")
        content = content if isinstance(content, str) else ""
    return plain_text(content or "")


def plain_text(content: str) -> str:
    """Return a text without the reasoning before it, and without marks of chat templates."""
    _, end_mark, answer = content.rpartition(_END_OF_THOUGHT)
    if end_mark:
        content = answer
    elif content.lstrip().startswith(_THOUGHT):
        # The reply was cut off within the reasoning.
        content = ""
    parts = content.split(_MARK)
    for k, part in enumerate(parts[1:], start=1):
        name, end, remainder = part[:_MAX_MARK].partition(_END_OF_MARK)
        # A mark is one word.
        is_mark = end and name.replace("_", "").isalnum()
        parts[k] = remainder + part[_MAX_MARK:] if is_mark else _MARK + part
    return "".join(parts).strip()


def _parse_object(data: bytes) -> Mapping[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(data), Mapping):
            return value
    return {}


def _first_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice, or image, of a reply."""
    for name in ("choices", "data"):
        choices = reply.get(name)
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            return choices[0]
    return {}


def _find_values(error_body: object, names: Iterable[str]) -> list[Any]:
    """Return the values of an error under some names, at its top level or one level below."""
    if not isinstance(error_body, Mapping):
        return []
    nested = [value for value in error_body.values() if isinstance(value, Mapping)]
    return [mapping[name] for mapping in (error_body, *nested) for name in names if mapping.get(name) is not None]


def _error_text(error_body: object) -> str:
    """Return the text of an error in lower case: its message, code and type, and those one level below."""
    if isinstance(error_body, str):
        return error_body.lower()
    return " ".join(map(str, _find_values(error_body, ("code", "type", "message", "detail", "status")))).lower()
