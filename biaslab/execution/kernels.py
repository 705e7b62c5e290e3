"""Notebook kernels that run for as long as a run does: each imports the libraries once and executes many notebooks.

Between notebooks a kernel is reset (:func:`reset`), and it is started again after an error, when it was killed, and
when it holds much memory. A kernel ends with the process that started it (``JPY_PARENT_PID``).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pickle
import queue
import random
import sys
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.execution.workers import THREADS, threads, user_thread_limit
from biaslab.io import places

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

PREFLIGHT_DONE = "BIASLAB_PREFLIGHT_DONE"
"""Environment variable of processes whose run passed the preflight check, so that they skip it."""
MODEL_MODULES = ("sentence_transformers", "diffusers.pipelines.auto_pipeline", "open_clip")
"""Imported by kernels that compute images or vectors, which takes about ten seconds of a processor."""
# Bytes of memory above which a kernel is started again before its next notebook.
_MOST_MEMORY = 2 * 2**30


class Kernels:
    """``n`` running kernels with variables of an environment, which import modules; a context that ends them."""

    def __init__(self, n: int, environment: Mapping[str, str], modules: Iterable[str] = ()) -> None:
        self.environment = {**os.environ, **environment}
        self._modules = list(modules)
        self._kernels = [_Kernel() for _ in range(n)]
        self._free: queue.SimpleQueue[_Kernel] = queue.SimpleQueue()
        for kernel in self._kernels:
            kernel.start(self.environment, self._modules)
            self._free.put(kernel)

    def __enter__(self) -> Kernels:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self._kernels:
            kernel.close()

    @contextlib.contextmanager
    def acquire(self, folder: Path, log: Path) -> Iterator[KernelManager]:
        """Yield the manager of a kernel that no other thread uses, reset, with ``folder`` as its working folder.

        ``log`` is the file for what the process writes to standard error. An error ends the kernel; the next use starts
        it again. Raises EOFError: The kernel was killed.
        """
        with self._claim() as kernel:
            try:
                kernel.call(reset, str(folder), self.environment)
                yield kernel.manager
            finally:
                kernel.manager.disconnect()
                # Where it cannot be written, the notebook's own files say what to do about it.
                with contextlib.suppress(OSError):
                    kernel.write_log(log)

    def call(self, log: Path, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function of a module returns, called in a kernel, or raise what it raises.

        ``log`` is the file for standard error, which is written as the function runs. Raises EOFError: The kernel was
        killed.
        """
        with self._claim() as kernel:
            result, error = kernel.call(_answer, log, function, args)
        if error is not None:
            raise error
        return result

    @contextlib.contextmanager
    def _claim(self) -> Iterator[_Kernel]:
        kernel = self._free.get()
        try:
            if not kernel.alive or kernel.memory > _MOST_MEMORY:
                kernel.kill()
                kernel.start(self.environment, self._modules)
            yield kernel
        except BaseException:
            kernel.kill()
            raise
        finally:
            self._free.put(kernel)
            _close_loop()

    def interrupt(self) -> None:
        """Send Ctrl-C to the kernels, so that what is written just now is written to its end."""
        for kernel in self._kernels:
            kernel.interrupt()

    def kill(self) -> None:
        """End all kernels at once."""
        for kernel in self._kernels:
            kernel.kill()


def environment(workers: int = 1) -> dict[str, str]:
    """Return the variables of processes that compute for a run, ``workers`` of them side by side."""
    return {
        # Memory in large pages, where glibc has them: in small ones images take 30 % longer to encode and decode.
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        # The cores are shared out, unless the user says how many threads, for all libraries or for one.
        **threads(user_thread_limit() or (os.cpu_count() or 1) // workers),
        **{name: os.environ[name] for name in THREADS if os.environ.get(name)},
        # Notebooks run in their own folders; the store is where it is for this process.
        places.ROOT_VARIABLE: str(places.default_root().absolute()),
    }


def read_modules(names: Iterable[str]) -> None:
    """Import modules; whoever uses one that cannot be imported says what is wrong with it."""
    # Of bars in a browser's notebook, which nobody sees here.
    warnings.filterwarnings("ignore", "IProgress not found")
    for name in names:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)


def _close_loop() -> None:
    """Close the event loop that jupyter_client and nbclient leave open in each thread that uses them."""
    from jupyter_core.utils import ensure_event_loop

    if threading.current_thread() is not threading.main_thread():
        ensure_event_loop().close()


@functools.cache
def _manager() -> type:
    """Return the class of kernels' managers."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    class Manager(KernelManager):
        def __init__(self) -> None:
            # The kernel of this Python, even where the user has one of the same name at home; nbclient awaits clients.
            specs, clients = KernelSpecManager(kernel_dirs=[]), "jupyter_client.asynchronous.AsyncKernelClient"
            super().__init__(kernel_name="python3", kernel_spec_manager=specs, client_class=clients)
            if sys.platform == "linux":
                # A name of its own, of no file. Ports are picked before they are used, and what another process takes
                # meanwhile ends the kernel or, where it is the one for output, leaves it waiting for ever.
                self.transport, self.ip = "ipc", f"@biaslab-{uuid.uuid4().hex}"
            self._connected: list[Any] = []

        def client(self, **kwargs: Any) -> Any:
            self._connected.append(super().client(**kwargs))
            return self._connected[-1]

        def disconnect(self) -> None:
            """Close the connections of :meth:`client`, which nbclient leaves open."""
            while self._connected:
                self._connected.pop().stop_channels()

    return Manager


class _Kernel:
    """One kernel: its process and the connection to it."""

    def __init__(self) -> None:
        # Both append, so that this process can read what the kernel has written.
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._logged = 0

    def start(self, environment: Mapping[str, str], modules: list[str]) -> None:
        """Start the process and let it import modules; it executes nothing else before it has done so."""
        self.manager = _manager()()
        arguments = ["--IPKernelApp.log_level=ERROR"]
        self.manager.start_kernel(env=dict(environment), stdout=self._log, stderr=self._log, extra_arguments=arguments)
        self._client = self.manager.blocking_client()
        self._client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        self._client.execute(f"from biaslab.execution import kernels; kernels.warm({modules!r})", silent=True)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.manager.is_alive()

    @property
    def memory(self) -> int:
        """Bytes of memory of the process; 0 where the system does not say."""
        import psutil

        try:
            return psutil.Process(self.manager.provisioner.pid).memory_info().rss
        except psutil.Error:
            return 0

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of this module in the kernel.

        Raises EOFError: The kernel ended, with its exit status, negative for the signal that killed it.
        """
        with tempfile.TemporaryDirectory() as folder:
            # Not as code, of which errors would show what it holds, such as keys.
            file = Path(folder, "call")
            file.write_bytes(pickle.dumps((function, args)))
            code = f"from biaslab.execution import kernels; kernels.serve({str(file)!r})"
            request = self._client.execute(code, silent=True, store_history=False)
            while self.alive:
                with contextlib.suppress(queue.Empty):
                    reply = self._client.get_shell_msg(timeout=1)
                    if reply["parent_header"].get("msg_id") == request:
                        if reply["content"]["status"] != "ok":
                            raise RuntimeError(f"The kernel failed: {reply['content'].get('evalue')}")
                        return pickle.loads(file.read_bytes())
        process = self.manager.provisioner.process
        raise EOFError((process.poll() if process else None) or 0)

    def write_log(self, path: Path) -> None:
        """Write what the process has put out on standard error since the last call to a file, if there is any."""
        self._log.seek(self._logged)
        if written := self._log.read():
            self._logged += len(written)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written)

    def interrupt(self) -> None:
        """Interrupt what the process executes."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.alive:
                self.manager.interrupt_kernel()

    def kill(self) -> None:
        """End the process."""
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def close(self) -> None:
        """End the process for good."""
        self.kill()
        self._log.close()


# -- in the kernel ---------------------------------------------------------------------------------------

# What :func:`reset` restores.
_kept: dict[str, Any] = {}


def warm(modules: Iterable[str]) -> None:
    """Import modules in a kernel that has started, and note the state that :func:`reset` restores."""
    import matplotlib as mpl
    import numpy as np
    from IPython import get_ipython

    read_modules(modules)
    get_ipython().run_line_magic("matplotlib", "inline")
    _kept.update(look=mpl.rcParams.copy(), path=list(sys.path), filters=list(warnings.filters), errors=np.geterr())
    _kept.update(modules=set(sys.modules), folder=os.getcwd())


def reset(folder: str, environment: Mapping[str, str]) -> None:
    """Restore the state of a kernel for its next notebook, in the working folder ``folder``.

    That is the namespace, execution count, figures and their style, options of pandas, NumPy's error handling,
    environment, search path, filters of warnings and which were shown, states of global random generators, and modules
    next to the last notebook. Libraries stay imported, with what a notebook changes in them by assignment.
    """
    import matplotlib as mpl
    import numpy as np
    import pandas as pd
    from IPython import get_ipython
    from matplotlib import pyplot as plt

    plt.close("all")
    mpl.rcParams.update(_kept["look"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.reset_option("all")
    np.seterr(**_kept["errors"])
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    sys.path[:] = _kept["path"]
    warnings.filters[:] = _kept["filters"]  # type: ignore[index]  # It is a list.
    for name, module in list(sys.modules.items()):
        # Some modules answer to every name.
        names = getattr(module, "__dict__", {})
        names.get("__warningregistry__", {}).clear()
        if name not in _kept["modules"] and str(names.get("__file__")).startswith(_kept["folder"] + os.sep):
            del sys.modules[name]
    os.chdir(folder)
    _kept["folder"] = folder
    # They start anywhere, and differ between notebooks.
    random.seed()
    np.random.seed()  # noqa: NPY002
    get_ipython().reset(new_session=True)
    gc.collect()


def serve(file: str) -> None:
    """Call the function that a file holds with its arguments, and leave in the file what it returns."""
    path = Path(file)
    function, args = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps(function(*args)))


def _answer(log: Path, function: Callable[..., Any], args: tuple) -> tuple[Any, Exception | None]:
    """Return what a function returns and what it raises; standard error goes to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", buffering=1, encoding="utf-8") as out, contextlib.redirect_stderr(out):
        try:
            return function(*args), None
        except Exception as error:
            return None, error
