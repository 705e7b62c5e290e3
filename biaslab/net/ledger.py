"""What was paid for images and what came of it: nothing is bought twice, and nothing from a ledger that lies.

Each line of the ledger has a checksum and its own number. What is about to be spent is on disk before a request
leaves; a reply stays on disk until the line that says what became of it is there. Where anything but half a last line
is wrong, nothing is bought until the ledger is rebuilt (:func:`rebuild`, ``biaslab ledger``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

from biaslab.ground.errors import InputError, ParameterError, RunError
from biaslab.keep.journal import ROOM, Journal, line_of, record_of
from biaslab.keep.store import explaining, now, replace
from biaslab.net.endpoint import StoppedError

_log = logging.getLogger(__name__)
OK = "ok"
STAYS = "Images bought before are kept"
BUYING = "buying"
BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"))
"""How pictures begin, and their files' endings."""
# The key of an image, which its files are named by.
_KEY = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Bought:
    """What became of one image."""

    outcome: str
    detail: str = ""
    revised_prompt: str = ""
    request_id: str = ""
    time: str = ""  # When the reply came, UTC.
    ending: str = ""  # Of the picture's file; empty where there is none.
    sha256: str = ""  # Of that file.


class LimitError(Exception):
    """One more request would pass the limit of cost."""


class Ledger:
    """The ledger of one model in a folder: a journal, replies not worked up yet, and pictures.

    Who holds ``journal.turn(BUYING)`` buys, at a ``price`` an image up to a ``limit`` in all.
    """

    def __init__(self, folder: Path, price: float = 0, limit: float = 0) -> None:
        self.folder, self.file = folder, folder / "bought.jsonl"
        self.journal = Journal(self.file, STAYS + ROOM)
        self._price, self._limit = Decimal(str(price)), Decimal(str(limit))
        self._changed = threading.Condition()
        self._under_way = self._lines = 0
        self.done: dict[str, Bought] = {}
        self.spent = Decimal(0)

    def load(self) -> None:
        """Read the journal; RunError where it is damaged."""
        self.done, self.spent, self._lines = {}, Decimal(0), 0
        for number, line in enumerate(self.journal.lines(), start=1):
            entry = _entry(line)
            if entry is None or entry["line"] != number:
                raise self._damaged(f"line {number} is {'damaged' if entry is None else 'not where it was'}")
            self._lines = number
            if entry["event"] == "kept":
                self.done[entry["image"]] = Bought(**entry["bought"])
            else:
                self.spent += Decimal(entry["cost"])

    def check_pictures(self) -> None:
        """Raise RunError where lines are lost, so that the journal does not know a picture; in one's turn only."""
        for key, path in self.pictures():
            if key not in self.done and not self.is_paid(key):
                raise self._damaged(f"it does not know the picture {path.name}")

    def _damaged(self, why: str) -> RunError:
        folder = self.folder
        with contextlib.suppress(ValueError):
            folder = folder.relative_to(Path.cwd())
        return RunError(
            f"The ledger of bought images, {folder / self.file.name}, is damaged: {why}. What was spent and what was "
            "bought is not known, so nothing is bought. Rebuild it from its sound lines and from the pictures and "
            f"answers beside it, which buys nothing: biaslab ledger --rebuild {folder}"
        )

    def has(self, key: str) -> bool:
        """Return whether an image needs no further request; one whose file was taken away needs one."""
        bought = self.done.get(key)
        return bought is not None and (not bought.ending or self.file_of(key, bought.ending).exists())

    def reserve(self, key: str, stopped: Callable[[], bool]) -> None:
        """Write down that a request is about to be sent.

        Raises LimitError: It would pass the limit, and nothing under way may yet turn out to cost nothing.
        """
        with self._changed:
            while self._price and self.spent + self._price > self._limit:
                if not self._under_way:
                    raise LimitError
                self._changed.wait()
            if stopped():
                raise StoppedError
            self._write("sent", key, cost=str(self._price), time=now())
            self._under_way += 1

    def settle(self, key: str, *, charged: bool) -> None:
        """Note that a request has ended; take its price back where nothing was ``charged``."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()
            if not charged:
                self._write("free", key, cost=str(-self._price), time=now())

    def _write(self, event: str, key: str, **more: Any) -> None:
        self.journal.write({"event": event, "image": key, **more, "line": self._lines + 1}, sync=True)
        self._lines += 1
        self.spent += Decimal(more.get("cost", 0))

    def keep(self, key: str, bought: Bought, asked: Mapping[str, Any]) -> None:
        """Write down what became of an image; its picture is there already."""
        with self._changed:
            self._write("kept", key, **asked, bought=asdict(bought))
            self.done[key] = bought
        self.reply_of(key).unlink(missing_ok=True)

    def reply_of(self, key: str) -> Path:
        """Return where a reply is until it is worked up."""
        return self.folder / "replies" / f"{key}.json"

    def file_of(self, key: str, ending: str) -> Path:
        """Return where a picture is, as it came."""
        return self.folder / "images" / key[:2] / f"{key}.{ending}"

    def pictures(self) -> Iterator[tuple[str, Path]]:
        """Yield the image's key of each picture there is, and where it is."""
        for path in sorted(self.folder.glob("images/*/*")):
            # Systems put files of their own beside pictures.
            if _KEY.fullmatch(path.stem) and path.suffix.removeprefix(".") in (e for _, e in BEGINNINGS):
                yield path.stem, path

    def replies(self) -> list[str]:
        """Return the keys of the replies that are still to be worked up."""
        return sorted(p.stem for p in self.folder.glob("replies/*.json") if _KEY.fullmatch(p.stem))

    def is_paid(self, key: str) -> bool:
        """Return whether there is a reply that is still to be worked up."""
        return self.reply_of(key).exists()

    def save_reply(self, key: str, reply: Mapping[str, str]) -> None:
        """Write a reply down before anything is made of it."""
        _save(self.reply_of(key), json.dumps(reply).encode())

    def reply(self, key: str) -> dict[str, str] | None:
        """Return such a reply, or None."""
        with contextlib.suppress(FileNotFoundError):
            try:
                return json.loads(self.reply_of(key).read_bytes())
            except ValueError:
                _log.warning("%s is damaged; its image is asked for again.", self.reply_of(key))
        return None

    def save_picture(self, key: str, ending: str, data: bytes) -> None:
        """Write a picture, before the line that says that it is there."""
        _save(self.file_of(key, ending), data)


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line of the journal says, or None where it is damaged."""
    entry = record_of(line)
    try:
        kept = entry["event"] == "kept"
        sound = Bought(**entry["bought"]).outcome if kept else Decimal(entry["cost"]).is_finite()
        return entry if sound and isinstance(entry["image"], str) and isinstance(entry["line"], int) else None
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None


def summary(folder: str | Path) -> dict[str, Any]:
    """Return what a ledger holds: ``spent``, ``images`` by outcome, and ``replies`` that are still to be worked up.

    Raises InputError: There is no ledger in the folder. RunError: It is damaged.
    """
    found = _located(folder)
    found.load()
    outcomes = Counter(sorted(bought.outcome for bought in found.done.values()))
    listed = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items())
    return {"spent": float(found.spent), "images": listed or "none", "replies": len(found.replies())}


def _located(folder: str | Path) -> Ledger:
    found = Ledger(Path(folder))
    if not found.file.exists() and not any(found.pictures()) and not found.replies():
        raise InputError(f"{folder} holds no ledger of bought images: no bought.jsonl, images or replies.")
    return found


def rebuild(folder: str | Path, *, price: float | None = None) -> dict[str, Any]:
    """Rebuild a damaged ledger of bought images from its sound lines and the pictures and answers beside it.

    Nothing is bought, and nothing that was paid for is counted too low: for each lost line, and each image without a
    sound line about its request, a request is counted at the highest price that is known, or at ``price``. A refusal
    whose line is lost will be asked for again.

    Returns ``lines``: sound ones, which are kept; ``lost``: damaged or missing ones; ``requests`` that were counted in
    their place; ``pictures`` that no line knew and that were entered again; ``spent``: never too little; ``saved``: the
    path of the damaged ledger, None where there was nothing to mend.

    Raises InputError: There is no ledger in the folder. ParameterError: No sound line says what an image cost, and
    ``price`` is not given.
    """
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise ParameterError(f"price is {price!r}; it must be a number from 0.")
    ledger = _located(folder)
    with ledger.journal.turn(BUYING):
        entries, lost = _sound_entries(ledger)
        n = len(entries)
        kept = {e["image"] for e in entries if e["event"] == "kept"}
        sent = {e["image"] for e in entries if e["event"] == "sent"}
        found = {k: path for k, path in ledger.pictures() if k not in kept and not ledger.is_paid(k)}
        unsent = sorted({*kept, *found, *ledger.replies()} - sent)
        requests = [*unsent, *[""] * (lost - len(unsent))]
        costs = [Decimal(e["cost"]) for e in entries if e["event"] == "sent"]
        if requests and not costs and price is None:
            raise ParameterError(
                f"No sound line of {ledger.file} says what an image cost: give the price, as in --price 0.04."
            )
        request = {"event": "sent", "cost": str(max(costs, default=price or 0)), "time": now(), "rebuilt": True}
        entries += [{**request, "image": key} for key in requests]
        for key, path in found.items():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            bought = Bought(OK, ending=path.suffix.removeprefix("."), sha256=digest)
            entries.append({"event": "kept", "image": key, "rebuilt": True, "bought": asdict(bought)})
        spent = float(sum((Decimal(e["cost"]) for e in entries if e["event"] != "kept"), Decimal(0)))
        saved = None
        if lost or len(entries) > n:
            names = (ledger.file.with_name(f"{ledger.file.name}.damaged-{k}") for k in count(1))
            saved = next(name for name in names if not name.exists())
            _save(saved, ledger.file.read_bytes() if ledger.file.exists() else b"")
            numbered = (line_of({**e, "line": k}) for k, e in enumerate(entries, start=1))
            _save(ledger.file, b"".join(numbered))
    counts = {"lines": n, "lost": lost, "requests": len(requests), "pictures": len(found)}
    return {**counts, "spent": spent, "saved": saved}


def _sound_entries(ledger: Ledger) -> tuple[list[dict[str, Any]], int]:
    """Return what the sound lines say, in order, and how many lines are lost."""
    entries: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    lost, last = 0, 0
    for line in ledger.journal.lines():
        entry = _entry(line)
        if entry is None:
            lost, last = lost + 1, last + 1
            continue
        number = entry.pop("line")
        # A line that is there twice counts once.
        if number <= last and line in seen:
            continue
        lost += max(number - last - 1, 0)
        seen.add(line)
        last = max(last + 1, number)
        entries.append(entry)
    return entries, lost


def _save(path: Path, data: bytes) -> None:
    with explaining(path, STAYS + ROOM):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, data)
        # What is bought outlasts a power cut: the line that says so is written after it.
        with path.open("r+b") as file:
            os.fsync(file.fileno())
