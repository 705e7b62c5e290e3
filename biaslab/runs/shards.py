"""Computation of a run's stages in shards, for arrays of jobs that share one cache and need no other connection."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from biaslab.cache.result_cache import UnfinishedError
from biaslab.errors import MissingInputError, ParameterError
from biaslab.execution import kernels
from biaslab.pipeline import Pipeline
from biaslab.planning.measures import measures
from biaslab.runs import dry_run, jobs
from biaslab.runs.params import RunParams
from biaslab.study import sources

# Seconds between checks of the results of other shards: the first pause, and the longest.
_WAITS = 1.0, 60.0


def compute(
    params: RunParams,
    shard: tuple[int, int],
    *,
    progress: bool = True,
    wait: bool = False,
    waiting: Callable[[list[str]], object] = print,
) -> list[str]:
    """Compute a shard (i, n), i of n, of all work of a run's notebooks, and return one sentence per unfinished stage.

    With ``wait``, wait for other shards and continue with the stages that need them, until all work is done;
    ``waiting`` is called with the sentences each time they change.

    Raises:
        ParameterError: The shard is not one of (0, n) to (n - 1, n), or the run has no work to share.
    """
    run_jobs = jobs.plan(params)
    open_pipelines = jobs.pipelines(run_jobs)
    if not os.environ.get(kernels.PREFLIGHT_DONE):
        dry_run.run_preflight(run_jobs, progress)
    if not open_pipelines:
        raise ParameterError("The notebooks of this run have no work for shards. Set source to 'pipeline'.")
    last_sentences: list[str] = []
    pause, longest = _WAITS
    while remaining := [
        text
        for entry in open_pipelines
        for text in compute_pipeline(entry.pipeline, entry.tables, shard, entry.notebooks, progress=progress)
    ]:
        if not wait:
            return remaining
        if remaining != last_sentences:
            waiting(last_sentences := remaining)
            pause = _WAITS[0]
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return []


def compute_pipeline(
    pipeline: Pipeline,
    tables: Iterable[str],
    shard: tuple[int, int],
    notebooks: Iterable[str] = (),
    *,
    progress: bool = False,
) -> list[str]:
    """Compute a shard of the work of a pipeline's measured tables; without tables, of its work with captions.

    Each stage is computed as far as its inputs exist. ``notebooks`` are ids of notebooks that may need additional work
    (:func:`biaslab.runs.jobs.work`). Other arguments and the result are those of :func:`compute`.
    """
    remaining: dict[str, None] = {}
    mine = pipeline.shard(*shard)
    mine.progress = progress
    for work in _iterate_work(mine, sorted(tables), sorted(notebooks)):
        try:
            work()
        except UnfinishedError as error:
            remaining[str(error)] = None
        except MissingInputError:
            # The run reports the reason.
            continue
    return list(remaining)


def _iterate_work(mine: Pipeline, tables: list[str], notebooks: list[str]) -> Iterator[Callable[[], object]]:
    if mine.has_captions:
        yield from mine.caption_stages()
    for name in tables:
        if name in measures():
            yield partial(sources.load_measured, name, source="pipeline", pipeline=mine)
    for notebook in notebooks:
        for notebook_work in jobs.work(notebook, mine):
            yield from notebook_work.stages()
