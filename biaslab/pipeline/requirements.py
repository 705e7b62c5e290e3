"""Which models a run uses: what makes its images, and what looks at them, by the measured tables that it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from biaslab.captions import embeddings
from biaslab.errors import BiaslabError, MissingInputError, ParameterError
from biaslab.hub import registry
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import registry as judging
from biaslab.judges.judge import Judge
from biaslab.pipeline import Pipeline
from biaslab.pipeline.dependency import NO_MAPS
from biaslab.pipeline.stages import KINDS, PROMPT_SETS
from biaslab.schema import tables
from biaslab.schema.tables import NEEDED, ONE_OF, ClassifierUse

ENCODER, ATTENTION = "captions.encoder", "triplets.attention"
_TRAINING = "training"
_OPTIONAL = ("triplets.similarity", "triplets.objects")


class ModelUse(NamedTuple):
    """A model that a run uses."""

    setting: str  # The setting that names it: ``model``, or that of a judge.
    name: str  # Empty where it is not named.
    image_domain: str = ""  # The images that it classifies: ``drawings`` or ``photographs``; empty where it has none.
    image_source: str = ""  # The source of these images, for messages.
    network: str = ""  # A network that compares images: one of :data:`biaslab.metrics.similarity.NETWORKS`.

    def judge(self, pipeline: Pipeline) -> Judge | None:
        """Return the judge; None for the model, the encoder of captions, and where the name is empty."""
        if not self.name or self.setting not in judging.JUDGES:
            return None
        return pipeline.judge(self.setting, self.name, self.network)


def uses_of_tables(pipeline: Pipeline, names: Collection[str]) -> list[ModelUse]:
    """Return the uses of a pipeline's model and judges in measured tables, each once.

    What a table can do without is left out where it is not named; what it needs then has an empty name.
    """
    uses: dict[ModelUse, None] = {}
    if any(generated_kinds(pipeline, name) for name in names):
        uses[ModelUse("model", pipeline.model)] = None
    for name in sorted(names):
        bare = missing_settings(pipeline, name)
        for look in classifier_uses(pipeline, name):
            roles = judge_settings(pipeline, look)
            if look.how == NEEDED or bare or not pipeline.unset_settings(*roles):
                uses |= dict.fromkeys(use for role in roles for use in _uses_of_setting(pipeline, look.at, role))
    return list(uses)


def generated_kinds(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the kinds of images that a pipeline's model makes for a measured table."""
    table = tables.schemas().get(name)
    if table is None or not _holds(pipeline, table.makes_if):
        return ()
    # Of captions, those that the settings ask for.
    return tuple(kind for kind in table.makes if kind not in KINDS or kind in pipeline.kinds)


def classifier_uses(pipeline: Pipeline, name: str) -> list[ClassifierUse]:
    """Return what looks at which images when a pipeline measures a table."""
    table = tables.schemas().get(name)
    return [look for look in table.looks if _holds(pipeline, look.when)] if table else []


def judge_settings(pipeline: Pipeline, look: ClassifierUse) -> tuple[str, ...]:
    """Return the settings that name who looks; all of them look together."""
    return (look.by,) if look.by in _SETTINGS else attrgetter(look.by)(pipeline)


def _holds(pipeline: Pipeline, conditions: Iterable[str]) -> bool:
    return all(
        bool(attrgetter(condition.removeprefix("not "))(pipeline)) != condition.startswith("not ")
        for condition in conditions
    )


def missing_settings(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the settings that name nothing, so that a measured table cannot be had; none where it can."""
    each = [
        (look.how, pipeline.unset_settings(*judge_settings(pipeline, look))) for look in classifier_uses(pipeline, name)
    ]
    needed = [setting for options, settings in each if options == NEEDED for setting in settings]
    several = [settings for options, settings in each if options == ONE_OF]
    if several and all(several):
        needed += [setting for settings in several for setting in settings]
    return tuple(dict.fromkeys(needed))


def is_judged(pipeline: Pipeline, name: str) -> bool:
    """Return whether judges that are named look at images for a measured table."""
    each = [judge_settings(pipeline, look) for look in classifier_uses(pipeline, name)]
    return any(roles[0] in judging.JUDGES and not pipeline.unset_settings(*roles) for roles in each)


def partial_settings(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Return the settings that name nothing, so that a measured table says less, or by other judges."""
    each = classifier_uses(pipeline, name)
    several = [
        s for look in each if look.how == ONE_OF for s in pipeline.unset_settings(*judge_settings(pipeline, look))
    ]
    return tuple(dict.fromkeys((*(look.instead_of for look in each if look.instead_of), *several)))


def explain_missing(name: str, settings: Collection[str]) -> str:
    """Say why a measured table cannot be had, given what :func:`missing_settings` returns."""
    if ATTENTION in settings:
        return f"It takes {name}. {NO_MAPS}"
    does = {setting: role.does for setting, role in judging.JUDGES.items()} | {ENCODER: "embeds captions"}
    each = [f"{setting} names nothing that {does[setting]}" for setting in settings]
    return f"It takes {name}, and {', and '.join(each)}."


# The settings that name something that looks; of images or texts.
_SETTINGS = {*judging.JUDGES, ENCODER, ATTENTION}


def is_disabled(pipeline: Pipeline, setting: str) -> bool:
    """Return whether a setting that names nothing was given as empty, and not just never given."""
    group, name = setting.split(".")
    return setting == ATTENTION or name in getattr(pipeline.settings, group).model_fields_set


def _uses_of_setting(pipeline: Pipeline, images: str, role: str) -> Iterator[ModelUse]:
    """Yield what a setting names, to look at images as of :class:`biaslab.schema.tables.ClassifierUse`."""
    given = attrgetter(role)(pipeline.settings)
    if role == ATTENTION:
        return
    if not images:
        yield ModelUse(role, given)
        return
    if images == _TRAINING:
        what = pipeline.training_domain, "the training images"
    elif images == "paintskills":
        what = registry.image_domain(pipeline.settings.dalleval.paintskills), "PaintSkills' folder"
    else:
        made_by = pipeline.image_model(images)
        what = made_by.image_domain, f"the model {made_by.label!r}"
    if role == "triplets.similarity":
        networks = pipeline.triplets.networks.items()
        yield from (ModelUse(role, judge.name, *what, network=by) for by, judge in networks if judge)
        return
    for name in given if isinstance(given, tuple) else (given,):
        yield ModelUse(role, name, *what)


def check_domain(use: ModelUse, pipeline: Pipeline) -> None:
    """Refuse a judge that is not named, or is made for other images (ParameterError)."""
    if use.image_domain:
        judging.check_domain(use.judge(pipeline), use.setting, use.image_domain, use.image_source)


def look_up(use: ModelUse, pipeline: Pipeline) -> list[ModelFiles]:
    """Return the files of a model, if it needs weights; no weights are read or downloaded.

    Raises BiaslabError: It is not to be had as far as can be known from here, or is of another kind.
    """
    if use.setting == "model":
        # A name that a package brings may stand for a model for each kind of images.
        groups = [pipeline.image_model(prompt_set).look_up() for prompt_set in PROMPT_SETS]
        return list({files.name: files for each in groups for files in each}.values())
    if use.setting == ENCODER:
        return embeddings.look_up(use.name)
    judge = use.judge(pipeline)
    judge.check()
    if use.setting == "judging.skin_tone":
        pipeline.check_person_view(use.setting)
    if not judge.needs_images and use.setting in pipeline.gender_settings and pipeline.custom.has_prompts_or_images:
        pipeline.custom.check_ratings(judge)
    return judge.files()


def digest(use: ModelUse, pipeline: Pipeline) -> str:
    """Return a digest of the files behind a judge, or what is known of them; raises as :func:`look_up`."""
    if use.setting == ENCODER:
        return use.name
    # Judges of these settings are optional; a run that needs one is stopped before any work.
    missing = (MissingInputError, ParameterError) if use.setting in _OPTIONAL else ()
    try:
        return use.judge(pipeline).digest()
    except missing:
        return use.name


def digests(pipeline: Pipeline, names: Collection[str], cache: dict[str, str]) -> dict[str, str]:
    """Return digests of the judges that measured tables take, by setting and name; ``cache`` holds those computed."""
    judges = {
        f"{use.setting} {use.name}": (use, member)
        for member in (pipeline, *pipeline.baseline_pipelines)
        for use in uses_of_tables(member, names)
        if use.setting != "model" and use.name
    }
    cache |= {key: digest(*judge) for key, judge in judges.items() if key not in cache}
    return {key: cache[key] for key in judges}


def problem(use: ModelUse, error: BiaslabError) -> str:
    """Return what is wrong with a model that is used, in words that name its setting."""
    message = str(error)
    if use.setting in message:
        return message
    return f"{use.setting}: {message}" if use.name in message else f"{use.setting} is {use.name!r}: {message}"


def combine_problems(problems: Collection[str]) -> ParameterError:
    """Return one error for all that is wrong."""
    each = list(dict.fromkeys(problems))
    if len(each) == 1:
        return ParameterError(each[0])
    listed = "\n".join(f"  - {message}" for message in each)
    return ParameterError(f"{len(each)} things are missing, and nothing was started:\n{listed}")
