"""A run as one file: what a colleague needs to read it, and no path or key of the machine that made it."""

from __future__ import annotations

import html
import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from biaslab import redact
from biaslab.cache.result_cache import check_target, explain_errors, temporary_path
from biaslab.errors import RunError
from biaslab.io.places import default_root, project_root
from biaslab.runs.collect import IMAGE_PAGES, IMAGES, PROMPTS
from biaslab.runs.compare import find_run, make_record
from biaslab.study import sources

# What a run leaves for readers, and what its record names in these; its parts, stages and images stay behind.
FILES = ("index.html", "run.json", "params.yaml")
NAMED = ("notebooks", "tables", "figures", IMAGE_PAGES, sources.MEASURED, PROMPTS, IMAGES)
# The same run gives the same bytes, whenever it is packed.
_TIME = (1980, 1, 1, 0, 0, 0)
_TITLE = "This is a report of biaslab, an audit of text-to-image models for social bias."
_READ_ME = f"""{_TITLE}

Open index.html in a browser: it needs no network and nothing installed.
tables/ and measured/ contain the numbers as CSV, figures/ the figures, notebooks/ the computations.
If images were generated, {PROMPTS} lists the prompts and {IMAGES} each image with its seed; run.json has the commits.

To repeat the run (FOLDER is this folder), computing its tables from measured/ without a model:

    biaslab run FOLDER/params.yaml --set source=FOLDER --set model=all --set 'settings={{}}'

To generate and judge the images again, or those of another model with --set model=MODEL:

    biaslab run FOLDER/params.yaml --set run=NAME

It contains no file or folder names of the run's machine; name yours with --set, such as
custom.prompts_file=FOLDER/{PROMPTS}.
"""


def export(
    run: str | Path,
    *,
    outputs: str | Path = "outputs",
    output: str | Path | None = None,
) -> Path:
    """Write one zip file with what a run's record names, a reader needs and repeats the run, and return its path.

    ``run`` is a folder, or a name below ``outputs``; ``output``, by default ``<run>.zip`` there, replaces an
    earlier export.

    Raises:
        ParameterError: There is no such run, or something else has the file's name.
        RunError: The run's record cannot be read, a table is not the one that the run left, a file names a folder of
            a machine or holds a key of the environment, or the disk is full.
    """
    folder = find_run(run, Path(outputs))
    record = make_record(folder, comparisons=True)
    target = Path(output) if output else Path(outputs) / f"{folder.name}.zip"
    check_target(target, _is_export, "export", "--output")
    part = temporary_path(target)
    with explain_errors(
        target, "The run is as it was: {fix}, or name another file with --output, and export it again."
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
                roots = folder, folder.parent, Path(outputs).absolute(), project_root(), project_root(folder)
                private = redact.find_folders(None, *roots, default_root().absolute())
                keys = redact.find_keys(record.get("parameters"))
                for name in _named(record, folder):
                    _check(name, data := (folder / name).read_bytes(), private, keys)
                    packed.writestr(_entry(f"{folder.name}/{name}"), data)
                packed.writestr(_entry(f"{folder.name}/README.txt"), _READ_ME)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    return target


def _is_export(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            small = (entry for entry in packed.infolist() if entry.file_size < 20_000)
            texts = (packed.read(entry) for entry in small if entry.filename.endswith("/README.txt"))
            return any(text.startswith(_TITLE.encode()) for text in texts)
    # Not only what is no zip: what is one may be damaged in many ways.
    except Exception:
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _named(record: Mapping, folder: Path) -> list[str]:
    """Return the files that a record names, of those that are sent, on any system; a link may lead anywhere."""
    entries = [*record.get("notebooks", []), *record.get("tables", [])]
    named = (entry.get(k) for entry in entries for k in ("notebook", "html", "file"))
    names = set(FILES)
    for name in (name for name in (*record.get("files", {}), *named) if isinstance(name, str)):
        parts = PurePosixPath(name).parts
        if parts and parts[0] in NAMED and not any(part.startswith(".") or "\\" in part for part in parts):
            names.add(name)
    paths = ((name, folder / name) for name in sorted(names))
    return [n for n, p in paths if p.is_file() and not p.is_symlink() and p.resolve().is_relative_to(folder)]


def _check(name: str, data: bytes, folders: Iterable[str], keys: Mapping[str, str]) -> None:
    """Refuse to send what names a folder or holds a key: a run's own texts do not, what notebooks write may."""
    for key, variable in keys.items():
        if _holds(data, key):
            raise RunError(
                f"{name} holds the key in the environment variable {variable}. Take it out of what its notebook "
                "shows or saves, and run that with --force."
            )
    if found := max((folder for folder in folders if _holds(data, folder)), key=len, default=""):
        raise RunError(
            f"{name} names {found}, a folder of this machine. Let its notebook show and save names without folders, "
            "such as biaslab.redact.basename gives, and run it with --force."
        )


def _holds(data: bytes, text: str) -> bool:
    """Return whether data hold a text, as it is or as HTML, JSON and URLs write it."""
    forms = {text, html.escape(text), json.dumps(text)[1:-1], quote(text)}
    return any(form.encode() in data for form in forms)
