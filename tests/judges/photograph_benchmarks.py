"""Package files and images needed to test judges on photorealistic images."""

import importlib.util
import sys
from pathlib import Path

import pytest

from biaslab.errors import MissingInputError
from biaslab.judges import pinned
from biaslab.judges.pinned import PINNED


def require_package(name: str) -> None:
    """Skip the test if the package with the named file is not installed."""
    pin = PINNED[name]
    if importlib.util.find_spec(pin.module) is None:
        pytest.skip(f"the package {pin.module} is not installed: {pinned.install_command(name)}")


def benchmark(root: Path, name: str):
    """Return a benchmark as a module."""
    file = root / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_{name}", file)
    module = importlib.util.module_from_spec(spec)
    # Benchmarks import shared modules from their own folder.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(file.parent), *sys.path])
        spec.loader.exec_module(module)
    return module


def pictures(module) -> Path:
    """Return the folder of a benchmark's images; skip the test if they are not next to the project."""
    try:
        return module.folder()
    except MissingInputError as error:
        pytest.skip(str(error))
