"""Read purchases and answers from the journals of an earlier version, which are imported and never changed.

A line has 16 hex digits of a SHA-256, a space, and JSON. Lines of ``bought.jsonl`` are also numbered.
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
    """Return the journals of purchases and answers in a cache, and the unprocessed replies."""
    patterns = ("*/*/answers.jsonl", "*/*/bought.jsonl", "*/*/replies/*.json")
    return [path for pattern in patterns for path in sorted(cache.glob(pattern))]


def rows(cache: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row's kind (``answers``, ``charges``, ``images`` or ``replies``) and values by name, in order.

    Raises RunError: A line is damaged or missing.
    """
    for path in files(cache):
        folder = "/".join(path.relative_to(cache).parts[:2])
        if path.name == "answers.jsonl":
            for record in _read_records(path):
                yield "answers", {"folder": folder, "question": record.pop("question"), "answer": json.dumps(record)}
        elif path.name == "bought.jsonl":
            for record in _read_records(path):
                event, place = record.pop("event"), {"folder": folder, "key": record.pop("image")}
                if event == "kept":
                    yield "images", {**place, **record.pop("bought"), "asked": json.dumps(record)}
                else:
                    yield "charges", {**place, "cost": record["cost"], "time": record["time"]}
        else:
            # An incomplete reply, left by a power cut, is requested again.
            with contextlib.suppress(ValueError):
                reply = json.loads(path.read_bytes())
                yield "replies", {"folder": folder, "key": path.stem, "reply": json.dumps(reply)}


def _read_records(path: Path) -> Iterator[dict[str, Any]]:
    # A killed process may leave an incomplete last line.
    *lines, last_line = path.read_bytes().split(b"\n")
    for number, line in enumerate([*lines, last_line] if _parse_record(last_line) else lines, start=1):
        record = _parse_record(line)
        if not record or record.pop("line", number) != number:
            raise RunError(
                f"Line {number} of {path} is damaged, so earlier purchases cannot be imported. No request is sent. "
                "Restore a copy of this file, and run again."
            )
        yield record


def _parse_record(line: bytes) -> dict[str, Any]:
    """Return the record in a line; empty if it is damaged."""
    checksum, _, content = line.partition(b" ")
    return json.loads(content) if checksum == hashlib.sha256(content).hexdigest()[:16].encode() else {}
