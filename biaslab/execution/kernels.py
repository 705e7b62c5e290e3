"""Notebook kernels that live as long as a run: each imports the libraries once and executes many notebooks.

Between notebooks a kernel is reset (:func:`reset`). It is restarted after an error, when it was killed, and when it
uses much memory. A kernel ends with the process that started it (``JPY_PARENT_PID``).
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
# Bytes of memory above which a kernel is restarted before its next notebook.
_MAX_MEMORY = 2 * 2**30


class Kernels:
    """``n`` running kernels with an environment and imported modules; as a context manager, it ends them on exit."""

    def __init__(self, n: int, environment: Mapping[str, str], modules: Iterable[str] = ()) -> None:
        self.environment = {**os.environ, **environment}
        self._modules = list(modules)
        self._kernels = [_Kernel() for _ in range(n)]
        self._idle_kernels: queue.SimpleQueue[_Kernel] = queue.SimpleQueue()
        for kernel in self._kernels:
            kernel.start(self.environment, self._modules)
            self._idle_kernels.put(kernel)

    def __enter__(self) -> Kernels:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self._kernels:
            kernel.close()

    @contextlib.contextmanager
    def acquire(self, folder: Path, log: Path) -> Iterator[KernelManager]:
        """Yield the manager of a kernel that no other thread uses, reset, with ``folder`` as its working folder.

        ``log`` is the file for the standard error of the process. An error ends the kernel, and the next use restarts
        it. Raises EOFError: The kernel was killed.
        """
        with self._claim() as kernel:
            try:
                kernel.call(reset, str(folder), self.environment)
                yield kernel.manager
            finally:
                kernel.manager.disconnect()
                # If it cannot be written, the error about the notebook's own files states the fix.
                with contextlib.suppress(OSError):
                    kernel.write_log(log)

    def call(self, log: Path, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of a module in a kernel; return its result or raise its error.

        ``log`` is the file for standard error, which is written while the function runs. Raises EOFError: The kernel
        was killed.
        """
        with self._claim() as kernel:
            result, error = kernel.call(_answer, log, function, args)
        if error is not None:
            raise error
        return result

    @contextlib.contextmanager
    def _claim(self) -> Iterator[_Kernel]:
        kernel = self._idle_kernels.get()
        try:
            if not kernel.is_alive or kernel.memory > _MAX_MEMORY:
                kernel.kill()
                kernel.start(self.environment, self._modules)
            yield kernel
        except BaseException:
            kernel.kill()
            raise
        finally:
            self._idle_kernels.put(kernel)
            _close_loop()

    def interrupt(self) -> None:
        """Send Ctrl-C to the kernels, so that current writes are completed."""
        for kernel in self._kernels:
            kernel.interrupt()

    def kill(self) -> None:
        """End all kernels at once."""
        for kernel in self._kernels:
            kernel.kill()


def environment(workers: int = 1) -> dict[str, str]:
    """Return the environment variables of ``workers`` parallel processes of a run."""
    return {
        # Large memory pages, if glibc supports them: with small ones encoding and decoding of images takes 30% longer.
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        # The cores are divided among processes, unless the user sets the threads of all libraries or of one.
        **threads(user_thread_limit() or (os.cpu_count() or 1) // workers),
        **{name: os.environ[name] for name in THREADS if os.environ.get(name)},
        # Notebooks have other working directories, but the same cache as this process.
        places.ROOT_VARIABLE: str(places.default_root().absolute()),
    }


def read_modules(names: Iterable[str]) -> None:
    """Import modules; errors are ignored here and raised where a module is used."""
    # A warning about progress bars in a browser.
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
    """Return the class of kernel managers."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager

    class Manager(KernelManager):
        def __init__(self) -> None:
            # The kernel of this Python, even if the user has one of the same name; nbclient needs asynchronous clients.
            specs, clients = KernelSpecManager(kernel_dirs=[]), "jupyter_client.asynchronous.AsyncKernelClient"
            super().__init__(kernel_name="python3", kernel_spec_manager=specs, client_class=clients)
            if sys.platform == "linux":
                # A unique name without a file. TCP ports are chosen before they are used. If another process takes one
                # meanwhile, the kernel ends or, if it is the port for output, waits forever.
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
        # Opened for appending, so that this process can read it while the kernel writes.
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._logged = 0

    def start(self, environment: Mapping[str, str], modules: list[str]) -> None:
        """Start the process and import modules in it, before it executes anything else."""
        self.manager = _manager()()
        arguments = ["--IPKernelApp.log_level=ERROR"]
        self.manager.start_kernel(env=dict(environment), stdout=self._log, stderr=self._log, extra_arguments=arguments)
        self._client = self.manager.blocking_client()
        self._client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        self._client.execute(f"from biaslab.execution import kernels; kernels.warm({modules!r})", silent=True)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.manager.is_alive()

    @property
    def memory(self) -> int:
        """Bytes of memory of the process; 0 if unknown."""
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
            # Not as code, because errors would show its contents, such as keys.
            file = Path(folder, "call")
            file.write_bytes(pickle.dumps((function, args)))
            code = f"from biaslab.execution import kernels; kernels.serve({str(file)!r})"
            request = self._client.execute(code, silent=True, store_history=False)
            while self.is_alive:
                with contextlib.suppress(queue.Empty):
                    reply = self._client.get_shell_msg(timeout=1)
                    if reply["parent_header"].get("msg_id") == request:
                        if reply["content"]["status"] != "ok":
                            raise RuntimeError(f"The kernel failed: {reply['content'].get('evalue')}")
                        return pickle.loads(file.read_bytes())
        process = self.manager.provisioner.process
        raise EOFError((process.poll() if process else None) or 0)

    def write_log(self, path: Path) -> None:
        """Write the output of the process to standard error since the last call to a file, unless it is empty."""
        self._log.seek(self._logged)
        if output := self._log.read():
            self._logged += len(output)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(output)

    def interrupt(self) -> None:
        """Interrupt what the process executes."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.is_alive:
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

# The state that :func:`reset` restores.
_state: dict[str, Any] = {}


def warm(modules: Iterable[str]) -> None:
    """Import modules in a new kernel, and save the state that :func:`reset` restores."""
    import matplotlib as mpl
    import numpy as np
    from IPython import get_ipython

    read_modules(modules)
    get_ipython().run_line_magic("matplotlib", "inline")
    _state.update(look=mpl.rcParams.copy(), path=list(sys.path), filters=list(warnings.filters), errors=np.geterr())
    _state.update(modules=set(sys.modules), folder=os.getcwd())


def reset(folder: str, environment: Mapping[str, str]) -> None:
    """Restore the state of a kernel for its next notebook, in the working folder ``folder``.

    The state consists of the namespace, execution count, figures and their style, options of pandas, NumPy's error
    handling, environment, search path, filters and history of warnings, global random generators, and modules next to
    the last notebook. Libraries stay imported, including changes that a notebook makes by assignment.
    """
    import matplotlib as mpl
    import numpy as np
    import pandas as pd
    from IPython import get_ipython
    from matplotlib import pyplot as plt

    plt.close("all")
    mpl.rcParams.update(_state["look"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pd.reset_option("all")
    np.seterr(**_state["errors"])
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    sys.path[:] = _state["path"]
    warnings.filters[:] = _state["filters"]  # type: ignore[index]  # It is a list.
    for name, module in list(sys.modules.items()):
        # Some modules have an attribute of every name.
        names = getattr(module, "__dict__", {})
        names.get("__warningregistry__", {}).clear()
        if name not in _state["modules"] and str(names.get("__file__")).startswith(_state["folder"] + os.sep):
            del sys.modules[name]
    os.chdir(folder)
    _state["folder"] = folder
    # Seeds are random, and differ between notebooks.
    random.seed()
    np.random.seed()  # noqa: NPY002
    get_ipython().reset(new_session=True)
    gc.collect()


def serve(file: str) -> None:
    """Call the function pickled in a file with its arguments, and write its result to the file."""
    path = Path(file)
    function, args = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps(function(*args)))


def _answer(log: Path, function: Callable[..., Any], args: tuple) -> tuple[Any, Exception | None]:
    """Return the result or the error of a function, whose standard error is written to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", buffering=1, encoding="utf-8") as out, contextlib.redirect_stderr(out):
        try:
            return function(*args), None
        except Exception as error:
            return None, error
