"""Captions in other words: by rule, or by a language model behind an endpoint as in the paper (paradox, A.6).

**By rule** the occupation, names and every gender word stay. Words and phrases give way to others that say the same
(``paraphrases`` in the word lists), and ``X, Y`` may become ``Y, X``. Where neither changes anything, a caption that
opens with an article, the occupation or a small letter is put behind ``A photo of`` or the like. A word with a capital
inside a caption may be a name. A caption to which no rule applies stays as it is.

**By a model**, a paraphrase that loses the occupation, or says more or less about gender than its caption, is asked for
once more, with what it lost. What then still has none takes the one by rule, and its outcome says why.
"""

from __future__ import annotations

import hashlib
import random
import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import pandas as pd

from biaslab import lexicons
from biaslab.io.plaintext import normalize, split_words

if TYPE_CHECKING:
    from biaslab.cache.result_cache import ResultCache
    from biaslab.endpoints.chat import Answer
    from biaslab.endpoints.settings import EndpointSettings

# Characters of a caption beyond which no model is asked: no alternative text of an image is that long.
LONGEST_CAPTION = 2000
# The instruction that appendix A.6 of the paper prints.
_INSTRUCTION = (
    "Please paraphrase the phrase/sentence below. You can change words without changing the original meaning or "
    "intent. You must include the word {occupation}.\nPhrase/Sentence: {caption}"
)
# That of earlier versions, whose answers are used where the cache has them, so that none is bought again.
_EARLIER_INSTRUCTION = (
    "Paraphrase the image caption below. Use other words, and keep what it means and what it is for. The word "
    '"{occupation}" must be in your text. Answer with the paraphrase alone.\n\nCaption: {caption}'
)
_AGAIN = (
    '{why} Paraphrase the caption once more. The word "{occupation}" must be in your text, and it must say just as '
    "much about anybody's gender as the caption does. Answer with the paraphrase alone."
)
WHY = {
    "lost_occupation": "The occupation is missing.",
    "lost_gender": "Your text says less about somebody's gender than the caption.",
    "added_gender": "Your text says more about somebody's gender than the caption.",
    "too_long": "That is much longer than the caption.",
    "declined": "That is no paraphrase.",
}
"""What may be wrong with a paraphrase, and what the model is told of it."""

_OPENER = re.compile(r"(?i)\b(?:photo(?:graph)?|picture|image|portrait|(?:head)?shot|view|poster|close-up)\b")
# What a caption of one plain phrase may be put behind.
_OPENERS = ("A photo of", "A picture of", "An image of")
_SMILES = ("with a smile",)
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# A paraphrase of the longest caption that is not too long has fewer characters.
_LONGEST_ANSWER = 4 * LONGEST_CAPTION
# What models put around a paraphrase.
_LABEL = re.compile(
    r"(?i)^(?:(?:sure|certainly|of course|okay)[,.!:]? )?(?:here is |here's )?(?:the |a |your |my )?"
    r"(?:(?:paraphrase|paraphrased|rephrased|new)(?: image)?(?: (?:caption|phrase|sentence))?"
    r"|caption|phrase/sentence|phrase|sentence):\s*"
)
# How models begin that decline in words, where they could decline in a field that is there for it.
_DECLINES = re.compile(
    r"(?i)^(?:unfortunately,? |regrettably,? )?(?:"
    r"(?:i am |i['’]m |we are )?(?:very |so )?sorry\b|(?:my )?apologies\b|i (?:must )?apologi[sz]e\b|"
    r"(?:i|we) (?:am |are )?(?:can(?:['’]t|not| not)|could not|won['’]t|will not|not able|unable|(?:must )?decline)\b|"
    r"(?:i['’]m|we['’]re) (?:not able|unable)\b|as an? (?:ai|language model)\b)"
)
_QUOTES = ('""', "''", "“”", "‘’", "«»", "``")


def paraphrases(
    captions: Sequence[str],
    occupations: Sequence[str],
    *,
    seed: int = 0,
    endpoint: EndpointSettings | None = None,
    cache: ResultCache | None = None,
    name_recognizer: str = "gazetteer",
    progress: bool = True,
) -> pd.DataFrame:
    """Return captions in other words, with what became of each.

    Args:
        captions: Captions, each of which names its occupation.
        occupations: For each, the word or phrase that stays, in the singular or plural.
        seed: Which of the possible wordings the rules choose.
        endpoint: The model that paraphrases; the rules do where it is None.
        cache: Where the model's answers are kept, so that none is paid for twice.
        name_recognizer: As for :func:`biaslab.captions.indicators.indicators`, by which genders are compared.

    Returns a row a caption, in order: ``text``, ``status`` (``by_rule``; ``paraphrased`` by the model; what was wrong
    with both of its answers, a key of :data:`WHY`; ``not_asked``, as the caption is too long; or one of
    :data:`biaslab.endpoints.chat.OUTCOMES`), and ``unsupported_fields``, fields of the request that the model does not
    take. Raises ParameterError: The endpoint does not accept the key or the model. RunError: The endpoint is out of
    order.
    """
    pairs = list(zip(captions, occupations, strict=True))
    texts = [paraphrase(text, occupation, seed) for text, occupation in pairs]
    outcomes, without = ["by_rule"] * len(pairs), [""] * len(pairs)
    if endpoint is not None:
        asked = [i for i, (text, _) in enumerate(pairs) if len(text) <= LONGEST_CAPTION]
        found = _by_model([pairs[i] for i in asked], endpoint, cache, name_recognizer, progress)
        outcomes = ["not_asked"] * len(pairs)
        for i, (text, outcome, left_out) in zip(asked, found, strict=True):
            outcomes[i], without[i] = outcome, left_out
            texts[i] = text if outcome == "paraphrased" else texts[i]
    return pd.DataFrame({"text": texts, "status": outcomes, "unsupported_fields": without}, dtype=object)


def _by_model(
    pairs: Sequence[tuple[str, str]],
    endpoint: EndpointSettings,
    cache: ResultCache | None,
    name_recognizer: str,
    progress: bool,
) -> list[tuple[str, str, str]]:
    """Return text, outcome and what was left out for each caption; asked twice where the first text will not do."""
    from biaslab.endpoints.chat import are_answered, ask_until

    questions, earlier = (
        [[{"role": "user", "content": text.format(occupation=of, caption=caption)}] for caption, of in pairs]
        for text in (_INSTRUCTION, _EARLIER_INSTRUCTION)
    )
    is_earlier = are_answered(endpoint, earlier, cache)
    questions = [e if kept else q for q, e, kept in zip(questions, earlier, is_earlier, strict=True)]
    found: dict[int, tuple[str, str]] = {}

    def wrong(indices: list[int], answers: list[Answer]) -> list[str]:
        judged = _check_answers([pairs[i] for i in indices], answers, name_recognizer)
        found.update(zip(indices, judged, strict=True))
        return [
            _AGAIN.format(why=WHY[outcome], occupation=pairs[i][1]) if outcome in WHY else ""
            for i, (_, outcome) in zip(indices, judged, strict=True)
        ]

    options = {"label": "paraphrasing", "longest": _LONGEST_ANSWER, "progress": progress}
    answers = ask_until(endpoint, questions, wrong, 2, cache, **options)
    return [(*found[i], answer.asked_without) for i, answer in enumerate(answers)]


def _check_answers(
    pairs: Sequence[tuple[str, str]], answers: Sequence[Answer], name_recognizer: str
) -> list[tuple[str, str]]:
    """Return text and outcome of each answer."""
    from biaslab.captions.indicators import indicators

    texts = [_plain_answer(answer.text) for answer in answers]
    says = {"none": set(), "female": {"female"}, "male": {"male"}, "both": {"female", "male"}}
    before, after = (
        indicators(some, name_recognizer=name_recognizer)["indicator"].map(says)
        for some in ([caption for caption, _ in pairs], texts)
    )
    found = []
    each = zip(pairs, answers, texts, before, after, strict=True)
    for (caption, occupation), answer, text, said, now in each:
        if not text:
            outcome = "empty" if answer.outcome == "answered" else answer.outcome
        elif _DECLINES.match(text) and not _DECLINES.match(caption):
            outcome = "declined"
        elif not any(_pattern_of(occupation).search(form(text)) for form in (normalize, split_words)):
            outcome = "lost_occupation"
        elif said != now:
            outcome = "lost_gender" if said - now else "added_gender"
        else:
            outcome = "too_long" if len(text) > 3 * len(caption) + 200 else "paraphrased"
        found.append((text, outcome))
    return found


def _plain_answer(answer: str) -> str:
    text = _LABEL.sub("", " ".join(answer.split()))
    while len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    # Of Markdown, what makes all of it bold.
    if len(text) > 4 and text[:2] == text[-2:] == "**" and "**" not in text[2:-2]:
        text = text[2:-2].strip()
    return text


def paraphrase(text: str, occupation: str, seed: int = 0) -> str:
    """Return ``text`` in other words, in its plain form; the same text, occupation and seed give the same.

    The occupation stays as it is, also in the plural.
    """
    key = f"{seed}\0{occupation}\0{text}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(key, digest_size=8).digest()
    rng = random.Random(int.from_bytes(digest))
    text = normalize(text)
    new = _replaced(text, occupation.strip(), rng)
    parts = new.split(", ")
    is_swappable = len(parts) == 2 and min(map(len, parts)) >= 3 and not re.search(r"[:.|]|\d", new)
    if is_swappable and rng.random() < 0.5:
        new = ", ".join(reversed(parts))
    return new if new != text else _opened(text, occupation.strip(), rng)


def _replaced(text: str, occupation: str, rng: random.Random) -> str:
    kept = [m.span() for m in _words_to_keep(occupation).finditer(text)]
    ends = [end for _, end in kept]
    low = text.translate(_LOWER)
    places: dict[str, tuple[int, int]] = {}

    def stands_elsewhere(option: str, start: int, end: int) -> bool:
        if option not in places:
            places[option] = (low.find(option), low.rfind(option))
        first, last = places[option]
        return 0 <= first <= start - len(option) or last >= end

    def other(match: re.Match) -> str:
        old, start, end = match["phrase"], match.start("phrase"), match.end()
        named = old[0].isupper() and start > 0
        near = bisect_right(ends, start)
        if named or (near < len(kept) and kept[near][0] < end):
            return match[0]
        options = _SMILES if old.lower() == "smiling" else lexicons.load("paraphrases")[old.lower()]
        # No word is to stand twice in a caption.
        options = [o for o in options if not stands_elsewhere(o, start, end)]
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
    either = "|".join(map(re.escape, longest))
    return re.compile(rf"(?i)(?:\b(?P<article>an?)\s+)?\b(?P<phrase>{either}|{smiling})\b")


@cache
def _words_to_keep(occupation: str) -> re.Pattern:
    """Return what must not change: the occupation, gender words, pronouns and forms of address."""
    lists = ("gender_words", "gender_pronouns", "gender_titles")
    words = [w for name in lists for group in lexicons.load(name).values() for w in group]
    either = "|".join(re.escape(w) for w in (*lexicons.plurals(occupation), occupation, *words))
    return re.compile(rf"(?i)\b(?:{either})\b")


@cache
def _pattern_of(occupation: str) -> re.Pattern:
    """Return what finds an occupation as the search does: whole words, in any case, in the singular or plural."""
    occupation = occupation.strip()
    forms = [re.split(r"[\s-]+", form) for form in (occupation, *lexicons.plurals(occupation))]
    either = "|".join(r"[\s-]+".join(map(re.escape, words)) for words in forms)
    return re.compile(rf"(?i)\b(?:{either})\b")
