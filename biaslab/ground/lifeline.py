"""Processes that end with the one that started them, however that ended; and Ctrl-C, which is for that one alone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker

# Seconds between looks at who the parent is, where the system does not tell.
_LOOK = 1.0


def follow(parent: int) -> None:
    """End this process, even where it is stopped, as soon as its parent has ended, or at once where it is gone already.

    On Linux the system sees to it; elsewhere a thread looks once a second, which a stopped process cannot.
    """
    if not (sys.platform == "linux" and _signalled()):
        threading.Thread(target=_look, args=(parent,), name="biaslab lifeline", daemon=True).start()
    # It may have ended before the system was asked.
    if os.name == "posix" and os.getppid() != parent:
        os._exit(1)


def _signalled() -> bool:
    import ctypes

    set_parent_death_signal = 1
    try:
        return ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _look(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)


@contextlib.contextmanager
def sheltered() -> Iterator[None]:
    """Let processes that start here never hear Ctrl-C, not even while they start; this one hears it afterwards.

    They call :func:`begin` first. Ctrl-C reaches every process of a terminal's group; the one that started the others
    ends them. Raises KeyboardInterrupt at the end, where Ctrl-C came meanwhile.
    """
    if os.name != "posix":
        yield
        return
    # Where this starts, it lifts the block, and what starts after it would hear Ctrl-C.
    resource_tracker.ensure_running()
    heard = []
    # A new process keeps what the thread that starts it blocks. Another thread does not block it: the handler notes it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda *_: heard.append(signal.SIGINT)) if main else None
    try:
        yield
    finally:
        # What waits is noted as soon as the block is lifted.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main:
            signal.signal(signal.SIGINT, handler)
    if heard:
        signal.raise_signal(signal.SIGINT)


def begin(parent: int) -> None:
    """Be a process that was started where it is sheltered: end with the parent, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    follow(parent)
