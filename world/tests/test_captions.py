from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError, UnknownNameError
from biaslab_world import art, looks
from biaslab_world import captions as c
from biaslab_world.world import SKEWS, occupations, truth_table

# Gender words and pronouns of the paradox paper, A.5.
FEMALE = "female woman lady girl she her hers herself".split()  # noqa: SIM905
MALE = "male man gent gentleman boy he him his himself".split()  # noqa: SIM905
ROWS = 50_000


@pytest.fixture(scope="module")
def corpus() -> c.Corpus:
    return c.Corpus(rows=ROWS, seed=11)


@pytest.fixture(scope="module")
def table(corpus) -> pd.DataFrame:
    return pd.concat(list(corpus.batches()), ignore_index=True)


def indicator_of(text: str) -> str:
    """The indicator by the plainest rule: the paper's words and the first names, as whole words."""
    found_words = set(re.findall(r"\w+", text.lower()))
    female = bool(found_words & {*FEMALE, *(n.lower() for n in c.FIRST_NAMES["female"])})
    male = bool(found_words & {*MALE, *(n.lower() for n in c.FIRST_NAMES["male"])})
    return "both" if female and male else "female" if female else "male" if male else "none"


def test_truth_indicators_match_words(table):
    indicators = table["text"].map(indicator_of)
    mismatches = table[indicators != table["truth_indicator"]]
    assert mismatches.empty, mismatches[["text", "truth_indicator"]].head().to_string()
    single = table[table["truth_indicator"].isin(["female", "male"])]
    assert (single["truth_indicator"] == single["truth_gender"]).all()


def test_captions_name_only_their_occupation(table):
    names = sorted(occupations(), key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})s?\b", re.IGNORECASE)
    for text, occupation in zip(table["text"], table["truth_occupation"], strict=True):
        names_found = {name.lower() for name in pattern.findall(text)}
        assert names_found == ({occupation} if occupation else set()), text


def test_caption_frequencies_follow_truth_table(table):
    truth = truth_table(SKEWS["default"])
    rows = table[table["truth_occupation"].notna()]
    n = len(rows)
    # Occupations are equally likely, so a cell's share over all of them is its mean. Five standard errors.
    for (style, indicator), cell in truth.groupby(["style", "indicator"]):
        p = cell["p"].mean()
        matching = rows[(rows["truth_style"] == style) & (rows["truth_indicator"] == indicator)]
        assert abs(len(matching) / n - p) < 5 * math.sqrt(p * (1 - p) / n), (style, indicator)
        if style == "other_sense":
            assert matching["truth_gender"].isna().all()
            continue
        probability_female = np.average(cell["probability_female"], weights=cell["p"])
        share = (matching["truth_gender"] == "female").mean()
        assert abs(share - probability_female) <= 5 * math.sqrt(
            probability_female * (1 - probability_female) / len(matching)
        ), (style, indicator)


def test_caption_shares_by_occupation_follow_truth_table(table):
    truth = truth_table(SKEWS["default"])
    truth = truth[truth["probability_female"].notna()]
    people = table[table["truth_occupation"].notna() & table["truth_gender"].notna()]
    z = []
    for silent in (False, True):
        for occupation in occupations():
            cell = truth[
                (truth["occupation"] == occupation) & (~pd.Series(silent, truth.index) | (truth["indicator"] == "none"))
            ]
            matching = people[people["truth_occupation"] == occupation]
            if silent:
                matching = matching[matching["truth_indicator"] == "none"]
            p = np.average(cell["probability_female"], weights=cell["p"])
            z.append(((matching["truth_gender"] == "female").mean() - p) / math.sqrt(p * (1 - p) / len(matching)))
    # 124 standardized differences: none beyond 4.5, and about standard normal together.
    assert max(map(abs, z)) < 4.5
    assert 0.75 < np.std(z) < 1.25


def test_other_caption_words_are_independent_of_gender(table):
    # Given the occupation and no indicator, other words are as frequent for women as for men.
    rows = table[(table["truth_indicator"] == "none") & table["truth_gender"].notna()]
    rows = rows[rows["truth_style"].isin(["stock", "place", "news"])]
    women = rows["truth_gender"] == "female"
    expected = rows["truth_occupation"].map(women.groupby(rows["truth_occupation"]).mean())
    for word in ("smiling", "young", "older", "wearing", "light", "serious"):
        has = rows["text"].str.lower().str.contains(rf"\b{word}\b")
        difference = (women[has] - expected[has]).mean()
        assert has.sum() > 200
        assert abs(difference) < 4 * math.sqrt(0.25 / has.sum()), word


def test_prompt_like_captions_are_a_separate_class(table):
    text = table["text"].str.lower()
    prompts = set(text[table["truth_style"] == "prompt_like"])
    assert not prompts & set(text[table["truth_style"] != "prompt_like"])
    # The four prompts of the paradox paper, Table 1, are in the corpus verbatim.
    for template in (
        "a photo of the face of {}", "a portrait photo of {}", "a photo of {} smiling", "a photo of {} at work",
    ):  # fmt: skip
        expected = {template.format(f"{'an' if name[0] in 'aeiou' else 'a'} {name}") for name in occupations()}
        assert len(expected & prompts) > 40


def test_vocabulary_contains_every_word(table):
    vocabulary = c.vocabulary()
    assert vocabulary == sorted(set(vocabulary))
    assert len(vocabulary) <= 1_200
    used = {word for text in table["text"] for word in c.words(text)}
    assert used <= set(vocabulary)
    # Words of the papers' prompts.
    prompts = "a an photo of the face portrait smiling at work picture person man woman who works as".split()  # noqa: SIM905
    assert set(prompts) <= set(vocabulary)
    assert set(FEMALE) | set(MALE) <= set(vocabulary)
    for occupation in occupations():
        assert set(occupation.split()) <= set(vocabulary)
        assert occupation.split()[-1] + "s" in vocabulary


def test_captions_stay_within_length_limit(table):
    assert table["text"].map(lambda text: len(c.words(text))).max() <= c.LONGEST
    assert not table["text"].str.contains(r"[~{}]").any()
    assert not table["text"].str.contains(r"\b[Aa] [aeiouAEIOU]|\b[Aa]n [bcdfgj-np-tv-zBCDFGJ-NP-TV-Z]").any()


def test_rows_at_equals_batches(corpus, table):
    order = [49_999, 3, 4_096, 4_095, 3]
    fresh = c.Corpus(rows=ROWS, seed=11)
    pd.testing.assert_frame_equal(fresh.rows_at(order), table.iloc[order].reset_index(drop=True))
    # Neither the length of the corpus nor the size of a batch changes a row.
    short = pd.concat(list(c.Corpus(rows=5_000, seed=11).batches(size=999)), ignore_index=True)
    pd.testing.assert_frame_equal(short, table.head(5_000))
    other_seed = c.Corpus(rows=100, seed=12).rows_at(range(100))
    assert (other_seed["text"] != table["text"].head(100)).mean() > 0.9
    # Corpora have distinct digests, and captions distinct ids.
    assert len(table) == table["caption_id"].nunique() == ROWS
    assert len({c.Corpus(*settings).digest for settings in ((10, 0), (11, 0), (10, 1), (10, 0, "off"), (10, 0))}) == 4


def test_corpus_scene_matches_caption(corpus, table):
    phrases = {phrase: place for place, options in c.PLACE_PHRASES.items() for phrase in options}
    # What a text says, and whether a scene with this person shows it. "in the hotel lobby" and "in a studio" are
    # unambiguous; the longest phrase wins.
    rules = {
        rf"\b({'|'.join(sorted(phrases, key=len, reverse=True))})\b": lambda phrase, s, p: s.place == phrases[phrase],
        r"\b(at work|working$)": lambda phrase, s, p: s.place == looks.outfit(p.occupation).place,
        r"\b(smiling|smile|happy|cheerful)\b": lambda phrase, s, p: p.expression == "smiling",
        r"\b(serious|neutral|tired)\b": lambda phrase, s, p: p.expression == "neutral",
        r"\b(young|middle-aged|older)\b": lambda phrase, s, p: p.age == phrase,
        r"\b(in warm light)": lambda phrase, s, p: s.light.red > s.light.blue,
        r"\b(in dim light)": lambda phrase, s, p: s.light.strength < 0.9,
        r"\bwearing (?:a )?(\w+)": lambda phrase, s, p: phrase in p.attributes,
    }
    counts = dict.fromkeys((*rules, "nobody"), 0)
    for row in table.head(3_000).itertuples():
        shown_scene = corpus.scene(row.caption_id)
        if row.truth_gender is None:
            assert not shown_scene.people and shown_scene.decoy in {*art.PROPS, *art.DECOYS}
            counts["nobody"] += 1
            continue
        (person,) = shown_scene.people
        assert (person.gender, person.occupation) == (row.truth_gender, row.truth_occupation)
        for pattern, shows in rules.items():
            if match := re.search(pattern, row.text):
                assert shows(match[1], shown_scene, person), row.text
                counts[pattern] += 1
    assert min(counts.values()) >= 10, counts


def test_scene_of_foreign_caption_is_refused():
    corpus = c.Corpus(rows=10)
    for caption_id in ("laion-7", "mini-off-0-00000001", "mini-default-1-00000001", "mini-default-0-00000010"):
        with pytest.raises(InputError, match=f"'{caption_id}' is .*mini-default-0-00000000"):
            corpus.scene(caption_id)
    with pytest.raises(UnknownNameError, match="skew named 'of'"):
        c.Corpus(skew="of")


def test_gender_without_planted_causes_is_independent_of_style():
    # The default parameters' 5.9 points would be seven standard errors of the 2,400 prompt-like rows among so many.
    unbiased_corpus = c.Corpus(rows=ROWS // 2, seed=11, skew="off")
    rows = pd.concat(list(unbiased_corpus.batches()), ignore_index=True)
    assert not (rows["truth_style"] == "other_sense").any()
    rows = rows[rows["truth_occupation"].notna()]
    women = rows["truth_gender"] == "female"
    expected = rows["truth_occupation"].map(women.groupby(rows["truth_occupation"]).mean())
    # Within occupations, women among prompt-like and among silent captions are as many as elsewhere.
    for subset in (rows["truth_style"] == "prompt_like", rows["truth_indicator"] == "none"):
        n = int(subset.sum())
        difference = (women[subset] - expected[subset]).mean()
        assert abs(difference) < 4 * math.sqrt((expected * (1 - expected)).mean() / n)
