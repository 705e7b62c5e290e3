"""Where work runs: one parameter, ``engine``. A stage hands over a function and does not know which it is.

An engine has one method, ``map(function, items)``: a generator of ``function(item)`` in the order of ``items``. Beyond
this process the function, the items and the results travel, so they must be picklable; the function travels once
to each worker and stays there, so what it keeps (a model, say) is loaded once per worker. An item whose worker was
killed is given to another one. Closing the generator ends its workers.

``local`` runs in this process, or in worker processes of this machine. ``ray`` runs in actors of a Ray cluster: the
one at an address, else one that is started on this machine. All machines of a cluster must have biaslab installed
and see the store's folder under the same path.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Protocol

from biaslab import lifeline
from biaslab.errors import BiaslabError, ParameterError, RunError, name_help

# How often an item is given to another worker after its worker was killed.
RETRIES = 3
# How often Ray is started on this machine: it gives up after half a minute, which can be short on a busy one.
STARTS = 3
# Seconds that a Ray cluster has for giving its first worker.
PATIENCE = 120.0
# Share of a processor that a Ray worker reserves: less than one, so that several runs fit on a small cluster. It is a
# reservation only; how many threads a worker uses is another matter.
_CPU_SHARE = 0.5
# What limits the threads of numpy, pyarrow, torch and tokenizers.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)
_ADDRESS = "RAY_ADDRESS"


class Engine(Protocol):
    """What every engine does."""

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        gpu: bool = False,
        advanced: Callable[[int], object] | None = None,
    ) -> Generator[Any, None, None]:
        """Yield ``function(item)`` for each item, in order; an error of the function ends the iteration.

        Args:
            function: What to call.
            items: Its arguments; taken one by one, as workers become free.
            gpu: Whether the function uses a GPU where there is one.
            advanced: Called with the numbers that the function gives to :func:`advance`, soon or when an item
                is done.

        Raises:
            ParameterError: There are workers, and the function cannot be pickled.
            RunError: Workers were killed again and again at the same item.
        """


# -- how far a function is -------------------------------------------------------------------------------

_listener: Callable[[int], object] | None = None


def advance(n: int) -> None:
    """Say from inside a mapped function that it has done ``n`` more of whatever it counts."""
    if _listener is not None:
        _listener(n)


@contextlib.contextmanager
def _heard_by(listener: Callable[[int], object] | None) -> Iterator[None]:
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


# -- this machine ----------------------------------------------------------------------------------------


class LocalEngine:
    """Runs on this machine: in this process, each item only when its result is asked for, or in worker processes.

    Worker processes are started anew for each call of :meth:`map` and share this process's threads among them. They
    end with this process, however it ends. A single item is not worth a process and runs here.
    """

    def __init__(self, workers: int = 0) -> None:
        """Use so many processes; 0 is this one, fewer are a ParameterError."""
        self.workers = _checked(workers)

    def map(self, function, items, *, gpu=False, advanced=None) -> Generator[Any, None, None]:
        """Do as :meth:`Engine.map`; a GPU is shared by all workers."""
        items = iter(items)
        first = list(islice(items, max(self.workers, 2))) if self.workers else []
        if len(first) > 1:
            yield from _in_processes(function, first, items, self.workers, advanced)
            return
        for item in chain(first, items):
            with _heard_by(advanced):
                result = function(item)
            yield result


def _in_processes(
    function, first: list, more: Iterator, workers: int, advanced
) -> Generator[Any, None, None]:
    from multiprocessing.connection import wait

    payload = _pickled(function)
    threads = max(1, _own_threads() // workers)
    todo = enumerate(chain(first, more))
    again: deque[tuple[int, Any]] = deque()
    killed: Counter[int] = Counter()
    done: dict[int, Any] = {}
    due = 0
    team = [_Process(payload, threads) for _ in range(min(workers, len(first)))]
    try:
        for member in team:
            member.take(next(todo, None))
        while any(member.task for member in team):
            busy = {member.pipe: member for member in team if member.task}
            for pipe in wait(list(busy)):
                member = busy[pipe]
                index, item = member.task
                try:
                    kind, value = pipe.recv()
                except (EOFError, OSError):
                    killed[index] += 1
                    if killed[index] > RETRIES:
                        raise RunError(_killed(killed[index], member.exit_code)) from None
                    again.append((index, item))
                    member.end()
                    team[team.index(member)] = member = _Process(payload, threads)
                else:
                    if kind == "advanced":
                        if advanced is not None:
                            advanced(value)
                        continue
                    if kind == "failed":
                        raise value
                    done[index] = value
                member.take(again.popleft() if again else next(todo, None))
            while due in done:
                yield done.pop(due)
                due += 1
    finally:
        for member in team:
            member.end()


class _Process:
    """A process that calls one function on items, one at a time."""

    def __init__(self, function: bytes, threads: int) -> None:
        from multiprocessing import get_context

        # Not forked: threads of numpy, pyarrow and torch do not survive a fork.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.task: tuple[int, Any] | None = None
        self._process = context.Process(
            target=_serve, args=(theirs, function, os.getpid()), name="biaslab worker", daemon=True
        )
        with _environment({name: str(threads) for name in THREADS}), lifeline.sheltered():
            self._process.start()
        theirs.close()

    def take(self, task: tuple[int, Any] | None) -> None:
        """Start on an item; None is nothing more to do."""
        self.task = task
        if task is not None:
            # Where the process has died, the answer that does not come tells so.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.pipe.send(task[1])

    @property
    def exit_code(self) -> int | None:
        self._process.join(5)
        return self._process.exitcode

    def end(self) -> None:
        """End the process: at once where it works, else by itself."""
        self.pipe.close()
        if self.task is not None:
            self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe, function: bytes, parent: int) -> None:
    """Be a worker process."""
    lifeline.begin(parent)
    call = None
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        with _heard_by(lambda n: pipe.send(("advanced", n))):
            try:
                call = call or pickle.loads(function)
                answer = "done", call(item)
            except Exception as error:
                answer = "failed", _portable(error)
        try:
            pipe.send(answer)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            pipe.send(("failed", RunError(f"The result of a worker cannot be pickled: {error}")))


def _killed(times: int, exit_code: object) -> str:
    return (
        f"A worker process ended {times} times while it worked on the same piece (exit code {exit_code}; -9 is a kill, "
        "often for lack of memory). Finished pieces are kept. Use fewer workers, or a machine with more memory; a "
        "script that starts workers needs `if __name__ == '__main__':` around its main part."
    )


def _pickled(function: Callable) -> bytes:
    try:
        return pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ParameterError(
            f"Worker processes cannot be given {function!r:.200}: {error}. Use a function of a module, or "
            "functools.partial of one with arguments that can be pickled, or no workers."
        ) from None


def _portable(error: Exception) -> Exception:
    """Return an error that can travel, with the place where it happened as a note."""
    where = "".join(traceback.format_exception(error))
    if not isinstance(error, BiaslabError):
        error.add_note(f"In a worker:\n{where}")
    # What it was raised from may not travel.
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # errors of libraries define anything
        return RunError(f"A worker failed:\n{where}")
    return error


def _own_threads() -> int:
    """Return how many threads this process may use."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else _processors()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- a Ray cluster ---------------------------------------------------------------------------------------


class RayEngine:
    """Runs in actors of a Ray cluster. It is joined, or started on this machine, when there is work.

    A worker reserves half a processor, or a share of a GPU where the function uses one and the cluster has any. Work
    begins with the first worker that the cluster gives; those that come later join in. An actor that was killed is
    started again and its item done again.
    """

    def __init__(self, workers: int = 0, address: str = "") -> None:
        """Use so many workers; 0 is one for each processor (or GPU) of the cluster.

        Args:
            workers: How many.
            address: Of the cluster, as ``ray.init`` takes it; empty is ``$RAY_ADDRESS``, or without it a cluster of
                this machine alone, which ends with this process.

        Raises:
            ParameterError: ``workers`` is negative, or Ray is not installed.
        """
        from importlib.util import find_spec

        self.workers = _checked(workers)
        self.address = address or os.environ.get(_ADDRESS, "")
        if find_spec("ray") is None:
            raise ParameterError(
                "compute.engine is 'ray', which is not installed; run `pip install 'biaslab[ray]'`, or set it to "
                "'local'."
            )

    def map(self, function, items, *, gpu=False, advanced=None) -> Generator[Any, None, None]:
        """Do as :meth:`Engine.map`; a cluster that cannot be reached or gives no worker in time is a RunError, too."""
        items = iter(items)
        first = list(islice(items, 1))
        if not first:
            return
        ray = self._joined()
        plan = self._plan(ray.cluster_resources(), gpu)
        worker = ray.remote(
            max_restarts=-1,
            max_task_retries=RETRIES,
            num_cpus=plan["cpu"],
            num_gpus=plan["gpu"],
            scheduling_strategy="SPREAD",
        )(_RayWorker)
        try:
            stored = ray.put(function)
        except TypeError as error:
            raise ParameterError(f"Ray workers cannot be given {function!r:.200}: {error}") from None
        team = [worker.remote(plan["threads"], bool(plan["gpu"])) for _ in range(plan["workers"])]
        # In a list, Ray leaves it to the worker to fetch the function, which it does once.
        tasks = ((i, [stored], item) for i, item in enumerate(chain(first, items)))
        try:
            yield from self._run(ray, team, tasks, plan, advanced)
        finally:
            for member in team:
                with contextlib.suppress(Exception):
                    ray.kill(member)

    def _run(self, ray, team: list, todo: Iterator, plan: Mapping, advanced) -> Generator[Any, None, None]:
        # What is not answered yet, and by whom: whether a worker is there, or an item by its number.
        asked = {member.ready.remote(): (member, None) for member in team}
        done: dict[int, Any] = {}
        due = given = 0
        started, there = time.monotonic(), False
        task = next(todo, None)
        while task is not None or given > due:
            answered, _ = ray.wait(list(asked), num_returns=1, timeout=5)
            for ref in answered:
                member, index = asked.pop(ref)
                try:
                    kind, value, counted = ray.get(ref)
                except ray.exceptions.RayError as error:
                    raise RunError(
                        f"Ray workers were lost at the same piece {RETRIES + 1} times, or could not start: {error}. "
                        "Finished pieces are kept. Look at the cluster's memory, and at whether biaslab is installed "
                        "on all its machines."
                    ) from error
                if kind == "failed":
                    raise value
                there = True
                if index is not None:
                    done[index] = value
                    if advanced is not None and counted:
                        advanced(counted)
                if task is not None:
                    asked[member.call.remote(*task[1:])] = (member, task[0])
                    given += 1
                    task = next(todo, None)
            if not answered:
                # Machines can leave a cluster, too.
                total, free = ray.cluster_resources(), ray.available_resources()
                self._check_fit(plan, total)
                if not there and time.monotonic() - started > PATIENCE:
                    raise RunError(
                        f"{self._name} gave no worker within {PATIENCE:g} seconds: of its {_amounts(total)}, "
                        f"{_amounts(free)} are free. End what holds them (`ray status` tells), add machines, or set "
                        "engine to 'local'."
                    )
            while due in done:
                yield done.pop(due)
                due += 1

    @property
    def _name(self) -> str:
        return f"The Ray cluster at {self.address!r}" if self.address else "The Ray cluster on this machine"

    def _joined(self):
        # No telemetry; read when Ray is imported.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        own = {"address": "local", "num_cpus": max(self.workers, _processors()), "include_dashboard": False}
        where = {"address": self.address} if self.address else own
        for again in range(STARTS - 1, -1, -1):
            try:
                if not ray.is_initialized():
                    if self.address:
                        _look_for(self.address)
                    ray.init(**where, log_to_driver=False, logging_level="error")
                return ray
            except Exception as error:  # Ray raises many kinds, plain ones too
                if self.address or not again:
                    raise RunError(
                        f"{self._name} cannot be joined: {error}. Start one with `ray start --head` and name its "
                        f"address (compute.address or {_ADDRESS}; RAY_AUTH_MODE=token where it asks for a token), or "
                        "set engine to 'local'."
                    ) from error
        raise AssertionError("the last start returns or raises")

    def _plan(self, total: Mapping[str, float], gpu: bool) -> dict[str, Any]:
        """Return how many workers there are, and what one of them reserves, where the cluster has it."""
        processors, gpus = int(total.get("CPU", 0)), int(total.get("GPU", 0))
        if gpu and gpus:
            workers = self.workers or gpus
            # Workers on one GPU: as many as it takes, each with its share.
            share = 1 / -(-workers // gpus)
            plan = {"workers": workers, "cpu": 0, "gpu": int(share * 1e4) / 1e4}
        else:
            plan = {"workers": self.workers or max(processors, 1), "cpu": _CPU_SHARE, "gpu": 0}
        limit = processors if self.address else min(processors, _own_threads())
        plan["threads"] = max(1, limit // plan["workers"])
        self._check_fit(plan, total, plan["workers"])
        return plan

    def _check_fit(self, plan: Mapping, total: Mapping[str, float], workers: int = 1) -> None:
        """Refuse a cluster that has not what so many workers reserve."""
        processors, gpus = total.get("CPU", 0), total.get("GPU", 0)
        if plan["cpu"] * workers > processors or plan["gpu"] > gpus:
            raise RunError(
                f"{self._name} has {_amounts(total)}, and each of {plan['workers']} workers reserves "
                f"{plan['cpu']:g} of a processor and {plan['gpu']:g} of a GPU. Set workers to "
                f"{int(processors / _CPU_SHARE)} or less (0 is one for each processor), add machines, or set "
                "compute.engine to 'local'."
            )


class _RayWorker:
    """The actor: calls one function on items, one at a time."""

    def __init__(self, threads: int, gpu: bool) -> None:
        import sys

        if not gpu:  # One that it did not reserve is not its own.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        # Libraries that are not loaded yet read the variables; torch may be.
        os.environ.update({name: str(threads) for name in THREADS})
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> tuple[str, None, int]:
        """Answer."""
        return "ready", None, 0

    def call(self, function: list, item: Any) -> tuple[str, Any, int]:
        """Return what became of an item, and how far the function said that it came."""
        import ray

        counted: list[int] = []
        with _heard_by(counted.append):
            try:
                self._function = self._function or ray.get(function[0])
                return "done", self._function(item), sum(counted)
            except Exception as error:
                return "failed", _portable(error), 0


def _look_for(address: str) -> None:
    """Raise OSError where nobody answers at an address with a port: Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _amounts(resources: Mapping[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} processors and {resources.get('GPU', 0):g} GPUs"


# -- by name ---------------------------------------------------------------------------------------------


def get(name: str = "local", *, workers: int = 0, address: str = "") -> Engine:
    """Return the engine called ``name``.

    Args:
        name: ``local`` or ``ray``.
        workers: How many workers; 0 is this process for ``local``, and all that the cluster has for ``ray``.
        address: Of a Ray cluster; see :class:`RayEngine`.

    Raises:
        ParameterError: There is no such engine, it is not installed, or it has no workers or address.
    """
    if name not in ("local", "ray"):
        raise ParameterError(f"engine is {name!r}, which does not exist. {name_help(name, ['local', 'ray'])}")
    if name == "ray":
        return RayEngine(workers, address)
    if address:
        raise ParameterError(
            f"compute.address is {address!r} and compute.engine is 'local', which has no address. Set the engine to "
            "'ray', or the address to ''."
        )
    return LocalEngine(workers)


def _checked(workers: int) -> int:
    if workers < 0:
        raise ParameterError(f"workers is {workers}; it is 0 or more.")
    return workers
