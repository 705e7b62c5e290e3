"""Errors of biaslab, and near matches of unknown names.

Every message names the value, the allowed values and the fix.
"""

from __future__ import annotations

import builtins
import difflib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

NEVER_RUN = "Code that comes with a model is never run."


class BiaslabError(Exception):
    """Base of every error that biaslab raises on purpose; the command line prints it without a traceback."""


class InputError(BiaslabError, ValueError):
    """Data that cannot be used as given: wrong columns, values out of range, an unreadable file."""


class MissingInputError(InputError):
    """A source lacks the input of a notebook, which is skipped with this reason.

    ``settings`` are the dotted names of empty settings, if these are the reason.
    """

    def __init__(self, message: str, settings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.settings = tuple(settings)


class ParameterError(BiaslabError, ValueError):
    """A parameter with an unknown name, a wrong type or a value that is not allowed."""


class UnreachableHubError(ParameterError):
    """A model that is not on this machine while the hub is unreachable."""


class UnknownNameError(BiaslabError, LookupError):
    """A name that is not in a list of known names."""


class RunError(BiaslabError, RuntimeError):
    """A run that cannot start or did not finish."""


def near_matches(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of ``names`` with a spelling similar to ``name``, best first."""
    by_lower = {str(k).lower(): str(k) for k in names}
    target = str(name).lower()
    close = difflib.get_close_matches(target, by_lower, cutoff=0.6)
    containing = [low for low in by_lower if target and (target in low or low in target) and low not in close]
    return [by_lower[low] for low in (close + containing)[:3]]


def correct_prefix(name: str, prefixes: Iterable[str]) -> str:
    """Return a name with its misspelt start replaced by the nearest of ``prefixes`` (``endpoint:``, or a whole name).

    Empty if no prefix is near. ``OWNER/NAME`` has no prefix.
    """
    start = name.partition(":")[0] + ":" * (":" in name)
    matches = [] if "/" in start else difflib.get_close_matches(start.lower(), list(prefixes), n=1, cutoff=0.7)
    return matches[0] + name[len(start) :] if matches else ""


def name_help(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message: the near matches of ``name``, and the known ``names``."""
    names = [str(k) for k in names]
    matches = near_matches(name, names)
    hint = f"Did you mean {' or '.join(repr(n) for n in matches)}? " if matches else ""
    text = ", ".join(sorted(names)[:40]) + (f", … ({len(names)} in all)" if len(names) > 40 else "")
    return f"{hint}Known: {text or 'none'}."


def unknown_name(kind: str, name: str, names: Iterable[str]) -> UnknownNameError:
    """Return the error for ``name``, a ``kind`` (for example ``"published table"``) that does not exist."""
    return UnknownNameError(f"There is no {kind} named {name!r}. {name_help(name, names)}")


# The minimal extra, which all commands need.
_BASE_EXTRA = "report"
# Names of packages whose import names differ.
_PACKAGE_NAMES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "open_clip": "open_clip_torch",
    "yaml": "pyyaml",
}


def not_installed(error: ModuleNotFoundError, extras: str = "") -> str:
    """Return a message about a missing package and the extra of biaslab that installs it; empty if none does.

    ``extras`` are those that the whole command needs; they are named instead of the minimal extra.
    """
    from importlib import metadata

    name = (error.name or "").partition(".")[0]
    package = _PACKAGE_NAMES.get(name, name).replace("_", "-").lower()
    parts: dict[str, list[str]] = {}
    for text in metadata.requires("biaslab") or ():
        requirement, _, marker = text.partition(";")
        if extra := re.search(r"extra == ['\"]([\w-]+)", marker):
            parts.setdefault(extra[1], []).append(re.split(r"[^\w.-]", requirement)[0].replace("_", "-").lower())
    # Extras contain others; the smallest one with the package is chosen.
    candidates = sorted((len(names), part) for part, names in parts.items() if package in names)
    if not candidates:
        return ""
    part = candidates[0][1]
    requirement = extras if extras and part == _BASE_EXTRA else f"'biaslab[{part}]'"
    return f"This command needs the package {package}, which is not installed: pip install {requirement}"


# While transformers, diffusers and accelerate load, they create modules without values in all threads of the process.
# A model that another thread creates meanwhile would have none.
_LOADING = threading.RLock()


@contextmanager
def refuse_questions() -> Iterator[None]:
    """Refuse questions of libraries to the user while they load, in a terminal, a pipe or a notebook."""

    def no_answer(question: object = "") -> str:
        raise EOFError(f"it asks the user {str(question).strip()[-200:]!r}, which biaslab does not answer.")

    original_input, stream = builtins.input, sys.stdin
    try:
        with open(os.devnull, encoding="utf-8") as null_stream:
            builtins.input, sys.stdin = no_answer, null_stream
            yield
    finally:
        builtins.input, sys.stdin = original_input, stream


@contextmanager
def loading(name: str, kind: str) -> Iterator[None]:
    """Convert errors of a library that loads ``name`` as ``kind`` to a ParameterError; only one thread loads at a time.

    Libraries cannot ask the user questions, such as whether to run a model's code, nor end the program.
    """
    try:
        with _LOADING, refuse_questions():
            yield
    except BiaslabError:
        raise
    # Libraries differ in their errors for a missing file, another architecture or no network; a package may exit.
    except (Exception, SystemExit) as error:
        exits = "its code tried to exit the program" if isinstance(error, SystemExit) else ""
        reason = exits or " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in reason:
            reason = f"it needs its own code. {NEVER_RUN} {reason}"
        raise ParameterError(f"{name} cannot be loaded as {kind}: {reason:.400}") from error
