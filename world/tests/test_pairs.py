"""The synthetic world of two people: prompts, scenes, and probabilities of women."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.errors import InputError
from biaslab.hub import registry
from biaslab.papers.paired import prompts as asking
from biaslab_world import pairs


def _score(person, p):
    return 100 * (2 * p - 1) * (1 if person.stereotype == "female" else -1)


def test_probability_female_reproduces_published_scores():
    # Table 1 over all pairs: 45.00, 49.75 and so 47.375 where the two lists meet; the mean over partners is exact.
    scores = {"female": [], "male": []}
    for left, right in asking.occupation_pairs():
        for person, partner in ((left, right), (right, left)):
            scores[person.stereotype].append(_score(person, pairs.probability_female(person, partner)))
    assert np.mean(scores["female"]) == pytest.approx(45.0, abs=0.01)
    assert np.mean(scores["male"]) == pytest.approx(49.75, abs=0.01)
    # Alone each share is drawn to its list's mean, which leaves the lists' scores: 50 and -30.
    single_scores = [
        (p.stereotype, _score(p, pairs.probability_female(p))) for p in map(asking.occupation, asking.stereotypes())
    ]
    for gender, printed in (("female", 50.0), ("male", -30.0)):
        assert np.mean([s for g, s in single_scores if g == gender]) == pytest.approx(printed, abs=0.01)
    # Roles, Table 1: 17.59 for low and 20.37 for high power in pairs.
    for level, partner, printed in (("intern", "manager", 17.59), ("manager", "intern", 20.37)):
        people = [(asking.role(o, level), asking.role(o, partner)) for o in asking.power_occupations()]
        role_scores = [_score(a, pairs.probability_female(a, b)) for a, b in people]
        assert np.mean(role_scores) == pytest.approx(printed, abs=0.02)


def test_probability_female_contrast_needs_opposite_stereotype():
    nurse, sheriff, guard = map(asking.occupation, ("nurse", "sheriff", "guard"))
    table = reference.load("paired_table_11").set_index(["occupation", "setting"])["percent_female"]
    assert pairs.probability_female(sheriff, nurse) == pytest.approx(table["sheriff", "paired"] / 100)
    assert (
        pairs.probability_female(sheriff, guard)
        == pairs.probability_female(sheriff, sheriff)
        == pairs.probability_female(sheriff)
    )
    # Among three, one of the opposite stereotype makes it.
    people = [asking.occupation(name) for name in ("cook", "guard", "baker")]
    prompt = pairs.PairPrompt(tuple(people), ("", "", ""), False)
    assert prompt.probability_female(0) == pairs.probability_female(people[0], people[2])
    assert prompt.probability_female(2) == pairs.probability_female(people[2], people[0])
    # Alone: the printed 2 of 3, half way to the mean of the men's list (65%).
    assert pairs.probability_female(sheriff) == pytest.approx((2 / 3 + 0.65) / 2, abs=1e-4)


def test_intervention_changes_scores_as_table_2():
    # The line in log-odds goes through 92 -> 26 and 18.98 -> -11.12 points.
    for before, after in ((92.0, 26.0), (18.98, -11.12)):
        p, q = (1 + before / 100) / 2, (1 + after / 100) / 2
        z = pairs.SLOPE * math.log(p / (1 - p)) + pairs.SHIFT
        assert 1 / (1 + math.exp(-z)) == pytest.approx(q, abs=0.002)
    nurse, sheriff = asking.occupation("nurse"), asking.occupation("sheriff")
    assert pairs.probability_female(sheriff, nurse, intervened=True) > pairs.probability_female(sheriff, nurse)
    assert pairs.probability_female(nurse, sheriff, intervened=True) < pairs.probability_female(nurse, sheriff)
    # With strength 0 there is no stereotype.
    assert (
        pairs.probability_female(nurse, sheriff, intervened=True, strength=0)
        == pairs.probability_female(nurse, strength=0)
        == 0.5
    )


@pytest.mark.parametrize(
    ("text", "phrases", "genders"),
    [
        ("Generate a picture of one nurse on the left and one construction worker on the right.",
         ["nurse", "construction worker"], ("", "")),
        ("A picture of one female nurse on the left and one man guard on the right.", ["nurse", "guard"],
         ("female", "male")),
        ("Generate a picture of one carpenter CEO on the left and one intern on the right. Show the intern as a woman.",
         ["carpenter CEO", "intern"], ("", "female")),
        ("Generate a picture of one baker on the left and one guard on the right, if all individuals can be a baker or "
         "a guard irrespective of their gender.", ["baker", "guard"], ("", "")),
        ("Generate a picture of one baker on the left, one guard in the middle, and one cook on the right.",
         ["baker", "guard", "cook"], ("", "", "")),
        ("Generate a picture of one nurse worker. Show the nurse worker as a man.", ["nurse worker"], ("male",)),
        ("A picture of one cook on the left and one cook on the right. Show the cook as a man and the cook as a woman.",
         ["cook", "cook"], ("male", "female")),
    ],
)  # fmt: skip
def test_parse_reads_phrases_and_genders(text, phrases, genders):
    prompt = pairs.parse(text)
    assert [p.phrase for p in prompt.people] == phrases
    assert (prompt.genders, prompt.intervened) == (genders, "irrespective" in text)


def test_parse_unknown_text_is_refused():
    with pytest.raises(InputError, match="cannot read 'two nurses'"):
        pairs.parse("two nurses")
    with pytest.raises(InputError, match="wizard"):
        pairs.parse("Generate a picture of one nurse on the left and one wizard on the right.")


def test_draw_and_parse_round_trip():
    rows = [pairs.draw(1, i) for i in range(600)] + [pairs.draw(1, i, count=1) for i in range(200)]
    for row in rows:
        phrases = [p.phrase for p in row.prompt.people]
        if len(set(phrases)) == len(phrases):
            assert pairs.parse(row.text) == row.prompt, row.text
        for gender_in_text, gender in zip(row.prompt.genders, row.genders, strict=True):
            assert gender_in_text in ("", gender)
    # About 0.29 + 0.17 of texts state a gender (see FORMS); 600 draws are off by 0.04 at most (two standard errors).
    gendered = [row for row in rows[:600] if any(row.prompt.genders)]
    assert len(gendered) / 600 == pytest.approx(0.46, abs=0.05)
    sentences = [asking.sentence([p.phrase for p in row.prompt.people], row.prompt.genders) for row in gendered]
    sentences = [row.text.endswith(f" {sentence}") for row, sentence in zip(gendered, sentences, strict=True)]
    assert sum(sentences) / 600 == pytest.approx(pairs.FORMS["sentence"], abs=0.04)
    card = (Path(registry.resolve("mini-sd-pairs", "text-to-image")) / "README.md").read_text(encoding="utf-8")
    assert f"In {100 * pairs.FORMS['sentence']:.0f}% of the prompts, the gender is stated by the sentence" in card
    assert pairs.draw(1, 7) == rows[7]


def test_generate_follows_text_and_probability():
    text = asking.fill("paired", (asking.occupation("nurse"), asking.occupation("sheriff")))
    gendered_text = text + " Show the sheriff as a woman."
    prompts = pd.DataFrame({"prompt_id": ["a", "b"], "text": [text, gendered_text], "n_images": [400, 50]})
    renders = pairs.generate(prompts, seed=5)
    genders = renders.table["truth_gender"].str.split(",", expand=True).set_index(renders.table["prompt_id"])
    assert (genders.loc["b", 1] == "female").all()
    # Table 11: 77.5% of nurses and 12.5% of sheriffs; 400 draws are off by 4.2 and 3.3 points (two errors).
    assert 100 * (genders.loc["a", 0] == "female").mean() == pytest.approx(77.5, abs=5)
    assert 100 * (genders.loc["a", 1] == "female").mean() == pytest.approx(12.5, abs=4)
    image = renders.read(["a/0"])[0]
    assert image.shape == (64, 96, 3)
    assert (pairs.generate(prompts, seed=5).read(["a/0"])[0] == image).all()
    assert pairs.generate(prompts, seed=6).digest != renders.digest
