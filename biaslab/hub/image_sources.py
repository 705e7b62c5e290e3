"""The interface of image sources, and folders of image files.

An image is ``uint8 (height, width, 3)`` RGB, or an :class:`UnreadableImage` with a reason.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.hub import registry
from biaslab.io import folders
from biaslab.io.image_files import HEIF_ENDINGS, MAX_BYTES, NOT_READ, UnreadableImage, decode, endings
from biaslab.io.plaintext import normalize


class ImageSource(Protocol):
    """A source of images: files, a corpus, or a model that generates them."""

    name: str  # The name of the source in messages.
    digest: str  # Identifies the images: results computed from them are recomputed when it changes.
    table: pd.DataFrame  # One row per image, with at least ``image_id`` (unique texts).
    image_domain: str  # One of :data:`biaslab.hub.registry.IMAGE_DOMAINS`; photographs if a source lacks it.

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return the images in the order of ``image_ids``."""


def domain_of(images: ImageSource) -> str:
    """Return the domain of the images of a source; photographs if the source does not state it."""
    return getattr(images, "image_domain", registry.PHOTOGRAPHS)


class FolderImages:
    """The images in a folder, at any depth; an image's id is its path below the folder, with forward slashes.

    ``not_read`` lists the images in formats that are not read, such as HEIC, and ``links_out`` the links that lead out
    of the folder and are not followed. ``states_domain`` is whether the folder declares the domain of its images; they
    are photographs by default.

    Raises InputError where the folder is missing, or no file in it has the suffix of an image.
    """

    def __init__(self, path: str | Path) -> None:
        folder = self._root = Path(path).expanduser()
        if not folder.is_dir():
            raise InputError(f"{path} is not a folder; specify a folder of images.")
        files = folders.files(folder, (*endings(), *NOT_READ, *HEIF_ENDINGS))
        self.links_out = files.links_out
        self._files = {name: file for name, file in files.items() if name.lower().endswith(endings())}
        self.not_read = [name for name in files if name not in self._files]
        if not self._files:
            description = _describe_unread(self.not_read) if self.not_read else ""
            problem = f"{path} contains no file that ends in {', '.join(endings())}."
            raise InputError(" ".join(filter(None, [problem, description, files.remark])))
        self.name, self.image_domain = folder.name, registry.image_domain(folder)
        self.states_domain = (folder / registry.DOMAIN_FILE).is_file()
        self.table = pd.DataFrame({"image_id": list(self._files)})
        digest = hashlib.sha256()
        for image_id, file in self._files.items():
            stat = file.stat()
            digest.update(f"{image_id}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        self.digest = digest.hexdigest()

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return the images in the order of ``image_ids``."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return list(pool.map(_read_file, map(self._files.get, image_ids)))

    @cached_property
    def other_files(self) -> list[str]:
        """The files of the folder without the suffix of an image."""
        return folders.other_files(self._root, (*endings(), *NOT_READ, *HEIF_ENDINGS))


def _describe_unread(names: Sequence[str]) -> str:
    suffixes = sorted({Path(name).suffix.lower() for name in names})
    alternative = ", or install biaslab[heif]" if {*suffixes} & {*HEIF_ENDINGS} else ""
    return (
        f"Images in unsupported formats ({', '.join(suffixes)}) are excluded: {len(names):,}, such as "
        f"{names[0]}. Convert them to PNG or JPEG{alternative}."
    )


def _read_file(file: Path | None) -> np.ndarray | UnreadableImage:
    if file is None:
        return UnreadableImage("missing")
    try:
        return UnreadableImage("too large") if file.stat().st_size > MAX_BYTES else decode(file.read_bytes())
    except FileNotFoundError:
        return UnreadableImage("missing")
    except OSError:
        return UnreadableImage("cannot be opened")


def check_image(image: object, label: str) -> np.ndarray:
    """Return ``image`` if it is ``uint8 (height, width, 3)`` with at least one pixel; raises InputError if not."""
    is_array = isinstance(image, np.ndarray)
    if not is_array or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
        actual = f"{image.dtype} {image.shape}" if is_array else type(image).__name__
        raise InputError(f"{label} is {actual}; it must be a uint8 array (height, width, 3) in RGB, 0 to 255.")
    return image


class DescribedImages:
    """A source of images with another table: one row per image, with ``image_id`` and its description."""

    def __init__(self, source: ImageSource, table: pd.DataFrame) -> None:
        self.source, self.table = source, table
        self.name, self.digest, self.read = source.name, source.digest, source.read
        self.image_domain = domain_of(source)


class Subset(DescribedImages):
    """A subset of the images of a source that may have very many; each id once."""

    def __init__(self, source: ImageSource, image_ids: Sequence[str]) -> None:
        super().__init__(source, pd.DataFrame({"image_id": list(image_ids)}, dtype=object))
        self.name = f"training images of {source.name}"


class CaptionImages(FolderImages):
    """Training images in a folder, each named by its caption's id; an image without a file is ``missing``.

    The file of an id is the one at that path below the folder, with or without its suffix, or else the only one of that
    name in any subfolder. Raises InputError where an id has several files.
    """

    def __init__(self, folder: str | Path, caption_ids: Sequence[str]) -> None:
        super().__init__(folder)
        self._folder, paths = str(folder), list(self._files)
        self.a_file = Path(paths[0]).name
        name_functions = (lambda path: os.path.splitext(path)[0], str, lambda path: Path(path).stem)
        # Systems write accented names in composed or decomposed form.
        self._paths_by_name: list[dict[str, list[str]]] = [defaultdict(list) for _ in name_functions]
        for paths_by_name, name_function in zip(self._paths_by_name, name_functions, strict=True):
            for path in paths:
                paths_by_name[normalize(name_function(path))].append(path)
        self.table = pd.DataFrame({"image_id": list(caption_ids)}, dtype=object)
        for caption_id in self.table["image_id"]:
            self.has(caption_id)

    def has(self, caption_id: str) -> bool:
        """Return whether a caption's id has a file; raises InputError where it has two."""
        return self._path(caption_id) is not None

    def file(self, caption_id: str) -> Path | None:
        """Return the file of a caption's id, or None; raises InputError where it has two."""
        path = self._path(caption_id)
        return None if path is None else self._files[path]

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | UnreadableImage]:
        """Return the images in the order of ``image_ids``."""
        return super().read([self._path(image_id) for image_id in image_ids])

    def _path(self, caption_id: str) -> str | None:
        name = normalize(caption_id)
        paths = next((paths_by_name[name] for paths_by_name in self._paths_by_name if name in paths_by_name), [None])
        if len(paths) > 1:
            advice = f"{paths[0]} and {paths[1]}. Keep one, or identify images by their paths."
            raise InputError(f"{self._folder} contains two images for {caption_id!r}: {advice}")
        return paths[0]
