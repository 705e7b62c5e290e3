"""What a source of images is, and two simple ones: a folder of files and arrays in memory.

An image is ``uint8 (height, width, 3)`` RGB. What cannot be shown as one is :class:`Unreadable`, with a
reason: it stays in every table as an image that was not judged. Files are hostile input: only common raster
formats are opened, and the size that a file's header states is checked before any pixel is decoded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from biaslab.errors import InputError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
BLOCKED = "blocked"
"""The reason of an image that a model's safety checker withheld."""
MOST_PIXELS = 64_000_000
MOST_BYTES = 200_000_000


@dataclass(frozen=True)
class Unreadable:
    """What stands in the place of an image that cannot be shown."""

    reason: str
    """Why: ``"not an image"``, ``"truncated"``, ``"damaged"``, ``"too large"``, ``"missing"``,
    ``"blocked"``, …"""


class ImageSource(Protocol):
    """Where images come from: files, a corpus, or a model that generates them."""

    name: str
    """What to call the source in messages."""
    digest: str
    """Identifies the images: what is computed from them is computed again when it changes."""
    table: pd.DataFrame
    """One row per image, with at least ``image_id`` (unique texts)."""

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for."""
        ...


def decode(
    data: bytes, *, most_pixels: int = MOST_PIXELS, most_bytes: int = MOST_BYTES
) -> np.ndarray | Unreadable:
    """Return the image that ``data`` (the content of a file) holds, or why there is none.

    Photos are turned upright as their EXIF orientation says, transparency is put on white, and of several
    frames the first is taken. Nothing in ``data`` raises.

    Args:
        data: The content of a PNG, JPEG, WebP, BMP, GIF or TIFF file.
        most_pixels: More pixels than this are refused before they are decoded.
        most_bytes: More bytes than this are refused.

    Returns:
        ``uint8 (height, width, 3)`` RGB, or :class:`Unreadable`.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not data:
        return Unreadable("empty")
    if len(data) > most_bytes:
        return Unreadable("too large")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > most_pixels:
                return Unreadable("too large")
            image.load()
            image = ImageOps.exif_transpose(image)
            if image.has_transparency_data:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            # A copy: what Pillow lends cannot be written to, and torch warns of that.
            return np.array(image.convert("RGB"))
    except UnidentifiedImageError:
        return Unreadable("not an image")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return Unreadable("too large")
    # Decoders fail in many ways on damaged files; whatever they raise, this image cannot be shown.
    except Exception as error:
        return Unreadable("truncated" if "truncated" in str(error).lower() else "damaged")


class FolderImages:
    """The images in a folder; an image's id is its path below the folder, with forward slashes.

    Args:
        path: The folder.
        pattern: Which files, as in :meth:`pathlib.Path.glob`. Empty takes every file at any depth that ends
            like an image; what a given pattern names is taken whatever its ending.
        most_pixels: Images with more pixels are :class:`Unreadable`, without being decoded.

    Raises:
        InputError: There is no such folder, or no file fits.
    """

    def __init__(self, path: str | Path, pattern: str = "", *, most_pixels: int = MOST_PIXELS) -> None:

        self.path = Path(path).expanduser()
        if not self.path.is_dir():
            raise InputError(f"{path} is not a folder; give a folder that holds images.")
        found = sorted(p for p in self.path.glob(pattern or "**/*") if p.is_file())
        if not pattern:
            found = [p for p in found if p.suffix.lower() in ENDINGS]
        if not found:
            wanted = f"matches {pattern!r}" if pattern else f"ends in {', '.join(ENDINGS)}"
            raise InputError(f"{path} holds no file that {wanted}.")
        self.name = self.path.name
        self.table = pd.DataFrame({"image_id": [p.relative_to(self.path).as_posix() for p in found]})
        self._files = dict(zip(self.table["image_id"], found, strict=True))
        self._most_pixels = most_pixels
        whole = hashlib.sha256(str(most_pixels).encode())
        for image_id, file in self._files.items():
            state = file.stat()
            whole.update(f"{image_id}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        self.digest = whole.hexdigest()

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for; files are decoded side by side.

        Raises:
            InputError: An id is not in the table.
        """
        files = [_known(self._files, image_id, self.name) for image_id in image_ids]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(self._read_one, files))

    def _read_one(self, file: Path) -> np.ndarray | Unreadable:
        try:
            if file.stat().st_size > MOST_BYTES:
                return Unreadable("too large")
            return decode(file.read_bytes(), most_pixels=self._most_pixels)
        except FileNotFoundError:
            return Unreadable("missing")
        except OSError:
            return Unreadable("cannot be opened")


class ArrayImages:
    """Images in memory as a source.

    Args:
        images: ``uint8 (n, height, width, 3)`` RGB, or a sequence of such images of any sizes, in which
            :class:`Unreadable` may stand for one that is missing.
        image_ids: Unique texts, one per image; by default ``"0"``, ``"1"``, …
        table: Further columns, one row per image, in the images' order.
        name: What to call the source.

    Raises:
        InputError: An image has another shape or type, or the numbers do not fit together.
    """

    def __init__(
        self,
        images: np.ndarray | Sequence[np.ndarray | Unreadable],
        image_ids: Sequence[str] | None = None,
        *,
        table: pd.DataFrame | None = None,
        name: str = "arrays",
    ) -> None:

        ids = [str(k) for k in range(len(images))] if image_ids is None else [str(k) for k in image_ids]
        if len(ids) != len(images) or (table is not None and len(table) != len(images)):
            rows = "" if table is None else f" and {len(table)} rows of table"
            raise InputError(f"There are {len(images)} images but {len(ids)} ids{rows}; give one for each.")
        if len(set(ids)) < len(ids):
            twice = next(k for k in ids if ids.count(k) > 1)
            raise InputError(f"image id {twice!r} stands for two images; ids must be unique.")
        self.name = name
        further = {} if table is None else {c: table[c].to_numpy() for c in table if c != "image_id"}
        self.table = pd.DataFrame({"image_id": pd.Series(ids, dtype=object), **further})
        whole = hashlib.sha256()
        for image_id, image in zip(ids, images, strict=True):
            whole.update(image_id.encode())
            if isinstance(image, Unreadable):
                whole.update(image.reason.encode())
            else:
                image = check_image(image, f"image {image_id!r}")
                whole.update(str(image.shape).encode() + np.ascontiguousarray(image).tobytes())
        self.digest = whole.hexdigest()
        self._images = dict(zip(ids, images, strict=True))

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for.

        Raises:
            InputError: An id is not in the table.
        """
        return [_known(self._images, image_id, self.name) for image_id in image_ids]


def check_image(image: object, what: str = "an image") -> np.ndarray:
    """Return ``image`` if it is ``uint8 (height, width, 3)`` with at least one pixel.

    Raises:
        InputError: It has another type or shape.
    """
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3:
        shape = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"{what} is {shape}; images are uint8 arrays (height, width, 3) in RGB, 0 to 255.")
    if image.shape[2] != 3 or not image.size:
        raise InputError(f"{what} has the shape {image.shape}; images have the shape (height, width, 3).")
    return image


def _known(kept: dict, image_id: str, name: str):
    try:
        return kept[image_id]
    except KeyError:
        raise InputError(f"{name} has no image {image_id!r}; its table lists those it has.") from None


class DescribedImages:
    """A source of images with a table that says what each image belongs to.

    Args:
        source: Where the images come from.
        table: One row per image and what it belongs to, with ``image_id``.
    """

    def __init__(self, source: ImageSource, table: pd.DataFrame) -> None:
        self.source = source
        self.name, self.digest = source.name, source.digest
        self.table = table

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for."""
        return self.source.read(image_ids)


class Subset:
    """Some images of a source that may have very many.

    Args:
        source: Where the images come from; its own table is not looked at.
        image_ids: Which images, each once.
    """

    def __init__(self, source: ImageSource, image_ids: Sequence[str]) -> None:
        self.name, self.digest = f"training images of {source.name}", source.digest
        self.table = pd.DataFrame({"image_id": list(image_ids)}, dtype=object)
        self.read = source.read


class CaptionImages:
    """Training images in a folder, at any depth, each named by its caption's id.

    Args:
        folder: The folder.
        caption_ids: The captions, each once; one without a file is :class:`Unreadable` (``missing``).

    Raises:
        InputError: There is no such folder, or it holds no image.
    """

    def __init__(self, folder: str, caption_ids: Sequence[str]) -> None:
        self._files = FolderImages(folder)
        self._of = {Path(image_id).stem: image_id for image_id in self._files.table["image_id"]}
        self.name, self.digest = self._files.name, self._files.digest
        self.table = pd.DataFrame({"image_id": list(caption_ids)}, dtype=object)

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images of captions in the order asked for."""
        there = [i for i in image_ids if i in self._of]
        read = dict(zip(there, self._files.read([self._of[i] for i in there]), strict=True))
        return [read.get(i, Unreadable("missing")) for i in image_ids]
