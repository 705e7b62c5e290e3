"""Headless execution of notebooks: each in a kernel, several in parallel, below the folder of one attempt."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

from biaslab import __version__, redact
from biaslab.cache import code_digest, result_cache
from biaslab.errors import RunError
from biaslab.execution import kernels, processor
from biaslab.execution.workers import Workers, start_scheduler
from biaslab.hub import huggingface
from biaslab.io.reading import digests
from biaslab.request import makes_images
from biaslab.runs.collect import copy, notes, write_json
from biaslab.runs.jobs import Job
from biaslab.runs.params import RunParams
from biaslab.study import sources
from biaslab.study.study import ATTEMPT, PARTS, PROGRESS

# The file with the standard error of a notebook's kernel.
_LOG = "kernel.log"
# Imported by each kernel before its first notebook.
_MODULES = """psutil filelock pyarrow.dataset pyarrow.parquet pandas.io.formats.csvs pandas.io.formats.html scipy.stats
    seaborn matplotlib.backends.backend_agg matplotlib.backends.backend_svg PIL.JpegImagePlugin"""
# nbconvert's exporter is not thread-safe.
_rendering = threading.Lock()
# Seconds that notebooks have to end by themselves when the user stops the run.
_GRACE = 1.5
RESUME_ADVICE = (
    "Finished notebooks and stages are cached. To resume the run, {fix}, and run the same command again; or "
    "start the run elsewhere with --outputs DIR."
)
# Characters of an error's text in the record.
_LONGEST_REASON = 2000


def count_parallel(params: RunParams) -> int:
    """Return the number of notebooks to execute in parallel; 0 is one per processor.

    It is 1 if work runs in workers, because each notebook starts its own and one team can fill a cluster. It is 1 if
    images are generated on a GPU, because each notebook loads the models and a GPU fits one set.
    """
    settings = params.values.get("settings")
    compute = (settings.get("compute") if isinstance(settings, Mapping) else None) or {}
    is_serial = bool(compute.get("workers")) or compute.get("engine") == "dask"
    if not (params.jobs or is_serial) and makes_images(params.default("source")):
        is_serial = (compute.get("device", "auto").replace("auto", processor.accelerator())) != "cpu"
    return params.jobs or int(is_serial)


def _make_kernels(jobs: list[Job], side_by_side: int) -> kernels.Kernels:
    """Return kernels for the notebooks of jobs, with the libraries that the notebooks import."""
    workers = _count_workers(jobs, side_by_side)
    variables = kernels.environment(workers) | {huggingface.COMMITS: json.dumps(huggingface.commits())}
    variables |= {ATTEMPT: str(jobs[0].attempt), kernels.PREFLIGHT_DONE: "1"}
    # If a batch system starts the cluster, all notebooks share one.
    for compute in (job.request.settings.compute for job in jobs if job.request and job.request.settings):
        variables |= start_scheduler(Workers(compute.engine, compute.workers, compute.address))
    modules = sorted(code_digest.imported_modules(cell for job in jobs for cell in job.notebook.cells))
    if sum(job.makes_images for job in jobs) > workers:
        modules += kernels.MODEL_MODULES
    return kernels.Kernels(workers, variables, [*_MODULES.split(), *modules])


def _count_workers(jobs: list[Job], side_by_side: int) -> int:
    return min(side_by_side or os.cpu_count() or 1, len(jobs))


def execute_all(
    jobs: list[Job],
    side_by_side: int,
    progress: bool,
    note: Callable[[list[dict]], None],
) -> tuple[list[dict], bool]:
    """Return the record of each job, and whether the user stopped the run; ``note`` is called when a job ends."""
    from tqdm import tqdm

    records_by_slug: dict[str, dict] = {}
    start = time.monotonic()

    def record_end(job: Job, record: dict) -> None:
        records_by_slug[job.slug] = _move_results(job, record)
        bar.set_postfix_str(f"{job.slug}: {record['status']}")
        bar.update()
        note(list(records_by_slug.values()))

    def show_progress(running: Iterable[Job]) -> None:
        if progress:
            line = f"{', '.join(job.slug for job in running)}: {round(time.monotonic() - start)} s"
            bar.set_postfix_str(_progress_line(jobs[0].attempt) or line)

    stopped = False
    with tqdm(total=len(jobs), unit="notebook", disable=not progress, file=sys.stderr) as bar:
        try:
            _execute_parallel(jobs, side_by_side, record_end, show_progress)
        except KeyboardInterrupt:
            stopped = True
    for job in jobs:
        if job.slug not in records_by_slug:
            _clear(job)
            records_by_slug[job.slug] = _make_record(job, "stopped", "Stopped by the user before it finished.")
    return [records_by_slug[job.slug] for job in jobs], stopped


def _execute_parallel(
    jobs: list[Job],
    side_by_side: int,
    on_end: Callable[[Job, dict], None],
    on_wait: Callable[[Iterable[Job]], None],
) -> None:
    """Execute jobs; ``on_wait`` is called with the running jobs every two seconds in which none ends."""
    workers = _count_workers(jobs, side_by_side)
    with _make_kernels(jobs, side_by_side) as kernel_pool, ThreadPoolExecutor(workers) as pool:
        pending, jobs_by_future = list(jobs), dict[Future, Job]()
        try:
            while pending or jobs_by_future:
                while pending and len(jobs_by_future) < workers:
                    job = next_job(pending, jobs_by_future.values())
                    pending.remove(job)
                    jobs_by_future[pool.submit(execute, job, kernel_pool)] = job
                finished, _ = wait(jobs_by_future, timeout=2, return_when=FIRST_COMPLETED)
                for future in finished:
                    on_end(jobs_by_future.pop(future), future.result())
                if not finished:
                    on_wait(jobs_by_future.values())
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                if isinstance(error, KeyboardInterrupt):
                    kernel_pool.interrupt()
                    wait(jobs_by_future, timeout=_GRACE)
            finally:
                kernel_pool.kill()
            raise


def next_job(pending: Sequence[Job], running: Iterable[Job]) -> Job:
    """Return the job to start next: the first that generates none of the images of running jobs, else the first.

    A job that shares images with a running job would occupy a processor while it waits for them.
    """
    busy = {images for job in running for images in _image_groups(job)}
    return next((job for job in pending if busy.isdisjoint(_image_groups(job))), pending[0])


def _image_groups(job: Job) -> set[tuple[str, str]]:
    """Return the groups of images that a job generates: papers, each with the variant."""
    return {(name.partition("_")[0], job.suffix) for name in job.used_tables} if job.makes_images else set()


def print_message(text: str) -> None:
    """Print a message to standard error."""
    print(text, file=sys.stderr, flush=True)


def _progress_line(attempt: Path) -> str:
    """Return the latest progress line of a notebook's stage, with the notebook; empty if it is older than a minute."""
    logs = []
    # Folders may vanish during the search, and ``rglob`` would fail.
    for log in (Path(folder, PROGRESS) for folder, _, files in os.walk(attempt) if PROGRESS in files):
        # A notebook deletes its file when a stage ends, possibly during this search.
        with contextlib.suppress(FileNotFoundError):
            line = log.read_text(encoding="utf-8", errors="replace").strip()
            logs.append((log.stat().st_mtime, f"{log.parent.relative_to(attempt).as_posix()}: {line}"))
    modified, last_line = max(logs, default=(0.0, ""))
    return last_line if abs(time.time() - modified) <= 60 else ""


def execute(job: Job, kernel_pool: kernels.Kernels) -> dict:
    """Execute one notebook in a kernel, render it, and return its record; errors of the notebook are never raised."""
    if job.reason:
        return _make_record(job, "failed" if job.fails else "skipped", job.reason)
    from biaslab import report

    start = time.monotonic()
    # The same relative paths as in the run's folder, to which finished files are moved.
    target, page = job.pages(job.attempt)
    # Redacts the notebook's parameters, its output, and errors.
    public = partial(redact.redact, texts=job.private)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (job.attempt / job.slug).mkdir(parents=True, exist_ok=True)
        failure = _papermill(job, target, kernel_pool)
        if target.exists():
            write_json(target, public(json.loads(target.read_text(encoding="utf-8"))))
    except (OSError, RunError, ValueError) as error:
        failure = _describe_error(error, job)
        # It may name folders.
        target.unlink(missing_ok=True)
    failure = public(failure)
    if not target.exists():
        return _make_record(job, "failed", failure, time.monotonic() - start)
    index = Path(os.path.relpath(job.attempt / "index.html", page.parent)).as_posix()
    title = job.notebook.title + (f" ({job.label})" if job.variant else "")
    files = {"notebook": target.relative_to(job.attempt).as_posix()}
    try:
        with _rendering:
            report.render_notebook(target, page, title=title, index_href=index)
        files["html"] = page.relative_to(job.attempt).as_posix()
    except Exception as error:  # a page that cannot be created must not discard the results
        failure = failure or f"Its page could not be created: {_describe_error(error, job)}"
    # If the source lacks the notebook's input, the notebook does not apply, and has not failed.
    status = "ok" if not failure else "skipped" if failure.startswith("MissingInputError: ") else "failed"
    return _make_record(job, status, failure, time.monotonic() - start) | files


def _papermill(job: Job, target: Path, kernel_pool: kernels.Kernels) -> str:
    """Execute the notebook and return a description of its error; empty if it succeeded."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    folder = (job.notebook.folder or job.notebook.path.parent).absolute()
    failure = ""
    try:
        with kernel_pool.acquire(folder, job.attempt / job.slug / _LOG) as manager:
            try:
                papermill.execute_notebook(
                    _literal(job.notebook.path),
                    _literal(target),
                    parameters=dict(job.parameters),
                    # The notebook may name no kernel, or the environment of another machine.
                    kernel_name="python3",
                    language="python",
                    progress_bar=False,
                    km=manager,
                )
            except PapermillExecutionError as error:
                failure = f"{error.ename}: {_shorten(error.evalue)} (cell {error.exec_count})"
                # Other errors end the kernel.
                if error.ename != "MissingInputError":
                    raise
    except PapermillExecutionError:
        pass
    except Exception as error:  # a kernel that died or would not start: the other notebooks continue
        return _describe_error(error, job)
    return failure


def _literal(path: Path) -> str:
    """Return a path with escaped braces, because papermill replaces names in braces by parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _describe_error(error: Exception, job: Job) -> str:
    """Return the type and message of an error; for errors of the operating system, with advice."""
    text = result_cache.explain_error(error, job.folder, RESUME_ADVICE)
    return f"{type(error).__name__ if text == str(error) else RunError.__name__}: {_shorten(text)}"


def _shorten(text: str) -> str:
    """Return the text of an error, truncated for the record; the executed notebook has the full text."""
    n_cut = len(text) - _LONGEST_REASON
    return f"{text[:_LONGEST_REASON]} … ({n_cut:,} more characters)" if n_cut > 0 else text


def _make_record(job: Job, status: str, reason: str = "", seconds: float = 0.0) -> dict:
    return {
        "id": job.notebook.id,
        "variant": job.label,
        "values": dict(job.variant),
        "slug": job.slug,
        "suffix": job.suffix,
        "paper": job.notebook.id.split("/")[0],
        "title": job.notebook.title,
        "status": status,
        "reason": reason,
        "seconds": round(seconds, 1),
        "ended": result_cache.cache_now(),
        "version": __version__,
        "fingerprint": job.fingerprint,
        "kept": False,
        "notebook": None,
        "html": None,
    }


def _move_results(job: Job, record: Mapping) -> dict:
    """Move a notebook's results from its attempt to the run's folder, under the run's lock; return the full record."""
    _clear(job)
    folder, part = job.folder, job.folder / PARTS / job.slug
    moves = zip((job.attempt / job.slug, *job.pages(job.attempt)), (part, *job.pages(folder)), strict=True)
    for source, target in moves:
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
    copy(job.attempt / sources.MEASURED, folder / PARTS / sources.MEASURED)
    results = notes(folder, record)
    files = [folder / record[kind] for kind in ("notebook", "html") if record[kind]]
    files += [part / "tables" / f"{note['name']}.csv" for note in results["tables"]]
    files += [part / "figures" / f"{note['name']}.{k}" for note in results["figures"] for k in ("png", "svg")]
    files += [part / "records.json"] if (part / "records.json").exists() else []
    measured = (folder / PARTS / sources.MEASURED / f"{name}.csv" for name in results["printed"])
    return {
        **record,
        "files": digests(folder, files),
        "measured": digests(folder, (path for path in measured if path.exists())),
    }


def _clear(job: Job) -> None:
    """Delete the results of an earlier execution of a notebook."""
    shutil.rmtree(job.folder / PARTS / job.slug, ignore_errors=True)
    for page in job.pages(job.folder):
        page.unlink(missing_ok=True)
