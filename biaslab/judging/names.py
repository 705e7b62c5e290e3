"""Names of judges: what they begin with, and what files stand behind them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from biaslab import models

FILES = ("mediapipe:", "fairface:", "ratings:")
"""How names of models that judge by a file begin."""
VQA = "vqa:"
"""How names of models begin that answer questions about people."""


def files_digest(name: str, kind: str) -> str:
    """Return a digest of the files behind the name of a model; of the name where there are none here."""
    if name.startswith(FILES):
        path = Path(name.split(":", 1)[1])
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else name
    if name.startswith(VQA):
        folder = Path(name.removeprefix(VQA)).expanduser()
        return models.digest(folder) if folder.is_dir() else name
    return name if ":" in name else models.digest(models.resolve(name, kind))
