"""What was paid for at endpoints: one SQLite database per store, ``purchases.sqlite``.

The price of a request is on disk before the request leaves; where nothing was charged, a second entry takes it back. A
request that was sent and never settled counts as paid. A reply stays in the database until its image is worked up.
Images are files, each written before the row that describes it. Keys of images and of questions never change: they
identify what a user has paid for.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from biaslab.cache.result_cache import cache_now, explain_errors, locked, replace
from biaslab.endpoints import old_purchases
from biaslab.endpoints.endpoint import StoppedError
from biaslab.errors import InputError, RunError

OK = "ok"
STAYS = "Images bought earlier are cached"
BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"))
"""How pictures begin, and their files' endings."""
_NAME = "purchases.sqlite"
# The key of an image, which its file is named by.
_KEY = re.compile("[0-9a-f]{64}")
# A folder of the store belongs to one endpoint's images, questions or answers. A cost below 0 is a refund.
_SCHEMA = (
    "create table endpoints (folder text primary key, name text, buyer text)",
    "create table charges (folder text not null, key text not null, cost text not null, time text not null)",
    "create index costs on charges (folder, cost)",
    "create table images (folder text, key text, asked text, reply text, outcome text, detail text, "
    "revised_prompt text, request_id text, time text, ending text, sha256 text, primary key (folder, key))",
    "create table answers (folder text, question text, answer text, primary key (folder, question))",
    "pragma user_version = 1",
)
_INSERT = {
    "answers": "insert or replace into answers values (:folder, :question, :answer)",
    "charges": "insert into charges values (:folder, :key, :cost, :time)",
    "replies": "insert into images (folder, key, reply) values (:folder, :key, :reply) "
    "on conflict (folder, key) do update set reply = excluded.reply",
    # An image that is there needs its reply no more.
    "images": "insert or replace into images values (:folder, :key, :asked, null, :outcome, :detail, "
    ":revised_prompt, :request_id, :time, :ending, :sha256)",
}
_COSTS = "select cost, count(*) from charges where folder = ? group by cost"
# What helps where SQLite refuses.
_KEPT = "Purchases stay in the cache: {fix}, and run again."
_ELSEWHERE = "name a folder on a local disk, whose locks work, as compute.cache or BIASLAB_CACHE"
_WRITABLE = "let this user read and write it and its folder"
_FIXES = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_READONLY: _WRITABLE,
    sqlite3.SQLITE_CANTOPEN: f"{_WRITABLE}, or {_ELSEWHERE}",
}


@dataclass(frozen=True)
class PurchasedImage:
    """What became of one image."""

    outcome: str
    detail: str = ""
    revised_prompt: str = ""
    request_id: str = ""
    time: str = ""  # When the reply came, UTC.
    ending: str = ""  # Of the picture's file; empty where there is none.
    sha256: str = ""  # Of that file.


_COLUMNS = ", ".join(field.name for field in fields(PurchasedImage))


class LimitError(Exception):
    """One more request would pass the limit of cost."""


class _PurchaseRecords:
    """The rows of one folder of the store, such as ``bought_images/<digest>``.

    Methods raise RunError: The database is damaged, cannot be written, or is on a file system without locks; or a file
    of an earlier version, which is imported first, is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder.parents[1] / _NAME
        self._name = f"{folder.parent.name}/{folder.name}"

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Do the work ``name`` in one process at a time; others wait, and then find what was written."""
        with _opened(self.file, write=True) as database:
            if (found := database.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
                raise _damaged(self.file, found)
        with locked(self.file, f"{self._name.replace('/', '-')}-{name}", hint=_KEPT):
            yield

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Return what a query finds in this folder; nothing where nothing was ever written."""
        if not self.file.exists() and not old_purchases.files(self.file.parent):
            return []
        with _opened(self.file) as database:
            return database.execute(query, (self._name, *values)).fetchall()

    def _insert(self, table: str, **values: str) -> None:
        with _opened(self.file, write=True) as database:
            database.execute(_INSERT[table], {"folder": self._name, **values})


class AnswerPurchases(_PurchaseRecords):
    """The answers of a chat endpoint to questions: records that fit in JSON."""

    def read(self) -> dict[str, dict[str, Any]]:
        """Return all answers, by question."""
        return {q: json.loads(a) for q, a in self._rows("select question, answer from answers where folder = ?")}

    def write(self, question: str, answer: Mapping[str, Any]) -> None:
        """Write an answer down, which outlasts a power cut."""
        self._insert("answers", question=question, answer=json.dumps(answer))


class ImagePurchases(_PurchaseRecords):
    """The ledger of one model: charges, replies that are not worked up yet, and the status of each image.

    Requests are sent within :meth:`buying`. Each costs ``price``, and all together at most ``limit``, in the currency
    of the settings. ``endpoint`` names model and URL in summaries.
    """

    def __init__(self, folder: Path, price: float = 0, limit: float = 0, endpoint: str = "") -> None:
        super().__init__(folder)
        self._price, self._limit, self._endpoint = Decimal(str(price)), Decimal(str(limit)), endpoint
        self._changed = threading.Condition()
        self._under_way = 0
        self.done: dict[str, PurchasedImage] = {}
        self.replies: set[str] = set()
        self.spent = Decimal(0)

    def load(self) -> None:
        """Read ``spent``, the images that are ``done`` by key, and keys of ``replies`` that are not worked up yet."""
        rows = self._rows(f"select key, reply is not null, {_COLUMNS} from images where folder = ?")
        self.done = {key: PurchasedImage(*said) for key, _, *said in rows if said[0] is not None}
        self.replies = {key for key, left, *_ in rows if left}
        self.spent = _sum(self._rows(_COSTS))

    @contextlib.contextmanager
    def buying(self) -> Iterator[None]:
        """Buy in one process at a time; what others bought before is loaded first.

        Raises RunError: Another host buys with this store, or its process was killed; or the folder contains an image
        that the database does not know.
        """
        # Another host is refused at once; locks of shared file systems may hold on one host only.
        self._claim()
        with self.turn("buying"):
            self._claim()
            try:
                self.load()
                self._check_images()
                yield
            finally:
                with _opened(self.file, write=True) as database:
                    ours = (self._name, platform.node())
                    database.execute("update endpoints set buyer = null where folder = ? and buyer = ?", ours)

    def _claim(self) -> None:
        with _opened(self.file, write=True) as database:
            self._check_host(database)
            claim = "insert or replace into endpoints (folder, name, buyer) values (?, ?, ?)"
            database.execute(claim, (self._name, self._endpoint, platform.node()))

    def _check_host(self, database: sqlite3.Connection) -> None:
        for (host,) in database.execute("select buyer from endpoints where buyer != ?", (platform.node(),)):
            raise RunError(
                f"The host {host} buys with {self.file}, or its process was killed, so nothing is bought on "
                f"{platform.node()}: together they could pass the limit of cost. Buy on one host at a time. Where no "
                f"process of {host} buys any more, release it and run again: biaslab purchases --release "
                f"--cache {self.file.parent}"
            )

    def _check_images(self) -> None:
        """Raise RunError where the database does not know an image, as an older copy of it does."""
        for path in sorted(self.folder.glob("images/*/*")):
            # Systems put files of their own next to images.
            named = _KEY.fullmatch(path.stem) and path.suffix.removeprefix(".") in (e for _, e in BEGINNINGS)
            if named and path.stem not in self.done and path.stem not in self.replies:
                raise _damaged(self.file, f"it has no entry for the image {path}")

    def is_purchased(self, key: str) -> bool:
        """Return whether an image needs no further request; one whose file was taken away needs one."""
        bought = self.done.get(key)
        return bought is not None and (not bought.ending or self.image_path(key, bought.ending).exists())

    def reserve(self, key: str, stopped: Callable[[], bool]) -> None:
        """Write down that a request is about to be sent.

        Raises LimitError: It would pass the limit, and nothing under way may yet turn out to cost nothing.
        StoppedError: Another request ended the work.
        """
        with self._changed:
            while not stopped():
                with _opened(self.file, write=True) as database:
                    self._check_host(database)
                    self.spent = _sum(database.execute(_COSTS, (self._name,)))
                    if fits := not self._price or self.spent + self._price <= self._limit:
                        self._charge(database, key, self._price)
                if fits:
                    self._under_way += 1
                    return
                if not self._under_way:
                    raise LimitError
                self._changed.wait()
        raise StoppedError

    def settle(self, key: str, *, charged: bool) -> None:
        """Note that a request has ended; take its price back where nothing was ``charged``."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()
            if not charged:
                with _opened(self.file, write=True) as database:
                    self._charge(database, key, -self._price)

    def _charge(self, database: sqlite3.Connection, key: str, cost: Decimal) -> None:
        row = {"folder": self._name, "key": key, "cost": str(cost), "time": cache_now()}
        database.execute(_INSERT["charges"], row)
        self.spent += cost

    def save_reply(self, key: str, reply: Mapping[str, str]) -> None:
        """Write a reply down before anything is made of it."""
        self._insert("replies", key=key, reply=json.dumps(reply))
        self.replies.add(key)

    def reply(self, key: str) -> dict[str, str] | None:
        """Return a reply that is not worked up yet, or None."""
        if key not in self.replies:
            return None
        ((reply,),) = self._rows("select reply from images where folder = ? and key = ?", key)
        return json.loads(reply)

    def save_image(self, key: str, ending: str, data: bytes) -> None:
        """Write an image's file, before the row that describes it; it outlasts a power cut."""
        path = self.image_path(key, ending)
        with explain_errors(path, _KEPT):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, data)
            with path.open("r+b") as file:
                os.fsync(file.fileno())

    def image_path(self, key: str, ending: str) -> Path:
        """Return the path of an image's file, with the bytes that the endpoint sent."""
        return self.folder / "images" / key[:2] / f"{key}.{ending}"

    def save_status(self, key: str, bought: PurchasedImage, asked: Mapping[str, Any]) -> None:
        """Write down what became of an image, whose file is written, in place of its reply."""
        self._insert("images", key=key, asked=json.dumps(asked), **asdict(bought))
        self.done[key] = bought
        self.replies.discard(key)


def summary(cache: str | Path) -> list[dict[str, Any]]:
    """Return a dictionary for each model from which something was bought with a store.

    Its keys are ``endpoint`` (model and URL; empty where an earlier version bought), ``spent``, ``images`` (counts by
    outcome), ``replies`` (number that are not worked up yet) and ``folder`` (of the images' files, below the store).

    Raises InputError: The store has no database. RunError: It is damaged.
    """
    with _opened(_existing(cache)) as database:
        select = "select distinct charges.folder, coalesce(name, '') from charges left join endpoints using (folder)"
        rows = database.execute(select).fetchall()
    found = []
    for folder, endpoint in rows:
        purchases = ImagePurchases(Path(cache) / folder)
        purchases.load()
        outcomes = Counter(sorted(bought.outcome for bought in purchases.done.values()))
        images = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none"
        counts = {"spent": float(purchases.spent), "images": images, "replies": len(purchases.replies)}
        found.append({"endpoint": endpoint, **counts, "folder": folder})
    return found


def release(cache: str | Path) -> None:
    """Let any host buy again after a process was killed; InputError where nothing was bought with the store."""
    with _opened(_existing(cache), write=True) as database:
        database.execute("update endpoints set buyer = null")


def _existing(cache: str | Path) -> Path:
    if not (file := Path(cache) / _NAME).exists():
        raise InputError(f"{cache} has no {_NAME}: nothing was bought with this cache.")
    return file


@contextlib.contextmanager
def _opened(file: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a database, which is created where it is missing; to ``write``, in one transaction, on disk at the end.

    Each call has a connection of its own, so that threads and forked processes share none.
    """
    try:
        with explain_errors(file, _KEPT):
            file.parent.mkdir(parents=True, exist_ok=True)
        # Closed without a commit, nothing is written.
        with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as database:
            # A journal that is truncated, not deleted, does not come back after a power cut.
            database.execute("pragma journal_mode = truncate")
            database.execute("pragma synchronous = full")
            if write or not _has_tables(database):
                database.execute("begin immediate")
            if not _has_tables(database):
                for statement in _SCHEMA:
                    database.execute(statement)
                for table, values in old_purchases.rows(file.parent):
                    database.execute(_INSERT[table], values)
            yield database
            database.commit()
    except sqlite3.DatabaseError as error:
        # The lowest byte is the kind of error; the others are details of it.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(file, str(error)) from None
        if kind == sqlite3.SQLITE_ERROR:
            raise
        raise RunError(f"{file}: {error}. {_KEPT.format(fix=_FIXES.get(kind, _ELSEWHERE))}") from None


def _has_tables(database: sqlite3.Connection) -> bool:
    return database.execute("pragma user_version").fetchone()[0] > 0


def _sum(costs: Iterable[tuple[str, int]]) -> Decimal:
    return sum((Decimal(cost) * n for cost, n in costs), Decimal(0))


def _damaged(file: Path, why: str) -> RunError:
    return RunError(
        f"The database of purchases, {file}, is damaged: {why}. Past purchases are unknown, so no "
        "request is sent. Restore a copy of that file, and run again."
    )
