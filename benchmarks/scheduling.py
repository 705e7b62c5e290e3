"""How many workers one process can keep busy: the engine's loop and the store with a model of a set rate.

Run: ``python benchmarks/scheduling.py``; some minutes, most of it waiting. Pieces of 64 images go through
``biaslab.keep.store`` and the loop of ``biaslab.keep.engine.LocalEngine`` to 1, 8, 64 and 512 workers, each of which
sleeps for the time that the images would take and then writes a piece to the store. Workers are threads of this process
instead of processes with a GPU; so what they do beside sleeping (checks of code, lock, Parquet, checksum) is paid for
by this one process for all of them, which on a cluster each pays alone. Printed are the time above the ideal (as many
rounds as it takes, each as long as a piece), what of it is the loop's own (its processor time for a piece), and the
time that ``biaslab audit MODEL --plan gpus=N`` reckons for the same work.
"""

import argparse
import math
import os
import pickle
import sys
import tempfile
import threading
import time
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from unittest import mock

import pandas as pd

from biaslab.generation.images import SHARD
from biaslab.keep import engine
from biaslab.keep.store import Store
from biaslab.runs import scaling


class Thread:
    """What stands in for a worker process: a thread that calls a function on items."""

    def __init__(self, environment):
        self.environment, self.works, self.alive = environment, False, True
        self.pipe, theirs = Pipe()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()

    def _serve(self, pipe):
        function = pickle.loads(pipe.recv_bytes())
        while given := pipe.recv_bytes():
            pipe.send(("done", function(pickle.loads(given.removeprefix(engine._ITEM)))))

    def send(self, given):
        self.pipe.send_bytes(given)

    def end(self):
        self.alive = False
        self.send(b"")


def images(seconds: float, size: int, rows: pd.DataFrame) -> pd.DataFrame:
    """Take as long as a model of a set rate would, and return what a piece holds."""
    time.sleep(seconds)
    return rows.assign(file=[os.urandom(size)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--rounds", type=int, default=3, help="pieces of each worker")
    parser.add_argument(
        "--seconds", type=float, default=12.8, help="that a piece takes (64 images at 5 a second)"
    )
    parser.add_argument("--size", type=int, default=2_000_000, help="bytes of a piece")
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} processors; pieces of {SHARD} images, {options.seconds:g} s and {options.size:,} bytes"
    )
    with tempfile.TemporaryDirectory() as folder:
        taken = scaling.overhead(Path(folder), options.size)
    print(f"a piece: {taken.store * 1e3:.1f} ms to write, {taken.handing * 1e3:.2f} ms to hand out")
    print(
        "workers  pieces   took s  ideal s  reckoned s  efficiency  above ideal, ms/piece  of it the loop, ms/piece"
    )
    with mock.patch.object(engine, "_Process", Thread):
        for workers in options.workers:
            n = workers * options.rounds
            rows = pd.DataFrame({"piece": range(n)})
            loop = engine.LocalEngine(workers)
            with tempfile.TemporaryDirectory() as folder:
                store = Store(folder, engine=loop)
                stage = store.stage("simulated", {}, partial(images, options.seconds, options.size))
                began, own = time.perf_counter(), time.thread_time()
                # One piece is not handed to a worker.
                for _ in stage.compute_iter(rows, shard_rows=1, progress=False):
                    break
                took, own = time.perf_counter() - began, time.thread_time() - own
            ideal = options.rounds * options.seconds
            rounds = math.ceil(n / workers)
            reckoned = max(rounds * (options.seconds + taken.store), n * taken.store, n * taken.handing)
            above = 1e3 * (took - ideal) / n
            print(
                f"{workers:7,} {n:7,} {took:8.2f} {ideal:8.2f} {reckoned:11.2f} {ideal / took:11.1%} {above:22.2f}"
                f" {1e3 * own / n:25.2f}"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
