"""Engines give the same results in the same order, bounded in threads, and outlive the workers that are killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections import Counter
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from biaslab.ground.errors import InputError, ParameterError, RunError
from biaslab.keep import engine, kernels
from biaslab.keep.engine import LocalEngine, RayEngine

pytestmark = pytest.mark.long

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra 'ray'")


def facts(x):
    """Return what a worker is like, with the square of a number."""
    engine.advance(x)
    # Of each library, as one number where they are alike.
    threads = {os.environ.get(name) for name in engine.THREADS}
    return x * x, os.getpid(), threads.pop() if len(threads) == 1 else threads


class Counts:
    """A function that keeps something, as a model is kept."""

    calls = 0

    def __call__(self, x):
        self.calls += 1
        return self.calls


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


def gives_a_lambda(x):
    return lambda: x


def dies(folder, x):
    """End this process the first time that it comes to 2, and each time that it comes to 5."""
    met = Path(folder) / f"met-{x}"
    if x == 5 or (x == 2 and not met.exists()):
        with met.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return x * x


def sleeps(folder, x):
    (Path(folder) / f"pid-{os.getpid()}").write_text("")
    time.sleep(0.05 if x == 0 else 60)
    return x


def alive(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        # One that was killed and not yet asked for by its parent is dead all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def pids(folder):
    return [int(p.name.removeprefix("pid-")) for p in folder.glob("pid-*")]


def gone(processes, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(alive, processes)):
        time.sleep(0.05)
    return not any(map(alive, processes))


# -- this machine ----------------------------------------------------------------------------------------


def test_in_this_process_each_item_when_it_is_asked_for():
    seen, heard = [], []
    results = engine.get().map(lambda x: seen.append(x) or engine.advance(x) or x * x, [3, 1, 2])
    assert seen == []
    assert list(results) == [9, 1, 4]
    assert list(LocalEngine().map(facts, [3, 1], advanced=heard.append)) == [facts(3), facts(1)]
    assert heard == [3, 1]
    # Nobody listens any more.
    engine.advance(1)
    assert heard == [3, 1]
    # One item is not worth a process.
    assert [pid for _, pid, _ in LocalEngine(2).map(facts, [3])] == [os.getpid()]
    assert list(LocalEngine(2).map(facts, [])) == []


def test_worker_processes_give_the_same_in_order(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    heard = []
    results = list(LocalEngine(2).map(facts, iter(range(9)), advanced=heard.append))
    assert [square for square, _, _ in results] == [x * x for x in range(9)]
    assert len({pid for _, pid, _ in results} - {os.getpid()}) == 2
    # Six threads, shared by two; this process keeps its own.
    assert {threads for _, _, threads in results} == {"3"}
    assert os.environ["OMP_NUM_THREADS"] == "6"
    assert sorted(heard) == list(range(9))


def limits(_):
    import torch

    return [os.environ.get(name) for name in engine.THREADS], torch.get_num_threads()


def test_one_thread_is_one_in_every_library_and_wherever_work_runs(monkeypatch):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    for name in engine.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    given = kernels.environment()
    assert [given[name] for name in engine.THREADS] == ["1"] * 6
    # Of each notebook side by side, too; where nobody says it, the processors are shared out.
    assert [kernels.environment(3)[name] for name in engine.THREADS] == ["1"] * 6
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [kernels.environment(3)[name] for name in engine.THREADS] == ["2"] * 6
    # What the user says of one library stays.
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    assert kernels.environment(3)["MKL_NUM_THREADS"] == "4"
    # Workers of a notebook that has these.
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert list(LocalEngine(1).map(limits, range(2))) == [(["1"] * 6, 1)] * 2


@needs_ray
@pytest.mark.parametrize(("given", "expected"), [("99", 4), ("2,1", 2)])
def test_ray_workers_have_no_more_threads_than_the_process_that_asks(monkeypatch, given, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    # Eight processors elsewhere, for two workers.
    assert RayEngine(2, "ray://elsewhere")._plan({"CPU": 8}, False)["threads"] == expected


def test_errors_of_the_function_arrive():
    results = LocalEngine(2).map(fails, range(1, 7))
    got = []
    with pytest.raises(InputError, match="three is no number"):
        got += results
    assert got in ([], [1], [1, 2])
    one = LocalEngine(1)
    with pytest.raises(ZeroDivisionError) as error:
        list(one.map(fails, [1, 0]))
    assert "in fails" in error.value.__notes__[0]
    with pytest.raises(RunError, match="OddError: this and that"):
        list(one.map(fails, [9, 1]))


def test_what_cannot_travel_is_named():
    with pytest.raises(ParameterError, match=r"cannot be given .*lock.*Use a function whose arguments"):
        list(LocalEngine(2).map(partial(print, threading.Lock()), [1, 2]))
    with pytest.raises(RunError, match="result of a worker cannot be pickled"):
        list(LocalEngine(1).map(gives_a_lambda, [1, 2]))


def test_a_killed_worker_is_replaced_until_an_item_has_killed_several(tmp_path):
    assert list(LocalEngine(2).map(partial(dies, tmp_path), [1, 2, 3, 4])) == [1, 4, 9, 16]
    assert (tmp_path / "met-2").read_text() == "x"
    with pytest.raises(RunError, match=r"ended 4 times .*exit code -9.*Use fewer workers"):
        list(LocalEngine(1).map(partial(dies, tmp_path), [1, 5]))
    assert (tmp_path / "met-5").read_text() == "xxxx"


def test_workers_stay_for_the_next_function_and_keep_no_other(tmp_path):
    kept = LocalEngine(2)
    first = {pid for _, pid, _ in kept.map(facts, range(6))}
    assert list(kept.map(Counts(), "a" * 9)).count(1) == 2
    assert {pid for _, pid, _ in kept.map(facts, range(6))} == first
    # One that was killed between is not given anything.
    os.kill(min(first), signal.SIGKILL)
    assert gone({min(first)})
    assert [square for square, _, _ in kept.map(facts, range(3))] == [0, 1, 4]
    last = {pid for _, pid, _ in kept.map(facts, range(6))}
    assert max(first) in last and len(last) == 2
    del kept
    assert gone(last)


def test_each_worker_has_a_gpu_in_turn(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    three = LocalEngine(3)
    found = list(three.map(partial(device, tmp_path / "gpu", 3), range(12), gpu=True))
    assert Counter(dict(found).values()) == {"4": 2, "7": 1}
    # Work that uses none goes to them, too; else it sees what this process sees.
    again = three.map(partial(device, tmp_path / "none", 3), range(12))
    assert {pid for pid, _ in again} == {pid for pid, _ in found}
    others = LocalEngine(1).map(partial(device, tmp_path / "other", 1), range(2))
    assert {seen for _, seen in others} == {"4,7"}


def test_workers_end_when_nobody_asks_any_more(tmp_path):
    results = LocalEngine(2).map(partial(sleeps, tmp_path), range(4))
    assert next(results) == 0
    while len(pids(tmp_path)) < 2:
        time.sleep(0.02)
    results.close()
    assert gone(pids(tmp_path))


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    script = """
import sys
import threading
sys.path[:0] = sys.argv[1:2]
if __name__ == "__main__":
    from functools import partial
    from test_engine import LocalEngine, sleeps
    list(LocalEngine(2).map(partial(sleeps, sys.argv[2]), range(1, 4)))
"""
    (tmp_path / "main.py").write_text(script)
    process = subprocess.Popen([sys.executable, str(tmp_path / "main.py"), str(Path(__file__).parent), str(tmp_path)])
    while len(pids(tmp_path)) < 2:
        time.sleep(0.05)
        assert process.poll() is None
    process.kill()
    process.wait()
    assert gone(pids(tmp_path))


# -- Ray -------------------------------------------------------------------------------------------------


# A cluster of this machine with two processors and, in name only, a GPU; it ends with its standard input.
CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
from biaslab.keep.engine import STARTS

more = {"num_cpus": 2, "num_gpus": 1, "include_dashboard": False, "logging_level": "error"}
for _ in range(STARTS):
    try:
        made = ray.init(address="local", **more)
        break
    except Exception as error:
        print(error, file=sys.stderr)
print(made.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster, join it by its address, and return the library."""
    # As Ray does by itself for the clusters that it starts; read when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    ray = pytest.importorskip("ray", reason="needs the extra 'ray'")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Workers must find the functions of these tests.
    where = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", CLUSTER], text=True, env=where, **pipes) as process:
        address = process.stdout.readline().strip()
        assert list(RayEngine(1, address).map(str, [1])) == ["1"]
        yield ray
        ray.shutdown()
        process.stdin.close()


def device(folder, workers, x):
    """Return the process and the GPUs that it sees, once so many workers have begun: one may start seconds later."""
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    late = time.monotonic() + 200
    while len(list(folder.iterdir())) < workers:
        assert time.monotonic() < late, "One worker does all the work."
        time.sleep(0.05)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")


def test_ray_workers_give_the_same_in_order(cluster, tmp_path):
    # Actors take seconds to start, and stay with their engine until something fails.
    heard, one, two = [], RayEngine(1), RayEngine(2)
    results = list(two.map(facts, iter(range(9)), advanced=heard.append))
    assert [square for square, _, _ in results] == [x * x for x in range(9)]
    assert os.getpid() not in {pid for _, pid, _ in results}
    assert {threads for _, _, threads in results} == {"1"}
    # An item's advances arrive together, so the zero of the first is not told.
    assert sorted(heard) == list(range(1, 9))
    # A killed actor is started again and its item done again.
    assert list(two.map(partial(dies, tmp_path), [1, 2, 3, 4])) == [1, 4, 9, 16]
    assert (tmp_path / "met-2").read_text() == "x"
    # Errors of the function arrive as they are.
    with pytest.raises(InputError, match="three is no number"):
        list(two.map(fails, range(1, 7)))
    assert list(one.map(Counts(), "abc")) == [1, 2, 3]
    with pytest.raises(RunError, match="OddError: this and that"):
        list(one.map(fails, [9]))


def test_ray_workers_share_a_gpu_that_the_work_uses(cluster, tmp_path):
    both, one = (partial(device, tmp_path / str(n), n) for n in (2, 1))
    # One GPU and two workers: half of it each; without the wish for one, workers see none.
    found = list(RayEngine(2).map(both, range(8), gpu=True))
    assert {seen for _, seen in found} == {"0"}
    assert len({pid for pid, _ in found}) == 2
    assert {seen for _, seen in RayEngine(1).map(one, range(2))} == {""}
    # Left to itself, the engine takes one worker for the GPU.
    assert len({pid for pid, _ in RayEngine().map(one, range(3), gpu=True)}) == 1


def test_a_cluster_that_cannot_give_the_workers_says_so(cluster, monkeypatch):
    with pytest.raises(RunError, match=r"2 processors and 1 GPUs, and each of 5 workers .* to 4 or less"):
        list(RayEngine(5).map(facts, [1]))
    # Somebody else holds every processor.
    held = cluster.remote(num_cpus=2)(Counts).remote()
    cluster.get(held.__call__.remote(1))
    monkeypatch.setattr(engine, "PATIENCE", 1.0)
    with pytest.raises(RunError, match=r"gave no worker within 1 seconds: of its 2 .*, 0 processors"):
        list(RayEngine(1).map(facts, [1]))
    # It lets go of them while the engine waits.
    monkeypatch.setattr(engine, "PATIENCE", 60.0)
    cluster.kill(held)
    assert [square for square, _, _ in RayEngine(1).map(facts, [2])] == [4]


# What a cluster of its own opens, and whether somebody with another token can join it.
ALONE = """
import contextlib, json, os, subprocess, sys
import psutil
from biaslab.keep import engine

first = next(engine.get("ray", workers=1).map(str, [7]))
import ray

opened = []
for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
    # Some end by themselves.
    with contextlib.suppress(psutil.NoSuchProcess):
        opened += [c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
address = ray.get_runtime_context().gcs_address
joins = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); print('joined')"
how = {"env": os.environ | {"RAY_AUTH_TOKEN": "0" * 64}, "capture_output": True, "text": True, "timeout": 120}
stranger = subprocess.run([sys.executable, "-c", joins, address], **how)
print(json.dumps([first, opened, stranger.stdout.strip(), stranger.stderr, sorted(os.listdir(os.environ["HOME"]))]))
"""


@needs_ray
def test_a_cluster_of_its_own_listens_on_this_machine_alone_and_asks_for_its_token(tmp_path):
    where = os.environ | {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    # Whoever runs the tests may have a cluster of another kind.
    for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):
        where.pop(name, None)
    how = {"capture_output": True, "text": True, "timeout": 400}
    done = subprocess.run([sys.executable, "-c", ALONE], env=where | {"RAY_AUTH_MODE": "disabled"}, **how)
    assert done.returncode == 0, done.stderr
    first, opened, joined, refused, home = json.loads(done.stdout.splitlines()[-1])
    # The store of the cluster, its nodes' manager, and the processes of workers.
    assert first == "7" and len(opened) >= 3
    assert {address.removeprefix("::ffff:") for address in opened} == {"127.0.0.1"}
    assert joined == "" and "token" in refused.lower()
    # Others on the machine may read a home folder.
    assert ".ray" not in home


@pytest.fixture
def started(monkeypatch):
    """Put a library in the place of Ray that can start a cluster at the third try; return what it was asked for."""
    called = []

    def init(**how):
        called.append(("init", how["_node_ip_address"], how["include_dashboard"]))
        if len(called) < 4:
            raise ConnectionError("not in time")

    ray = types.ModuleType("ray")
    ray.__spec__ = ModuleSpec("ray", None)
    ray.init, ray.is_initialized = init, lambda: False
    ray.shutdown = lambda: called.append("shutdown")
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(os, "environ", {**os.environ, "RAY_ADDRESS": ""})
    return called


def test_what_started_of_a_cluster_ends_before_the_next_try(started):
    assert RayEngine()._joined() is sys.modules["ray"]
    starts = ("init", "127.0.0.1", False)
    assert started == [starts, "shutdown", starts, "shutdown", starts]
    assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) == 64


def test_an_address_where_no_cluster_is(started):
    with pytest.raises(RunError, match=r"cluster at '127\.0\.0\.1:1' cannot be joined: .*ray start --head"):
        list(engine.get("ray", address="127.0.0.1:1").map(str, [1]))
    assert started == ["shutdown"]


def test_ray_that_is_not_installed_and_an_address_of_no_cluster_are_named(monkeypatch):
    with pytest.raises(ParameterError, match=r"compute.address is 'x:1' and compute.engine is 'local'"):
        engine.get("local", address="x:1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"run `pip install 'biaslab\[ray\]'`"):
        engine.get("ray")
