"""A run as one file: what a colleague needs to read it, and no path of the machine that made it."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

from biaslab import sources
from biaslab.compare import find, record_of
from biaslab.errors import RunError
from biaslab.places import project_root
from biaslab.store import check_target, telling_full_disk

# What a run leaves for readers; its parts, stages and images stay behind.
FILES = ("index.html", "run.json", "params.yaml")
FOLDERS = ("notebooks", "tables", "figures", sources.MEASURED)
_TEXTS = {".html", ".json", ".ipynb", ".csv", ".svg", ".yaml"}
# The same run gives the same bytes, whenever it is packed.
_TIME = (1980, 1, 1, 0, 0, 0)
_READ_ME = """This is a report of biaslab, an audit of text-to-image models for social bias.

Open index.html in a browser: it needs no network and nothing installed.
tables/ and measured/ hold the numbers as CSV, figures/ the pictures, notebooks/ what was computed, and how.
"""


def export(run: str | Path, *, outputs: str | Path = "outputs", to: str | Path | None = None) -> Path:
    """Write one zip file with everything of a run that a reader needs, and return its path.

    ``run`` is a folder, or a name below ``outputs``; the file is by default ``<run>.zip`` there. An earlier one is
    replaced once the new one is whole, and nothing else.

    Raises:
        ParameterError: There is no such run, or something else has the file's name.
        RunError: A table is not the one that the run left, a file names a folder of this machine, or the disk is full.
    """
    folder = find(run, Path(outputs))
    record_of(folder, comparisons=True)
    files = [folder / name for name in FILES if (folder / name).is_file()]
    files += [path for name in FOLDERS for path in sorted((folder / name).rglob("*")) if path.is_file()]
    # A link may lead anywhere.
    files = [path for path in files if not path.is_symlink() and path.resolve().is_relative_to(folder)]
    _check(files, folder)
    target = Path(to) if to else Path(outputs) / f"{folder.name}.zip"
    check_target(target, _is_export, "export", "--to")
    part = target.with_name(f"{target.name}.part")
    with telling_full_disk(target, "The run is as it was: free some space and export it again."):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
                packed.writestr(_entry(f"{folder.name}/README.txt"), _READ_ME)
                for path in files:
                    name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                    packed.writestr(_entry(name), path.read_bytes())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    return target


def _is_export(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            names = [name for name in packed.namelist() if name.endswith("/README.txt")]
            return any(
                packed.read(name) == _READ_ME.encode()
                for name in names
                if packed.getinfo(name).file_size < 2000
            )
    # Not only what is no zip: what is one may be damaged in many ways.
    except Exception:
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _check(files: list[Path], folder: Path) -> None:
    """Refuse to send what names a folder of this machine: reports leave them out, files put there later may not."""
    own = {str(Path.home()), str(project_root()), str(folder.parent)} - {"/"}
    pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(name)}(?=[/\"'\s<\\]|$)" for name in sorted(own)))
    for path in (path for path in files if path.suffix in _TEXTS):
        if found := pattern.search(path.read_text(encoding="utf-8", errors="replace")):
            raise RunError(
                f"{path.relative_to(folder).as_posix()} names {found[0]}, a folder of this machine. Take the file out, "
                "or run its notebook again: reports name files without their folders."
            )
