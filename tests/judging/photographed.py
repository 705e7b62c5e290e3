"""What is needed to try judges on pictures that look like photographs: files of packages, and the pictures."""

import importlib.util
from pathlib import Path

import pytest

from biaslab.errors import MissingInputError
from biaslab.judging.pinned import PINNED


def needs(name: str) -> None:
    """Skip the test where the package is not installed that has the file behind a name."""
    pin = PINNED[name]
    if importlib.util.find_spec(pin.module) is None:
        pytest.skip(f"the package {pin.module} is not installed: {pin.install}")


def benchmark(root: Path):
    """Return the benchmark of judges on photographs, as a module."""
    file = root / "benchmarks" / "faces_of_photographs.py"
    spec = importlib.util.spec_from_file_location("_faces_of_photographs", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pictures(root: Path):
    """Return the benchmark, its labels and its pictures; skip the test where they are not beside the project."""
    module = benchmark(root)
    try:
        return module, *module.labelled(module.folder(root))
    except MissingInputError as error:
        pytest.skip(str(error))
