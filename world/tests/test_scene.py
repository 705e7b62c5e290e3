"""Scenes: the cues' tables, Bayes' rule on them, and what the sampler draws."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from biaslab import reference
from biaslab_world.art import COLOURS, HATS, PLACES, PROPS
from biaslab_world.looks import ATTIRES, OCCUPATIONS, OUTFITS, outfit
from biaslab_world.scene import (
    ATTRIBUTES,
    CUE_NAMES,
    CUES,
    GENDERS,
    SKIN_TONES,
    Cues,
    hidden_cues,
    is_ambiguous,
    posterior_female,
    sample_person,
)

PLAIN = {
    "hair_style": "short", "facial_hair": "none", "brow": "medium", "lashes": "no", "lips": "natural",
    "jaw": "medium", "shoulders": "medium", "earrings": "no", "neckline": "closed",
}  # fmt: skip


def test_posterior_female_matches_hand_values():
    # Products of the printed probabilities, hair to neckline. Jaw and shoulders medium and brow medium are
    # equally likely either way (0.33, 0.33, 0.37) and cancel.
    #   female: 0.08 * 0.985 * 0.23 * 0.29 * 0.40 * 0.45 = 9.4607e-4
    #   male:   0.38 * 0.44 * 0.95 * 0.97 * 0.94 * 0.78  = 1.12970e-1
    #   9.4607e-4 / (9.4607e-4 + 1.12970e-1) = 0.0083050
    assert posterior_female(Cues(**PLAIN)) == pytest.approx(0.008305, abs=2e-6)
    # Lashes have 0.77 against 0.05 instead of 0.23 against 0.95: the odds grow 63.61 times.
    odds = 0.008305 / (1 - 0.008305) * (0.77 / 0.23) * (0.95 / 0.05)
    assert posterior_female(Cues(**PLAIN | {"lashes": "yes"})) == pytest.approx(odds / (1 + odds), abs=1e-4)
    beard = Cues(**PLAIN | {"facial_hair": "beard"})
    assert posterior_female(beard) == 0
    # A hidden cue is ignored: without facial hair the odds lose the factor 0.985 / 0.44.
    odds = 0.008305 / (1 - 0.008305) / (0.985 / 0.44)
    assert posterior_female(beard, hidden=["facial_hair"]) == pytest.approx(odds / (1 + odds), abs=2e-6)


def test_is_ambiguous_depends_on_hidden_cues():
    cues = Cues(**PLAIN | {"facial_hair": "moustache", "hair_style": "bob", "earrings": "yes"})
    bare, masked = (
        replace(sample_person(np.random.default_rng(0), gender="male", attributes=worn), cues=cues)
        for worn in ((), ("mask",))
    )
    assert not is_ambiguous(bare)
    assert hidden_cues(masked) == {"lips", "facial_hair", "jaw"}
    assert is_ambiguous(masked)


def test_sample_person_posterior_accuracy_reaches_ceiling():
    best = unclear = total = 0.0
    count = 0
    for cues in itertools.starmap(Cues, itertools.product(*(CUES[name]["female"] for name in CUE_NAMES))):
        p = {g: np.prod([CUES[name][g][getattr(cues, name)] for name in CUE_NAMES]).item() for g in GENDERS}
        joint = (p["female"] + p["male"]) / 2
        total += joint
        best += max(p.values()) / 2
        if joint and max(p.values()) / 2 < 0.99 * joint:
            unclear += joint
        count += 1
    assert count == 9 * 4 * 3 * 2 * 2 * 3 * 3 * 2 * 2
    assert total == pytest.approx(1)
    assert 0.985 < best < 0.995
    assert 0.04 < unclear < 0.08
    rng = np.random.default_rng(4)
    people = [sample_person(rng) for _ in range(6000)]
    right = [(posterior_female(p.cues) > 0.5) == (p.gender == "female") for p in people]
    # Standard error of a share of 0.99 at n = 6000 is 0.0013; four of them.
    assert np.mean(right) == pytest.approx(best, abs=0.0052)
    assert np.mean([posterior_female(p.cues) for p in people]) == pytest.approx(0.5, abs=0.03)


def test_sample_person_other_traits_are_independent_of_gender():
    n = 4000
    rng = np.random.default_rng(5)
    people = {g: [sample_person(rng, gender=g) for _ in range(n)] for g in GENDERS}
    for field in ("skin_tone", "age", "expression", "hair_colour", "side"):
        shares = [Counter(getattr(p, field) for p in people[g]) for g in GENDERS]
        for value in shares[0] | shares[1]:
            # Difference of two shares of at most a half: standard error 0.0112; four of them.
            assert abs(shares[0][value] - shares[1][value]) / n < 0.045, (field, value)
    tones = Counter(p.skin_tone for p in people["female"])
    assert set(tones) == set(SKIN_TONES)
    assert max(tones.values()) - min(tones.values()) < 0.04 * n


def test_sample_person_attributes_replace_excluded_ones():
    rng = np.random.default_rng(0)
    assert sample_person(rng, occupation="ceo", attributes=("dress",)).attributes == ("dress", "tie")
    assert sample_person(rng, occupation="nurse", attributes=("hat",)).attributes == ("uniform", "hat")
    assert sample_person(rng, attributes=("boots", "jeans")).full_figure
    assert not sample_person(rng, attributes=("tie", "mask")).full_figure


def test_outfits_cover_paper_occupations():
    tables = [
        ("paradox_table_6", "occupation"), ("dalleval_table_13", "profession"),
        ("paired_table_3", "occupation"), ("paired_table_3", "printed_name"), ("paired_table_4", "role"),
    ]  # fmt: skip
    printed = {name for table, column in tables for name in reference.load(table)[column]}
    assert set(OCCUPATIONS) <= printed <= set(OUTFITS)
    for name, value in OUTFITS.items():
        assert value.attire in ATTIRES, name
        assert value.hat is None or value.hat in HATS, name
        assert value.prop in PROPS and value.place in PLACES, name
        assert {value.attire_colour, value.second_colour, value.hat_colour} <= set(COLOURS), name
        assert set(value.attributes) <= set(ATTRIBUTES), name


def test_outfits_of_62_occupations_differ_in_two_respects():
    names = sorted(set(reference.load("paradox_table_6")["occupation"]))
    assert len(names) == 62
    respects = [((v.attire, v.attire_colour), v.hat, v.prop, v.place) for v in map(outfit, names)]
    for (name, a), (other_name, b) in itertools.combinations(zip(names, respects, strict=True), 2):
        assert sum(x != y for x, y in zip(a, b, strict=True)) >= 2, (name, other_name)


def test_cues_only_beard_and_moustache_are_exclusive():
    exclusive = {
        (name, value)
        for name in CUE_NAMES
        for value, female in CUES[name]["female"].items()
        if not 0.03 < female / (female + CUES[name]["male"][value]) < 0.97
    }
    assert exclusive == {("facial_hair", "beard"), ("facial_hair", "moustache")}
    assert CUES["facial_hair"]["male"]["none"] > 0.4
