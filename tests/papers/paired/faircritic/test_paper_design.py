"""One round of the embedded critic on the paper's prompts, with people of known shares: the remaining bias.

No images: people with a guideline follow it in 97% of cases, all others have the synthetic world's shares.
"""

import numpy as np
import pandas as pd
import pytest

from biaslab.papers.paired import prompts as asking
from biaslab.papers.paired.faircritic import counts
from biaslab.papers.paired.faircritic.critique import briefs
from biaslab.papers.paired.faircritic.revision import revise
from biaslab.papers.paired.prompts import Person
from biaslab_world import pairs

pytestmark = pytest.mark.long

FOLLOWS = 0.97
ASPECTS = ("occupation", "power")


@pytest.fixture(scope="module")
def prompts():
    return asking.paired(seed=0)


@pytest.fixture(scope="module")
def unguided_shares(prompts):
    """P(female) of each person without a guideline."""
    people = prompts.people
    persons = [Person(*row) for row in people[list(Person._fields)].itertuples(index=False)]
    shares = np.empty(len(persons))
    for first, second in people.groupby("prompt_id", sort=False).indices.values():
        shares[first] = pairs.probability_female(persons[first], persons[second])
        shares[second] = pairs.probability_female(persons[second], persons[first])
    return shares


def shares(unguided_shares, told, follows=FOLLOWS):
    return np.where(told == "", unguided_shares, np.where(told == "female", follows, 1 - follows))


def judged_people(prompts, shares, told, rng):
    """Return people as an error-free judge labels them in one sample of all images."""
    people = prompts.people.merge(prompts.texts[["prompt_id", "aspect"]], on="prompt_id", how="left")
    gender = np.where(rng.random(len(people)) < shares, "female", "male")
    return people.assign(told=told, gender=gender, status="judged", image_id=people["prompt_id"] + "/0")


def expected_score(people, shares):
    """Return the score of people with these female shares: observed, or in infinitely many images."""
    fits = pd.Series(200 * np.where(people["stereotype"] == "female", shares, 1 - shares) - 100)
    return [fits[(people["aspect"] == aspect).to_numpy()].mean() for aspect in ASPECTS]


def test_critique_and_revise_reach_expected_score(prompts, unguided_shares):
    no_guidelines = np.full(len(unguided_shares), "", object)
    after, observed_scores = [], []
    for seed in range(6):
        people = judged_people(prompts, unguided_shares, no_guidelines, np.random.default_rng([seed, 1]))
        score = expected_score(people, (people["gender"] == "female").to_numpy(float))
        batches = ((people[people["aspect"] == aspect], aspect) for aspect in ASPECTS)
        critiques = [counts.critique(brief) for some in batches for brief in briefs(*some, 1, prompts.texts, None)]
        # With 432 people and a score of 19, about one sample in 20 does not differ significantly from 0.
        assert critiques[0].kind == "towards stereotypes"
        if not critiques[1].biased:
            assert score[1] < 12
            continue
        told = revise(prompts, critiques, seed=seed).people["told"].to_numpy(object)
        after.append(expected_score(people, shares(unguided_shares, told)))
        observed_scores.append(score)
    assert len(after) >= 5
    before = expected_score(people, unguided_shares)
    assert before == pytest.approx([47.4, 19.0], abs=0.1)
    # A share m is estimated as the observed m', and q' = 1 - 1 / (2 m') of all are guided, of whom 3% do
    # not follow: (1 - q') m + q' (1 - 0.97) remains.
    m, q = 0.5 + np.array(before) / 200, 1 - 1 / (1 + np.array(observed_scores) / 100)
    assert np.array(after) == pytest.approx(200 * ((1 - q) * m + q * (1 - FOLLOWS)) - 100, abs=1.5)
    assert (np.median(np.abs(after), axis=0) < 6).all()
