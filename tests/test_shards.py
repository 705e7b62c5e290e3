"""Shares of a run wait for one another."""

import pytest

from biaslab.judging import loaded
from biaslab.runs import execute, jobs, params, shards


def test_a_share_waits_until_nothing_is_left_and_says_what_has_changed(monkeypatch):
    answers = iter([["a", "b"], ["a", "b"], ["b"], []])
    monkeypatch.setattr(jobs, "plan", lambda params: [])
    monkeypatch.setattr(jobs, "pipelines", lambda *_, **__: [jobs.Opened(None, {"one"}, {"two"})])
    monkeypatch.setattr(shards, "compute_of", lambda *_: next(answers))
    slept, told = [], []
    monkeypatch.setattr(shards.time, "sleep", slept.append)
    assert shards.compute(None, (0, 2), wait=True, waiting=told.append) == []
    assert told == [["a", "b"], ["b"]]
    # Longer each time that nothing has changed.
    assert slept == [1.0, 2.0, 1.0]
    answers = iter([["a"]])
    assert shards.compute(None, (0, 2)) == ["a"] and len(slept) == 3


@pytest.mark.parametrize(
    ("compute", "jobs", "at_a_time"),
    [({}, 0, 0), ({"workers": 2}, 0, 1), ({"engine": "ray"}, 0, 1), ({"engine": "ray"}, 3, 3)],
)
def test_notebooks_run_one_at_a_time_where_work_runs_in_workers(compute, jobs, at_a_time):
    run = params.RunParams(run="mine", jobs=jobs, values={"settings": {"compute": compute}})
    assert execute.at_a_time(run) == at_a_time
    assert execute.at_a_time(params.RunParams(run="mine", jobs=jobs)) == jobs


@pytest.mark.parametrize(
    ("source", "device", "here", "at_a_time"),
    [
        ("mini", "auto", "cuda", 1),
        ("mini", "auto", "mps", 1),
        ("mini", "auto", "cpu", 0),
        ("mini", "cpu", "cuda", 0),
        ("mini", "cuda:1", "cpu", 1),
        ("published", "auto", "cuda", 0),
    ],
)
def test_a_gpu_has_room_for_one_notebook(monkeypatch, source, device, here, at_a_time):
    """No GPU is here: that there is one is made up."""
    monkeypatch.setattr("biaslab.ground.processor.accelerator", lambda: here)
    values = {"source": source, "settings": {"compute": {"device": device}}}
    assert execute.at_a_time(params.RunParams(run="mine", values=values)) == at_a_time
    assert execute.at_a_time(params.RunParams(run="mine", jobs=2, values=values)) == 2


@pytest.mark.parametrize(
    ("system", "found", "device"),
    [("Windows", "cuda", "cuda"), ("Darwin", "cuda mps", "cuda"), ("Darwin", "mps", "mps"), ("Darwin", "", "cpu")],
)
def test_what_torch_finds_decides_where_judges_run_and_how_many_notebooks(monkeypatch, system, found, device):
    """Torch is asked itself on all systems but Linux, which tells by its files whether there may be a GPU."""
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: system)
    for name, backend in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        monkeypatch.setattr(backend, "is_available", lambda name=name: name in found)
    assert loaded.device("auto") == torch.device(device)
    assert execute.at_a_time(params.RunParams(run="mine", values={"source": "mini"})) == int(device != "cpu")
