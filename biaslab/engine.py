"""Where work runs: one parameter, ``engine``. A stage hands over a function and does not know which it is.

An engine has one method, ``map(function, items)``: a generator of ``function(item)`` in the order of ``items``. Beyond
this process the function, the items and the results travel, so they must be picklable; the function travels once
to each worker and stays there, so what it keeps (a model, say, in a :class:`Memo`) is loaded once per worker. No worker
has more than one item, and none is taken before a worker is free. An item whose worker was killed, or took longer than
it may, is given to another one. Closing the generator ends its workers.

``local`` runs in this process, or in worker processes of this machine. ``ray`` runs in actors of a Ray cluster: the
one at an address, else one that is started on this machine. All machines of a cluster must have biaslab installed
and see the store's folder under the same path.
"""

from __future__ import annotations

import contextlib
import functools
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
# Which GPUs a process sees.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# What an item on its way to a process begins with; what does not is a function.
_ITEM = b"item:"


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


class Memo:
    """A function that computes once for each of its arguments, in each process: it travels without what it keeps."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Take the function; its arguments must be hashable."""
        self.__wrapped__ = function
        self._kept = functools.cache(function)

    def __call__(self, *given: Any) -> Any:
        """Return what the function gives."""
        return self._kept(*given)

    def __reduce__(self) -> tuple:
        return Memo, (self.__wrapped__,)


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

    Worker processes share this process's threads among them, and its GPUs: each has one, in turn. They stay for the
    next call of :meth:`map`, and end with the engine or with this process, however it ends. A single item is not worth
    a process and runs here.
    """

    def __init__(self, workers: int = 0, timeout: float = 0) -> None:
        """Use so many processes; 0 is this one, fewer are a ParameterError. ``timeout`` as in :func:`get`."""
        self.workers, self.timeout = _checked(workers), timeout
        self._idle: list[_Process] = []
        self._ends: object = None

    def map(self, function, items, *, gpu=False, advanced=None) -> Generator[Any, None, None]:
        """Do as :meth:`Engine.map`."""
        items = iter(items)
        first = list(islice(items, max(self.workers, 2))) if self.workers else []
        if len(first) > 1:
            yield from self._in_processes(
                function, chain(first, items), min(self.workers, len(first)), gpu, advanced
            )
            return
        for item in chain(first, items):
            with _heard_by(advanced):
                result = function(item)
            yield result

    def _in_processes(
        self, function, items: Iterable, n: int, gpu: bool, advanced
    ) -> Generator[Any, None, None]:
        from multiprocessing.connection import wait

        payload = _pickled(function)
        todo = enumerate(items)
        again: deque[tuple[int, Any]] = deque()
        killed: Counter[int] = Counter()
        done: dict[int, Any] = {}
        due = 0
        team = self._team(n, gpu)
        try:
            for member in team:
                member.serve(payload)
                member.take(next(todo, None))
            while any(member.task for member in team):
                busy = {member.pipe: member for member in team if member.task}
                answered = wait(list(busy), _left(busy.values(), self.timeout))
                # One that hangs is seen while others go on, too.
                for pipe in dict.fromkeys([*answered, *_late(busy, self.timeout)]):
                    member = busy[pipe]
                    index, item = member.task
                    try:
                        if not pipe.poll():
                            raise EOFError
                        kind, value = pipe.recv()
                    except (EOFError, OSError):
                        killed[index] += 1
                        if killed[index] > RETRIES:
                            raise RunError(_lost(killed[index], member, self.timeout)) from None
                        again.append((index, item))
                        member.end()
                        team[team.index(member)] = member = _Process(member.environment)
                        member.serve(payload)
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
        except BaseException:
            _end(team)
            raise
        self._idle += team

    def _team(self, n: int, gpu: bool) -> list[_Process]:
        """Return so many processes: those that are idle, as far as they are what is needed, and new ones."""
        from multiprocessing.util import Finalize

        # With this engine, or before multiprocessing itself ends them, less kindly.
        self._ends = self._ends or Finalize(self, _end, (self._idle,), exitpriority=10)
        shared = dict.fromkeys(THREADS, str(max(1, _own_threads() // self.workers)))
        gpus = _gpus() if gpu else []
        wanted = [shared | ({_VISIBLE: gpus[k % len(gpus)]} if gpus else {}) for k in range(n)]
        team = []
        for environment in wanted:
            # One that has a GPU does for work that uses none.
            fits = (k for k, one in enumerate(self._idle) if environment.items() <= one.environment.items())
            k = next((k for k in fits if self._idle[k].alive), None)
            team.append(_Process(environment) if k is None else self._idle.pop(k))
        # Others would hold memory.
        _end(self._idle)
        return team


def _end(team: list[_Process]) -> None:
    """End processes and empty the list of them."""
    while team:
        team.pop().end()


def _lost(times: int, member: _Process, timeout: float) -> str:
    late = timeout and member.seconds >= timeout
    return _hung(times, timeout) if late else _killed(times, member.exit_code)


def _left(busy: Iterable[_Process], timeout: float) -> float | None:
    """Return the seconds until the first of some workers is late; None where none ever is."""
    return max(0.0, timeout - max(member.seconds for member in busy)) if timeout else None


def _late(busy: Mapping[Any, _Process], timeout: float) -> list:
    """Return the pipes of workers that have taken longer than they may."""
    return [pipe for pipe, member in busy.items() if timeout and member.seconds >= timeout]


def _gpus() -> list[str]:
    """Return the GPUs that this process sees, as workers are told theirs."""
    said = os.environ.get(_VISIBLE)
    if said is not None:
        return [name for name in said.split(",") if name]
    import torch

    return [str(k) for k in range(torch.cuda.device_count())]


class _Process:
    """A process that calls one function on items, one at a time, and after that another one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        from multiprocessing import get_context

        # Not forked: threads of numpy, pyarrow and torch do not survive a fork.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.task: tuple[int, Any] | None = None
        self.environment = environment
        self._since = 0.0
        self._process = context.Process(
            target=_serve, args=(theirs, os.getpid()), name="biaslab worker", daemon=True
        )
        with _environment(environment), lifeline.sheltered():
            self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def serve(self, function: bytes) -> None:
        """Call this function from now on."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(function)

    def take(self, task: tuple[int, Any] | None) -> None:
        """Start on an item; None is nothing more to do."""
        self.task, self._since = task, time.monotonic()
        if task is not None:
            # Where the process has died, the answer that does not come tells so.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.pipe.send_bytes(_ITEM + pickle.dumps(task[1]))

    @property
    def seconds(self) -> float:
        """How long it has been at its item."""
        return time.monotonic() - self._since

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


def _serve(pipe, parent: int) -> None:
    """Be a worker process: after a function come the items that it is called on."""
    lifeline.begin(parent)
    function, call = b"", None
    while True:
        try:
            given = pipe.recv_bytes()
        except EOFError:
            return
        if not given.startswith(_ITEM):
            function, call = given, None
            continue
        with _heard_by(lambda n: pipe.send(("advanced", n))):
            try:
                call = call or pickle.loads(function)
                answer = "done", call(pickle.loads(given[len(_ITEM) :]))
            except Exception as error:
                answer = "failed", _portable(error)
        try:
            pipe.send(answer)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            pipe.send(("failed", RunError(f"The result of a worker cannot be pickled: {error}")))


def _hung(times: int, timeout: float) -> str:
    return (
        f"Workers were at the same piece for more than {timeout:g} seconds, {times} times, and were ended. Finished "
        "pieces are kept. Set compute.timeout higher, or to 0 for no limit, if a piece can take so long."
    )


def _killed(times: int, exit_code: object) -> str:
    return (
        f"A worker process ended {times} times while it worked on the same piece (exit code {exit_code}; -9 is a kill, "
        "often for lack of memory). Finished pieces are kept. Use fewer workers, or a machine with more memory; a "
        "script that starts workers needs `if __name__ == '__main__':` around its main part."
    )


def _pickled(function: Callable) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ParameterError(
            f"Worker processes cannot be given {function!r:.200}: {error}. Use a function whose arguments and values "
            "can be pickled, or no workers."
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
    started again and its item done again. Workers stay for the next call of :meth:`map`, and end with the engine or
    with this process.
    """

    def __init__(self, workers: int = 0, address: str = "", timeout: float = 0) -> None:
        """Use so many workers; 0 is one for each processor (or GPU) of the cluster.

        Args:
            workers: How many.
            timeout: As in :func:`get`.
            address: Of the cluster, as ``ray.init`` takes it; empty is ``$RAY_ADDRESS``, or without it a cluster of
                this machine alone, which ends with this process.

        Raises:
            ParameterError: ``workers`` is negative, or Ray is not installed.
        """
        from importlib.util import find_spec

        self.workers, self.timeout = _checked(workers), timeout
        # Ray ends actors that nobody can call any more.
        self._idle: tuple[dict[str, Any], list] = ({}, [])
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
        try:
            stored = ray.put(function)
        except TypeError as error:
            raise ParameterError(f"Ray workers cannot be given {function!r:.200}: {error}") from None
        team = self._team(ray, plan)
        # In a list, Ray leaves it to the worker to fetch the function, which it does once.
        tasks = ((i, stored.hex(), [stored], item) for i, item in enumerate(chain(first, items)))
        try:
            yield from self._run(ray, team, tasks, plan, advanced)
        except BaseException:
            _kill(ray, team)
            raise
        self._idle = plan, team

    def _team(self, ray, plan: dict[str, Any]) -> list:
        """Return the workers of a plan: those that are idle, where they were planned alike."""
        (planned, team), self._idle = self._idle, ({}, [])
        if planned == plan:
            return team
        _kill(ray, team)
        worker = ray.remote(
            max_restarts=-1,
            num_cpus=plan["cpu"],
            num_gpus=plan["gpu"],
            scheduling_strategy="SPREAD",
        )(_worker(ray))
        return [worker.remote(plan["threads"], bool(plan["gpu"])) for _ in range(plan["workers"])]

    def _run(self, ray, team: list, todo: Iterator, plan: Mapping, advanced) -> Generator[Any, None, None]:
        # What is not answered yet, and by whom: whether a worker is there, or an item by its number.
        asked = {member.ready.remote(): (member, None) for member in team}
        free: list = []
        done: dict[int, Any] = {}
        given: dict[int, tuple] = {}
        again: deque[int] = deque()
        since: dict[Any, float] = {}
        late: set[int] = set()
        lost: Counter[int] = Counter()
        due, heard = 0, time.monotonic()
        task = next(todo, None)
        while task is not None or given:
            answered, _ = ray.wait(list(asked), num_returns=1, timeout=self._wait)
            for ref in answered:
                member, index = asked.pop(ref)
                since.pop(ref, None)
                # Also of a loss: from then on the cluster has its time to give another worker.
                heard = time.monotonic()
                try:
                    kind, value, counted = ray.get(ref)
                except ray.exceptions.RayError as error:
                    # Ray would try again at once, sooner than it knows that a machine is gone.
                    lost[index] += 1
                    if index is None or lost[index] > RETRIES:
                        raise RunError(self._gone(error, index in late)) from error
                    again.append(index)
                    asked[member.ready.remote()] = (member, None)
                    continue
                if kind == "failed":
                    raise value
                if index is not None:
                    done[index] = value
                    del given[index]
                    if advanced is not None and counted:
                        advanced(counted)
                free.append(member)
            while free and (again or task is not None):
                if not again:
                    again.append(task[0])
                    given[task[0]], task = task[1:], next(todo, None)
                member, index = free.pop(), again.popleft()
                ref = member.call.remote(*given[index])
                asked[ref], since[ref] = (member, index), time.monotonic()
            for ref, began in list(since.items()) if self.timeout else ():
                if time.monotonic() - began > self.timeout:
                    member, index = asked[ref]
                    late.add(index)
                    del since[ref]
                    ray.kill(member, no_restart=False)
            if not since and not answered:
                # Machines can leave a cluster, too.
                total, left = ray.cluster_resources(), ray.available_resources()
                self._check_fit(plan, total)
                if time.monotonic() - heard > PATIENCE:
                    raise RunError(
                        f"{self._name} gave no worker within {PATIENCE:g} seconds: of its {_amounts(total)}, "
                        f"{_amounts(left)} are free. End what holds them (`ray status` tells), add machines, or set "
                        "engine to 'local'."
                    )
            while due in done:
                yield done.pop(due)
                due += 1

    @property
    def _wait(self) -> float:
        """How long to wait for an answer before looking at the clock and the cluster, in seconds."""
        return min(5.0, self.timeout or 5.0)

    def _gone(self, error: Exception, late: bool) -> str:
        if late:
            return _hung(RETRIES + 1, self.timeout)
        return (
            f"Ray workers were lost at the same piece {RETRIES + 1} times, or could not start: {error}. Finished "
            "pieces are kept. Look at the cluster's memory, and at whether biaslab is installed on all its machines."
        )

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


def _kill(ray, team: list) -> None:
    for member in team:
        with contextlib.suppress(Exception):
            ray.kill(member)


def _worker(ray) -> type:
    """Return the class of actors; an answer to whether one is there is waited for through its restarts."""

    class Worker(_RayWorker):
        ready = ray.method(max_task_retries=-1)(_RayWorker.ready)

    return Worker


class _RayWorker:
    """The actor: calls one function on items, one at a time, and after that another one."""

    def __init__(self, threads: int, gpu: bool) -> None:
        import sys

        if not gpu:  # One that it did not reserve is not its own.
            os.environ[_VISIBLE] = ""
        # Libraries that are not loaded yet read the variables; torch may be.
        os.environ.update({name: str(threads) for name in THREADS})
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
        self._name = ""
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> tuple[str, None, int]:
        """Answer; asked for as long as the worker has not started again."""
        return "ready", None, 0

    def call(self, name: str, function: list, item: Any) -> tuple[str, Any, int]:
        """Return what became of an item, and how far the function said that it came."""
        import ray

        counted: list[int] = []
        with _heard_by(counted.append):
            try:
                if self._function is None or self._name != name:
                    self._function, self._name = None, name
                    self._function = ray.get(function[0])
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


def get(name: str = "local", *, workers: int = 0, address: str = "", timeout: float = 0) -> Engine:
    """Return the engine called ``name``.

    Args:
        name: ``local`` or ``ray``.
        workers: How many workers; 0 is this process for ``local``, and all that the cluster has for ``ray``.
        address: Of a Ray cluster; see :class:`RayEngine`.
        timeout: Longest time that a worker may be at one item, in seconds; then it is ended and the item given to
            another one. 0 is no limit.

    Raises:
        ParameterError: There is no such engine, it is not installed, or it has no workers or address.
    """
    if name not in ("local", "ray"):
        raise ParameterError(f"engine is {name!r}, which does not exist. {name_help(name, ['local', 'ray'])}")
    if name == "ray":
        return RayEngine(workers, address, timeout)
    if address:
        raise ParameterError(
            f"compute.address is {address!r} and compute.engine is 'local', which has no address. Set the engine to "
            "'ray', or the address to ''."
        )
    return LocalEngine(workers, timeout)


def _checked(workers: int) -> int:
    if workers < 0:
        raise ParameterError(f"workers is {workers}; it is 0 or more.")
    return workers
