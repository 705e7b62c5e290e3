"""What is needed to try judges on pictures that look like photographs: files of packages, and the pictures."""

import importlib.util
import sys
from pathlib import Path

import pytest

from biaslab.errors import MissingInputError
from biaslab.judges import pinned
from biaslab.judges.pinned import PINNED


def needs(name: str) -> None:
    """Skip the test where the package is not installed that has the file behind a name."""
    pin = PINNED[name]
    if importlib.util.find_spec(pin.module) is None:
        pytest.skip(f"the package {pin.module} is not installed: {pinned.install_command(name)}")


def benchmark(root: Path, name: str):
    """Return a benchmark as a module."""
    file = root / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_{name}", file)
    module = importlib.util.module_from_spec(spec)
    # What it has in common with others lies beside it, as where it is run.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(file.parent), *sys.path])
        spec.loader.exec_module(module)
    return module


def pictures(module) -> Path:
    """Return the folder of a benchmark's pictures; skip the test where they are not beside the project."""
    try:
        return module.folder()
    except MissingInputError as error:
        pytest.skip(str(error))
