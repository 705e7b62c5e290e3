"""Purchases and answers in the journals of an earlier version, which are copied into the database and never changed.

A line has 16 hex digits of a SHA-256, a space, and JSON. Lines of ``bought.jsonl`` have numbers, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from biaslab.errors import RunError


def files(cache: Path) -> list[Path]:
    """Return the journals of purchases and answers in a store, and the replies that were not worked up."""
    patterns = ("*/*/answers.jsonl", "*/*/bought.jsonl", "*/*/replies/*.json")
    return [path for pattern in patterns for path in sorted(cache.glob(pattern))]


def rows(cache: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row's kind (``answers``, ``charges``, ``images`` or ``replies``) and values by name, in order.

    Raises RunError: A line is damaged or missing.
    """
    for path in files(cache):
        folder = "/".join(path.relative_to(cache).parts[:2])
        if path.name == "answers.jsonl":
            for record in _records(path):
                yield "answers", {"folder": folder, "question": record.pop("question"), "answer": json.dumps(record)}
        elif path.name == "bought.jsonl":
            for record in _records(path):
                event, place = record.pop("event"), {"folder": folder, "key": record.pop("image")}
                if event == "kept":
                    yield "images", {**place, **record.pop("bought"), "asked": json.dumps(record)}
                else:
                    yield "charges", {**place, "cost": record["cost"], "time": record["time"]}
        else:
            # Half a reply, which a power cut left, is asked for again.
            with contextlib.suppress(ValueError):
                reply = json.loads(path.read_bytes())
                yield "replies", {"folder": folder, "key": path.stem, "reply": json.dumps(reply)}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    # A killed process left half a line at the end.
    *lines, last = path.read_bytes().split(b"\n")
    for number, line in enumerate([*lines, last] if _record(last) else lines, start=1):
        record = _record(line)
        if not record or record.pop("line", number) != number:
            raise RunError(
                f"Line {number} of {path} is damaged, so that what was bought and asked before cannot be imported. "
                "No request is sent. Restore a copy of that file, and run again."
            )
        yield record


def _record(line: bytes) -> dict[str, Any]:
    """Return the record in a line, empty where it is damaged."""
    stated, _, content = line.partition(b" ")
    return json.loads(content) if stated == hashlib.sha256(content).hexdigest()[:16].encode() else {}
