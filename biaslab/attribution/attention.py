"""Attention of each position of an image to each word, captured while a diffusers pipeline generates.

Attention is ``softmax(QK^T / sqrt(d))`` of the denoising network's cross-attention (triplets, equation 6). It is summed
over heads and steps, in the half of a batch that has the prompt; a U-Net's middle block is excluded. Forward hooks copy
queries and keys after the layers that compute them, so images stay byte-identical. Transformers (Stable Diffusion 3,
Flux) attend to text and image together and are experimental: attention is normalized over the words, without padding,
and the threshold of masks is not calibrated.

Sums of heads are separate because each head's map is clamped where interpolation undershoots, as in DAAM (Tang et al.
2023, arXiv:2210.04885).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from biaslab.errors import ParameterError, RunError
from biaslab.generation import families
from biaslab.generation.texts import parts, tokenized

if TYPE_CHECKING:
    import torch

# -- columns of the encoded text that belong to a word ----------------------------------------------------------

ABSENT, CUT = "not in the text", "beyond what the text encoder reads"
"""Reasons why a word has no columns."""


@dataclass(frozen=True)
class Columns:
    """Columns of words in some texts."""

    words: list[tuple[str, ...]]
    """The words of each text that have columns."""
    missing: list[dict[str, str]]
    """For each text, the reason why other words have none: :data:`ABSENT` or :data:`CUT`."""
    weights: np.ndarray
    """Weight of each column for a word, ``float32 (texts, words, columns)``; words are padded to the longest list.

    In each part of the text, the weights of a word's tokens sum to 1, however often the word occurs there.
    """
    is_text: np.ndarray
    """Whether a column is text rather than padding, ``bool (texts, columns)``."""

    def select(self, chosen: range) -> Columns:
        """Return the columns of the texts in a range."""
        rows = slice(chosen.start, chosen.stop)
        return Columns(self.words[rows], self.missing[rows], self.weights[rows], self.is_text[rows])


def check_tokenizers(pipe) -> None:
    """Raise ParameterError where tokenizers give no positions of tokens in the text, or a pipeline is unknown."""
    kind, table = type(pipe).__name__, families.table()
    columns = table.get(kind, {}).get("columns")
    if not columns:
        raise ParameterError(
            f"Attention to words cannot be recorded in a {kind}, because its text encoding is unsupported. Use one of "
            f"{', '.join(name for name, entry in table.items() if 'columns' in entry)}."
        )
    for name in (name for part in columns for name in part):
        tokenizer = getattr(pipe, name, None)
        if tokenizer is not None and not tokenizer.is_fast:
            raise ParameterError(
                f"Attention to words cannot be recorded in this {kind}, because its {name}, a "
                f"{type(tokenizer).__name__}, returns no positions of tokens in the text. Save the model with a "
                "tokenizer that has a tokenizer.json."
            )


def columns(pipe, texts: Sequence[str], words: Sequence[Sequence[str]]) -> Columns:
    """Return the columns of words in texts, as encoded by a pipeline that passes :func:`check_tokenizers`.

    Matches are whole words, in either case, and may be several words long. A word is only found with all its tokens,
    not where one of them is truncated at the tokenizer's limit.
    """
    unique_words = [list(dict.fromkeys(text_words)) for text_words in words]
    pairs = zip(texts, unique_words, strict=True)
    spans = [[_find_spans(word, text) for word in text_words] for text, text_words in pairs]
    n_words = max([1, *map(len, unique_words)])
    encodings = [_read_columns(pipe, part, length, texts, spans, n_words) for part, length in parts(pipe)]
    # Words without a column of any tokenizer have weight zero.
    weights = np.concatenate([mask / np.maximum(mask.sum(-1, keepdims=True), 1) for mask, _ in encodings], -1)
    words_with_columns, missing = [], []
    for i, text_words in enumerate(unique_words):
        has_columns = weights[i].any(-1)
        # Words that have columns come first.
        weights[i] = weights[i][np.argsort(~has_columns, kind="stable")]
        statuses = list(zip(text_words, spans[i], has_columns[: len(text_words)], strict=True))
        words_with_columns.append(tuple(word for word, _, is_found in statuses if is_found))
        missing.append({word: CUT if word_spans else ABSENT for word, word_spans, is_found in statuses if not is_found})
    # At least one word, so that empty texts keep the array's shape.
    n_words = max([1, *map(len, words_with_columns)])
    is_text = np.concatenate([mask for _, mask in encodings], -1)
    return Columns(words_with_columns, missing, weights[:, :n_words], is_text)


def _find_spans(word: str, text: str) -> list[tuple[int, int]]:
    return [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word.strip())}(?!\w)", text, re.IGNORECASE)]


def _read_columns(pipe, part, length: int, texts, spans, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of a text part's columns: those of each word, and those that are not padding."""
    is_of_word = np.zeros((len(texts), n_words, length), np.float32)
    is_text = np.zeros((len(texts), length), bool)
    for encoding in tokenized(pipe, part, length, texts, return_offsets_mapping=True):
        is_text |= np.array(encoding["attention_mask"], bool)
        starts, ends = np.moveaxis(np.array(encoding["offset_mapping"]), -1, 0)
        for i, text_spans in enumerate(spans):
            for j, word_spans in enumerate(text_spans):
                for start, end in word_spans:
                    is_inside = (starts[i] < end) & (ends[i] > start)
                    # A word counts only if its last character was tokenized.
                    if is_inside.any() and ends[i][is_inside].max() >= end:
                        is_of_word[i, j, is_inside] = 1
    return is_of_word, is_text


# -- attention -----------------------------------------------------------------------------------------------

# Attention values in memory at a time; those of a CPU fit its cache.
_MAX_NUMBERS = {"cpu": 2**20, "cuda": 2**27}


class Part(NamedTuple):
    """The layer and step of a sum of attention."""

    layer: str  # The layer's name in the network.
    step: int  # The step, from 0; -1 for all.


class Attention:
    """Attention to words, summed while a pipeline generates by the hooks of :func:`capture`.

    Attributes:
        sums: ``float32 (images, heads, words, rows, columns)``, by layer and step; layers in the order in which they
            first ran.
        n: Number of steps in each sum.
        latent: Height and width of the latents; (0, 0) before the first step.
    """

    def __init__(self, columns: Columns, *, by_step: bool, padded: bool) -> None:
        import torch

        self.sums: dict[Part, torch.Tensor] = {}
        self.n: dict[Part, int] = defaultdict(int)
        self.latent = (0, 0)
        self._step, self._by_step = -1, by_step
        self._weights = torch.from_numpy(columns.weights)
        # The softmax of a U-Net's cross-attention includes padding.
        self._is_text = None if padded else torch.from_numpy(columns.is_text)

    def maps(self, step: int = -1) -> torch.Tensor:
        """Return mean attention on the latents' grid, ``float32 (images, words, height, width)``, 0 or more.

        For a single ``step``, sums must be by step. Each head's sum is interpolated (bicubic) and clamped at 0.
        """
        import torch

        total, n = 0, 0
        for part, sums in self.sums.items():
            if step in (-1, part.step):
                on_grid = torch.nn.functional.interpolate(sums.flatten(0, 1), self.latent, mode="bicubic")
                total = total + on_grid.clamp_(min=0).unflatten(0, sums.shape[:2]).sum(1)
                n += self.n[part] * sums.shape[1]
        return total / n

    def _begin(self, denoiser, args, kwargs) -> None:
        """Record the step and the latents' shape, before the network runs."""
        states, (images, _, columns) = kwargs["encoder_hidden_states"], self._weights.shape
        if len(states) not in (images, 2 * images) or states.shape[1] != columns:
            raise RunError(
                f"Attention should be recorded for {images} images with texts of {columns} columns, but the pipeline "
                f"received {' x '.join(map(str, states.shape[:2]))}. Pass one text for each image of a call."
            )
        self._step += 1
        self._weights = self._weights.to(states.device)
        if self._is_text is not None:
            self._is_text = self._is_text.to(states.device)
        if (places := kwargs.get("img_ids")) is not None:
            # Each position of Flux covers 2 x 2 latents.
            self.latent = tuple(2 * (int(size) + 1) for size in places.reshape(-1, 3)[:, 1:].amax(0))
        else:
            self.latent = tuple((args[0] if args else kwargs["hidden_states"]).shape[-2:])

    def _add(self, layer: str, projections: dict, module, args, kwargs, output) -> None:
        """Add a layer's attention at a step, after it ran."""
        if not {"queries", "keys"} <= set(projections):
            raise RunError(
                f"{layer} is computed by {type(module.processor).__name__}, which does not call its projections, so "
                "attention cannot be recorded. Use the processors of the pipeline's own library."
            )
        rotation = kwargs.get("image_rotary_emb")
        queries, keys = (self._by_head(projections.pop(k), module, rotation) for k in ("queries", "keys"))
        if rotation is not None:
            from diffusers.models.embeddings import apply_rotary_emb

            n = self._weights.shape[2]
            # Single-stream blocks concatenate text and image, and so does the rotation.
            if not module.added_kv_proj_dim:
                queries, keys = queries[:, :, n:], keys[:, :, :n]
            queries = apply_rotary_emb(queries, [r[n:] for r in rotation])
            keys = apply_rotary_emb(keys, [r[:n] for r in rotation])
        part = Part(layer, self._step if self._by_step else -1)
        if part not in self.sums:
            images, heads, places, _ = queries.shape
            shape = images, heads, self._weights.shape[1], *self._grid(places)
            self.sums[part] = queries.new_zeros(shape)
        self.n[part] += 1
        self._add_to(self.sums[part], queries, keys)

    def _by_head(self, values, module, rotation):
        """Return values of the half of a batch that has the prompt, ``float32 (images, heads, places, channels)``."""
        # Without guidance the batch has no other half.
        values = values[-len(self._weights) :]
        if values.dim() == 3:
            return values.unflatten(-1, (module.heads, -1)).transpose(1, 2).float()
        # Flux has the axis of heads after that of positions.
        return (values if rotation is None else values.transpose(1, 2)).float()

    def _grid(self, places: int) -> tuple[int, int]:
        """Return height and width of a layer's map: those of the latents, halved to the number of positions."""
        rows, columns = self.latent
        while rows * columns > places:
            rows, columns = -(-rows // 2), -(-columns // 2)
        if rows * columns != places:
            raise RunError(
                f"A layer has {places} positions, which cannot be mapped to latents of {self.latent[0]} x "
                f"{self.latent[1]}, because they do not result from repeated halving."
            )
        return rows, columns

    def _add_to(self, total, queries, keys) -> None:
        """Add attention to words to ``total (images, heads, words, rows, columns)``, in place."""
        import torch

        images, heads, words, *_ = total.shape
        total = total.view(images * heads, words, -1)
        weights = self._weights[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
        keys = (keys * queries.shape[-1] ** -0.5).transpose(2, 3)
        max_numbers = _MAX_NUMBERS["cpu" if keys.device.type == "cpu" else "cuda"]
        places = max(1, max_numbers // (images * heads * keys.shape[-1]))
        for part, query_part in zip(total.split(places, dim=2), queries.split(places, dim=2), strict=True):
            scores = query_part @ keys
            if self._is_text is not None:
                scores.masked_fill_(~self._is_text[:, None, None, :], -torch.inf)
            part.baddbmm_(weights, scores.softmax(-1).flatten(0, 1).transpose(1, 2))


def check(pipe) -> None:
    """Raise ParameterError where attention to words cannot be captured from a pipeline.

    Causes are another kind of pipeline, fused projections, a compiled network, or a tokenizer without positions.
    """
    check_tokenizers(pipe)
    _layers(pipe)


@contextmanager
def capture(pipe, columns: Columns, *, by_step: bool = False) -> Iterator[Attention]:
    """Capture attention to words from one call of a pipeline that passes :func:`check`; removes its hooks on exit.

    ``columns`` are the words of its prompts, one text for each image of the call. With ``by_step``, each step has its
    own sums. Raises ParameterError where the pipeline is unsupported, RunError where the call's images do not match
    ``columns``.
    """
    attention = Attention(columns, by_step=by_step, padded=hasattr(pipe, "unet"))
    with ExitStack() as hooks:
        hooks.enter_context(_denoiser(pipe).register_forward_pre_hook(attention._begin, with_kwargs=True))
        for name, module in _layers(pipe).items():
            projections: dict[str, object] = {}
            for role, maker in _projection_modules(module).items():
                hooks.enter_context(
                    maker.register_forward_hook(lambda *args, to=projections, role=role: to.update({role: args[-1]}))
                )
            add = partial(attention._add, name, projections)
            hooks.enter_context(module.register_forward_hook(add, with_kwargs=True))
        yield attention


def _denoiser(pipe):
    return pipe.unet if hasattr(pipe, "unet") else pipe.transformer


def _layers(pipe) -> dict[str, torch.nn.Module]:
    """Return the cross-attention layers by name. Raises ParameterError where attention cannot be captured."""
    denoiser, kind = _denoiser(pipe), type(pipe).__name__
    if any(getattr(m, "_compiled_call_impl", None) or hasattr(m, "_orig_mod") for m in denoiser.modules()):
        raise ParameterError(
            f"The denoising network of this {kind} is compiled, so attention cannot be recorded in its layers. Set "
            "generation.compile to false."
        )
    suffix = "attn2" if hasattr(pipe, "unet") else "attn"
    layers = {
        name: module
        for name, module in denoiser.named_modules()
        if name.split(".")[-1] == suffix and not name.startswith("mid_block")
    }
    if not layers:
        raise ParameterError(f"The denoising network of this {kind} has no cross-attention outside its middle block.")
    for name, module in layers.items():
        if getattr(module, "fused_projections", False):
            raise ParameterError(
                f"The projections of {name} are fused in this {kind}, so its queries and keys cannot be separated. "
                "Call unfuse_qkv_projections() on the pipeline."
            )
    return layers


def _projection_modules(module) -> dict[str, torch.nn.Module]:
    """Return the modules that compute the queries of the image and the keys of the text: the norm, if there is one."""
    keys = ("norm_added_k", "add_k_proj") if module.added_kv_proj_dim else ("norm_k", "to_k")
    return {
        role: getattr(module, norm, None) or getattr(module, projection)
        for role, (norm, projection) in {"queries": ("norm_q", "to_q"), "keys": keys}.items()
    }
