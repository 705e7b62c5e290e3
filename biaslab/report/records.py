"""The record of a run, ``run.json``, as every command reads it: of its kind, or named as what it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from biaslab.errors import InputError, RunError
from biaslab.io import reading

FILE = "run.json"
"""Its name in a run's folder."""
# The kinds of what it holds, and of what the entries of its lists hold.
_KINDS = {
    **dict.fromkeys(("run", "title", "description", "status", "kind", "started", "ended"), str),
    **dict.fromkeys(("parameters", "sweep", "seeds", "inputs", "notebook_defaults", "files"), dict),
    **dict.fromkeys(("biaslab", "packages", "platform", "commits", "verdicts", "pictures"), dict),
    **dict.fromkeys(("notebooks", "tables", "findings", "figures", "limits"), list),
}
_ENTRIES = {
    "notebooks": {
        **dict.fromkeys(("id", "slug", "suffix", "variant", "status", "reason", "fingerprint"), str),
        **dict.fromkeys(("values", "files"), dict),
    },
    "tables": {"name": str, "file": str},
    "findings": {"question": str, "answer": str},
    "figures": {},
}
_NEEDS = {"run": ()}


def read(
    folder: Path, *, needs: Mapping[str, Collection[str]] = _NEEDS, fix: str = "Start that run again with --overwrite."
) -> dict[str, Any]:
    """Return what the ``run.json`` of a folder holds.

    Args:
        folder: That of a run, or of a comparison.
        needs: What it must have, and for lists, what each of their entries must have.
        fix: What to do about a record that cannot be used, in a sentence.

    Raises:
        RunError: It cannot be read, is empty or cut off, or holds something else than a record does.
    """
    path = folder / FILE
    try:
        text = reading.text(path)
    except InputError as error:
        raise RunError(f"{error} {fix}") from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}. {fix}") from None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise RunError(f"{path} is {'cut off, or no JSON' if text.strip() else 'empty'}. {fix}") from None
    problem = _find_misfit(record, _KINDS, needs)
    for name, kinds in _ENTRIES.items() if not problem else ():
        misfits = (_find_misfit(entry, kinds, needs.get(name, ())) for entry in record.get(name, ()))
        problem = problem or next((f"in {name}, {misfit}" for misfit in misfits if misfit), "")
    if problem:
        raise RunError(f"{path} is not the record of a run: {problem}. {fix}")
    return record


def _find_misfit(values: Any, kinds: Mapping[str, type], needs: Collection[str]) -> str:
    """Return what is missing in a mapping, or of another kind; empty where nothing is."""
    if not isinstance(values, dict):
        return f"there is a {type(values).__name__} in place of a mapping"
    if missing := [name for name in needs if name not in values]:
        return f"there is no {missing[0]!r}"
    wrong_names = [name for name, kind in kinds.items() if name in values and not isinstance(values[name], kind)]
    return f"{wrong_names[0]!r} is {values[wrong_names[0]]!r:.40}" if wrong_names else ""
