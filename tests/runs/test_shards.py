"""Shares of a run wait for one another."""

import pytest

from biaslab.runs import execute, jobs, params, shards


def test_a_share_waits_until_nothing_is_left_and_says_what_has_changed(monkeypatch):
    answers = iter([["a", "b"], ["a", "b"], ["b"], []])
    monkeypatch.setattr(jobs, "plan", lambda params: [])
    monkeypatch.setattr(jobs, "pipelines", lambda *_, **__: [jobs.OpenPipeline(None, {"one"}, {"two"})])
    monkeypatch.setattr(shards, "compute_pipeline", lambda *_, **__: next(answers))
    slept, told = [], []
    monkeypatch.setattr(shards.time, "sleep", slept.append)
    assert shards.compute(None, (0, 2), wait=True, waiting=told.append) == []
    assert told == [["a", "b"], ["b"]]
    # Longer each time that nothing has changed.
    assert slept == [1.0, 2.0, 1.0]
    answers = iter([["a"]])
    assert shards.compute(None, (0, 2)) == ["a"] and len(slept) == 3


@pytest.mark.parametrize(
    ("source", "compute", "here", "at_a_time"),
    [
        ("published", {}, "cuda", 0),
        ("published", {"workers": 2}, "cpu", 1),
        ("published", {"engine": "dask"}, "cpu", 1),
        ("mini", {}, "cuda", 1),
        ("mini", {}, "cpu", 0),
        ("mini", {"device": "cpu"}, "cuda", 0),
        ("mini", {"device": "cuda:1"}, "cpu", 1),
    ],
)
def test_notebooks_run_one_at_a_time_in_workers_and_on_a_gpu(monkeypatch, source, compute, here, at_a_time):
    """No GPU is here: that there is one is made up."""
    monkeypatch.setattr("biaslab.execution.processor.accelerator", lambda: here)
    values = {"source": source, "settings": {"compute": compute}}
    assert execute.count_parallel(params.RunParams(run="mine", values=values)) == at_a_time
    assert execute.count_parallel(params.RunParams(run="mine", jobs=2, values=values)) == 2
