"""A run's stages computed in shares, for arrays of jobs that see one store and need nothing else of one another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from biaslab.cache.result_cache import UnfinishedError
from biaslab.errors import MissingInputError, ParameterError
from biaslab.execution import kernels
from biaslab.pipeline import Pipeline
from biaslab.runs import dry_run, jobs
from biaslab.runs.params import RunParams
from biaslab.schema.tables import schema, schemas
from biaslab.study import sources

# Seconds before what others have finished is looked at again: the first wait, and the longest.
_WAITS = 1.0, 60.0


def compute(
    params: RunParams,
    share: tuple[int, int],
    *,
    progress: bool = True,
    wait: bool = False,
    waiting: Callable[[list[str]], object] = print,
) -> list[str]:
    """Compute a share (i, n), i of n, of all that a run's notebooks take, and return what is left, a sentence a stage.

    With ``wait`` it waits for other shares, and goes on with what needs them, until nothing is left; ``waiting`` is
    called with what is left, each time that it has changed.

    Raises:
        ParameterError: The share is not one of (0, n) to (n - 1, n), or the run makes nothing that can be shared.
    """
    planned = jobs.plan(params)
    opened = jobs.pipelines(planned, progress=progress)
    if not os.environ.get(kernels.PREFLIGHTED):
        dry_run.rehearse(planned, progress)
    if not opened:
        raise ParameterError("The notebooks of this run make nothing that can be shared; set source to 'pipeline'.")
    told: list[str] = []
    pause, longest = _WAITS
    while left := [text for one in opened for text in compute_of(one.pipeline, one.tables, share, one.notebooks)]:
        if not wait:
            return left
        if left != told:
            waiting(told := left)
            pause = _WAITS[0]
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return []


def compute_of(
    pipeline: Pipeline, tables: Iterable[str], share: tuple[int, int], notebooks: Iterable[str] = ()
) -> list[str]:
    """Compute a share of what a pipeline's measured tables take; without any, of what it does with captions.

    Each stage goes as far as what it needs is there. ``notebooks`` are ids of those that may take more of it
    (:func:`biaslab.runs.jobs.work`); other arguments and the result are those of :func:`compute`.
    """
    left: dict[str, None] = {}
    for work in _works(pipeline.sharing(*share), sorted(tables), sorted(notebooks)):
        try:
            work()
        except UnfinishedError as error:
            left[str(error)] = None
        except MissingInputError:
            # The run will say why it has none.
            continue
    return list(left)


def _works(mine: Pipeline, tables: list[str], notebooks: list[str]) -> Iterator[Callable[[], object]]:
    if not tables or any(schema(name).prompts == "captions" for name in tables if name in schemas()):
        yield from mine.on_captions()
    for name in tables:
        if sources.has(name, source="pipeline"):
            yield partial(sources.measured, name, source="pipeline", pipeline=mine)
    for notebook in notebooks:
        for more in jobs.work(notebook, mine):
            yield from more.stages()
