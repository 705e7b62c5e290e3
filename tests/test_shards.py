"""Shares of a run wait for one another."""

import pandas as pd
import pytest

from biaslab import params, runs, shards
from biaslab.errors import ParameterError
from biaslab.papers.synthesis import Calibration
from biaslab.pipeline import Pipeline, Settings


def test_a_share_waits_until_nothing_is_left_and_says_what_has_changed(monkeypatch):
    answers = iter([["a", "b"], ["a", "b"], ["b"], []])
    monkeypatch.setattr(runs, "pipelines", lambda *_, **__: [runs.Opened(None, {"one"}, [""])])
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
    with pytest.raises(ParameterError, match="make nothing that can be shared; set source to 'mini'"):
        shards.compute(loaded, (0, 2))


@pytest.mark.parametrize(
    ("compute", "jobs", "at_a_time"),
    [({}, 0, 0), ({"workers": 2}, 0, 1), ({"engine": "ray"}, 0, 1), ({"engine": "ray"}, 3, 3)],
)
def test_notebooks_run_one_at_a_time_where_work_runs_in_workers(compute, jobs, at_a_time):
    run = params.RunParams(run="mine", jobs=jobs, values={"settings": {"compute": compute}})
    assert runs._at_a_time(run) == at_a_time
    assert runs._at_a_time(params.RunParams(run="mine", jobs=jobs)) == jobs


def test_shares_of_calibration_make_all_that_its_notebook_takes(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    monkeypatch.setattr("biaslab.judging.judge._SHARD_ROWS", 10)
    given = {
        "captions": {
            "occupations": ["nurse", "chef"],
            "rows": 3000,
            "per_occupation": 6,
            "approaches": ["naive"],
        },
        "generation": {"images_per_prompt": 1},
        "calibration": {"world_images": 2, "test_renders": 16, "off_rows": 3000, "matched_captions": 4},
    }

    def model(store):
        return Pipeline(
            "world", Settings.of({**given, "compute": {"store": str(store)}}), seed=1, progress=False
        )

    def parts(pipeline):
        made = Calibration(pipeline)
        return made.renders, made.training, made.generated, made.truth, made.named()

    left = []
    while not left or left[-1]:
        left.append(shards.compute_of(model(tmp_path / "a"), [], (len(left) % 2, 2), True))
        assert len(left) < 12
    assert "left to the others" in left[0][0]
    whole = parts(model(tmp_path / "b"))
    monkeypatch.setattr("biaslab.store._write", lambda *_: pytest.fail("computed again"))
    for one, other in zip(parts(model(tmp_path / "a")), whole, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_run_says_whether_it_calibrates(root, tmp_path):
    mini = params.load(root / "params/mini.yaml", notebooks=["synthesis/*"])
    assert [one.calibrates for one in runs.pipelines(mini)] == [True]
    other = params.load(root / "params/mini.yaml", notebooks=["paradox/4_*"])
    assert [one.calibrates for one in runs.pipelines(other)] == [False]
    # Of captions whose truth is not known, neither a plan nor a share asks for any.
    (tmp_path / "mine.csv").write_text("text\na photo of a nurse\n")
    given = [f"captions.corpus={tmp_path / 'mine.csv'}", f"captions.training_images={tmp_path}"]
    mine = params.load(root / "params/mini.yaml", overrides=given, notebooks=["synthesis/calibration"])
    assert [one.calibrates for one in runs.pipelines(mine)] == [False]
