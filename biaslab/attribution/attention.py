"""How much each place of an image attends to each word, taken while a diffusers pipeline generates.

Attention is ``softmax(QK^T / sqrt(d))`` of the denoising network's cross-attention (triplets, equation 6), added up
over its heads and the steps, all with the same weight, in the half of a batch that has the prompt. Queries and keys
are taken by forward hooks behind the layers that make them, so what computes the attention is untouched and images
stay byte-identical. Of a U-Net (Stable Diffusion 1 and 2, SDXL) all cross-attention counts but the middle block's.

Transformers (Stable Diffusion 3, Flux) attend to text and image together, in each block. They are experimental here:
attention is that among the words, padding left out, or with ``softmax="full"`` among words, padding and image; the
threshold of masks is not calibrated for either.

Sums are kept for each layer and head and the wanted words only, so their memory does not grow with the steps. Heads are
kept apart because each head's map is clamped where interpolation undershoots, as DAAM (Tang et al. 2023,
arXiv:2210.04885) does it: one clamp of a sum gives other masks.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from biaslab.attribution.words import Columns, check_tokenizers
from biaslab.errors import InputError, ParameterError, RunError

if TYPE_CHECKING:
    import torch

SOFTMAX = ("text", "full")
# Numbers of attention that are held at a time: they stay in a processor's cache.
_AT_A_TIME = {"cpu": 2**20, "cuda": 2**27}


class Part(NamedTuple):
    """What a sum is of."""

    layer: str
    """The layer, as the network names it."""
    step: int
    """The step, from 0; -1 for all."""


class Attention:
    """Attention to words, added up while a pipeline generates.

    Attributes:
        sums: ``float32 (images, heads, words, rows, columns)``, by layer and step.
        n: How many steps are in each sum.
        latent: Height and width of the latents; (0, 0) before the first step.
    """

    def __init__(self) -> None:
        self.sums: dict[Part, torch.Tensor] = {}
        self.n: dict[Part, int] = defaultdict(int)
        self.latent = (0, 0)
        self.step = -1

    @property
    def layers(self) -> dict[str, tuple[int, int]]:
        """The layers in the order in which they first ran, with their rows and columns."""
        return {part.layer: tuple(of.shape[-2:]) for part, of in self.sums.items()}

    def maps(self, *, layer: str = "", step: int = -1) -> torch.Tensor:
        """Return mean attention on the latents' grid, ``float32 (images, words, height, width)``, 0 or more.

        Each head's sum is interpolated to the grid (bicubic) and clamped at 0, where that undershoots; heads of all
        layers and steps have the same weight.

        Args:
            layer: Only this layer's.
            step: Only this step's, where steps were kept apart.

        Raises:
            InputError: Nothing was kept of it.
        """
        chosen = [p for p in self.sums if (not layer or p.layer == layer) and (step < 0 or p.step == step)]
        if not chosen:
            raise InputError(
                f"No attention was kept of {layer or 'any layer'}{f' at step {step}' * (step >= 0)}. Steps are kept "
                f"apart where that is asked for; the layers are {', '.join(self.layers)}."
            )
        return sum(map(self._summed, chosen)) / sum(map(self._count, chosen))

    def with_layers(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the maps of all layers together and of each, as :meth:`maps`; steps must not be kept apart.

        Each sum is interpolated once, where calls for the one and the others would do it twice.
        """
        summed = {part: self._summed(part) for part in self.sums}
        whole = sum(summed.values()) / sum(map(self._count, summed))
        return whole, {part.layer: total / self._count(part) for part, total in summed.items()}

    def _summed(self, part: Part) -> torch.Tensor:
        """Return the sum of the heads' sums on the latents' grid."""
        import torch

        of_heads = self.sums[part]
        on_grid = torch.nn.functional.interpolate(of_heads.flatten(0, 1), self.latent, mode="bicubic")
        return on_grid.clamp_(min=0).unflatten(0, of_heads.shape[:2]).sum(1)

    def _count(self, part: Part) -> int:
        return self.n[part] * self.sums[part].shape[1]


@dataclass(frozen=True)
class _Layer:
    name: str
    module: object
    takes: dict[str, object]
    """The modules behind which ``queries``, ``text_keys`` and, in joint attention, ``image_keys`` are taken."""


def check(pipe) -> None:
    """Check that attention to words can be taken from a pipeline.

    Raises:
        ParameterError: It is of another kind, its projections are fused, its network is compiled, or a tokenizer does
            not tell where tokens stand.
    """
    check_tokenizers(pipe)
    _layers(pipe)


@contextmanager
def capture(
    pipe,
    columns: Columns,
    *,
    softmax: Literal["text", "full"] = "text",
    by_step: bool = False,
) -> Iterator[Attention]:
    """Take attention to words from one call of a pipeline; its hooks go when the block ends, however it ends.

    Args:
        pipe: A diffusers pipeline that :func:`check` lets pass.
        columns: The words of its prompts, one text for each image of the call, in order.
        softmax: Among what a word's attention is a share: of the ``text`` alone, or ``full``, of text and
            image, which differs for Stable Diffusion 3 and Flux.
        by_step: Whether the sums of steps are kept apart; their memory then grows with the steps.

    Raises:
        ParameterError: The pipeline cannot be used, or an argument is not allowed.
        RunError: What the pipeline generates are other images than the columns are of.
    """
    if softmax not in SOFTMAX:
        raise ParameterError(f"softmax is {softmax!r}; allowed is {' or '.join(SOFTMAX)}.")
    check_tokenizers(pipe)
    layers, found = _layers(pipe), Attention()
    seen = _Sums(found, columns, full=softmax == "full", by_step=by_step)
    with ExitStack() as hooks:
        denoiser = _denoiser(pipe)
        hooks.enter_context(denoiser.register_forward_pre_hook(seen.begin, with_kwargs=True))
        for layer in layers:
            taken: dict[str, object] = {}
            hooks.enter_context(
                layer.module.register_forward_pre_hook(functools.partial(_rotation, taken), with_kwargs=True)
            )
            for role, module in layer.takes.items():
                hooks.enter_context(module.register_forward_hook(functools.partial(_take, taken, role)))
            hooks.enter_context(layer.module.register_forward_hook(functools.partial(seen.add, layer, taken)))
        yield found


def _rotation(taken: dict, module, args, kwargs) -> None:
    taken["rotation"] = kwargs.get("image_rotary_emb")


def _take(taken: dict, role: str, module, args, output) -> None:
    taken[role] = output


def _denoiser(pipe):
    return pipe.unet if hasattr(pipe, "unet") else pipe.transformer


def _layers(pipe) -> list[_Layer]:
    """Return the layers whose attention counts, if it can be taken."""
    denoiser, kind = _denoiser(pipe), type(pipe).__name__
    if any(getattr(m, "_compiled_call_impl", None) or hasattr(m, "_orig_mod") for m in denoiser.modules()):
        raise ParameterError(
            f"The denoising network of this {kind} is compiled, which leaves out the layers that attention is taken "
            "from. Set generation.compile to false."
        )
    if hasattr(pipe, "unet"):
        modules = {
            name: module
            for name, module in denoiser.named_modules()
            if name.split(".")[-1] == "attn2" and not name.startswith("mid_block")
        }
    else:
        modules = {name: m for name, m in denoiser.named_modules() if name.split(".")[-1] == "attn"}
    if not modules:
        raise ParameterError(
            f"The denoising network of this {kind} has no cross-attention, but for its middle."
        )
    for name, module in modules.items():
        if getattr(module, "fused_projections", False):
            raise ParameterError(
                f"The projections of {name} are fused in this {kind}, so that its queries and keys are not told apart. "
                "Call unfuse_qkv_projections() on the pipeline."
            )
    return [_Layer(name, module, _takes(module)) for name, module in modules.items()]


def _takes(module) -> dict[str, object]:
    def last(norm: str, projection: str):
        # Where there is a norm, it follows the projection.
        found = getattr(module, norm, None)
        return getattr(module, projection) if found is None else found

    found = {"queries": last("norm_q", "to_q")}
    if getattr(module, "added_kv_proj_dim", None):
        return found | {
            "text_keys": last("norm_added_k", "add_k_proj"),
            "image_keys": last("norm_k", "to_k"),
        }
    return found | {"text_keys": last("norm_k", "to_k")}


class _Sums:
    """The hooks that fill an :class:`Attention`."""

    def __init__(self, found: Attention, columns: Columns, *, full: bool, by_step: bool) -> None:
        import torch

        self.found, self.full = found, full
        self.by_step = by_step
        self.weights = torch.from_numpy(columns.weights)
        self.is_text = torch.from_numpy(columns.is_text)

    def begin(self, denoiser, args, kwargs) -> None:
        """Note the step and the latents' shape, before the network runs."""
        found, given = self.found, kwargs["encoder_hidden_states"]
        images, _, columns = self.weights.shape
        if len(given) not in (images, 2 * images) or given.shape[1] != columns:
            raise RunError(
                f"Attention was to be taken of {images} images with texts of {columns} columns, but the pipeline was "
                f"given {' x '.join(map(str, given.shape[:2]))}. Give a text for each image of one call."
            )
        found.step += 1
        self.weights, self.is_text = self.weights.to(given.device), self.is_text.to(given.device)
        if (places := kwargs.get("img_ids")) is not None:
            # Each place of Flux is of 2 x 2 latents.
            found.latent = tuple(2 * (int(most) + 1) for most in places.reshape(-1, 3)[:, 1:].amax(0))
        else:
            found.latent = tuple((args[0] if args else kwargs["hidden_states"]).shape[-2:])

    def add(self, layer: _Layer, taken: dict, module, args, output) -> None:
        """Add a layer's attention at a step, after it ran."""
        rotation = taken.pop("rotation")
        if not {"queries", "text_keys"} <= set(taken):
            raise RunError(
                f"{layer.name} is computed by {type(module.processor).__name__}, which does not call its projections: "
                "attention cannot be taken from it. Give the pipeline the processors of its library."
            )
        by_head = {role: self._by_head(taken.pop(role), module, rotation) for role in list(taken)}
        queries, keys, is_text = self._joint(**by_head, rotation=rotation)
        images, heads, places, _ = queries.shape
        part = Part(layer.name, self.found.step if self.by_step else -1)
        if part not in self.found.sums:
            shape = images, heads, self.weights.shape[1], *self._grid(places)
            self.found.sums[part] = queries.new_zeros(shape)
        self.found.n[part] += 1
        _add(self.found.sums[part], queries, keys, self.weights, is_text)

    def _by_head(self, values, module, rotation):
        """Return values of the half of a batch that has the prompt, ``float32 (images, heads, places, numbers)``."""
        # Without guidance there is no other half.
        values = values[-len(self.weights) :]
        if values.dim() == 3:
            return values.unflatten(-1, (module.heads, -1)).transpose(1, 2).float()
        # Flux keeps heads behind places.
        return (values if rotation is None else values.transpose(1, 2)).float()

    def _joint(self, queries, text_keys, image_keys=None, rotation=None):
        """Return queries of the image, the keys that they are compared with, and which of these are no padding."""
        import torch

        n = self.weights.shape[2]
        if rotation is not None:
            from diffusers.models.embeddings import apply_rotary_emb

            # Blocks of one stream have text and image one after the other; so has the rotation.
            if image_keys is None:
                queries, text_keys, image_keys = queries[:, :, n:], text_keys[:, :, :n], text_keys[:, :, n:]
            of_text, of_image = ([r[part] for r in rotation] for part in (slice(n), slice(n, None)))
            queries, image_keys = (apply_rotary_emb(x, of_image) for x in (queries, image_keys))
            text_keys = apply_rotary_emb(text_keys, of_text)
        if image_keys is None:
            return queries, text_keys, None
        if self.full:
            return queries, torch.cat([text_keys, image_keys], dim=2), None
        return queries, text_keys, self.is_text

    def _grid(self, places: int) -> tuple[int, int]:
        """Return height and width of a resolution: those of the latents, halved until the number of places fits."""
        rows, columns = self.found.latent
        while rows * columns > places:
            rows, columns = -(-rows // 2), -(-columns // 2)
        if rows * columns != places:
            raise RunError(
                f"A layer has {places} places, which is no halving of latents of {self.found.latent[0]} x "
                f"{self.found.latent[1]}: where its places are is not known."
            )
        return rows, columns


def _add(total, queries, keys, weights, is_text) -> None:
    """Add attention to words to ``total (images, heads, words, rows, columns)``, in place."""
    import torch

    images, heads, words, *_ = total.shape
    total = total.view(images * heads, words, -1)
    weights = weights[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
    keys = (keys * queries.shape[-1] ** -0.5).transpose(2, 3)
    at_a_time = _AT_A_TIME["cpu" if keys.device.type == "cpu" else "cuda"]
    places = max(1, at_a_time // (images * heads * keys.shape[-1]))
    for part, some in zip(total.split(places, dim=2), queries.split(places, dim=2), strict=True):
        scores = some @ keys
        if is_text is not None:
            scores.masked_fill_(~is_text[:, None, None, :], -torch.inf)
        attention = scores.softmax(-1)[..., : weights.shape[-1]].flatten(0, 1)
        part.baddbmm_(weights, attention.transpose(1, 2))
