"""Names of judges: what they begin with, and what files stand behind them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from biaslab.endpoints.settings import ENDPOINT
from biaslab.errors import MissingInputError, ParameterError
from biaslab.hub import huggingface, registry
from biaslab.io import cells, reading
from biaslab.judges import pinned, plugins
from biaslab.judges.plugins import PLUGIN

ANNOTATIONS = "annotations:"
FILES = ("mediapipe:", "fairface:", ANNOTATIONS)
"""How names of models that judge by a file begin."""
VQA = "vqa:"
"""How names of models begin that answer questions about people."""
WHOLE_IMAGE = "whole image"
"""The name of a gate that lets every image pass: to judge without one, or to see what the gate changes."""
NONE = "none"
"""The segmenter of boxes alone."""
TRUTH = "truth"
"""The name of what finds objects without error, in images that are drawn from known truth."""
GROUNDED = "grounded:"
"""How the name of a tagger, a detector and a segmenter begins, which are joined by ``+``."""
PARTS = ("tagger", "grounding", "masks")
"""The kinds of its parts, as of :data:`biaslab.hub.registry.HUB`."""
_INSTANCES = (".csv", ".parquet", ".pq")
# How open_clip's own weights are named, such as ViT-L-14:openai; one letter before a colon is a drive.
_ARCHITECTURE_AND_TAG = re.compile(r"[^/\\:]{2,}:[^/\\:]+")


def files_digest(name: str, kind: str) -> str:
    """Return a digest of the files behind the name of a model; of the name where there are none here. ParameterError
    where the name is unknown, MissingInputError where a file is not there.
    """
    if name.startswith(PLUGIN):
        return plugins.digest(name)
    prefix = next((prefix for prefix in (*FILES, VQA) if name.startswith(prefix)), "")
    path = Path(name.removeprefix(prefix)).expanduser()
    if prefix and path.is_file():
        return file_digest(path)
    if prefix == ANNOTATIONS and path.is_dir():
        each = [(file.name, file_digest(file)) for file in cells.files(path)]
        return hashlib.sha256(json.dumps(each).encode()).hexdigest()
    if prefix:
        return registry.digest(path) if path.is_dir() else name
    if name in (WHOLE_IMAGE, TRUTH, NONE) or name.startswith(ENDPOINT):
        return name
    if kind == "segmenter" and is_file(name):
        if not path.is_file():
            raise MissingInputError(
                f"triplets.objects is {name!r}, and there is no such file; give a CSV or Parquet file."
            )
        return file_digest(path)
    if name.startswith(GROUNDED):
        return " ".join(map(files_digest, parts(name), PARTS))
    if pin := pinned.find_pinned(name, kind):
        return pin.sha256
    if kind == "clip" and _ARCHITECTURE_AND_TAG.fullmatch(name):
        return huggingface.digest_of_tag(name)
    return registry.digest(registry.resolve(name, kind))


def parts(name: str) -> tuple[str, str, str]:
    """Return tagger, detector and segmenter of ``grounded:TAGGER+DETECTOR+SEGMENTER``; ParameterError without them."""
    names = name.removeprefix(GROUNDED).split("+")
    if len(names) != 3 or not all(names):
        example = GROUNDED + "+".join(registry.HUB[kind][0] for kind in PARTS)
        raise ParameterError(
            f"triplets.objects is {name!r}; give {GROUNDED}TAGGER+DETECTOR+SEGMENTER, such as {example}, the last of "
            f"them {NONE!r} for boxes alone."
        )
    return names[0], names[1], names[2]


def is_file(name: str) -> bool:
    """Return whether ``name`` is that of a file of instances, CSV or Parquet."""
    return name.lower().endswith(_INSTANCES)


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's content."""
    reading.check(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
