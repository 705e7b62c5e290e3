"""What tokenizers make of prompts: words that they do not know, and ends that no text encoder reads."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from biaslab.errors import ParameterError

_PARTS = ("tokenizer", "tokenizer_2", "tokenizer_3")
# Tokenizers with a fixed list of words; all others spell out what they do not know.
_WHOLE_WORDS = ("WordLevel", "WordPiece")


def tokenizers(pipe) -> list[tuple[object, int]]:
    """Return a pipeline's tokenizers, each with the most tokens of a text that its encoder reads (0: any)."""
    names = [n for n in _PARTS if getattr(pipe, n, None) is not None]
    found = [(getattr(pipe, n), int(getattr(pipe, n).model_max_length)) for n in names]
    # A T5 encoder stands last where there are several and reads as much as the pipeline says.
    longest = inspect.signature(pipe.__call__).parameters.get("max_sequence_length")
    if found and longest is not None and isinstance(longest.default, int):
        found[-1] = (found[-1][0], longest.default)
    return [(t, most if most < 10**9 else 0) for t, most in found]


def check_words(folder: str | Path, texts: Iterable[str], name: str) -> None:
    """Check that the tokenizers in a pipeline's folder, of which nothing else is loaded, know every word.

    Raises:
        ParameterError: A tokenizer of whole words does not know some; the message names them.
    """
    texts, unknown = list(dict.fromkeys(texts)), {}
    for part in _PARTS:
        file = Path(folder) / part / "tokenizer.json"
        if not file.is_file() or json.loads(file.read_text("utf-8"))["model"].get("type") not in _WHOLE_WORDS:
            continue
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        unk = tokenizer.token_to_id(tokenizer.model.unk_token)
        found = tokenizer.encode_batch(texts, add_special_tokens=False)
        for text, read in zip(texts, found, strict=True):
            for i, (start, end) in zip(read.ids, read.offsets, strict=True):
                if i == unk:
                    unknown.setdefault(text[start:end], text)
    if unknown:
        words = ", ".join(repr(w) for w in list(unknown)[:12]) + (", …" if len(unknown) > 12 else "")
        raise ParameterError(
            f"{name} does not know {len(unknown)} of the prompts' words: {words} (for example in "
            f"{next(iter(unknown.values()))[:200]!r}). It has a token for each word that it was trained with and no "
            "other; leave these prompts out, or use a model that spells words."
        )


def tokens_cut(pipe, texts: Sequence[str]) -> np.ndarray:
    """Return how many tokens at the end of each text no text encoder reads, ``int64 (texts,)``; mostly 0."""
    least = None
    for tokenizer, most in tokenizers(pipe):
        if not most or not len(texts):
            return np.zeros(len(texts), np.int64)
        read = tokenizer(list(texts), truncation=False)["input_ids"]
        cut = np.array([max(0, len(ids) - most) for ids in read], np.int64)
        least = cut if least is None else np.minimum(least, cut)
    return np.zeros(len(texts), np.int64) if least is None else least
