"""What judges need, looked up before anything of theirs is loaded: packages, files, names, kinds of models, weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from biaslab.endpoints.settings import ENDPOINT
from biaslab.errors import MissingInputError, ParameterError
from biaslab.hub import registry, repositories, safety
from biaslab.hub.repositories import Located, Repository
from biaslab.judges import (
    blip,
    faces,
    fairface,
    features,
    grounded_sam,
    inception,
    objects,
    pinned,
    plugins,
    segmentation,
)
from biaslab.judges.fairface import FAIRFACE
from biaslab.judges.judge_names import (
    ANNOTATIONS,
    FILES,
    GROUNDED,
    NONE,
    PARTS,
    PLUGIN,
    TRUTH,
    VQA,
    WHOLE_IMAGE,
    is_file,
    parts,
)
from biaslab.judges.zero_shot import look_up as look_up_clip


def look_up(name: str, kind: str) -> list[Located]:
    """Return the models behind the name of a judge, as the settings have it; none where it needs no weights.

    ``kind`` is a key of :data:`biaslab.hub.registry.HUB`; of what has a prefix, that decides. Raises ParameterError,
    InputError or UnknownNameError where it is not to be had or of another kind, MissingInputError where a package or a
    file is not there.
    """
    if name in (WHOLE_IMAGE, TRUTH, NONE) or name.startswith(ENDPOINT):
        return []
    if name.startswith(PLUGIN):
        plugins.known_domain(name)
        return []
    if name.startswith(inception.INCEPTION):
        inception.check_weights(name.removeprefix(inception.INCEPTION))
        return []
    if name.startswith(FILES):
        _check_file(name)
        return []
    if pinned.find_pinned(name, kind):
        return [pinned.look_up(name)]
    if kind == "segmenter" and is_file(name):
        segmentation.read(name)
        return []
    if name.startswith(GROUNDED):
        each = zip(parts(name), PARTS, strict=True)
        return [located for part, of in each for located in look_up(part, of)]
    if name.startswith(VQA):
        name, kind = name.removeprefix(VQA), "vqa"
    # Whoever brings a model says of which kind it is.
    if registry.find_plugin(name, kind):
        return [repositories.look_up(name, kind).with_weights()]
    if kind == "clip":
        return [look_up_clip(name)]
    repository = repositories.look_up(name, kind, features.find_network(name) if kind == "features" else "")
    _check_kind(repository)
    return [repository.with_weights()]


def _check_file(name: str) -> None:
    """Refuse the name of a judge whose file, or package, is not there."""
    path = os.path.expanduser(name.split(":", 1)[1])
    # Ratings may be a folder of files, one an annotator.
    there = os.path.exists if name.startswith(ANNOTATIONS) else os.path.isfile
    if not there(path):
        where = {faces.MEDIAPIPE: faces.WHERE, FAIRFACE: fairface.WHERE}
        had = next((said for prefix, said in where.items() if name.startswith(prefix)), "")
        raise ParameterError(f"There is no file {path}; it was named as {name!r} in the settings. {had}".strip())
    if name.startswith(faces.MEDIAPIPE) and find_spec("mediapipe") is None:
        raise MissingInputError(f"{name!r} needs the package mediapipe: pip install mediapipe.")
    if name.startswith(FAIRFACE) and Path(path).suffix != ".safetensors":
        fix = "Convert it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'fairface.safetensors')."
        raise safety.not_safetensors(f"{path} is not .safetensors", fix)


# Kind of model -> the tables of transformers (model_type to class, the later the stronger) that have it, what errors
# call it, and which of the kind's examples they name.
_MAPPINGS = {
    "detector": (("OBJECT_DETECTION",), "object detector", 1),
    "segmenter": (("UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION"), "segmenter", 0),
    "masks": (("MASK_GENERATION",), "segmenter that is asked about boxes", 0),
    "grounding": (("ZERO_SHOT_OBJECT_DETECTION",), "detector that is asked about words", 0),
    "tagger": (("ZERO_SHOT_IMAGE_CLASSIFICATION",), "tagger", 0),
}


def _check_kind(repository: Repository) -> None:
    """Refuse a repository whose configuration is of no model of its kind (ParameterError)."""
    kind = repository.kind
    if kind in ("vqa", "captioner"):
        blip.check_config(repository)
    elif kind == "features":
        if "config.json" not in repository.files:
            raise ParameterError(
                f"{repository.name} holds no config.json; give a folder that timm or transformers saved, or a name "
                "that timm lists, such as vit_small_patch16_224.dino."
            )
    else:
        from transformers.models.auto import modeling_auto as auto

        mappings, what, example = _MAPPINGS[kind]
        known: Mapping | set = {}
        for name in mappings:
            known |= getattr(auto, f"MODEL_FOR_{name}_MAPPING_NAMES")
        if kind == "grounding":
            known = {name: known[name] for name in grounded_sam.GROUNDING_DINO}
        # Of these, models that were saved as something else do, too.
        known = {"tagger": {*known, "florence2"}, "masks": set(known)}.get(kind, known)
        repositories.check_type(repository, known, what, registry.HUB[kind][example])


def check_faces(located: Located) -> None:
    """Refuse an object detector that knows no faces."""
    faces.labels(_labels(located), located.repository.name)


def check_classes(located: Located, classes: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse an object detector that does not know one of some classes, as for :func:`objects.detect`."""
    objects.columns(_labels(located), classes, located.repository.name)


def _labels(located: Located) -> Mapping:
    """Return what an object detector finds, by number."""
    if located.weights == (pinned.PINNED[pinned.YUNET].path,):
        return {0: "face"}
    return located.repository.json("config.json").get("id2label") or {}
