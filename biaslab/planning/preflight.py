"""The preflight check of a run: test every model and judge on one image before images are generated or bought.

One error reports all failures. After that, one image is bought per endpoint, and all judges classify it. The check runs
in a separate process, so that all memory is released.
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
    """The requests of a run, and the trials of its models and judges."""

    requests: list[ImageRequest]
    trials: list[Trial]
    costs: Mapping[tuple, Cost] = field(default_factory=dict)  # Cost of an image by :attr:`ImageRequest.cost_key`.


def check_table(pipeline: Pipeline, table: str) -> None:
    """Check the models and judges of a measured table, before it is measured outside of a run."""
    if os.environ.get(kernels.PREFLIGHT_DONE):
        return
    plan = plan_of(pipeline).of_tables([table])
    if not (image_trials := [probes.make_trial(request) for request in plan.requests if request.n_remaining > 0]):
        return
    judge_trials = [Trial(use, Request.from_pipeline(pipeline)) for use in plan.uses if use.setting != "model"]
    # Models that have succeeded in this process are not looked up again.
    if _answered.issuperset(trial.key for trial in [*image_trials, *judge_trials]):
        return
    if problems := validation.check_models(pipeline, plan.uses):
        raise validation.combine_problems(problems)
    run_preflight(plan.requests, [(pipeline, plan.uses)])


# The keys of trials that have succeeded in this process.
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
    is_done = bool(os.environ.get(kernels.PREFLIGHT_DONE))
    if is_done and not always:
        return Preflight(requests, [])
    # Report unsupported settings before the download of weights; requests that differ in guidance share a check.
    for request in {request.image_model.cost_key: request for request in remaining}.values():
        request.image_model.look_up()
    timing_requests = requests_to_time(requests)
    if not time:
        # Test each model once, on one image.
        first_keys = {
            (request.model, request.prompt_set, request.storage_class): key
            for key, (request, _) in reversed(timing_requests.items())
        }
        timing_requests = {key: (timing_requests[key][0], 1) for key in first_keys.values()}
    trials = _judge_trials(uses)
    # Sort by model, so that each is loaded once for all of its kinds of images.
    model_trials = {}
    for key, (request, n) in sorted(timing_requests.items(), key=lambda item: item[1][0].image_model.cost_key):
        model_trials[key] = replace(probes.make_trial(request, n), located=tuple(request.image_model.look_up()))
        trials.append(model_trials[key])
    purchases = {
        request.model: probes.make_trial(request) for request in reversed(remaining) if request.price is not None
    }
    pending: dict[str, Trial] = {}
    for trial in trials if not is_done else ():
        # The workers of a cluster may have models that this machine lacks; annotations were read before.
        compute = trial.request.settings.compute
        if compute.engine == "dask" or (trial.use.judge is not None and not trial.use.judge.needs_images):
            continue
        if (fetch or trial.is_local) and (time or trial.key not in _answered):
            pending.setdefault(trial.key, trial)
    purchase_trials = purchases.values() if buy and not is_done else ()
    purchase_trials = [trial for trial in purchase_trials if trial.key not in _answered]
    results: dict[str, TrialResult] = {}
    if pending or purchase_trials:
        _check_disk(pending.values())
        if say:
            size = download_size(pending.values())
            names = " and ".join(trial.request.model for trial in purchase_trials)
            download = f" after {formatting.format_bytes(size)} of weights are downloaded" if size else ""
            purchase = f"; then one image from {names} is bought" if names else ""
            models = formatting.format_count(len(pending), "model is", "models are")
            say(f"Preflight check: {models} run on one image{download}{purchase}.")
        trial_results = _run_trials_in_process(list(pending.values()), purchase_trials, progress=say is not None)
        results = dict(zip(pending, trial_results, strict=True))
        if problems := [result.problem for result in trial_results if result.problem]:
            raise validation.combine_problems(problems)
        # A model that succeeded once is not tested again for its other requests.
        _answered.update((*pending, *(probes.make_trial(request).key for request in remaining)))
    costs = {key: result.cost for key, p in model_trials.items() if (result := results.get(p.key)) and result.cost}
    trials = [replace(trial, result=results.get(trial.key)) for trial in (*trials, *purchases.values())]
    return Preflight(requests, trials, costs)


def download_size(trials: Iterable[Trial]) -> int:
    """Return the bytes of model files that have to be downloaded."""
    return sum({files.name: files.download for trial in trials for files in trial.located}.values())


def free_space() -> tuple[int, Path]:
    """Return the free bytes in the folder to which models are downloaded, and that folder."""
    cache = huggingface.cache_folder("").parent
    return shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free, cache


def _check_disk(trials: Iterable[Trial]) -> None:
    """Raise ParameterError if the disk has too little space for the download."""
    if not (size := download_size(trials)):
        return
    free, cache = free_space()
    if size > free:
        raise ParameterError(
            f"{formatting.format_bytes(size)} of weights must be downloaded to {cache}, but only "
            f"{formatting.format_bytes(free)} are free. Free some space, or set HF_HOME to a folder on a larger disk."
        )


def _judge_trials(uses: Iterable[tuple[Pipeline, Iterable[ModelUse]]]) -> list[Trial]:
    """Return one trial for each judge and encoder that pipelines use, with its files."""
    trials: dict[tuple, Trial] = {}
    for pipeline, pipeline_uses in uses:
        for use in pipeline_uses:
            trial = Trial(use, Request.from_pipeline(pipeline))
            if use.setting != "model" and (use.setting, trial.key) not in trials:
                trials[use.setting, trial.key] = replace(trial, located=tuple(use.files(pipeline)))
    return list(trials.values())


def _run_trials_in_process(pending: list[Trial], purchases: list[Trial], *, progress: bool) -> list[TrialResult]:
    """Run trials in a separate process, and return their results; raise ParameterError if that process is killed."""
    from tqdm import tqdm

    environment = kernels.environment() | {huggingface.COMMITS: json.dumps(huggingface.commits())}
    environment[kernels.PREFLIGHT_DONE] = "1"
    # The process may use all processors, unlike a process of the run.
    threads = int(environment[THREADS[0]])
    with contextlib.ExitStack() as stack:
        # Judges import their libraries themselves.
        modules = [probes.__name__, *(kernels.MODEL_MODULES if any(trial.image_request for trial in pending) else ())]
        kernel_pool = stack.enter_context(kernels.Kernels(1, environment, modules))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        bar = tqdm(total=len(pending), unit="model", desc="Preflight check", disable=not progress, file=sys.stderr)
        stack.enter_context(bar)
        log, number_file = Path(folder, "log"), Path(folder, "number_file")
        future = pool.submit(kernel_pool.call, log, probes.run_trials, pending, purchases, number_file, threads)
        last_state = None
        try:
            while not future.done():
                wait([future], timeout=1)
                number = _read_number(number_file)
                if (state := (number, _describe_progress(pending, number, log))) != last_state:
                    bar.n, last_state = state[0], state
                    bar.set_postfix_str(state[1])
            results = future.result()
        except EOFError as error:
            trial = (pending or purchases)[min(_read_number(number_file), len(pending or purchases) - 1)]
            problem = f"its process ended with exit status {error.args[0]}. Use another model."
            if error.args[0] < 0:
                problem = f"its process was killed, probably because {probes.too_large(trial)}"
            raise ParameterError(f"{trial.use.setting} is {trial.use.name!r}: {problem}") from None
        except BaseException:
            kernel_pool.kill()
            raise
        bar.n = len(pending)
        bar.set_postfix_str("")
        return results


def _read_number(number_file: Path) -> int:
    """Return the number of the current trial."""
    try:
        return int(number_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _describe_progress(pending: list[Trial], number: int, log: Path) -> str:
    """Return the name of the current trial and its last line of output, such as the progress of a download."""
    name, lines = pending[number].use.name if number < len(pending) else "", []
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last_line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{name} {last_line:.100}".strip() if last_line != name else name
