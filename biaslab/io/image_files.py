"""Decoder of images from folders, downloads and endpoints, which are untrusted input.

Only common raster formats are opened, and the size in a file's header is checked before any pixel is decoded. The
result is what viewers show: upright, in sRGB, on white, the first of several frames, and 8 bits per channel.
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
"""Extensions of images that need the extra ``heif``."""
NOT_READ = (".jxl", ".jp2", ".tga", ".psd", ".svg", ".dng", ".cr2", ".cr3", ".nef", ".arw")
"""Extensions of image formats that are not supported."""
DARKEST = 8
"""An image is black if none of its values (0 to 255) is above this, because JPEG compression changes black slightly."""
PLAIN_SHARE = 0.75
"""An image is plain, like placeholders from content filters, if at least this share of its pixels has one color."""
MAX_PIXELS = 64_000_000
MAX_BYTES = 200_000_000
# Progressive JPEGs have about ten scans; each takes a pass over the whole image.
_MOST_SCANS = 200
_PNG = b"\x89PNG\r\n\x1a\n"
# Chunks of a PNG with texts, such as the workflow that generated it; Pillow rejects images with long ones.
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")


@dataclass(frozen=True)
class UnreadableImage:
    """Placeholder for an image that cannot be shown."""

    reason: str
    """``"not an image"``, ``"damaged"``, ``"too large"``, ``"no scale"`` (unknown white point), ``"missing"``, …"""


class ImageDecodeError(Exception):
    """Bytes cannot be decoded as an image; ``reason`` is that of :class:`UnreadableImage`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES) -> np.ndarray | UnreadableImage:
    """Return the image in ``data`` (the content of a file), or the reason why it is unreadable; never raises.

    The image is ``uint8 (height, width, 3)`` RGB, as from :func:`fit_image`. Images with more pixels or bytes than the
    limits are rejected before they are decoded.
    """
    if not data:
        return UnreadableImage("empty")
    if len(data) > max_bytes:
        return UnreadableImage("too large")
    try:
        with open_image(data, max_pixels) as image:
            # A copy, because Pillow's array is read-only, about which torch warns.
            return np.array(fit_image(image))
    except ImageDecodeError as error:
        return UnreadableImage(error.reason)


def is_black(image: np.ndarray) -> bool:
    """Return whether an image, ``uint8 (height, width, 3)``, is black, as content filters return it."""
    return int(image.max()) <= DARKEST


def plain_share(image: np.ndarray) -> float:
    """Return the share of pixels (0–1) of one colour in an image ``uint8 (height, width, 3)``; 1 if it is constant.

    The colour is the median of each channel; values up to :data:`DARKEST` from it count as the same. The share is 0 for
    images with a side under 16 pixels, which are too small to decide.
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
    """Return the extensions of supported images."""
    return (*_ENDINGS, *(HEIF_ENDINGS if _reads_heif() else ()))


@cache
def formats() -> tuple[str, ...]:
    """Return Pillow's names of supported formats: those that browsers show, TIFF, and HEIF with its extra."""
    from PIL import features

    extra = [name for name, is_supported in (("AVIF", features.check("avif")), ("HEIF", _reads_heif())) if is_supported]
    return ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", *extra)


@contextlib.contextmanager
def open_image(data: bytes, max_pixels: int = MAX_PIXELS) -> Iterator[Image.Image]:
    """Open the image in ``data``; its pixels are decoded when they are accessed.

    Raises ImageDecodeError: The data are not an image or are damaged, also when pixels are accessed in the context; or
    the image has more than ``max_pixels``.
    """
    from PIL import Image, UnidentifiedImageError

    # Compressed data never contain this marker, so the count is that of scans, including those of a thumbnail.
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _MOST_SCANS:
        raise ImageDecodeError("too large", f"a JPEG of more than {_MOST_SCANS} scans")
    try:
        with Image.open(BytesIO(_strip_texts(data)), formats=formats()) as image:
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
    # Decoders raise errors of many types for damaged files.
    except Exception as error:
        reason = "truncated" if "truncated" in str(error).lower() else "damaged"
        raise ImageDecodeError(reason, f"{type(error).__name__}: {error}") from None


def fit_image(image: Image.Image, side: int | None = None) -> Image.Image:
    """Return an opened image in mode RGB as viewers show it, without metadata.

    The EXIF orientation is applied, colours are converted to sRGB, and transparency is put on white. 16 bits per
    channel are scaled to 8, floating-point numbers from 0–1, or from 0–255 if one is above 1. With ``side`` the image
    is scaled down to fit into that number of pixels of width and height, in the same pass.

    Raises ImageDecodeError: Its numbers are negative, not finite or beyond 16 bits, so that the white point is unknown.
    """
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        image = _to_eight_bits(_apply_orientation(image))
    profile = image.info.get("icc_profile")
    if side:
        if image.has_transparency_data and image.mode not in ("RGBA", "LA"):
            image = image.convert("RGBA")
        elif image.mode not in ("RGB", "RGBA", "L", "LA", "CMYK", "YCbCr"):
            image = image.convert("RGB")
        # Large JPEGs are decoded at a fraction of their size.
        image.thumbnail((side, side), Image.Resampling.BICUBIC)
    image = _apply_orientation(image)
    alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
    image = _convert_to_srgb(image, profile)
    canvas = Image.new("RGB", image.size, "white")
    canvas.paste(image, mask=alpha)
    return canvas


def _apply_orientation(image: Image.Image) -> Image.Image:
    from PIL import ImageOps

    image.load()
    # Without readable EXIF data, the orientation of an image is unknown.
    with contextlib.suppress(Exception):
        return ImageOps.exif_transpose(image)
    return image


def _to_eight_bits(image: Image.Image) -> Image.Image:
    from PIL import Image

    values = np.asarray(image, np.float32)
    if not np.isfinite(values).all() or values.min() < 0:
        raise ImageDecodeError("no scale", "some of its numbers are negative or not finite")
    white = 65535 if image.mode.startswith("I") else 1 if values.max() <= 1 else 255
    if values.max() > white:
        raise ImageDecodeError("no scale", f"its numbers reach {values.max():g}")
    converted = Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))
    converted.info = image.info
    return converted


def _convert_to_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Return an image in mode RGB, with colours converted by its profile; without a valid profile, sRGB is assumed."""
    from PIL import ImageCms

    if profile and image.mode in ("RGB", "RGBA", "CMYK", "L", "LA"):
        mode = {"RGBA": "RGB", "LA": "L"}.get(image.mode, image.mode)
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            return ImageCms.applyTransform(image.convert(mode), _to_srgb(profile, mode)) or image.convert("RGB")
    return image.convert("RGB")


@lru_cache(maxsize=16)
def _to_srgb(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform:
    from PIL import ImageCms

    source = ImageCms.ImageCmsProfile(BytesIO(profile))
    return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")


def _strip_texts(data: bytes) -> bytes:
    """Return a PNG without its texts; other data are unchanged."""
    if not data.startswith(_PNG):
        return data
    chunks, offset = [_PNG], len(_PNG)
    while offset + 8 <= len(data):
        # Length, kind, content, and a checksum of 4 bytes.
        end = offset + 12 + int.from_bytes(data[offset : offset + 4])
        if data[offset + 4 : offset + 8] not in _PNG_TEXTS:
            chunks.append(data[offset:end])
        offset = end
    return b"".join(chunks) if len(chunks) > 1 else data
