"""Purchases at endpoints: one SQLite database per cache, ``purchases.sqlite``.

The price of a request is on disk before the request is sent; if nothing was charged, a second entry refunds it. A
request that was sent and never settled counts as paid. A reply stays in the database until its image is processed.
Images are files, each written before the row that describes it. Keys of images and of questions never change, because
they identify a user's purchases.
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
"""The first bytes of image files, and their suffixes."""
_NAME = "purchases.sqlite"
# The key of an image, which is the name of its file.
_KEY = re.compile("[0-9a-f]{64}")
# A folder of the cache belongs to one endpoint's images, questions or answers. A cost below 0 is a refund.
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
    # A saved image no longer needs its reply.
    "images": "insert or replace into images values (:folder, :key, :asked, null, :outcome, :detail, "
    ":revised_prompt, :request_id, :time, :ending, :sha256)",
}
_COSTS = "select cost, count(*) from charges where folder = ? group by cost"
# Advice for errors of SQLite.
_ADVICE = "Purchases remain in the cache. To continue, {fix}, and run again."
_LOCAL_DISK = "set compute.cache or BIASLAB_CACHE to a folder on a local disk, which supports locks"
_WRITABLE = "give this user read and write access to it and its folder"
_FIXES = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_READONLY: _WRITABLE,
    sqlite3.SQLITE_CANTOPEN: f"{_WRITABLE}, or {_LOCAL_DISK}",
}


@dataclass(frozen=True)
class PurchasedImage:
    """The status of one image."""

    outcome: str
    detail: str = ""
    revised_prompt: str = ""
    request_id: str = ""
    time: str = ""  # Time of the reply, UTC.
    ending: str = ""  # Suffix of the image's file; empty without one.
    sha256: str = ""  # Of that file.


_COLUMNS = ", ".join(field.name for field in fields(PurchasedImage))


class LimitError(Exception):
    """One more request would exceed the cost limit."""


class _PurchaseRecords:
    """The rows of one folder of the cache, such as ``bought_images/<digest>``.

    Methods raise RunError: The database is damaged, cannot be written, or is on a file system without locks; or a file
    of an earlier version, which is imported first, is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder.parents[1] / _NAME
        self._name = f"{folder.parent.name}/{folder.name}"

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Run the work ``name`` in one process at a time; others wait, and then read the results."""
        with _open_database(self.file, write=True) as database:
            if (check := database.execute("pragma quick_check(1)").fetchone()[0]) != "ok":
                raise _damage_error(self.file, check)
        with locked(self.file, f"{self._name.replace('/', '-')}-{name}", hint=_ADVICE):
            yield

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in this folder; empty if nothing was ever written."""
        if not self.file.exists() and not old_purchases.files(self.file.parent):
            return []
        with _open_database(self.file) as database:
            return database.execute(query, (self._name, *values)).fetchall()

    def _insert(self, table: str, **values: str) -> None:
        with _open_database(self.file, write=True) as database:
            database.execute(_INSERT[table], {"folder": self._name, **values})


class AnswerPurchases(_PurchaseRecords):
    """The answers of a chat endpoint to questions: records that are serializable as JSON."""

    def read(self) -> dict[str, dict[str, Any]]:
        """Return all answers, by question."""
        return {q: json.loads(a) for q, a in self._rows("select question, answer from answers where folder = ?")}

    def write(self, question: str, answer: Mapping[str, Any]) -> None:
        """Save an answer durably, so that it survives a power cut."""
        self._insert("answers", question=question, answer=json.dumps(answer))


class ImagePurchases(_PurchaseRecords):
    """The purchases from one model: charges, unprocessed replies, and the status of each image.

    Requests are sent within :meth:`buying`. Each costs ``price``, and all together at most ``limit``, in the currency
    of the settings. ``endpoint`` names model and URL in summaries.
    """

    def __init__(self, folder: Path, price: float = 0, limit: float = 0, endpoint: str = "") -> None:
        super().__init__(folder)
        self._price, self._limit, self._endpoint = Decimal(str(price)), Decimal(str(limit)), endpoint
        self._condition = threading.Condition()
        self._n_pending = 0
        self.done: dict[str, PurchasedImage] = {}
        self.replies: set[str] = set()
        self.spent = Decimal(0)

    def load(self) -> None:
        """Read ``spent``, the images that are ``done`` by key, and the keys of unprocessed ``replies``."""
        rows = self._rows(f"select key, reply is not null, {_COLUMNS} from images where folder = ?")
        self.done = {key: PurchasedImage(*values) for key, _, *values in rows if values[0] is not None}
        self.replies = {key for key, has_reply, *_ in rows if has_reply}
        self.spent = _sum_costs(self._rows(_COSTS))

    @contextlib.contextmanager
    def buying(self) -> Iterator[None]:
        """Buy in one process at a time; earlier purchases are loaded first.

        Raises RunError: Another host buys with this cache, or its process was killed; or the folder contains an image
        that the database lacks.
        """
        # Another host is rejected immediately; locks of shared file systems may work on one host only.
        self._claim()
        with self.turn("buying"):
            self._claim()
            try:
                self.load()
                self._check_images()
                yield
            finally:
                with _open_database(self.file, write=True) as database:
                    owner = (self._name, platform.node())
                    database.execute("update endpoints set buyer = null where folder = ? and buyer = ?", owner)

    def _claim(self) -> None:
        with _open_database(self.file, write=True) as database:
            self._check_host(database)
            claim = "insert or replace into endpoints (folder, name, buyer) values (?, ?, ?)"
            database.execute(claim, (self._name, self._endpoint, platform.node()))

    def _check_host(self, database: sqlite3.Connection) -> None:
        for (host,) in database.execute("select buyer from endpoints where buyer != ?", (platform.node(),)):
            raise RunError(
                f"The host {host} is buying with {self.file}, or its process was killed, so nothing is bought on "
                f"{platform.node()}: together they could exceed the cost limit. Buy on one host at a time. If no "
                f"process on {host} is still buying, release it and run again: biaslab purchases --release "
                f"--cache {self.file.parent}"
            )

    def _check_images(self) -> None:
        """Raise RunError if the database lacks an image, as an older copy of it does."""
        for path in sorted(self.folder.glob("images/*/*")):
            # Operating systems add other files next to images.
            is_image = _KEY.fullmatch(path.stem) and path.suffix.removeprefix(".") in (
                suffix for _, suffix in BEGINNINGS
            )
            if is_image and path.stem not in self.done and path.stem not in self.replies:
                raise _damage_error(self.file, f"it has no entry for the image {path}")

    def is_purchased(self, key: str) -> bool:
        """Return whether an image needs no further request; an image whose file was deleted needs one."""
        purchase = self.done.get(key)
        return purchase is not None and (not purchase.ending or self.image_path(key, purchase.ending).exists())

    def reserve(self, key: str, is_stopped: Callable[[], bool]) -> None:
        """Record the price of a request that is about to be sent.

        Raises LimitError: It would exceed the limit, and no pending request may still be refunded. StoppedError:
        Another request ended the work.
        """
        with self._condition:
            while not is_stopped():
                with _open_database(self.file, write=True) as database:
                    self._check_host(database)
                    self.spent = _sum_costs(database.execute(_COSTS, (self._name,)))
                    if fits := not self._price or self.spent + self._price <= self._limit:
                        self._charge(database, key, self._price)
                if fits:
                    self._n_pending += 1
                    return
                if not self._n_pending:
                    raise LimitError
                self._condition.wait()
        raise StoppedError

    def settle(self, key: str, *, charged: bool) -> None:
        """Record that a request has ended; refund its price unless it was ``charged``."""
        with self._condition:
            self._n_pending -= 1
            self._condition.notify_all()
            if not charged:
                with _open_database(self.file, write=True) as database:
                    self._charge(database, key, -self._price)

    def _charge(self, database: sqlite3.Connection, key: str, cost: Decimal) -> None:
        row = {"folder": self._name, "key": key, "cost": str(cost), "time": cache_now()}
        database.execute(_INSERT["charges"], row)
        self.spent += cost

    def save_reply(self, key: str, reply: Mapping[str, str]) -> None:
        """Save a reply before it is processed."""
        self._insert("replies", key=key, reply=json.dumps(reply))
        self.replies.add(key)

    def reply(self, key: str) -> dict[str, str] | None:
        """Return an unprocessed reply, or None."""
        if key not in self.replies:
            return None
        ((reply,),) = self._rows("select reply from images where folder = ? and key = ?", key)
        return json.loads(reply)

    def save_image(self, key: str, ending: str, data: bytes) -> None:
        """Write an image's file durably, before the row that describes it."""
        path = self.image_path(key, ending)
        with explain_errors(path, _ADVICE):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, data)
            with path.open("r+b") as file:
                os.fsync(file.fileno())

    def image_path(self, key: str, ending: str) -> Path:
        """Return the path of an image's file, with the bytes that the endpoint sent."""
        return self.folder / "images" / key[:2] / f"{key}.{ending}"

    def save_status(self, key: str, purchase: PurchasedImage, request: Mapping[str, Any]) -> None:
        """Save the status of an image, whose file is already written, in place of its reply."""
        self._insert("images", key=key, asked=json.dumps(request), **asdict(purchase))
        self.done[key] = purchase
        self.replies.discard(key)


def summary(cache: str | Path) -> list[dict[str, Any]]:
    """Return a dictionary for each model from which something was bought with a cache.

    Its keys are ``endpoint`` (model and URL; empty for purchases by an earlier version), ``spent``, ``images`` (counts
    by outcome), ``replies`` (number of unprocessed ones) and ``folder`` (of the images' files, below the cache).

    Raises InputError: The cache has no database. RunError: It is damaged.
    """
    with _open_database(_find_database(cache)) as database:
        select = "select distinct charges.folder, coalesce(name, '') from charges left join endpoints using (folder)"
        rows = database.execute(select).fetchall()
    summaries = []
    for folder, endpoint in rows:
        purchases = ImagePurchases(Path(cache) / folder)
        purchases.load()
        outcomes = Counter(sorted(purchase.outcome for purchase in purchases.done.values()))
        images = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none"
        counts = {"spent": float(purchases.spent), "images": images, "replies": len(purchases.replies)}
        summaries.append({"endpoint": endpoint, **counts, "folder": folder})
    return summaries


def release(cache: str | Path) -> None:
    """Allow any host to buy again after a process was killed; InputError if nothing was bought with the cache."""
    with _open_database(_find_database(cache), write=True) as database:
        database.execute("update endpoints set buyer = null")


def _find_database(cache: str | Path) -> Path:
    if not (file := Path(cache) / _NAME).exists():
        raise InputError(f"{cache} contains no {_NAME}: nothing was bought with this cache.")
    return file


@contextlib.contextmanager
def _open_database(file: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a database, created if missing; with ``write``, in one transaction that is durable at the end.

    Each call opens a new connection, so that threads and forked processes share none.
    """
    try:
        with explain_errors(file, _ADVICE):
            file.parent.mkdir(parents=True, exist_ok=True)
        # Closing without a commit discards all changes.
        with contextlib.closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as database:
            # A journal that is truncated, not deleted, does not reappear after a power cut.
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
        # The lowest byte is the kind of error; the others are details.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damage_error(file, str(error)) from None
        if kind == sqlite3.SQLITE_ERROR:
            raise
        raise RunError(f"{file}: {error}. {_ADVICE.format(fix=_FIXES.get(kind, _LOCAL_DISK))}") from None


def _has_tables(database: sqlite3.Connection) -> bool:
    return database.execute("pragma user_version").fetchone()[0] > 0


def _sum_costs(costs: Iterable[tuple[str, int]]) -> Decimal:
    return sum((Decimal(cost) * n for cost, n in costs), Decimal(0))


def _damage_error(file: Path, reason: str) -> RunError:
    return RunError(
        f"The database of purchases, {file}, is damaged: {reason}. Past purchases are unknown, so no "
        "request is sent. Restore a copy of this file, and run again."
    )
