"""A rule for captions in which person or people are depicted, and its agreement with captions labelled by hand.

In web captions "person" often replaces a name: of an author, a statue, a place, a dress. The rule accepts a caption if,
within three tokens after the word, a verb names an action (in -s or -ing; for people also in its plain form) or a
preposition names a place or an object. It rejects captions that report speech, name a maker ("by person") or a likeness
(statue, idol), address the reader (you, we), or were written by a machine ("image may contain"). It also rejects
captions with a gendered word beyond Table 2. The rule matches words without parsing; :func:`error_rates` has its
precision and recall.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

import pandas as pd

from biaslab import lexicons

_TOKEN = re.compile(r"\w+|[^\w\s]")
# Number of tokens after the word that the rule uses.
_REACH = 3


def shows_people(text: str) -> bool:
    """Return whether a caption depicts its person or people, and has no other gendered noun.

    It applies to captions that are neutral by the paper's rule (section 3.1); the rule itself is ours.
    """
    low = ascii_lower(text)
    if _excluding_pattern().search(low):
        return False
    tokens = _TOKEN.findall(low)
    return any(_shows_action(tokens, i) for i, token in enumerate(tokens) if token in ("person", "people"))


def ascii_lower(text: str) -> str:
    """Return a text with ASCII letters in lower case, like the search for words; positions do not change."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


@cache
def _words(part: str) -> frozenset[str]:
    return frozenset(lexicons.load("depicted")[part])


@cache
def _excluding_pattern() -> re.Pattern:
    nouns = lexicons.load("gendered_nouns")
    words = [*nouns, *(form for noun in nouns for form in lexicons.plurals(noun))]
    words += [word for part in ("speech", "likenesses", "readers") for word in sorted(_words(part))]
    return re.compile(
        rf"\b(?:{'|'.join(words)}|by (?:an? |the )?(?:person|people)|in person"
        r"|person (?:are|were|have)|people (?:is|was|has|looks)|(?:image|photo|picture) may contain)\b"
    )


def _shows_action(tokens: Sequence[str], i: int) -> bool:
    """Return whether the tokens after the word at ``i`` indicate that it is depicted."""
    is_singular = tokens[i] == "person"
    following = [token for token in tokens[i + 1 : i + 1 + 2 * _REACH] if token != ","][:_REACH]
    preceding = tokens[i - 1] if i else ""
    if is_singular and preceding in _words("before"):
        # A bare "of person" usually names a place or a thing, unless an action follows.
        return bool(following) and _is_present_participle(following[0])
    if preceding in ("for", "from", "to"):
        return False
    verbs = _third_person_verbs() if is_singular else _words("verbs")
    previous = ""
    for token in following:
        if token in _words("stops"):
            return False
        # Later words in -s are usually plurals.
        is_verb = token in verbs and (previous in ("", "who", "left", "right") or previous.endswith("ly"))
        if is_verb or token in _words("places") or _is_present_participle(token):
            return True
        previous = token
    return False


@cache
def _third_person_verbs() -> frozenset[str]:
    """Return verbs in the third person, which are formed like plurals of nouns."""
    return frozenset(lexicons.plurals(verb)[0] for verb in _words("verbs"))


def _is_present_participle(token: str) -> bool:
    return len(token) > 4 and token.endswith("ing") and token not in _words("no_verbs")


def error_rates() -> pd.DataFrame:
    """Return precision and recall of the rule on 600 labelled lines of GCC's validation split (Sharma et al., 2018).

    Rows for each split, target (``usable``: depicted, grammatical in both swaps, and without another cue of gender;
    ``depicted``) and statistic: value, ci_low and ci_high (Wilson's, 95%) in %, and count of n lines.
    """
    with resources.files(__package__).joinpath("depicted_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
