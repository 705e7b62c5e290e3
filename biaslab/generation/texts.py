"""Tokenization of prompts: words unknown to tokenizers, and truncated ends that no text encoder reads."""

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
# Limits from this number of tokens upwards mean that a tokenizer has no limit.
_NO_LIMIT = 10**9
# Types of tokenizers with a fixed vocabulary of words; all others split unknown words into pieces.
_WORD_LEVEL_TYPES = ("WordLevel", "WordPiece")


def _find_tokenizers(pipe) -> list[tuple[str, Any, int]]:
    """Return a pipeline's tokenizers: name, tokenizer, and the maximum number of tokens that its encoder reads."""
    parts = {name: getattr(pipe, name, None) for name in _PARTS}
    # A processor of images and texts contains a tokenizer.
    tokenizers = {name: getattr(part, "tokenizer", part) for name, part in parts.items() if part is not None}
    return _set_text_length(pipe, [(name, t, t.model_max_length) for name, t in tokenizers.items()])


def check_lengths(pipe, name: str) -> None:
    """Raise ParameterError if the token limit of a tokenizer is below 1, or so large that padding exceeds memory."""
    for part, _, max_tokens in _find_tokenizers(pipe):
        # In families without a denoiser, the pipeline sets the limit of a tokenizer that has none.
        if max_tokens < 1 or (max_tokens >= _NO_LIMIT and families.family_of_pipeline(pipe).denoiser):
            raise ParameterError(
                f"{name}: its {part} states a maximum of {max_tokens} tokens per text (model_max_length). Use another "
                "model."
            )


def check_words(folder: str | Path, texts: Iterable[str], name: str) -> None:
    """Raise ParameterError, which lists the words, if a tokenizer in a pipeline's folder lacks words of texts."""
    texts, unknown = list(dict.fromkeys(texts)), {}
    for part in _PARTS:
        file = Path(folder) / part / "tokenizer.json"
        if not file.is_file() or json.loads(reading.text(file))["model"].get("type") not in _WORD_LEVEL_TYPES:
            continue
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        unk = tokenizer.token_to_id(tokenizer.model.unk_token)
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            for i, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                if i == unk:
                    unknown.setdefault(text[start:end], text)
    if unknown:
        words = ", ".join(repr(w) for w in list(unknown)[:12]) + (", …" if len(unknown) > 12 else "")
        raise ParameterError(
            f"The tokenizer of {name} lacks {len(unknown)} of the prompts' words: {words} (for example in "
            f"{next(iter(unknown.values()))[:200]!r}). Remove these prompts, or use a model with subword tokens."
        )


def parts(pipe) -> list[tuple[tuple[str, ...], int]]:
    """Return the tokenizers of each part of a pipeline's text (:attr:`Family.columns`), and its number of columns."""
    columns = [
        (names, next((t.model_max_length for n in names if (t := getattr(pipe, n, None)) is not None), 0))
        for names in families.family_of_pipeline(pipe).columns
    ]
    return _set_text_length(pipe, columns)


def _set_text_length(pipe, entries: list[tuple]) -> list[tuple]:
    """Replace the length of the last entry, an encoder of long texts, by the pipeline's text length, if it has one."""
    text_length = families.family_of_pipeline(pipe).text_length
    return [*entries[:-1], (*entries[-1][:-1], text_length)] if entries and text_length else entries


def tokenized(pipe, part: tuple[str, ...], length: int, texts: Sequence[str], **options: bool) -> Iterator:
    """Yield texts tokenized by each tokenizer of a part with an encoder, padded and truncated to ``length`` tokens."""
    for name in part:
        tokenizer, encoder = (getattr(pipe, n, None) for n in (name, name.replace("tokenizer", "text_encoder")))
        if tokenizer is not None and encoder is not None and len(texts):
            settings = {"padding": "max_length", "max_length": length, "truncation": True}
            yield tokenizer(list(texts), **settings, return_attention_mask=True, **options)


def are_words(pipe, texts: Sequence[str]) -> np.ndarray | None:
    """Return whether each column of texts is a word's, ``bool (texts, columns)``; None if unknown."""
    if not families.family_of_pipeline(pipe).columns:
        return None
    masks = []
    for part, length in parts(pipe):
        mask = np.zeros((len(texts), length), bool)
        for tokens in tokenized(pipe, part, length, texts, return_special_tokens_mask=True):
            mask |= np.array(tokens["attention_mask"], bool) & ~np.array(tokens["special_tokens_mask"], bool)
        masks.append(mask)
    return np.concatenate(masks, axis=1)


def n_tokens_truncated(pipe, texts: Sequence[str]) -> np.ndarray:
    """Return the number of tokens at the end of each text that no text encoder reads, ``int64 (texts,)``; mostly 0."""
    n_truncated, is_chat = [], families.family_of_pipeline(pipe).chat
    for _, tokenizer, max_tokens in _find_tokenizers(pipe) if len(texts) else ():
        if max_tokens >= _NO_LIMIT:
            return np.zeros(len(texts), np.int64)
        limit = max_tokens - (_count_template_tokens(pipe, tokenizer) if is_chat else 0)
        n_truncated.append([max(0, len(ids) - limit) for ids in tokenizer(list(texts), truncation=False)["input_ids"]])
    return np.min(n_truncated, axis=0) if n_truncated else np.zeros(len(texts), np.int64)


def _count_template_tokens(pipe, tokenizer) -> int:
    """Return the number of tokens that a chat template adds to a text."""
    system_message = getattr(pipe, "system_message", "")
    messages = [{"role": "system", "content": system_message}] if system_message else []
    chat = [*messages, {"role": "user", "content": ""}]
    if pipe.tokenizer is not tokenizer:
        # A processor takes messages with parts of several types.
        chat = [{**entry, "content": [{"type": "text", "text": entry["content"]}]} for entry in chat]
    text = pipe.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=not messages)
    return len(tokenizer(text)["input_ids"])
