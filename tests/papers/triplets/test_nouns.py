"""Nouns of prompts: calls of each tool, and a common form of names and nouns."""

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
    """Return a stand-in for NLTK: its documented calls, with a dictionary of a few words."""

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
    """Return a stand-in for spaCy; it tags a single word as a verb, as its models do for some."""

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
def test_find_nouns_and_name_return_lemmas(monkeypatch, name):
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


def test_load_refuses_missing_package_or_data(monkeypatch):
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
def test_load_refuses_unknown_names(name):
    with pytest.raises(ParameterError, match=f"triplets.noun_tagger is {name!r}"):
        nouns.load(name)


def test_find_nouns_of_world_refuses_other_captions():
    triplets = pytest.importorskip("biaslab_world.triplets", reason="the embedded world of triplets is not there")
    finder = nouns.load("world")
    thing, worn, place = triplets.THINGS[0], triplets.WORN[0], triplets.PLACES[0]
    prompt = triplets.TripletPrompt(triplets.ACTIVITIES[0], place, (thing, worn), (triplets.HIDDEN[0],), "female")
    result = finder.find_nouns(triplets.write(prompt, "woman"))
    assert set(result) == {"person", thing, worn, place, triplets.HIDDEN[0]}
    with pytest.raises(InputError, match=r"triplets\.noun_tagger is 'world'"):
        finder.find_nouns("two zebras on a lawn")
