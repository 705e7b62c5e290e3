"""Folders on this machine: the project's, that of packaged notebooks, and the cache's."""

from __future__ import annotations

import os
from pathlib import Path

from biaslab.errors import ParameterError

# Environment variable that names the cache's folder.
ROOT_VARIABLE = "BIASLAB_CACHE"
# Environment variable that allows links in data folders to lead out of them.
LINKS_VARIABLE = "BIASLAB_FOLLOW_LINKS"
_FOLDER = ".cache"
# The variable and the folder of versions before 0.1, whose purchases must not be repeated.
_OLD_VARIABLE, _OLD_FOLDER = "BIASLAB_STORE", ".store"


def project_root(start: Path | None = None) -> Path:
    """Return the folder, at or above ``start`` (the working folder), that contains ``notebooks`` and ``params``.

    The fallback is ``start`` itself, so that a notebook also works alone in a folder.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    return start


def packaged_root() -> Path:
    """Return the folder of the package's ``notebooks`` and ``params``: in the package, or around it in a checkout."""
    package = Path(__file__).parents[1]
    # Created when a wheel is built.
    return project if (project := package / "project").is_dir() else package.parent


def default_root() -> Path:
    """Return the cache's folder: ``$BIASLAB_CACHE``, else ``outputs/.cache`` of the project.

    Raises:
        ParameterError: Only the variable or the folder of earlier versions exists, and paid images would be ignored.
    """
    if root := os.environ.get(ROOT_VARIABLE, ""):
        return Path(root).expanduser()
    if old_root := os.environ.get(_OLD_VARIABLE, ""):
        raise ParameterError(
            f"The environment variable {_OLD_VARIABLE} is now called {ROOT_VARIABLE}. Set {ROOT_VARIABLE}={old_root}, "
            "so that nothing is bought or computed again."
        )
    outputs = project_root() / "outputs"
    folder, earlier = outputs / _FOLDER, outputs / _OLD_FOLDER
    if earlier.is_dir() and not folder.exists():
        raise ParameterError(
            f"The folder of the cache is now {folder}, but the earlier folder {earlier} exists. Rename the earlier "
            f"folder (mv {earlier} {folder}), so that nothing is bought or computed again."
        )
    return folder
