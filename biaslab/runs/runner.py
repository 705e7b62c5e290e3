"""Run notebooks headless, into one folder with a report: plan, compare with an earlier start, execute, collect.

This module does not depend on what a notebook computes. A notebook writes its tables, figures and findings below the
``output_dir`` that it is given.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from biaslab import plugins, redact
from biaslab.cache import code_digest, result_cache
from biaslab.errors import RunError
from biaslab.report import records
from biaslab.runs import collect, execute, jobs, resume
from biaslab.runs.params import RunParams, as_yaml
from biaslab.study.study import PARTS

# The file in a run's folder with its parameters, which repeats the run.
PARAMS = "params.yaml"
# The folder, among the parts, with one folder per start of a run. A process of an earlier start writes to its own, and
# fails once that is deleted.
_ATTEMPTS = ".attempts"


def run(
    params: RunParams,
    *,
    planned: list[jobs.Job] | None = None,
    outputs: str | Path = "outputs",
    overwrite: bool = False,
    force: bool = False,
    preflight: Callable[[Sequence[str]], object] | None = None,
    progress: bool = True,
) -> dict:
    """Execute the selected notebooks, build the report, and return its record.

    A notebook that finished in an earlier start keeps its results if nothing has changed since: the notebook, its
    parameters, inputs, code, packages, and output files. If that applies to all notebooks, nothing is written, and the
    record has ``up_to_date``.

    Args:
        planned: The result of :func:`biaslab.runs.jobs.plan` for ``params``, if it was called already.
        overwrite: Whether a folder that contains another run may be replaced.
        force: Whether to execute also notebooks that are up to date.
        preflight: Function that tests the models and judges of the run before it starts, called with sentences on
            omitted results. It is called if a notebook that generates or judges images is executed.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used; nothing was started.
        RunError: The folder contains another run, another process is writing to it, or the disk is full.
        KeyboardInterrupt: The user stopped the run; finished notebooks are in the report.
    """
    folder = Path(outputs).resolve() / params.run
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; choose another name with --set run=NAME.")
    from biaslab import report

    report.check_overview(folder.parent)
    planned = planned or jobs.plan(params)
    inputs, judges = jobs.inputs(planned, folder), jobs.judges(planned)
    with result_cache.explain_errors(folder, execute.RESUME_ADVICE), _only_one(folder):
        start = time.monotonic()
        judge_digests = {name: digest for digests in judges.values() for name, digest in digests.items()}
        record = collect.provenance(params) | {"inputs": inputs, "judges": judge_digests, "problems": []}
        record["code"] = code_digest.digest(collect.gather) + resume.declarations_digest()
        record["left_out"], record["notices"] = [], []
        if any(job.request is not None and job.request.makes_images for job in planned):
            # Imported here, because runs on printed values do not need its dependencies.
            from biaslab.runs import dry_run

            record["left_out"] = dry_run.describe_omissions(planned)
        # Shared files must not contain folders or keys of this machine.
        private = _private_texts(params, planned, folder)
        public = partial(redact.redact, texts=private)
        attempts = folder / PARTS / _ATTEMPTS
        job_fields = {"folder": folder, "private": private, "attempt": attempts / uuid.uuid4().hex[:12]}
        guests = resume.plugin_digests(any(job.request is None or job.request.makes_images for job in planned))
        planned = [
            replace(job, fingerprint=resume.fingerprint(job, record, judges.get(job.slug), guests), **job_fields)
            for job in planned
        ]
        record = public(record)
        earlier_records, replaces = resume.read_earlier(folder, record, overwrite)
        kept_records, remaining_jobs, change_notes = resume.select_jobs(folder, earlier_records, planned, force)
        if not (remaining_jobs or replaces) and (
            earlier_record := resume.unchanged_record(folder, record, kept_records, change_notes)
        ):
            return earlier_record
        if any(job.request is not None and job.request.makes_images for job in planned):
            # This detects faces in some images, so a run that is up to date skips it.
            record["notices"] = public(dry_run.describe_assumptions(planned))
        if any(job.makes_images for job in remaining_jobs):
            # An error is reported here once, and not by each notebook.
            for root in sorted({job.request.opened.cache.root for job in remaining_jobs if job.makes_images}):
                with result_cache.explain_errors(root):
                    root.mkdir(parents=True, exist_ok=True)
        if preflight and any(job.makes_images for job in remaining_jobs):
            preflight([*record["notices"], *record["left_out"]])
        # The results of an earlier run stay until this run can begin.
        if replaces:
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # A process of an earlier start that still writes to its folder fails.
        shutil.rmtree(attempts, ignore_errors=True)
        job_fields["attempt"].mkdir(parents=True)

        def note(notebook_records: list[dict], status: str = "running") -> None:
            """Write the progress and findings of the run to its record and to the overview page of all runs."""
            notebooks = [*kept_records, *notebook_records]
            results = {"findings": collect.gather_findings(folder, notebooks)[0]}
            results["planned"] = len(kept_records) + len(remaining_jobs)
            content = {**record, "status": status, "notebooks": notebooks, **results}
            collect.write_json(folder / records.FILE, public(content))
            report.overview(folder.parent)

        note([])
        result_cache.replace(folder / PARAMS, as_yaml(params.with_changes(values=public(dict(params.values)))).encode())
        new_records, stopped = [], False
        if remaining_jobs:
            new_records, stopped = execute.execute_all(remaining_jobs, execute.count_parallel(params), progress, note)
        shutil.rmtree(attempts, ignore_errors=True)
        if stopped:
            # A second Ctrl-C may cut the report off.
            note(new_records, "stopped")
        record |= {"ended": result_cache.cache_now(), "seconds": round(time.monotonic() - start, 1)}
        model_images, notes = [], []
        if not stopped and any(job.makes_images for job in planned):
            # Imported here, because it imports the pipeline, which runs on printed values do not need.
            from biaslab.runs import generated_images

            model_images, notes = generated_images.write_listing_and_images(folder, planned)
        record["notes"] = [*change_notes, *notes]
        record["notices"] = [*record["notices"], *notes]
        record = collect.gather(folder, record, [*kept_records, *new_records], public, model_images)
        report.overview(folder.parent)
    if stopped:
        raise KeyboardInterrupt
    return record


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0):
            yield
    except Timeout:
        message = f"Another process is writing to {folder}. Wait until it ends, or use --set run=NAME."
        raise RunError(message) from None


def _private_texts(params: RunParams, planned: list[jobs.Job], folder: Path) -> dict[str, str]:
    """Return keys and folders of this machine that shared files must not contain, and the replacement of each."""
    # The locations of packages that bring notebooks, and the folders that contain the run's notebooks.
    roots = {place.parents[package.count(".")] for package, place in plugins.notebook_folders().items()}
    for notebook in (job.notebook for job in planned):
        roots.add((notebook.folder or notebook.path.parents[notebook.id.count("/")]).resolve().parent)
    defaults = [dict(notebook.parameters) for notebook in params.selected]
    values = [dict(params.values), params.file, *defaults, *(job.parameters_given for job in planned)]
    return redact.sensitive_texts(values, folder, folder.parent, result_cache.default_root().absolute(), *roots)
