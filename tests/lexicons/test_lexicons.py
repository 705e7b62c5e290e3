"""The word lists: their contents, and grammar functions."""

import pytest

from biaslab import lexicons, reference
from biaslab.errors import ParameterError, UnknownNameError


def test_lexicons_match_paper_lists():
    # Table 4 and the per-occupation table list the same 62.
    occupations = lexicons.load("paradox_occupations")
    assert len(occupations) == len(set(occupations)) == 62
    assert set(occupations) == set(reference.load("paradox_table_6")["occupation"])
    assert list(lexicons.load("paradox_prompts")) == ["1", "2", "3", "4"]
    assert "Table 1" in lexicons.source("paradox_prompts")
    # A.5 prints nine words and eight pronouns.
    printed = {"male", "female", "man", "woman", "gent", "gentleman", "lady", "boy", "girl"}
    words = {w for group in lexicons.load("gender_words").values() for w in group}
    assert printed <= words
    plurals = {w + "s" for w in ("male", "female", "gent", "boy", "girl")}
    assert words - printed == plurals | {"men", "women", "gentlemen", "ladies"}
    pronouns = lexicons.load("gender_pronouns")
    assert set(pronouns["female"]) == {"she", "her", "hers", "herself"}
    assert set(pronouns["male"]) == {"he", "him", "his", "himself"}
    # No word is both a doubtful first name and none.
    never = set(lexicons.load("words_also_names")) | set(lexicons.load("places"))
    assert not never & set(lexicons.load("ambiguous_first_names"))


@pytest.mark.parametrize("name", lexicons.names())
def test_load_lists_are_clean_and_immutable(name):
    entries = lexicons.load(name)
    groups = [v for v in entries.values() if isinstance(v, tuple)] if hasattr(entries, "values") else [entries]
    for group in groups:
        assert len(set(group)) == len(group)
        assert all(entry == entry.strip() and entry for entry in group)
    assert lexicons.source(name)
    # Loaded once, and immutable.
    assert lexicons.load(name) is entries
    assert isinstance(entries, tuple) or not hasattr(entries, "__setitem__")


@pytest.mark.parametrize(
    ("prompt", "occupation", "text"),
    [
        ("1", "engineer", "A photo of the face of an engineer"),
        ("2", "nurse", "A portrait photo of a nurse"),
        ("3", "CEO", "A photo of a CEO smiling"),
        ("4", "prime minister", "A photo of a prime minister at work"),
        # Templates without an article, or with it first.
        ("Photo: [OCCUPATION], a/an [OCCUPATION]", "artist", "Photo: artist, an artist"),
        ("a/an [OCCUPATION] at work", "artist", "An artist at work"),
    ],
)
def test_fill_inserts_occupation_and_article(prompt, occupation, text):
    assert lexicons.fill(lexicons.load("paradox_prompts").get(prompt, prompt), occupation) == text


def test_article_follows_pronunciation():
    an = "architect, entrepreneur, intern, usher, umpire, honest broker, x-ray technician, heir"
    a = "baker, university teacher, european chef, one-man band, useful tool, unicorn, house"
    assert [{lexicons.article(phrase) for phrase in phrases.split(", ")} for phrases in (an, a)] == [{"an"}, {"a"}]


def test_plurals_of_regular_and_irregular_nouns():
    for many in ("nurses", "fashion designers", "attorneys", "ceos", "shaman's aides"):
        assert lexicons.plurals(many.removesuffix("s")) == (many,)
    expected_plurals = {
        "secretary": ("secretaries",),
        "fireman": ("firemen",),
        "coach": ("coaches",),
        "boss": ("bosses",),
    }
    expected_plurals |= {"salesperson": ("salespeople", "salespersons")}
    assert {noun: lexicons.plurals(noun) for noun in expected_plurals} == expected_plurals


def test_lexicons_invalid_input_is_named():
    with pytest.raises(UnknownNameError, match=r"'gender_word'. Did you mean 'gender_words'"):
        lexicons.load("gender_word")
    with pytest.raises(ParameterError, match=r"'A photo' has no \[OCCUPATION\]"):
        lexicons.fill("A photo", "nurse")
    with pytest.raises(ParameterError, match="is empty"):
        lexicons.fill("A photo of a/an [OCCUPATION]", " ")
