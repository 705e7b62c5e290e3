"""Training images as saved by img2dataset in the formats ``files`` and ``webdataset``, with the status of each URL.

A shard is a folder ``00000/`` or a file ``00000.tar`` with images, ``00000.parquet`` with a row per URL (url, key,
status, error_message and others), and ``00000_stats.json``, which is written last. :mod:`biaslab.captions.downloads`
saves the format ``files`` without the captions and metadata next to each image. Captions are matched to images by URL.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import replace
from biaslab.endpoints.fetch import status_of_code
from biaslab.errors import InputError
from biaslab.hub import registry
from biaslab.io.image_files import MAX_BYTES, UnreadableImage, decode, endings

OK, MISSING, NO_URL = "ok", "missing", "no_url"
_REQUIRED = ("url", "key", "status", "error_message")
# Columns that some shards lack: sha256 is optional in img2dataset, and only the downloader writes the last.
_OPTIONAL = ("width", "height", "original_width", "original_height", "sha256", "attempt")
COLUMNS = (*_REQUIRED, *_OPTIONAL)
"""Columns of a shard that the downloader writes."""
# Outcomes of biaslab.endpoints.fetch by pattern of img2dataset's message; the first matching pattern applies.
_MESSAGES = {
    r"X-Robots-Tag": "opted_out",
    r"timed out": "timed_out",
    r"Name or service|name resolution|No address|getaddrinfo": "no_address",
    r"SSL|CERTIFICATE": "tls_failed",
    r"unknown url type|no host": "bad_url",
    r"urlopen error|[Cc]onnection|IncompleteRead": "connection_failed",
    r"[Dd]ecod": "not_an_image",
}


def shards(folder: str | Path) -> list[Path]:
    """Return the Parquet files of complete shards in a folder, in order; empty if img2dataset did not write it."""
    stats = sorted(Path(folder).expanduser().glob("[0-9]*_stats.json")) if folder else []
    parquet = [path.with_name(path.name.replace("_stats.json", ".parquet")) for path in stats]
    return [path for path in parquet if path.is_file()]


def digest_of(folder: str | Path) -> str:
    """Return a digest of names, sizes and times of the complete shards in a folder."""
    states = [(path, path.stat()) for path in shards(folder)]
    return hashlib.sha256(repr([(p.name, s.st_size, s.st_mtime_ns) for p, s in states]).encode()).hexdigest()


class FetchedImages:
    """An image source with the image behind each caption, by its URL.

    ``captions`` has caption_id (unique texts) and url (empty or missing: no URL). ``table`` has one row per caption, in
    its order, with image_id, caption_id, url, status (``ok``, or why the image is missing: ``missing`` if no complete
    shard has the URL or its file was deleted), detail (a message), width and height (as saved, in pixels),
    original_width and original_height (as received), sha256 (of the body, as hex digits), shard, key and attempt.
    Values that do not apply are missing. If several rows have one URL, the last one with an image applies, or else the
    last one.

    Raises InputError: A shard cannot be read, or lacks a column.
    """

    def __init__(self, folder: str | Path, captions: pd.DataFrame) -> None:
        self.name, self.image_domain = "fetched images", registry.image_domain(folder)
        rows = _rows(folder).drop_duplicates("url", keep="last").set_index("url")
        table = rows.reindex(pd.Index(_texts(captions["url"]), name="url", dtype=object)).reset_index()
        table.insert(0, "image_id", captions["caption_id"].to_list())
        members = cache(partial(_members, Path(folder).expanduser()))
        statuses, self._places = [], {}
        for image_id, url, status, shard, key in table[["image_id", "url", "status", "shard", "key"]].itertuples(
            index=False
        ):
            place = self._places[image_id] = members(shard).get(key) if status == OK else None
            is_missing = not isinstance(status, str) or (status == OK and not place)
            statuses.append(NO_URL if not url else MISSING if is_missing else status)
        self.table = table.assign(status=statuses, caption_id=table["image_id"])
        self._statuses = dict(zip(table["image_id"], statuses, strict=True))
        sizes = [place[2] if place else 0 for place in map(self._places.get, table["image_id"])]
        states = sorted(zip(table["image_id"], statuses, table["sha256"].map(str), sizes, strict=True))
        self.digest = hashlib.sha256(repr(states).encode("utf-8", "surrogatepass")).hexdigest()

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return the images in order; an image that was not fetched is an UnreadableImage with its status as reason."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(self._read, image_ids))

    def _read(self, image_id: str) -> np.ndarray | UnreadableImage:
        if not (place := self._places.get(image_id)):
            return UnreadableImage(self._statuses.get(image_id, MISSING))
        path, start, size = place
        if size > MAX_BYTES:
            return UnreadableImage("too large")
        try:
            with path.open("rb") as file:
                file.seek(start)
                return decode(file.read(size))
        except OSError:
            return UnreadableImage("cannot be opened")


def _members(folder: Path, shard: str) -> dict[str, tuple[Path, int, int]]:
    """Return the file of each image of a shard, and the image's offset and size in bytes, by key."""
    tar, subfolder = folder / f"{shard}.tar", folder / shard
    if not tar.is_file():
        entries = [entry for entry in os.scandir(subfolder) if entry.is_file()] if subfolder.is_dir() else []
        files = [(entry.name, Path(entry.path), 0, entry.stat().st_size) for entry in entries]
    else:
        try:
            with tarfile.open(tar, "r:") as archive:
                files = [(member.name, tar, member.offset_data, member.size) for member in archive if member.isreg()]
        except (tarfile.TarError, OSError, ValueError) as error:
            raise InputError(f"{tar} cannot be read ({error}); delete {shard}* and run img2dataset again.") from None
    return {Path(name).stem: place for name, *place in files if name.lower().endswith(endings())}


def write(folder: Path, rows: Sequence[tuple[dict[str, Any], bytes | None]]) -> None:
    """Write a shard of rows with :data:`COLUMNS` except key, each with its JPEG or None, under the next number.

    The statistics are written last, so that an incomplete shard is ignored. Raises OSError: It cannot be written.
    """
    shard = folder / f"{max((int(path.stem) + 1 for path in shards(folder)), default=0):05d}"
    shard.mkdir(exist_ok=True)
    for n, (row, image) in enumerate(rows):
        row["key"] = f"{shard.name}{n:04d}"
        if image is not None:
            (shard / f"{row['key']}.jpg").write_bytes(image)
    file = BytesIO()
    pd.DataFrame([row for row, _ in rows]).reindex(columns=list(COLUMNS)).to_parquet(file)
    replace(shard.with_suffix(".parquet"), file.getvalue())
    counts = {"count": len(rows), "successes": sum(image is not None for _, image in rows)}
    replace(folder / f"{shard.name}_stats.json", json.dumps(counts).encode())


def _texts(column: pd.Series) -> list[str]:
    """Return texts without surrounding white space, and empty texts for missing ones."""
    return [text.strip() if isinstance(text, str) else "" for text in column]


def _rows(folder: str | Path) -> pd.DataFrame:
    """Return the rows of all shards with status, detail and shard; rows with an image come last."""
    frames = [pd.DataFrame(columns=[*COLUMNS, "shard"], dtype=object)]
    for path in shards(folder):
        try:
            frame = pd.read_parquet(path)
        except Exception as error:  # Readers of damaged Parquet files raise errors of many types.
            raise InputError(
                f"{path} cannot be read ({error}); delete {path.stem}* and run img2dataset again."
            ) from None
        if missing_columns := [name for name in _REQUIRED if name not in frame.columns]:
            raise InputError(
                f"{path} has no column {', '.join(missing_columns)}, which status files of img2dataset have. Run "
                "img2dataset again."
            )
        if "sha256" not in frame.columns:
            frame["sha256"] = str(path.stat().st_mtime_ns)
        frames.append(frame.reindex(columns=list(COLUMNS)).astype(object).assign(shard=path.stem))
    rows = pd.concat(frames, ignore_index=True)
    rows["url"], rows["key"] = _texts(rows["url"]), _texts(rows["key"])
    rows["detail"] = [text[:300] for text in _texts(rows.pop("error_message"))]
    rows["status"] = [_status(*row) for row in rows[["status", "detail"]].itertuples(index=False)]
    return rows.sort_values("status", key=lambda status: status == OK, kind="stable")


def _status(status: object, message: str) -> str:
    """Return the status that corresponds to img2dataset's status and error message."""
    if status == "success":
        return OK
    if prefix := re.match(r"([a-z_]+)(?:: |$)", message):
        return prefix[1]
    if code := re.match(r"HTTP Error (\d{3})\b", message):
        return status_of_code(int(code[1]))
    statuses = (reason for pattern, reason in _MESSAGES.items() if re.search(pattern, message))
    return next(statuses, "failed_to_resize" if status == "failed_to_resize" else "failed_to_download")
