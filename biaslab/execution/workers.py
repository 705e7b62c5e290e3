"""Workers for the work of stages: this process, processes on this machine, or a Dask cluster.

joblib runs the processes on this machine (loky). A Dask cluster is already running, or a batch system starts its
workers (dask-jobqueue). A worker computes one task at a time. Functions and tasks are pickled. A worker unpickles a
function once, and reuses it and what it has loaded (a model, in a :class:`Memoized`) until it gets another function.

The machines of a cluster need the same versions of biaslab and its packages, and the cache folder under one path.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import hashlib
import itertools
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from biaslab.errors import BiaslabError, ParameterError, RunError

# Number of times that tasks are resubmitted after a worker was killed, without a result in between.
RETRIES = 3
# Seconds within which a running cluster must respond and have a worker.
PATIENCE = 60.0
# Batch systems that start the workers of a cluster, and their classes in dask-jobqueue.
QUEUES = {
    "htcondor": "HTCondorCluster",
    "lsf": "LSFCluster",
    "oar": "OARCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "slurm": "SLURMCluster",
}
# Environment variable with the scheduler's address, for processes of a run whose workers a batch system starts.
SCHEDULER = "BIASLAB_SCHEDULER"
# The variables that limit the threads of numpy, pyarrow, torch, numexpr and tokenizers; torch reads the first.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
# Errors of loky and Dask that mean that a worker was killed.
_KILLED_ERRORS = ("TerminatedWorkerError", "KilledWorker")
# Environment variable with the GPUs that are visible to a process.
_VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


class Memoized:
    """A function that computes once per argument in each process; it is pickled without its results."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Take the function; its arguments must be hashable."""
        self.__wrapped__ = function
        self._cached = functools.cache(function)

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of the function."""
        return self._cached(*arguments)

    def __reduce__(self) -> tuple:
        return Memoized, (self.__wrapped__,)


def threads(n: int) -> dict[str, str]:
    """Return environment variables that set ``n`` threads in each library, as the number changes rounding of sums."""
    return dict.fromkeys(THREADS, str(max(1, n)))


def user_thread_limit() -> int:
    """Return the number of threads per process set by the user (``OMP_NUM_THREADS``), or 0."""
    # Numbers for nested levels may follow after a comma.
    number = os.environ.get(THREADS[0], "").partition(",")[0].strip()
    return int(number) if number.isdecimal() else 0


def _own_threads() -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return user_thread_limit() or processors


# -- in the process that submits the work ----------------------------------------------------------------


@dataclass(frozen=True)
class Workers:
    """The workers set by ``compute.engine``, ``compute.workers`` and ``compute.address``; by default, none.

    Raises ParameterError: The three settings are inconsistent, or Dask is not installed.
    """

    engine: str = "local"
    count: int = 0
    address: str = ""

    def __post_init__(self) -> None:
        if self.engine == "local":
            if self.address:
                raise ParameterError(
                    f"compute.address is {self.address!r}, but compute.engine is 'local'. Set compute.engine to 'dask' "
                    "or compute.address to ''."
                )
        elif not self.address:
            raise ParameterError(
                "compute.engine is 'dask', but compute.address is ''. Set compute.address to the address of a "
                f"scheduler, the path of a scheduler file, or one of {', '.join(QUEUES)}."
            )
        elif self.address in QUEUES and not self.count:
            raise ParameterError(
                f"compute.address is {self.address!r}, but compute.workers is 0. Set compute.workers to the number of "
                "workers that the batch system starts."
            )
        elif find_spec("distributed") is None or find_spec("dask_jobqueue") is None:
            raise ParameterError(
                "compute.engine is 'dask', but Dask is not installed. Run `pip install 'biaslab[dask]'`, or set "
                "compute.engine to 'local'."
            )

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], *, gpu: bool = False
    ) -> Generator[Any, None, None]:
        """Yield ``function(task)`` for each task, in order; an error of the function ends the iteration.

        Without workers, and for a single task on this machine, tasks are computed in this process when their results
        are requested. When a worker is killed, tasks without a result are resubmitted; the function must return at once
        for finished ones. Closing the generator ends workers on this machine. ``gpu`` states whether the function uses
        a GPU if one is available.

        Raises ParameterError: The function cannot be pickled. RunError: Workers were killed repeatedly, the cluster
        does not respond, or the function raised an error that is not a :class:`biaslab.errors.BiaslabError`.
        """
        tasks = list(tasks)
        if self.engine == "local" and min(self.count, len(tasks)) < 2:
            yield from map(function, tasks)
            return
        import cloudpickle

        try:
            payload = cloudpickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ParameterError(
                f"{function!r:.200} cannot be sent to workers: {error}. Use a function whose arguments and values can "
                "be pickled, or no workers."
            ) from None
        submit = self._local if self.engine == "local" else self._dask
        call = functools.partial(_call, hashlib.sha256(payload).hexdigest(), payload, gpu)
        n_done = failures = 0
        while n_done < len(tasks):
            results = submit(call, tasks[n_done:])
            try:
                for result in results:
                    n_done, failures = n_done + 1, 0
                    yield result
            except Exception as error:
                if type(error).__name__ not in _KILLED_ERRORS:
                    raise
                failures += 1
                # Dask has already tried the task on several workers.
                if failures > RETRIES or self.engine == "dask":
                    raise RunError(
                        f"Workers were killed {RETRIES + 1} times at the same chunk, often because memory ran out. "
                        "Finished chunks are cached. Use fewer workers, or machines with more memory. The last error: "
                        f"{error}"
                    ) from None
            finally:
                with warnings.catch_warnings():
                    # joblib warns of tasks that are cancelled.
                    warnings.simplefilter("ignore", UserWarning)
                    results.close()

    def _local(self, call: Callable[..., Any], tasks: list) -> Generator[Any, None, None]:
        """Return the results of this machine's workers, in order."""
        import joblib

        _end_at_exit()
        n_threads = max(1, _own_threads() // self.count)
        begin = {"initializer": _begin, "initargs": (os.getpid(),)}
        with joblib.parallel_config("loky", n_jobs=self.count, inner_max_num_threads=n_threads, **begin):
            parallel = joblib.Parallel(return_as="generator", batch_size=1)
            return parallel(joblib.delayed(call)(n_threads, pickle.dumps(task)) for task in tasks)

    def _dask(self, call: Callable[..., Any], tasks: list) -> Generator[Any, None, None]:
        """Yield the results of a cluster's workers, in order.

        Dask is used directly, because joblib waits forever for a result that is lost with its worker.
        """
        from distributed.client import FutureCancelledError

        client = _client(self.address, self.count)
        n_threads = max(1, min(_own_threads(), *client.ncores().values()))
        futures = [client.submit(call, n_threads, pickle.dumps(task), pure=False) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        except FutureCancelledError as error:
            raise RunError(f"The scheduler of the Dask cluster {self.address!r} has stopped: {error}") from None
        finally:
            client.cancel(futures)


@functools.cache
def _end_at_exit() -> None:
    """End worker processes with this one; a process started by multiprocessing would wait until they are idle."""
    from multiprocessing.util import Finalize

    from joblib.externals.loky import get_reusable_executor

    def end() -> None:
        executor = get_reusable_executor(reuse=True)
        # joblib's subclass of the executor also removes its temporary folder.
        getattr(executor, "terminate", executor.shutdown)(kill_workers=True)

    Finalize(None, end, exitpriority=10)


def start_scheduler(workers: Workers) -> dict[str, str]:
    """Start workers by a batch system, and return environment variables by which other processes connect to them.

    The workers end with this process. Empty if ``workers`` are not started by a batch system. Raises RunError: The
    batch system reports an error.
    """
    if workers.address not in QUEUES:
        return {}
    return {SCHEDULER: _client(workers.address, workers.count).scheduler.address}


def _client(address: str, count: int) -> Any:
    """Return the client of a Dask cluster that has a worker."""
    try:
        client = _connect(address, count)
        # A batch system may take hours to start the first worker.
        client.wait_for_workers(1, timeout=None if address in QUEUES else PATIENCE)
    except (OSError, RuntimeError, ValueError) as error:
        raise RunError(
            f"The Dask cluster {address!r} cannot be used: {error}. Start a cluster with `dask scheduler` and "
            "`dask worker`, and set compute.address to the scheduler's address or file. For a batch system, check its "
            "section in the configuration of dask-jobqueue."
        ) from error
    return client


@functools.cache
def _connect(address: str, count: int) -> Any:
    from distributed import Client

    scheduler = os.environ.get(SCHEDULER, "") if address in QUEUES else address
    if scheduler:
        options = {"scheduler_file" if os.path.exists(scheduler) else "address": scheduler}
        return Client(**options, timeout=PATIENCE, set_as_default=False)
    import dask_jobqueue

    cluster = getattr(dask_jobqueue, QUEUES[address])()
    cluster.scale(count)
    return Client(cluster, set_as_default=False)


LOCAL = Workers()
"""No workers: this process does the work."""

# -- in a worker -----------------------------------------------------------------------------------------

# The function that this worker has loaded, by the digest of its pickle.
_functions: dict[str, Callable[[Any], Any]] = {}
# A worker of a cluster may have several threads; the libraries use them, and tasks are computed one at a time.
_turn = threading.Lock()


def _begin(parent: int) -> None:
    """Ignore Ctrl-C in this worker, and end it with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, name="biaslab worker", daemon=True).start()
    from joblib.externals.loky import process_executor

    # loky would restart a worker that loads a larger model than before, because it assumes a memory leak.
    process_executor._USE_PSUTIL = False


def _call(digest: str, payload: bytes, gpu: bool, n_threads: int, task: bytes) -> Any:
    """Compute a task in a worker."""
    with _turn:
        try:
            os.environ.update(threads(n_threads))
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(n_threads)
            if gpu:
                _pin()
            if digest not in _functions:
                # Cleared first, so that both are never in memory together.
                _functions.clear()
                _functions[digest] = pickle.loads(payload)
            return _functions[digest](pickle.loads(task))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            if not isinstance(error, BiaslabError):
                # Errors of libraries may not be picklable.
                raise RunError(f"A worker failed:\n{trace}") from None
            error.add_note(f"In a worker:\n{trace}")
            raise error from None


@functools.cache
def _pin() -> Any:
    """Make one of the machine's GPUs visible to this process, in turn; return the lock that reserves it."""
    from filelock import FileLock, Timeout

    # Sorted, so that all workers use the same order.
    gpus = sorted(_gpus())
    name = f"biaslab-{getpass.getuser()}-{hashlib.sha256(','.join(gpus).encode()).hexdigest()[:16]}"
    for place in itertools.count() if len(gpus) > 1 else ():
        lock = FileLock(Path(tempfile.gettempdir()) / f"{name}-{place}.lock")
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
            os.environ[_VISIBLE_GPUS] = gpus[place % len(gpus)]
            return lock
    return None


def _gpus() -> list[str]:
    """Return the GPUs that are visible to this process."""
    visible = os.environ.get(_VISIBLE_GPUS)
    if visible is not None:
        return [name for name in visible.split(",") if name]
    import torch

    return [str(k) for k in range(torch.cuda.device_count())]
