"""What a run's plan and its shares are told of calibration, whose images no measured table takes."""

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


def test_a_plan_tells_of_its_images(tmp_path, monkeypatch):
    n_drawn = []

    def drawing(self, prompts, *, draw=WorldModel.generate, **how):
        n_drawn.append(int(prompts["n_images"].sum()))
        return draw(self, prompts, **how)

    monkeypatch.setattr(WorldModel, "generate", drawing)
    settings = pipeline(tmp_path, calibration={"world_images": 3}).settings.model_dump(mode="json")
    settings = {group: settings[group] for group in ("captions", "generation", "calibration", "compute")}
    given = {"run": "r", "source": "pipeline", "model": "world", "settings": settings, "notebooks": [NOTEBOOK]}
    loaded = params.load(ROOT / "params" / "mine.yaml", given=given)
    plan = {
        (one.paper, one.n_images)
        for one in dry_run.image_requests(jobs.pipelines(jobs.plan(loaded)))
        if one.kind == "generated"
    }
    assert not n_drawn
    (opened,) = jobs.pipelines(jobs.plan(loaded))
    (work,) = jobs.work(NOTEBOOK, opened.pipeline)
    _ = work.generated
    # 2 occupations and 4 templates: 3 images each, and 1 in the world without the paradox.
    assert sorted(n_drawn) == [8, 24]
    # The run's own tables take the templates' images of its model, too, 1 each: the same in number.
    assert plan == {("paradox", 8), ("synthesis", 8), ("synthesis", 24)}


def test_shares_of_it_make_all_that_its_notebook_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("biaslab.judges.people._SHARD_ROWS", 10)

    def parts(store):
        made = Calibration(pipeline(store))
        return made.renders, made.training, made.generated, made.truth, made.named()

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


def test_it_is_of_one_notebook_and_of_captions_whose_truth_is_known(tmp_path):
    def works(*patterns):
        (opened,) = jobs.pipelines(jobs.plan(params.load(ROOT / "world/params/mini.yaml", notebooks=patterns)))
        return [type(w) for name in opened.notebooks for w in jobs.work(name, opened.pipeline)]

    assert works("synthesis/*") == [Calibration]
    assert works("paradox/4_*", "synthesis/world") == []
    # Of captions whose truth is not known, neither a plan nor a share asks for any.
    (tmp_path / "mine.csv").write_text("text\na photo of a nurse\n")
    other = pipeline(tmp_path, captions={"corpus": str(tmp_path / "mine.csv")})
    assert list(jobs.work(NOTEBOOK, other)) == []
