"""Keys, tokens and passwords: what looks like one in a URL, and texts without those that the environment holds."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

BLOT = "[key]"
"""What stands in the place of a key."""
# Shorter values of variables, such as EMPTY, are words.
_SHORTEST = 8
# Environment variables that usually hold a key.
_VARIABLE = re.compile(r"(?i)(?:.*_)?(?:(?:API_?)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)")
# Names of secrets: these words wherever in a name, and those where they stand by themselves.
_WITHIN = re.compile(r"(?i)key(?!word|board)|token|secret|passw|passphrase|signature|credential|bearer|jwt|cookie")
_WORDS = "access auth authorization code cred creds oauth otp pass pin pw pwd sas session sid sig"
# Keys as servers give them out, by their beginning; and what is long, of letters of both cases and digits. The latter
# are keys where an endpoint is named, and the names of pictures elsewhere.
_SHAPE = re.compile(
    r"sk[-_](?=[\w-]*[A-Z0-9])[\w-]{6,}|(?:sk|pk|rk|hf|gh[oprsu]|github_pat|glpat|xox[abeprs]|gsk|xai|r8)[-_][\w-]{20,}"
    r"|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w.-]+",
    re.ASCII,
)
_LONG = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+=_~]{40,}")
# Host (with user), path, query and fragment, whether or not a scheme stands before them.
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=//))?(?://)?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_IN_TEXT = re.compile(r"https?://[^\s\"'<>()\[\]\\^`{|}]+(?<![.,:;!?])", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether a name, such as ``X-Amz-Credential``, is that of a key or password."""
    name = unquote(unquote(name))
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return bool(_WITHIN.search(name) or set(_WORDS.split()).intersection(words))


def in_url(url: str) -> str:
    """Say what a URL holds that looks like a secret, in any of its parts; empty where there is none."""
    return next((what for what, *_ in _secrets(url, _SHAPE, _LONG)), "")


def without_in_urls(text: str) -> str:
    """Return a text whose URLs hold no user, password or key: :data:`BLOT` stands there instead."""

    def blotted(match: re.Match) -> str:
        url = match[0]
        for _, start, end in sorted(_secrets(url, _SHAPE), key=lambda secret: -secret[1]):
            url = url[:start] + BLOT + url[end:]
        return url

    return _IN_TEXT.sub(blotted, text)


def _secrets(url: str, *shapes: re.Pattern) -> Iterator[tuple[str, int, int]]:
    """Yield what a URL holds of secrets, by names or by shapes: in words, and where it starts and ends."""
    parts = _URL.match(url)
    assert parts is not None  # Each of its parts may be empty.
    user = parts[1].rfind("@")
    if user >= 0:
        yield "a user or a password", parts.start(1), parts.start(1) + user
    host = parts.start(1) + user + 1
    for label in re.finditer(r"[^.:]+", parts[1][user + 1 :]):
        if any(shape.fullmatch(label[0]) for shape in shapes):
            yield "what looks like a key as its host", host + label.start(), host + label.end()
    for k, where, piece in ((2, "in its path", "[^/;]+"), (3, "after '?'", "[^?&;]+"), (4, "after '#'", "[^#&;]+")):
        for match in re.finditer(piece, parts[k] or ""):
            name, equals, value = match[0].partition("=")
            value = value if equals else match[0]
            shaped = any(shape.fullmatch(unquote(value)) for shape in shapes)
            if shaped or (equals and value and is_secret(name)):
                end = parts.start(k) + match.end()
                yield f"what looks like a key {where}", end - len(value), end


# -- keys of the environment -----------------------------------------------------------------------------


def held(values: Any = None) -> dict[str, str]:
    """Return the keys that environment variables hold, with the variables' names.

    They are variables named like ``HF_TOKEN``, and those that settings among ``values`` name
    (``endpoint.key_variable``).
    """
    named = set(_variables(values))
    items = ((name, value.strip()) for name, value in os.environ.items())
    found = {value: name for name, value in items if name in named or _VARIABLE.fullmatch(name)}
    return {key: name for key, name in found.items() if len(key) >= _SHORTEST}


def _variables(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            if str(name).endswith("key_variable") and isinstance(value, str):
                yield value
            yield from _variables(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _variables(value)


def is_in(text: str, key: str) -> bool:
    """Return whether a text holds a key, as it is, escaped for URL, HTML or JSON, or in base64."""
    return bool(_pattern((key,)).search(text))


def without(text: str, keys: Iterable[str]) -> str:
    """Return a text without keys, as they are, escaped for URL, HTML or JSON, or in base64."""
    return _pattern(tuple(sorted(keys))).sub(BLOT, text)


@lru_cache
def _pattern(keys: tuple[str, ...]) -> re.Pattern:
    forms = ["".join(map(spelled, key)) for key in sorted(keys, key=len, reverse=True) if key]
    forms += [form for key in keys if len(key) >= _SHORTEST for form in _in_base64(key)]
    return re.compile("|".join(forms) or "(?!)")


def _in_base64(key: str) -> Iterator[str]:
    """Yield patterns of a key in base64, by itself or within a longer text, in either alphabet."""
    data = key.encode()
    for before in range(3):
        # Without the letters that hold something of what stands around it.
        whole = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        inner = re.escape(whole[first:last])
        yield inner.replace(r"\+", "[+-]").replace("/", "[/_]")


def spelled(char: str) -> str:
    """Return a pattern of a character as it is, or escaped for a URL, HTML or JSON."""
    code = ord(char)
    coded = "".join(f"%(?:25)*{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
    forms = [r"\\+" if char == "\\" else r"\\*/" if char == "/" else re.escape(char), f"(?i:{coded})"]
    forms += [rf"(?i:\\+u{code:04x})", f"&#0*{code};", f"(?i:&#x0*{code:x};)"]
    if html.escape(char) != char:
        forms.append(re.escape(html.escape(char)))
    return f"(?:{'|'.join(forms)})"
