"""Shares of a run wait for one another."""

import pytest

from biaslab.ground.errors import ParameterError
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


def test_a_run_that_makes_nothing_is_refused(pytestconfig):
    loaded = params.load(pytestconfig.rootpath / "params" / "published.yaml", notebooks=["paradox/4_*"])
    with pytest.raises(ParameterError, match="make nothing that can be shared; set source to 'pipeline'"):
        shards.compute(loaded, (0, 2))


@pytest.mark.parametrize(
    ("compute", "jobs", "at_a_time"),
    [({}, 0, 0), ({"workers": 2}, 0, 1), ({"engine": "ray"}, 0, 1), ({"engine": "ray"}, 3, 3)],
)
def test_notebooks_run_one_at_a_time_where_work_runs_in_workers(compute, jobs, at_a_time):
    run = params.RunParams(run="mine", jobs=jobs, values={"settings": {"compute": compute}})
    assert execute.at_a_time(run) == at_a_time
    assert execute.at_a_time(params.RunParams(run="mine", jobs=jobs)) == jobs


@pytest.mark.parametrize(
    ("source", "device", "here", "jobs", "at_a_time"),
    [
        ("mini", "auto", "cuda", 0, 1),
        ("mini", "auto", "mps", 0, 1),
        ("mini", "auto", "cpu", 0, 0),
        ("mini", "cpu", "cuda", 0, 0),
        ("mini", "cuda:1", "cpu", 0, 1),
        ("mini", "auto", "cuda", 2, 2),
        ("published", "auto", "cuda", 0, 0),
    ],
)
def test_a_gpu_has_room_for_one_notebook(monkeypatch, source, device, here, jobs, at_a_time):
    """No GPU is here: that there is one is made up."""
    monkeypatch.setattr("biaslab.ground.processor.accelerator", lambda: here)
    values = {"source": source, "settings": {"compute": {"device": device}}}
    assert execute.at_a_time(params.RunParams(run="mine", jobs=jobs, values=values)) == at_a_time


@pytest.mark.parametrize(
    ("system", "cuda", "mps", "device", "at_a_time"),
    [
        ("Windows", True, False, "cuda", 1),
        ("Darwin", True, True, "cuda", 1),
        ("Darwin", False, True, "mps", 1),
        ("Darwin", False, False, "cpu", 0),
    ],
)
def test_what_torch_finds_decides_where_judges_run_and_how_many_notebooks(
    monkeypatch, system, cuda, mps, device, at_a_time
):
    """Torch is asked itself on all systems but Linux, which tells by its files whether there may be a GPU."""
    torch = pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert loaded.device("auto") == torch.device(device)
    assert execute.at_a_time(params.RunParams(run="mine", values={"source": "mini"})) == at_a_time
