"""The errors that biaslab raises, and how it names near matches.

Every message names the value, what is allowed and the fix.
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
    """A source that does not hold what a notebook needs: the notebook is skipped, with this reason.

    ``settings`` are the dotted names of the settings that are empty, where these are the reason.
    """

    def __init__(self, message: str, settings: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.settings = tuple(settings)


class ParameterError(BiaslabError, ValueError):
    """A parameter with an unknown name, a wrong type or a value that is not allowed."""


class UnreachableHubError(ParameterError):
    """A model that is not on this machine, where the hub does not answer."""


class UnknownNameError(BiaslabError, LookupError):
    """A name that is not in a list of known names."""


class RunError(BiaslabError, RuntimeError):
    """A run that cannot start or did not finish."""


def near_matches(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three names of ``known`` that are spelt like ``name``, best first."""
    by_lower = {str(k).lower(): str(k) for k in known}
    wanted = str(name).lower()
    close = difflib.get_close_matches(wanted, by_lower, cutoff=0.6)
    inside = [low for low in by_lower if wanted and (wanted in low or low in wanted) and low not in close]
    return [by_lower[low] for low in (close + inside)[:3]]


def correct_prefix(name: str, prefixes: Iterable[str]) -> str:
    """Return a name whose start is nearly one of ``prefixes`` (``endpoint:``, or a whole name) with that one.

    Empty where no prefix is near. ``OWNER/NAME`` has none.
    """
    start = name.partition(":")[0] + ":" * (":" in name)
    near = [] if "/" in start else difflib.get_close_matches(start.lower(), list(prefixes), n=1, cutoff=0.7)
    return near[0] + name[len(start) :] if near else ""


def name_help(name: str, known: Iterable[str]) -> str:
    """Return which known names are near ``name`` and what exists: the end of an error message."""
    known = [str(k) for k in known]
    near = near_matches(name, known)
    hint = f"Did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    listed = ", ".join(sorted(known)[:40]) + (f", … ({len(known)} in all)" if len(known) > 40 else "")
    return f"{hint}Known: {listed or 'none'}."


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for ``name``, a ``kind`` (for example ``"published table"``) that does not exist."""
    return UnknownNameError(f"There is no {kind} named {name!r}. {name_help(name, known)}")


# The extra that all commands need.
_LEAST = "report"
# What packages are called that are imported by other names.
_PACKAGE_NAMES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "open_clip": "open_clip_torch",
    "yaml": "pyyaml",
}


def not_installed(error: ModuleNotFoundError, extras: str = "") -> str:
    """Return which extra of biaslab brings a package that is missing; empty where none does.

    ``extras`` are those that the whole command needs, named where the smallest one alone would not do.
    """
    from importlib import metadata

    name = (error.name or "").partition(".")[0]
    called = _PACKAGE_NAMES.get(name, name).replace("_", "-").lower()
    parts: dict[str, list[str]] = {}
    for text in metadata.requires("biaslab") or ():
        needed, _, marker = text.partition(";")
        if extra := re.search(r"extra == ['\"]([\w-]+)", marker):
            parts.setdefault(extra[1], []).append(re.split(r"[^\w.-]", needed)[0].replace("_", "-").lower())
    # Parts hold others: the smallest one that has it.
    having = sorted((len(names), part) for part, names in parts.items() if called in names)
    if not having:
        return ""
    part = having[0][1]
    needed = extras if extras and part == _LEAST else f"'biaslab[{part}]'"
    return f"This takes the package {called}, which is not installed: pip install {needed}"


# transformers, diffusers and accelerate make modules without values while they load, for every thread of the process:
# a model that another thread makes meanwhile has none.
_LOADING = threading.RLock()


@contextmanager
def loading_allowed() -> Iterator[None]:
    """Leave a library that asks a question without an answer, whether from a terminal, a pipe or a notebook's page."""

    def no_answer(question: object = "") -> str:
        raise EOFError(f"it asks {str(question).strip()[-200:]!r}, and is given no answer.")

    asks, stream = builtins.input, sys.stdin
    try:
        with open(os.devnull, encoding="utf-8") as nothing:
            builtins.input, sys.stdin = no_answer, nothing
            yield
    finally:
        builtins.input, sys.stdin = asks, stream


@contextmanager
def loading(name: str, what: str) -> Iterator[None]:
    """Turn what a library raises as it loads ``name`` as ``what`` into a ParameterError; one thread loads at a time.

    None may ask whoever sits there a question, such as whether to run a model's code, nor end the program.
    """
    try:
        with _LOADING, loading_allowed():
            yield
    except BiaslabError:
        raise
    # Every library has its own errors for a missing file, another architecture or no network; a package may exit.
    except (Exception, SystemExit) as error:
        exits = "it would end the program" if isinstance(error, SystemExit) else ""
        reason = exits or " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in reason:
            reason = f"it needs code of its own. {NEVER_RUN} {reason}"
        raise ParameterError(f"{name} cannot be loaded as {what}: {reason:.400}") from error
