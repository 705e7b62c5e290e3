"""Shared kernels for runs in tests, instead of kernels of each run.

Runs of the command line, of published values and of the synthetic world have their own kernels.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jupyter_client.manager import KernelManager

from biaslab.execution import kernels

_OWN = kernels.Kernels


class Warm:
    """Replaces ``execution.kernels.Kernels``: two kernels; a run's threads use one when it is free."""

    def __init__(self) -> None:
        self._kernels: kernels.Kernels | None = None

    def __call__(self, n: int, environment: Mapping[str, str], modules: Iterable[str] = ()) -> "_OfOneRun":
        if self._kernels is None:
            self._kernels = _OWN(2, environment, modules)
        return _OfOneRun(self._kernels, {**os.environ, **environment})

    def close(self) -> None:
        if self._kernels is not None:
            self._kernels.__exit__()


class _OfOneRun:
    def __init__(self, shared: kernels.Kernels, environment: dict[str, str]) -> None:
        self._shared, self._environment = shared, environment
        self.interrupt, self.kill = shared.interrupt, shared.kill

    def __enter__(self) -> "_OfOneRun":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextlib.contextmanager
    def acquire(self, folder: Path, log: Path) -> Iterator[KernelManager]:
        self._shared.environment = self._environment
        with self._shared.acquire(folder, log) as manager:
            yield manager
