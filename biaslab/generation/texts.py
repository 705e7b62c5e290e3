"""What tokenizers make of prompts: words that they do not know, and ends that no text encoder reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biaslab.errors import ParameterError
from biaslab.generation import families
from biaslab.io import reading

_PARTS = ("tokenizer", "tokenizer_2", "tokenizer_3")
# Tokens of a text from which on a tokenizer has no limit.
_NO_LIMIT = 10**9
# Tokenizers with a fixed list of words; all others spell out what they do not know.
_WHOLE_WORDS = ("WordLevel", "WordPiece")


def _tokenizers(pipe) -> list[tuple[str, Any, int]]:
    """Return the names of a pipeline's tokenizers, these, and how many tokens of a text the encoder of each reads."""
    parts = {name: getattr(pipe, name, None) for name in _PARTS}
    # One that also reads images has its own within.
    there = {name: getattr(part, "tokenizer", part) for name, part in parts.items() if part is not None}
    return _of_t5(pipe, [(name, one, one.model_max_length) for name, one in there.items()])


def check_lengths(pipe, name: str) -> None:
    """Raise ParameterError where a tokenizer reads no number of tokens, or pads texts to more than memory holds."""
    for part, _, longest in _tokenizers(pipe):
        # Elsewhere one without a limit, of which a number larger than all is said, is told one by its pipeline.
        if longest < 1 or (longest >= _NO_LIMIT and families.family_of_pipeline(pipe).denoiser):
            raise ParameterError(f"{name}: its {part} gives {longest} as the tokens of a text (model_max_length).")


def check_words(folder: str | Path, texts: Iterable[str], name: str) -> None:
    """Raise ParameterError, with the words, where a tokenizer in a pipeline's folder does not know some."""
    texts, unknown = list(dict.fromkeys(texts)), {}
    for part in _PARTS:
        file = Path(folder) / part / "tokenizer.json"
        if not file.is_file() or json.loads(reading.text(file))["model"].get("type") not in _WHOLE_WORDS:
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
            f"The tokenizer of {name} lacks {len(unknown)} of the prompts' words: {words} (for example in "
            f"{next(iter(unknown.values()))[:200]!r}). Leave these prompts out, or use a model with subword tokens."
        )


def parts(pipe) -> list[tuple[tuple[str, ...], int]]:
    """Return the tokenizers of each part of a pipeline's text (:attr:`Family.columns`), and how many columns it has."""
    found = [
        (names, next((t.model_max_length for n in names if (t := getattr(pipe, n, None)) is not None), 0))
        for names in families.family_of_pipeline(pipe).columns
    ]
    return _of_t5(pipe, found)


def _of_t5(pipe, found: list[tuple]) -> list[tuple]:
    """Give the last encoder, one of long texts, the number of tokens that the pipeline says it reads."""
    longest = families.family_of_pipeline(pipe).text_length
    return [*found[:-1], (*found[-1][:-1], longest)] if found and longest else found


def tokenized(pipe, part: tuple[str, ...], length: int, texts: Sequence[str], **asked: bool) -> Iterator:
    """Yield what each tokenizer of a part that has an encoder makes of texts, padded and cut to ``length`` tokens."""
    for name in part:
        tokenizer, encoder = (getattr(pipe, n, None) for n in (name, name.replace("tokenizer", "text_encoder")))
        if tokenizer is not None and encoder is not None and len(texts):
            given = {"padding": "max_length", "max_length": length, "truncation": True}
            yield tokenizer(list(texts), **given, return_attention_mask=True, **asked)


def are_words(pipe, texts: Sequence[str]) -> np.ndarray | None:
    """Return which columns of texts are of words, ``bool (texts, columns)``; None where that is not known."""
    if not families.family_of_pipeline(pipe).columns:
        return None
    found = []
    for part, length in parts(pipe):
        said = np.zeros((len(texts), length), bool)
        for read in tokenized(pipe, part, length, texts, return_special_tokens_mask=True):
            said |= np.array(read["attention_mask"], bool) & ~np.array(read["special_tokens_mask"], bool)
        found.append(said)
    return np.concatenate(found, axis=1)


def n_tokens_truncated(pipe, texts: Sequence[str]) -> np.ndarray:
    """Return how many tokens at the end of each text no text encoder reads, ``int64 (texts,)``; mostly 0."""
    cut, framed = [], families.family_of_pipeline(pipe).chat
    for _, tokenizer, most in _tokenizers(pipe) if len(texts) else ():
        if most >= _NO_LIMIT:
            return np.zeros(len(texts), np.int64)
        read = most - (_frame(pipe, tokenizer) if framed else 0)
        cut.append([max(0, len(ids) - read) for ids in tokenizer(list(texts), truncation=False)["input_ids"]])
    return np.min(cut, axis=0) if cut else np.zeros(len(texts), np.int64)


def _frame(pipe, tokenizer) -> int:
    """Return how many tokens of a message in a chat are not its text."""
    said = getattr(pipe, "system_message", "")
    messages = [{"role": "system", "content": said}] if said else []
    whole = [*messages, {"role": "user", "content": ""}]
    if pipe.tokenizer is not tokenizer:
        # A processor has messages of several kinds.
        whole = [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in whole]
    framed = pipe.tokenizer.apply_chat_template(whole, tokenize=False, add_generation_prompt=not messages)
    return len(tokenizer(framed)["input_ids"])
