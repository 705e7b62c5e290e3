"""Which models a run uses: what makes its images, and what looks at them, by the measured tables that it takes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import NamedTuple

from biaslab.captions import neighbours
from biaslab.captions.settings import DOWNLOAD, SELECTED
from biaslab.ground.errors import BiaslabError, MissingInputError, ParameterError
from biaslab.judging import blip, inception, instances, kinds, lookup, similarity
from biaslab.judging.inception import INCEPTION
from biaslab.judging.names import PLUGIN, RATINGS, VQA, WHOLE, files_digest
from biaslab.models import registry
from biaslab.models.repositories import Located
from biaslab.pipeline import Pipeline, dalleval
from biaslab.pipeline.dependency import NO_MAPS
from biaslab.prompts import dalleval as asking

ENCODER, INCEPTION_FILE, ATTENTION = "captions.encoder", "dalleval.inception", "triplets.attention"
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
OF_TRIPLETS = {f"triplets_{n}similarity" for n in ("", "reference_", "step_", "object_")}
OF_TRIPLETS |= {f"triplets_{n}" for n in ("objects", "object_counts", "object_images", "object_truth")}
OF_TRIPLETS |= {f"triplets_{n}" for n in ("group_images", "group_object_counts")}

# Whether a table is nothing without a judge, needs one of several, or says less where one is not named.
NEEDED, ONE_OF, IF_NAMED = "needed", "one of several", "if named"
_TRAINING = "training"


class Look(NamedTuple):
    """What judges look at for a measured table."""

    images: str
    """What the images are made for, as of :meth:`Pipeline.image_model` (drawings of known truth are of the same kind),
    ``training`` or ``paintskills``; empty where none are looked at."""
    judges: tuple[str, ...]
    """The settings that name the judges; all of them look together."""
    how: str = NEEDED
    """``needed``, ``one of several`` or ``if named``."""


class Use(NamedTuple):
    """A model that a run uses."""

    setting: str
    """The setting that names it: ``model``, or that of a judge."""
    name: str
    """Empty where it is not named."""
    kind: str = ""
    """As for :func:`biaslab.models.registry.resolve`."""
    pictures: str = ""
    """What it looks at: ``drawings`` or ``photographs``; empty where it looks at nothing."""
    of: str = ""
    """Whose pictures these are, for messages."""
    by: str = ""
    """Of what compares images: by which of :data:`biaslab.measures.similarity.NETWORKS`."""


def of_tables(pipeline: Pipeline, names: Collection[str]) -> list[Use]:
    """Return what a pipeline's own model, and its judges, are used for in measured tables, each once.

    What a table can do without is left out where it is not named; what it needs then has an empty name.
    """
    found: dict[Use, None] = {}
    if makes_images(pipeline, set(names)):
        found[Use("model", pipeline.model, "text-to-image")] = None
    for name in sorted(names):
        looked = looks(pipeline, name)
        bare = lacking(pipeline, name)
        for look in looked:
            if look.how == NEEDED or bare or not pipeline.unnamed(*look.judges):
                found |= dict.fromkeys(
                    use for role in look.judges for use in _of_role(pipeline, look.images, role)
                )
    return list(found)


def lacking(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the settings that name nothing, so that a measured table cannot be had; none where it can."""
    looked = looks(pipeline, name)
    needed = [s for look in looked if look.how == NEEDED for s in pipeline.unnamed(*look.judges)]
    several = [pipeline.unnamed(*look.judges) for look in looked if look.how == ONE_OF]
    if several and all(several):
        needed += [setting for each in several for setting in each]
    return tuple(dict.fromkeys(needed))


def is_judged(pipeline: Pipeline, name: str) -> bool:
    """Return whether judges that are named look at images for a measured table."""
    judges = (look.judges for look in looks(pipeline, name) if look.judges[0] in kinds.ROLES)
    return any(not pipeline.unnamed(*each) for each in judges)


def in_part(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the settings that name nothing, so that a measured table says less than it could, or by other judges."""
    if name == "dalleval_average_gender" and pipeline.dalleval.gender_is_judged:
        return ("dalleval.vqa",)
    several = [look.judges for look in looks(pipeline, name) if look.how == ONE_OF]
    return tuple(dict.fromkeys(s for judges in several for s in pipeline.unnamed(*judges)))


def why_lacking(name: str, settings: Collection[str]) -> str:
    """Say why a measured table cannot be had, given what :func:`lacking` returns."""
    if ATTENTION in settings:
        return f"It takes {name}. {NO_MAPS}"
    each = [f"{s} names nothing that {_DOES[s] if s in _DOES else kinds.ROLES[s].does}" for s in settings]
    return f"It takes {name}, and {', and '.join(each)}."


_DOES = {"captions.encoder": "embeds captions"}


def on_purpose(pipeline: Pipeline, setting: str) -> bool:
    """Return whether a setting that names nothing was given as empty, and not just never given."""
    group, name = setting.split(".")
    return setting == ATTENTION or name in getattr(pipeline.settings, group).model_fields_set


# -- what looks at what ------------------------------------------------------------------------------------


def looks(pipeline: Pipeline, name: str) -> list[Look]:
    """Return what looks at which images when a pipeline measures a table."""
    paper, _, what = name.partition("_")
    return list(_LOOKS[paper](pipeline, what)) if paper in _LOOKS else []


def _of_paradox(pipeline: Pipeline, what: str) -> Iterator[Look]:
    s, behind = pipeline.settings, pipeline.has_images
    gate, approaches = pipeline.gate, {*s.captions.approaches}
    selected, as_prompts = approaches & {*SELECTED}, approaches - {*SELECTED}
    judged = ["percent_female", "judgement_outcomes"] if approaches else []
    judged += ["caption_pairs", "gender_words"] if as_prompts else []
    fetched = s.captions.training_images == DOWNLOAD
    nearest = {"nearest", "nearest_no_indicators"} & approaches
    if what in ("indicators", "examples") and behind:
        yield Look(_TRAINING, gate, IF_NAMED)
    elif behind and what in judged:
        yield from (Look(_TRAINING, gate), Look("captions", gate))
    elif what == "download_outcomes" and fetched and approaches:
        yield Look(_TRAINING, gate)
    elif what == "similarity":
        yield Look("", (ENCODER,))
        if behind and selected and pipeline.has_clip:
            yield from (Look(images, ("judging.gender",), IF_NAMED) for images in (_TRAINING, "captions"))
    elif not (what == "selection_examples" or (what == "downloads" and fetched)):
        return
    # Images behind the nearest captions are among those that are looked at.
    if nearest and not (what in ("indicators", "examples") and pipeline.unnamed(*gate)):
        yield Look("", (ENCODER,))


def _of_paired(pipeline: Pipeline, what: str) -> Iterator[Look]:
    s = pipeline.settings.judging
    looking = [judge for judge in dict.fromkeys((s.gender, *s.further)) if not judge.startswith(RATINGS)]

    def of(judges: Collection[str], *settings: str) -> Look:
        # Who answers questions about positions looks for no faces.
        faces = any(not judge.startswith((RATINGS, VQA)) for judge in judges)
        tone = ("judging.tone",) if s.tone.startswith(PLUGIN) else ()
        return Look("people", (*settings, "judging.faces", *tone) if faces else settings)

    if what == "judge_agreement" or (what == "renders" and pipeline.known_truth("people") and looking):
        yield of(looking, "judging.gender", *(["judging.further"] if s.further else []))
    elif what in {name.removeprefix("paired_") for name in OF_EVERYONE} | {"prompts"}:
        # Whom the intervention and a critic ask for depends on what the judge says.
        yield of([s.gender], "judging.gender")
    elif what == "critiques" and pipeline.settings.critic.rounds:
        yield of([s.gender], "judging.gender")


def _of_dalleval(pipeline: Pipeline, what: str) -> Iterator[Look]:
    s, gate = pipeline.settings, pipeline.gate
    detector, vqa, faces = ("dalleval.detector",), ("dalleval.vqa",), ("judging.faces",)
    tone = (*faces, "judging.tone") if pipeline.settings.judging.tone.startswith(PLUGIN) else faces
    known = pipeline.known_truth("dalleval") is not None
    behind = pipeline.has_images and not s.dalleval.captions
    nearest = {"nearest", "nearest_no_indicators"} & {*s.captions.approaches}
    if what in ("skill_verdicts", "skill_accuracy") or (what == "skill_ratings" and s.dalleval.ratings):
        yield Look("dalleval", detector)
    elif what in ("references", "detector_renders"):
        if s.dalleval.paintskills:
            yield Look("paintskills", detector)
        elif known:
            yield Look("dalleval", detector)
    elif what == "social_images" or (what == "social_drawings" and known):
        yield from (Look("dalleval", judges, ONE_OF) for judges in (vqa, gate, tone))
    elif what == "average_gender":
        yield Look("dalleval", gate if pipeline.dalleval.gender_is_judged else vqa)
    elif what == "attribute_presence":
        yield Look("dalleval", vqa)
    elif what in ("average_skin_tone", "skin_tone_counts") or (what == "skin_tone_readings" and known):
        yield Look("dalleval", tone)
    elif what in ("image_quality", "alignment_quality"):
        for images in ("captions", *([_TRAINING] if behind else [])):
            # CLIP, by which images are compared, is the model that judges gender.
            if pipeline.has_clip:
                yield Look(images, ("judging.gender",), ONE_OF)
            yield Look(images, ("dalleval.captioner",), ONE_OF)
        if behind or s.dalleval.images:
            yield Look("", (INCEPTION_FILE,), IF_NAMED)
        if behind and nearest:
            yield Look("", (ENCODER,))
    elif what == "gender_judges" and pipeline.has_images:
        if pipeline.has_clip:
            yield Look(_TRAINING, ("judging.gender",))
        if nearest:
            yield Look("", (ENCODER,))


def _of_triplets(pipeline: Pipeline, what: str) -> Iterator[Look]:
    objects, found = ("triplets.objects",), ["objects", "object_images", "object_counts", "object_similarity"]
    found += ["detections"] if pipeline.settings.triplets.ratings else []
    if what in ("similarity", "reference_similarity"):
        yield Look("triplets", ("triplets.similarity",), IF_NAMED)
    elif what in found:
        yield Look("triplets", objects)
    elif what in ("detections", "detector_counts") and pipeline.known_truth("triplets") is not None:
        yield Look("triplets", objects, IF_NAMED)
    elif what in ("group_images", "group_object_counts", "group_confusion"):
        if not pipeline.image_model("triplets").truthful:
            yield Look("", (ATTENTION,))
        yield Look("triplets", objects)


_LOOKS = {"paradox": _of_paradox, "paired": _of_paired, "dalleval": _of_dalleval, "triplets": _of_triplets}


def of_templates(pipeline: Pipeline) -> set[str]:
    """Return the measured tables that take images of the templates; without CLIP texts alone are compared."""
    clip = pipeline.settings.judging.gender and pipeline.has_clip
    return OF_TEMPLATES if clip else OF_TEMPLATES - {"paradox_similarity"}


def makes_images(pipeline: Pipeline, names: set[str]) -> bool:
    """Return whether measured tables take images that a pipeline's model makes, or how it reads prompts."""
    s = pipeline.settings
    made = OF_EVERYONE | OF_SOME_PAIRS | OF_SKILLS | OF_SOCIAL | OF_CAPTIONED | OF_TRIPLETS
    made |= {"dalleval_skill_ratings"} if s.dalleval.ratings else set()
    made |= {"triplets_detections"} if s.triplets.ratings else set()
    approaches = set(s.captions.approaches)
    if approaches & {*SELECTED}:
        made |= of_templates(pipeline)
    if approaches - {*SELECTED}:
        made |= OF_AS_PROMPTS
    return bool(names & made)


def _of_role(pipeline: Pipeline, images: str, role: str) -> Iterator[Use]:
    """Yield what a setting names, to look at images as of :class:`Look`."""
    given = attrgetter(role)(pipeline.settings)
    if role == ATTENTION:
        return
    if not images:
        yield Use(role, f"{INCEPTION}{given}" if role == INCEPTION_FILE and given else given)
        return
    if images == _TRAINING:
        what = pipeline.training_pictures, "the training images"
    elif images == "paintskills":
        what = registry.pictures(pipeline.settings.dalleval.paintskills), "PaintSkills' folder"
    else:
        made_by = pipeline.image_model(images)
        what = made_by.pictures, f"the model {made_by.label!r}"
    kind = kinds.ROLES[role].kind
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
        return list({located.repository.name: located for each in found for located in each}.values())
    if use.setting == "captions.encoder":
        return neighbours.look_up(use.name)
    found = lookup.look_up(use.name, use.kind)
    if use.setting == "judging.faces" and use.name != WHOLE and found:
        lookup.check_faces(found[0])
    if use.setting == "dalleval.detector":
        classes = {name: dalleval.OTHER_NAMES.get(name, ()) for name in asking.CLASSES}
        lookup.check_classes(found[0], classes)
    return found


def digest(use: Use) -> str:
    """Return a digest of the files behind a judge, or what is known of them: of its name where none are here.

    Raises:
        BiaslabError: It is not to be had, or of another kind.
    """
    if use.setting == "triplets.similarity":
        # What is not here compares nothing; who needs it is told before any work.
        with contextlib.suppress(MissingInputError):
            return similarity.weights(use.by, use.name)
        return use.name
    if use.setting == "triplets.objects":
        with contextlib.suppress(MissingInputError, ParameterError):
            return use.name if use.name == instances.TRUTH else instances.digest(use.name)
        return use.name
    if use.setting == INCEPTION_FILE:
        return inception.check_weights(use.name.removeprefix(INCEPTION))
    if use.setting in ("dalleval.vqa", "dalleval.captioner"):
        return registry.digest(blip.located(use.name, use.kind))
    if use.setting == ENCODER:
        return use.name
    return files_digest(use.name, use.kind)


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
