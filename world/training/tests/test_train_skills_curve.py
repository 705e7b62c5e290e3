"""Training curve by share of PaintSkills scenes: a tiny run of the real code, judged by mini-skills-detector."""

from __future__ import annotations

import functools
import shutil
from dataclasses import replace

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra 'models'")

from interruption import steps_of  # noqa: E402

from biaslab.errors import MissingInputError  # noqa: E402
from biaslab.papers.dalleval import prompts  # noqa: E402
from biaslab_world import brought  # noqa: E402
from biaslab_world.brought import WEIGHTS  # noqa: E402
from training import diffusion, skills_curve  # noqa: E402
from training import skills as train_skills  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def few_scenes(quick):
    """120 scenes to train on, but every word; weights judged once."""
    skills = functools.cache(prompts.skills)
    words = {kind: diffusion.tokenizer_of(kind) for kind in ("skills", "social")}
    train_rows = skills("train").sample(120, random_state=1)
    judge, judged_weights = train_skills.right, {}

    def right(folder, *arguments):
        """The same weights are judged once."""
        weights = tuple(file.read_bytes() for file in sorted(folder.rglob("*.safetensors")))
        if (weights, arguments) not in judged_weights:
            judged_weights[weights, arguments] = judge(folder, *arguments)
        return judged_weights[weights, arguments].copy()

    quick.setattr(prompts, "skills", lambda split="test": train_rows if split == "train" else skills(split))
    quick.setattr(train_skills, "right", right)
    quick.setattr(diffusion, "tokenizer_of", words.__getitem__)


FEW = {"base_steps": 1, "steps": 2, "scenes": 3, "people": 20, "batch": 2, "seed": 2, "progress": False}


def train(folder, work, **more):
    paths = {"checkpoint": work / "state.pt", "log": work / "log.csv", "start_from": WEIGHTS / "mini-sd"}
    return skills_curve.train(folder, **paths, **FEW | more)


@pytest.fixture(scope="module")
def curve(few_scenes, tmp_path_factory):
    """The folder of the curve, that of its models and data, and what was returned."""
    folder, work = tmp_path_factory.mktemp("curve") / "model", tmp_path_factory.mktemp("work")
    return folder, work, train(folder, work)


NAMES = {"0": "base-1-2", "10": "share-10-2-2", "50": "share-50-2-2", "100": "share-100-2-2"}
"""Folders of models have their steps and their seed in their names."""


def test_train_judges_all_shares_on_same_scenes(curve):
    folder, work, shares = curve
    table = pd.read_csv(folder / skills_curve.FILE, dtype={"training_percent": str})
    assert list(table) == ["training_percent", "skill", "n_correct", "n", "steps", "seed"]
    keys = list(zip(table["training_percent"], table["skill"], strict=True))
    assert set(keys) == {(share, skill) for share in NAMES for skill in prompts.SKILLS} and len(keys) == 12
    assert (table["n"] == 3).all() and table["n_correct"].between(0, 3).all() and set(table["seed"]) == {2}
    # The model before any scenes has made no step on them.
    step_range = table.groupby("training_percent")["steps"].agg(["min", "max"])
    assert step_range.T.to_dict("list") == {"0": [0, 0], "10": [2, 2], "50": [2, 2], "100": [2, 2]}
    # What is returned are the shares; every share of the scenes has a model of its own, judged as it is.
    assert len(shares) == 12 and list(shares.values()) == (table["n_correct"] / 3).tolist()
    for share in ("0", "50"):
        recomputed_rows = train_skills.right(work / NAMES[share], 3, skills_curve._SEED)
        rows_of_share = table[table["training_percent"] == share].set_index("skill")
        assert rows_of_share["n_correct"].to_dict() == dict(
            zip(recomputed_rows["skill"], recomputed_rows["n_correct"], strict=True)
        )


def test_train_reuses_existing_models(curve, tmp_path):
    folder, work, shares = curve
    parts = tmp_path / "work"
    shutil.copytree(work, parts)
    with pytest.MonkeyPatch.context() as patch:
        steps = steps_of(patch)
        assert train(tmp_path / "all", parts) == shares
        assert steps == []
        # One model that is not there yet is trained, from the model of people that is.
        shutil.rmtree(parts / NAMES["50"])
        (parts / f"{NAMES['50']}.pt").unlink(missing_ok=True)
        assert train(tmp_path / "one", parts) == shares
    assert steps == [0, 1]
    content = (folder / skills_curve.FILE).read_text()
    assert all((tmp_path / name / skills_curve.FILE).read_text() == content for name in ("all", "one"))
    weights = f"{NAMES['50']}/unet/diffusion_pytorch_model.safetensors"
    assert (parts / weights).read_bytes() == (work / weights).read_bytes()


def test_train_without_autoencoder_raises(monkeypatch, tmp_path):
    lost = replace(brought.mini_sd_skills, folder=tmp_path / "mini-sd-skills")
    monkeypatch.setattr(brought, "mini_sd_skills", lost)
    with pytest.raises(MissingInputError, match="mini-sd-skills"):
        skills_curve.train(tmp_path / "curve", checkpoint=tmp_path / "work" / "state.pt")
    assert not (tmp_path / "curve").exists() and not (tmp_path / "work").exists()
