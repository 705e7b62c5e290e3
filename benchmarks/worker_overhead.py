"""Time the overhead of workers: the start of two, and the overhead per task, compared with a loop in this process.

Run: ``python benchmarks/worker_overhead.py``; takes a minute. Workers of this machine (loky) and of a local Dask
cluster run the same tasks, which only sleep for ``--seconds`` each, so that other work on the processors has little
effect. ``workers.py`` measures images and judgements.
"""

import argparse
import os
import time
from functools import partial
from importlib.util import find_spec

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1"}

from biaslab.execution.workers import LOCAL, Workers


def work(seconds: float, k: int) -> int:
    """Sleep, and return the square of a number."""
    time.sleep(seconds)
    return k * k


def measure(name: str, workers: Workers, n: int, seconds: float, at_once: int) -> None:
    """Print the seconds until two tasks are done, and the overhead in milliseconds of each of ``n`` further tasks."""
    start, cpu = time.perf_counter(), time.process_time()
    list(workers.run(partial(work, 0), range(2)))
    started = time.perf_counter() - start
    start, cpu = time.perf_counter(), time.process_time()
    assert list(workers.run(partial(work, seconds), range(n))) == [k * k for k in range(n)]
    seconds_taken, cpu = time.perf_counter() - start, time.process_time() - cpu
    overhead = 1e3 * (seconds_taken * at_once / n - seconds)
    print(
        f"{name:6} start {started:6.2f} s, overhead {overhead:6.2f} ms of a worker per task, {1e3 * cpu / n:5.2f} ms "
        "of this process",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.05, help="that a task takes")
    options = parser.parse_args()
    measure("none", LOCAL, options.tasks, options.seconds, 1)
    measure("loky", Workers(count=2), options.tasks, options.seconds, 2)
    if find_spec("distributed") is None:
        print("Dask is not installed")
        return
    from distributed import LocalCluster

    cluster_options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**cluster_options) as cluster:
        measure("Dask", Workers("dask", address=cluster.scheduler_address), options.tasks, options.seconds, 2)


if __name__ == "__main__":
    main()
