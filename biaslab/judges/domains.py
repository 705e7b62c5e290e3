"""Which judges know which pictures: one that knows drawings says nothing about a photograph, and is refused for it.

A model in a folder says it in a file (:func:`biaslab.hub.registry.image_domain`), a judge of another package by
``known_domain``; annotators, files and what looks at pixels alone know any, all others photographs.
"""

from __future__ import annotations

from typing import NamedTuple

from biaslab.endpoints.settings import ENDPOINT
from biaslab.errors import ParameterError
from biaslab.hub import registry
from biaslab.judges import judge_names, plugins
from biaslab.judges.judge_names import ANNOTATIONS, FILES, GROUNDED, NONE, PLUGIN, TRUTH, VQA, WHOLE_IMAGE
from biaslab.judges.pinned import DLIB, PINNED, YUNET


class Role(NamedTuple):
    """What a setting names a judge for."""

    does: str
    """What it does, after its name: ``finds faces``, …"""
    kind: str
    """Which kind of model it is, as for :func:`biaslab.hub.registry.resolve`."""
    example: str
    """A judge of photographs."""


GENDER_ROLES = (
    *("judging.gender", "judging.extra_judges", "judging.skin_tone", "judging.question_model"),
    *("dalleval.vqa", "dalleval.captioner"),
)
"""Those of the settings whose judges may be vision models behind an endpoint: they are asked, and look for nothing."""
ROLES = {
    "judging.faces": Role("finds faces", "detector", YUNET),
    "judging.gender": Role("judges perceived gender", "clip", DLIB),
    "judging.extra_judges": Role("judges perceived gender", "clip", "vqa:Salesforce/blip-vqa-base"),
    "judging.skin_tone": Role("says skin tones", "", "plugin:NAME"),
    "judging.question_model": Role("answers questions of one's own", "", "endpoint:NAME"),
    "dalleval.detector": Role("finds PaintSkills' objects", "detector", "facebook/detr-resnet-101-dc5"),
    "dalleval.vqa": Role("answers questions about people", "vqa", "Salesforce/blip-vqa-base"),
    "dalleval.captioner": Role("describes images", "captioner", "Salesforce/blip-image-captioning-base"),
    "triplets.objects": Role("finds objects", "segmenter", "nvidia/segformer-b0-finetuned-ade-512-512"),
    "triplets.similarity": Role("compares images", "features", "paper"),
}
"""The settings that name what looks at images."""


def known_domain(name: str, kind: str) -> str:
    """Return which pictures a judge knows: ``drawings``, ``photographs`` or ``any``; errors as its folder or package
    has.
    """
    # What is behind an endpoint has seen pictures of all kinds.
    if name in (WHOLE_IMAGE, TRUTH, NONE) or name.startswith((ANNOTATIONS, ENDPOINT)) or judge_names.is_file(name):
        return registry.ANY
    if name.startswith(PLUGIN):
        return plugins.known_domain(name)
    if name.startswith(GROUNDED):
        known = set(map(known_domain, judge_names.parts(name), judge_names.PARTS)) - {registry.ANY}
        if len(known) > 1:
            raise ParameterError(f"{name} has parts that know drawings and parts that know photographs.")
        return next(iter(known), registry.ANY)
    if name in PINNED or name.startswith(FILES):
        return registry.PHOTOGRAPHS
    name = name.removeprefix(VQA)
    if one := registry.find_plugin(name, kind):
        return registry.image_domain(one.folder, judge=True) if one.folder else one.image_domain
    # What is no folder here says nothing.
    return registry.image_domain(name, judge=True)


def check(setting: str, name: str, image_domain: str, of: str, kind: str = "") -> None:
    """Refuse a judge that is not named, or that does not know the pictures that it is to look at (ParameterError).

    ``setting`` is a key of :data:`ROLES`; ``image_domain`` are ``drawings`` or ``photographs``, ``of`` says whose, such
    as ``the model 'X'``; ``kind`` is the kind of model, where a setting names judges of several.
    """
    role = ROLES[setting]
    known = known_domain(name, "vqa" if name.startswith(VQA) else kind or role.kind) if name else ""
    if known in (image_domain, registry.ANY):
        return
    example = f", such as {role.example!r}" if image_domain == registry.PHOTOGRAPHS else ""
    if not name:
        raise ParameterError(
            f"{setting} is empty, but {image_domain} of {of} are to be classified: name a model that {role.does} for "
            f"these{example}."
        )
    raise ParameterError(
        f"{setting} is {name!r}, which is made for {known}, but the images of {of} are {image_domain}, so its answers "
        f"would be meaningless. Set {setting} to a model for {image_domain}{example}. If they are {known}, declare it: "
        f"for a model by generation.image_domain={known}, for a folder by a file {registry.DOMAIN_FILE} in it."
    )
