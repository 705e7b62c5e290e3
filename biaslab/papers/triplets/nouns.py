"""Nouns of prompts, in the form in which a dictionary lists them, so that objects' names compare with them.

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
"""What every word of :data:`PEOPLE` counts as where these are merged."""
PEOPLE = frozenset(("person", "people", "woman", "women", "man", "men", "female", "male", "girl", "boy", "individual"))
"""Words for people: those that the paper leaves out where it compares objects (section 6.3.1), and the placebo's."""
SPACY = "spacy:"
NAMES = ("nltk", f"{SPACY}MODEL")
"""Who finds nouns: NLTK as in the paper, or a pipeline of spaCy; and what packages bring (:mod:`.hub.ground_truth`)."""


@dataclass(frozen=True)
class Nouns:
    """A finder of nouns, which also brings names of objects into the same form."""

    # The nouns of a text as lemmas, in lower case and in their order; and the lemma of a noun alone.
    find: Callable[[str], list[str]]
    lemma: Callable[[str], str]
    # Whether every word of PEOPLE counts as PERSON; the paper compares nouns as they are written.
    merge_people: bool = True

    def of(self, text: str) -> tuple[str, ...]:
        """Return the nouns of a prompt, each once, in their order."""
        return tuple(dict.fromkeys(self._merged(noun) for noun in self.find(text)))

    def name(self, label: str) -> str:
        """Return an object's name as a noun: of several words the last is brought to its lemma."""
        *before, last = label.replace("_", " ").lower().split() or [""]
        return self._merged(" ".join([*before, self.lemma(last)]))

    def _merged(self, noun: str) -> str:
        return PERSON if self.merge_people and noun in PEOPLE else noun


def load(name: str, *, merge_people: bool = True) -> Nouns:
    """Return a finder of nouns by name: ``nltk``, ``spacy:MODEL``, as ``spacy:en_core_web_sm``, or a truth's name.

    With ``merge_people`` all words of :data:`PEOPLE` are one noun. Raises ParameterError where there is no such name,
    or its package, model or data are not installed.
    """
    if name in plugins.entry_points(plugins.GROUND_TRUTH):
        return Nouns(partial(_of_captions, name, ground_truth.load(name)), str, merge_people)
    if name == "nltk":
        return Nouns(*_nltk(), merge_people)
    if name.startswith(SPACY) and name != SPACY:
        return Nouns(*_spacy(name.removeprefix(SPACY)), merge_people)
    known = (*NAMES, *plugins.entry_points(plugins.GROUND_TRUTH))
    raise ParameterError(f"triplets.noun_tagger is {name!r}. {name_help(name, known)}")


def _of_captions(name: str, truth: ground_truth.GroundTruth, text: str) -> list[str]:
    """Return the nouns of a caption whose grammar a package knows."""
    try:
        return truth.nouns(text)
    except (InputError, UnknownNameError) as error:
        raise InputError(
            f"triplets.noun_tagger is {name!r}, which finds nouns in the captions {truth.corpus!r} and in no others: "
            f"{error} For others set triplets.noun_tagger to 'nltk' or 'spacy:en_core_web_sm'."
        ) from error


def _nltk() -> tuple[Callable[[str], list[str]], Callable[[str], str]]:
    """Return what finds nouns in a text, and what lemmatizes one."""
    try:
        import nltk
    except ImportError as error:
        raise ParameterError(
            "triplets.noun_tagger is 'nltk', which is not installed; run `pip install nltk`, or set it to "
            "'spacy:MODEL'."
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
            "triplets.noun_tagger is 'nltk', whose data are not installed; run `python -m nltk.downloader punkt_tab "
            "averaged_perceptron_tagger_eng wordnet`."
        ) from error
    return find, lemma


def _spacy(model: str) -> tuple[Callable[[str], list[str]], Callable[[str], str]]:
    try:
        import spacy

        read = spacy.load(model, exclude=["ner"])
    except (ImportError, OSError) as error:
        raise ParameterError(
            f"triplets.noun_tagger is {SPACY + model!r}, but spaCy or that model is not installed; run `pip install "
            f"spacy` and `python -m spacy download {model}`."
        ) from error

    def find(text: str) -> list[str]:
        return [token.lemma_.lower() for token in read(text) if token.pos_ in ("NOUN", "PROPN")]

    # A word alone may be taken for a verb.
    return find, lambda word: read(f"the {word}")[-1].lemma_.lower()
