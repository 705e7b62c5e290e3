"""Shards of a run wait for each other."""

import pytest

from biaslab.runs import execute, jobs, params, shards


def test_compute_waits_until_nothing_is_left(monkeypatch):
    answers = iter([["a", "b"], ["a", "b"], ["b"], []])
    monkeypatch.setattr(jobs, "plan", lambda params: [])
    monkeypatch.setattr(jobs, "pipelines", lambda *_, **__: [jobs.OpenPipeline(None, {"one"}, {"two"})])
    monkeypatch.setattr(shards, "compute_pipeline", lambda *_, **__: next(answers))
    slept, reports = [], []
    monkeypatch.setattr(shards.time, "sleep", slept.append)
    assert shards.compute(None, (0, 2), wait=True, waiting=reports.append) == []
    assert reports == [["a", "b"], ["b"]]
    # Longer each time that nothing has changed.
    assert slept == [1.0, 2.0, 1.0]
    answers = iter([["a"]])
    assert shards.compute(None, (0, 2)) == ["a"] and len(slept) == 3


@pytest.mark.parametrize(
    ("source", "compute", "accelerator", "at_a_time"),
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
def test_count_parallel_is_one_with_workers_or_gpu(monkeypatch, source, compute, accelerator, at_a_time):
    """The GPU is simulated."""
    monkeypatch.setattr("biaslab.execution.processor.accelerator", lambda: accelerator)
    values = {"source": source, "settings": {"compute": compute}}
    assert execute.count_parallel(params.RunParams(run="mine", values=values)) == at_a_time
    assert execute.count_parallel(params.RunParams(run="mine", jobs=2, values=values)) == 2
