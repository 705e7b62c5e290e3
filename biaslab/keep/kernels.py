"""Calls in processes of their own, and kernels beside them, forked from one process that has read their libraries.

On Linux, :class:`Processes` starts one process that imports what notebooks need and starts no thread. For each call it
forks one, which in turn has forked the process that becomes its kernel before anything else. Elsewhere, where libraries
of the system do not survive a fork, each call has a new process, and its kernel, too. Every process ends with the one
that started it.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from biaslab.ground import lifeline, places
from biaslab.keep.workers import THREADS, threads, threads_given

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

FORKS = sys.platform == "linux"
_SERVE = "import sys; del sys.path[0]; from biaslab.keep import kernels; kernels.serve()"
# Set while libraries are read: figures go to the notebook, as a kernel sets it; Arrow's allocator starts no thread; and
# torch asks the driver's files for a GPU, since none can be used after a fork once it was started before.
_WHILE_READING = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
REHEARSED = "BIASLAB_REHEARSED"
"""Environment variable of processes whose run was rehearsed, so that they do not do it again."""
MODEL_MODULES = ("sentence_transformers", "diffusers.pipelines.auto_pipeline", "open_clip")
"""Read once where several processes compute images or vectors: each would take ten seconds of a processor for it."""
# jsonschema, which nbformat needs, imports it where it is installed: 1.5 s for a format that notebooks lack.
_NEEDLESS = "rfc3987_syntax"


class Processes:
    """Processes for calls, side by side, with variables of an environment; a context, at whose end they have ended.

    ``read(*args)`` is called once, before the others are forked: it imports what they need, but nothing that starts a
    thread or a device.
    """

    def __init__(self, environment: Mapping[str, str], read: Callable[..., None], *args: Any) -> None:
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen | SpawnProcess] = []
        self._control, theirs = Pipe()
        with theirs:
            if not FORKS:
                return
            with lifeline.sheltered():
                warm = subprocess.Popen(
                    [sys.executable, "-c", _SERVE, str(theirs.fileno()), str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **environment},
                )
                self._started.append(warm)
        # Whether it is still there, calls find out.
        with contextlib.suppress(OSError):
            self._control.send((read, args))

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        # What forks ends when nobody can ask it any more.
        self._control.close()
        if error is not None:
            self.kill()
        for process in self._started:
            process.wait() if isinstance(process, subprocess.Popen) else process.join()

    def call(self, log: Path, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function of a module returns, called in a process of its own, or raise what it raises.

        ``log`` is the file where standard error goes, the kernel's as well. Raises EOFError: The process was killed.
        """
        ours, theirs = Pipe()
        with ours:
            try:
                with theirs, self._lock:
                    self._start(theirs)
                ours.send((log, function, args))
                result, error = ours.recv()
            except OSError as lost:
                raise EOFError from lost
        if error is not None:
            raise error
        return result

    def _start(self, connection: Connection) -> None:
        if FORKS:
            send_handle(self._control, connection.fileno(), self._started[0].pid)
            return
        with lifeline.sheltered():
            given = connection, os.getpid(), self._environment
            process = get_context("spawn").Process(target=_answer_anew, args=given)
            process.start()
            self._started.append(process)

    def kill(self) -> None:
        """End all processes at once, with what they do just now; kernels end with theirs."""
        for process in self._started:
            process.kill()


def environment(workers: int = 1) -> dict[str, str]:
    """Return the variables of processes that compute for a run, ``workers`` of them side by side."""
    return {
        # Memory in large pages, where glibc has them: in small ones images take 30 % longer to encode and decode.
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        # The cores are shared out, unless the user says how many threads, for all libraries or for one.
        **threads(threads_given() or (os.cpu_count() or 1) // workers),
        **{name: os.environ[name] for name in THREADS if os.environ.get(name)},
        # Notebooks run in their own folders; the store is where it is for this process.
        places.ROOT_VARIABLE: str(places.default_root().absolute()),
        # The kernel of this environment, even where the user has one of the same name at home.
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def read_modules(names: Iterable[str]) -> None:
    """Import modules; whoever uses one that cannot be imported says what is wrong with it."""
    # Of bars in a browser's notebook, which nobody sees here.
    warnings.filterwarnings("ignore", "IProgress not found")
    for name in names:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)


def _answer_anew(connection: Connection, parent: int, environment: Mapping[str, str]) -> None:
    lifeline.begin(parent)
    os.environ.update(environment)
    sys.modules.setdefault(_NEEDLESS, None)  # type: ignore[arg-type]  # None keeps a module from being imported.
    if question := _question(connection):
        _answer(connection, *question)


def _received(connection: Connection) -> Any:
    """Return what a connection sends; None where it ends before that, because who would send it was stopped."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        return None


def _question(connection: Connection) -> tuple[Callable[..., Any], tuple] | None:
    """Return the call that a connection asks for, with standard error where it wants it; None where it ends first."""
    if not (asked := _received(connection)):
        return None
    log, function, args = asked
    # Where it cannot be written, the call says what to do about it.
    with contextlib.suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
    return function, args


def _answer(connection: Connection, function: Callable[..., Any], args: tuple) -> None:
    with connection:
        try:
            answer, raised = function(*args), None
        except Exception as error:
            answer, raised = None, error
        connection.send((answer, raised))


# -- the process that forks ------------------------------------------------------------------------------


def serve() -> None:
    """Be the process that :class:`Processes` starts, and then each of those that it forks."""
    connection, parent = map(int, sys.argv[1:])
    lifeline.begin(parent)
    with Connection(connection) as control:
        if not (asked := _received(control)):
            return
        _read(*asked)
        work = _fork_when_asked(control)
    # Out of the loop, so that each process ends as any other does.
    work()


def _read(read: Callable[..., None], args: tuple) -> None:
    before, folder = dict(os.environ), os.getcwd()
    os.environ.update({**_WHILE_READING, **before})
    # Where nobody put settings for matplotlib.
    os.chdir(Path(__file__).parents[1])
    sys.modules[_NEEDLESS] = None  # type: ignore[assignment]  # As above.
    # pandas looks, when it is read, whether it is in a kernel, and shows more of wide tables where it is not.
    vars(builtins)["get_ipython"] = lambda: SimpleNamespace(kernel=None)
    # It only saves time: what is wrong is told by the call that needs it.
    with contextlib.suppress(Exception):
        read(*args)
    del sys.modules[_NEEDLESS], vars(builtins)["get_ipython"]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(before)
    # What is there now stays, so that looking for waste copies no memory.
    gc.collect()
    gc.freeze()


def _fork_when_asked(control: Connection) -> Callable[[], None]:
    """Fork two processes for each connection that is sent, and return what each of them is to do."""
    warm = os.getpid()
    while True:
        try:
            connection = Connection(recv_handle(control))
        except EOFError:
            connection = None
        # Take note of those that have ended; after the last, of all.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG if connection else 0)[0]:
                pass
        if connection is None:
            return lambda: None
        if os.fork():
            connection.close()
            continue
        lifeline.follow(warm)
        if not (question := _question(connection)):
            return lambda: None
        caller = os.getpid()
        ours, theirs = Pipe()
        if pid := os.fork():
            theirs.close()
            _waiting.append(_Forked(pid, ours))
            return partial(_answer, connection, *question)
        connection.close()
        ours.close()
        return partial(_become_kernel, theirs, caller)


# -- kernels ---------------------------------------------------------------------------------------------


class _Forked:
    """A process that waits to become a kernel; the part of :class:`subprocess.Popen` that Jupyter uses."""

    stdin = stdout = stderr = None
    returncode: int | None = None

    def __init__(self, pid: int, connection: Connection) -> None:
        self.pid = pid
        self.start = connection.send

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        return self._ended(0)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


# The one that was forked beside this process, until it is a kernel.
_waiting: list[_Forked] = []


@cache
def manager() -> type:
    """Return the class of kernels' managers: the first kernel is the process that waits for it, if there is one."""
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning import LocalProvisioner

    class Provisioner(LocalProvisioner):
        async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
            if not _waiting or "ipykernel_launcher" not in cmd:
                return await super().launch_kernel(cmd, **kwargs)
            self.process = _waiting.pop()
            self.cwd = kwargs.get("cwd", os.getcwd())
            self.process.start((cmd, self.cwd, kwargs["env"]))
            # It leads a group of its own.
            self.pid = self.pgid = self.process.pid
            return self.connection_info

    class Manager(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            if FORKS:
                # A name of its own, of no file. Ports are picked before they are used, and what another process takes
                # meanwhile ends the kernel or, where it is the one for output, leaves it waiting for ever.
                self.transport, self.ip = "ipc", f"@biaslab-{uuid.uuid4().hex}"
            self.provisioner = Provisioner(kernel_id="", kernel_spec=self.kernel_spec, parent=self)

    return Manager


def _become_kernel(connection: Connection, parent: int) -> None:
    """Wait for a command that starts a kernel and do as it would, but for reading libraries."""
    lifeline.follow(parent)
    with connection:
        if not (started := _received(connection)):
            return
    command, folder, environment = started
    import ipykernel_launcher
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.environ["JPY_PARENT_PID"] = str(parent)
    # NumPy's own draws begin anywhere, not alike in all kernels; Python's do so by themselves.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    sys.argv = [ipykernel_launcher.__file__, *command[command.index("ipykernel_launcher") + 1 :]]
    IPKernelApp.launch_instance([*sys.argv[1:], f"--IPKernelApp.parent_handle={parent}"])
