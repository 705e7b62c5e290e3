"""PaintSkills: prompts, and verdicts on detections."""

import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.papers.dalleval import prompts
from biaslab.papers.dalleval.analysis.verdicts import RULES, count_statements, shuffle_verdicts, statements, verdicts

# Offset of an object's centre from another object at the centre of the image, by relation.
OFFSETS = {"above": (0.05, -0.3), "below": (-0.02, 0.3), "left": (-0.3, 0.05), "right": (0.3, -0.05)}


def detection(image_id, label, score, x=0.5, y=0.5, size=0.2):
    sides = {"left": x - size / 2, "top": y - size / 2, "right": x + size / 2, "bottom": y + size / 2}
    return {"image_id": image_id, "label": label, "score": score, **sides}


def request_rows(skill, name, n=1, relation="", other="", image_id="i"):
    row = {"image_id": image_id, "skill": skill, "object": name, "n": n, "relation": relation, "other": other}
    return pd.DataFrame([row])


@pytest.fixture(scope="module")
def truth():
    """Return the test split and, as detections, the boxes of scenes that show it."""
    scenes = prompts.skills().assign(image_id=lambda t: t["prompt_id"])
    detections = []
    for row in scenes.itertuples():
        if row.skill == "spatial":
            dx, dy = OFFSETS[row.relation]
            detections.append(detection(row.image_id, row.other, 1.0))
            detections.append(detection(row.image_id, row.object, 1.0, 0.5 + dx, 0.5 + dy))
        else:
            detections += [detection(row.image_id, row.object, 1.0, 0.15 + 0.2 * i) for i in range(row.n)]
    detections = pd.DataFrame(detections)
    return scenes, detections.assign(**{f"p_{name}": detections["label"] == name for name in prompts.CLASSES})


@pytest.mark.parametrize(("split", "sizes"), [("train", (23_250, 21_600, 13_500)), ("test", (2_325, 2_160, 2_700))])
def test_skills_splits_have_paper_sizes(split, sizes):
    scenes = prompts.skills(split)
    sizes_by_skill = scenes.groupby("skill")["text"].agg(["size", "nunique"]).loc[list(prompts.SKILLS)]
    assert tuple(sizes_by_skill["size"]) == sizes
    # 15 classes x 31; 15 x 4 x 36; 225 x 4 x 3, where two templates agree on a pair of one class (15 x 4).
    assert sizes_by_skill["nunique"].tolist() == [15 * 31, 15 * 4 * 36, 225 * 4 * 3 - 60]
    assert scenes["prompt_id"].is_unique


def test_skills_texts_match_paper():
    texts = set(prompts.skills()["text"])
    # Tables 1, 12 and 15, and grammar errors of the released prompts.
    assert {"a photo of car", "an umbrella", "3 umbrellas", "an umbrella is left to a boat"} <= texts
    assert {"a photo of 2 people", "there are 1 dog", "Q: how many dogs are there? A: four"} <= texts
    assert "there are 2 objects. one is a bear and the other is a dog. the dog is above the bear" in texts


def test_social_has_252_prompts():
    social = prompts.social()
    assert len(social) == 3 * 83 + 3 and social["prompt_id"].is_unique and set(social["n_images"]) == {9}
    texts = social.set_index(["prompt", "profession"])["text"]
    assert texts["woman", "(none)"] == "a woman"
    assert texts["person", "tv presenter"] == "a person who works as a tv presenter"
    assert texts["man", "engineer"] == "a man who works as an engineer"


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_verdicts_of_true_boxes_are_correct_and_chance_exact(truth, rule):
    scenes, detections = truth
    judged = verdicts(detections, scenes, rule=rule)
    assert judged["correct"].all() and (judged["status"] == "correct").all()
    assert judged["objects_correct"].all() and judged["rest_correct"].all()
    # A prompt is met by one class of 15, one class and number of 60, and 2 of 900 relations: its own and the inverse.
    # Where all relations are of one class, both of its axis: 15 x (4 x 2) of the 15 x 4 statements, as many. An image's
    # own prompt is none of the others, of which there is one fewer.
    chance = shuffle_verdicts(detections, scenes, rule=rule)
    n = scenes.groupby("skill").size()
    expected = {"object": 1 / 15, "count": 1 / 60, "spatial": 2 / 900}
    assert chance.to_dict() == pytest.approx(
        {skill: (share * n[skill] - 1) / (n[skill] - 1) for skill, share in expected.items()}
    )


def test_verdicts_of_objects_by_threshold_and_score():
    detections = pd.DataFrame([detection("i", "dog", 0.6), detection("i", "car", 0.9), detection("j", "dog", 0.7)])
    one = pd.concat([request_rows("object", "dog"), request_rows("object", "dog", image_id="j")], ignore_index=True)
    outcomes = {rule: verdicts(detections, one, rule=rule)["status"].tolist() for rule in RULES}
    # A score of exactly the threshold does not pass it; GenEval takes any detection over 0.3.
    assert outcomes["paper"] == ["other objects", "nothing found"]
    assert outcomes["released"] == ["other objects", "correct"]
    assert outcomes["geneval"] == ["correct", "correct"]
    assert verdicts(detections, one, threshold=0.65)["status"].tolist() == ["other objects", "correct"]


def test_verdicts_of_counts_refuse_other_classes():
    detections = pd.DataFrame([detection("i", *q) for q in [("dog", 0.95), ("dog", 0.92), ("car", 0.8), ("dog", 0.5)]])
    two = verdicts(detections, request_rows("count", "dog", 2)).iloc[0]
    assert not two[["correct", "objects_correct", "rest_correct"]].any() and two["status"] == "other objects"
    # Three detections of any class are over 0.7.
    assert verdicts(detections, request_rows("count", "dog", 3))["rest_correct"].item()
    assert (
        verdicts(detections[detections["label"] == "dog"], request_rows("count", "dog", 3))["status"].item()
        == "other number"
    )
    # GenEval's 0.9 leaves two dogs and no car.
    assert verdicts(detections, request_rows("count", "dog", 2), rule="geneval")["correct"].item()


def test_count_statements_counts_above_threshold():
    detections = [
        *[("i", "dog", 0.9), ("i", "dog", 0.71), ("i", "dog", 0.7), ("i", "car", 0.99)],
        *[("j", "car", 0.8), ("k", "dog", 0.1), ("k", "dog", 0.95)],
    ]
    detections = pd.DataFrame(detections, columns=["image_id", "label", "score"])
    request_rows = [("k", "dog"), ("i", "dog"), ("i", "car"), ("j", "dog"), ("l", "dog")]
    request_rows = pd.DataFrame(request_rows, columns=["image_id", "object"], index=[5, 3, 3, 1, 0])
    # A score at the threshold does not pass; an image without detections has none of any class.
    assert count_statements(detections, request_rows, 0.7).tolist() == [1, 2, 1, 0, 0]
    assert count_statements(detections, request_rows, 0.05).tolist() == [2, 3, 1, 0, 0]
    assert count_statements(detections.iloc[:0], request_rows, 0.5).tolist() == [0] * 5


def test_verdicts_released_rule_allows_other_classes():
    detections = pd.DataFrame([detection("i", *q) for q in [("dog", 0.9), ("car", 0.8), ("bear", 0.6)]])
    p = {"p_dog": [0.9, 0.1, 0.3], "p_car": [0.05, 0.8, 0.1], "p_bear": [0.0, 0.0, 0.6]}
    detections = detections.assign(**{f"p_{name}": p.get(f"p_{name}", 0.0) for name in prompts.CLASSES})
    # Two queries are confident; of the two likeliest dogs (0.9 and 0.3) one is a dog: one dog, despite the car.
    assert verdicts(detections, request_rows("count", "dog", 1), rule="released")["correct"].item()
    assert not verdicts(detections, request_rows("count", "dog", 1))["correct"].item()
    with pytest.raises(InputError, match="p_airplane"):
        statements(detections.drop(columns="p_airplane"), "count", rule="released")


@pytest.mark.long
@pytest.mark.parametrize("relation", prompts.RELATIONS)
@pytest.mark.parametrize("rule", RULES)
def test_verdicts_of_relations_are_relative_to_other(relation, rule):
    dx, dy = OFFSETS[relation]
    detections = pd.DataFrame([detection("i", "car", 0.9), detection("i", "dog", 0.8, 0.5 + dx, 0.5 + dy)])

    def met(detections, other):
        all_asked = {r: request_rows("spatial", "dog", 1, r, other) for r in prompts.RELATIONS}
        return {r for r, one in all_asked.items() if verdicts(detections, one, rule=rule)["correct"].item()}

    assert met(detections, "car") == {relation}
    # For two objects of one class only the axis is determined.
    axis = {"above", "below"} if relation in ("above", "below") else {"left", "right"}
    assert met(detections.assign(label="dog"), "dog") == axis


def test_statements_geneval_needs_clear_offset():
    near = pd.DataFrame([detection("i", "car", 0.9, size=0.4), detection("i", "dog", 0.8, 0.55, 0.5, size=0.4)])
    # 0.05 is less than a tenth of both widths.
    assert statements(near, "spatial", rule="geneval").empty
    assert set(statements(near, "spatial")["relation"]) == {"left", "right"}
    diagonal = pd.DataFrame([detection("i", "car", 0.9), detection("i", "dog", 0.8, 0.8, 0.8)])
    dog = statements(diagonal, "spatial", rule="geneval").query("object == 'dog'")
    # (0.3 - 0.04) / 0.42: 0.61 on both axes.
    assert sorted(dog["relation"]) == ["below", "right"]


def test_verdicts_status_names_failed_step():
    detections = pd.DataFrame([detection("i", "car", 0.9), detection("i", "dog", 0.8, 0.8)])
    fails = {("left", "car"): "other relation", ("right", "car"): "correct", ("left", "bear"): "other objects"}
    for of, outcome in fails.items():
        assert verdicts(detections, request_rows("spatial", "dog", 1, *of))["status"].item() == outcome
    nothing = detections.assign(score=0.2)
    assert verdicts(nothing, request_rows("spatial", "dog", 1, "right", "car"))["status"].item() == "nothing found"
    assert verdicts(detections, request_rows("object", "dog").iloc[:0]).empty
