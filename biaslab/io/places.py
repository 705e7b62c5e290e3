"""Where things are on this machine: the project's folder, what comes with the package, and the store's."""

from __future__ import annotations

import os
from pathlib import Path

# Environment variable that names the store's folder.
ROOT_VARIABLE = "BIASLAB_CACHE"


def project_root(start: Path | None = None) -> Path:
    """Return the folder, at or above ``start`` (the working folder), that holds ``notebooks`` and ``params``.

    Falls back to ``start`` itself, so that a notebook also works alone in a folder.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    return start


def packaged() -> Path:
    """Return the folder of the ``notebooks`` and ``params`` that come with the package: in it, or around a checkout."""
    package = Path(__file__).parents[1]
    # Put there as a wheel is built.
    return project if (project := package / "project").is_dir() else package.parent


def default_root() -> Path:
    """Return the store's folder: ``$BIASLAB_CACHE``, else ``outputs/.store`` of the project."""
    named = os.environ.get(ROOT_VARIABLE, "")
    return Path(named).expanduser() if named else project_root() / "outputs" / ".store"
