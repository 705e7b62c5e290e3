"""The tokenizer of the synthetic world's models: one word is one token."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

SPECIAL = ("[pad]", "[unk]", "[bos]", "[eos]")
# Maximum length of a text in tokens, including start and end tokens; longer captions are truncated.
MAX_LENGTH = 24


def make_tokenizer(words: Iterable[str], max_length: int = MAX_LENGTH):
    """Return a word-level tokenizer for ``words`` that transformers, diffusers and open_clip load from a folder.

    Text is lower-cased and split at spaces and punctuation; a word outside ``words`` becomes ``[unk]``. Every text
    is wrapped in ``[bos]`` and ``[eos]``.
    Order and repetition of ``words`` have no effect; texts have at most ``max_length`` tokens, including these two.
    """
    from tokenizers import Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = [*SPECIAL, *sorted({word.lower() for word in words} - set(SPECIAL))]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[unk]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[bos] $A [eos]", special_tokens=[("[bos]", 2), ("[eos]", 3)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[pad]",
        unk_token="[unk]",
        bos_token="[bos]",
        eos_token="[eos]",
    )


def tokens(tokenizer, texts: Iterable[str]) -> np.ndarray:
    """Return token ids, int64 (n, length), padded and truncated to the tokenizer's length."""
    encoded = tokenizer(list(texts), padding="max_length", truncation=True, max_length=tokenizer.model_max_length)
    return np.array(encoded["input_ids"], np.int64)


def carried_over(table: torch.Tensor, tokenizer, old: torch.Tensor, old_tokenizer) -> torch.Tensor:
    """Return ``table``, with the embeddings in ``old`` for words that both tokenizers have."""
    vectors, old_ids = table.detach().clone(), old_tokenizer.get_vocab()
    for word, i in tokenizer.get_vocab().items():
        if word in old_ids:
            vectors[i] = old[old_ids[word]]
    return vectors
