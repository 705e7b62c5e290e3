"""Where work runs: one parameter, ``engine``. A stage hands over a function and does not know which it is.

Beyond this process the function, the items and the results travel, so they must be picklable; the function travels once
to each worker and stays there, with what it keeps (a model, say, in a :class:`Memo`). No worker has more than one item,
and none is taken before a worker is free. An item whose worker was killed is given to another one.

``local`` runs in this process, or in worker processes of this machine. ``ray`` runs in actors of a Ray cluster, all
machines of which must have biaslab installed and see the store's folder under the same path.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import secrets
import socket
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from biaslab.ground import lifeline
from biaslab.ground.errors import BiaslabError, ParameterError, RunError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# How often an item is given to another worker after its worker was killed.
RETRIES = 3
# How often Ray is started on this machine: it gives up after half a minute, which can be short on a busy one.
STARTS = 3
# Seconds that a Ray cluster has for giving its first worker.
PATIENCE = 120.0
# Share of a processor that a Ray worker reserves: less than one, so that several runs fit on a small cluster. It is a
# reservation only; how many threads a worker uses is another matter.
_CPU_SHARE = 0.5
# What limits the threads of numpy, pyarrow, torch, numexpr and tokenizers: the first, and others that go before it.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
_ADDRESS = "RAY_ADDRESS"
_LOOPBACK = "127.0.0.1"
# What a cluster that is started here reads, and its processes: whoever joins shows a token, which nobody else knows,
# and the cluster knows itself by the loopback address, so that it listens there alone.
_ALONE = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Which GPUs a process sees.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PORTABLE = "Use a function whose arguments and values can be pickled, or no workers."
# What an item on its way to a process begins with; what does not is a function.
_ITEM = b"item:"


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


# -- work shared out among workers -----------------------------------------------------------------------


class _Crew:
    """Workers that share out work; each has one item at most.

    ``give(worker, item)`` has a free worker begin an item; ``answers()`` waits, and returns what workers say: the
    worker, a word, and a value.
    """

    give: Callable[[Any, Any], None]
    answers: Callable[[], Iterable[tuple[Any, str, Any]]]

    def run(self, items: Iterable[Any], advanced: Callable[[int], object] | None) -> Generator[Any, None, None]:
        """Yield results in the order of items; one whose worker was lost is given to another worker."""
        todo = enumerate(items)
        again: deque[tuple[int, Any]] = deque()
        given: dict[Any, tuple[int, Any]] = {}
        free: list[Any] = []
        lost: Counter[int] = Counter()
        done: dict[int, Any] = {}
        due = 0
        while given or not free:
            for worker, said, value in self.answers():
                if said == "failed":
                    raise value
                if said == "advanced":
                    if advanced is not None:
                        advanced(value)
                elif said == "lost":
                    task = given.pop(worker, None)
                    if task is None or lost[task[0]] == RETRIES:
                        raise value
                    lost[task[0]] += 1
                    again.append(task)
                else:
                    free.append(worker)
                    if said == "done":
                        done[given.pop(worker)[0]] = value
            while free and (task := again.popleft() if again else next(todo, None)):
                worker = free.pop()
                given[worker] = task
                self.give(worker, task[1])
            while due in done:
                yield done.pop(due)
                due += 1


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


def threads(n: int) -> dict[str, str]:
    """Return the variables of a process that uses ``n`` threads, in each library: sums in parts have other digits."""
    return dict.fromkeys(THREADS, str(max(1, n)))


def threads_given() -> int:
    """Return how many threads the user gives a process (``OMP_NUM_THREADS``); 0 where that is not said."""
    # Those of nested parts may follow, behind a comma.
    said = os.environ.get(THREADS[0], "").partition(",")[0].strip()
    return int(said) if said.isdecimal() else 0


def _own_threads() -> int:
    return threads_given() or _processors()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- this machine ----------------------------------------------------------------------------------------


class LocalEngine:
    """Runs on this machine: in this process, each item only when its result is asked for, or in worker processes.

    These share this process's threads and GPUs, stay for the next call of :meth:`map`, and end with the engine or with
    this process, however it ends. A single item is not worth a process.
    """

    def __init__(self, workers: int = 0) -> None:
        """Use so many processes; 0 is this one."""
        self.workers = workers
        self._idle: list[_Process] = []
        self._ends: object = None

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        gpu: bool = False,
        advanced: Callable[[int], object] | None = None,
    ) -> Generator[Any, None, None]:
        """Yield ``function(item)`` for each item, in order; an error of the function ends the iteration.

        Closing the generator ends its workers. ``gpu`` is whether the function uses a GPU where there is one.
        ``advanced`` is called with the numbers that the function gives to :func:`advance`, soon or when an item is
        done.

        Raises ParameterError: There are workers, and the function cannot be pickled. RunError: Workers were killed
        again and again at the same item.
        """
        items = iter(items)
        first = list(islice(items, max(self.workers, 2))) if self.workers else []
        if len(first) < 2:
            for item in chain(first, items):
                with _heard_by(advanced):
                    result = function(item)
                yield result
            return
        import cloudpickle

        try:
            payload = cloudpickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ParameterError(f"Worker processes cannot be given {function!r:.200}: {error}. {_PORTABLE}") from None
        team = self._team(min(self.workers, len(first)), gpu)
        try:
            yield from _Processes(team, payload).run(chain(first, items), advanced)
        except BaseException:
            _end(team)
            raise
        self._idle += team

    def _team(self, n: int, gpu: bool) -> list[_Process]:
        """Return so many processes: those that are idle, as far as they are what is needed, and new ones."""
        from multiprocessing.util import Finalize

        # With this engine, or before multiprocessing itself ends them, less kindly.
        self._ends = self._ends or Finalize(self, _end, (self._idle,), exitpriority=10)
        gpus = _gpus() if gpu else []
        team = []
        for n_th in range(n):
            environment = threads(_own_threads() // self.workers)
            if gpus:
                environment[_VISIBLE] = gpus[n_th % len(gpus)]
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


def _gpus() -> list[str]:
    """Return the GPUs that this process sees, as workers are told theirs."""
    said = os.environ.get(_VISIBLE)
    if said is not None:
        return [name for name in said.split(",") if name]
    import torch

    return [str(k) for k in range(torch.cuda.device_count())]


class _Processes(_Crew):
    """Processes of this machine; one that died is started again."""

    def __init__(self, team: Iterable[_Process], function: bytes) -> None:
        self._function = function
        self._new = list(team)
        self._busy: dict[Connection, _Process] = {}

    def give(self, worker: _Process, item: Any) -> None:
        self._busy[worker.pipe] = worker
        worker.works = True
        worker.send(_ITEM + pickle.dumps(item))

    def answers(self) -> list[tuple[_Process, str, Any]]:
        from multiprocessing.connection import wait

        if self._new:
            new, self._new = self._new, []
            for worker in new:
                if not worker.alive:
                    worker.start()
                worker.send(self._function)
            return [(worker, "ready", None) for worker in new]
        return [self._answer(pipe) for pipe in wait([*self._busy])]

    def _answer(self, pipe: Any) -> tuple[_Process, str, Any]:
        worker = self._busy[pipe]
        try:
            said, value = pipe.recv()
        except (EOFError, OSError):
            said, value = (
                "lost",
                RunError(
                    f"A worker process ended {RETRIES + 1} times while it worked on the same piece (exit code "
                    f"{worker.exit_code}; -9 is a kill, often for lack of memory). Finished pieces are kept. Use fewer "
                    "workers, or a machine with more memory; a script that starts workers needs "
                    "`if __name__ == '__main__':` around its main part."
                ),
            )
            worker.end()
            self._new.append(worker)
        if said != "advanced":
            worker.works = False
            del self._busy[pipe]
        return worker, said, value


class _Process:
    """A process that calls one function on items, one at a time, and after that another one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment, self.works = environment, False
        self.start()

    def start(self) -> None:
        """Start the process; once more where it has ended."""
        from multiprocessing import get_context

        # Not forked: threads of numpy, pyarrow and torch do not survive a fork.
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, os.getpid()), name="biaslab worker", daemon=True)
        with _environment(self.environment), lifeline.sheltered():
            self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def send(self, given: bytes) -> None:
        """Give it a function to call from now on, or an item to call it on."""
        # Where the process has died, the answer that does not come tells so.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(given)

    @property
    def exit_code(self) -> int | None:
        self._process.join(5)
        return self._process.exitcode

    def end(self) -> None:
        """End the process: at once where it works, else by itself."""
        self.pipe.close()
        if self.works:
            self._process.terminate()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, parent: int) -> None:
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
    """Runs in actors of a Ray cluster, which is joined, or started on this machine, when there is work.

    A worker reserves half a processor, or a share of a GPU where the function uses one and the cluster has any. Workers
    stay for the next call of :meth:`map`, and end with the engine or with this process.
    """

    def __init__(self, workers: int = 0, address: str = "") -> None:
        """Use so many workers; 0 is one for each processor (or GPU) of the cluster.

        ``address`` is as ``ray.init`` takes it; empty is ``$RAY_ADDRESS``, or without it a cluster of this machine
        alone, which ends with this process. Raises ParameterError: Ray is not installed.
        """
        from importlib.util import find_spec

        self.workers = workers
        # Ray ends actors that nobody can call any more.
        self._idle: tuple[dict[str, Any], list] = ({}, [])
        self.address = address or os.environ.get(_ADDRESS, "")
        # What messages call the cluster.
        self.name = f"The Ray cluster at {self.address!r}" if self.address else "The Ray cluster on this machine"
        if find_spec("ray") is None:
            raise ParameterError(
                "compute.engine is 'ray', which takes Ray: run `pip install 'biaslab[ray]'`, or set it to 'local'."
            )

    def map(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        *,
        gpu: bool = False,
        advanced: Callable[[int], object] | None = None,
    ) -> Generator[Any, None, None]:
        """Do as :meth:`LocalEngine.map`; a RunError, too, where a cluster cannot be reached or gives no worker."""
        items = iter(items)
        first = list(islice(items, 1))
        if not first:
            return
        ray = self._joined()
        plan = self._plan(ray.cluster_resources(), gpu)
        try:
            stored = ray.put(function)
        except TypeError as error:
            raise ParameterError(f"Ray workers cannot be given {function!r:.200}: {error}. {_PORTABLE}") from None
        team = self._team(ray, plan)
        try:
            yield from _Actors(self, ray, plan, team, stored).run(chain(first, items), advanced)
        except BaseException:
            _kill(ray, team)
            raise
        self._idle = plan, team

    def _team(self, ray: Any, plan: dict[str, Any]) -> list:
        """Return the workers of a plan: those that are idle, where they were planned alike."""
        (planned, team), self._idle = self._idle, ({}, [])
        if planned == plan:
            return team
        _kill(ray, team)
        reserved = {"num_cpus": plan["cpu"], "num_gpus": plan["gpu"]}
        worker = ray.remote(max_restarts=-1, scheduling_strategy="SPREAD", **reserved)(_RayWorker)
        return [worker.remote(plan["threads"], bool(plan["gpu"])) for _ in range(plan["workers"])]

    def _joined(self) -> Any:
        # No telemetry; read when Ray is imported.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not self.address:
            os.environ.update(_ALONE)
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        import ray

        own = {"address": "local", "num_cpus": max(self.workers, _processors()), "include_dashboard": False}
        where = {"address": self.address} if self.address else own | {"_node_ip_address": _LOOPBACK}
        for _ in range(1 if self.address else STARTS):
            try:
                if not ray.is_initialized():
                    if self.address:
                        _look_for(self.address)
                    ray.init(**where, log_to_driver=False, logging_level="error")
                return ray
            except Exception as error:  # Ray raises many kinds, plain ones too
                failed = error
                # What did start of it would stay beside the next try.
                ray.shutdown()
        raise RunError(
            f"{self.name} cannot be joined: {failed}. Start one with `ray start --head` and name its address "
            f"(compute.address or {_ADDRESS}; RAY_AUTH_MODE=token where it asks for a token), or set engine to 'local'."
        ) from failed

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
        # On machines of its own, a worker has no more than this process: results do not depend on where it runs.
        limit = processors if self.address else min(processors, _own_threads())
        plan["threads"] = max(1, min(limit // plan["workers"], _own_threads()))
        self.check_fit(plan, total, plan["workers"])
        return plan

    def check_fit(self, plan: Mapping, total: Mapping[str, float], workers: float = 1) -> None:
        """Refuse a cluster that has not what so many workers reserve."""
        processors, gpus = total.get("CPU", 0), total.get("GPU", 0)
        if plan["cpu"] * workers > processors or plan["gpu"] > gpus:
            raise RunError(
                f"{self.name} has {_amounts(total)}, and each of {plan['workers']} workers reserves "
                f"{plan['cpu']:g} of a processor and {plan['gpu']:g} of a GPU. Set workers to "
                f"{int(processors / _CPU_SHARE)} or less (0 is one for each processor), add machines, or set "
                "compute.engine to 'local'."
            )


class _Actors(_Crew):
    """Actors of a Ray cluster, which starts those again that died."""

    def __init__(self, engine: RayEngine, ray: Any, plan: Mapping[str, Any], team: list, stored: Any) -> None:
        self._engine, self._ray, self._plan, self._stored = engine, ray, plan, stored
        # By what is not answered yet: the worker, and whether it is at an item, not at its start.
        self._asked: dict[Any, tuple[Any, bool]] = {}
        self._heard = time.monotonic()
        for worker in team:
            self._ask(worker)

    def _ask(self, worker: Any) -> None:
        """Have a worker say when it is there, however often it must be started for that."""
        self._asked[worker.ready.options(max_task_retries=-1).remote()] = worker, False

    def give(self, worker: Any, item: Any) -> None:
        # In a list, Ray leaves it to the worker to fetch the function, which it does once.
        self._asked[worker.call.remote([self._stored], item)] = worker, True

    def answers(self) -> list[tuple[Any, str, Any]]:
        answered, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=5.0)
        if answered:
            # Also of a loss: from then on the cluster has its time to give another worker.
            self._heard = time.monotonic()
        elif not any(works for _, works in self._asked.values()):
            # Machines can leave a cluster, too.
            total, left = self._ray.cluster_resources(), self._ray.available_resources()
            self._engine.check_fit(self._plan, total)
            if time.monotonic() - self._heard > PATIENCE:
                raise RunError(
                    f"{self._engine.name} gave no worker within {PATIENCE:g} seconds: of its {_amounts(total)}, "
                    f"{_amounts(left)} are free. End what holds them (`ray status` tells), add machines, or set engine "
                    "to 'local'."
                )
        return [answer for ref in answered for answer in self._answer(ref)]

    def _answer(self, ref: Any) -> list[tuple[Any, str, Any]]:
        worker, _ = self._asked.pop(ref)
        try:
            said, value, counted = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            # Ray would try again at once, sooner than it knows that a machine is gone.
            self._ask(worker)
            lost = RunError(
                f"Ray workers were lost at the same piece {RETRIES + 1} times, or could not start: {error}. "
                "Finished pieces are kept. Look at the cluster's memory, and at whether biaslab is installed on all "
                "its machines."
            )
            lost.__cause__ = error
            return [(worker, "lost", lost)]
        return [(worker, "advanced", counted)] * bool(counted) + [(worker, said, value)]


def _kill(ray: Any, team: list) -> None:
    for member in team:
        with contextlib.suppress(Exception):
            ray.kill(member)


class _RayWorker:
    """The actor: does as :func:`_serve`."""

    def __init__(self, n_threads: int, gpu: bool) -> None:
        import sys

        if not gpu:  # One that it did not reserve is not its own.
            os.environ[_VISIBLE] = ""
        # Libraries that are not loaded yet read the variables; torch may be.
        os.environ.update(threads(n_threads))
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(n_threads)
        self._name = ""
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> tuple[str, None, int]:
        """Answer, once the worker is there."""
        return "ready", None, 0

    def call(self, function: list, item: Any) -> tuple[str, Any, int]:
        """Return what became of an item, and how far the function said that it came."""
        import ray

        counted: list[int] = []
        with _heard_by(counted.append):
            try:
                if self._function is None or self._name != function[0].hex():
                    self._function, self._name = None, function[0].hex()
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


Engine = LocalEngine | RayEngine

# -- by name ---------------------------------------------------------------------------------------------


def get(name: str = "local", workers: int = 0, address: str = "") -> Engine:
    """Return the engine ``local`` or ``ray``; :class:`biaslab.settings.ComputeSettings` says what they take.

    Raises ParameterError: Ray is not installed, or ``local`` is given an address.
    """
    if name == "ray":
        return RayEngine(workers, address)
    if address:
        raise ParameterError(
            f"compute.address is {address!r} and compute.engine is 'local'; set it to 'ray', or that to ''."
        )
    return LocalEngine(workers)
