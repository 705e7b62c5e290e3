"""Compare the CSV tables of two runs with the committed ones, or commit new ones.

    python tests/golden/golden.py                          compare; exit status 1 where anything differs
    python tests/golden/golden.py --update                 commit today's tables, computed from the committed inputs
    python tests/golden/golden.py --update --inputs RUN    the same, from the measured tables of the run in folder RUN

Two runs are compared: ``published`` (``params/published.yaml``; tables and measured tables) and ``mini``
(``world/params/mini.yaml``; tables only). The source of ``mini`` is not its model here but a committed set of its
measured tables, so that no network runs: what differs is a difference of the analysis code.

``tables.tar.xz`` holds the inputs and the expected tables; ``digests.txt`` the SHA-256 of each, so that a commit shows
which of them changed. A table whose bytes have the committed digest is equal. Any other is compared cell by cell, with
rows matched by the identity columns of its declaration, in any order of rows and columns. Texts and whole numbers are
equal where they are the same. Other numbers are equal within 1e-8 of their size or 1e-10: tables have 10 significant
digits, of which the last can change with the processor, and a digest of rounded numbers would differ at each tie.

``renames.yaml`` lists intended differences (see there).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
import yaml

from biaslab.schema import tables

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The runs, by folder: published is the report's own, so that what `make report` computed is not computed again.
RUNS = {"published": ROOT / "outputs/published", "mini": ROOT / "outputs/.golden/mini"}
INPUTS = ROOT / "outputs/.golden/inputs"
# Notebooks of mini that cannot be computed from tables, with the reason.
LEFT_OUT = {
    "synthesis/calibration": "it judges images by the world and at each guidance scale (calibration_*, mini_quality)",
    "paradox/a_4_rating": "it draws a sample of judged images (ratings_agreement, calibration_* of the paradox)",
}
RELATIVE, ABSOLUTE = 1e-8, 1e-10
# Differing cells that are shown of each table.
SHOWN = 5
# Of ``renames.yaml``: no table begins with these names.
DROPPED, RENAMED_TABLES, EVERY = "dropped", "tables", "every"
_NO_RENAMES = """\
# What differs from the committed tables on purpose. `golden.py --update` empties this file.
#   dropped: {mini/paradox_old: why}     tables that are no longer written, by run and name, or by name for both
#   tables: {old_name: new_name}         tables
#   new_name:                            of one table, by its new name; `every:` is of all tables
#     old_column: new_column             columns; `null` is a column that is no longer written
#     column: {old_value: new_value}     values of a column, by its new name
"""


def rename(name: str, frame: pd.DataFrame, renames: Mapping) -> tuple[str, pd.DataFrame]:
    """Return a committed table under today's names: its own, its columns', and values that were renamed.

    Args:
        name: Name of the table when it was committed.
        frame: Its cells as texts.
        renames: What ``renames.yaml`` holds.
    """
    name = renames.get(RENAMED_TABLES, {}).get(name, name)
    entries = renames.get(EVERY, {}) | renames.get(name, {})
    dropped_columns = [column for column, new in entries.items() if new is None and column in frame]
    frame = frame.drop(columns=dropped_columns).rename(
        columns={old: new for old, new in entries.items() if isinstance(new, str)}
    )
    for column, new in entries.items():
        if isinstance(new, Mapping) and column in frame:
            # YAML reads some texts as numbers.
            frame = frame.assign(**{column: frame[column].replace({str(o): str(n) for o, n in new.items()})})
    return name, frame


def differences(name: str, old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Return how a table differs from the committed one, a line per column, row or cell; empty where they are equal.

    Args:
        name: Name of the table, whose declared identity columns match rows; without these, rows match by position.
        old: The committed table under today's names, with cells as texts.
        new: Today's table, with cells as texts.
    """
    lines = [f"column {column}: no longer written" for column in old.columns.difference(new.columns, sort=False)]
    keys = [key for key in tables.schema(name).keys if key in old and key in new]
    rows = _by_key(old, keys), _by_key(new, keys)
    shared = rows[0].index.intersection(rows[1].index)
    for frame, what in zip(rows, ("no longer written", "new"), strict=True):
        lines += [f"row {_words(keys, key)}: {what}" for key in frame.index.difference(shared, sort=False)]
    for column in (c for c in old.columns if c in new and c not in keys):
        pairs = zip(shared, rows[0].loc[shared, column], rows[1].loc[shared, column], strict=True)
        lines += [f"{column} of {_words(keys, k)}: {a!r} -> {b!r}" for k, a, b in pairs if not equal(a, b)]
    return lines


def equal(old: str, new: str) -> bool:
    """Return whether two cells are the same text, or numbers with a fraction that differ by less than the tolerance."""
    if old == new:
        return True
    try:
        if old.lstrip("-").isdigit() and new.lstrip("-").isdigit():
            return False
        return math.isclose(float(old), float(new), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except ValueError:
        return False


def _by_key(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return rows indexed by their identity and, where several have one, by their place among these."""
    groups = frame.groupby(keys, sort=False) if keys else None
    place = groups.cumcount() if groups is not None else range(len(frame))
    names = list(zip(*(frame[key] for key in keys), place, strict=True))
    return frame.set_index(pd.Index(names, tupleize_cols=False))


def _words(keys: list[str], key: tuple) -> str:
    *values, place = key
    return ", ".join(f"{k}={v}" for k, v in zip(keys, values, strict=True)) or f"row {place + 1}"


def compare(committed: Mapping[str, bytes], today: Mapping[str, bytes], renames: Mapping) -> dict[str, list[str]]:
    """Return the tables that differ from committed ones, each with its differences.

    Tables that are new are not compared.

    Args:
        committed: The bytes of CSV files by ``run/folder/table``.
        today: The same.
        renames: What ``renames.yaml`` holds.
    """
    changes = {}
    for path, content in committed.items():
        folder, _, name = path.rpartition("/")
        old = _frame(content)
        new_name, frame = rename(name, old, renames)
        new_path = f"{folder}/{new_name}"
        if new_path not in today:
            if not {name, f"{folder.partition('/')[0]}/{name}"} & renames.get(DROPPED, {}).keys():
                changes[path] = ["no longer written, and not among the dropped tables of renames.yaml"]
        elif _digest(content) != _digest(today[new_path]) or not frame.equals(old):
            changes[new_path] = differences(new_name, frame, _frame(today[new_path]))
    return {path: lines for path, lines in changes.items() if lines}


def _frame(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into ``tables.tar.xz``, with the same bytes whenever these are the same, and ``digests.txt``."""
    with tarfile.open(folder / "tables.tar.xz", "w:xz", preset=9) as archive:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{path}.csv")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    lines = (f"{_digest(content)}  {path}\n" for path, content in sorted(files.items()))
    (folder / "digests.txt").write_text("".join(lines), encoding="utf-8")


def unpack(folder: Path) -> dict[str, bytes]:
    """Return the files that :func:`pack` wrote; a ValueError where they have other digests than those committed."""
    with tarfile.open(folder / "tables.tar.xz") as archive:
        files = {m.name.removesuffix(".csv"): archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
    lines = (folder / "digests.txt").read_text(encoding="utf-8").splitlines()
    if {path: _digest(content) for path, content in files.items()} != {p: d for d, p in map(str.split, lines)}:
        raise ValueError(f"{folder}: tables.tar.xz and digests.txt are not of one update.")
    return files


def _read(folder: Path, kinds: Iterable[str]) -> dict[str, bytes]:
    """Return the CSV files in some folders of a run, by ``run/kind/table``."""
    paths = (path for kind in kinds for path in sorted((folder / kind).glob("*.csv")))
    return {f"{folder.name}/{path.parent.name}/{path.stem}": path.read_bytes() for path in paths}


def execute(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    """Execute both runs, ``mini`` from measured tables, and return the tables of both.

    What has not changed since the last time is not executed again. SystemExit: A run failed, or the skipped notebooks
    are not those of :data:`LEFT_OUT`.
    """
    INPUTS.mkdir(parents=True, exist_ok=True)
    for path in INPUTS.iterdir():
        path.unlink()
    for name, content in inputs.items():
        (INPUTS / f"{name}.csv").write_bytes(content)
    # A folder of tables takes no settings of a pipeline.
    tables_only = ["--set", f"source={INPUTS.relative_to(ROOT)}", "--set", "settings={}"]
    for file, values, run in (
        ("params/published.yaml", [], RUNS["published"]),
        ("world/params/mini.yaml", tables_only, RUNS["mini"]),
    ):
        words = [file, *values, "--outputs", str(run.parent), "--overwrite", "--no-progress"]
        if subprocess.run([sys.executable, "-m", "biaslab.cli", "run", *words], cwd=ROOT).returncode:
            sys.exit(f"{file} did not finish, as is said above, so nothing is compared.")
    record = json.loads((RUNS["mini"] / "run.json").read_text(encoding="utf-8"))
    skipped = {n["id"]: n["reason"] for n in record["notebooks"] if n["status"] != "ok"}
    if skipped.keys() != LEFT_OUT.keys():
        sys.exit(f"Nothing is compared. Skipped notebooks: {skipped}. Expected: {LEFT_OUT}.")
    return _read(RUNS["published"], ("tables", "measured")) | _read(RUNS["mini"], ("tables",))


def main(arguments: list[str] | None = None) -> int:
    """Compare or update, depending on the arguments; return 1 if tables differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="commit today's tables in place of the committed ones")
    parser.add_argument("--inputs", type=Path, metavar="RUN", help="with --update: take the inputs from this run")
    args = parser.parse_args(arguments)
    renames = yaml.safe_load((HERE / "renames.yaml").read_text(encoding="utf-8")) or {}
    committed = unpack(HERE) if (HERE / "digests.txt").exists() else {}
    input_files = {path: committed.pop(path) for path in list(committed) if path.startswith("inputs/")}
    inputs = {}
    for path, content in input_files.items():
        name, frame = rename(path.removeprefix("inputs/"), old := _frame(content), renames)
        inputs[name] = content if frame.equals(old) else frame.to_csv(index=False, lineterminator="\n").encode()
    if args.inputs:
        inputs = {path.rpartition("/")[2]: content for path, content in _read(args.inputs, ("measured",)).items()}
    today = execute(inputs)
    differ = compare(committed, today, renames)
    for path, lines in differ.items():
        print(f"{path} differs:", *lines[:SHOWN], sep="\n  ")
        print(f"  … {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else "")
    print(f"{len(committed)} tables compared with the committed ones: {len(differ)} differ.")
    if args.update:
        pack(today | {f"inputs/{name}": content for name, content in inputs.items()}, HERE)
        (HERE / "renames.yaml").write_text(_NO_RENAMES, encoding="utf-8")
        return 0
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
