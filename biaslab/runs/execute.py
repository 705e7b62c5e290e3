"""Notebooks executed headless: each in a kernel, several at a time, below the folder of one attempt."""

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

# The file of a part with what its kernel says on standard error.
_LOG = "kernel.log"
# Imported by each kernel before its first notebook.
_MODULES = """psutil filelock pyarrow.dataset pyarrow.parquet pandas.io.formats.csvs pandas.io.formats.html scipy.stats
    seaborn matplotlib.backends.backend_agg matplotlib.backends.backend_svg PIL.JpegImagePlugin"""
# nbconvert's exporter is for one thread at a time.
_rendering = threading.Lock()
# Seconds that notebooks have for ending by themselves when the user stops the run.
_GRACE = 1.5
KEPT = (
    "Finished notebooks and stages are cached: {fix}, and the same command resumes the run; or start "
    "the run elsewhere with --outputs DIR."
)
# Characters of an error's text in the record.
_LONGEST_REASON = 2000


def count_parallel(params: RunParams) -> int:
    """Return how many notebooks are executed at a time; 0 is one per processor, and on a GPU it is one.

    Each has workers of its own, of which one team can fill a cluster; and where images are generated each holds the
    models, of which a GPU has room for one.
    """
    settings = params.values.get("settings")
    compute = (settings.get("compute") if isinstance(settings, Mapping) else None) or {}
    alone = bool(compute.get("workers")) or compute.get("engine") == "dask"
    if not (params.jobs or alone) and makes_images(params.default("source")):
        alone = (compute.get("device", "auto").replace("auto", processor.accelerator())) != "cpu"
    return params.jobs or int(alone)


def _kernels(jobs: list[Job], side_by_side: int) -> kernels.Kernels:
    """Return kernels for the notebooks of jobs, with the libraries that these import."""
    workers = _workers(jobs, side_by_side)
    given = kernels.environment(workers) | {huggingface.COMMITS: json.dumps(huggingface.commits())}
    given |= {ATTEMPT: str(jobs[0].attempt), kernels.PREFLIGHT_DONE: "1"}
    # One cluster for all notebooks, where a batch system starts it.
    for compute in (job.request.settings.compute for job in jobs if job.request and job.request.settings):
        given |= start_scheduler(Workers(compute.engine, compute.workers, compute.address))
    modules = sorted(code_digest.imported_digest(cell for job in jobs for cell in job.notebook.cells))
    if sum(job.makes_images for job in jobs) > workers:
        modules += kernels.MODEL_MODULES
    return kernels.Kernels(workers, given, [*_MODULES.split(), *modules])


def _workers(jobs: list[Job], side_by_side: int) -> int:
    return min(side_by_side or os.cpu_count() or 1, len(jobs))


def execute_all(
    jobs: list[Job],
    side_by_side: int,
    progress: bool,
    note: Callable[[list[dict]], None],
) -> tuple[list[dict], bool]:
    """Return the record of each job, and whether the user stopped the run; ``note`` hears of each that ends."""
    from tqdm import tqdm

    done: dict[str, dict] = {}
    began = time.monotonic()

    def ended(job: Job, record: dict) -> None:
        done[job.slug] = _take_in(job, record)
        bar.set_postfix_str(f"{job.slug}: {record['status']}")
        bar.update()
        note(list(done.values()))

    def waiting(running: Iterable[Job]) -> None:
        if progress:
            line = f"{', '.join(job.slug for job in running)}: {round(time.monotonic() - began)} s"
            bar.set_postfix_str(_progress_line(jobs[0].attempt) or line)

    stopped = False
    with tqdm(total=len(jobs), unit="notebook", disable=not progress, file=sys.stderr) as bar:
        try:
            _side_by_side(jobs, side_by_side, ended, waiting)
        except KeyboardInterrupt:
            stopped = True
    for job in jobs:
        if job.slug not in done:
            _clear(job)
            done[job.slug] = _record(job, "stopped", "Stopped by the user before it finished.")
    return [done[job.slug] for job in jobs], stopped


def _side_by_side(
    jobs: list[Job],
    side_by_side: int,
    ended: Callable[[Job, dict], None],
    waiting: Callable[[Iterable[Job]], None],
) -> None:
    """Execute jobs; ``waiting`` is called every other second, with those that are executed just then."""
    workers = _workers(jobs, side_by_side)
    with _kernels(jobs, side_by_side) as running, ThreadPoolExecutor(workers) as pool:
        pending, left = list(jobs), dict[Future, Job]()
        try:
            while pending or left:
                while pending and len(left) < workers:
                    job = next_jobs(pending, left.values())
                    pending.remove(job)
                    left[pool.submit(execute, job, running)] = job
                done, _ = wait(left, timeout=2, return_when=FIRST_COMPLETED)
                for future in done:
                    ended(left.pop(future), future.result())
                if not done:
                    waiting(left.values())
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                if isinstance(error, KeyboardInterrupt):
                    running.interrupt()
                    wait(left, timeout=_GRACE)
            finally:
                running.kill()
            raise


def next_jobs(pending: Sequence[Job], running: Iterable[Job]) -> Job:
    """Return the job to execute next to others: the first that generates none of the images of these.

    It would wait for them, and its processor with it. Without such a one it is the first of all.
    """
    busy = {images for job in running for images in _images(job)}
    return next((job for job in pending if busy.isdisjoint(_images(job))), pending[0])


def _images(job: Job) -> set[tuple[str, str]]:
    """Return whose images are generated for a job: papers, each with the variant."""
    return {(name.partition("_")[0], job.suffix) for name in job.used_tables} if job.makes_images else set()


def print_aside(text: str) -> None:
    """Say something next to results: on standard error."""
    print(text, file=sys.stderr, flush=True)


def _progress_line(attempt: Path) -> str:
    """Return a notebook and how far its stage is, of those the one that said so last; empty where none did just now."""
    logs = []
    # Folders may vanish meanwhile, at which ``rglob`` would fail.
    for log in (Path(folder, PROGRESS) for folder, _, files in os.walk(attempt) if PROGRESS in files):
        # A notebook takes its file away whenever a stage ends, also while this looks for it.
        with contextlib.suppress(FileNotFoundError):
            line = log.read_text(encoding="utf-8", errors="replace").strip()
            logs.append((log.stat().st_mtime, f"{log.parent.relative_to(attempt).as_posix()}: {line}"))
    when, said = max(logs, default=(0.0, ""))
    return said if abs(time.time() - when) <= 60 else ""


def execute(job: Job, running: kernels.Kernels) -> dict:
    """Execute one notebook in a kernel, render it, and return its record; errors of the notebook are never raised."""
    if job.reason:
        return _record(job, "failed" if job.fails else "skipped", job.reason)
    from biaslab import report

    began = time.monotonic()
    # As in the run's own folder, where they are put when they are whole.
    target, page = job.pages(job.attempt)
    # In its parameters, in what it printed, and in errors.
    public = partial(redact.redact, texts=job.private)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (job.attempt / job.slug).mkdir(parents=True, exist_ok=True)
        failure = _papermill(job, target, running)
        if target.exists():
            write_json(target, public(json.loads(target.read_text(encoding="utf-8"))))
    except (OSError, RunError, ValueError) as error:
        failure = _said(error, job)
        # It may name folders.
        target.unlink(missing_ok=True)
    failure = public(failure)
    if not target.exists():
        return _record(job, "failed", failure, time.monotonic() - began)
    index = Path(os.path.relpath(job.attempt / "index.html", page.parent)).as_posix()
    title = job.notebook.title + (f" ({job.label})" if job.variant else "")
    files = {"notebook": target.relative_to(job.attempt).as_posix()}
    try:
        with _rendering:
            report.render_notebook(target, page, title=title, index_href=index)
        files["html"] = page.relative_to(job.attempt).as_posix()
    except Exception as error:  # a page that cannot be made must not take the results along
        failure = failure or f"Its page could not be created: {_said(error, job)}"
    # A source without the notebook's input is no failure: the notebook does not apply.
    status = "ok" if not failure else "skipped" if failure.startswith("MissingInputError: ") else "failed"
    return _record(job, status, failure, time.monotonic() - began) | files


def _papermill(job: Job, target: Path, running: kernels.Kernels) -> str:
    """Execute the notebook and return what went wrong, or an empty text."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    folder = (job.notebook.folder or job.notebook.path.parent).absolute()
    failure = ""
    try:
        with running.acquire(folder, job.attempt / job.slug / _LOG) as manager:
            try:
                papermill.execute_notebook(
                    _literal(job.notebook.path),
                    _literal(target),
                    parameters=dict(job.parameters),
                    # Whatever the notebook says, which may be nothing or the environment of another machine.
                    kernel_name="python3",
                    language="python",
                    progress_bar=False,
                    km=manager,
                )
            except PapermillExecutionError as error:
                failure = f"{error.ename}: {_shortened(error.evalue)} (cell {error.exec_count})"
                # Other errors end the kernel.
                if error.ename != "MissingInputError":
                    raise
    except PapermillExecutionError:
        pass
    except Exception as error:  # a kernel that died or would not start: the other notebooks continue
        return _said(error, job)
    return failure


def _literal(path: Path) -> str:
    """Return a path as papermill takes it, which puts parameters into names in braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _said(error: Exception, job: Job) -> str:
    """Return an error in words; of what the system refused, what to do about it."""
    text = result_cache.explain_error(error, job.folder, KEPT)
    return f"{type(error).__name__ if text == str(error) else RunError.__name__}: {_shortened(text)}"


def _shortened(text: str) -> str:
    """Return an error's text cut to what a record holds; the executed notebook has it whole."""
    more = len(text) - _LONGEST_REASON
    return f"{text[:_LONGEST_REASON]} … ({more:,} more characters)" if more > 0 else text


def _record(job: Job, status: str, reason: str = "", seconds: float = 0.0) -> dict:
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


def _take_in(job: Job, record: Mapping) -> dict:
    """Put what a notebook left in its attempt to its place, as the holder of the run's lock; add files' digests."""
    _clear(job)
    folder, part = job.folder, job.folder / PARTS / job.slug
    moved = zip((job.attempt / job.slug, *job.pages(job.attempt)), (part, *job.pages(folder)), strict=True)
    for made, place in moved:
        if made.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, place)
    copy(job.attempt / sources.MEASURED, folder / PARTS / sources.MEASURED)
    left = notes(folder, record)
    files = [folder / record[kind] for kind in ("notebook", "html") if record[kind]]
    files += [part / "tables" / f"{note['name']}.csv" for note in left["tables"]]
    files += [part / "figures" / f"{note['name']}.{k}" for note in left["figures"] for k in ("png", "svg")]
    files += [part / "records.json"] if (part / "records.json").exists() else []
    measured = (folder / PARTS / sources.MEASURED / f"{name}.csv" for name in left["printed"])
    return {
        **record,
        "files": digests(folder, files),
        "measured": digests(folder, (path for path in measured if path.exists())),
    }


def _clear(job: Job) -> None:
    """Take away what an earlier execution of a notebook left."""
    shutil.rmtree(job.folder / PARTS / job.slug, ignore_errors=True)
    for page in job.pages(job.folder):
        page.unlink(missing_ok=True)
