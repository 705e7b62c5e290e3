"""The captions of Conceptual Captions' validation split, if the file is present."""

import gzip
import os
from pathlib import Path

import pytest


def captions(root: Path) -> list[str]:
    """Return all captions, or skip the test."""
    path = Path(os.environ.get("BIASLAB_GCC") or root.parent / "shared/data/gcc_validation_captions.txt.gz")
    if not path.exists():
        pytest.skip(f"{path} is not there; BIASLAB_GCC names the file of GCC's validation captions, one a line")
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return text.removesuffix("\n").split("\n")
