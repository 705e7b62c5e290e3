"""Which captions with person or people show a person: a rule, and how well it agrees with lines read one by one.

In web captions "person" often stands where a name has stood: of an author, a statue, a place, a dress. The rule keeps a
caption where, within three tokens after the word, a verb says what is done there (in -s or -ing; of people also in its
plain form) or a preposition says where or with what. It drops captions that report speech, name a maker ("by person")
or a likeness (statue, idol), address the reader (you, we), or were written by a machine ("image may contain"), and
those that say a gender by a word beyond Table 2. It reads words, not sentences: :func:`error_rates` says how often it
errs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

import pandas as pd

from biaslab import lexicons

_TOKEN = re.compile(r"\w+|[^\w\s]")
# How many tokens after the word are read.
_REACH = 3


def shows_people(text: str) -> bool:
    """Return whether a caption shows the person or people that it names, and says no gender by another noun.

    It is asked of captions that are neutral by the paper's rule (section 3.1); the rule itself is ours.
    """
    low = ascii_lower(text)
    if _never().search(low):
        return False
    tokens = _TOKEN.findall(low)
    return any(_seen(tokens, i) for i, token in enumerate(tokens) if token in ("person", "people"))


def ascii_lower(text: str) -> str:
    """Return a text with letters of ASCII alone in lower case, as the search for words: each stays in its place."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


@cache
def _words(part: str) -> frozenset[str]:
    return frozenset(lexicons.load("depicted")[part])


@cache
def _never() -> re.Pattern:
    nouns = lexicons.load("gendered_nouns")
    some = [*nouns, *(form for noun in nouns for form in lexicons.plurals(noun))]
    some += [word for part in ("speech", "likenesses", "readers") for word in sorted(_words(part))]
    return re.compile(
        rf"\b(?:{'|'.join(some)}|by (?:an? |the )?(?:person|people)|in person"
        r"|person (?:are|were|have)|people (?:is|was|has|looks)|(?:image|photo|picture) may contain)\b"
    )


def _seen(tokens: Sequence[str], i: int) -> bool:
    """Return whether what follows the word at ``i`` shows it."""
    one = tokens[i] == "person"
    after = [token for token in tokens[i + 1 : i + 1 + 2 * _REACH] if token != ","][:_REACH]
    said_before = tokens[i - 1] if i else ""
    if one and said_before in _words("before"):
        # A bare "of person" is rather a place or a thing, unless it does something there.
        return bool(after) and _is_doing(after[0])
    if said_before in ("for", "from", "to"):
        return False
    acts = _acts() if one else _words("verbs")
    before = ""
    for token in after:
        if token in _words("stops"):
            return False
        # Further on, a word in -s is rather a plural.
        acting = token in acts and (before in ("", "who", "left", "right") or before.endswith("ly"))
        if acting or token in _words("places") or _is_doing(token):
            return True
        before = token
    return False


@cache
def _acts() -> frozenset[str]:
    """Return what one does, in -s: a verb takes it as a noun takes its plural."""
    return frozenset(lexicons.plurals(verb)[0] for verb in _words("verbs"))


def _is_doing(token: str) -> bool:
    return len(token) > 4 and token.endswith("ing") and token not in _words("no_verbs")


def error_rates() -> pd.DataFrame:
    """Return precision and recall of the rule on 600 labelled lines of GCC's validation split (Sharma et al., 2018).

    Rows for each split, target (``usable``: depicted, grammatical in both swaps, and without another cue of gender;
    ``depicted``) and statistic: value, ci_low and ci_high (Wilson's, 95 %) in %, and count of n lines.
    """
    with resources.files(__package__).joinpath("depicted_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
