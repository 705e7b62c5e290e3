"""A plan: the images, judges and settings of measured tables, found by measuring them without any computation."""

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
    """The requirements of one or more measured tables."""

    requests: list[ImageRequest] = field(default_factory=list)
    uses: list[ModelUse] = field(default_factory=list)
    omitted_settings: tuple[str, ...] = ()  # Empty settings, without which a table lacks values.
    settings_read: frozenset[str] = frozenset()  # By dotted names.
    missing: MissingInputError | None = None  # Why the table cannot be measured.


class Plan:
    """The requirements of a pipeline's measured tables; each table is planned once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._recorder = Recorder(pipeline.settings.judging.gender)
        self._planning = PlanningPipeline(pipeline, self._recorder)
        self._tables: dict[str, TablePlan] = {}

    def table(self, name: str) -> TablePlan:
        """Return the requirements of a measured table; raises as its measure, except MissingInputError."""
        if name not in self._tables:
            self._tables[name] = self.run(measures()[name], tables.schema(name).paper)
        return self._tables[name]

    def of_tables(self, names: Iterable[str]) -> TablePlan:
        """Return the joint requirements of measured tables; other tables are ignored."""
        papers = tables.measuring_papers()
        measured = measures().keys() & set(names)
        ordered_names = sorted(measured, key=lambda name: (papers.index(tables.schema(name).paper), name))
        return _join([self.table(name) for name in ordered_names])

    def run(self, measure: Callable[[Pipeline], Any], paper: str) -> TablePlan:
        """Return the requirements of a function of a pipeline."""
        self._recorder.paper = paper
        missing = None
        with self._recorder.scope() as records:
            try:
                measure(self._planning)
            except MissingInputError as error:
                missing = error
        return _make_table_plan(records, missing)


def plan_of(pipeline: Pipeline) -> Plan:
    """Return the plan of a pipeline, created once."""
    return pipeline.remember(Plan, lambda: Plan(pipeline))


def _join(plans: list[TablePlan]) -> TablePlan:
    """Return the joint requirements of several tables, each once."""
    requests = {id(request): request for plan in plans for request in plan.requests}
    uses = {use[:4]: use for plan in plans for use in plan.uses}
    omitted = dict.fromkeys(setting for plan in plans for setting in plan.omitted_settings)
    reads = frozenset[str]().union(*(plan.settings_read for plan in plans))
    return TablePlan(list(requests.values()), list(uses.values()), tuple(omitted), reads)


def _make_table_plan(records: Iterable[Hashable], missing: MissingInputError | None) -> TablePlan:
    def select(kind: type) -> list:
        return [item for item in records if type(item) is kind]

    reads = frozenset(item.name for item in select(SettingRead))
    if missing is not None:
        return TablePlan(settings_read=reads, missing=missing)
    return TablePlan(select(ImageRequest), select(ModelUse), tuple(item.setting for item in select(Omission)), reads)


class Omissions(NamedTuple):
    """The tables that a notebook uses and a run does not measure."""

    tables: dict[str, tuple[str, ...]]
    """Measured tables that are missing, with the empty settings that are the reason."""
    in_part: dict[str, tuple[str, ...]]
    """Measured tables that lack values or take them from another judge, with the empty settings."""
    reason: str
    """Why it cannot run; empty if it can."""
    settings: tuple[str, ...]
    """The empty settings that prevent it from running."""
    on_purpose: bool
    """Whether each of these settings was given as empty; also true if no setting is the reason."""


def find_omissions(takes: Collection[str], needs: Collection[str], pipeline: Pipeline) -> Omissions:
    """Return the tables that a notebook ``takes`` and a pipeline does not measure; it cannot run without ``needs``.

    A notebook that needs no table cannot run if all tables that judges fill are missing. Raises as
    :meth:`Plan.table`.
    """
    plans = [plan_of(member) for member in (pipeline, *pipeline.baseline_pipelines)]
    names = sorted(measures().keys() & set(takes))
    missing = {}
    for name in names:
        errors = [plan.table(name).missing for plan in plans]
        if all(errors):
            missing[name] = errors[0]
    blocking = sorted(missing.keys() & set(needs))
    plans_by_table = {name: plans[0].table(name) for name in names if name not in missing}
    if not set(names) & set(needs) and not any(use.judge for table in plans_by_table.values() for use in table.uses):
        blocking = [name for name, error in missing.items() if error.settings]
    reason = f"It needs the table {blocking[0]}. {missing[blocking[0]]}" if blocking else ""
    empty_settings = tuple(dict.fromkeys(setting for name in blocking for setting in missing[name].settings))
    omitted_tables = {name: error.settings for name, error in missing.items() if name not in blocking}
    in_part = {name: table.omitted_settings for name, table in plans_by_table.items() if table.omitted_settings}
    on_purpose = all(is_disabled(pipeline, setting) for setting in empty_settings)
    return Omissions(omitted_tables, in_part, reason, empty_settings, on_purpose)


def is_disabled(pipeline: Pipeline, setting: str) -> bool:
    """Return whether an empty setting is a switch, or was given as empty by the user."""
    group, name = setting.split(".")
    values = getattr(pipeline.settings, group)
    return getattr(values, name) is False or name in values.model_fields_set
