"""The preflight check of a run: every model and judge is used on one image before any is generated or bought.

What fails is told together; at an endpoint one image is bought after that, and examined by all judges. It happens in a
process of its own, which gives all memory back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.errors import ParameterError
from biaslab.execution import kernels
from biaslab.execution.workers import THREADS
from biaslab.hub import huggingface
from biaslab.planning import probes, validation
from biaslab.planning.costs import Cost, requests_to_time
from biaslab.planning.plan import plan_of
from biaslab.planning.probes import Trial, TrialResult
from biaslab.planning.records import ImageRequest, ModelUse
from biaslab.request import Request
from biaslab.schema import formatting

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline


@dataclass(frozen=True)
class Preflight:
    """What a run uses, and what became of its trial."""

    requests: list[ImageRequest]
    trials: list[Trial]
    costs: Mapping[tuple, Cost] = field(default_factory=dict)  # What an image takes, by :attr:`ImageRequest.cost_key`.


def check_table(pipeline: Pipeline, table: str) -> None:
    """Check what a measured table takes of a pipeline, before it is measured outside of a run."""
    if os.environ.get(kernels.PREFLIGHT_DONE):
        return
    plan = plan_of(pipeline).of_tables([table])
    if not (made := [probes.make_trial(request) for request in plan.requests if request.n_remaining > 0]):
        return
    judged = [Trial(use, Request.from_pipeline(pipeline)) for use in plan.uses if use.setting != "model"]
    # Nothing is looked up again that has answered here.
    if _answered.issuperset(trial.key for trial in [*made, *judged]):
        return
    if problems := validation.check_models(pipeline, plan.uses):
        raise validation.combine_problems(problems)
    run_preflight(plan.requests, [(pipeline, plan.uses)])


# The trials that this process has seen answer.
_answered: set[str] = set()


def run_preflight(
    requests: list[ImageRequest],
    uses: Iterable[tuple[Pipeline, Iterable[ModelUse]]],
    *,
    fetch: bool = True,
    buy: bool = True,
    always: bool = False,
    time: bool = False,
    say: Callable[[str], object] | None = None,
) -> Preflight:
    """Test the models and services of pipelines before the images of ``requests`` are generated.

    A model whose images are all cached is tested only with ``always``; judges always are. Nothing is tested if another
    process of this run has tested it.
    ``time`` measures the seconds per image of each kind. ``fetch`` permits the download of weights, and ``buy`` the
    purchase of the first image of each model at an endpoint. ``say`` receives progress messages. Raises
    ParameterError: A model or service does not answer, or an input cannot be used; one message lists all problems.
    """
    remaining = [request for request in requests if request.n_remaining > 0]
    done = bool(os.environ.get(kernels.PREFLIGHT_DONE))
    if done and not always:
        return Preflight(requests, [])
    # What a model cannot do is said before it is fetched; how strong guidance is does not matter for that.
    for request in {request.image_model.cost_key: request for request in remaining}.values():
        request.image_model.look_up()
    timed = requests_to_time(requests)
    if not time:
        # Each model once, and one image of it.
        once = {
            (request.model, request.prompt_set, request.storage_class): key
            for key, (request, _) in reversed(timed.items())
        }
        timed = {key: (timed[key][0], 1) for key in once.values()}
    parts = _judge_trials(uses)
    # One model after the other, so that each is loaded once for all that it makes.
    model_trials = {}
    for key, (request, n) in sorted(timed.items(), key=lambda item: item[1][0].image_model.cost_key):
        model_trials[key] = replace(probes.make_trial(request, n), located=tuple(request.image_model.look_up()))
        parts.append(model_trials[key])
    purchases = {
        request.model: probes.make_trial(request) for request in reversed(remaining) if request.price is not None
    }
    pending: dict[str, Trial] = {}
    for part in parts if not done else ():
        # What workers of a cluster have, this machine may not; annotations are read before.
        compute = part.request.settings.compute
        if compute.engine == "dask" or (part.use.judge is not None and not part.use.judge.needs_images):
            continue
        if (fetch or part.is_local) and (time or part.key not in _answered):
            pending.setdefault(part.key, part)
    bought = purchases.values() if buy and not done else ()
    bought = [trial for trial in bought if trial.key not in _answered]
    results: dict[str, TrialResult] = {}
    if pending or bought:
        _check_disk(pending.values())
        if say:
            size, names = download_size(pending.values()), " and ".join(trial.request.model for trial in bought)
            fetched = f", after {formatting.format_bytes(size)} of weights are fetched" if size else ""
            purchase = f"; then one image of {names} is bought" if names else ""
            models = formatting.format_count(len(pending), "model is", "models are")
            say(f"Preflight check: {models} run on one image{fetched}{purchase}.")
        results_found = _run_trials_in_process(list(pending.values()), bought, progress=say is not None)
        results = dict(zip(pending, results_found, strict=True))
        if problems := [tried.problem for tried in results_found if tried.problem]:
            raise validation.combine_problems(problems)
        # What a model has done once, it does for all that is asked of it.
        _answered.update((*pending, *(probes.make_trial(request).key for request in remaining)))
    costs = {key: tried.cost for key, p in model_trials.items() if (tried := results.get(p.key)) and tried.cost}
    parts = [replace(part, result=results.get(part.key)) for part in (*parts, *purchases.values())]
    return Preflight(requests, parts, costs)


def download_size(parts: Iterable[Trial]) -> int:
    """Return how many bytes of models are not here."""
    return sum({at.name: at.download for part in parts for at in part.located}.values())


def free_space() -> tuple[int, Path]:
    """Return how many bytes are free where models are fetched to, and where that is."""
    cache = huggingface.cached("").parent
    return shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free, cache


def _check_disk(parts: Iterable[Trial]) -> None:
    """Refuse to fetch what the disk does not hold."""
    if not (size := download_size(parts)):
        return
    room, cache = free_space()
    if size > room:
        raise ParameterError(
            f"{formatting.format_bytes(size)} of weights are to be fetched to {cache}, where "
            f"{formatting.format_bytes(room)} are free. Free some space, or set HF_HOME to a folder on a larger disk."
        )


def _judge_trials(uses: Iterable[tuple[Pipeline, Iterable[ModelUse]]]) -> list[Trial]:
    """Return a trial of each judge and encoder that pipelines use, with its files."""
    trials: dict[tuple, Trial] = {}
    for pipeline, used in uses:
        for use in used:
            trial = Trial(use, Request.from_pipeline(pipeline))
            if use.setting != "model" and (use.setting, trial.key) not in trials:
                trials[use.setting, trial.key] = replace(trial, located=tuple(use.files(pipeline)))
    return list(trials.values())


def _run_trials_in_process(pending: list[Trial], purchases: list[Trial], *, progress: bool) -> list[TrialResult]:
    """Return what becomes of trials, in a process of their own; ParameterError where that was killed at one."""
    from tqdm import tqdm

    environment = kernels.environment() | {huggingface.COMMITS: json.dumps(huggingface.commits())}
    environment[kernels.PREFLIGHT_DONE] = "1"
    # It has the processors for itself, whatever is left to a process of the run.
    threads = int(environment[THREADS[0]])
    with contextlib.ExitStack() as stack:
        # Judges import what they need themselves.
        modules = [probes.__name__, *(kernels.MODEL_MODULES if any(one.image_request for one in pending) else ())]
        running = stack.enter_context(kernels.Kernels(1, environment, modules))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        bar = tqdm(total=len(pending), unit="model", desc="Preflight check", disable=not progress, file=sys.stderr)
        stack.enter_context(bar)
        log, number_file = Path(folder, "log"), Path(folder, "number_file")
        coming = pool.submit(running.call, log, probes.run_trials, pending, purchases, number_file, threads)
        shown = None
        try:
            while not coming.done():
                wait([coming], timeout=1)
                if (now := (_number(number_file), _describe_progress(pending, _number(number_file), log))) != shown:
                    bar.n, shown = now[0], now
                    bar.set_postfix_str(now[1])
            results = coming.result()
        except EOFError as error:
            trial = (pending or purchases)[min(_number(number_file), len(pending or purchases) - 1)]
            problem = f"it ended its process with exit status {error.args[0]}, as nothing that is used may."
            if error.args[0] < 0:
                problem = f"its process was killed, likely because {probes.too_large(trial)}"
            raise ParameterError(f"{trial.use.setting} is {trial.use.name!r}: {problem}") from None
        except BaseException:
            running.kill()
            raise
        bar.n = len(pending)
        bar.set_postfix_str("")
        return results


def _number(number_file: Path) -> int:
    """Return the number of the trial that is made."""
    try:
        return int(number_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _describe_progress(pending: list[Trial], number: int, log: Path) -> str:
    """Return the name of the current trial and its last line of output, such as the progress of a download."""
    name, lines = pending[number].use.name if number < len(pending) else "", []
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{name} {last:.100}".strip() if last != name else name
