"""Fetch the images behind captions by URL: from servers that may be gone, slow or hostile; every URL has an outcome.

Only public addresses are connected to (:mod:`biaslab.net.fetch`). At any time up to :data:`CONCURRENCY` bodies, a few
small images and one large one are in memory: with the default limits less than a gigabyte, whatever servers send.
Outcomes are written to ``outcomes.jsonl``, one line each, after the image itself, so that nothing is fetched twice.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
import os
import queue
import re
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.captions.settings import JPEG_QUALITY, DownloadSettings
from biaslab.ground import pictures
from biaslab.ground.errors import RunError
from biaslab.ground.pictures import Unreadable, decode
from biaslab.keep.journal import Journal
from biaslab.keep.store import explaining, replace
from biaslab.net.connection import pause, policy
from biaslab.net.endpoint import Failed
from biaslab.net.fetch import Fetcher, Limits, Visit, parsed

if TYPE_CHECKING:
    from PIL import Image

_log = logging.getLogger(__name__)
_KEPT = "Images that were fetched are kept and will be found again: {fix} and run again."

OK = "ok"
# Outcomes of a machine without network.
_TEMPORARY = ("no_address", "connection_failed", "timed_out", "rate_limited", "server_error", "failed")
# What a row holds where it does not apply, by column.
_EMPTY = {
    **dict.fromkeys(("caption_id", "url", "outcome"), ""),
    **dict.fromkeys(("status", "n_bytes", "width", "height")),
    **{"n_tries": 0, "seconds": 0.0, "final_url": "", "sha256": "", "file": ""},
    **{"saved_bytes": None, "saved_sha256": "", "fetched": "", "detail": ""},
}
COLUMNS = tuple(_EMPTY)
_JOURNAL = "outcomes.jsonl"
# Hosts in a row that cannot be reached before we take it that this machine has no network.
_SILENT_HOSTS = 50
# URLs of a host in a row that cannot be reached before its others are not tried.
_STRIKES = 5
# A picture of more pixels than these is decoded alone.
_LARGE = 4_000_000
CONCURRENCY, PER_HOST = 16, 2
"""Requests at a time: in all, and to one host."""
HOST_INTERVAL = 0.1
"""Least time between requests to a host, in seconds."""
ATTEMPTS, FIRST_WAIT, LONGEST_WAIT = 3, 1.0, 60.0
"""Attempts at a URL whose server is busy or breaks off, and the wait before the second in seconds, doubled each time. A
server that asks for a longer wait than ``LONGEST_WAIT`` is not asked again.
"""


def download(
    images: pd.DataFrame,
    folder: Path,
    settings: DownloadSettings,
    *,
    allow: Collection[str] = (),
    progress: bool = True,
) -> pd.DataFrame:
    """Fetch images by URL into ``folder``, one picture per caption; what has an outcome there is not fetched again.

    Pictures are turned upright, made smaller, put on white where they are transparent, and saved without metadata in
    ``folder/images``, named by :func:`file_name`. One process works on a folder at a time. ``images`` has caption_id
    (unique texts) and url (empty or missing: no URL); ``allow`` are addresses and ports, such as ``"127.0.0.1:8000"``,
    that are taken although not public: for tests.

    Returns a row per row of ``images``, in its order, with :data:`COLUMNS`: outcome (``ok``, or what was wrong with
    URL, server or body), status (of the last response), n_bytes (of the body read), width and height (in pixels, as
    received), n_tries, seconds (of requests, without waits between them), final_url (after redirects), sha256 (of the
    body), file (below ``folder``), saved_bytes, saved_sha256, fetched (UTC) and detail. Numbers that do not apply are
    NaN.

    Raises RunError: This machine has no network, or the disk is full; what had an outcome keeps it.
    """
    urls = [url.strip() if isinstance(url, str) else "" for url in images["url"]]
    wanted = list(zip(images["caption_id"], urls, strict=True))
    journal = Journal(folder / _JOURNAL, _KEPT)
    with journal.turn("fetching"):
        found = _Run(wanted, _Outcomes(journal), settings, allow).go(progress)
    table = pd.DataFrame([found[key] for key in wanted], columns=list(COLUMNS), dtype=object)
    return table.astype({column: float for column, empty in _EMPTY.items() if empty != ""})


class DownloadedImages:
    """Images that :func:`download` fetched into ``folder``, as a source: one per caption, by what it returned."""

    def __init__(self, folder: Path, outcomes: pd.DataFrame) -> None:
        self.folder = folder
        self.name = "downloaded images"
        self.table = pd.DataFrame({"image_id": outcomes["caption_id"].to_list()}, dtype=object)
        keys = outcomes[["caption_id", "outcome", "file", "saved_sha256"]]
        self._of = {row[0]: row[1:] for row in keys.itertuples(index=False, name=None)}
        whole = hashlib.sha256()
        for image_id, (outcome, _, saved) in sorted(self._of.items()):
            whole.update(json.dumps([image_id, outcome, saved]).encode())
        self.digest = whole.hexdigest()

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in order; one that was not fetched is Unreadable with its outcome.

        A file that does not hold what was written is set aside, and fetched again the next time.
        """
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(self._read, image_ids))

    def _read(self, image_id: str) -> np.ndarray | Unreadable:
        outcome, file, expected = self._of.get(image_id, ("missing", "", ""))
        if outcome != OK:
            return Unreadable(outcome)
        path = self.folder / file
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Unreadable("missing")
        if hashlib.sha256(data).hexdigest() == expected:
            return decode(data)
        aside = path.with_name(path.name + ".damaged")
        os.replace(path, aside)
        _log.warning("%s is damaged: set aside as %s, and fetched again the next time.", path, aside.name)
        return Unreadable("damaged")


class Decoder:
    """Makes pictures in threads of its own: one for large ones, so that there is one at a time, and a few for others.

    Of its own, because memory that a thread frees is kept for that thread.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._small, self._large = ThreadPoolExecutor(min(4, os.cpu_count() or 1)), ThreadPoolExecutor(1)

    def close(self) -> None:
        """Decode nothing more."""
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)

    def picture(self, data: bytes) -> tuple[bytes, int, int]:
        """Return the picture to save, and the width and height in pixels of what came; Failed where it is none."""
        try:
            with pictures.opened(data, self._settings.most_pixels) as image:
                width, height = image.size
                pool = self._large if width * height > _LARGE else self._small
                return pool.submit(self._made, image).result(), width, height
        except pictures.NoPictureError as error:
            raise Failed(error.reason.replace(" ", "_"), str(error)) from None

    def _made(self, image: Image.Image) -> bytes:
        whole = BytesIO()
        pictures.shown(image, self._settings.size).save(whole, "JPEG", quality=JPEG_QUALITY)
        return whole.getvalue()


# -- what is kept ------------------------------------------------------------------------------------------------


class _Outcomes:
    # Of several lines for a URL the last counts.

    def __init__(self, journal: Journal) -> None:
        self.folder = journal.path.parent
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.of_url: dict[str, dict[str, Any]] = {}
        self.answered = False
        self._journal = journal
        self._owners: dict[str, tuple[str, str]] = {}
        for row in journal.records():
            if set(COLUMNS).issubset(row):
                self._keep(row)

    def _keep(self, row: dict[str, Any]) -> None:
        key = (row["caption_id"], row["url"])
        self.rows[key] = self.of_url[row["url"]] = row
        self.answered |= row["status"] is not None
        if row["file"]:
            self._owners[row["file"].casefold()] = key

    def add(self, row: dict[str, Any]) -> None:
        self._journal.write(row)
        self._keep(row)

    def file_for(self, caption_id: str, url: str) -> str:
        """Return where, below the folder, the picture of a caption and URL belongs."""
        name = f"images/{_digest(caption_id)[:2]}/{file_name(caption_id)}"
        owner = self._owners.setdefault(f"{name}.jpg".casefold(), (caption_id, url))
        if owner != (caption_id, url):  # Another corpus has a caption of this name.
            name += f"~{_digest(url)[:8]}"
        return f"{name}.jpg"

    def stands(self, row: Mapping[str, Any] | None) -> bool:
        """Say whether a row needs no other try: of its picture only the length is looked at."""
        if not row or row["outcome"] != OK:
            return bool(row)
        path = self.folder / row["file"]
        return path.is_file() and path.stat().st_size == row["saved_bytes"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


# Letters and digits of ASCII, ``.``, ``_`` and ``-``, at most 100, that have no meaning to Windows.
_FITS = re.compile(
    r"(?!(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))[a-z0-9](?:[a-z0-9._-]{0,98}[a-z0-9])?", re.IGNORECASE | re.ASCII
)


def file_name(caption_id: str) -> str:
    """Return ``caption_id`` as the name of a file, without an ending, on any system; different ids differ.

    It stays as it is where :data:`_FITS` allows it; otherwise it is shortened, other characters become ``-``, and ``~``
    and 16 hex digits follow.
    """
    if _FITS.fullmatch(caption_id):
        return caption_id
    plain = re.sub(r"[^a-z0-9._-]+", "-", caption_id.lower())[:60].strip("-._")
    return f"{plain}~{_digest(caption_id)[:16]}"


# -- the run -----------------------------------------------------------------------------------------------------


@dataclass
class _Task(Visit):
    """A URL on its way."""

    url: str = ""
    captions: list[str] = field(default_factory=list)
    tries: int = 0
    # Seconds of this try, and of all.
    spent: float = 0.0
    seconds: float = 0.0


@dataclass
class _Host:
    waiting: deque[_Task] = field(default_factory=deque)
    active: int = 0
    # The moment from which it may be asked again.
    at: float = 0.0
    queued: bool = False
    strikes: int = 0


class _Hosts:
    """Hands tasks out so that no host is asked too much; waiting for one host holds up no other."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._hosts: dict[str, _Host] = defaultdict(_Host)
        self._order: list[tuple[float, int, str]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self.stopped = False

    def put(self, task: _Task, wait: float = 0.0) -> None:
        """Let a task wait for its host, which is not asked for the next ``wait`` seconds."""
        with self._changed:
            host = self._hosts[task.host]
            host.at = max(host.at, time.monotonic() + wait)
            host.waiting.append(task)
            self._queue(task.host)

    def take(self) -> tuple[str, _Task, int] | None:
        """Return the next host, task and the host's strikes, when there is one; None where nothing is left."""
        with self._changed:
            while self._left and not self.stopped:
                now = time.monotonic()
                if not self._order or self._order[0][0] > now:
                    self._changed.wait(self._order[0][0] - now if self._order else None)
                    continue
                name = heapq.heappop(self._order)[2]
                host, task = self._hosts[name], None
                host.queued = False
                if host.at <= now:
                    task = host.waiting.popleft()
                    host.active += 1
                    host.at = now + HOST_INTERVAL
                self._queue(name)
                if task is not None:
                    return name, task, host.strikes
            return None

    def done(self, name: str, *, finished: bool, reached: bool) -> None:
        """Take note that a request to a host ended, and whether its URL has an outcome now."""
        with self._changed:
            host = self._hosts[name]
            host.active -= 1
            host.strikes = 0 if reached else host.strikes + finished
            self._left -= finished
            self._queue(name)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def _queue(self, name: str) -> None:
        host = self._hosts[name]
        if host.waiting and not host.queued and host.active < PER_HOST:
            host.queued = True
            heapq.heappush(self._order, (host.at, next(self._numbers), name))
            self._changed.notify()


class _Run:
    """Fetches what a folder lacks; threads fetch and save, the calling thread writes outcomes down."""

    def __init__(
        self, wanted: Sequence[tuple[str, str]], outcomes: _Outcomes, settings: DownloadSettings, allow: Collection[str]
    ) -> None:
        self._outcomes, self._settings = outcomes, settings
        self.found: dict[tuple[str, str], dict[str, Any]] = {}
        self._tasks: dict[str, _Task] = {}
        limits = Limits(settings.most_bytes, seconds=settings.seconds, opt_out=settings.opt_out)
        self._fetcher = Fetcher(limits, allow)
        self._policy = policy(ATTEMPTS, FIRST_WAIT, LONGEST_WAIT, abandons=True)
        self._results: queue.SimpleQueue = queue.SimpleQueue()
        self._decoder = Decoder(settings)
        # Outcomes of hosts that could not be reached, until another host shows that the network is there.
        self._held: list[tuple[str, dict[str, Any]]] = []
        self._reached = False
        for caption_id, url in wanted:
            self._plan(caption_id, url)
        self._hosts = _Hosts(len(self._tasks))

    def _plan(self, caption_id: str, url: str) -> None:
        key = (caption_id, url)
        known = self._outcomes.rows.get(key)
        if self._outcomes.stands(known):
            self.found[key] = known
            return
        if url in self._tasks:
            self._tasks[url].captions.append(caption_id)
            return
        other = self._outcomes.of_url.get(url)
        if not known and self._outcomes.stands(other):
            self.found[key] = self._shared(caption_id, other)
            return
        try:
            at = parsed(url)
        except Failed as failed:
            self.found[key] = _row(caption_id, url, failed.outcome, detail=failed.detail)
        else:
            self._tasks[url] = _Task(at, url=url, captions=[caption_id])

    def _shared(self, caption_id: str, other: Mapping[str, Any]) -> dict[str, Any]:
        """Give a caption the outcome, and the picture, that another caption's same URL has."""
        row = {**other, "caption_id": caption_id}
        if row["outcome"] == OK:
            data = (self._outcomes.folder / other["file"]).read_bytes()
            row |= self._saved(caption_id, row["url"], data)
        self._outcomes.add(row)
        return row

    def _saved(self, caption_id: str, url: str, data: bytes) -> dict[str, Any]:
        file = self._outcomes.file_for(caption_id, url)
        path = self._outcomes.folder / file
        with explaining(path, _KEPT):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, data)
        return {"file": file, "saved_bytes": len(data), "saved_sha256": hashlib.sha256(data).hexdigest()}

    def go(self, progress: bool) -> dict[tuple[str, str], dict[str, Any]]:
        """Fetch what is missing; return the row of each caption and URL."""
        from tqdm import tqdm

        missing = sum(len(task.captions) for task in self._tasks.values())
        if not missing:
            return self.found
        for task in self._tasks.values():
            self._hosts.put(task)
        number = min(CONCURRENCY, len(self._tasks))
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(number)]
        n = len(self.found)
        bar = {"total": n + missing, "initial": n, "desc": "fetching images", "unit": " images"}
        n_ok = sum(row["outcome"] == OK for row in self.found.values())
        try:
            for thread in threads:
                thread.start()
            with tqdm(**bar, leave=False, disable=not progress, file=sys.stderr) as shown:
                for _ in range(len(self._tasks)):
                    result = self._results.get()
                    if isinstance(result, BaseException):
                        raise result
                    rows = self._finish(*result)
                    n_ok += sum(row["outcome"] == OK for row in rows)
                    shown.set_postfix_str(f"{n_ok} ok", refresh=False)
                    shown.update(len(rows))
            if self._reached:
                self._release()
            elif self._held and not self._outcomes.answered:
                raise self._no_network()
        finally:
            # After an error or Ctrl-C threads end by themselves within the limits of time, and save nothing more.
            self._hosts.stop()
            self._decoder.close()
        for thread in threads:
            thread.join()
        return self.found

    def _finish(self, task: _Task, made: bytes | None, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Save a URL's picture for each caption, then write its outcomes down."""
        rows = []
        for caption_id in task.captions:
            more = self._saved(caption_id, task.url, made) if made is not None else {}
            rows.append({**row, "caption_id": caption_id, **more})
            self.found[caption_id, task.url] = rows[-1]
        if task.reached:
            self._reached = True
            self._release()
        elif row["outcome"] in _TEMPORARY:
            self._held += [(task.host, r) for r in rows]
            if len({host for host, _ in self._held}) >= _SILENT_HOSTS:
                raise self._no_network()
            return rows
        for r in rows:
            self._outcomes.add(r)
        return rows

    def _release(self) -> None:
        for _, row in self._held:
            self._outcomes.add(row)
        self._held = []

    def _no_network(self) -> RunError:
        hosts, last = len({host for host, _ in self._held}), self._held[-1][1]
        return RunError(
            f"None of {hosts} hosts could be reached; the last ended as {last['outcome']} ({last['detail']}). These "
            "URLs count as not tried: run again with a network where hosts are reached without a proxy."
        )

    # -- in threads ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (taken := self._hosts.take()) is not None:
            name, task, strikes = taken
            finished = True
            try:
                result = self._step(task, strikes)
                finished = result is not None
                if finished and not self._hosts.stopped:
                    self._results.put(result)
            except BaseException as error:
                self._results.put(error)
                return
            finally:
                self._hosts.done(name, finished=finished, reached=task.reached)

    def _step(self, task: _Task, strikes: int) -> tuple[_Task, bytes | None, dict[str, Any]] | None:
        """Make one request; return the task with its picture and its row, or None where the task goes on."""
        started = time.monotonic()
        try:
            if strikes >= _STRIKES and not task.reached:
                raise Failed("connection_failed", f"given up: {task.host} was not reached {strikes} times")
            if not task.redirects:
                task.tries += 1
            try:
                body = self._fetcher.request(task, started + self._settings.seconds - task.spent)
            finally:
                took = time.monotonic() - started
                task.spent += took
                task.seconds += took
            if body is None:
                self._hosts.put(task)
                return None
            made, width, height = self._decoder.picture(body)
            sha256 = hashlib.sha256(body).hexdigest()
            return task, made, self._row_of(task, OK, width=width, height=height, sha256=sha256)
        except Failed as failed:
            wait = pause(self._policy, task.tries, failed)
            if wait is None:
                return task, None, self._row_of(task, failed.outcome, detail=failed.detail)
            task.at, task.redirects, task.spent, task.n_bytes = parsed(task.url), 0, 0.0, None
            # A host that says "at once" is no less busy.
            self._hosts.put(task, max(wait, FIRST_WAIT))
            return None
        except Exception as error:
            # Whatever one server brings about, the others are still fetched.
            return task, None, self._row_of(task, "failed", detail=f"{type(error).__name__}: {error}")

    def _row_of(self, task: _Task, outcome: str, **more: Any) -> dict[str, Any]:
        more |= {"status": task.status, "n_bytes": task.n_bytes, "n_tries": task.tries}
        more |= {"seconds": round(task.seconds, 3), "final_url": str(task.at.copy_with(userinfo=b""))}
        return _row("", task.url, outcome, **more)


def _row(caption_id: str, url: str, outcome: str, *, detail: str = "", **more: Any) -> dict[str, Any]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    given = {"caption_id": caption_id, "url": url, "outcome": outcome, "fetched": now, "detail": detail[:300]}
    return {**_EMPTY, **given, **more}
