"""The functions that measure tables, by the tables' names: of each paper and analysis, and by judge."""

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
    """Return the public functions of modules of this name in the packages of papers, by the table that each fills."""
    found: dict[str, Callable] = {}
    for measuring in paper_modules(module):
        public = (f for f in vars(measuring).values() if isfunction(f) and f.__module__ == measuring.__name__)
        found |= {table: f for f in public if (table := table_of(f)) in tables.schemas()}
    return found


def paper_modules(module: str) -> list[ModuleType]:
    """Return the modules of this name in the packages of papers that measure tables, in the papers' order."""
    named = (tables.module(paper, module) for paper in tables.measuring_papers())
    return [import_module(name) for name in named if find_spec(name)]


@cache
def measures() -> dict[str, Measure]:
    """Return the functions that measure tables with a pipeline, by the tables' names."""
    functions = table_functions("measure")
    by_judge = ((name, schema.by_judge_of) for name, schema in tables.schemas().items() if schema.by_judge_of)
    return functions | {name: partial(_measure_by_judge, name, functions[of]) for name, of in by_judge}


def table_of(measure: Callable | str) -> str:
    """Return the table that a function of a paper measures (a name is its own); a ParameterError where it is none."""
    if isinstance(measure, str):
        return measure
    module, name = getattr(measure, "__module__", ""), getattr(measure, "__name__", "")
    parts = module.split(".")
    if parts[:2] not in (["biaslab", "papers"], ["biaslab", "analyses"]) or parts[3:] not in (["measure"], ["printed"]):
        raise ParameterError(
            f"{measure!r} measures nothing; give what a paper measures, such as biaslab.papers.paradox.percent_female."
        )
    declared = tables.schemas().items()
    own = (table for table, schema in declared if (schema.paper, schema.function) == (parts[2], name))
    return next(own, f"{parts[2]}_{name}")


def _measure_by_judge(name: str, measure: Measure, pipeline: Pipeline) -> pd.DataFrame:
    """Return what a function measures with each of the pipelines in which another judge labels the same images."""
    reference, others = pipelines_by_judge(pipeline, tables.schema(name).paper)
    frames = [measure(other).assign(judge=judge, reference=reference) for judge, other in others.items()]
    return tables.join_tables(frames, name)


def pipelines_by_judge(pipeline: Pipeline, paper: str) -> tuple[str, dict[str, Pipeline]]:
    """Return what tables call the judge of a paper's headlines, and a pipeline for each of ``judging.extra_judges``.

    Their images are those of ``pipeline``. They judge only what headlines are computed from: no skin tones, no answers
    to questions, and no images whose prompts depend on the judge. A paper whose headlines come from another judge than
    that of gender has a function ``headline_judge`` in its ``measure``.
    """
    s = pipeline.settings
    headline_judge = getattr(import_module(tables.module(paper, "measure")), "headline_judge", None)
    judge = headline_judge(pipeline) if headline_judge else s.judging.gender
    names = redact.unique_names((judge, *s.judging.extra_judges))
    others = {}
    for name in dict.fromkeys(s.judging.extra_judges):
        if name != judge:
            judging = {"gender": name, "skin_tone": NOT_READ}
            other = pipeline.changed(judging=judging, dalleval={"vqa": ""}, critic={"rounds": 0})
            other.headlines_only = True
            others[names[name]] = other
    return names[judge], others
