"""The registry of judges: a name in the settings is parsed once, into an object (:class:`biaslab.judges.judge.Judge`).

To add a judge, write its class and put it under the beginning of its names in :data:`JUDGES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from biaslab import plugins
from biaslab.errors import MissingInputError, ParameterError, correct_prefix
from biaslab.hub import registry as hub
from biaslab.judges import faces, segmentation, skin_tone
from biaslab.judges.annotations import AnnotationJudge, AnnotationTones
from biaslab.judges.blip import Captioner, Retriever, VqaJudge
from biaslab.judges.face_classifiers import ClassifierJudge, DlibJudge, FairFaceJudge
from biaslab.judges.features import FeaturesJudge, InceptionJudge
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.objects import ObjectDetector
from biaslab.judges.pinned import PINNED
from biaslab.judges.plugins import PluginJudge, PluginTones
from biaslab.judges.vision import VisionJudge
from biaslab.judges.zero_shot import ClipJudge


def _by_prefix(*judges: type[Judge]) -> dict[str, Callable[..., Judge]]:
    return {judge.prefix: judge for judge in judges}


# The judges of each role by the prefix of their names; "" is the judge of names without a prefix.
GENDER = _by_prefix(
    VisionJudge,
    AnnotationJudge,
    PluginJudge,
    FairFaceJudge,
    VqaJudge,
    ClassifierJudge,
    DlibJudge,
    ClipJudge,
)
FACES = _by_prefix(faces.WholeImage, faces.YuNetFaces, faces.MediaPipeFaces, faces.HubFaces)
TONES = _by_prefix(skin_tone.PixelTones, skin_tone.NoTones, VisionJudge, PluginTones, AnnotationTones)
QUESTIONS = _by_prefix(VisionJudge, VqaJudge)
OBJECTS = _by_prefix(segmentation.GroundTruthObjects, segmentation.GroundedJudge) | {"": segmentation.instance_judge}


class Role(NamedTuple):
    """A task of judges, named by a setting."""

    does: str
    """The task, in words that follow "a model that": ``detects faces``, …"""
    judges: Mapping[str, Callable[..., Judge]]
    """The classes by the beginning of their names."""
    example: str
    """The name of a judge for photographs."""


JUDGES = {
    "judging.faces": Role("detects faces", FACES, "yunet"),
    "judging.gender": Role("classifies perceived gender", GENDER, "dlib"),
    "judging.extra_judges": Role("classifies perceived gender", GENDER, "vqa:Salesforce/blip-vqa-base"),
    "judging.skin_tone": Role("estimates skin tones", TONES, "plugin:NAME"),
    "judging.question_model": Role("answers questions", QUESTIONS, "endpoint:NAME"),
    "dalleval.detector": Role("detects PaintSkills' objects", {"": ObjectDetector}, "facebook/detr-resnet-101-dc5"),
    "dalleval.vqa": Role("answers questions about people", QUESTIONS | {"": VqaJudge}, "Salesforce/blip-vqa-base"),
    "dalleval.captioner": Role(
        "describes images", _by_prefix(VisionJudge, Captioner), "Salesforce/blip-image-captioning-base"
    ),
    "dalleval.retriever": Role("retrieves images by texts", {"": Retriever}, "Salesforce/blip2-itm-vit-g"),
    "dalleval.inception_file": Role("embeds images", {"": InceptionJudge}, ""),
    "triplets.objects": Role("detects objects", OBJECTS, "nvidia/segformer-b0-finetuned-ade-512-512"),
    "triplets.similarity": Role("compares images", {"": FeaturesJudge}, "paper"),
}
"""The settings that name judges."""


def parse(name: str, setting: str, options: JudgeOptions | None = None) -> Judge:
    """Return the judge of a name; nothing is opened.

    ``setting`` is a key of :data:`JUDGES`. Raises ParameterError where the name begins like no judge of this role.
    """
    role = JUDGES[setting]
    for prefix, judge in role.judges.items():
        if prefix and (name.startswith(prefix) if prefix.endswith(":") else name == prefix):
            return judge(name, options)
    prefixes = {prefix for other_role in JUDGES.values() for prefix in other_role.judges if prefix.endswith(":")}
    match = correct_prefix(name, filter(None, role.judges))
    # The names of folders and of installed judges are not misspelt.
    if os.path.exists(name) or name in plugins.entry_points(plugins.JUDGES):
        match = ""
    if match or "" not in role.judges or name.startswith(tuple(prefixes)):
        allowed = ", ".join(
            f"{prefix}NAME" if prefix.endswith(":") else repr(prefix) for prefix in role.judges if prefix
        )
        raise ParameterError(
            f"{setting} is {name!r}, but no judge of this kind {role.does}. Use {allowed or repr(role.example)}, or a "
            f"name such as {role.example!r}.{f' Did you mean {match!r}?' if match else ''}"
        )
    return role.judges[""](name, options)


def missing_judges(settings: Sequence[str], image_domain: str, owner: str) -> MissingInputError:
    """Return the error for empty settings of judges that are needed to classify images.

    ``settings`` are keys of :data:`JUDGES`; ``image_domain`` and ``owner`` as for :func:`check_domain`.
    """
    texts = []
    for setting in settings:
        role = JUDGES[setting]
        example = f", such as {role.example!r}" if role.example and image_domain == hub.PHOTOGRAPHS else ""
        texts.append(
            f"{setting} is empty, but {image_domain} of {owner} need a model that {role.does}. Set it to a model for "
            f"{image_domain}{example}."
        )
    return MissingInputError(" ".join(texts), settings)


def check_domain(judge: Judge, setting: str, image_domain: str, owner: str) -> None:
    """Raise ParameterError if a judge is unsuitable for the domain of the images.

    ``setting`` is a key of :data:`JUDGES`; ``image_domain`` is ``drawings`` or ``photographs``, ``owner`` names the
    source of the images, such as ``the model 'X'``.
    """
    role = JUDGES[setting]
    domain = judge.domain
    if domain in (image_domain, hub.ANY):
        return
    example = f", such as {role.example!r}" if image_domain == hub.PHOTOGRAPHS else ""
    raise ParameterError(
        f"{setting} is {judge.name!r}, a model for {domain}, but the images of {owner} are {image_domain}, so "
        f"its answers would be meaningless. Set {setting} to a model for {image_domain}{example}. If they are "
        f"{domain}, declare this: for a model with generation.image_domain={domain}, for a folder with a file "
        f"{hub.DOMAIN_FILE} in it."
    )


_FILES = tuple(judge.prefix for judge in (faces.MediaPipeFaces, FairFaceJudge, AnnotationJudge))


def map_paths(name: str, absolute: Callable[..., str], start: Path) -> str | None:
    """Return a judge's name with paths converted by ``absolute``; None if the name alone does not identify a judge.

    Relative paths start from the folder ``start``.
    """
    grounded = segmentation.GroundedJudge.prefix
    if name.startswith(grounded):
        return grounded + "+".join(map(absolute, name.removeprefix(grounded).split("+")))
    prefix = next((prefix for prefix in (*_FILES, VqaJudge.prefix) if name.startswith(prefix)), "")
    path = os.path.expanduser(name.removeprefix(prefix))
    if prefix in _FILES or (prefix and (start / path).is_dir()):
        return prefix + str((start / path).absolute())
    return name if name in PINNED else None
