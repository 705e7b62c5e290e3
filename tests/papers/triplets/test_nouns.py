"""Nouns of prompts: how each tool is asked, and what names and nouns have in common."""

import sys
from types import SimpleNamespace

import pytest

from biaslab.errors import InputError, ParameterError
from biaslab.papers.triplets import nouns

TAGS = {"women": "NNS", "umbrellas": "NNS", "Paris": "NNP", "knives": "NNS", "park": "NN", "running": "VBG"} | {
    "person": "NN"
}
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


def spacy():
    """Return what stands in for spaCy; a word alone is a verb to it, as some are to its models."""

    def read(text):
        words = text.split()
        tags = [{"N": "NOUN", "V": "VERB"}.get(TAGS.get(w, "DT")[0], "DET") for w in words]
        tags = [*tags[:-1], "VERB"] if len(words) == 1 else tags
        lemmas = [LEMMAS.get(w, w) if t == "NOUN" else "a verb" for w, t in zip(words, tags, strict=True)]
        return [SimpleNamespace(pos_=t, lemma_=m) for t, m in zip(tags, lemmas, strict=True)]

    def load(model, exclude):
        if model != "en_core_web_sm":
            raise OSError(f"[E050] Can't find model '{model}'.")
        return read

    return SimpleNamespace(load=load)


@pytest.mark.parametrize("name", ["nltk", "spacy:en_core_web_sm"])
def test_nouns_and_names_meet_as_lemmas(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "nltk", nltk())
    monkeypatch.setitem(sys.modules, "spacy", spacy())
    finder = nouns.load(name)
    assert finder.find_nouns("women running with umbrellas and umbrellas") == ("person", "umbrella")
    assert finder.find_nouns("a person in Paris") == ("person", "paris")
    strict = nouns.load(name, merge_people=False)
    assert strict.find_nouns("women running with umbrellas and umbrellas") == ("woman", "umbrella")
    assert strict.name("Women") == "woman" and finder.name("Women") == "person"
    names = ["Umbrellas", "umbrellas", "bread_knives", "Women"]
    assert [finder.name(n) for n in names] == ["umbrella", "umbrella", "bread knife", "person"]


def test_what_is_not_installed_is_told_before_any_work(monkeypatch):
    for name, fix in (("nltk", "pip install nltk"), ("spacy:en_core_web_sm", "pip install spacy")):
        # None in place of a module makes its import fail.
        monkeypatch.setitem(sys.modules, name.partition(":")[0], None)
        with pytest.raises(ParameterError, match=fix):
            nouns.load(name)
    monkeypatch.setitem(sys.modules, "nltk", nltk(has_data=False))
    with pytest.raises(ParameterError, match=r"nltk\.downloader punkt_tab averaged_perceptron_tagger_eng wordnet"):
        nouns.load("nltk")
    monkeypatch.setitem(sys.modules, "spacy", spacy())
    with pytest.raises(ParameterError, match="python -m spacy download other"):
        nouns.load("spacy:other")


@pytest.mark.parametrize("name", ["", "ntlk", "spacy:", "World"])
def test_other_names_are_refused(name):
    with pytest.raises(ParameterError, match=f"triplets.noun_tagger is {name!r}"):
        nouns.load(name)


def test_the_embedded_world_reads_its_own_captions_only():
    triplets = pytest.importorskip("biaslab_world.triplets", reason="the embedded world of triplets is not there")
    finder = nouns.load("world")
    thing, worn, place = triplets.THINGS[0], triplets.WORN[0], triplets.PLACES[0]
    asked = triplets.TripletPrompt(triplets.ACTIVITIES[0], place, (thing, worn), (triplets.HIDDEN[0],), "female")
    found = finder.find_nouns(triplets.write(asked, "woman"))
    assert set(found) == {"person", thing, worn, place, triplets.HIDDEN[0]}
    with pytest.raises(InputError, match=r"triplets\.noun_tagger is 'world'"):
        finder.find_nouns("two zebras on a lawn")
