"""The functions that measure tables, by the tables' names: for each paper and analysis, and by judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from inspect import isfunction
from types import ModuleType
from typing import TYPE_CHECKING

from biaslab import redact
from biaslab.errors import ParameterError
from biaslab.judges.judge_labels import NOT_READ
from biaslab.schema import tables

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.pipeline import Pipeline

    Measure = Callable[[Pipeline], pd.DataFrame]


@cache
def table_functions(module: str) -> dict[str, Callable]:
    """Return the public functions of all papers' modules with this name, by the table that each function fills."""
    functions: dict[str, Callable] = {}
    for measuring in paper_modules(module):
        public = (f for f in vars(measuring).values() if isfunction(f) and f.__module__ == measuring.__name__)
        functions |= {table: f for f in public if (table := table_of(f)) in tables.schemas()}
    return functions


def paper_modules(module: str) -> list[ModuleType]:
    """Return the modules with this name in the packages of papers that measure tables, in the papers' order."""
    module_names = (tables.module(paper, module) for paper in tables.measuring_papers())
    return [import_module(name) for name in module_names if find_spec(name)]


@cache
def measures() -> dict[str, Measure]:
    """Return the functions that measure tables with a pipeline, by the tables' names."""
    functions = table_functions("measure")
    by_judge = ((name, schema.by_judge_of) for name, schema in tables.schemas().items() if schema.by_judge_of)
    return functions | {name: partial(_measure_by_judge, name, functions[base]) for name, base in by_judge}


def table_of(measure: Callable | str) -> str:
    """Return the table that a function measures (names are returned unchanged); raise ParameterError without one."""
    if isinstance(measure, str):
        return measure
    module, name = getattr(measure, "__module__", ""), getattr(measure, "__name__", "")
    parts = module.split(".")
    if parts[:2] not in (["biaslab", "papers"], ["biaslab", "analyses"]) or parts[3:] not in (["measure"], ["printed"]):
        raise ParameterError(
            f"{measure!r} is not a measure; pass a measure of a paper, such as biaslab.papers.paradox.percent_female."
        )
    schemas = tables.schemas().items()
    table_names = (table for table, schema in schemas if (schema.paper, schema.function) == (parts[2], name))
    return next(table_names, f"{parts[2]}_{name}")


def _measure_by_judge(name: str, measure: Measure, pipeline: Pipeline) -> pd.DataFrame:
    """Return the table of a measure for each pipeline in which another judge labels the same images."""
    reference, pipelines = pipelines_by_judge(pipeline, tables.schema(name).paper)
    frames = [measure(variant).assign(judge=judge, reference=reference) for judge, variant in pipelines.items()]
    return tables.join_tables(frames, name)


def pipelines_by_judge(pipeline: Pipeline, paper: str) -> tuple[str, dict[str, Pipeline]]:
    """Return the name in tables of the judge of a paper's headlines, and a pipeline for each extra judge.

    The pipelines use the images of ``pipeline``, and label only the inputs of headlines: no skin tones, no answers to
    questions, and no images whose prompts depend on the judge. If the headlines of a paper do not come from the gender
    judge, its ``measure`` module has a function ``headline_judge``. Extra judges are ``judging.extra_judges``.
    """
    s = pipeline.settings
    headline_judge = getattr(import_module(tables.module(paper, "measure")), "headline_judge", None)
    judge = headline_judge(pipeline) if headline_judge else s.judging.gender
    names = redact.unique_names((judge, *s.judging.extra_judges))
    pipelines = {}
    for name in dict.fromkeys(s.judging.extra_judges):
        if name != judge:
            judging = {"gender": name, "skin_tone": NOT_READ}
            variant = pipeline.with_changes(judging=judging, dalleval={"vqa": ""}, critic={"rounds": 0})
            variant.headlines_only = True
            pipelines[names[name]] = variant
    return names[judge], pipelines
