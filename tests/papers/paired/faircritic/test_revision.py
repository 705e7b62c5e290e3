"""Guidelines in prompts: exact shares, spread evenly, and determined by the stated seed only."""

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


def test_sentence_names_person_and_gender():
    both = asking.sentence(["sheriff", "nurse"], ["female", "male"])
    assert both == "Show the sheriff as a woman and the nurse as a man."
    # Of two equal people the position is stated.
    assert asking.sentence(["nurse", "nurse"], ["", "male"]) == "Show the nurse on the right as a man."


def test_revise_text_is_parsed_by_synthetic_world(prompts):
    new = revise(prompts, [critique(tells("sheriff", 0.4), tells("nurse", 0.3, "male"))], seed=1)
    told = new.people.sort_values("position").groupby("prompt_id")["told"].agg(tuple)
    before = dict(zip(prompts.texts["prompt_id"], prompts.texts["text"], strict=True))
    changed = 0
    for prompt_id, text in zip(new.texts["prompt_id"], new.texts["text"], strict=True):
        assert text.startswith(before[prompt_id])
        assert pairs.parse(text).genders == told[prompt_id]
        changed += text != before[prompt_id]
    # 16 sheriffs and 12 nurses, some of them in one image.
    assert changed == 28 - sum(map(all, told))
    assert new.texts.drop(columns="text").equals(prompts.texts.drop(columns="text"))
    assert new.people.drop(columns="told").equals(prompts.people)


def test_revise_meets_shares_up_to_rounding(prompts):
    """Each identity within one prompt, all together within one, left and right equally."""
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


def test_revise_depends_on_seed_and_round_not_row_order(prompts):
    def told(prompts, seed, round_=1):
        given = critique(tells("sheriff", 0.4), tells("guard", 0.2), round_=round_)
        people = revise(prompts, [given], seed=seed).people.query("told != ''")
        return set(zip(people["prompt_id"], people["position"], strict=True))

    rng = np.random.default_rng(0)
    mixed = Prompts(*(t.iloc[rng.permutation(len(t))].reset_index(drop=True) for t in prompts))
    assert told(prompts, 1) == told(mixed, 1)
    assert told(prompts, 1) != told(prompts, 2)
    assert told(prompts, 1) != told(prompts, 1, round_=2)


def test_revise_uses_latest_round_only(prompts):
    first = critique(tells("sheriff", 0.5), tells("guard", 0.5))
    second = critique(tells("sheriff", 0.25, "male"), round_=2)
    people = revise(prompts, [first, second], seed=1).people
    assert people.loc[people["identity"] == "sheriff", "told"].value_counts().to_dict() == {"": 30, "male": 10}
    assert set(people.loc[people["identity"] == "guard", "told"]) == {""}


def test_revise_appends_guideline_to_prompts_of_batch(prompts):
    critiques = [
        critique(Guideline("manager", "", 1.0, "Mix genders."), aspect="power", batch="power/manager"),
        critique(Guideline("intern", "", 1.0, "Mix genders."), aspect="power", batch="power/intern"),
        critique(Guideline("nurse", "", 1.0, "Show men, too."), batch="occupation/nurse"),
        critique(tells("nurse", 1.0, "male")),
    ]
    new = revise(prompts, critiques, seed=1)
    roles = prompts.people.groupby("prompt_id")["role"].agg(set)
    people = prompts.people.groupby("prompt_id")["identity"].agg(set)
    for prompt_id, aspect, old, text in zip(
        prompts.texts["prompt_id"], prompts.texts["aspect"], prompts.texts["text"], new.texts["text"], strict=True
    ):
        added_text = ""
        if aspect == "power" and roles[prompt_id] & {"manager", "intern"}:
            added_text = " Mix genders."
        if "nurse" in people[prompt_id]:
            added_text = " Show the nurse as a man. Show men, too."
        assert text == old + added_text
    # An occupation of that name is a different person.
    assert not new.texts.loc[new.texts["prompt_id"] == "paired-manager-editor", "text"].str.contains("Mix").any()


def test_revise_general_guideline_covers_aspect(prompts):
    new = revise(prompts, [critique(Guideline("", "", 1.0, "Be fair."), aspect="power")], seed=1)
    assert (new.texts["text"].str.endswith(" Be fair.") == (new.texts["aspect"] == "power")).all()
