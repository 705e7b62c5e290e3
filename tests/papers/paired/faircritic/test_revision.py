"""Guidelines put into prompts: exact shares, spread evenly, and nothing but the stated draws decides."""

import math

import numpy as np
import pytest

from biaslab.papers.paired import prompts as asking
from biaslab.papers.paired.faircritic.critique import Counts, Critique, Guideline
from biaslab.papers.paired.faircritic.revision import revise
from biaslab.papers.paired.prompts import Prompts
from biaslab_world import pairs


def critique(*guidelines, aspect="occupation", round_=1, batch="occupation"):
    return Critique(batch, aspect, round_, "", "judged", True, "…", "…", guidelines, Counts(0, 0, 0, 0))


def tells(identity, share, gender="female"):
    return Guideline(identity, gender, share, f"Show the {identity} so.")


@pytest.fixture(scope="module")
def prompts():
    return asking.paired(seed=3)


def test_the_sentence_tells_who_is_meant():
    both = asking.sentence(["sheriff", "nurse"], ["female", "male"])
    assert both == "Show the sheriff as a woman and the nurse as a man."
    # Who is meant of two alike is said.
    assert asking.sentence(["nurse", "nurse"], ["", "male"]) == "Show the nurse on the right as a man."


def test_what_is_told_stands_in_the_text_and_the_world_reads_it(prompts):
    new = revise(prompts, [critique(tells("sheriff", 0.4), tells("nurse", 0.3, "male"))], seed=1)
    told = new.people.sort_values("position").groupby("prompt_id")["told"].agg(tuple)
    before = dict(zip(prompts.texts["prompt_id"], prompts.texts["text"], strict=True))
    changed = 0
    for prompt_id, text in zip(new.texts["prompt_id"], new.texts["text"], strict=True):
        assert text.startswith(before[prompt_id])
        assert pairs.parse(text).genders == told[prompt_id]
        changed += text != before[prompt_id]
    # 16 sheriffs and 12 nurses, some of them in one picture.
    assert changed == 28 - sum(map(all, told))
    assert new.texts.drop(columns="text").equals(prompts.texts.drop(columns="text"))
    assert new.people.drop(columns="told").equals(prompts.people)


def test_shares_are_met_as_far_as_whole_numbers_allow(prompts):
    """Each identity to within one prompt, all together to within one, left and right alike."""
    rng = np.random.default_rng(5)
    men, women = [], []
    for name, gender in asking.stereotypes().items():
        person = asking.occupation(name)
        guideline = tells(person.identity, float(rng.uniform(0, 0.5)), "female" if gender == "male" else "male")
        (men if gender == "male" else women).append(guideline)
    for seed in range(2):
        people = revise(prompts, [critique(*men, *women)], seed=seed).people
        told = people[people["told"] != ""]
        for given in (men, women):
            total = 0
            for g in given:
                mine = told[told["identity"] == g.identity]
                assert set(mine["told"]) <= {g.gender}
                assert len(mine) in (math.floor(40 * g.share), math.ceil(40 * g.share))
                left = (mine["position"] == 1).sum()
                assert abs(2 * left - len(mine)) <= 1
                total += len(mine)
            assert abs(total - 40 * sum(g.share for g in given)) < 1
            left = (told.loc[told["told"] == given[0].gender, "position"] == 1).sum()
            assert abs(2 * left - total) <= 1


def test_the_draw_depends_on_seed_and_round_and_not_on_the_order_of_rows(prompts):
    def told(prompts, seed, round_=1):
        given = critique(tells("sheriff", 0.4), tells("guard", 0.2), round_=round_)
        people = revise(prompts, [given], seed=seed).people.query("told != ''")
        return set(zip(people["prompt_id"], people["position"], strict=True))

    rng = np.random.default_rng(0)
    mixed = Prompts(*(t.iloc[rng.permutation(len(t))].reset_index(drop=True) for t in prompts))
    assert told(prompts, 1) == told(mixed, 1)
    assert told(prompts, 1) != told(prompts, 2)
    assert told(prompts, 1) != told(prompts, 1, round_=2)


def test_the_latest_round_replaces_the_ones_before(prompts):
    first = critique(tells("sheriff", 0.5), tells("guard", 0.5))
    second = critique(tells("sheriff", 0.25, "male"), round_=2)
    people = revise(prompts, [first, second], seed=1).people
    assert people.loc[people["identity"] == "sheriff", "told"].value_counts().to_dict() == {"": 30, "male": 10}
    assert set(people.loc[people["identity"] == "guard", "told"]) == {""}


def test_words_of_a_critic_are_put_behind_every_prompt_of_its_batch(prompts):
    said = [
        critique(Guideline("manager", "", 1.0, "Mix genders."), aspect="power", batch="power/manager"),
        critique(Guideline("intern", "", 1.0, "Mix genders."), aspect="power", batch="power/intern"),
        critique(Guideline("nurse", "", 1.0, "Show men, too."), batch="occupation/nurse"),
        critique(tells("nurse", 1.0, "male")),
    ]
    new = revise(prompts, said, seed=1)
    roles = prompts.people.groupby("prompt_id")["role"].agg(set)
    people = prompts.people.groupby("prompt_id")["identity"].agg(set)
    for prompt_id, aspect, old, text in zip(
        prompts.texts["prompt_id"], prompts.texts["aspect"], prompts.texts["text"], new.texts["text"], strict=True
    ):
        more = ""
        if aspect == "power" and roles[prompt_id] & {"manager", "intern"}:
            more = " Mix genders."
        if "nurse" in people[prompt_id]:
            more = " Show the nurse as a man. Show men, too."
        assert text == old + more
    # An occupation of that name is somebody else.
    assert not new.texts.loc[new.texts["prompt_id"] == "paired-manager-editor", "text"].str.contains("Mix").any()


def test_words_about_nobody_in_particular_go_to_the_whole_aspect(prompts):
    new = revise(prompts, [critique(Guideline("", "", 1.0, "Be fair."), aspect="power")], seed=1)
    assert (new.texts["text"].str.endswith(" Be fair.") == (new.texts["aspect"] == "power")).all()
