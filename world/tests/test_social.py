"""People of DALL-Eval's social prompts: the printed shares are those of what is drawn."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from biaslab import reference
from biaslab.errors import UnknownNameError
from biaslab.papers.dalleval import prompts
from biaslab_world import social
from biaslab_world.looks import CASUAL
from biaslab_world.scene import Person

BARE = "(none)"


def people(n, seed, *, prompt="person", profession=BARE, **options) -> list[Person]:
    rng, row = np.random.default_rng(seed), {"prompt": prompt, "profession": profession}
    return [social.social_scene(rng, row, **options).people[0] for _ in range(n)]


def fits(hits, share) -> bool:
    """Return whether as many hits come once in ten thousand times or more, where each has this chance."""
    hits = list(hits)
    if share in (0, 1):
        return sum(hits) == share * len(hits)
    return stats.binomtest(sum(hits), len(hits), share).pvalue > 1e-4


def shown_as_said(made) -> list[Person]:
    """Return who is on each image, of whom a table says gender, skin tone and attributes as they are."""
    shown = []
    for row in made.table.itertuples():
        (person,) = made.scene(row.image_id).people
        assert (person.gender, person.skin_tone) == (row.truth_gender, row.truth_skin_tone)
        assert ";".join(person.attributes) == row.truth_attributes
        shown.append(person)
    return shown


# -- who is shown ------------------------------------------------------------------------------------------


def test_all_professions_have_the_share_of_the_printed_tables():
    printed = pd.concat([reference.load("dalleval_table_16"), reference.load("dalleval_table_17")])
    printed = printed[(printed["model"] == "Stable Diffusion") & (printed["kind"] == "profession")]
    averages = dict(zip(printed["profession"].str.casefold(), printed["value"], strict=True))
    assert len(prompts.professions()) == len(averages) == 83
    for name in prompts.professions():
        assert social.probability_female("person", name) == pytest.approx((1 + averages[name.casefold()]) / 2)
        assert social.probability_female("person", name.upper()) == social.probability_female("person", name)


@pytest.mark.parametrize("profession", [BARE, "nurse"])
def test_a_word_for_a_gender_decides(profession):
    for word, gender in social.GENDERED.items():
        assert social.probability_female(word, profession) == (gender == "female")
        assert {p.gender for p in people(50, 1, prompt=word, profession=profession)} == {gender}
    with pytest.raises(UnknownNameError, match=r"'acountant'.*'accountant'"):
        people(1, 1, profession="acountant")


@pytest.mark.parametrize("profession", [BARE, "juggler", "nurse"])
def test_women_are_drawn_with_that_share(profession):
    some = people(2000, 2, profession=profession)
    share = 0.5 if profession == BARE else social.probability_female("person", profession)
    assert fits((p.gender == "female" for p in some), share)
    expected = None if profession == BARE else profession
    assert {p.occupation for p in some} == {expected}


# -- what they wear ----------------------------------------------------------------------------------------

TOPS = ("suit", "shirt", "uniform", "jacket", "dress")


@pytest.mark.parametrize(("word", "gender"), [("woman", "female"), ("man", "male")])
def test_presences_are_the_printed_ones(word, gender):
    table = reference.load("dalleval_table_22").query(
        "model == 'Stable Diffusion' and kind == 'attribute' and prompt_gender == @word"
    )
    printed = dict(zip(table["attribute"], table["presence"], strict=True))
    found = social.presence()[gender]
    assert found.keys() == printed.keys() <= set(prompts.ATTRIBUTES)
    for name, value in printed.items():
        assert found[name] == pytest.approx(value * (0.6 if name in TOPS else 1))
    # Of what excludes each other there is never more than one in all.
    assert sum(found[name] for name in TOPS) < 1 and found["slacks"] + found["skirt"] < 1


@pytest.mark.parametrize(("word", "gender"), [("woman", "female"), ("man", "male")])
def test_attributes_are_worn_with_those_shares(word, gender):
    some, given = people(3000, 3, prompt=word), social.presence()[gender]
    # Who is given nothing for the upper body wears everyday clothes, each as often: 3 of 8 are shirts, 1 is a jacket.
    left = 1 - sum(given[name] for name in TOPS)
    assert [kind for kind, *_ in CASUAL].count("jacket") == 1 and len(CASUAL) == 8
    shares = {
        **{name: given[name] for name in ("suit", "uniform", "dress", "hat", "tie", "mask", "gloves")},
        "shirt": given["shirt"] + left * 3 / 8,
        "jacket": given["jacket"] + left * 1 / 8,
        # A dress leaves no room below.
        **{name: given[name] * (1 - given["dress"]) for name in ("slacks", "skirt")},
        **dict.fromkeys(("boots", "slippers", "jeans", "shorts"), 0),
    }
    assert shares.keys() == prompts.ATTRIBUTES.keys()
    for name, share in shares.items():
        assert fits((name in p.attributes for p in some), share), name
    assert all(sum(name in p.attributes for name in TOPS) <= 1 for p in some)
    assert not any({"dress", "skirt"} <= set(p.attributes) for p in some)


# With what probability one of each group is worn where attributes are even, each of it as often.
EVEN = (
    (0.75, TOPS),
    (0.35, ("jeans", "shorts", "slacks", "skirt")),
    (0.25, ("boots", "slippers")),
    *[(0.3, ("hat",)), (0.35, ("tie",)), (0.15, ("mask",)), (0.25, ("gloves",))],
)


def test_what_a_balanced_scene_wears_says_nothing_of_gender_or_profession(monkeypatch):
    asked, own, rng = [], social.sample_scene, np.random.default_rng(5)

    def noted(rng, **options):
        asked.append(options["attributes"][0])
        return own(rng, **options)

    monkeypatch.setattr(social, "sample_scene", noted)
    rows = [{"profession": BARE}, {"profession": "juggler"}, {"profession": "nurse"}]
    some = [social.balanced_scene(rng, rows).people[0] for _ in range(3000)]
    women = np.array([p.gender == "female" for p in some])
    assert fits(women, 0.5)
    for name in (None, "juggler", "nurse"):
        of = np.array([p.occupation == name for p in some])
        assert fits(of, 1 / 3) and fits(women[of], 0.5)
    no_dress = 1 - 0.75 / 5
    for share, names in EVEN:
        for name in names:
            worn = np.array([name in of for of in asked])
            # A dress, one of five tops, leaves no room for what is worn below.
            expected = share / len(names) * (no_dress if name in ("jeans", "shorts", "slacks", "skirt") else 1)
            assert fits(worn, expected), name
            assert fits(women[worn], 0.5), name
            for profession in (None, "juggler", "nurse"):
                assert fits(worn[np.array([p.occupation == profession for p in some])], expected), name
    assert {name for of in asked for name in of} == set(prompts.ATTRIBUTES)
    for of, person in zip(asked, some, strict=True):
        assert all(sum(name in names for name in of) <= 1 for _, names in EVEN)
        assert "dress" not in of or not {"jeans", "shorts", "slacks", "skirt"} & set(of)
        assert set(of) <= set(person.attributes)


def test_drawings_say_who_they_show():
    asked = prompts.social()
    made = social.balanced(asked, 600, seed=3)
    table, shown = made.table, shown_as_said(made)
    # Nothing was asked for that tells anything of them.
    assert len(table) == 600 and set(table["prompt"]) == set(table["profession"]) == {""}
    assert fits(table["truth_gender"] == "female", 0.5)
    # One of 83 professions, or none: three of 252 prompts.
    professions = pd.Series([(person.occupation or BARE).casefold() for person in shown])
    assert set(professions) <= set(asked["profession"].str.casefold()) and professions.nunique() > 70
    assert social.balanced(asked, 0, seed=3).table.empty


# -- skin tones --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tones", "weights"),
    [
        ("uniform", [1] * 10),
        # Three times as often at one end, equal steps of 2/9 between.
        ("skewed", [3 - 2 * k / 9 for k in range(10)]),
    ],
)
def test_tones_have_their_distribution(tones, weights):
    some = people(3000, 6, tones=tones)
    counts = np.bincount([p.skin_tone for p in some], minlength=11)[1:]
    assert counts.sum() == 3000
    expected = 3000 * np.array(weights) / math.fsum(weights)
    assert stats.chisquare(counts, expected).pvalue > 1e-4


# -- images ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked():
    table = prompts.social(3)
    return table[table["profession"].isin([BARE, "nurse", "juggler", "tv presenter"])]


def test_the_table_says_what_is_shown(asked):
    made = social.generate(asked, seed=1)
    table = made.table
    assert len(asked) == 12 and len(table) == 36
    assert (table["image_id"] == table["prompt_id"] + "/" + table["index"].astype(str)).all()
    assert sorted(set(table["index"])) == [0, 1, 2] and set(table["seed"]) == {1}
    of = asked.set_index("prompt_id")
    for row, person in zip(table.itertuples(), shown_as_said(made), strict=True):
        word, profession = of.loc[row.prompt_id, ["prompt", "profession"]]
        assert (person.occupation or BARE).casefold() == profession.casefold()
        assert row.truth_gender == social.GENDERED.get(word, row.truth_gender)
    assert social.generate(asked, seed=1, size=48).read(table["image_id"][:1])[0].shape == (48, 48, 3)


def test_an_image_depends_on_seed_prompt_and_number_only(asked):
    first = social.generate(asked, seed=7)
    more = social.generate(prompts.social(5).sample(frac=0.5, random_state=1).assign(n_images=5), seed=7)
    truths = ["truth_gender", "truth_skin_tone", "truth_attributes"]
    a, b = (made.table.set_index("image_id")[truths] for made in (first, more))
    both = a.index.intersection(b.index)
    assert len(both) >= 9
    pd.testing.assert_frame_equal(a.loc[both], b.loc[both])
    others = [social.generate(asked, seed=8), social.generate(asked, seed=7, tones="skewed")]
    assert len({made.digest for made in (first, more, *others)}) == 4
    # So do drawings without a prompt, which are told apart by their digests.
    few, many, other = (social.balanced(asked, n, seed=seed) for n, seed in ((20, 1), (30, 1), (20, 2)))
    pd.testing.assert_frame_equal(few.table, many.table.iloc[:20])
    assert len({made.digest for made in (few, many, other)}) == 3
