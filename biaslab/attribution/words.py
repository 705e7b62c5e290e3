"""Which columns of a text, as a denoising network reads it, belong to a word of the prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biaslab.errors import ParameterError
from biaslab.generation import families
from biaslab.generation.texts import parts, tokenized

ABSENT, CUT = "not in the text", "beyond what the text encoder reads"
"""Why a word has no columns."""


@dataclass(frozen=True)
class Columns:
    """Columns of words in some texts."""

    words: list[tuple[str, ...]]
    """The words of each text that have columns."""
    missing: list[dict[str, str]]
    """For each text, why other words have none: :data:`ABSENT` or :data:`CUT`."""
    weights: np.ndarray
    """How much of a column is a word's, ``float32 (texts, words, columns)``, as many words as any text has, at least 1.

    A word's tokens in one part of the text share 1, wherever and however often it stands there; it has 1 for each part.
    """
    is_text: np.ndarray
    """Whether a column is no padding, ``bool (texts, columns)``."""

    def of(self, chosen: range) -> Columns:
        """Return the columns of some of the texts."""
        here = slice(chosen.start, chosen.stop)
        return Columns(self.words[here], self.missing[here], self.weights[here], self.is_text[here])


def check_tokenizers(pipe) -> None:
    """Raise ParameterError where tokenizers do not say where in the text a token stands, or a pipeline is unknown."""
    kind, known = type(pipe).__name__, families.table()
    columns = known.get(kind, {}).get("columns")
    if not columns:
        raise ParameterError(
            f"Attention to words cannot be read from a {kind}: how it reads a text is not known. Use one of "
            f"{', '.join(name for name, entry in known.items() if 'columns' in entry)}."
        )
    for name in (name for part in columns for name in part):
        tokenizer = getattr(pipe, name, None)
        if tokenizer is not None and not tokenizer.is_fast:
            raise ParameterError(
                f"Attention to words cannot be read from this {kind}: its {name}, a {type(tokenizer).__name__}, "
                "gives no positions of tokens in the text. Save the model with a tokenizer that has a tokenizer.json."
            )


def columns(pipe, texts: Sequence[str], words: Sequence[Sequence[str]]) -> Columns:
    """Find words in texts as a pipeline that :func:`check_tokenizers` lets pass reads them.

    A word is found wherever it stands as a whole, in capitals or not; it may be several words long, and has all its
    tokens: where one of them is cut off at the tokenizer's limit it is not found.
    """
    asked = [list(dict.fromkeys(given)) for given in words]
    places = [[_places(word, text) for word in given] for text, given in zip(texts, asked, strict=True)]
    most = max([1, *map(len, asked)])
    read = [_read(pipe, part, length, texts, places, most) for part, length in parts(pipe)]
    # What stands in no tokenizer's columns has no weight.
    weights = np.concatenate([of / np.maximum(of.sum(-1, keepdims=True), 1) for of, _ in read], -1)
    found, missing = [], []
    for i, given in enumerate(asked):
        has = weights[i].any(-1)
        # Words that have columns come first.
        weights[i] = weights[i][np.argsort(~has, kind="stable")]
        told = list(zip(given, places[i], has[: len(given)], strict=True))
        found.append(tuple(word for word, _, known in told if known))
        missing.append({word: CUT if at else ABSENT for word, at, known in told if not known})
    # One at least: sums of nothing have no shape.
    most = max([1, *map(len, found)])
    return Columns(found, missing, weights[:, :most], np.concatenate([text for _, text in read], -1))


def _places(word: str, text: str) -> list[tuple[int, int]]:
    return [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word.strip())}(?!\w)", text, re.IGNORECASE)]


def _read(pipe, part, length: int, texts, places, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which columns of a part of the text are each word's, and which are no padding."""
    found = np.zeros((len(texts), most, length), np.float32)
    is_text = np.zeros((len(texts), length), bool)
    for said in tokenized(pipe, part, length, texts, return_offsets_mapping=True):
        is_text |= np.array(said["attention_mask"], bool)
        starts, ends = np.moveaxis(np.array(said["offset_mapping"]), -1, 0)
        for i, of_text in enumerate(places):
            for j, of_word in enumerate(of_text):
                for start, end in of_word:
                    here = (starts[i] < end) & (ends[i] > start)
                    # Where its end was read, all of it was.
                    if here.any() and ends[i][here].max() >= end:
                        found[i, j, here] = 1
    return found, is_text
