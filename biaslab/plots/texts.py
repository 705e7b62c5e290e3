"""Titles and captions of figures: text files of papers and of packages with notebooks, filled in with run values."""

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
    """Return the YAML files with titles and captions, with the package of each."""
    package_files = tables.package_files("texts.yaml")
    plugin_files = {folder / "texts.yaml": package for package, folder in plugins.notebook_folders().items()}
    return dict.fromkeys(package_files, "biaslab") | {
        path: package for path, package in plugin_files.items() if path.is_file()
    }


def figures() -> dict[str, dict[str, str]]:
    """Return title and caption of each figure by its name; raise InputError if two packages define one figure."""
    return _figures(tuple(files().items()))


@cache
def _figures(sources: tuple[tuple[Path, str], ...]) -> dict[str, dict[str, str]]:
    texts_by_figure: dict[str, dict[str, str]] = {}
    packages: dict[str, str] = {}
    for path, package in sources:
        figures = tables.load_yaml(path)["figures"]
        for name in sorted(figures.keys() & texts_by_figure):
            raise InputError(
                f"{packages[name]} and {package} both contain a text for the figure {name!r}. Rename the figure in one "
                "of these packages, or uninstall one."
            )
        texts_by_figure |= figures
        packages |= dict.fromkeys(figures, package)
    return texts_by_figure


def of_figure(name: str, facts: dict[str, object]) -> tuple[str, str]:
    """Return title and caption of a figure, with ``facts`` in place of their names in braces.

    For a user's own figure, such as ``my_figure``, they are the facts ``title`` and ``caption``.

    Raises:
        ParameterError: The text names a fact that is not given.
        UnknownNameError: The name begins as the figures of a paper do, and has no text.
    """
    texts = figures()
    if name not in texts and name.partition("_")[0] not in {figure.partition("_")[0] for figure in texts}:
        # A user's own figure.
        return str(facts.get("title", name.replace("_", " ").capitalize())), str(facts.get("caption", ""))
    if name not in texts:
        raise unknown_name("text of a figure in a texts.yaml", name, texts)
    figure_texts = texts[name]
    fields = {field for text in figure_texts.values() for _, field, _, _ in string.Formatter().parse(text) if field}
    missing = sorted(fields - set(facts))
    if missing:
        raise ParameterError(
            f"The text of the figure {name} contains {{{missing[0]}}}, which has no value; pass {missing[0]}=…."
        )
    return figure_texts["title"].format(**facts), " ".join(figure_texts["caption"].format(**facts).split())


def as_name(text: str) -> str:
    """Return a text, such as a model's name, as part of a figure's name: ``SD v1.4`` becomes ``sd_v1_4``.

    A name with non-ASCII letters gets a digest at its end, which makes it unique.
    """
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "model"
    return name if text.isascii() else f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"
