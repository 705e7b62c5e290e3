"""Workers give the same results in the same order, bounded in threads, and tasks outlive workers that are killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import dask_cluster
import pytest
from dask_cluster import cluster

from biaslab.errors import InputError, ParameterError, RunError
from biaslab.execution import kernels
from biaslab.execution.workers import THREADS, Memoized, Workers, _connect, start_scheduler
from biaslab.settings import ComputeSettings, Settings

needs_dask = pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="needs the extra 'dask'")
TWO = Workers(count=2)


@pytest.fixture(autouse=True)
def no_workers_left():
    """End the worker processes that joblib keeps for the next test."""
    yield
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(kill_workers=True)


def facts(x):
    """Return the square of a number, the process, and the threads of each library, as one number where they agree."""
    time.sleep(0.02)
    limits = {os.environ.get(name) for name in THREADS}
    return x * x, os.getpid(), limits.pop() if len(limits) == 1 else limits


class OddError(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fails(x):
    if x == 3:
        raise InputError("three is no number")
    if x == 9:
        raise OddError("this", "that")
    return x if x else 1 / x


def dies(folder, x):
    """End this process at the first 2 and at each 5; results are saved."""
    met, result_file = Path(folder) / f"met-{x}", Path(folder) / f"kept-{x}"
    if result_file.exists():
        return x * x
    with met.open("a") as file:
        file.write("x")
    if x == 5 or (x == 2 and met.read_text() == "x"):
        os.kill(os.getpid(), signal.SIGKILL)
    result_file.touch()
    return x * x


def sleeps(folder, x):
    (Path(folder) / f"pid-{os.getpid()}").write_text("")
    time.sleep(0.05 if x == 0 else 60)
    return x


class Loads:
    """Work with a model, whose loads leave a file each; it counts what it has done with its model."""

    def __init__(self, folder):
        self.folder = folder
        self.model = Memoized(self.load)

    def load(self):
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        return []

    def __call__(self, x):
        # Until both workers have loaded it: one could do all the work before the other has started.
        model, deadline = self.model(), time.monotonic() + 200
        while len(list(self.folder.iterdir())) < 2:
            assert time.monotonic() < deadline, "One worker does all the work."
            time.sleep(0.02)
        model.append(x)
        return len(model)


def device(folder, workers, x):
    """Return the process and the GPUs that it sees, once so many workers have begun: one may start seconds later."""
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    deadline = time.monotonic() + 200
    while len(list(folder.iterdir())) < workers:
        assert time.monotonic() < deadline, "One worker does all the work."
        time.sleep(0.05)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")


def alive(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        # A zombie counts as dead.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def pids(folder):
    return [int(p.name.removeprefix("pid-")) for p in folder.glob("pid-*")]


def all_ended(processes, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(alive, processes)):
        time.sleep(0.05)
    return not any(map(alive, processes))


# -- this machine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [Workers(), Workers(count=1)])
def test_run_without_workers_is_lazy_in_process(workers):
    seen = []
    results = workers.run(lambda x: seen.append(x) or x * x, [3, 1, 2])
    assert seen == []
    assert next(results) == 9 and seen == [3]
    assert list(results) == [1, 4]
    # A single task is not worth a process.
    assert [pid for _, pid, _ in TWO.run(facts, [3])] == [os.getpid()]
    assert list(TWO.run(facts, [])) == []


def test_workers_give_same_results_in_order(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    results = list(TWO.run(facts, iter(range(9))))
    assert [square for square, _, _ in results] == [x * x for x in range(9)]
    assert os.getpid() not in {pid for _, pid, _ in results}
    # Six threads, shared by two; this process keeps its own.
    assert {threads for _, _, threads in results} == {"3"}
    assert os.environ["OMP_NUM_THREADS"] == "6"


def limits(_):
    import torch

    return [os.environ.get(name) for name in THREADS], torch.get_num_threads()


@pytest.mark.long
def test_one_thread_setting_applies_everywhere(monkeypatch):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    given = kernels.environment()
    assert [given[name] for name in THREADS] == ["1"] * 6
    # Also for each of several notebooks; without the variable, processors are divided among them.
    assert [kernels.environment(3)[name] for name in THREADS] == ["1"] * 6
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [kernels.environment(3)[name] for name in THREADS] == ["2"] * 6
    # The user's setting of one library is kept.
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert kernels.environment(3)["MKL_NUM_THREADS"] == "4"
    # Workers of a notebook that has these.
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert list(TWO.run(limits, range(2))) == [(["1"] * 6, 1)] * 2


def test_worker_errors_keep_type_and_place():
    with pytest.raises(InputError, match="three is no number") as error:
        list(TWO.run(fails, range(1, 7)))
    assert "in fails" in error.value.__notes__[0]
    # Errors of libraries may not be picklable: their texts arrive.
    with pytest.raises(RunError, match=r"(?s)A worker failed:.*in fails.*ZeroDivisionError"):
        list(TWO.run(fails, [1, 0]))
    with pytest.raises(RunError, match="OddError: this and that"):
        list(TWO.run(fails, [9, 1]))


def test_unpicklable_function_is_refused():
    with pytest.raises(ParameterError, match=r"lock.* cannot be sent to workers: .*Use a function whose arguments"):
        list(TWO.run(partial(print, threading.Lock()), [1, 2]))


def test_killed_worker_task_is_repeated(tmp_path):
    assert list(TWO.run(partial(dies, tmp_path), [1, 2, 3, 4])) == [1, 4, 9, 16]
    assert (tmp_path / "met-2").read_text() == "xx"


@pytest.mark.long
def test_task_that_kills_four_workers_fails(tmp_path):
    with pytest.raises(RunError, match=r"killed 4 times .*memory ran out.*cached\. Use fewer workers"):
        list(TWO.run(partial(dies, tmp_path), [5, 6]))
    assert (tmp_path / "met-5").read_text() == "xxxx"


def test_workers_load_once_and_are_reused(tmp_path):
    # Bytes that differ make a function another one.
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        assert sorted(TWO.run(Loads(tmp_path / name), range(12)))[:2] == [1, 1]
    one, other = ({path.name.split("-")[0] for path in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert len(one) == 2 and one == other
    assert [len(list((tmp_path / name).iterdir())) for name in ("one", "other")] == [2, 2]
    # One that was killed in between is replaced.
    os.kill(int(min(one)), signal.SIGKILL)
    assert all_ended([int(min(one))])
    assert [square for square, _, _ in TWO.run(facts, range(3))] == [0, 1, 4]


class Heavy(Loads):
    """Work with a model of 350 MB."""

    def load(self):
        super().load()
        self.weights = b"x" * 350_000_000
        return []

    def __call__(self, x):
        time.sleep(0.6)
        super().__call__(x)
        return os.getpid()


@pytest.mark.long
def test_worker_with_large_model_is_not_replaced(tmp_path):
    # joblib would take it for one that leaks memory.
    first = {pid for pid, _ in TWO.run(partial(device, tmp_path / "first", 2), range(6))}
    (tmp_path / "heavy").mkdir()
    assert set(TWO.run(Heavy(tmp_path / "heavy"), range(10))) == first
    assert len(list((tmp_path / "heavy").iterdir())) == 2


def test_workers_take_gpus_in_turn(monkeypatch, tmp_path):
    # Places are held by locks in the folder of temporary files.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    three = Workers(count=3)
    result = dict(three.run(partial(device, tmp_path / "gpu", 3), range(12), gpu=True))
    assert Counter(result.values()) == {"4": 2, "7": 1}
    # They keep them for work that uses none.
    assert dict(three.run(partial(device, tmp_path / "none", 3), range(12))) == result


def test_workers_without_gpu_work_see_all_gpus(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert {seen for _, seen in TWO.run(partial(device, tmp_path / "none", 2), range(4))} == {"4,7"}


def test_workers_end_with_closed_results(tmp_path):
    results = TWO.run(partial(sleeps, tmp_path), range(4))
    assert next(results) == 0
    while len(pids(tmp_path)) < 2:
        time.sleep(0.02)
    results.close()
    assert all_ended(pids(tmp_path))


@pytest.mark.parametrize("said", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.long
def test_workers_end_with_killed_parent(tmp_path, said):
    script = """
import sys
sys.path[:0] = sys.argv[2:]
from functools import partial
from test_workers import TWO, sleeps
list(TWO.run(partial(sleeps, sys.argv[1]), range(1, 4)))
"""
    modules = (__file__, dask_cluster.__file__)
    words = [sys.executable, "-c", script, str(tmp_path), *(str(Path(module).parent) for module in modules)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(pids(tmp_path)) < 2:
        time.sleep(0.05)
        assert process.poll() is None
    if said == signal.SIGKILL:
        process.kill()
    else:
        # As a terminal does: to all processes of the group.
        os.killpg(process.pid, said)
    _, err = process.communicate(timeout=60)
    assert all_ended(pids(tmp_path))
    # Ctrl-C raises KeyboardInterrupt in the parent only.
    assert err.count("KeyboardInterrupt\n") == (said == signal.SIGINT)


# -- a cluster -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"address": "x:1"}, r"compute.address is 'x:1', but compute.engine is 'local'. Set compute.engine to 'dask'"),
        (
            {"engine": "dask"},
            r"compute.address is ''. Set compute.address to the address of a scheduler, .* or one of .*slurm",
        ),
        (
            {"engine": "dask", "address": "slurm"},
            r"'slurm', but compute.workers is 0. Set compute.workers to the number of workers",
        ),
    ],
)
def test_inconsistent_compute_settings_are_refused(given, match):
    compute = ComputeSettings(**given)
    with pytest.raises(ParameterError, match=match):
        Workers(compute.engine, compute.workers, compute.address)


def test_removed_engine_names_known_engines():
    with pytest.raises(ParameterError, match=r"compute.engine is 'ray'\. Known: dask, local\."):
        Settings.from_mapping({"compute": {"engine": "ray"}})


def test_missing_dask_is_named(monkeypatch):
    monkeypatch.setattr("biaslab.execution.workers.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"Run `pip install 'biaslab\[dask\]'`"):
        Workers("dask", address="x:1")


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as running_cluster:
        yield Workers("dask", address=str(running_cluster.file))


@needs_dask
@pytest.mark.long
def test_cluster_workers_give_same_results_in_order(dask, tmp_path, monkeypatch):
    results = list(dask.run(facts, iter(range(20))))
    assert [square for square, _, _ in results] == [x * x for x in range(20)]
    assert os.getpid() not in {pid for _, pid, _ in results}
    # Workers of one thread each; a single task goes there, too: it may need what only they have.
    assert {threads for _, _, threads in results} == {"1"}
    assert [pid == os.getpid() for _, pid, _ in dask.run(facts, [3])] == [False]
    with pytest.raises(InputError, match="three is no number") as error:
        list(dask.run(fails, range(1, 7)))
    assert "in fails" in error.value.__notes__[0]
    with pytest.raises(RunError, match="OddError: this and that"):
        list(dask.run(fails, [9, 1]))
    (tmp_path / "model").mkdir()
    assert sorted(dask.run(Loads(tmp_path / "model"), range(12)))[:2] == [1, 1]
    assert len(list((tmp_path / "model").iterdir())) == 2


@needs_dask
@pytest.mark.long
def test_killed_cluster_worker_task_is_repeated(tmp_path):
    with cluster(tmp_path / "cluster") as running_cluster:
        workers = Workers("dask", address=str(running_cluster.file))
        assert list(workers.run(partial(dies, tmp_path), [1, 2, 3, 4])) == [1, 4, 9, 16]
    assert (tmp_path / "met-2").read_text() == "xx"


@needs_dask
@pytest.mark.long
def test_cluster_workers_take_gpus_in_turn(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with cluster(tmp_path / "cluster") as running_cluster:
        workers = Workers("dask", address=str(running_cluster.file))
        result = dict(workers.run(partial(device, tmp_path / "gpu", 2), range(8), gpu=True))
    assert sorted(result.values()) == ["4", "7"]


@needs_dask
@pytest.mark.long
def test_missing_or_ended_cluster_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("biaslab.execution.workers.PATIENCE", 1.0)
    with pytest.raises(RunError, match=r"'127\.0\.0\.1:1' cannot be used: .*dask scheduler"):
        list(Workers("dask", address="127.0.0.1:1").run(str, [1]))
    with cluster(tmp_path / "empty", workers=0) as empty, pytest.raises(RunError, match=r"cannot be used: .*1 workers"):
        list(Workers("dask", address=str(empty.file)).run(str, [1]))
    monkeypatch.setattr("biaslab.execution.workers.PATIENCE", 60.0)
    with cluster(tmp_path / "ends") as running_cluster:
        results = Workers("dask", address=str(running_cluster.file)).run(facts, range(10_000))
        assert next(results)[0] == 0
        running_cluster.end()
        with pytest.raises(RunError, match=r"scheduler of the Dask cluster .*scheduler\.json' has stopped"):
            list(results)


@needs_dask
@pytest.mark.long
def test_slurm_workers_are_shared_by_processes_of_run(monkeypatch):
    """Local processes replace the jobs of a batch system."""
    import dask_jobqueue
    from distributed import LocalCluster

    local = partial(LocalCluster, n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    monkeypatch.setattr(dask_jobqueue, "SLURMCluster", local)
    slurm = Workers("dask", 2, "slurm")
    given = start_scheduler(slurm)
    try:
        seen = {pid for _, pid, _ in slurm.run(facts, range(20))}
        assert len(seen) == 2 and os.getpid() not in seen
        script = """
from biaslab.execution.workers import Workers
print(list(Workers("dask", 2, "slurm").run(abs, [-1, -2])))
"""
        completed = subprocess.run(
            [sys.executable, "-c", script], env=os.environ | given, capture_output=True, text=True
        )
        assert completed.stdout == "[1, 2]\n", completed.stderr
    finally:
        client = _connect(slurm.address, slurm.count)
        _connect.cache_clear()
        client.close()
        client.cluster.close()
    assert start_scheduler(Workers()) == start_scheduler(Workers("dask", address="x:1")) == {}
