"""Ctrl-C while processes start."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from biaslab.ground import lifeline

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are tried on POSIX only")


@pytest.fixture
def beside():
    """Another thread, which the system may give a signal to that the main thread blocks."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


def test_ctrl_c_in_the_shelter_is_heard_afterwards(beside):
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    reached = []
    with pytest.raises(KeyboardInterrupt):
        with lifeline.sheltered():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end")
        # The other thread may get it a moment later.
        time.sleep(30)
    assert reached == ["the end"]
    assert (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())) == before


def test_what_starts_in_the_shelter_does_not_hear_ctrl_c():
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    with lifeline.sheltered():
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.communicate()[0] == "True\n"
