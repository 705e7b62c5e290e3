"""Processes for the runs of tests, forked from one that reads libraries once for all of them, where each run has one.

Runs with processes of their own are those of the command line, of the printed numbers and of the embedded world.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from biaslab.keep import kernels
from biaslab.runs import execute

_HERE = str(Path(__file__).parent)
_OWN = kernels.Processes


class Warm:
    """In the place of ``runs.kernels.Processes``; what forks starts with the first run, and after a kill."""

    def __init__(self) -> None:
        self._processes: kernels.Processes | None = None

    def __call__(self, environment: Mapping[str, str], *reads: Any) -> "_OfOneRun":
        return _OfOneRun(self, {**os.environ, **environment}, reads)

    def started(self, reads: tuple) -> kernels.Processes:
        if self._processes is None:
            path = os.pathsep.join(filter(None, [_HERE, os.environ.get("PYTHONPATH")]))
            self._processes = _OWN({"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}, _read, *reads)
        return self._processes

    def close(self, error: object = None) -> None:
        if self._processes is not None:
            self._processes.__exit__(error)
        self._processes = None


class _OfOneRun:
    def __init__(self, warm: Warm, environment: dict[str, str], reads: tuple) -> None:
        self._warm, self._given = warm, (environment, os.getcwd())
        # Here, and not with the first call: a process ends with the thread that started it.
        self._processes = warm.started(reads)

    def __enter__(self) -> "_OfOneRun":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self.kill()

    def call(self, log: Path, function: Callable, *args: Any) -> Any:
        return self._processes.call(log, _call, *self._given, function, *args)

    def kill(self) -> None:
        self._warm.close("killed")


def _read(read: Callable, *args: Any) -> None:
    # What the first run reads serves all others: a rehearsal, which may be it, needs less than notebooks do.
    execute.read_libraries(())
    read(*args)


def _call(environment: Mapping[str, str], folder: str, function: Callable, *args: Any) -> Any:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.remove(_HERE)
    return function(*args)
