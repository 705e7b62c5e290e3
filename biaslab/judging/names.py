"""Names of judges: what they begin with, and what files stand behind them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from biaslab.ground import cells, reading
from biaslab.judging import pinned, plugins
from biaslab.judging.plugins import PLUGIN
from biaslab.models import hub, registry
from biaslab.net.settings import ENDPOINT

RATINGS = "ratings:"
FILES = ("mediapipe:", "fairface:", RATINGS)
"""How names of models that judge by a file begin."""
VQA = "vqa:"
"""How names of models begin that answer questions about people."""
WHOLE = "whole image"
"""The name of a gate that lets every image pass: to judge without one, or to see what the gate changes."""
# How open_clip's own weights are named, such as ViT-L-14:openai; one letter before a colon is a drive.
_ARCHITECTURE_AND_TAG = re.compile(r"[^/\\:]{2,}:[^/\\:]+")


def files_digest(name: str, kind: str) -> str:
    """Return a digest of the files behind the name of a model; of the name where there are none here.

    Raises ParameterError where the name is unknown, MissingInputError where a package has lost its weights.
    """
    if name.startswith(PLUGIN):
        return plugins.digest(name)
    prefix = next((prefix for prefix in (*FILES, VQA) if name.startswith(prefix)), "")
    path = Path(name.removeprefix(prefix)).expanduser()
    if prefix and path.is_file():
        return file_digest(path)
    if prefix == RATINGS and path.is_dir():
        each = [(file.name, file_digest(file)) for file in cells.files(path)]
        return hashlib.sha256(json.dumps(each).encode()).hexdigest()
    if prefix:
        return registry.digest(path) if path.is_dir() else name
    if name == WHOLE or name.startswith(ENDPOINT):
        return name
    if pin := pinned.known(name, kind):
        return pin.sha256
    if _ARCHITECTURE_AND_TAG.fullmatch(name):
        return hub.digest_of_tag(name)
    return registry.digest(registry.resolve(name, kind))


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's content."""
    reading.check(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
