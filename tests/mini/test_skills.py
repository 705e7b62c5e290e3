"""Scenes of PaintSkills: what they show by the drawing's own truth, and how they fail."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import ParameterError, UnknownNameError
from biaslab.mini.art import PLACES as ALL_PLACES
from biaslab.mini.render import render, truth
from biaslab.mini.scene import Thing
from biaslab.mini.skills import FAILURES, PLACES, failed, skill_scene, truth_boxes
from biaslab.papers.dalleval.analysis.verdicts import RULES, verdicts
from biaslab.prompts import dalleval as prompts


@pytest.fixture(scope="module")
def asked():
    """Return 60 prompts of each skill, among them every number and relation."""
    scenes = prompts.skills().assign(image_id=lambda t: t["prompt_id"])
    return pd.concat([rows.sample(60, random_state=2) for _, rows in scenes.groupby("skill")])


def boxes(rows, scene_of):
    found = [truth_boxes(scene_of(i, row), row["image_id"]) for i, row in enumerate(rows.to_dict("records"))]
    found = pd.concat(found, ignore_index=True)
    return found.assign(**{f"p_{name}": found["label"] == name for name in prompts.CLASSES})


def visible_shares(scene, size=64):
    """Return which share of each object is seen (0–1): objects first, then people."""
    whole = truth(scene, size)
    shares = []
    for i, thing in enumerate(scene.things):
        alone = truth(replace(scene, things=(thing,), people=()), size).objects[0].mask.sum()
        shares.append(float(whole.objects[i].mask.sum() / alone))
    for i, person in enumerate(scene.people):
        alone = truth(replace(scene, things=(), people=(person,)), size).people[0].mask.sum()
        shares.append(float(whole.people[i].mask.sum() / alone))
    return shares


@pytest.mark.parametrize("rule", RULES)
def test_scenes_show_what_is_asked_for_by_every_rule(asked, rule):
    found = boxes(asked, lambda i, row: skill_scene(np.random.default_rng([1, i]), row))
    assert set(asked["n"]) == {1, 2, 3, 4} and set(asked["relation"]) >= set(prompts.RELATIONS)
    assert verdicts(found, asked, rule=rule)["correct"].all()


def test_objects_are_seen_and_lie_inside(asked):
    for i, row in enumerate(asked.to_dict("records")):
        scene = skill_scene(np.random.default_rng([2, i]), row)
        assert min(visible_shares(scene)) >= 0.7
        assert scene.place in PLACES and scene.place in ALL_PLACES
        found = truth_boxes(scene, "i")
        assert len(found) == row["n"] + (row["skill"] == "spatial")
    assert len(set(PLACES)) == 13


@pytest.mark.parametrize("failure", FAILURES)
def test_failures_fail_at_that_and_nothing_else(asked, failure):
    of = {"other number": ["count"], "other relation": ["spatial"]}.get(failure, list(prompts.SKILLS))
    rows = asked[asked["skill"].isin(of)]

    def scene(i, row):
        rng = np.random.default_rng([3, i])
        return skill_scene(rng, failed(rng, row, failure, list(prompts.CLASSES)))

    judged = verdicts(boxes(rows, scene), rows)
    assert not judged["correct"].any()
    expected = {
        "other class": {"other objects"},
        # None of one is shown where one was asked for and one is missing.
        "other number": {"other number", "nothing found"},
        "other relation": {"other relation"},
        # Of a pair the other object is still there.
        "missing": {"nothing found", "other objects"},
    }
    assert set(judged["outcome"]) == expected[failure]
    with pytest.raises(ParameterError):
        failed(np.random.default_rng(0), {"skill": "object", "n": 1}, "other number", [])


def test_a_thing_leans_mirrors_narrows_and_changes_colour():
    scene = skill_scene(
        np.random.default_rng(4), {"skill": "object", "object": "car", "n": 1, "relation": "", "other": ""}
    )
    upright = Thing("car", 0.5, 0.5, 0.6)

    def drawn(**changes):
        shown = replace(scene, things=(replace(upright, **changes),))
        return render(shown, 96), truth(shown, 96).objects[0]

    image, region = drawn()
    mirrored, other = drawn(mirrored=True)
    # The frame's middle is the car's: mirroring it mirrors its pixels, but for the edges' rounding.
    assert (other.mask == region.mask[:, ::-1]).mean() > 0.99
    assert (mirrored != image).any()
    width = region.box[2] - region.box[0]
    narrow = drawn(width=0.75)[1].box
    assert narrow[2] - narrow[0] == pytest.approx(0.75 * width, abs=2)
    for flip in (False, True):
        # Leaning to the right lifts what lies left: its highest pixels move right of the middle.
        mask = drawn(tilt=0.26, mirrored=flip)[1].mask
        left, right = mask[:, :48].any(axis=1).argmax(), mask[:, 48:].any(axis=1).argmax()
        plain = drawn(mirrored=flip)[1].mask
        before = plain[:, :48].any(axis=1).argmax() - plain[:, 48:].any(axis=1).argmax()
        assert left - right < before
    colour, same = drawn(palette=1)
    assert (same.mask == region.mask).all()
    # Channels turn round, but for the light that falls on them.
    y, x = np.argwhere(region.mask & (image[..., 2] > image[..., 0] + 40))[0]
    assert colour[y, x].argmax() == (image[y, x].argmax() - 1) % 3


def test_what_does_not_exist_is_refused():
    row = {"skill": "object", "object": "car", "n": 1, "relation": "", "other": ""}
    for change in (
        {"skill": "color"},
        {"object": "cat"},
        {"skill": "spatial", "other": "dog", "relation": "near"},
    ):
        with pytest.raises(UnknownNameError):
            skill_scene(np.random.default_rng(0), row | change)
    with pytest.raises(ParameterError):
        skill_scene(np.random.default_rng(0), row | {"skill": "count", "n": 5})
    with pytest.raises(UnknownNameError):
        failed(np.random.default_rng(0), row, "blurred", [])
    with pytest.raises(ParameterError):
        Thing("car", 0.5, 0.5, 0.3, palette=3)
