"""A run as one zip file: all that a reader needs, without paths or keys of the machine that created it."""

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

# The files of a run for readers, and the folders and files whose entries its record names; its parts, stages and images
# are not exported.
FILES = ("index.html", "run.json", "params.yaml")
NAMED = ("notebooks", "tables", "figures", IMAGE_PAGES, sources.MEASURED, PROMPTS, IMAGES)
# A constant time, so that exports of one run are identical.
_TIME = (1980, 1, 1, 0, 0, 0)
_TITLE = "This is a report of biaslab, an audit of text-to-image models for social bias."
_READ_ME = f"""{_TITLE}

Open index.html in a browser: it needs no network and nothing installed.
tables/ and measured/ contain the numbers as CSV, figures/ the figures, and notebooks/ the computations.
If images were generated, {PROMPTS} lists the prompts, and {IMAGES} lists each image with its seed. run.json contains
the commits of models.

To repeat the run and compute its tables from measured/, without a model (FOLDER is this folder):

    biaslab run FOLDER/params.yaml --set source=FOLDER --set model=all --set 'settings={{}}'

To generate and judge the images again (with --set model=MODEL, those of another model):

    biaslab run FOLDER/params.yaml --set run=NAME

params.yaml contains no paths of the machine of the run; set your own with --set, such as
custom.prompts_file=FOLDER/{PROMPTS}.
"""


def export(
    run: str | Path,
    *,
    outputs: str | Path = "outputs",
    output: str | Path | None = None,
) -> Path:
    """Write one zip file with the files that a reader needs and that repeat the run, and return its path.

    ``run`` is a folder, or a name below ``outputs``; ``output``, by default ``<run>.zip`` there, replaces an
    earlier export.

    Raises:
        ParameterError: The run does not exist, or the target is not an export.
        RunError: The run's record cannot be read, a table has changed since the run ended, a file names a folder of
            a machine or contains a key of the environment, or the disk is full.
    """
    folder = find_run(run, Path(outputs))
    record = make_record(folder, comparisons=True)
    target = Path(output) if output else Path(outputs) / f"{folder.name}.zip"
    check_target(target, _is_export, "an export", "--output")
    part = temporary_path(target)
    with explain_errors(
        target, "The run is unchanged. To continue, {fix}, or choose another file with --output, and export it again."
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
                roots = folder, folder.parent, Path(outputs).absolute(), project_root(), project_root(folder)
                private = redact.find_folders(None, *roots, default_root().absolute())
                keys = redact.find_keys(record.get("parameters"))
                for name in _find_files(record, folder):
                    _check_private(name, data := (folder / name).read_bytes(), private, keys)
                    archive.writestr(_entry(f"{folder.name}/{name}"), data)
                archive.writestr(_entry(f"{folder.name}/README.txt"), _READ_ME)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    return target


def _is_export(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            small = (entry for entry in archive.infolist() if entry.file_size < 20_000)
            texts = (archive.read(entry) for entry in small if entry.filename.endswith("/README.txt"))
            return any(text.startswith(_TITLE.encode()) for text in texts)
    # A damaged zip file can raise many kinds of errors.
    except Exception:
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _find_files(record: Mapping, folder: Path) -> list[str]:
    """Return the files of a record to export, with paths that are valid on any system; links are left out."""
    entries = [*record.get("notebooks", []), *record.get("tables", [])]
    entry_names = (entry.get(k) for entry in entries for k in ("notebook", "html", "file"))
    names = set(FILES)
    for name in (name for name in (*record.get("files", {}), *entry_names) if isinstance(name, str)):
        parts = PurePosixPath(name).parts
        if parts and parts[0] in NAMED and not any(part.startswith(".") or "\\" in part for part in parts):
            names.add(name)
    paths = ((name, folder / name) for name in sorted(names))
    return [n for n, p in paths if p.is_file() and not p.is_symlink() and p.resolve().is_relative_to(folder)]


def _check_private(name: str, data: bytes, folders: Iterable[str], keys: Mapping[str, str]) -> None:
    """Raise RunError if a file names a private folder or contains a key, as the output of notebooks may."""
    for key, variable in keys.items():
        if _contains(data, key):
            raise RunError(
                f"{name} contains the key in the environment variable {variable}. Remove the key from what the "
                "notebook displays or saves, and run the notebook with --force."
            )
    if private_folder := max((folder for folder in folders if _contains(data, folder)), key=len, default=""):
        raise RunError(
            f"{name} contains {private_folder}, a folder of this machine. Change the notebook so that it displays and "
            "saves names without folders, for example with biaslab.redact.basename, and run it with --force."
        )


def _contains(data: bytes, text: str) -> bool:
    """Return whether data contain a text, unchanged or as HTML, JSON and URLs encode it."""
    forms = {text, html.escape(text), json.dumps(text)[1:-1], quote(text)}
    return any(form.encode() in data for form in forms)
