"""Run notebooks headless, into one folder with a report: planned, compared with an earlier start, executed, gathered.

Nothing here knows what a notebook computes: it writes its tables, figures and findings below the ``output_dir`` that it
is given.
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

# The file of a run's folder with its parameters, which gives it again.
PARAMS = "params.yaml"
# Where, among the parts, each start of a run has a folder of its own: what an earlier one left alive writes there, and
# finds it gone.
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

    A notebook of the same run that finished earlier, and of which nothing has changed since (notebook, parameters,
    inputs, code, packages, and the files that it left), keeps its results. Where that holds for all, nothing is
    written, and the record has ``up_to_date``.

    Args:
        planned: What :func:`biaslab.runs.jobs.plan` returned for ``params``, where that was asked already.
        overwrite: Whether a folder that holds another run may be replaced.
        force: Whether to execute also notebooks that are up to date.
        preflight: What tries the models and judges of the run before it starts, given sentences on what is left out;
            it is called where a notebook that makes or judges images is executed.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used; nothing was started.
        RunError: The folder holds another run, another process is writing to it, or the disk is full.
        KeyboardInterrupt: The user stopped it; what had finished is in the report.
    """
    folder = Path(outputs).resolve() / params.run
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; choose another name with --set run=NAME.")
    from biaslab import report

    report.check_overview(folder.parent)
    planned = planned or jobs.plan(params)
    inputs, judges = jobs.inputs(planned, folder), jobs.judges(planned)
    with result_cache.explain_errors(folder, execute.KEPT), _only_one(folder):
        began = time.monotonic()
        each = {name: digest for digests in judges.values() for name, digest in digests.items()}
        record = collect.provenance(params) | {"inputs": inputs, "judges": each, "problems": []}
        record["code"] = code_digest.digest(collect.gather) + resume.declared()
        record["left_out"], record["notices"] = [], []
        if any(job.request is not None and job.request.makes_images for job in planned):
            # Printed numbers need none of what it reads.
            from biaslab.runs import dry_run

            record["left_out"] = dry_run.describe_omissions(planned)
        # What is shared names no folder of this machine, and holds none of its keys.
        private = _private(params, planned, folder)
        public = partial(redact.redact, texts=private)
        attempts = folder / PARTS / _ATTEMPTS
        same = {"folder": folder, "private": private, "attempt": attempts / uuid.uuid4().hex[:12]}
        guests = resume.plugin_digests(any(job.request is None or job.request.makes_images for job in planned))
        planned = [
            replace(job, fingerprint=resume.fingerprint(job, record, judges.get(job.slug), guests), **same)
            for job in planned
        ]
        record = public(record)
        before, replaces = resume.read(folder, record, overwrite)
        kept, left, changed = resume.select_jobs(folder, before, planned, force)
        if not (left or replaces) and (unchanged := resume.unchanged_record(folder, record, kept, changed)):
            return unchanged
        if any(job.request is not None and job.request.makes_images for job in planned):
            # It detects faces in some images, which a run that is up to date does without.
            record["notices"] = public(dry_run.describe_assumptions(planned))
        if any(job.makes_images for job in left):
            # Said here, and not by each notebook.
            for root in sorted({job.request.opened.cache.root for job in left if job.makes_images}):
                with result_cache.explain_errors(root):
                    root.mkdir(parents=True, exist_ok=True)
        if preflight and any(job.makes_images for job in left):
            preflight([*record["notices"], *record["left_out"]])
        # What an earlier run has found stays until this one can begin.
        if replaces:
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # A process of an earlier start that still writes to its folder fails.
        shutil.rmtree(attempts, ignore_errors=True)
        same["attempt"].mkdir(parents=True)

        def note(done: list[dict], status: str = "running") -> None:
            """Return how far the run is, with what it has found, in its record and on the page over all runs."""
            notebooks = [*kept, *done]
            found = {"findings": collect.gather_findings(folder, notebooks)[0]}
            found["planned"] = len(kept) + len(left)
            whole = {**record, "status": status, "notebooks": notebooks, **found}
            collect.write_json(folder / records.FILE, public(whole))
            report.overview(folder.parent)

        note([])
        result_cache.replace(folder / PARAMS, as_yaml(params.changed(values=public(dict(params.values)))).encode())
        done, stopped = [], False
        if left:
            done, stopped = execute.execute_all(left, execute.count_parallel(params), progress, note)
        shutil.rmtree(attempts, ignore_errors=True)
        if stopped:
            # A second Ctrl-C may cut the report off.
            note(done, "stopped")
        record |= {"ended": result_cache.cache_now(), "seconds": round(time.monotonic() - began, 1)}
        drawn, notes = [], []
        if not stopped and any(job.makes_images for job in planned):
            # It reads the pipeline, which printed numbers do without.
            from biaslab.runs import generated_images

            drawn, notes = generated_images.write_listing_and_images(folder, planned)
        record["notes"] = [*changed, *notes]
        record["notices"] = [*record["notices"], *notes]
        record = collect.gather(folder, record, [*kept, *done], public, drawn)
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
        message = f"Another process is writing to {folder}; wait for it or use another run name."
        raise RunError(message) from None


def _private(params: RunParams, planned: list[jobs.Job], folder: Path) -> dict[str, str]:
    """Return keys and folders of this machine that nothing holds that a run shares, and what replaces each."""
    # Where other packages lie that bring notebooks, and what lies around the run's notebooks.
    roots = {place.parents[package.count(".")] for package, place in plugins.notebook_folders().items()}
    for one in (job.notebook for job in planned):
        roots.add((one.folder or one.path.parents[one.id.count("/")]).resolve().parent)
    defaults = [dict(notebook.parameters) for notebook in params.selected]
    values = [dict(params.values), params.file, *defaults, *(job.parameters_given for job in planned)]
    return redact.sensitive_texts(values, folder, folder.parent, result_cache.default_root().absolute(), *roots)
