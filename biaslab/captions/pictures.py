"""A picture out of what a server sent: opened by its content, looked at before it is decoded, and saved plainly."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image, ImageOps, UnidentifiedImageError

from biaslab.net.retry import Failed

if TYPE_CHECKING:
    from biaslab.captions.settings import DownloadSettings

# Formats that browsers show and Pillow reads without a large library behind it; the content decides, not the header.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
# Endings of files and what Pillow calls the format.
SAVED = {"jpg": "JPEG", "webp": "WEBP", "png": "PNG"}
# A picture of more pixels is decoded alone.
_LARGE = 4_000_000
# Progressive JPEGs have about ten scans; each costs a pass over the whole picture.
_MOST_SCANS = 200


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
        # Compressed data never hold this marker, so what is counted are the scans and the markers of a thumbnail.
        if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _MOST_SCANS:
            raise Failed("too_large", f"a JPEG of more than {_MOST_SCANS} scans")
        try:
            with Image.open(BytesIO(data), formats=_FORMATS) as image:
                width, height = image.size
                if width * height > self._settings.most_pixels:
                    raise Failed("too_large", f"{width} x {height} pixels")
                pool = self._large if width * height > _LARGE else self._small
                return pool.submit(_made, image, self._settings).result(), width, height
        except UnidentifiedImageError:
            start = data[:40].decode("ascii", "replace")
            raise Failed("not_an_image", f"it begins with {start!r}") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise Failed("too_large", str(error)) from None
        except Failed:
            raise
        # Decoders fail in many ways on damaged files; whatever they raise, there is no image.
        except Exception as error:
            truncated = "truncated" in str(error).lower()
            raise Failed(
                "truncated" if truncated else "damaged", f"{type(error).__name__}: {error}"
            ) from None


def _made(image: Image.Image, settings: DownloadSettings) -> bytes:
    """Return an image as it is saved: small, upright, on white, without metadata."""
    deep = image.mode.startswith("I")  # 16 bits a pixel
    if deep:
        image = image.convert("I")
    elif image.has_transparency_data and image.mode not in ("RGBA", "LA"):
        image = image.convert("RGBA")
    elif image.mode not in ("RGB", "RGBA", "L", "LA", "CMYK", "YCbCr"):
        image = image.convert("RGB")
    # Large JPEGs are decoded at a fraction of their size.
    image.thumbnail((settings.size, settings.size), Image.Resampling.BICUBIC)
    image.load()
    image = ImageOps.exif_transpose(image)
    if deep:
        image = image.point(lambda v: v * (1 / 256)).convert("L")
    if image.mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    plain = Image.new("RGB", image.size)
    plain.paste(image.convert("RGB"))
    whole = BytesIO()
    options = {} if settings.format == "png" else {"quality": settings.quality}
    plain.save(whole, SAVED[settings.format], **options)
    return whole.getvalue()
