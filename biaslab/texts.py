"""Titles and captions of figures: text files beside the papers, filled in with a run's numbers."""

from __future__ import annotations

import re
import string
from functools import cache
from pathlib import Path

from biaslab.errors import ParameterError, unknown_name


def files() -> list[Path]:
    """Return the YAML files that hold titles and captions."""
    return sorted((Path(__file__).parent / "papers").glob("*/texts.yaml"))


@cache
def _figures() -> dict[str, dict[str, str]]:
    import yaml

    found: dict[str, dict[str, str]] = {}
    for path in files():
        found |= yaml.safe_load(path.read_text(encoding="utf-8"))["figures"]
    return found


def of_figure(name: str, facts: dict[str, object]) -> tuple[str, str]:
    """Return title and caption of a figure, with ``facts`` in the places that they name in braces.

    Raises:
        ParameterError: The text names a fact that is not given.
        UnknownNameError: There is no such text.
    """
    if name not in _figures():
        raise unknown_name("text of a figure in biaslab/papers/*/texts.yaml", name, _figures())
    told = _figures()[name]
    asked = {field for text in told.values() for _, field, _, _ in string.Formatter().parse(text) if field}
    missing = sorted(asked - set(facts))
    if missing:
        raise ParameterError(
            f"The text of the figure {name} names {missing[0]!r}, which is not given; pass {missing[0]}=…."
        )
    return told["title"].format(**facts), " ".join(told["caption"].format(**facts).split())


def as_name(text: str) -> str:
    """Return a text, such as a model's name, as part of a figure's name: ``SD v1.4`` becomes ``sd_v1_4``."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "model"
