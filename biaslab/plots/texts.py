"""Titles and captions of figures: text files next to papers and others' notebooks, filled in with a run's numbers."""

from __future__ import annotations

import hashlib
import re
import string
from functools import cache
from pathlib import Path

from biaslab import plugins
from biaslab.errors import InputError, ParameterError, unknown_name
from biaslab.schema import tables


def files() -> dict[Path, str]:
    """Return the YAML files that hold titles and captions, with the package of each."""
    own = tables.package_files("texts.yaml")
    brought = {folder / "texts.yaml": package for package, folder in plugins.notebook_folders().items()}
    return dict.fromkeys(own, "biaslab") | {path: by for path, by in brought.items() if path.is_file()}


def figures() -> dict[str, dict[str, str]]:
    """Return the title and the caption of each figure by its name; an InputError where two packages have one."""
    return _figures(tuple(files().items()))


@cache
def _figures(held_in: tuple[tuple[Path, str], ...]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    by: dict[str, str] = {}
    for path, package in held_in:
        figures = tables.load_yaml(path)["figures"]
        for name in sorted(figures.keys() & found):
            raise InputError(
                f"{by[name]} and {package} both have a text of the figure {name!r}; one has to call it otherwise, or "
                "to be uninstalled."
            )
        found |= figures
        by |= dict.fromkeys(figures, package)
    return found


def of_figure(name: str, facts: dict[str, object]) -> tuple[str, str]:
    """Return title and caption of a figure, with ``facts`` in the places that they name in braces.

    Of a figure of a reader's own, such as ``my_figure``, they are the facts ``title`` and ``caption``.

    Raises:
        ParameterError: The text names a fact that is not given.
        UnknownNameError: It is named as figures of a paper are, and there is no such text.
    """
    known = figures()
    if name not in known and name.partition("_")[0] not in {figure.partition("_")[0] for figure in known}:
        # A reader's own figure.
        return str(facts.get("title", name.replace("_", " ").capitalize())), str(facts.get("caption", ""))
    if name not in known:
        raise unknown_name("text of a figure in a texts.yaml", name, known)
    told = known[name]
    asked = {field for text in told.values() for _, field, _, _ in string.Formatter().parse(text) if field}
    missing = sorted(asked - set(facts))
    if missing:
        raise ParameterError(
            f"The text of the figure {name} names {missing[0]!r}, which is not given; pass {missing[0]}=…."
        )
    return told["title"].format(**facts), " ".join(told["caption"].format(**facts).split())


def as_name(text: str) -> str:
    """Return a text, such as a model's name, as part of a figure's name: ``SD v1.4`` becomes ``sd_v1_4``.

    A name in other letters has a digest at its end, which tells it from others.
    """
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "model"
    return name if text.isascii() else f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"
