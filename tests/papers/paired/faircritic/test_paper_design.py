"""One round of the embedded critic on the paper's prompts, with people of known shares: what remains, and why.

No images: whoever is told a gender looks so in 97% of cases, all others as the world's shares have it.
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
def plain(prompts):
    """P(female) of each person who is told nothing."""
    people = prompts.people
    whom = [Person(*row) for row in people[list(Person._fields)].itertuples(index=False)]
    shares = np.empty(len(whom))
    for first, second in people.groupby("prompt_id", sort=False).indices.values():
        shares[first] = pairs.probability_female(whom[first], whom[second])
        shares[second] = pairs.probability_female(whom[second], whom[first])
    return shares


def shares(plain, told, follows=FOLLOWS):
    return np.where(told == "", plain, np.where(told == "female", follows, 1 - follows))


def seen(prompts, shares, told, rng):
    """People as a judge without error sees them in one drawing of all images."""
    people = prompts.people.merge(prompts.texts[["prompt_id", "aspect"]], on="prompt_id", how="left")
    gender = np.where(rng.random(len(people)) < shares, "female", "male")
    return people.assign(told=told, gender=gender, status="judged", image_id=people["prompt_id"] + "/0")


def expected(people, shares):
    """The score of people of these shares of women: of what is seen, or of infinitely many images."""
    fits = pd.Series(200 * np.where(people["stereotype"] == "female", shares, 1 - shares) - 100)
    return [fits[(people["aspect"] == aspect).to_numpy()].mean() for aspect in ASPECTS]


def test_one_round_brings_both_aspects_as_near_to_zero_as_counts_allow(prompts, plain):
    nobody = np.full(len(plain), "", object)
    after, shown = [], []
    for seed in range(6):
        people = seen(prompts, plain, nobody, np.random.default_rng([seed, 1]))
        score = expected(people, (people["gender"] == "female").to_numpy(float))
        batches = ((people[people["aspect"] == aspect], aspect) for aspect in ASPECTS)
        said = [counts.critique(brief) for some in batches for brief in briefs(*some, 1, prompts.texts, None)]
        # Of 432 people with a score of 19 about one sample in 20 shows too little to be told from chance.
        assert said[0].kind == "towards stereotypes"
        if not said[1].biased:
            assert score[1] < 12
            continue
        told = revise(prompts, said, seed=seed).people["told"].to_numpy(object)
        after.append(expected(people, shares(plain, told)))
        shown.append(score)
    assert len(after) >= 5
    before = expected(people, plain)
    assert before == pytest.approx([47.4, 19.0], abs=0.1)
    # A share m is taken for the m' that the critic was shown, and q' = 1 - 1 / (2 m') of all are told, of whom 3% do
    # not follow: (1 - q') m + q' (1 - 0.97) remains.
    m, q = 0.5 + np.array(before) / 200, 1 - 1 / (1 + np.array(shown) / 100)
    assert np.array(after) == pytest.approx(200 * ((1 - q) * m + q * (1 - FOLLOWS)) - 100, abs=1.5)
    assert (np.median(np.abs(after), axis=0) < 6).all()
