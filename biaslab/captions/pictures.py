"""A picture out of what a server sent: opened by its content, looked at before it is decoded, and saved plainly."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING

from biaslab.ground import pictures
from biaslab.net.retry import Failed

if TYPE_CHECKING:
    from PIL import Image

    from biaslab.captions.settings import DownloadSettings

# Endings of files and what Pillow calls the format.
SAVED = {"jpg": "JPEG", "webp": "WEBP", "png": "PNG"}
# A picture of more pixels is decoded alone.
_LARGE = 4_000_000


class Decoder:
    """Makes pictures in threads of its own: one for large ones, so that there is one at a time, and a few for others.

    Of its own, because memory that a thread frees is kept for that thread.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._small = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="decode")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="decode-large")

    def close(self) -> None:
        """Decode nothing more."""
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)

    def picture(self, data: bytes) -> tuple[bytes, int, int]:
        """Return the picture to save, and the width and height in pixels of what came.

        Raises:
            Failed: It is none.
        """
        try:
            with pictures.opened(data, self._settings.most_pixels) as image:
                width, height = image.size
                pool = self._large if width * height > _LARGE else self._small
                return pool.submit(_made, image, self._settings).result(), width, height
        except pictures.NoPictureError as error:
            raise Failed(error.reason.replace(" ", "_"), str(error)) from None


def _made(image: Image.Image, settings: DownloadSettings) -> bytes:
    """Return an image as it is saved: small, as it is shown."""
    whole = BytesIO()
    options = {} if settings.format == "png" else {"quality": settings.quality}
    pictures.shown(image, settings.size).save(whole, SAVED[settings.format], **options)
    return whole.getvalue()
