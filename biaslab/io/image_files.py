"""One decoder of images: from a folder, a download, an endpoint. Files are hostile input, and untidy.

Only common raster formats are opened, and the size that a file's header states is checked before any pixel is decoded.
What is shown is what viewers show: upright, in sRGB, on white, the first of several frames, and 8 of 16 bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image, ImageCms

_JPEG = (".jpg", ".jpeg", ".jfif", ".jpe", ".pjpeg", ".pjp")
_ENDINGS = (".png", *_JPEG, ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif")
HEIF_ENDINGS = (".heic", ".heif", ".hif")
"""Endings of images that the extra ``heif`` reads."""
NOT_READ = (".jxl", ".jp2", ".tga", ".psd", ".svg", ".dng", ".cr2", ".cr3", ".nef", ".arw")
"""Endings of images in formats that are not read."""
DARKEST = 8
"""An image is black if none of its values, 0 to 255, is above this: JPEG compression leaves black a little above 0."""
PLAIN = 0.75
"""An image is plain, as the cards are that content filters send, from this share of pixels of one color."""
MOST_PIXELS = 64_000_000
MOST_BYTES = 200_000_000
# Progressive JPEGs have about ten scans; each costs a pass over the whole image.
_MOST_SCANS = 200
_PNG = b"\x89PNG\r\n\x1a\n"
# Chunks of a PNG with texts, such as the workflow that drew it: Pillow refuses an image for a long one.
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")


@dataclass(frozen=True)
class UnreadableImage:
    """What stands in the place of an image that cannot be shown."""

    reason: str
    """Why: ``"not an image"``, ``"damaged"``, ``"too large"``, ``"no scale"`` (which is white?), ``"missing"``, …"""


class ImageDecodeError(Exception):
    """Some bytes hold no image that can be shown; ``reason`` is that of :class:`UnreadableImage`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


def decode(data: bytes, *, max_pixels: int = MOST_PIXELS, max_bytes: int = MOST_BYTES) -> np.ndarray | UnreadableImage:
    """Return the image that ``data`` (the content of a file) holds, or why there is none; nothing in it raises.

    The image is ``uint8 (height, width, 3)`` RGB, as :func:`fit_image`. More pixels or bytes than the limits are
    refused before they are decoded.
    """
    if not data:
        return UnreadableImage("empty")
    if len(data) > max_bytes:
        return UnreadableImage("too large")
    try:
        with open_image(data, max_pixels) as image:
            # A copy: what Pillow lends cannot be written to, and torch warns of that.
            return np.array(fit_image(image))
    except ImageDecodeError as error:
        return UnreadableImage(error.reason)


def is_black(image: np.ndarray) -> bool:
    """Return whether an image, ``uint8 (height, width, 3)``, is black, as content filters return it."""
    return int(image.max()) <= DARKEST


def plain_share(image: np.ndarray) -> float:
    """Return the share of pixels (0–1) of one color, of an image ``uint8 (height, width, 3)``; 1 where it is constant.

    The color is the median of each channel; values up to :data:`DARKEST` from it count as the same. Of an image with a
    side under 16 pixels it is 0: nothing tells what such an image is.
    """
    if min(image.shape[:2]) < 16:
        return 0.0
    step = max(1, min(image.shape[:2]) // 64)
    color = np.median(image[::step, ::step], axis=(0, 1)).astype(np.int16)
    return float((np.abs(image - color) <= DARKEST).all(axis=2).mean())


@cache
def _reads_heif() -> bool:
    try:
        import pillow_heif
    except ModuleNotFoundError:
        return False
    pillow_heif.register_heif_opener()
    return True


def endings() -> tuple[str, ...]:
    """Return the endings of images that are read."""
    return (*_ENDINGS, *(HEIF_ENDINGS if _reads_heif() else ()))


@cache
def formats() -> tuple[str, ...]:
    """Return the formats that are read, by Pillow's names: those that browsers show, TIFF, and HEIF by its extra."""
    from PIL import features

    more = [name for name, read in (("AVIF", features.check("avif")), ("HEIF", _reads_heif())) if read]
    return ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", *more)


@contextlib.contextmanager
def open_image(data: bytes, max_pixels: int = MOST_PIXELS) -> Iterator[Image.Image]:
    """Open the image in some bytes; its pixels are decoded when they are asked for.

    Raises ImageDecodeError: It is none, here or where pixels are asked for within, or it has more than ``max_pixels``.
    """
    from PIL import Image, UnidentifiedImageError

    # Compressed data never hold this marker, so what is counted are the scans and the markers of a thumbnail.
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _MOST_SCANS:
        raise ImageDecodeError("too large", f"a JPEG of more than {_MOST_SCANS} scans")
    try:
        with Image.open(BytesIO(_without_texts(data)), formats=formats()) as image:
            if image.width * image.height > max_pixels:
                raise ImageDecodeError("too large", f"{image.width} x {image.height} pixels")
            yield image
    except ImageDecodeError:
        raise
    except UnidentifiedImageError:
        start = data[:40].decode("ascii", "replace")
        raise ImageDecodeError("not an image", f"it begins with {start!r}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageDecodeError("too large", str(error)) from None
    # Decoders fail in many ways on damaged files; whatever they raise, this image cannot be shown.
    except Exception as error:
        reason = "truncated" if "truncated" in str(error).lower() else "damaged"
        raise ImageDecodeError(reason, f"{type(error).__name__}: {error}") from None


def fit_image(image: Image.Image, side: int | None = None) -> Image.Image:
    """Return an opened image in mode RGB as viewers show it, without metadata.

    Its EXIF orientation is applied and its colours are brought to sRGB; transparency is put on white. 16 bits a channel
    are scaled to 8, numbers of floating point from 0–1, or from 0–255 where one is above 1. With ``side`` it is made to
    fit into so many pixels of width and height, in the same pass.

    Raises ImageDecodeError: Its numbers are negative, not finite or beyond 16 bits, so nothing says which one is white.
    """
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        image = _eight_bits(_upright(image))
    profile = image.info.get("icc_profile")
    if side:
        if image.has_transparency_data and image.mode not in ("RGBA", "LA"):
            image = image.convert("RGBA")
        elif image.mode not in ("RGB", "RGBA", "L", "LA", "CMYK", "YCbCr"):
            image = image.convert("RGB")
        # Large JPEGs are decoded at a fraction of their size.
        image.thumbnail((side, side), Image.Resampling.BICUBIC)
    image = _upright(image)
    alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
    image = _in_srgb(image, profile)
    bare = Image.new("RGB", image.size, "white")
    bare.paste(image, mask=alpha)
    return bare


def _upright(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    image.load()
    # Without readable EXIF data, the orientation of an image is unknown.
    with contextlib.suppress(Exception):
        return ImageOps.exif_transpose(image)
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    from PIL import Image

    values = np.asarray(image, np.float32)
    if not np.isfinite(values).all() or values.min() < 0:
        raise ImageDecodeError("no scale", "some of its numbers are negative or not finite")
    white = 65535 if image.mode.startswith("I") else 1 if values.max() <= 1 else 255
    if values.max() > white:
        raise ImageDecodeError("no scale", f"its numbers reach {values.max():g}")
    made = Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))
    made.info = image.info
    return made


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Return an image in mode RGB, its colours by its profile; without one that fits they are sRGB's."""
    from PIL import ImageCms

    if profile and image.mode in ("RGB", "RGBA", "CMYK", "L", "LA"):
        bare = {"RGBA": "RGB", "LA": "L"}.get(image.mode, image.mode)
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            return ImageCms.applyTransform(image.convert(bare), _to_srgb(profile, bare)) or image.convert("RGB")
    return image.convert("RGB")


@lru_cache(maxsize=16)
def _to_srgb(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform:
    from PIL import ImageCms

    given = ImageCms.ImageCmsProfile(BytesIO(profile))
    return ImageCms.buildTransform(given, ImageCms.createProfile("sRGB"), mode, "RGB")


def _without_texts(data: bytes) -> bytes:
    """Return a PNG without its texts; other data as they are."""
    if not data.startswith(_PNG):
        return data
    kept, at = [_PNG], len(_PNG)
    while at + 8 <= len(data):
        # Length, kind, content, and a checksum of 4 bytes.
        end = at + 12 + int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 8] not in _PNG_TEXTS:
            kept.append(data[at:end])
        at = end
    return b"".join(kept) if len(kept) > 1 else data
