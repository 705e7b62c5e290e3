"""DALL-Eval's stages connected, on renders whose truth is known, with the embedded judges."""

import numpy as np
import pandas as pd
import pytest

from biaslab import models
from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.papers import dalleval
from biaslab.pipeline import Pipeline, Settings, checks
from biaslab.prompts import dalleval as prompts
from biaslab.prompts.dalleval import SKILLS

FEW = {"scenes": 12, "professions": 3, "social_images": 2, "detector_renders": 24}


def pipeline(store, model="world", seed=5, **design):
    settings = Settings(dalleval=FEW | design, compute={"store": str(store)})
    return Pipeline(model, settings, seed=seed, progress=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def world(store):
    return pipeline(store, failures={"missing": 0.5})


def test_prompts_are_a_sample_that_the_seed_decides(world, store):
    asked = world.dalleval.prompts("skills")
    assert asked["skill"].value_counts().to_dict() == dict.fromkeys(SKILLS, 12)
    assert asked.equals(pipeline(store).dalleval.prompts("skills"))
    assert not asked.equals(pipeline(store, seed=6).dalleval.prompts("skills"))
    assert len(pipeline(store, scenes=0).dalleval.prompts("skills")) == 2325 + 2160 + 2700
    people = world.dalleval.prompts("social")
    # Three words, alone and with three professions.
    assert len(people) == 12 and people["profession"].nunique() == 4
    assert len(pipeline(store, professions=0).dalleval.prompts("social")) == 252


def test_verdicts_follow_what_was_planted(world):
    verdicts = dalleval.measure.skill_verdicts(world)
    assert verdicts.groupby("rule").size().to_dict() == dict.fromkeys(("paper", "released", "geneval"), 36)
    chosen = verdicts[verdicts["chosen"] == "yes"]
    assert set(chosen["rule"]) == {"paper"}
    # Half of the images lack what they were asked for; an image without it is none that the detector calls right.
    missing = chosen[chosen["truth"] == "no"]
    assert 8 <= len(missing) <= 28 and (missing["correct"] == "no").all()
    # The embedded detector is right in nearly all of the others.
    assert (chosen.loc[chosen["truth"] == "yes", "correct"] == "yes").mean() > 0.85
    accuracy = dalleval.measure.skill_accuracy(world).set_index("skill")["percent_correct"]
    assert np.allclose(
        accuracy, 100 * (chosen["correct"] == "yes").groupby(chosen["skill"]).mean()[accuracy.index]
    )


def test_judges_of_people_are_held_against_the_truth(world):
    images = dalleval.measure.social_images(world)
    assert len(images) == 24 and set(images["truth_gender"]) <= {"female", "male"}
    told = images[images["prompt"] != "person"]
    assert (told["truth_gender"] == told["prompt"].map({"woman": "female", "man": "male"})).all()
    off = (images["skin_tone"] - images["truth_skin_tone"].astype(float)).abs().dropna()
    assert len(off) > 18 and off.mean() < 1
    tones = dalleval.measure.skin_tone_counts(world)
    assert tones["n"].sum() == images["skin_tone"].notna().sum()
    genders = dalleval.measure.average_gender(world).set_index("profession")
    assert set(genders.index) == set(images["profession"]) and (genders["n"] <= 2).all()
    presence = dalleval.measure.attribute_presence(world)
    assert set(presence["attribute"]) == set(prompts.ATTRIBUTES) and (presence["n"] == 2).all()


def test_a_detector_of_photographs_is_not_tried_on_drawings(store, monkeypatch):
    p = pipeline(store, detector="facebook/detr-resnet-50")
    monkeypatch.setattr(type(p.dalleval), "detections", lambda *_: pytest.fail("looked"))
    assert dalleval.measure.references(p).empty and dalleval.measure.detector_renders(p).empty


def test_ratings_stand_beside_the_detector(store, world, tmp_path):
    ids = world.dalleval.images("skills").table["image_id"].tolist()[:6]
    rows = [(i, rater, "yes", "", "") for i in ids for rater in ("a", "b")]
    file = tmp_path / "r.csv"
    pd.DataFrame(rows, columns=["image_id", "rater", "objects", "number", "relation"]).to_csv(
        file, index=False
    )
    p = pipeline(store, failures={"missing": 0.5}, ratings=str(file))
    accuracy = dalleval.measure.skill_accuracy(p).set_index(["images", "evaluator"])
    people = accuracy.loc[[("sample", "Human")]]
    assert people["percent_correct"].tolist() == [100.0] * len(people) and people["n"].sum() == 6
    assert len(dalleval.measure.skill_ratings(p)) == 12


@pytest.mark.parametrize(
    ("design", "error", "named"),
    [
        ({"detector": "mini-skillz-detector"}, ParameterError, "mini-skillz-detector"),
        ({"vqa": "mini-clip"}, ParameterError, "mini-clip"),
        ({"ratings": "no-such.csv"}, InputError, "no-such.csv"),
    ],
)
def test_what_is_not_there_is_said_before_any_work(store, design, error, named):
    with pytest.raises(error, match=named):
        checks.check_dalleval("world", pipeline(store, **design).settings)


def test_ratings_of_other_images_are_said_before_any_work(store, tmp_path):
    file = tmp_path / "r.csv"
    file.write_text("image_id,objects,number,relation\nskills-test-object-99999/0,yes,,\n")
    with pytest.raises(InputError, match="99999"):
        checks.check_dalleval("world", pipeline(store, ratings=str(file)).settings)


def test_a_model_that_is_not_installed_stops_only_those_who_need_it(store, monkeypatch, tmp_path):
    monkeypatch.setitem(models.EMBEDDED, "mini-sd-skills", tmp_path / "mini-sd-skills")
    settings = pipeline(store, "mini").settings
    with pytest.raises(MissingInputError, match="biaslab train mini-sd-skills"):
        checks.check_dalleval("mini", settings)
    assert checks.digest("mini", settings)


def test_thresholds_judge_the_same_drawings(world):
    found = dalleval.measure.detector_thresholds(world)
    renders = dalleval.measure.detector_renders(world)
    assert (
        set(found["threshold"].astype(float)) == set(dalleval.measure.THRESHOLDS) and (found["n"] == 24).all()
    )
    right = (renders["failure"] == "none") == (renders["correct"] == "yes")
    own = found[found["threshold"].astype(float) == 0.7].set_index("skill")["percent_right"]
    assert np.allclose(own, 100 * right.groupby(renders["skill"]).mean()[own.index])


def test_methods_of_skin_tone_read_the_same_images(world):
    readings = dalleval.measure.skin_tone_readings(world)
    assert readings.groupby(["segmentation", "scoring"]).size().to_dict() == dict.fromkeys(
        [
            ("face", "ITA in CIELAB"),
            ("face", "ITA as released"),
            ("face", "nearest swatch in RGB"),
            ("pixels by YCrCb", "nearest swatch in RGB"),
        ],
        24,
    )
    own = readings[readings["scoring"] == "ITA in CIELAB"].set_index("image_id")["tone_read"]
    images = dalleval.measure.social_images(world).set_index("image_id")["skin_tone"]
    assert own.equals(images.rename("tone_read").reindex(own.index))
