"""People of DALL-Eval's social prompts: drawn shares match published values."""

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
    """Return whether the number of hits has a p-value above 1e-4 for this probability of each."""
    hits = list(hits)
    if share in (0, 1):
        return sum(hits) == share * len(hits)
    return stats.binomtest(sum(hits), len(hits), share).pvalue > 1e-4


def shown_as_said(renders) -> list[Person]:
    """Return the person of each image, after checking gender, skin tone and attributes in the table."""
    people_shown = []
    for row in renders.table.itertuples():
        (person,) = renders.scene(row.image_id).people
        assert (person.gender, person.skin_tone) == (row.truth_gender, row.truth_skin_tone)
        assert ";".join(person.attributes) == row.truth_attributes
        people_shown.append(person)
    return people_shown


# -- people ------------------------------------------------------------------------------------------------


def test_probability_female_matches_published_professions():
    printed = pd.concat([reference.load("dalleval_table_16"), reference.load("dalleval_table_17")])
    printed = printed[(printed["model"] == "Stable Diffusion") & (printed["kind"] == "profession")]
    averages = dict(zip(printed["profession"].str.casefold(), printed["value"], strict=True))
    assert len(prompts.professions()) == len(averages) == 83
    for name in prompts.professions():
        assert social.probability_female("person", name) == pytest.approx((1 + averages[name.casefold()]) / 2)
        assert social.probability_female("person", name.upper()) == social.probability_female("person", name)


@pytest.mark.parametrize("profession", [BARE, "nurse"])
def test_social_scene_gendered_prompt_fixes_gender(profession):
    for word, gender in social.GENDERED.items():
        assert social.probability_female(word, profession) == (gender == "female")
        assert {p.gender for p in people(50, 1, prompt=word, profession=profession)} == {gender}
    with pytest.raises(UnknownNameError, match=r"'acountant'.*'accountant'"):
        people(1, 1, profession="acountant")


@pytest.mark.parametrize("profession", [BARE, "juggler", "nurse"])
def test_social_scene_draws_women_with_given_probability(profession):
    sampled = people(2000, 2, profession=profession)
    share = 0.5 if profession == BARE else social.probability_female("person", profession)
    assert fits((p.gender == "female" for p in sampled), share)
    expected = None if profession == BARE else profession
    assert {p.occupation for p in sampled} == {expected}


# -- what they wear ----------------------------------------------------------------------------------------

TOPS = ("suit", "shirt", "uniform", "jacket", "dress")


@pytest.mark.parametrize(("word", "gender"), [("woman", "female"), ("man", "male")])
def test_presence_matches_published_values(word, gender):
    table = reference.load("dalleval_table_22").query(
        "model == 'Stable Diffusion' and kind == 'attribute' and prompt_gender == @word"
    )
    printed = dict(zip(table["attribute"], table["presence"], strict=True))
    presence = social.presence()[gender]
    assert presence.keys() == printed.keys() <= set(prompts.ATTRIBUTES)
    for name, value in printed.items():
        assert presence[name] == pytest.approx(value * (0.6 if name in TOPS else 1))
    # Of what excludes each other there is never more than one in all.
    assert sum(presence[name] for name in TOPS) < 1 and presence["slacks"] + presence["skirt"] < 1


@pytest.mark.parametrize(("word", "gender"), [("woman", "female"), ("man", "male")])
def test_social_scene_attributes_follow_presence(word, gender):
    sampled, presence = people(3000, 3, prompt=word), social.presence()[gender]
    # People without clothes for the upper body wear casual ones, all equally often: 3 of 8 are shirts, 1 is a jacket.
    casual = 1 - sum(presence[name] for name in TOPS)
    assert [kind for kind, *_ in CASUAL].count("jacket") == 1 and len(CASUAL) == 8
    shares = {
        **{name: presence[name] for name in ("suit", "uniform", "dress", "hat", "tie", "mask", "gloves")},
        "shirt": presence["shirt"] + casual * 3 / 8,
        "jacket": presence["jacket"] + casual * 1 / 8,
        # A dress leaves no room below.
        **{name: presence[name] * (1 - presence["dress"]) for name in ("slacks", "skirt")},
        **dict.fromkeys(("boots", "slippers", "jeans", "shorts"), 0),
    }
    assert shares.keys() == prompts.ATTRIBUTES.keys()
    for name, share in shares.items():
        assert fits((name in p.attributes for p in sampled), share), name
    assert all(sum(name in p.attributes for name in TOPS) <= 1 for p in sampled)
    assert not any({"dress", "skirt"} <= set(p.attributes) for p in sampled)


# With what probability one of each group is worn where attributes are even, each of it as often.
EVEN = (
    (0.75, TOPS),
    (0.35, ("jeans", "shorts", "slacks", "skirt")),
    (0.25, ("boots", "slippers")),
    *[(0.3, ("hat",)), (0.35, ("tie",)), (0.15, ("mask",)), (0.25, ("gloves",))],
)


def test_balanced_scene_attributes_are_independent_of_gender(monkeypatch):
    attributes_drawn, sample_scene, rng = [], social.sample_scene, np.random.default_rng(5)

    def record(rng, **options):
        attributes_drawn.append(options["attributes"][0])
        return sample_scene(rng, **options)

    monkeypatch.setattr(social, "sample_scene", record)
    rows = [{"profession": BARE}, {"profession": "juggler"}, {"profession": "nurse"}]
    sampled = [social.balanced_scene(rng, rows).people[0] for _ in range(3000)]
    women = np.array([p.gender == "female" for p in sampled])
    assert fits(women, 0.5)
    for name in (None, "juggler", "nurse"):
        in_profession = np.array([p.occupation == name for p in sampled])
        assert fits(in_profession, 1 / 3) and fits(women[in_profession], 0.5)
    no_dress = 1 - 0.75 / 5
    for share, names in EVEN:
        for name in names:
            worn = np.array([name in names_drawn for names_drawn in attributes_drawn])
            # A dress, one of five tops, leaves no room for what is worn below.
            expected = share / len(names) * (no_dress if name in ("jeans", "shorts", "slacks", "skirt") else 1)
            assert fits(worn, expected), name
            assert fits(women[worn], 0.5), name
            for profession in (None, "juggler", "nurse"):
                assert fits(worn[np.array([p.occupation == profession for p in sampled])], expected), name
    assert {name for names_drawn in attributes_drawn for name in names_drawn} == set(prompts.ATTRIBUTES)
    for names_drawn, person in zip(attributes_drawn, sampled, strict=True):
        assert all(sum(name in names for name in names_drawn) <= 1 for _, names in EVEN)
        assert "dress" not in names_drawn or not {"jeans", "shorts", "slacks", "skirt"} & set(names_drawn)
        assert set(names_drawn) <= set(person.attributes)


def test_balanced_table_matches_scenes():
    prompt_rows = prompts.social()
    renders = social.balanced(prompt_rows, 600, seed=3)
    table, people_shown = renders.table, shown_as_said(renders)
    # The prompt columns are empty.
    assert len(table) == 600 and set(table["prompt"]) == set(table["profession"]) == {""}
    assert fits(table["truth_gender"] == "female", 0.5)
    # One of 83 professions, or none: three of 252 prompts.
    professions = pd.Series([(person.occupation or BARE).casefold() for person in people_shown])
    assert set(professions) <= set(prompt_rows["profession"].str.casefold()) and professions.nunique() > 70
    assert social.balanced(prompt_rows, 0, seed=3).table.empty


# -- skin tones --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tones", "weights"),
    [
        ("uniform", [1] * 10),
        # Three times as often at one end, equal steps of 2/9 between.
        ("skewed", [3 - 2 * k / 9 for k in range(10)]),
    ],
)
def test_social_scene_skin_tones_follow_distribution(tones, weights):
    sampled = people(3000, 6, tones=tones)
    counts = np.bincount([p.skin_tone for p in sampled], minlength=11)[1:]
    assert counts.sum() == 3000
    expected = 3000 * np.array(weights) / math.fsum(weights)
    assert stats.chisquare(counts, expected).pvalue > 1e-4


# -- images ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prompt_rows():
    table = prompts.social(3)
    return table[table["profession"].isin([BARE, "nurse", "juggler", "tv presenter"])]


def test_generate_table_matches_scenes(prompt_rows):
    renders = social.generate(prompt_rows, seed=1)
    table = renders.table
    assert len(prompt_rows) == 12 and len(table) == 36
    assert (table["image_id"] == table["prompt_id"] + "/" + table["index"].astype(str)).all()
    assert sorted(set(table["index"])) == [0, 1, 2] and set(table["seed"]) == {1}
    prompts_by_id = prompt_rows.set_index("prompt_id")
    for row, person in zip(table.itertuples(), shown_as_said(renders), strict=True):
        word, profession = prompts_by_id.loc[row.prompt_id, ["prompt", "profession"]]
        assert (person.occupation or BARE).casefold() == profession.casefold()
        assert row.truth_gender == social.GENDERED.get(word, row.truth_gender)
    assert social.generate(prompt_rows, seed=1, size=48).read(table["image_id"][:1])[0].shape == (48, 48, 3)


def test_generate_image_depends_on_seed_prompt_and_index(prompt_rows):
    renders = social.generate(prompt_rows, seed=7)
    more_renders = social.generate(prompts.social(5).sample(frac=0.5, random_state=1).assign(n_images=5), seed=7)
    truths = ["truth_gender", "truth_skin_tone", "truth_attributes"]
    a, b = (images.table.set_index("image_id")[truths] for images in (renders, more_renders))
    common = a.index.intersection(b.index)
    assert len(common) >= 9
    pd.testing.assert_frame_equal(a.loc[common], b.loc[common])
    variants = [social.generate(prompt_rows, seed=8), social.generate(prompt_rows, seed=7, tones="skewed")]
    assert len({images.digest for images in (renders, more_renders, *variants)}) == 4
    # So do drawings without a prompt, which have distinct digests.
    fewer_drawings, drawings, other_seed = (
        social.balanced(prompt_rows, n, seed=seed) for n, seed in ((20, 1), (30, 1), (20, 2))
    )
    pd.testing.assert_frame_equal(fewer_drawings.table, drawings.table.iloc[:20])
    assert len({images.digest for images in (fewer_drawings, drawings, other_seed)}) == 3
