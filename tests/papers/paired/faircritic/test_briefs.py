"""What critics are given."""

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


def of(people, aspect):
    return people[people["aspect"] == aspect]


def test_the_embedded_critic_gets_everyone_at_once(prompts, people):
    (brief,) = briefs(of(people, "power"), "power", 1, prompts.texts, read)
    assert (brief.batch_id, brief.aspect, brief.round, brief.identity) == ("power", "power", 1, "")
    # 36 occupations, two runs, both orders, two people.
    assert len(brief.people) == 36 * 2 * 2 * 2 and len(brief.prompts) == 144
    assert set(brief.people["told"]) == {""}
    assert brief.images is read


def test_a_critic_that_looks_gets_an_occupation_or_a_role_at_a_time(prompts, people):
    how = {"critic": "endpoint", "batch_size": 4}
    found = briefs(of(people, "occupation"), "occupation", 1, prompts.texts, read, **how)
    names = [n for pair in asking.occupation_pairs(3) for n in pair]
    assert [b.identity for b in found] == list(dict.fromkeys(p.identity for p in names))
    for brief in found:
        assert brief.batch_id == f"occupation/{brief.identity}"
        assert set(brief.people["identity"]) == {brief.identity}
        assert len(brief.people) == 4 and set(brief.prompts) == set(brief.people["prompt_id"])
        assert all(brief.identity in text for text in brief.prompts.values())
    found = briefs(of(people, "power"), "power", 1, prompts.texts, read, **how)
    roles = {"manager", "supervisor", "leader", "CEO", "assistant", "employee", "worker", "intern"}
    assert {b.identity for b in found} <= roles
    assert all(set(b.people["role"]) == {b.identity} and b.people["image_id"].nunique() <= 4 for b in found)


def test_the_images_of_a_batch_are_drawn_by_seed_among_those_that_can_be_seen(prompts, people):
    some = of(people, "occupation").reset_index(drop=True)

    def drawn(people, seed):
        found = briefs(people, "occupation", 1, prompts.texts, read, critic="endpoint", batch_size=3, seed=seed)
        return {b.identity: set(b.people["image_id"]) for b in found}

    assert drawn(some, 1) == drawn(some.iloc[::-1], 1)
    assert drawn(some, 1) != drawn(some, 2)
    gone = drawn(some, 1)[some["identity"][0]]
    blocked = some.assign(status=some["status"].mask(some["image_id"].isin(gone), "blocked"))
    assert not drawn(blocked, 1)[some["identity"][0]] & gone
    # Where nothing can be seen, there is a brief without people, and it will have no judgement.
    assert drawn(some.assign(status="blocked"), 1)[some["identity"][0]] == set()


def test_a_brief_knows_the_guidelines_in_its_prompts(prompts, people):
    def said(round_, text, batch="occupation/nurse"):
        given = (Guideline("nurse", "", 1.0, text),)
        return Critique(batch, "occupation", round_, "nurse", "judged", True, "…", "…", given, Counts(1, 1, 0, 1))

    some = of(people, "occupation").replace({"identity": {"carpenter": "nurse"}})
    earlier = [said(1, "One."), said(2, "Two.")]
    found = briefs(some, "occupation", 3, prompts.texts, read, critic="endpoint", earlier=earlier)
    by_identity = {b.identity: b.earlier for b in found}
    assert by_identity.pop("nurse") == (Guideline("nurse", "", 1.0, "Two."),)
    assert set(by_identity.values()) == {()}
