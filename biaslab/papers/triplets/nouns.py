"""Lemmatized nouns of prompts, for comparison with the names of objects.

Source: triplets paper, section 6.1, which takes all lemmatised nouns that NLTK finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from biaslab import plugins
from biaslab.errors import InputError, ParameterError, UnknownNameError, name_help
from biaslab.hub import ground_truth

PERSON = "person"
"""The noun that replaces every word of :data:`PEOPLE` when these are merged."""
PEOPLE = frozenset(("person", "people", "woman", "women", "man", "men", "female", "male", "girl", "boy", "individual"))
"""Words for people: those that the paper excludes when it compares objects (section 6.3.1), and the placebo's."""
SPACY = "spacy:"
NAMES = ("nltk", f"{SPACY}MODEL")
"""Noun taggers: NLTK as in the paper, or a spaCy pipeline; packages may add others (:mod:`.hub.ground_truth`)."""


@dataclass(frozen=True)
class Nouns:
    """A noun tagger, which also converts names of objects to the same form."""

    # ``find`` returns the lemmas of a text's nouns, in lower case and in order; ``lemma`` that of a single noun.
    find: Callable[[str], list[str]]
    lemma: Callable[[str], str]
    # Whether every word of PEOPLE counts as PERSON; the paper compares nouns without merging.
    merge_people: bool = True

    def find_nouns(self, text: str) -> tuple[str, ...]:
        """Return the nouns of a prompt, each once, in their order."""
        return tuple(dict.fromkeys(self._merged(noun) for noun in self.find(text)))

    def name(self, label: str) -> str:
        """Return an object's name as a noun, with its last word lemmatized."""
        *first_words, last_word = label.replace("_", " ").lower().split() or [""]
        return self._merged(" ".join([*first_words, self.lemma(last_word)]))

    def _merged(self, noun: str) -> str:
        return PERSON if self.merge_people and noun in PEOPLE else noun


def load(name: str, *, merge_people: bool = True) -> Nouns:
    """Return a noun tagger by name: ``nltk``, ``spacy:MODEL`` (such as ``spacy:en_core_web_sm``), or a ground truth.

    With ``merge_people`` all words of :data:`PEOPLE` are one noun. Raises ParameterError if the name is unknown, or its
    package, model or data are not installed.
    """
    if name in plugins.entry_points(plugins.GROUND_TRUTH):
        return Nouns(partial(_find_caption_nouns, name, ground_truth.load(name)), str, merge_people)
    if name == "nltk":
        return Nouns(*_nltk(), merge_people)
    if name.startswith(SPACY) and name != SPACY:
        return Nouns(*_spacy(name.removeprefix(SPACY)), merge_people)
    names = (*NAMES, *plugins.entry_points(plugins.GROUND_TRUTH))
    raise ParameterError(f"triplets.noun_tagger is {name!r}. {name_help(name, names)}")


def _find_caption_nouns(name: str, truth: ground_truth.GroundTruth, text: str) -> list[str]:
    """Return the nouns of a caption by the grammar of a package's ground truth."""
    try:
        return truth.nouns(text)
    except (InputError, UnknownNameError) as error:
        raise InputError(
            f"triplets.noun_tagger is {name!r}, which finds nouns only in the captions {truth.corpus!r}: {error} For "
            "other captions, set triplets.noun_tagger to 'nltk' or 'spacy:en_core_web_sm'."
        ) from error


def _nltk() -> tuple[Callable[[str], list[str]], Callable[[str], str]]:
    """Return a function that finds nouns in a text, and one that lemmatizes a noun."""
    try:
        import nltk
    except ImportError as error:
        raise ParameterError(
            "triplets.noun_tagger is 'nltk', which is not installed. Run `pip install nltk`, or set "
            "triplets.noun_tagger to 'spacy:MODEL'."
        ) from error
    lemmatizer = nltk.stem.WordNetLemmatizer()

    def lemma(word: str) -> str:
        return lemmatizer.lemmatize(word.lower(), "n")

    def find(text: str) -> list[str]:
        return [lemma(word) for word, tag in nltk.pos_tag(nltk.word_tokenize(text)) if tag.startswith("NN")]

    try:
        find("people")
    except LookupError as error:
        raise ParameterError(
            "triplets.noun_tagger is 'nltk', whose data are not installed. Run `python -m nltk.downloader punkt_tab "
            "averaged_perceptron_tagger_eng wordnet`."
        ) from error
    return find, lemma


def _spacy(model: str) -> tuple[Callable[[str], list[str]], Callable[[str], str]]:
    try:
        import spacy

        nlp = spacy.load(model, exclude=["ner"])
    except (ImportError, OSError) as error:
        raise ParameterError(
            f"triplets.noun_tagger is {SPACY + model!r}, but spaCy or this model is not installed. Run `pip install "
            f"spacy` and `python -m spacy download {model}`."
        ) from error

    def find(text: str) -> list[str]:
        return [token.lemma_.lower() for token in nlp(text) if token.pos_ in ("NOUN", "PROPN")]

    # Without the article, a single word may be tagged as a verb.
    return find, lambda word: nlp(f"the {word}")[-1].lemma_.lower()
