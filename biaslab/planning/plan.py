"""A plan: what measured tables take of a pipeline, found by running their measures on one that computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from biaslab.errors import MissingInputError
from biaslab.pipeline import Pipeline
from biaslab.planning.measures import measures
from biaslab.planning.planning_pipeline import PlanningPipeline
from biaslab.planning.records import ImageRequest, ModelUse, Omission, Recorder, SettingRead
from biaslab.schema import tables


@dataclass(frozen=True)
class TablePlan:
    """What one or more measured tables take of a pipeline."""

    requests: list[ImageRequest] = field(default_factory=list)
    uses: list[ModelUse] = field(default_factory=list)
    omitted_settings: tuple[str, ...] = ()  # Those that name nothing, without which a table says less.
    settings_read: frozenset[str] = frozenset()  # By dotted names.
    missing: MissingInputError | None = None  # Why the table cannot be measured.


class Plan:
    """What measured tables take of a pipeline; each table is planned once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._recorder = Recorder(pipeline.settings.judging.gender)
        self._planning = PlanningPipeline(pipeline, self._recorder)
        self._tables: dict[str, TablePlan] = {}

    def table(self, name: str) -> TablePlan:
        """Return what a measured table takes; raises as its measure, but for MissingInputError."""
        if name not in self._tables:
            self._tables[name] = self.run(measures()[name], tables.schema(name).paper)
        return self._tables[name]

    def of_tables(self, names: Iterable[str]) -> TablePlan:
        """Return what measured tables take together; names of tables that no pipeline measures are passed over."""
        papers = tables.measuring_papers()
        measured = measures().keys() & set(names)
        ordered = sorted(measured, key=lambda name: (papers.index(tables.schema(name).paper), name))
        return _joined([self.table(name) for name in ordered])

    def run(self, measure: Callable[[Pipeline], Any], paper: str) -> TablePlan:
        """Return what a function of a pipeline takes of it."""
        self._recorder.paper = paper
        missing = None
        with self._recorder.scope() as recorded:
            try:
                measure(self._planning)
            except MissingInputError as error:
                missing = error
        return _table_plan(recorded, missing)


def plan_of(pipeline: Pipeline) -> Plan:
    """Return the plan of a pipeline, made once."""
    return pipeline.remember(Plan, lambda: Plan(pipeline))


def _joined(plans: list[TablePlan]) -> TablePlan:
    """Return what several tables take together, each once."""
    requests = {id(request): request for plan in plans for request in plan.requests}
    uses = {use[:4]: use for plan in plans for use in plan.uses}
    omitted = dict.fromkeys(setting for plan in plans for setting in plan.omitted_settings)
    reads = frozenset[str]().union(*(plan.settings_read for plan in plans))
    return TablePlan(list(requests.values()), list(uses.values()), tuple(omitted), reads)


def _table_plan(recorded: Iterable[Hashable], missing: MissingInputError | None) -> TablePlan:
    def of(kind: type) -> list:
        return [item for item in recorded if type(item) is kind]

    reads = frozenset(item.name for item in of(SettingRead))
    if missing is not None:
        return TablePlan(settings_read=reads, missing=missing)
    return TablePlan(of(ImageRequest), of(ModelUse), tuple(item.setting for item in of(Omission)), reads)


class Omissions(NamedTuple):
    """What a notebook cannot have of what it takes."""

    tables: dict[str, tuple[str, ...]]
    """The measured tables that it does without, with the settings that name nothing."""
    in_part: dict[str, tuple[str, ...]]
    """Those that say less, or the same by other judges."""
    reason: str
    """Why it cannot run; empty where it can."""
    settings: tuple[str, ...]
    """Those that name nothing, and that it cannot run without."""
    on_purpose: bool
    """Whether all that it cannot run without was given as empty, or is no matter of settings that name nothing."""


def find_omissions(takes: Collection[str], needs: Collection[str], pipeline: Pipeline) -> Omissions:
    """Return what a notebook has to do without where it takes tables of a pipeline, of which it ``needs`` some.

    One that needs none needs those that judges make, where all of these are missing. Raises as :meth:`Plan.table`.
    """
    plans = [plan_of(one) for one in (pipeline, *pipeline.baseline_pipelines)]
    names = sorted(measures().keys() & set(takes))
    missing = {}
    for name in names:
        errors = [plan.table(name).missing for plan in plans]
        if all(errors):
            missing[name] = errors[0]
    needed = sorted(missing.keys() & set(needs))
    rest = {name: plans[0].table(name) for name in names if name not in missing}
    if not set(names) & set(needs) and not any(use.judge for table in rest.values() for use in table.uses):
        needed = [name for name, error in missing.items() if error.settings]
    reason = f"It takes {needed[0]}. {missing[needed[0]]}" if needed else ""
    bare = tuple(dict.fromkeys(setting for name in needed for setting in missing[name].settings))
    others = {name: error.settings for name, error in missing.items() if name not in needed}
    in_part = {name: table.omitted_settings for name, table in rest.items() if table.omitted_settings}
    return Omissions(others, in_part, reason, bare, all(is_disabled(pipeline, setting) for setting in bare))


def is_disabled(pipeline: Pipeline, setting: str) -> bool:
    """Return whether a setting that names nothing is a switch or was given as empty, and not just never given."""
    group, name = setting.split(".")
    values = getattr(pipeline.settings, group)
    return getattr(values, name) is False or name in values.model_fields_set
