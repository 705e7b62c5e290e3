"""Inputs of critics."""

import pytest

from biaslab.papers.paired import prompts as asking
from biaslab.papers.paired.faircritic.critique import Counts, Critique, Guideline, briefs


def read(image_ids):
    raise AssertionError("nothing is read until a critic looks")


@pytest.fixture(scope="module")
def prompts():
    return asking.paired(per_list=3, runs=2, seed=1)


@pytest.fixture(scope="module")
def people(prompts):
    table = prompts.people.merge(prompts.texts[["prompt_id", "aspect"]], on="prompt_id")
    return table.assign(image_id=table["prompt_id"] + "/0", gender=table["stereotype"], status="judged")


def people_of_aspect(people, aspect):
    return people[people["aspect"] == aspect]


def test_briefs_of_embedded_critic_have_all_people(prompts, people):
    (brief,) = briefs(people_of_aspect(people, "power"), "power", 1, prompts.texts, read)
    assert (brief.batch_id, brief.aspect, brief.round, brief.identity) == ("power", "power", 1, "")
    # 36 occupations, two runs, both orders, two people.
    assert len(brief.people) == 36 * 2 * 2 * 2 and len(brief.prompts) == 144
    assert set(brief.people["told"]) == {""}
    assert brief.images is read


def test_briefs_of_endpoint_critic_are_per_identity(prompts, people):
    options = {"critic": "endpoint", "batch_size": 4}
    result = briefs(people_of_aspect(people, "occupation"), "occupation", 1, prompts.texts, read, **options)
    names = [n for pair in asking.occupation_pairs(3) for n in pair]
    assert [b.identity for b in result] == list(dict.fromkeys(p.identity for p in names))
    for brief in result:
        assert brief.batch_id == f"occupation/{brief.identity}"
        assert set(brief.people["identity"]) == {brief.identity}
        assert len(brief.people) == 4 and set(brief.prompts) == set(brief.people["prompt_id"])
        assert all(brief.identity in text for text in brief.prompts.values())
    result = briefs(people_of_aspect(people, "power"), "power", 1, prompts.texts, read, **options)
    roles = {"manager", "supervisor", "leader", "CEO", "assistant", "employee", "worker", "intern"}
    assert {b.identity for b in result} <= roles
    assert all(set(b.people["role"]) == {b.identity} and b.people["image_id"].nunique() <= 4 for b in result)


def test_briefs_sample_visible_images_by_seed(prompts, people):
    some = people_of_aspect(people, "occupation").reset_index(drop=True)

    def sampled_images(people, seed):
        result = briefs(people, "occupation", 1, prompts.texts, read, critic="endpoint", batch_size=3, seed=seed)
        return {b.identity: set(b.people["image_id"]) for b in result}

    assert sampled_images(some, 1) == sampled_images(some.iloc[::-1], 1)
    assert sampled_images(some, 1) != sampled_images(some, 2)
    excluded_images = sampled_images(some, 1)[some["identity"][0]]
    blocked = some.assign(status=some["status"].mask(some["image_id"].isin(excluded_images), "blocked"))
    assert not sampled_images(blocked, 1)[some["identity"][0]] & excluded_images
    # Without visible images, the brief has no people and will get no judgement.
    assert sampled_images(some.assign(status="blocked"), 1)[some["identity"][0]] == set()


def test_briefs_contain_latest_guidelines(prompts, people):
    def critique_of(round_, text, batch="occupation/nurse"):
        guidelines = (Guideline("nurse", "", 1.0, text),)
        return Critique(batch, "occupation", round_, "nurse", "judged", True, "…", "…", guidelines, Counts(1, 1, 0, 1))

    some = people_of_aspect(people, "occupation").replace({"identity": {"carpenter": "nurse"}})
    earlier = [critique_of(1, "One."), critique_of(2, "Two.")]
    result = briefs(some, "occupation", 3, prompts.texts, read, critic="endpoint", earlier=earlier)
    by_identity = {b.identity: b.earlier for b in result}
    assert by_identity.pop("nurse") == (Guideline("nurse", "", 1.0, "Two."),)
    assert set(by_identity.values()) == {()}
