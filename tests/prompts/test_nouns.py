"""Nouns of prompts: how each tool is asked, and what names and nouns have in common."""

import sys
from types import SimpleNamespace

import pytest

from biaslab.ground.errors import InputError, ParameterError
from biaslab.prompts import nouns

TAGS = {"women": "NNS", "umbrellas": "NNS", "knives": "NNS", "Paris": "NNP", "person": "NN", "running": "VBG"}
LEMMAS = {"women": "woman", "umbrellas": "umbrella", "knives": "knife"}


def nltk(has_data=True):
    """Return what stands in for NLTK: its documented calls, with a dictionary of a few words."""

    class WordNetLemmatizer:
        def lemmatize(self, word, pos):
            assert pos == "n" and word == word.lower()
            return LEMMAS.get(word, word)

    def pos_tag(tokens):
        if not has_data:
            raise LookupError("Resource averaged_perceptron_tagger_eng not found.")
        return [(token, TAGS.get(token, "DT")) for token in tokens]

    return SimpleNamespace(
        stem=SimpleNamespace(WordNetLemmatizer=WordNetLemmatizer), word_tokenize=str.split, pos_tag=pos_tag
    )


def test_nouns_and_names_meet_as_lemmas(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk", nltk())
    finder = nouns.load("nltk")
    assert finder.of("women running with umbrellas and umbrellas") == ("person", "umbrella")
    assert finder.of("a person in Paris") == ("person", "paris")
    names = ["Umbrellas", "umbrellas", "bread_knives", "Women"]
    assert [finder.name(n) for n in names] == ["umbrella", "umbrella", "bread knife", "person"]


def test_what_is_not_installed_is_told_before_any_work(monkeypatch):
    # None in place of a module makes its import fail, whether it is installed or not.
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(ParameterError, match="pip install nltk"):
        nouns.load("nltk")
    monkeypatch.setitem(sys.modules, "nltk", nltk(has_data=False))
    with pytest.raises(ParameterError, match=r"nltk\.downloader punkt_tab"):
        nouns.load("nltk")


@pytest.mark.parametrize("name", ["", "ntlk", "spacy:x", "World"])
def test_other_names_are_refused(name):
    with pytest.raises(ParameterError, match=f"triplets.nouns is {name!r}"):
        nouns.load(name)


def test_the_embedded_world_reads_its_own_captions_only():
    triplets = pytest.importorskip(
        "biaslab_world.triplets", reason="the embedded world of triplets is not there"
    )
    finder = nouns.load("world")
    thing, worn, place = triplets.THINGS[0], triplets.WORN[0], triplets.PLACES[0]
    asked = triplets.Asked(triplets.ACTIVITIES[0], place, (thing, worn), (triplets.HIDDEN[0],), "female")
    found = finder.of(triplets.write(asked, "woman"))
    assert set(found) == {"person", thing, worn, place, triplets.HIDDEN[0]}
    with pytest.raises(InputError, match=r"triplets\.nouns is 'world'"):
        finder.of("two zebras on a lawn")
