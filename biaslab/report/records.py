"""The record of a run, ``run.json``, read and checked for all commands."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from biaslab.errors import InputError, RunError
from biaslab.io import reading

FILE = "run.json"
"""Name of the record in a run's folder."""
# The types of its fields, and of the fields of entries in its lists.
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
    folder: Path, *, needs: Mapping[str, Collection[str]] = _NEEDS, fix: str = "Start the run again with --overwrite."
) -> dict[str, Any]:
    """Return the contents of the ``run.json`` in a folder.

    Args:
        folder: The folder of a run, or of a comparison.
        needs: The required fields, and for lists, the required fields of each entry.
        fix: Advice for a record that cannot be used, in a sentence.

    Raises:
        RunError: The record cannot be read, is empty or truncated, or has a missing or invalid field.
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
        raise RunError(f"{path} is {'incomplete, or not JSON' if text.strip() else 'empty'}. {fix}") from None
    problem = _find_misfit(record, _KINDS, needs)
    for name, kinds in _ENTRIES.items() if not problem else ():
        misfits = (_find_misfit(entry, kinds, needs.get(name, ())) for entry in record.get(name, ()))
        problem = problem or next((f"in {name}, {misfit}" for misfit in misfits if misfit), "")
    if problem:
        raise RunError(f"{path} is not the record of a run: {problem}. {fix}")
    return record


def _find_misfit(values: Any, kinds: Mapping[str, type], needs: Collection[str]) -> str:
    """Return a description of the first missing or invalid field of a mapping; empty if there is none."""
    if not isinstance(values, dict):
        return f"a {type(values).__name__} replaces a mapping"
    if missing := [name for name in needs if name not in values]:
        return f"{missing[0]!r} is missing"
    wrong_names = [name for name, kind in kinds.items() if name in values and not isinstance(values[name], kind)]
    return f"{wrong_names[0]!r} is {values[wrong_names[0]]!r:.40}" if wrong_names else ""
