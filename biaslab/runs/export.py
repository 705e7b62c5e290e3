"""A run as one file: what a colleague needs to read it, and no path or key of the machine that made it."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

from biaslab.ground import secrets, shared
from biaslab.ground.errors import ParameterError, RunError
from biaslab.ground.places import default_root, project_root
from biaslab.keep.store import check_target, explaining, temporary_of
from biaslab.report import records
from biaslab.runs import bundle
from biaslab.runs.compare import find, record_of
from biaslab.runs.gather import PICTURES
from biaslab.study import sources

# What a run leaves for readers; its parts, stages and images stay behind.
FILES = ("index.html", "run.json", "params.yaml")
FOLDERS = ("notebooks", "tables", "figures", PICTURES, sources.MEASURED)
# The same run gives the same bytes, whenever it is packed.
_TIME = (1980, 1, 1, 0, 0, 0)
_READ_ME = """This is a report of biaslab, an audit of text-to-image models for social bias.

Open index.html in a browser: it needs no network and nothing installed.
tables/ and measured/ hold the numbers as CSV, figures/ the pictures, notebooks/ what was computed, and how.
"""


def export(
    run: str | Path,
    *,
    outputs: str | Path = "outputs",
    to: str | Path | None = None,
    as_bundle: bool = False,
    everything: bool = False,
    overrides: Sequence[str] = (),
) -> Path:
    """Write one zip file with what a run's record names and a reader needs, and return its path.

    ``run`` is a folder, or a name below ``outputs``; the file is by default ``<run>.zip`` there, and replaces an
    earlier export. ``as_bundle`` leaves pages out and puts in what repeats the run (:mod:`biaslab.runs.bundle`), by
    default into ``<run>-bundle.zip``, with ``everything`` also what may be others'; ``overrides`` are parameters of
    the run to replace, as its own name no folders.

    Raises:
        ParameterError: There is no such run, or something else has the file's name; as a bundle, see there.
        RunError: The run's record cannot be read, a table is not the one that the run left, a file names a folder of
            a machine or holds a key of the environment, or the disk is full.
    """
    folder = find(run, Path(outputs))
    record = record_of(folder, comparisons=True)
    if not as_bundle and (everything or overrides):
        raise ParameterError("--all and --set are of a bundle; add --bundle.")
    names = _named(record, folder)
    more = [("README.txt", _READ_ME.encode())]
    if as_bundle:
        names = [name for name in names if name == records.FILE or name.startswith(f"{sources.MEASURED}/")]
        more = bundle.contents(folder, record, everything=everything, overrides=overrides)
    stem = f"{folder.name}-bundle" if as_bundle else folder.name
    target = Path(to) if to else Path(outputs) / f"{stem}.zip"
    check_target(target, _is_export, "export", "--to")
    part = temporary_of(target)
    with explaining(target, "The run is as it was: {fix}, or name another place with --to, and export it again."):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
                roots = folder, folder.parent, Path(outputs).absolute(), project_root(), project_root(folder)
                private = shared.telling(*roots, default_root().absolute())
                sums, keys = {}, secrets.held(record.get("parameters"))
                # What is there is checked before what takes long.
                for name, data in chain(((name, (folder / name).read_bytes()) for name in names), more):
                    # Images are made anew from their pixels.
                    if not (name.startswith(f"{bundle.PICTURES}/") and name.endswith(".png")):
                        _check(name, data, private, keys)
                    packed.writestr(_entry(f"{stem}/{name}"), data)
                    sums[name] = hashlib.sha256(data).hexdigest()
                if as_bundle:
                    text = json.dumps(bundle.manifest(sums), indent=1)
                    packed.writestr(_entry(f"{stem}/{bundle.MANIFEST}"), text)
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    return target


def _is_export(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            small = (entry for entry in packed.infolist() if entry.file_size < 20_000)
            texts = (packed.read(entry) for entry in small if entry.filename.endswith("/README.txt"))
            return any(text.startswith((_READ_ME.encode(), bundle.READ_ME.encode())) for text in texts)
    # Not only what is no zip: what is one may be damaged in many ways.
    except Exception:
        return False


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _named(record: Mapping, folder: Path) -> list[str]:
    """Return the files that a record names, within a run's folders on any system; a link may lead anywhere."""
    entries = [*record.get("notebooks", []), *record.get("tables", [])]
    named = (entry.get(k) for entry in entries for k in ("notebook", "html", "file"))
    names = set(FILES)
    for name in (name for name in (*record.get("files", {}), *named) if isinstance(name, str)):
        parts = PurePosixPath(name).parts
        if parts and parts[0] in FOLDERS and not any(part.startswith(".") or "\\" in part for part in parts):
            names.add(name)
    paths = ((name, folder / name) for name in sorted(names))
    return [n for n, p in paths if p.is_file() and not p.is_symlink() and p.resolve().is_relative_to(folder)]


def _check(name: str, data: bytes, folders: Sequence[str], keys: Mapping[str, str]) -> None:
    """Refuse to send what names a folder or holds a key: a run's own texts do not, what notebooks write may."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    # Of pictures it is the letters among their bytes.
    text, is_text = data.decode("utf-16" if wide else "utf-8", errors="replace"), wide or b"\0" not in data
    for key, variable in keys.items():
        if secrets.is_in(text, key):
            raise RunError(
                f"{name} holds the key in the environment variable {variable}. Take it out of what its notebook "
                "shows or saves, and run that with --again."
            )
    if found := shared.named_in(text, folders, elsewhere=is_text):
        raise RunError(
            f"{name} names {found}, a folder of a machine. Let its notebook show and save names without folders, "
            "such as biaslab.ground.shared.named gives, and run it with --again."
        )
