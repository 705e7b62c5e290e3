"""Paraphrases of captions: by rule, or by a language model behind an endpoint as in the paper (paradox, A.6).

**By rule**, the occupation, names and all gender words are unchanged. Other words and phrases are replaced by synonyms
(``paraphrases`` in the word lists), and ``X, Y`` may become ``Y, X``. If neither changes anything, ``A photo of`` or a
similar phrase is put before a caption that begins with an article, the occupation or a lower-case letter. A capitalised
word inside a caption may be a name. A caption to which no rule applies is unchanged.

**By a model**, a paraphrase that loses the occupation, or states more or less about gender than its caption, is
requested once more, with the reason. If the second one fails too, the paraphrase by rule is used, and the status states
the reason.
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

# Maximum characters of a caption that a model paraphrases; no alternative text of an image is that long.
LONGEST_CAPTION = 2000
# The instruction that appendix A.6 of the paper prints.
_INSTRUCTION = (
    "Please paraphrase the phrase/sentence below. You can change words without changing the original meaning or "
    "intent. You must include the word {occupation}.\nPhrase/Sentence: {caption}"
)
# The instruction of earlier versions, whose cached answers are used, so that they are not paid for twice.
_EARLIER_INSTRUCTION = (
    "Paraphrase the image caption below. Use other words, and keep what it means and what it is for. The word "
    '"{occupation}" must be in your text. Answer with the paraphrase alone.\n\nCaption: {caption}'
)
_RETRY = (
    '{why} Paraphrase the caption once more. The word "{occupation}" must be in your text, and it must say just as '
    "much about anybody's gender as the caption does. Answer with the paraphrase alone."
)
ERRORS = {
    "lost_occupation": "The occupation is missing.",
    "lost_gender": "Your text says less about somebody's gender than the caption.",
    "added_gender": "Your text says more about somebody's gender than the caption.",
    "too_long": "That is much longer than the caption.",
    "declined": "That is no paraphrase.",
}
"""Errors of a paraphrase, and the sentence about each that is sent to the model."""

_OPENER = re.compile(r"(?i)\b(?:photo(?:graph)?|picture|image|portrait|(?:head)?shot|view|poster|close-up)\b")
# Phrases that may be put before a caption.
_OPENERS = ("A photo of", "A picture of", "An image of")
_SMILES = ("with a smile",)
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Upper bound of the characters of an acceptable paraphrase of the longest caption.
_LONGEST_ANSWER = 4 * LONGEST_CAPTION
# Labels that models put before a paraphrase.
_LABEL = re.compile(
    r"(?i)^(?:(?:sure|certainly|of course|okay)[,.!:]? )?(?:here is |here's )?(?:the |a |your |my )?"
    r"(?:(?:paraphrase|paraphrased|rephrased|new)(?: image)?(?: (?:caption|phrase|sentence))?"
    r"|caption|phrase/sentence|phrase|sentence):\s*"
)
# Beginnings of answers in which a model declines in words, and not in the refusal field of the reply.
_REFUSAL = re.compile(
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
    """Return paraphrases of captions, with the status of each.

    Args:
        captions: Captions, each of which names its occupation.
        occupations: For each caption, the word or phrase that is not changed, in the singular or plural.
        seed: Seed of the choice between wordings by the rules.
        endpoint: The model that paraphrases; None uses the rules.
        cache: Cache of the model's answers, so that they are not paid for twice.
        name_recognizer: As for :func:`biaslab.captions.indicators.indicators`, which labels genders for the comparison.

    Returns one row per caption, in order: ``text``, ``status`` (``by_rule``; ``paraphrased`` by the model; the error of
    both its answers, a key of :data:`ERRORS`; ``not_asked``, if the caption is too long; or one of
    :data:`biaslab.endpoints.chat.OUTCOMES`), and ``unsupported_fields``, fields of the request that the model does not
    support. Raises ParameterError: The endpoint does not accept the key or the model. RunError: The endpoint does not
    work.
    """
    pairs = list(zip(captions, occupations, strict=True))
    texts = [paraphrase(text, occupation, seed) for text, occupation in pairs]
    outcomes, unsupported = ["by_rule"] * len(pairs), [""] * len(pairs)
    if endpoint is not None:
        indices = [i for i, (text, _) in enumerate(pairs) if len(text) <= LONGEST_CAPTION]
        answers = _ask_model([pairs[i] for i in indices], endpoint, cache, name_recognizer, progress)
        outcomes = ["not_asked"] * len(pairs)
        for i, (text, outcome, left_out) in zip(indices, answers, strict=True):
            outcomes[i], unsupported[i] = outcome, left_out
            texts[i] = text if outcome == "paraphrased" else texts[i]
    return pd.DataFrame({"text": texts, "status": outcomes, "unsupported_fields": unsupported}, dtype=object)


def _ask_model(
    pairs: Sequence[tuple[str, str]],
    endpoint: EndpointSettings,
    cache: ResultCache | None,
    name_recognizer: str,
    progress: bool,
) -> list[tuple[str, str, str]]:
    """Return text, outcome and unsupported fields for each caption; a failed first text is requested once more."""
    from biaslab.endpoints.chat import are_answered, ask_until

    questions, earlier = (
        [[{"role": "user", "content": text.format(occupation=word, caption=caption)}] for caption, word in pairs]
        for text in (_INSTRUCTION, _EARLIER_INSTRUCTION)
    )
    is_earlier = are_answered(endpoint, earlier, cache)
    questions = [e if use_earlier else q for q, e, use_earlier in zip(questions, earlier, is_earlier, strict=True)]
    results: dict[int, tuple[str, str]] = {}

    def find_errors(indices: list[int], answers: list[Answer]) -> list[str]:
        checked = _check_answers([pairs[i] for i in indices], answers, name_recognizer)
        results.update(zip(indices, checked, strict=True))
        return [
            _RETRY.format(why=ERRORS[outcome], occupation=pairs[i][1]) if outcome in ERRORS else ""
            for i, (_, outcome) in zip(indices, checked, strict=True)
        ]

    options = {"label": "paraphrasing", "longest": _LONGEST_ANSWER, "progress": progress}
    answers = ask_until(endpoint, questions, find_errors, 2, cache, **options)
    return [(*results[i], answer.asked_without) for i, answer in enumerate(answers)]


def _check_answers(
    pairs: Sequence[tuple[str, str]], answers: Sequence[Answer], name_recognizer: str
) -> list[tuple[str, str]]:
    """Return text and outcome of each answer."""
    from biaslab.captions.indicators import indicators

    texts = [_plain_answer(answer.text) for answer in answers]
    gender_sets = {"none": set(), "female": {"female"}, "male": {"male"}, "both": {"female", "male"}}
    genders_before, genders_after = (
        indicators(captions, name_recognizer=name_recognizer)["indicator"].map(gender_sets)
        for captions in ([caption for caption, _ in pairs], texts)
    )
    results = []
    rows = zip(pairs, answers, texts, genders_before, genders_after, strict=True)
    for (caption, occupation), answer, text, caption_genders, text_genders in rows:
        if not text:
            outcome = "empty" if answer.outcome == "answered" else answer.outcome
        elif _REFUSAL.match(text) and not _REFUSAL.match(caption):
            outcome = "declined"
        elif not any(_pattern_of(occupation).search(form(text)) for form in (normalize, split_words)):
            outcome = "lost_occupation"
        elif caption_genders != text_genders:
            outcome = "lost_gender" if caption_genders - text_genders else "added_gender"
        else:
            outcome = "too_long" if len(text) > 3 * len(caption) + 200 else "paraphrased"
        results.append((text, outcome))
    return results


def _plain_answer(answer: str) -> str:
    text = _LABEL.sub("", " ".join(answer.split()))
    while len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    # Markdown that makes the whole text bold is removed.
    if len(text) > 4 and text[:2] == text[-2:] == "**" and "**" not in text[2:-2]:
        text = text[2:-2].strip()
    return text


def paraphrase(text: str, occupation: str, seed: int = 0) -> str:
    """Return a paraphrase of the normalized ``text``, which depends on text, occupation and seed only.

    The occupation is unchanged, also in the plural.
    """
    key = f"{seed}\0{occupation}\0{text}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(key, digest_size=8).digest()
    rng = random.Random(int.from_bytes(digest))
    text = normalize(text)
    reworded = _replace_phrases(text, occupation.strip(), rng)
    parts = reworded.split(", ")
    is_swappable = len(parts) == 2 and min(map(len, parts)) >= 3 and not re.search(r"[:.|]|\d", reworded)
    if is_swappable and rng.random() < 0.5:
        reworded = ", ".join(reversed(parts))
    return reworded if reworded != text else _add_opening(text, occupation.strip(), rng)


def _replace_phrases(text: str, occupation: str, rng: random.Random) -> str:
    fixed_spans = [m.span() for m in _fixed_words(occupation).finditer(text)]
    ends = [end for _, end in fixed_spans]
    low = text.translate(_TO_LOWER)
    places: dict[str, tuple[int, int]] = {}

    def occurs_elsewhere(option: str, start: int, end: int) -> bool:
        if option not in places:
            places[option] = (low.find(option), low.rfind(option))
        first_index, last_index = places[option]
        return 0 <= first_index <= start - len(option) or last_index >= end

    def replace(match: re.Match) -> str:
        phrase, start, end = match["phrase"], match.start("phrase"), match.end()
        is_name = phrase[0].isupper() and start > 0
        index = bisect_right(ends, start)
        if is_name or (index < len(fixed_spans) and fixed_spans[index][0] < end):
            return match[0]
        options = _SMILES if phrase.lower() == "smiling" else lexicons.load("paraphrases")[phrase.lower()]
        # A replacement must not already occur in the caption.
        options = [o for o in options if not occurs_elsewhere(o, start, end)]
        if not options:
            return match[0]
        replacement = rng.choice(options)
        article = match["article"] or ""
        if article:
            new_article = lexicons.article(replacement)
            article = f"{new_article.capitalize() if article[0].isupper() else new_article} "
        elif phrase[0].isupper():
            replacement = replacement[0].upper() + replacement[1:]
        return article + replacement

    return _phrase_pattern().sub(replace, text)


def _add_opening(text: str, occupation: str, rng: random.Random) -> str:
    first_word = re.match(r"[\w-]+", text)
    is_opener = bool(first_word) and first_word[0].lower() in {"a", "an", "the", occupation.lower().split()[0]}
    if not (is_opener or text[:1].islower()) or ":" in text or _OPENER.search(text):
        return text
    return f"{rng.choice(_OPENERS)} {text[0].lower() if is_opener else text[0]}{text[1:]}"


@cache
def _phrase_pattern() -> re.Pattern:
    longest = sorted(lexicons.load("paraphrases"), key=len, reverse=True)
    # "smiling" is replaced only after its noun; "a smiling nurse" is unchanged.
    smiling = r"(?<!\ba )(?<!\bthe )smiling(?=\s*(?:$|[,.;:]|(?:at|in|on|for)\b))"
    alternatives = "|".join(map(re.escape, longest))
    return re.compile(rf"(?i)(?:\b(?P<article>an?)\s+)?\b(?P<phrase>{alternatives}|{smiling})\b")


@cache
def _fixed_words(occupation: str) -> re.Pattern:
    """Return a pattern of words that must not change: the occupation, gender words, pronouns and titles."""
    lists = ("gender_words", "gender_pronouns", "gender_titles")
    words = [w for name in lists for group in lexicons.load(name).values() for w in group]
    alternatives = "|".join(re.escape(w) for w in (*lexicons.plurals(occupation), occupation, *words))
    return re.compile(rf"(?i)\b(?:{alternatives})\b")


@cache
def _pattern_of(occupation: str) -> re.Pattern:
    """Return a pattern that finds an occupation like the search: whole words, any case, singular or plural."""
    occupation = occupation.strip()
    forms = [re.split(r"[\s-]+", form) for form in (occupation, *lexicons.plurals(occupation))]
    alternatives = "|".join(r"[\s-]+".join(map(re.escape, words)) for words in forms)
    return re.compile(rf"(?i)\b(?:{alternatives})\b")
