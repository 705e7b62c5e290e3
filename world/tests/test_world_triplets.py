"""The synthetic world of triplets: its captions, associations, scenes and masks."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from biaslab.captions.corpus import open_corpus
from biaslab.errors import InputError, UnknownNameError
from biaslab.metrics import instances
from biaslab.papers.triplets import prompts
from biaslab_world import triplets, truthful


def test_write_and_parse_round_trip():
    for i in range(300):
        prompt, person = triplets.draw(4, i)
        text = triplets.write(prompt, person)
        assert triplets.parse(text) == prompt
        assert triplets.parse(f"A photo of {text}.".replace("A photo of a ", "A photo of the ")) == prompt


def test_parse_and_nouns_match_hand_example():
    text = "a woman reading in the kitchen with an umbrella and a dog, wearing a hat, talking about music"
    assert triplets.parse(text) == triplets.TripletPrompt(
        "reading", "kitchen", ("umbrella", "dog", "hat"), ("music",), "female"
    )
    assert triplets.nouns(text) == ["woman", "kitchen", "umbrella", "dog", "hat", "music"]
    assert triplets.parse("an individual waiting at home, wearing gloves").gender == ""


@pytest.mark.parametrize("text", ["a woman reading in the sea", "a dog with a person", "", "a person"])
def test_parse_unknown_form_is_refused(text):
    for reader in (triplets.parse, triplets.nouns):
        with pytest.raises(InputError, match="cannot read"):
            reader(text)


def test_shares_follow_planted_associations():
    for worn, names in ((False, triplets.THINGS), (True, triplets.WORN)):
        for activity in triplets.ACTIVITIES:
            female, male = (triplets.shares(activity, g, worn=worn) for g in ("female", "male"))
            assert math.isclose(sum(female.values()), 1) and math.isclose(sum(male.values()), 1)
            a, b = names[0], names[1]
            ratio = math.log((male[b] / male[a]) / (female[b] / female[a]))
            assert math.isclose(ratio, triplets.association(b) - triplets.association(a))
            unbiased_shares = triplets.shares(activity, "female", "off", worn=worn)
            assert unbiased_shares == triplets.shares(activity, "male", "off", worn=worn)


@pytest.mark.long
@pytest.mark.parametrize("skew", triplets.SKEWS)
def test_generated_objects_match_expected_counts(skew):
    n = 1500
    texts = [f"a {person} cooking with a dog" for person in ("person", "woman", "man")]
    prompts = pd.DataFrame({"prompt_id": ["p0", "p1", "p2"], "text": texts, "n_images": n})
    renders = triplets.generate(prompts, seed=3, skew=skew)
    counts: dict[str, Counter] = {key: Counter() for key in prompts["prompt_id"]}
    for image_id, key in zip(renders.table["image_id"], renders.table["prompt_id"], strict=True):
        scene = renders.scene(image_id)
        counts[key].update(map(triplets.name_of, scene.things))
        counts[key].update(scene.people[0].attributes)
    for row in triplets.expected(prompts, skew).itertuples():
        # Counts of an image are at most 2: five standard errors of a Poisson count are ample.
        error = 5 * math.sqrt(max(row.expected, 1 / n) / n)
        assert abs(counts[row.prompt_id][row.object] / n - row.expected) < error, row
    female_shares = renders.table.groupby("prompt_id")["truth_gender"].agg(lambda genders: (genders == "female").mean())
    share = triplets.SKEWS[skew][1]
    assert female_shares["p1"] == 1 and female_shares["p2"] == 0
    assert abs(female_shares["p0"] - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_generate_triplet_shares_random_numbers():
    """Gender-independent properties are equal in the three: the place, the light, the positions of objects."""
    prompt, _ = triplets.draw(0, 5)
    captions = pd.DataFrame({"text": [triplets.write(prompt, "person")], "caption_id": ["c"]})
    rows = prompts.triplets(captions, "d", seeds=4)
    renders = triplets.generate(rows, seed=1)
    scenes = {key: [renders.scene(f"{key}/{k}") for k in range(4)] for key in rows["prompt_id"]}
    first, *others = scenes.values()
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert (a.place, a.light, a.seed) == (b.place, b.light, b.seed)
            assert (a.people[0].skin_tone, a.people[0].age) == (b.people[0].skin_tone, b.people[0].age)
    # With the gender the person shown is the same, too.
    by_gender = {s.people[0].gender: s for s in (scenes[key][0] for key in rows["prompt_id"])}
    assert set(by_gender) == {"female", "male"}
    neutral = first[0]
    assert neutral == by_gender[neutral.people[0].gender]


def test_masks_cover_image_and_match_instances():
    for i in range(30):
        prompt, _ = triplets.draw(6, i)
        scene = triplets.build_scene(prompt, np.random.default_rng(i))
        masks = triplets.masks(scene)
        assert np.logical_or.reduce([mask for _, mask in masks]).all()
        worn = [mask for name, mask in masks if name in triplets.WORN]
        assert not any((mask & masks[0][1]).any() for mask in worn)
        rows = triplets.instances(scene, "x")
        assert list(rows["object"]) == [name for name, _ in masks]
        decoded = instances.masks(rows)
        for row, (_, mask), decoded_mask in zip(rows.itertuples(), masks, decoded, strict=True):
            assert (decoded_mask == mask).all()
            ys, xs = np.nonzero(mask)
            assert (row.left, row.bottom) == (xs.min() / 64, (ys.max() + 1) / 64)


def test_word_masks_match_masks_of_objects():
    text = "a woman cooking in the bar with a globe, wearing a mask, talking about money"
    scene = triplets.build_scene(triplets.parse(text), np.random.default_rng(1))
    visible, words = dict(triplets.masks(scene)), triplets.word_masks(scene, text)
    assert (words["globe"] == visible["globe"]).all() and (words["mask"] == visible["mask"]).all()
    for word in ("woman", "cooking", "money", "wearing"):
        assert (words[word] == (visible["person"] | visible["mask"])).all()
    assert words["bar"].sum() < 0.7 * visible["bar"].sum() and not words["bar"][16:].any()
    assert set(words) >= set(triplets.nouns(text))


def test_planted_groups_match_hand_example():
    text = "a person resting in the hall with a bike, wearing a hat"
    groups = triplets.planted_groups(text, ["person", "bike", "dog", "hat", "tie", "hall", "lab"])
    assert groups == [
        "explicitly_guided", "explicitly_guided", "implicitly_independent", "explicitly_guided", "implicitly_guided",
        "explicitly_independent", "implicitly_independent",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="spoon"):
        triplets.planted_groups(text, ["spoon"])


def test_depictions_corpus_is_reproducible():
    corpus = open_corpus("depictions", max_captions=500, seed=2)
    rows = next(corpus.batches(200))
    assert len(rows) == 200 and rows["caption_id"].is_unique
    assert rows["text"].iloc[7] == triplets.write(*triplets.draw(truthful.HELD_OUT + 2, 7))
    assert sum(map(len, corpus.batches(200))) == 500
    selection = prompts.neutral(corpus, "depictions", progress=False)
    texts = pd.concat(corpus.batches())["text"]
    neutral = {text for text in texts if " person " in f" {text} "}
    assert set(selection.captions["text"]) == neutral
    assert corpus.digest != open_corpus("depictions", max_captions=500, seed=2, synthetic_bias="off").digest
