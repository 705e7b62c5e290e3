"""A run in one process: replaces processes and kernels in tests of the results of notebooks.

Tests of runs and of reports check processes, kernels and pages.
"""

import contextlib
import json
import threading
import warnings
from pathlib import Path

import pytest

from biaslab.errors import MissingInputError


class Kernels:
    """Replaces ``execution.kernels.Kernels``: calls run one by one, in this process."""

    _one = threading.Lock()

    def __init__(self, n, environment, modules=()):
        self.environment = environment

    def __enter__(self):
        self._pages = pytest.MonkeyPatch()
        # Not earlier: digests of code depend on the functions that build pages.
        self._pages.setattr("biaslab.report.render_notebook", lambda notebook, page, **_: page.touch())
        return self

    def __exit__(self, *_):
        self._pages.undo()

    def kill(self):
        pass

    interrupt = kill

    @contextlib.contextmanager
    def alone(self):
        """Let one thread at a time execute the work of a kernel, with its environment."""
        with self._one, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            # As in a process of its own.
            warnings.simplefilter("ignore")
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield

    def call(self, log, function, *arguments):
        with self.alone():
            return function(*arguments)


def run(notebook: Path, parameters: dict) -> None:
    """Run the cells of a notebook in this process, as its parameters are given."""
    space = {"display": print}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
            if "parameters" in cell["metadata"].get("tags", ()):
                space |= parameters


def executed(job, target: Path, running: Kernels) -> str:
    """Run a job's notebook and return its error; replaces ``execute._papermill``."""
    target.write_bytes(job.notebook.path.read_bytes())
    try:
        with running.alone(), contextlib.chdir(job.notebook.path.parent):
            run(job.notebook.path, job.parameters)
    except MissingInputError as error:
        return f"MissingInputError: {error}"
    return ""
