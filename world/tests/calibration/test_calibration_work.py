"""Calibration in plans and shards of a run, although no measured table uses its images."""

from pathlib import Path

import pandas as pd
import pytest

from biaslab.pipeline import Pipeline, Settings
from biaslab.runs import dry_run, jobs, params, shards
from biaslab_world.calibration import Calibration
from biaslab_world.model import WorldModel

pytestmark = pytest.mark.long

pytest.importorskip("torch", reason="models need the extra 'models'")
ROOT = Path(__file__).parents[3]
NOTEBOOK = "synthesis/calibration"


def pipeline(store, **changes):
    given = {
        "captions": {
            "occupations": ["nurse", "chef"],
            "max_captions": 3000,
            "per_occupation": 6,
            "approaches": ["naive"],
        },
        "generation": {"images_per_prompt": 1},
        "calibration": {"world_images": 2, "test_images": 16, "unbiased_captions": 3000, "matched_captions": 4},
        "compute": {"cache": str(store)},
    }
    return Pipeline("world", Settings.from_mapping(given).with_changes(**changes), seed=1, progress=False)


def test_plan_counts_calibration_images(tmp_path, monkeypatch):
    n_drawn = []

    def drawing(self, prompts, *, draw=WorldModel.generate, **options):
        n_drawn.append(int(prompts["n_images"].sum()))
        return draw(self, prompts, **options)

    monkeypatch.setattr(WorldModel, "generate", drawing)
    settings = pipeline(tmp_path, calibration={"world_images": 3}).settings.model_dump(mode="json")
    settings = {group: settings[group] for group in ("captions", "generation", "calibration", "compute")}
    given = {"run": "r", "source": "pipeline", "model": "world", "settings": settings, "notebooks": [NOTEBOOK]}
    loaded = params.load(ROOT / "params" / "mine.yaml", given=given)
    plan = {
        (request.paper, request.n_images)
        for request in dry_run.image_requests(jobs.pipelines(jobs.plan(loaded)))
        if request.kind == "generated"
    }
    assert not n_drawn
    (open_pipeline,) = jobs.pipelines(jobs.plan(loaded))
    (work,) = jobs.work(NOTEBOOK, open_pipeline.pipeline)
    _ = work.generated
    # 2 occupations and 4 templates: 3 images each, and 1 in the world without the paradox.
    assert sorted(n_drawn) == [8, 24]
    # The run's own tables take the templates' images of its model, too, 1 each: the same in number.
    assert plan == {("paradox", 8), ("synthesis", 8), ("synthesis", 24)}


def test_shards_compute_all_calibration_work(tmp_path, monkeypatch):
    monkeypatch.setattr("biaslab.judges.people._SHARD_ROWS", 10)

    def parts(store):
        calibration_work = Calibration(pipeline(store))
        return (
            calibration_work.renders,
            calibration_work.training,
            calibration_work.generated,
            calibration_work.truth,
            calibration_work.named(),
        )

    left = []
    while not left or left[-1]:
        share = (len(left) % 2, 2)
        left.append(shards.compute_pipeline(pipeline(tmp_path / "a"), [], share, ["paradox/4_baseline", NOTEBOOK]))
        assert len(left) < 12
    assert "remain for other shards" in left[0][0]
    complete = parts(tmp_path / "b")
    monkeypatch.setattr("biaslab.cache.result_cache._write", lambda *_: pytest.fail("computed again"))
    for frame, other_frame in zip(parts(tmp_path / "a"), complete, strict=True):
        pd.testing.assert_frame_equal(frame, other_frame)


def test_work_needs_its_notebook_and_ground_truth(tmp_path):
    def works(*patterns):
        (open_pipeline,) = jobs.pipelines(jobs.plan(params.load(ROOT / "world/params/mini.yaml", notebooks=patterns)))
        return [type(w) for name in open_pipeline.notebooks for w in jobs.work(name, open_pipeline.pipeline)]

    assert works("synthesis/*") == [Calibration]
    assert works("paradox/4_*", "synthesis/world") == []
    # Captions without ground truth give no work in plans and shards.
    (tmp_path / "mine.csv").write_text("text\na photo of a nurse\n")
    other = pipeline(tmp_path, captions={"corpus": str(tmp_path / "mine.csv")})
    assert list(jobs.work(NOTEBOOK, other)) == []
