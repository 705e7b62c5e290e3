"""Which models a run uses: what makes its images, and what looks at them, by the measured tables that it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import NamedTuple

from biaslab import models
from biaslab.captions import neighbours
from biaslab.captions.settings import SELECTED
from biaslab.errors import BiaslabError, ParameterError
from biaslab.judging import kinds, lookup
from biaslab.judging.inception import INCEPTION
from biaslab.judging.names import RATINGS, WHOLE
from biaslab.pipeline import Pipeline, dalleval
from biaslab.prompts import dalleval as asking
from biaslab.repositories import Located
from biaslab.tables import PAPERS, schema

# Measured tables by the images that they take; a test measures each and counts.
OF_TEMPLATES = {f"paradox_{n}" for n in ("judgement_outcomes", "percent_female", "similarity")}
OF_AS_PROMPTS = {
    f"paradox_{n}" for n in ("caption_pairs", "gender_words", "judgement_outcomes", "percent_female")
}
OF_EVERYONE = {f"paired_{n}" for n in ("images", "pair_images", "people", "percent_female", "run_score")}
OF_SOME_PAIRS = {"paired_judge_agreement", "paired_critiques", "paired_prompts"}
OF_SKILLS = {"dalleval_skill_accuracy", "dalleval_skill_verdicts"}
OF_SOCIAL = {f"dalleval_{n}" for n in ("attribute_presence", "average_gender", "average_skin_tone")}
OF_SOCIAL |= {"dalleval_skin_tone_counts", "dalleval_social_images"}
OF_CAPTIONED = {"dalleval_alignment_quality", "dalleval_image_quality"}
OF_TRIPLETS = {f"triplets_{n}similarity" for n in ("", "reference_", "step_", "layer_", "object_")}
OF_TRIPLETS |= {f"triplets_{n}" for n in ("objects", "object_counts", "object_images", "object_truth")}
OF_TRIPLETS |= {f"triplets_{n}" for n in ("coverages", "group_images", "group_object_counts")}
OF_GUIDANCE = "triplets_guidance_similarity"

# Measured tables by the judges that they take, of DALL-Eval and of the paradox paper.
_OF_DETECTOR = ("skill_verdicts", "skill_accuracy", "skill_ratings", "references", "detector_renders")
_OF_QUESTIONS = (
    "social_images",
    "social_drawings",
    "average_gender",
    "average_skin_tone",
    "skin_tone_counts",
)
_OF_FACES = (*_OF_QUESTIONS, "attribute_presence", "skin_tone_readings")
_GATE = ("judging.gender", "judging.faces")


class Use(NamedTuple):
    """A model that a run uses."""

    setting: str
    """The setting that names it: ``model``, or that of a judge."""
    name: str
    """Empty where it is not named."""
    kind: str = ""
    """As for :func:`biaslab.models.resolve`."""
    pictures: str = ""
    """What it looks at: ``drawings`` or ``photographs``; empty where it looks at nothing."""
    of: str = ""
    """Whose pictures these are, for messages."""
    by: str = ""
    """Of what compares images: by which of :data:`biaslab.measures.similarity.NETWORKS`."""


def of_tables(pipeline: Pipeline, names: Collection[str]) -> list[Use]:
    """Return what a pipeline's own model, and its judges, are used for in measured tables, each once."""
    return list(dict.fromkeys(_uses(pipeline, set(names))))


def _uses(pipeline: Pipeline, names: set[str]) -> Iterator[Use]:
    s = pipeline.settings
    if makes_images(pipeline, names):
        yield Use("model", pipeline.model, "text-to-image")
    nearest = {"nearest", "nearest_no_indicators"} & {*s.captions.approaches}
    if nearest and pipeline.has_captions and any(name.startswith("paradox_") for name in names):
        yield Use("captions.encoder", s.captions.encoder)
    if s.dalleval.inception and "dalleval_image_quality" in names:
        yield Use("dalleval.inception", f"{INCEPTION}{s.dalleval.inception}")
    for images, roles in _looked_at(pipeline, names).items():
        for role in dict.fromkeys(roles):
            yield from _of_role(pipeline, images, role)
    detects = names.intersection(f"dalleval_{name}" for name in _OF_DETECTOR)
    if detects and (folder := s.dalleval.paintskills):
        what = models.pictures(folder), "PaintSkills' folder"
        yield Use("dalleval.detector", s.dalleval.detector, "detector", *what)


def makes_images(pipeline: Pipeline, names: set[str]) -> bool:
    """Return whether measured tables take images that a pipeline's model makes, or how it reads prompts."""
    s = pipeline.settings
    made = OF_EVERYONE | OF_SOME_PAIRS | OF_SKILLS | OF_SOCIAL | OF_CAPTIONED | OF_TRIPLETS | {OF_GUIDANCE}
    made |= {"dalleval_skill_ratings"} if s.dalleval.ratings else set()
    made |= {"triplets_detections"} if s.triplets.ratings else set()
    approaches = set(s.captions.approaches)
    if approaches & {*SELECTED}:
        made |= OF_TEMPLATES
    if approaches - {*SELECTED}:
        made |= OF_AS_PROMPTS
    return bool(names & made)


def _looked_at(pipeline: Pipeline, names: set[str]) -> dict[str, list[str]]:
    """Return what images of each kind are looked at by: settings of judges."""
    of = {
        paper: {name.removeprefix(f"{paper}_") for name in names if name.startswith(f"{paper}_")}
        for paper in PAPERS
    }
    asked: dict[str, list[str]] = {"captions": [], "training": []}
    if any(schema(f"paradox_{name}").images for name in of["paradox"]):
        asked = {"captions": [*_GATE], "training": [*_GATE]}
    if of["paired"] - {"prompts"}:
        asked["people"] = [*_GATE, "judging.further"]
    asked["dalleval"] = ["dalleval.detector"] if of["dalleval"].intersection(_OF_DETECTOR) else []
    if of["dalleval"].intersection(_OF_FACES):
        asked["dalleval"] += ["dalleval.vqa", *_GATE]
    if "alignment_quality" in of["dalleval"]:
        asked["captions"].append("dalleval.captioner")
    # CLIP, by which images are compared, is the model that judges gender.
    if "image_quality" in of["dalleval"]:
        asked["captions"].append("judging.gender")
    if of["dalleval"] & {"image_quality", "gender_judges"} and not pipeline.settings.dalleval.captions:
        asked["training"].append("judging.gender")
    if asked["training"] and not pipeline.has_images:
        del asked["training"]
    asked["triplets"] = []
    if of["triplets"] & {"similarity", "reference_similarity", "guidance_similarity"}:
        asked["triplets"].append("triplets.similarity")
    if any(name.startswith(("object", "detect", "group", "coverages")) for name in of["triplets"]):
        asked["triplets"].append("triplets.objects")
    return asked


def _of_role(pipeline: Pipeline, images: str, role: str) -> Iterator[Use]:
    """Yield what a setting names, to look at images that the model makes of prompts, or at ``training`` images."""
    if images == "training":
        what = pipeline.training_pictures, "the training images"
    else:
        made_by = pipeline.image_model(images)
        what = made_by.pictures, f"the model {made_by.label!r}"
    given, kind = attrgetter(role)(pipeline.settings), kinds.ROLES[role].kind
    if role == "judging.faces" and pipeline.settings.judging.gender.startswith(RATINGS):
        return
    if role == "triplets.similarity":
        for by, name in pipeline.triplets.networks.items():
            if name:
                yield Use(role, name, "clip" if by == "clip" else "features", *what, by=by)
        return
    for name in given if isinstance(given, tuple) else (given,):
        yield Use(role, name, kind, *what)


def check_pictures(use: Use) -> None:
    """Refuse a judge that is not named, or does not know what it is to look at (ParameterError)."""
    if use.pictures:
        kinds.check(use.setting, use.name, use.pictures, use.of, use.kind)


def look_up(use: Use, pipeline: Pipeline) -> list[Located]:
    """Return the repositories behind a model; none where it needs no weights. No weights are read or fetched.

    Raises:
        BiaslabError: It is not to be had as far as can be known from here, or is of another kind.
    """
    if use.setting == "model":
        # A name that a package brings may stand for a model for each kind of images.
        found = [pipeline.image_model(of).look_up() for of in ("captions", "people", "dalleval", "triplets")]
        return list({located.repository.name: located for located in found if located}.values())
    if use.setting == "captions.encoder":
        return neighbours.look_up(use.name)
    found = lookup.look_up(use.name, use.kind)
    if use.setting == "judging.faces" and use.name != WHOLE and found:
        lookup.check_faces(found[0])
    if use.setting == "dalleval.detector":
        classes = {name: dalleval.OTHER_NAMES.get(name, ()) for name in asking.CLASSES}
        lookup.check_classes(found[0], classes)
    return found


def problem(use: Use, error: BiaslabError) -> str:
    """Return what is wrong with a model that is used, in words that name its setting."""
    said = str(error)
    if use.setting in said:
        return said
    return f"{use.setting}: {said}" if use.name in said else f"{use.setting} is {use.name!r}: {said}"


def together(problems: Collection[str]) -> ParameterError:
    """Return one error for all that is wrong."""
    each = list(dict.fromkeys(problems))
    if len(each) == 1:
        return ParameterError(each[0])
    listed = "\n".join(f"  - {said}" for said in each)
    return ParameterError(f"{len(each)} things are missing, and nothing was started:\n{listed}")
