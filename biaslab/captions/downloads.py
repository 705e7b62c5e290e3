"""Fetch the images behind captions by URL, and save them as img2dataset does, for :mod:`biaslab.captions.fetched`.

Connections are made to public addresses only (:mod:`biaslab.endpoints.fetch`). An image is turned upright, scaled
down, put on white if it is transparent, and saved as JPEG without metadata. A shard is written when all its URLs have
an outcome. URLs with a permanent outcome are not fetched again, and a stopped run loses at most the current shard.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.cache.result_cache import ResultCache, explain_errors, locked
from biaslab.captions import fetched
from biaslab.captions.fetched import FetchedImages
from biaslab.captions.settings import DOWNLOAD, JPEG_QUALITY, DownloadSettings
from biaslab.endpoints import fetch
from biaslab.endpoints.endpoint import RequestError, make_retry_policy
from biaslab.errors import RunError
from biaslab.execution import progress as signs
from biaslab.execution.progress import ATTEMPT
from biaslab.io import image_files

CONCURRENCY, PER_HOST, SHARD = 16, 2, 100
"""Concurrent requests in total and per host, and URLs per shard."""
ATTEMPTS = 3
"""Maximum number of requests for a URL whose server is busy or closes the connection."""
_UNREACHED = ("no_address", "connection_failed", "timed_out")
TEMPORARY = (*_UNREACHED, "rate_limited", "server_error", "failed", fetched.MISSING)
"""Outcomes of URLs that another run requests again."""
_NOT_REQUESTED = (fetched.NO_URL, "bad_url", "refused_scheme")
# Minimum number of unreachable hosts that means a lost network, once another host has answered.
_SILENT_HOSTS = 10
_HINT = "Downloaded images remain in the cache. To continue, {fix}, and run again."
# Only one image is decoded at a time, because a large one takes hundreds of megabytes.
_DECODING = threading.Lock()


def download(
    images: pd.DataFrame,
    folder: Path,
    settings: DownloadSettings,
    *,
    attempt: str = "",
    allow: Collection[str] = (),
    progress: bool = True,
) -> FetchedImages:
    """Fetch the images that ``folder`` lacks and return all; only one process at a time fetches into a folder.

    ``images`` has caption_id (unique texts) and url (empty or missing: no URL). ``attempt`` identifies a start of a
    run, in which URLs with outcomes in :data:`TEMPORARY` are requested once; if it is empty, each call requests them.
    ``allow`` has private addresses to which connections are allowed, such as ``"127.0.0.1:8000"``, for tests.

    Raises RunError: This machine has no network, or the disk is full; complete shards stay.
    """
    with locked(folder / "shards", "fetching", hint=_HINT):
        table = FetchedImages(folder, images).table
        is_retry = table["status"].isin(TEMPORARY) & ((table["attempt"] != attempt) | (attempt == ""))
        any_reached = not table["status"].isin((*TEMPORARY, *_NOT_REQUESTED)).all()
        new_urls = dict.fromkeys(table.loc[table["status"] == fetched.MISSING, "url"])
        urls = list(new_urls | dict.fromkeys(table.loc[is_retry, "url"]))
        hosts: dict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(PER_HOST))
        pool, stop, rows = ThreadPoolExecutor(CONCURRENCY), threading.Event(), []
        work = partial(_fetch, settings=settings, attempt=attempt, allow=allow, stop=stop)
        bar = {"total": len(urls), "desc": "downloading images", "unit": " images", "disable": not progress}
        try:
            futures = as_completed([pool.submit(work, url, hosts[_host(url)]) for url in urls])
            with signs.bar(iterable=futures, **bar) as iterator:
                for n, future in enumerate(iterator, 1):
                    rows.append(future.result())
                    if len(rows) == SHARD or n == len(urls):
                        any_reached |= _update_hosts([row for row, _ in rows], new_urls, any_reached)
                        with explain_errors(folder, _HINT):
                            fetched.write(folder, rows)
                        rows = []
        finally:
            # After an error or Ctrl-C, pending requests end within their limits and save nothing.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return FetchedImages(folder, images)


def fetch_images(
    captions: pd.DataFrame, folder: str, settings: DownloadSettings, *, cache: ResultCache, progress: bool = True
) -> FetchedImages:
    """Return the images behind captions (caption_id and url), which :func:`download` saves in ``cache``.

    If ``folder`` is an output of img2dataset, its images are returned, and nothing is fetched.
    """
    images = captions[["caption_id", "url"]].drop_duplicates("caption_id")
    if folder != DOWNLOAD:
        return FetchedImages(folder, images)
    attempt = os.path.basename(os.environ.get(ATTEMPT, ""))
    # All corpora share one folder of fetched images.
    target = cache.root / "downloads" / settings.digest
    return download(images, target, settings, attempt=attempt, progress=progress)


def _host(url: str) -> str:
    return "".join(url.lower().split("/")[2:3])


def _fetch(
    url: str,
    host: threading.Semaphore,
    *,
    settings: DownloadSettings,
    attempt: str,
    allow: Collection[str],
    stop: threading.Event,
) -> tuple[dict[str, Any], bytes | None]:
    """Return the row of a URL and the image to save, or None if it has no image."""
    row: dict[str, Any] = {"url": url, "status": "failed_to_download", "outcome": fetched.OK, "attempt": attempt}
    limits = fetch.Limits(settings.max_bytes, timeout=settings.timeout, opt_out=settings.opt_out)
    try:
        with host:
            body = make_retry_policy(ATTEMPTS, stop, abandons=True)(fetch.get, url, limits, allow)
        row |= {"status": "failed_to_resize", "sha256": hashlib.sha256(body).hexdigest()}
        image, sizes = encode_image(body, settings)
        return row | sizes | {"status": "success"}, image
    except RequestError as failed:
        row |= {"outcome": failed.outcome, "error_message": f"{failed.outcome}: {failed}"[:300]}
    except Exception as error:  # Errors of one server must not stop the requests to others.
        row |= {"outcome": "failed", "error_message": f"failed: {type(error).__name__}: {error}"[:300]}
    return row, None


def encode_image(data: bytes, settings: DownloadSettings) -> tuple[bytes, dict[str, int]]:
    """Return the JPEG to save, and widths and heights in pixels. Raises RequestError: ``data`` is not an image."""
    try:
        with _DECODING, image_files.open_image(data, settings.max_pixels) as image:
            (width, height), buffer = image.size, BytesIO()
            resized = image_files.fit_image(image, settings.max_side)
            resized.save(buffer, "JPEG", quality=JPEG_QUALITY)
    except image_files.ImageDecodeError as error:
        raise RequestError(error.reason.replace(" ", "_"), str(error)) from None
    sizes = {"width": resized.width, "height": resized.height, "original_width": width, "original_height": height}
    return buffer.getvalue(), sizes


def _update_hosts(rows: Sequence[Mapping[str, Any]], new_urls: Collection[str], any_reached: bool) -> bool:
    """Return whether a host in ``rows`` was reached; ``any_reached`` states whether another host ever was.

    Raises RunError: The network is unavailable, because no host of ``new_urls``, which are requested for the first
    time, was reached. If another host was reached before, a few unreachable hosts are no error.
    """
    requested = [row for row in rows if row["outcome"] not in _NOT_REQUESTED]
    hosts = {_host(row["url"]) for row in requested if row["url"] in new_urls}
    is_silent = all(row["outcome"] in _UNREACHED for row in requested)
    if is_silent and hosts and (len(hosts) >= _SILENT_HOSTS or not any_reached):
        raise RunError(
            f"None of {len(hosts)} hosts could be reached; the last error is: {requested[-1]['error_message']}. These "
            "URLs count as not requested. Run again with a network connection that needs no proxy."
        )
    return not is_silent
