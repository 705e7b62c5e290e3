"""A Dask cluster on the loopback address, as started by hand: a scheduler and single-threaded workers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


class Cluster:
    """A scheduler with its file, and the processes of its workers, which are not restarted."""

    def __init__(self, folder, workers):
        self.file, self._log = folder / "scheduler.json", folder / "log"
        self._processes = []
        self._start("scheduler", "--port", "0", "--scheduler-file", str(self.file))
        while not self.file.exists():
            assert self._processes[0].poll() is None, self._log.read_text()
            time.sleep(0.05)
        worker = ["--scheduler-file", str(self.file), "--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        for _ in range(workers):
            self._start("worker", *worker)

    def _start(self, command, *words):
        # Workers must find the functions of tests; one thread each, as the processes of tests have.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        }
        with self._log.open("ab") as log:
            words = [sys.executable, "-m", "dask", command, *LOOPBACK, *words]
            self._processes.append(
                subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
            )

    def end(self):
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def cluster(folder, workers=2):
    """Start a cluster with a number of workers, and end it afterwards."""
    folder.mkdir(exist_ok=True)
    new_cluster = Cluster(folder, workers)
    try:
        yield new_cluster
    finally:
        new_cluster.end()
