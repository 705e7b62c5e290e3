"""Triplets of prompts: which captions are neutral, what is swapped, and sentences on professions."""

from __future__ import annotations

import re

import gcc
import pandas as pd
import pytest
from memory_corpus import InMemory

from biaslab import lexicons, reference
from biaslab.captions.indicators import indicators
from biaslab.errors import ParameterError
from biaslab.papers.triplets import prompts as triplet_prompts

FEMININE = {"person": "woman", "people": "women", "Person": "Woman", "PEOPLE": "WOMEN", "PERSON": "WOMAN"}
MASCULINE = {"person": "man", "people": "men", "Person": "Man", "PEOPLE": "MEN", "PERSON": "MAN"}
# Pronouns and adjectives.
NO_PLURAL = {"she", "her", "hers", "herself", "he", "his", "him", "himself", "u", "me", "i", "myself"}
NO_PLURAL |= {"pregnant", "teenage"}


def neutral(*arguments, **options):
    return triplet_prompts.neutral(*arguments, "Ours", progress=False, **options)


def funnel_counts(result):
    return dict(result.funnel[["step", "n_captions"]].itertuples(index=False))


CAPTIONS = [
    "a person rides a horse",
    "A PERSON rides",
    "two people's hats",
    "salesperson with personal peoples",  # neither word
    "a person and a man",
    "people and their kids",  # a plural
    "an African person waits for the player",  # two kinds: the first counts
    "a person rides a horse",  # the same again
    "a people of the north",  # cannot be swapped
    "the person is 'us'",  # u, a pronoun by itself, has no plural
    "Mr. person",
    "Person, brotherly and himalayan",  # no whole word of Table 2
]


def test_neutral_funnel_by_hand():
    result = neutral(InMemory(CAPTIONS), filter="paper")
    assert funnel_counts(result) == {
        "captions": 12,
        "person or people": 11,
        "gender": 10,
        "geography": 9,
        "others": 8,
        "plurals": 7,
        "different": 6,
        "swappable": 5,
        "sampled": 5,
    }
    assert (result.funnel["n_excluded"] == [0, 1, 1, 1, 1, 1, 1, 1, 0]).all()
    assert result.captions["text"].tolist() == [CAPTIONS[i] for i in (0, 1, 2, 9, 11)]
    assert result.captions["caption_id"].is_unique
    excluded_counts = result.words.set_index("word")["n_excluded"]
    assert len(excluded_counts) == 104
    assert excluded_counts[excluded_counts > 0].to_dict() == {"man": 1, "African": 1, "kid": 1, "player": 1, "Mr": 1}
    assert set(result.words["type"]) == {"gender", "geography", "others"}


def brute_force(captions):
    """Return the funnel of the paper's rule, and the neutral captions, caption by caption."""
    words = {word.lower() for word in reference.load("triplets_table_2")["word"]}
    nouns = words - NO_PLURAL
    plurals = {"heroes"} | {form for noun in nouns for form in lexicons.plurals(noun)}
    tokens = [set(re.findall(r"\w+", caption.lower())) for caption in captions]
    rows = [c for c, t in zip(captions, tokens, strict=True) if t & {"person", "people"} and not t & words]
    selection = [c for c in rows if not set(re.findall(r"\w+", c.lower())) & plurals]
    different = list(dict.fromkeys(selection))
    swapped = [c for c in different if not re.search(r"\ban? people\b", c)]
    return (len(rows), len(selection), len(different), len(swapped)), swapped


def test_neutral_funnel_of_gcc_is_exact(root):
    captions = gcc.captions(root)
    (n_words, n_plurals, n_different, n_swappable), expected = brute_force(captions)
    result = neutral(InMemory(captions), filter="paper")
    assert funnel_counts(result)["captions"] == len(captions) == 15_833
    assert funnel_counts(result)["plurals"] == n_plurals == 1_285
    assert funnel_counts(result)["swappable"] == n_swappable == len(result.captions) == 1_166
    assert (funnel_counts(result)["others"], funnel_counts(result)["different"]) == (n_words, n_different)
    assert result.captions["text"].tolist() == expected
    # Each caption excluded for a word of Table 2 contains one.
    assert result.words["n_excluded"].sum() >= funnel_counts(result)["person or people"] - n_plurals


@pytest.mark.long
@pytest.mark.parametrize(("parts", "size"), [(1, 7), (4, 3), (12, 1)])
def test_neutral_ignores_parts_and_batch_size(parts, size):
    captions = [f"a person in room {i % 30}" for i in range(60)] + CAPTIONS
    both = InMemory(captions), InMemory(captions, parts, size)
    whole, parted = (neutral(corpus) for corpus in both)
    some, same = (neutral(corpus, sample=9, seed=4) for corpus in both)
    for one, other in zip([*whole, *some], [*parted, *same], strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert len(some.captions) == 9 and set(some.captions["text"]) <= set(whole.captions["text"])
    assert funnel_counts(some)["sampled"] == 9 and funnel_counts(some)["depicted"] == funnel_counts(whole)["sampled"]
    # The texts are in the corpus's order.
    order = whole.captions["text"].tolist()
    assert some.captions["text"].tolist() == sorted(some.captions["text"], key=order.index)


@pytest.mark.long
def test_neutral_sample_depends_on_seed_only():
    captions = [f"a person in room {i}" for i in range(100)]
    arguments = (captions, 5), (captions[::-1], 5), (captions, 6)
    plain, shuffled, other = (set(neutral(InMemory(c), sample=20, seed=seed).captions["text"]) for c, seed in arguments)
    assert plain == shuffled != other and len(plain) == 20


def test_neutral_without_matches_is_empty():
    for captions in ([], ["a dog", "a man and a person"]):
        result = neutral(InMemory(captions))
        assert (
            result.captions.empty
            and funnel_counts(result)["sampled"] == 0
            and funnel_counts(result)["captions"] == len(captions)
        )
        prompts = triplet_prompts.triplets(result.captions, "Ours")
        assert prompts.empty and "noise_id" in prompts


def test_neutral_default_filter_excludes_indicators(tmp_path):
    captions = [
        "person performs on stage",
        "person performs with female dancer of note",  # a word of Table 2
        "a person in a gents' hat",  # an indicator beyond it
        "painting by person",
        "people ride with a businessman",
    ]
    assert funnel_counts(neutral(InMemory(captions)))["no indicator"] == 3
    assert neutral(InMemory(captions)).captions["text"].tolist() == captions[:1]
    assert len(neutral(InMemory(captions), filter="paper").captions) == 4


# -- swaps ---------------------------------------------------------------------------------------------------

SWAPS = {
    "a person rides": ("a woman rides", "a man rides"),
    "Person 's hat, the person's": ("Woman 's hat, the woman's", "Man 's hat, the man's"),
    "PEOPLE and people’s": ("WOMEN and women’s", "MEN and men’s"),
    "personal people, salesperson, 3d-person": (
        "personal women, salesperson, 3d-woman",
        "personal men, salesperson, 3d-man",
    ),
    "person who lost their way": ("woman who lost their way", "man who lost their way"),
    "İ café ſ person": ("İ café ſ woman", "İ café ſ man"),
}


@pytest.mark.parametrize("text", SWAPS)
def test_triplets_swap_gendered_words(text):
    prompts = triplet_prompts.triplets(pd.DataFrame({"text": [text]}), "GCC (val)", seeds=5)
    assert prompts["prompt_gender"].tolist() == ["neutral", "feminine", "masculine"]
    assert prompts["text"].tolist() == [text, *SWAPS[text]]
    assert prompts["prompt_id"].is_unique and prompts["triplet_id"].nunique() == prompts["noise_id"].nunique() == 1
    assert (prompts["n_images"] == 5).all() and (prompts["dataset"] == "GCC (val)").all()


def common_text(row):
    """Return a prompt without the words that differ."""
    text = row.text
    for span in reversed(row.spans.split(";")):
        start, end = map(int, span.split(":"))
        text = text[:start] + "\0" + text[end:]
    return text


def swapped_words(row):
    return [row.text[int(s) : int(e)] for s, e in (span.split(":") for span in row.spans.split(";"))]


def test_triplets_placebo_uses_individual_with_article():
    texts = ["a person and A PERSON", "Two people", "A Person's hat on an old person", "people of a  person"]
    prompts = triplet_prompts.triplets(pd.DataFrame({"text": texts}), "GCC", placebo=True)
    assert prompts["prompt_gender"].tolist() == [*triplet_prompts.MEMBERS, "placebo"] * len(texts)
    result = prompts[prompts["prompt_gender"] == "placebo"]
    assert result["text"].tolist() == [
        "an individual and AN INDIVIDUAL",
        "Two individuals",
        "An Individual's hat on an old individual",
        "individuals of an  individual",
    ]
    assert all(
        {word.lower() for word in swapped_words(row)} <= {"individual", "individuals"} for row in result.itertuples()
    )
    # The other three are those of triplets without a placebo.
    plain = triplet_prompts.triplets(pd.DataFrame({"text": texts}), "GCC")
    pd.testing.assert_frame_equal(prompts.drop(result.index).reset_index(drop=True), plain)
    profession_prompts = triplet_prompts.professions(3, seed=2, placebo=True)
    added = profession_prompts[profession_prompts["prompt_gender"] == "placebo"]
    assert len(added) == len(profession_prompts) / 4 and added["text"].str.match("An individual ").all()
    assert (added["spans"] == "3:13").all() and profession_prompts["profession"].ne("").all()


@pytest.mark.long
def test_triplets_members_differ_in_swapped_words(root):
    captions = neutral(InMemory(gcc.captions(root)), filter="paper").captions
    prompts = triplet_prompts.triplets(captions, "GCC")
    assert len(prompts) == 3 * 1_166 and prompts["prompt_id"].is_unique
    for _, members in prompts.groupby("triplet_id", sort=False):
        assert len({common_text(row) for row in members.itertuples()}) == 1
    # By another method: a swap of the whole file, word by word.
    for gender, words in (("feminine", FEMININE), ("masculine", MASCULINE)):
        texts = prompts.loc[prompts["prompt_gender"] == gender, "text"].tolist()
        assert texts == [re.sub(r"\b(?:person|people)\b", lambda m: words[m[0]], text) for text in captions["text"]]  # noqa: B023


def test_triplets_ids_depend_on_neutral_text():
    twice = pd.DataFrame({"text": ["a person", "a person", "a person "]})
    prompts = triplet_prompts.triplets(twice, "X")
    assert prompts["triplet_id"].nunique() == 2 and len(prompts) == 6
    assert set(prompts["triplet_id"]) == set(triplet_prompts.triplets(twice[::-1], "Y")["triplet_id"])
    # The same text in two datasets has one noise, but two prompts.
    both = pd.concat([prompts, triplet_prompts.triplets(twice, "Y")])
    assert both["prompt_id"].is_unique and both["noise_id"].nunique() == 2
    for text, why in {"a dog": "contains neither", "a people": "no counterpart"}.items():
        with pytest.raises(ParameterError, match=why):
            triplet_prompts.triplets(pd.DataFrame({"text": [text]}), "X")


# -- professions ---------------------------------------------------------------------------------------------


def test_sentences_match_professions_of_table_3():
    table, sentences = reference.load("triplets_table_3"), triplet_prompts.sentences()
    assert len(sentences) == sentences["text"].nunique() == 811
    profession_rows = sentences[["topic", "profession"]].drop_duplicates().reset_index(drop=True)
    pd.testing.assert_frame_equal(profession_rows, table[["topic", "profession"]], check_dtype=False)
    counts = sentences.groupby(["topic", "profession"]).size().value_counts().to_dict()
    assert counts == {3: 171, 2: 149}
    for row in sentences.itertuples():
        article, rest = row.text.split(" ", 1)
        assert rest.lower().startswith(row.profession.lower() + " ")
        assert article == lexicons.article(rest).capitalize()
        assert row.text.endswith(".") and not re.search(r"\b(person|people|woman|man)\b", row.text)
    # They state no gender, by words or by names.
    assert (indicators(sentences["text"])["indicator"] == "none").all()
    gender = set(reference.load("triplets_table_2").query("type == 'gender'")["word"])
    gender |= set(lexicons.load("gendered_nouns"))
    assert not any(gender & set(re.findall(r"\w+", text)) for text in sentences["text"])


def test_professions_prefix_gender_words():
    prompts = triplet_prompts.professions(seeds=2)
    assert len(prompts) == 3 * 811 and prompts["prompt_id"].is_unique and (prompts["dataset"] == "Profession").all()
    ecologist = prompts[prompts["profession"] == "Ecologist"]["text"].tolist()[:3]
    rest = "ecologist studies moss in a lush green forest."
    assert ecologist == [f"An {rest}", f"A female {rest}", f"A male {rest}"]
    printed = triplet_prompts.professions(article="as_printed")
    assert printed[printed["profession"] == "Ecologist"]["text"].tolist()[1] == f"An female {rest}"
    for frame, fitting in ((prompts, "A"), (printed, "")):
        for _, rows in frame.groupby("triplet_id"):
            plain, *others = rows.itertuples()
            article, _, rest = plain.text.partition(" ")
            assert plain.spans == ""
            for row, prefix in zip(others, ("female", "male"), strict=True):
                assert row.text == f"{fitting or article} {prefix} {rest}" and swapped_words(row) == [prefix]


def test_professions_subset_is_sampled_by_seed():
    some = triplet_prompts.professions(7, seed=3)
    whole = triplet_prompts.professions()
    assert some[["topic", "profession"]].drop_duplicates().shape[0] == 7
    selection = whole.merge(some[["topic", "profession"]].drop_duplicates())
    pd.testing.assert_frame_equal(some, selection)
    assert triplet_prompts.professions(7, seed=3)["text"].equals(some["text"])
    assert set(triplet_prompts.professions(7, seed=4)["profession"]) != set(some["profession"])
