"""How much each place of an image attends to each word, taken while a diffusers pipeline generates.

Attention is ``softmax(QK^T / sqrt(d))`` of the denoising network's cross-attention (triplets, equation 6), added up
over its heads and the steps, in the half of a batch that has the prompt; of a U-Net all but the middle block's. Forward
hooks take queries and keys behind the layers that make them, so images stay byte-identical. Transformers (Stable
Diffusion 3, Flux) attend to text and image together and are experimental: attention is that among the words, padding
left out, and the threshold of masks is not calibrated.

Heads are kept apart because each one's map is clamped where interpolation undershoots, as DAAM does it (Tang et al.
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

# -- which columns of a text, as a network reads it, belong to a word -------------------------------------------

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
            f"Attention to words cannot be read from a {kind}: its text encoding is unsupported. Use one of "
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
    # Words that no tokenizer has a column for have weight zero.
    weights = np.concatenate([of / np.maximum(of.sum(-1, keepdims=True), 1) for of, _ in read], -1)
    found, missing = [], []
    for i, given in enumerate(asked):
        has = weights[i].any(-1)
        # Words that have columns come first.
        weights[i] = weights[i][np.argsort(~has, kind="stable")]
        told = list(zip(given, places[i], has[: len(given)], strict=True))
        found.append(tuple(word for word, _, known in told if known))
        missing.append({word: CUT if at else ABSENT for word, at, known in told if not known})
    # At least one word, so that empty texts keep the array's shape.
    most = max([1, *map(len, found)])
    return Columns(found, missing, weights[:, :most], np.concatenate([text for _, text in read], -1))


def _places(word: str, text: str) -> list[tuple[int, int]]:
    return [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word.strip())}(?!\w)", text, re.IGNORECASE)]


def _read(pipe, part, length: int, texts, places, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which columns of a part of the text are each word's, and which are no padding."""
    is_of_word = np.zeros((len(texts), most, length), np.float32)
    is_text = np.zeros((len(texts), length), bool)
    for said in tokenized(pipe, part, length, texts, return_offsets_mapping=True):
        is_text |= np.array(said["attention_mask"], bool)
        starts, ends = np.moveaxis(np.array(said["offset_mapping"]), -1, 0)
        for i, of_text in enumerate(places):
            for j, of_word in enumerate(of_text):
                for start, end in of_word:
                    here = (starts[i] < end) & (ends[i] > start)
                    # A word counts only if its last character was tokenized.
                    if here.any() and ends[i][here].max() >= end:
                        is_of_word[i, j, here] = 1
    return is_of_word, is_text


# -- attention -----------------------------------------------------------------------------------------------

# Numbers of attention that are held at a time: they stay in a processor's cache.
_AT_A_TIME = {"cpu": 2**20, "cuda": 2**27}


class Part(NamedTuple):
    """What a sum is of."""

    layer: str  # The layer, as the network names it.
    step: int  # The step, from 0; -1 for all.


class Attention:
    """Attention to words, added up while a pipeline generates, by what :func:`capture` hooks into it.

    Attributes:
        sums: ``float32 (images, heads, words, rows, columns)``, by layer and step; layers in the order in which they
            first ran.
        n: How many steps are in each sum.
        latent: Height and width of the latents; (0, 0) before the first step.
    """

    def __init__(self, columns: Columns, *, by_step: bool, padded: bool) -> None:
        import torch

        self.sums: dict[Part, torch.Tensor] = {}
        self.n: dict[Part, int] = defaultdict(int)
        self.latent = (0, 0)
        self._step, self._by_step = -1, by_step
        self._weights = torch.from_numpy(columns.weights)
        # Cross-attention of a U-Net is a share of all columns.
        self._is_text = None if padded else torch.from_numpy(columns.is_text)

    def maps(self, step: int = -1) -> torch.Tensor:
        """Return mean attention on the latents' grid, ``float32 (images, words, height, width)``, 0 or more.

        Of one ``step`` alone, where steps were kept apart. Each head's sum is interpolated (bicubic) and clamped at 0.
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
        """Note the step and the latents' shape, before the network runs."""
        given, (images, _, columns) = kwargs["encoder_hidden_states"], self._weights.shape
        if len(given) not in (images, 2 * images) or given.shape[1] != columns:
            raise RunError(
                f"Attention was to be taken of {images} images with texts of {columns} columns, but the pipeline was "
                f"given {' x '.join(map(str, given.shape[:2]))}. Give a text for each image of one call."
            )
        self._step += 1
        self._weights = self._weights.to(given.device)
        if self._is_text is not None:
            self._is_text = self._is_text.to(given.device)
        if (places := kwargs.get("img_ids")) is not None:
            # Each place of Flux is of 2 x 2 latents.
            self.latent = tuple(2 * (int(most) + 1) for most in places.reshape(-1, 3)[:, 1:].amax(0))
        else:
            self.latent = tuple((args[0] if args else kwargs["hidden_states"]).shape[-2:])

    def _add(self, layer: str, taken: dict, module, args, kwargs, output) -> None:
        """Add a layer's attention at a step, after it ran."""
        if not {"queries", "keys"} <= set(taken):
            raise RunError(
                f"{layer} is computed by {type(module.processor).__name__}, which does not call its projections: "
                "attention cannot be taken from it. Give the pipeline the processors of its library."
            )
        rotation = kwargs.get("image_rotary_emb")
        queries, keys = (self._by_head(taken.pop(k), module, rotation) for k in ("queries", "keys"))
        if rotation is not None:
            from diffusers.models.embeddings import apply_rotary_emb

            n = self._weights.shape[2]
            # Blocks of one stream have text and image one after the other; so has the rotation.
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
        """Return values of the half of a batch that has the prompt, ``float32 (images, heads, places, numbers)``."""
        # Without guidance there is no other half.
        values = values[-len(self._weights) :]
        if values.dim() == 3:
            return values.unflatten(-1, (module.heads, -1)).transpose(1, 2).float()
        # Flux keeps heads behind places.
        return (values if rotation is None else values.transpose(1, 2)).float()

    def _grid(self, places: int) -> tuple[int, int]:
        """Return height and width of a resolution: those of the latents, halved until the number of places fits."""
        rows, columns = self.latent
        while rows * columns > places:
            rows, columns = -(-rows // 2), -(-columns // 2)
        if rows * columns != places:
            raise RunError(
                f"A layer has {places} positions, which is not a halving of latents of {self.latent[0]} x "
                f"{self.latent[1]}, so its positions cannot be mapped."
            )
        return rows, columns

    def _add_to(self, total, queries, keys) -> None:
        """Add attention to words to ``total (images, heads, words, rows, columns)``, in place."""
        import torch

        images, heads, words, *_ = total.shape
        total = total.view(images * heads, words, -1)
        weights = self._weights[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
        keys = (keys * queries.shape[-1] ** -0.5).transpose(2, 3)
        at_a_time = _AT_A_TIME["cpu" if keys.device.type == "cpu" else "cuda"]
        places = max(1, at_a_time // (images * heads * keys.shape[-1]))
        for part, some in zip(total.split(places, dim=2), queries.split(places, dim=2), strict=True):
            scores = some @ keys
            if self._is_text is not None:
                scores.masked_fill_(~self._is_text[:, None, None, :], -torch.inf)
            part.baddbmm_(weights, scores.softmax(-1).flatten(0, 1).transpose(1, 2))


def check(pipe) -> None:
    """Raise ParameterError where attention to words cannot be taken from a pipeline: of another kind, with fused
    projections or a compiled network, or a tokenizer that does not tell where tokens stand.
    """
    check_tokenizers(pipe)
    _layers(pipe)


@contextmanager
def capture(pipe, columns: Columns, *, by_step: bool = False) -> Iterator[Attention]:
    """Take attention to words from one call of a pipeline that :func:`check` lets pass; hooks go when the block ends.

    ``columns`` are the words of its prompts, one text for each image of the call. ``by_step`` keeps the sums of steps
    apart. Raises ParameterError where the pipeline cannot be used, RunError where it generates other images than the
    columns are of.
    """
    found = Attention(columns, by_step=by_step, padded=hasattr(pipe, "unet"))
    with ExitStack() as hooks:
        hooks.enter_context(_denoiser(pipe).register_forward_pre_hook(found._begin, with_kwargs=True))
        for name, module in _layers(pipe).items():
            taken: dict[str, object] = {}
            for role, maker in _makers(module).items():
                hooks.enter_context(
                    maker.register_forward_hook(lambda *given, taken=taken, role=role: taken.update({role: given[-1]}))
                )
            add = partial(found._add, name, taken)
            hooks.enter_context(module.register_forward_hook(add, with_kwargs=True))
        yield found


def _denoiser(pipe):
    return pipe.unet if hasattr(pipe, "unet") else pipe.transformer


def _layers(pipe) -> dict[str, torch.nn.Module]:
    """Return the layers whose attention counts by name, if it can be taken."""
    denoiser, kind = _denoiser(pipe), type(pipe).__name__
    if any(getattr(m, "_compiled_call_impl", None) or hasattr(m, "_orig_mod") for m in denoiser.modules()):
        raise ParameterError(
            f"The denoising network of this {kind} is compiled, which leaves out the layers that attention is taken "
            "from. Set generation.compile to false."
        )
    last = "attn2" if hasattr(pipe, "unet") else "attn"
    found = {
        name: module
        for name, module in denoiser.named_modules()
        if name.split(".")[-1] == last and not name.startswith("mid_block")
    }
    if not found:
        raise ParameterError(f"The denoising network of this {kind} has no cross-attention, but for its middle.")
    for name, module in found.items():
        if getattr(module, "fused_projections", False):
            raise ParameterError(
                f"The projections of {name} are fused in this {kind}, so its queries and keys cannot be separated. "
                "Call unfuse_qkv_projections() on the pipeline."
            )
    return found


def _makers(module) -> dict[str, torch.nn.Module]:
    """Return what makes the queries of the image and the keys of the text: where there is a norm, that comes last."""
    keys = ("norm_added_k", "add_k_proj") if module.added_kv_proj_dim else ("norm_k", "to_k")
    return {
        role: getattr(module, norm, None) or getattr(module, projection)
        for role, (norm, projection) in {"queries": ("norm_q", "to_q"), "keys": keys}.items()
    }
