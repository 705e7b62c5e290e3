"""Default judges of photographs: the first available one for each role, preferring those with a measured error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from biaslab.errors import BiaslabError
from biaslab.judges.pinned import DLIB, YUNET, install_command
from biaslab.judges.registry import parse

CLIP = "ViT-L-14:openai"
"""The open_clip model that compares images and texts if it is available, and classifies gender if `dlib` is not."""
_CANDIDATES = {"judging.faces": (YUNET,), "judging.gender": (DLIB, CLIP)}
SETTINGS = tuple(_CANDIDATES)
"""The settings that have defaults."""


class Default(NamedTuple):
    """A default judge."""

    name: str
    reason: str
    """Why it was chosen, as the end of a sentence."""


def choose_defaults(settings: Iterable[str] = SETTINGS) -> dict[str, Default]:
    """Return the first judge of photographs for each setting whose package is installed, or whose model is on the hub.

    If none is available, it is the first candidate, whose error names the one command that installs it.
    """
    defaults = {}
    for setting in settings:
        first, *others = _CANDIDATES[setting]
        problem = find_problem(first, setting)
        works = next((name for name in others if not find_problem(name, setting)), "") if problem else ""
        if works:
            defaults[setting] = Default(works, f"the default with a measured error is not available. {problem}")
        else:
            reason = "no other default is available." if problem else "its error on labelled photographs is known."
            defaults[setting] = Default(first, reason)
    return defaults


def find_problem(name: str, setting: str = "judging.gender") -> str:
    """Return why a judge of a setting is unavailable, without reading its weights; empty if it is available."""
    try:
        parse(name, setting).files()
    except (BiaslabError, ImportError) as error:
        return str(error)
    return ""


def offline_advice() -> str:
    """Return the judges of photographs that work without the hub, and one command that installs missing packages."""
    missing = find_problem(YUNET, "judging.faces") or find_problem(DLIB)
    command = f" after `{install_command(DLIB)}`" if missing else ""
    return f"For photographs, judging.gender={DLIB} and judging.faces={YUNET} work without the hub{command}."
