"""Functions that all pages share: assets, content security policy, safe text, safe links, writing."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape

from biaslab.cache.result_cache import replace
from biaslab.schema.formatting import format_count

if TYPE_CHECKING:
    from jinja2 import Environment

# C0 and C1 controls (except tab and line ends) and lone surrogates are invalid in HTML. Bidirectional marks stay:
# right-to-left names need them, and the templates isolate every inserted text.
_JOINED = re.compile(r"(?:[^\u200d\s]{1,4}\u200d){8}")
EMBEDDED = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
"""The address of an image that is embedded in the page."""
TEMPLATES = str(Path(__file__).with_name("templates"))
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def asset(name: str) -> str:
    """Return the text of a packaged file of ``biaslab/report/assets``."""
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Return the environment of the packaged templates: it escapes and cleans texts, and refuses undefined names."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean_text(value),
    )
    jinja.filters["seconds"] = format_seconds
    # Names in backticks are set as code.
    code = re.compile(r"`([^`\n]{1,80})`")
    jinja.filters["ticked"] = lambda text: Markup(code.sub(r"<code>\1</code>", str(escape(clean_text(text)))))
    # Parentheses are set apart from the words of an answer; a sample size is not broken across lines.
    aside = re.compile(r"\([^()]*\)")
    jinja.filters["asides"] = lambda text: Markup(
        aside.sub(r'<span class="aside">\g<0></span>', str(text)).replace("n = ", "n&nbsp;=&nbsp;")
    )
    jinja.filters["thousands"] = "{:,}".format
    jinja.filters["count"] = format_count
    jinja.filters["rows"] = lambda n: format_count(n, "row", "rows")
    return jinja


def content_security_policy(*, style: str, script: str | None = None) -> str:
    """Return a content security policy that forbids a page to load external resources.

    Images are allowed as ``data:`` URLs only, and the inline style sheet and the inline script by their hashes.
    """

    def source(text: str | None) -> str:
        digest = hashlib.sha256((text or "").encode()).digest()
        return "'none'" if text is None else f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {source(style)}; script-src {source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def clean_text(value: object) -> str:
    """Return ``value`` as text that is valid in HTML and does not overflow its line.

    Control characters and lone surrogates become U+FFFD. At most five combining marks per letter stay, more than any
    script uses. A chain of joined characters may break after eight, more than an emoji has.
    """
    if value is None:
        return ""
    text = _UNPRINTABLE.sub("\ufffd", str(value))
    if text.isascii():
        return text
    characters, marks = [], 0
    for sign in text:
        marks = marks + 1 if unicodedata.category(sign).startswith("M") else 0
        if marks <= 5:
            characters.append(sign)
    return _JOINED.sub("\\g<0>\u200b", "".join(characters))


def file_inside(folder: Path, relative: object) -> Path | None:
    """Return the existing file that ``relative`` names inside ``folder``; None for anything else."""
    if not isinstance(relative, str) or not relative:
        return None
    try:
        path = (folder / relative).resolve()
        inside = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError):  # a name too long, a null byte
        return None
    return path if inside else None


def href(folder: Path, relative: object) -> str | None:
    """Return the link from a page in ``folder`` to the file ``relative``, or None if there is no such file."""
    path = file_inside(folder, relative)
    return None if path is None else quote(path.relative_to(folder.resolve()).as_posix())


def format_seconds(value: object) -> str:
    """Return a duration in words: ``3.2 s``, ``1 min 42 s``, ``2 h 5 min``; ``""`` if it is not a number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        return ""
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_time(value: object) -> str:
    """Return an ISO 8601 time in UTC as ``21 November 2025, 02:48 UTC``; other text unchanged."""
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return clean_text(value)
    time = time.astimezone(UTC) if time.tzinfo else time
    return f"{time.day} {time:%B %Y, %H:%M} UTC"


def is_page(path: Path, title: str) -> bool:
    """Return whether a file is a page of biaslab with this title."""
    with path.open("rb") as file:
        head = file.read(8000)
    return head.startswith(b"<!DOCTYPE html>") and f"<title>{title}</title>".encode() in head


def write_page(path: Path, html: str) -> Path:
    """Write ``html`` as UTF-8 to a temporary file, and rename it, so that a reader never sees half a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, html.encode("utf-8", errors="replace"))
    return path


def write_from(path: Path, template: str, *, style: str, script: str | None = None, **content: Any) -> Path:
    """Write a page from a packaged template, with its style, its script and a policy that allows only these."""
    policy = content_security_policy(style=style, script=script)
    about = {"style": Markup(style), "policy": policy} | ({} if script is None else {"script": Markup(script)})
    return write_page(path, environment().get_template(template).render(**content, **about))
