"""Captions in other words, by rule: the occupation, names and every gender word stay (compare paradox, A.6).

Words and phrases give way to others that say the same (``paraphrases`` in the word lists, and ``smiling`` after
its noun), and ``X, Y`` may become ``Y, X``. Where neither changes anything, a caption that opens with an
article, the occupation or a small letter is put behind ``A photo of`` or the like. A word with a capital
inside a caption is left alone: it may be a name. A caption to which no rule applies stays as it is.
"""

from __future__ import annotations

import hashlib
import random
import re
from functools import cache

from biaslab import lexicons
from biaslab.errors import ParameterError

_OPENER = re.compile(
    r"(?i)\b(?:photo|picture|photograph|image|portrait|headshot|shot|view|poster|close-up)\b"
)
# What a caption of one plain phrase may be put behind.
_OPENERS = ("A photo of", "A picture of", "An image of")
_SMILES = ("with a smile",)


def paraphrase(text: str, occupation: str, seed: int = 0) -> str:
    """Return ``text`` in other words; the same text, occupation and seed give the same.

    Args:
        text: A caption.
        occupation: Word or phrase that stays as it is, also in the plural.
        seed: Which of the possible wordings to choose.

    Raises:
        ParameterError: The occupation is empty.
    """
    if not occupation.strip():
        raise ParameterError(f"The occupation of {text!r} is empty; give the word or phrase that must stay.")
    digest = hashlib.blake2b(
        f"{seed}\0{occupation}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    rng = random.Random(int.from_bytes(digest))
    new = _swapped(_replaced(text, occupation.strip(), rng), rng)
    return new if new != text else _opened(text, occupation.strip(), rng)


def _replaced(text: str, occupation: str, rng: random.Random) -> str:
    kept = [m.span() for m in _kept(occupation).finditer(text)]

    def other(match: re.Match) -> str:
        old, start, end = match["phrase"], match.start("phrase"), match.end()
        named = old[0].isupper() and start > 0
        if named or any(low < end and start < high for low, high in kept):
            return match[0]
        options = _SMILES if old.lower() == "smiling" else lexicons.load("paraphrases")[old.lower()]
        # No word is to stand twice in a caption.
        others = (text[:start] + text[end:]).lower()
        options = [o for o in options if o not in others]
        if not options:
            return match[0]
        new = rng.choice(options)
        article = match["article"] or ""
        if article:
            right = lexicons.article(new)
            article = f"{right.capitalize() if article[0].isupper() else right} "
        elif old[0].isupper():
            new = new[0].upper() + new[1:]
        return article + new

    return _phrases().sub(other, text)


def _swapped(text: str, rng: random.Random) -> str:
    parts = text.split(", ")
    plain = len(parts) == 2 and min(map(len, parts)) >= 3 and not re.search(r"[:.|]|\d", text)
    return ", ".join(reversed(parts)) if plain and rng.random() < 0.5 else text


def _opened(text: str, occupation: str, rng: random.Random) -> str:
    first = re.match(r"[\w-]+", text)
    begins = bool(first) and first[0].lower() in {"a", "an", "the", occupation.lower().split()[0]}
    if not (begins or text[:1].islower()) or ":" in text or _OPENER.search(text):
        return text
    return f"{rng.choice(_OPENERS)} {text[0].lower() if begins else text[0]}{text[1:]}"


@cache
def _phrases() -> re.Pattern:
    longest = sorted(lexicons.load("paraphrases"), key=len, reverse=True)
    # Only after its noun can "smiling" give way: a smiling nurse stays one.
    smiling = r"(?<!\ba )(?<!\bthe )smiling(?=\s*(?:$|[,.;:]|(?:at|in|on|for)\b))"
    return re.compile(
        rf"(?i)(?:\b(?P<article>an?)\s+)?\b(?P<phrase>{'|'.join(map(re.escape, longest))}|{smiling})\b"
    )


@cache
def _kept(occupation: str) -> re.Pattern:
    """Return what must not change: the occupation, gender words, pronouns and forms of address."""
    lists = ("gender_words", "gender_pronouns", "gender_titles")
    words = [w for name in lists for group in lexicons.load(name).values() for w in group]
    either = "|".join(re.escape(w) for w in (*lexicons.plurals(occupation), occupation, *words))
    return re.compile(rf"(?i)\b(?:{either})\b")
