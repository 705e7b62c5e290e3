"""Fetch the images behind captions by URL, and save them as img2dataset does, for :mod:`biaslab.captions.fetched`.

Only public addresses are connected to (:mod:`biaslab.endpoints.fetch`). An image is turned upright, made smaller, put
on white where it is transparent, and saved as JPEG without metadata. A shard is written when its URLs have an outcome:
what has a lasting outcome is not fetched again, and a stopped run loses at most the shard on its way.
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
from biaslab.endpoints.endpoint import Failed, retrying
from biaslab.errors import RunError
from biaslab.execution import progress as signs
from biaslab.execution.progress import ATTEMPT
from biaslab.io import image_files

CONCURRENCY, PER_HOST, SHARD = 16, 2, 100
"""Requests at a time, in all and to one host, and URLs in a shard."""
ATTEMPTS = 3
"""Requests for one URL, whose server is busy or breaks off."""
_UNREACHED = ("no_address", "connection_failed", "timed_out")
TEMPORARY = (*_UNREACHED, "rate_limited", "server_error", "failed", fetched.MISSING)
"""Outcomes of URLs that another run requests again."""
_NOT_REQUESTED = (fetched.NO_URL, "bad_url", "refused_scheme")
# Fewer hosts that cannot be reached say nothing of this machine's network, once another host has answered.
_SILENT_HOSTS = 10
_KEPT = "Fetched images stay in the cache: {fix} and run again."
# One image at a time is decoded, because one of many pixels takes hundreds of megabytes.
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
    """Fetch what ``folder`` lacks of images and return all of them; one process at a time fetches into a folder.

    ``images`` has caption_id (unique texts) and url (empty or missing: no URL). ``attempt`` names a start of a run, in
    which outcomes in :data:`TEMPORARY` are requested once; if it is empty, they are requested by each call. ``allow``
    has addresses that may be connected to although they are not public, such as ``"127.0.0.1:8000"``: for tests.

    Raises RunError: This machine has no network, or the disk is full; complete shards stay.
    """
    with locked(folder / "shards", "fetching", kept=_KEPT):
        table = FetchedImages(folder, images).table
        again = table["status"].isin(TEMPORARY) & ((table["attempt"] != attempt) | (attempt == ""))
        other = not table["status"].isin((*TEMPORARY, *_NOT_REQUESTED)).all()
        new = dict.fromkeys(table.loc[table["status"] == fetched.MISSING, "url"])
        urls = list(new | dict.fromkeys(table.loc[again, "url"]))
        hosts: dict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(PER_HOST))
        pool, stop, done = ThreadPoolExecutor(CONCURRENCY), threading.Event(), []
        work = partial(_fetch, settings=settings, attempt=attempt, allow=allow, stop=stop)
        bar = {"total": len(urls), "desc": "fetching images", "unit": " images", "disable": not progress}
        try:
            coming = as_completed([pool.submit(work, url, hosts[_host(url)]) for url in urls])
            with signs.bar(iterable=coming, **bar) as shown:
                for n, future in enumerate(shown, 1):
                    done.append(future.result())
                    if len(done) == SHARD or n == len(urls):
                        other |= _update_hosts([row for row, _ in done], new, other)
                        with explain_errors(folder, _KEPT):
                            fetched.write(folder, done)
                        done = []
        finally:
            # After an error or Ctrl-C, requests under way end within their limits and save nothing.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return FetchedImages(folder, images)


def fetch_images(
    captions: pd.DataFrame, folder: str, settings: DownloadSettings, *, cache: ResultCache, progress: bool = True
) -> FetchedImages:
    """Return the images behind captions (caption_id and url), as :func:`download` keeps them in ``cache``.

    Where ``folder`` is an output of img2dataset, they are its images, and nothing is fetched.
    """
    images = captions[["caption_id", "url"]].drop_duplicates("caption_id")
    if folder != DOWNLOAD:
        return FetchedImages(folder, images)
    attempt = os.path.basename(os.environ.get(ATTEMPT, ""))
    # Fetched images are kept for every corpus alike.
    kept = cache.root / "downloads" / settings.digest
    return download(images, kept, settings, attempt=attempt, progress=progress)


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
    """Return the row of a URL and the image to save, or None where there is none."""
    row: dict[str, Any] = {"url": url, "status": "failed_to_download", "outcome": fetched.OK, "attempt": attempt}
    limits = fetch.Limits(settings.max_bytes, timeout=settings.timeout, opt_out=settings.opt_out)
    try:
        with host:
            body = retrying(ATTEMPTS, stop, abandons=True)(fetch.get, url, limits, allow)
        row |= {"status": "failed_to_resize", "sha256": hashlib.sha256(body).hexdigest()}
        image, sizes = encode_image(body, settings)
        return row | sizes | {"status": "success"}, image
    except Failed as failed:
        row |= {"outcome": failed.outcome, "error_message": f"{failed.outcome}: {failed}"[:300]}
    except Exception as error:  # Whatever one server causes, the others are requested.
        row |= {"outcome": "failed", "error_message": f"failed: {type(error).__name__}: {error}"[:300]}
    return row, None


def encode_image(data: bytes, settings: DownloadSettings) -> tuple[bytes, dict[str, int]]:
    """Return the JPEG to save, and widths and heights in pixels. Raises Failed: ``data`` holds no image."""
    try:
        with _DECODING, image_files.open_image(data, settings.max_pixels) as image:
            (width, height), whole = image.size, BytesIO()
            made = image_files.fit_image(image, settings.max_side)
            made.save(whole, "JPEG", quality=JPEG_QUALITY)
    except image_files.ImageDecodeError as error:
        raise Failed(error.reason.replace(" ", "_"), str(error)) from None
    sizes = {"width": made.width, "height": made.height, "original_width": width, "original_height": height}
    return whole.getvalue(), sizes


def _update_hosts(rows: Sequence[Mapping[str, Any]], new: Collection[str], other: bool) -> bool:
    """Return whether a host in ``rows`` was reached; ``other`` states whether another host ever was.

    Raises RunError: There is no network, because no host of the ``new`` URLs was reached, which are requested for the
    first time. A few hosts may be gone, where another host was reached.
    """
    requested = [row for row in rows if row["outcome"] not in _NOT_REQUESTED]
    hosts = {_host(row["url"]) for row in requested if row["url"] in new}
    silent = all(row["outcome"] in _UNREACHED for row in requested)
    if silent and hosts and (len(hosts) >= _SILENT_HOSTS or not other):
        raise RunError(
            f"None of {len(hosts)} hosts could be reached; the last ended as {requested[-1]['error_message']}. These "
            "URLs count as not requested: run again with a network where hosts are reached without a proxy."
        )
    return not silent
