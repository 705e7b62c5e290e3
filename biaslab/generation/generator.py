"""Images of prompts: text encoded once, batches across prompts, each image's noise its own.

Noise is drawn on the CPU, by :func:`image_seed`, so that it is the same, bit by bit, in every batch and on every
device. Pixels are the same for the same batches on the same machine; in others they may move by a level or two of 255.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from biaslab import errors
from biaslab.errors import ParameterError, RunError
from biaslab.execution import finite, processor
from biaslab.generation import families, loading, stated, texts
from biaslab.generation.families import Family
from biaslab.generation.settings import GenerationSettings
from biaslab.io import model_names
from biaslab.io.image_files import UnreadableImage
from biaslab.judges.judge_labels import BLOCKED
from biaslab.judges.model_loading import device as find_device

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)
# Images at a time, at most.
MAX_BATCH = 64
# Encoded prompts kept: images of a prompt follow one another.
_KEPT_TEXTS = 128
# Pixels that are decoded at a time: autoencoders need far more memory for them than denoising does. On a CPU, 16 small
# images stay in the caches.
_DECODED, _DECODED_ON_CPU = 2**21, 2**16
# Relative error of the denoising network in bfloat16 up to which it counts as accurate; networks that bear the type
# are at 0.005 to 0.02.
_ACCURATE = 0.05
# The longer side of an image at most, in pixels.
_LONGEST = 16_384
# Images up to this many pixels have short sequences in attention.
_SMALL = 128 * 128
# Share of free GPU memory that batches are fitted to.
_SHARE = 0.85


# What is called after each denoising step: its number, from 1, and latents as numbers of any type.
Follow = Callable[[int, "torch.Tensor"], None]
# What is asked for each batch: given the positions of its images among the prompts, a context that it is generated in.
Watch = Callable[[range], AbstractContextManager[Follow | None]]


def unwatched(chosen: range) -> AbstractContextManager[None]:
    """Return a context that takes nothing from a batch."""
    return contextlib.nullcontext()


class _EarlyExit(Exception):
    """Ends a pipeline's call, once its network was called."""


class Received(NamedTuple):
    """A text as the denoising network receives it."""

    tokens: np.ndarray  # ``float32 (tokens, width)``: what cross-attention reads (``encoder_hidden_states``).
    pooled: np.ndarray | None  # ``float32 (width,)``: the text as one vector, where the network takes one.


def image_seed(seed: int, prompt_id: str, index: int) -> int:
    """Return the seed of an image's noise, 0 to 2**63 - 1, from the run's seed, prompt (or noise_id) and index."""
    key = f"{int(seed)}\0{prompt_id}\0{int(index)}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1


def load(model: str, settings: GenerationSettings, *, device: str = "auto", offload: str = "none") -> Generator:
    """Load a model, by a name as for :func:`biaslab.hub.checkpoints.find_checkpoint`.

    ``device`` is ``cpu``, ``cuda``, … or ``auto``, ``offload`` as the setting ``compute.offload``.

    Raises ParameterError, MissingInputError: As of :func:`biaslab.generation.loading.look_up`, or the model cannot be
    loaded, or do what is asked.
    """
    import torch

    where = find_device(device)
    on_cpu = where.type == "cpu"
    check_offload(offload, where.type)
    files = loading.fetch(model, safety_checker=settings.safety_checker == "model")
    name = model_names.split(model).base
    family = stated.with_stated(families.family_of_files(files.pipeline, name), files, name)
    dtype = settings.dtype
    if dtype == "auto" and not on_cpu:
        emulated = where.type != "cuda" or not torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = "float16" if emulated else family.dtype
    # On a CPU, text encoder and autoencoder stay float32: they take little of the time.
    stored = "float32" if dtype == "auto" or (on_cpu and family.denoiser) else dtype
    pipe = loading.load_pipeline(files, model, dtype=getattr(torch, stored))
    # As loaded, it has what its configurations leave out.
    kept = ("steps", "guidance", "distilled", "unstated", "sources")
    kept = {one: getattr(family, one) for one in kept} if family.sources or family.unstated else {}
    family = replace(families.family_of_pipeline(pipe, name), **kept)
    if settings.scheduler:
        loading.set_scheduler(pipe, settings.scheduler)
    # It tries how the model takes what it is given: a configuration may say what does not fit.
    with loading.quiet(), errors.loading(model, "a text-to-image model"):
        if offload == "none":
            pipe.to(where)
        resolved = {"folder": files.pipeline.folder, "commit": files.base.commit, "family": family}
        made = Generator(pipe, settings.changed(dtype=dtype), model=model, device=where, **resolved)
        # Types are settled before: weights that are moved one by one have none of their own in between.
        if offload == "model":
            pipe.enable_model_cpu_offload(device=where)
        elif offload == "sequential":
            pipe.enable_sequential_cpu_offload(device=where)
    made.check_effect()
    return made


def check_offload(offload: str, device: str) -> None:
    """Raise ParameterError where models run on the CPU, in whose memory all of them is anyway."""
    if offload != "none" and (processor.accelerator() if device == "auto" else device) == "cpu":
        raise ParameterError(f"compute.offload is {offload!r}, but models run on the CPU here. Set it to none.")


class Generator:
    """A loaded diffusers pipeline, called ``model`` in messages, and what is asked of it.

    ``folder`` is that of its files, ``commit`` the model's where it is on the hub. Raises ParameterError: What is asked
    has no effect on the model, or does not fit it.
    """

    def __init__(
        self,
        pipe,
        settings: GenerationSettings,
        *,
        model: str,
        folder: Path,
        device: torch.device,
        commit: str = "",
        family: Family | None = None,
    ) -> None:
        self.model, self.pipe, self.device = model, pipe, device
        self._folder, self._commit = folder, commit
        self.family = family or families.family_of_pipeline(pipe, model)
        self._text = lru_cache(_KEPT_TEXTS)(partial(self.family.encode, pipe, device=device))
        # What a safety checker sees of an image, where it sees it as CLIP does.
        if projection := getattr(getattr(pipe, "safety_checker", None), "visual_projection", None):
            projection.register_forward_hook(lambda module, given, seen: self.check_finite(seen))
        self._ask(settings)
        self._prepare()
        self._batch_size = min(settings.batch_size, MAX_BATCH)

    @property
    def batch_size(self) -> int:
        """Images at a time: given, or found when first asked for; halved when memory did not hold them."""
        if not self._batch_size:
            self._batch_size = self._fitting_batch()
        return self._batch_size

    def with_settings(self, settings: GenerationSettings) -> Generator | None:
        """Return one that shares this one's pipeline, for other settings; None where these take another pipeline."""
        free = ("steps", "guidance_scale", "negative_prompt", "height", "width", "aspect", "batch_size")
        mine, theirs = (s.model_dump(exclude={*free, "dtype"}) for s in (self.settings, settings))
        if mine != theirs or settings.dtype not in ("auto", self.settings.dtype):
            return None
        made = copy.copy(self)
        made._ask(settings.changed(dtype=self.settings.dtype))
        made._batch_size = min(settings.batch_size, MAX_BATCH)
        made.check_effect()
        return made

    def _ask(self, settings: GenerationSettings) -> None:
        """Take what is asked, completed by what is the model's own."""
        self.family.check(settings, self.model)
        self.height, self.width = self.family.size(settings, self.model)
        if self.height and not 0 < min(self.height, self.width) <= max(self.height, self.width) <= _LONGEST:
            raise ParameterError(
                f"{self.model} cannot be loaded as a text-to-image model: its configuration gives images of "
                f"{self.height} x {self.width} pixels, and sides of 1 to {_LONGEST:,} are allowed."
            )
        self._guidance, self._sources = settings.guidance_scale, self.family.setting_sources(settings)
        self.settings = self.family.complete_settings(settings)

    def check_effect(self) -> None:
        """Raise ParameterError where guidance changes no image of a pipeline that the table does not know."""
        if self.family.denoiser or self._guidance is None or self._guidance <= self.family.unguided:
            return
        other = copy.copy(self)
        other.settings = self.settings.changed(guidance_scale=2 * self._guidance + 1)
        one, two = (each._batch(["a photo of a person"], [0], steps=1)[0] for each in (self, other))
        if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and np.array_equal(one, two):
            raise ParameterError(
                f"guidance_scale is {self._guidance:g}, but {self.model} is a {self.family.pipeline}, and guidance of "
                f"{2 * self._guidance + 1:g} gives the same pixels. Leave guidance_scale empty (null)."
            )

    def description(self) -> dict[str, object]:
        """Return what was found and used: pipeline, scheduler, types, sizes, versions of libraries."""
        import diffusers
        import torch
        import transformers

        checker = getattr(self.pipe, "safety_checker", None)
        on_gpu = self.device.type == "cuda"
        return {
            "pipeline": type(self.pipe).__name__,
            "variant": self.family.variant,
            "scheduler": type(self.pipe.scheduler).__name__,
            "safety_checker": type(checker).__name__ if checker is not None else "none",
            "steps": self.settings.steps,
            "guidance_scale": self.settings.guidance_scale if self.family.argument else None,
            "sources": self._sources,
            "height": self.height,
            "width": self.width,
            "dtype": self.settings.dtype,
            "device": f"{self.device}" + (f" ({torch.cuda.get_device_name(self.device)})" if on_gpu else ""),
            "batch_size": self.batch_size,
            "revision": self._commit,
            "versions": {m.__name__: str(m.__version__) for m in (torch, diffusers, transformers)},
        }

    def _prepare(self) -> None:
        """Bring the denoising network into its type; on a CPU, find out which one it bears."""
        import torch

        family, dtype = self.family, self.settings.dtype
        if not family.denoiser or families.is_quantised(self._denoiser):
            # What is quantised computes in a type of its own, and takes and gives numbers of any.
            self.settings = self.settings.changed(dtype="float32" if dtype == "auto" else dtype)
            return
        if dtype == "auto":
            self.settings = self.settings.changed(dtype=self._try_bfloat16())
        elif dtype != "float32":
            families.cast_inputs(self._denoiser, getattr(torch, dtype))
        for network in (self.pipe.vae, self._denoiser):
            # Of videos there is another format.
            if all(weights.ndim < 5 for weights in network.parameters()):
                network.to(memory_format=torch.channels_last)
        if self.device.type == "cpu" and self.settings.dtype == "bfloat16":
            families.planar_norms(self._denoiser)
        if self.device.type != "cpu":
            # Some autoencoders overflow in float16 and say so.
            if self.pipe.vae.dtype == torch.float16 and self.pipe.vae.config.get("force_upcast"):
                self.pipe.vae.to(torch.float32)
        elif family.denoiser == "unet" and self.height * self.width <= _SMALL:
            from diffusers.models.attention_processor import AttnProcessor

            # The fused kernel is slower for short sequences.
            self._denoiser.set_attn_processor(AttnProcessor())
        if self.settings.compile:
            self._denoiser.compile()

    @property
    def _denoiser(self):
        return getattr(self.pipe, self.family.denoiser)

    def _try_bfloat16(self) -> str:
        """Bring the network into bfloat16 where the CPU is faster with it and its answer hardly changes; say which."""
        import torch

        if not processor.favours_bfloat16():
            return "float32"
        whole, before = self._denoiser, self._first_answer()
        small = copy.deepcopy(whole)
        families.cast_inputs(small, torch.bfloat16)
        setattr(self.pipe, self.family.denoiser, small)
        error = float((self._first_answer() - before).norm() / before.norm())
        if error <= _ACCURATE:
            return "bfloat16"
        setattr(self.pipe, self.family.denoiser, whole)
        _log.info("%s stays in float32: bfloat16 changes its answers by %.3f.", self.model, error)
        return "float32"

    def _first_answer(self):
        """Return what the network says at the first step of an image without a prompt."""
        import torch

        answer = None

        def see(module, args, output):
            nonlocal answer
            answer = torch.stack([one.float() for one in output[0]])
            raise _EarlyExit

        with self._denoiser.register_forward_hook(see), contextlib.suppress(_EarlyExit):
            self._latents([""], [0])
        return answer

    def _fitting_batch(self) -> int:
        import torch

        pixels = max(self.height * self.width, 64 * 64) if self.height else 512 * 512
        if self.device.type != "cuda":
            # On a CPU more is slower: what a layer makes leaves the caches. Guidance has two rows an image.
            return max(1, min(MAX_BATCH, MAX_BATCH * 64 * 64 // (pixels * (2 if self._guided else 1))))
        torch.cuda.empty_cache()
        base = torch.cuda.memory_allocated(self.device)
        peaks = []
        for n in (1, 2):
            torch.cuda.reset_peak_memory_stats(self.device)
            try:
                self._batch([""] * n, list(range(n)), steps=min(2, self.settings.steps))
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                return 1
            peaks.append(torch.cuda.max_memory_allocated(self.device))
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self.device)
        return fitting_batch(free, *(p - base for p in peaks))

    @property
    def _guided(self) -> bool:
        """Whether the network is asked twice for an image: with its prompt, and with a negative one."""
        return self.family.negative and self.family.is_guided(self.settings)

    def check(self, prompts: Sequence[str]) -> None:
        """Raise ParameterError, with the words, where the tokenizer has no token for a word of a prompt."""
        texts.check_words(self._folder, [*prompts, self.settings.negative_prompt], self.model)

    def n_tokens_truncated(self, prompts: Sequence[str]) -> np.ndarray:
        """Return how many tokens at each prompt's end no text encoder reads, ``int64 (prompts,)``."""
        with loading.quiet():
            return texts.n_tokens_truncated(self.pipe, prompts)

    def images(
        self, prompts: Sequence[str], keys: Sequence[tuple[str, int]], seed: int, *, watch: Watch = unwatched
    ) -> list[np.ndarray | UnreadableImage]:
        """Generate one image for each prompt and key.

        Args:
            prompts: Texts, one for each image.
            keys: ``(prompt_id, index)`` of each image, or noise_id in prompt_id's place, which with the seed decide its
                noise. Neighbours with the same key are in one batch wherever a batch holds them.
            seed: Seed of the run.
            watch: Returns the context that a batch is generated in. It sees the error of a batch that did not fit in
                memory, which is tried again in parts. What it gives, if anything, is called after each step with
                latents ``(images, channels, height, width)``, of a pipeline of no known family as it has them.

        Returns:
            ``uint8 (height, width, 3)`` RGB for each, or :class:`~biaslab.hub.image_sources.UnreadableImage` with the
            reason ``blocked`` where the model's safety checker withheld it.

        Raises ParameterError: The scheduler draws noise that cannot be seeded for each image. RunError: A single image
        does not fit in memory, or the numbers overflow.
        """
        seeds = [image_seed(seed, prompt_id, index) for (prompt_id, index), _ in zip(keys, prompts, strict=True)]
        made: list[np.ndarray | UnreadableImage] = []
        while len(made) < len(prompts):
            n = _batches_of_seeds(seeds[len(made) :], self.batch_size)
            chosen = range(len(prompts))[len(made) : len(made) + n]
            made += self._fit(prompts, seeds, chosen, watch)
        return made

    def _fit(self, prompts: Sequence[str], seeds: list[int], chosen: range, watch: Watch) -> list:
        """Generate a batch, or its first half where memory does not hold it; later batches are smaller, too."""
        import torch

        out_of_memory = None
        try:
            with watch(chosen) as follow:
                return self._batch([prompts[i] for i in chosen], [seeds[i] for i in chosen], follow=follow)
        except torch.cuda.OutOfMemoryError as error:
            out_of_memory = str(error)
        # Beyond the handler, the tensors that the error's traceback holds are gone.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(chosen) == 1:
            raise RunError(
                f"{self.model} does not fit in memory for one image of {self.height} x {self.width} pixels "
                f"in {self.settings.dtype}. Choose a smaller size or type, or another device. ({out_of_memory:.200})"
            )
        self._batch_size = len(chosen) // 2
        _log.warning("Out of memory: from here on %d images at a time.", self._batch_size)
        n = _batches_of_seeds(seeds[chosen.start : chosen.stop], self._batch_size)
        return self._fit(prompts, seeds, chosen[:n], watch)

    def embeddings(self, prompts: Sequence[str]) -> list[Received]:
        """Return texts as the denoising network receives them; shorter ones end in zeros.

        Raises ParameterError: How the pipeline encodes a text is not known. RunError: The numbers overflow.
        """
        if not self.family.denoiser:
            raise ParameterError(f"{self.model} is a {self.family.pipeline}, whose text encoding is unsupported.")
        import torch

        with torch.no_grad(), loading.quiet():
            rows = [self.family.tokens(self._text(text)) for text in prompts]
        longest = max((len(tokens) for tokens, _ in rows), default=0)
        return [
            Received(
                np.pad(self.check_finite(tokens.float().cpu().numpy()), ((0, longest - len(tokens)), (0, 0))),
                None if pooled is None else self.check_finite(pooled.float().cpu().numpy()),
            )
            for tokens, pooled in rows
        ]

    def _batch(self, prompts: list[str], seeds: list[int], steps: int = 0, follow: Follow | None = None) -> list:
        import torch

        with torch.no_grad(), loading.quiet(), self._own_noise_only():
            if self.family.denoiser:
                pixels, blocked = self._decoded(self._latents(prompts, seeds, steps, follow))
            else:
                pixels, blocked = self._full_images(prompts, seeds, steps, follow)
        return [UnreadableImage(BLOCKED) if b else p for p, b in zip(pixels, blocked, strict=True)]

    def _call_arguments(self, seeds: list[int], steps: int, follow: Follow | None) -> dict:
        """Return what a pipeline is asked beside its prompts, as far as it takes that."""
        import torch

        takes = inspect.signature(self.pipe.__call__).parameters
        asked = self.family.arguments(self.pipe, self.settings)
        asked |= {"num_inference_steps": steps} if steps else {}
        asked |= {"height": self.height or None, "width": self.width or None}
        asked["generator"] = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        if follow and "callback_on_step_end" in takes:

            def after_step(pipe, i, _, given):
                follow(i + 1, given["latents"])
                return {}

            asked["callback_on_step_end"] = after_step
        elif follow:
            asked["callback"] = lambda i, _, latents: follow(i + 1, latents)
        return {k: v for k, v in asked.items() if k in takes and v is not None}

    def _latents(self, prompts: list[str], seeds: list[int], steps: int = 0, follow: Follow | None = None):
        """Return denoised latents ``(images, channels, height, width)``, float32."""
        import torch

        family, last = self.family, None

        def taken(step: int, latents) -> None:
            nonlocal last
            last = family.unpack_latents(latents, self.height, self.width)
            if follow:
                follow(step, last)

        asked = self._call_arguments(seeds, steps, taken)
        with torch.no_grad():
            noise = family.pack_latents(family.noise(self.height, self.width, asked["generator"]))
            asked |= {"latents": noise.to(self.device), "output_type": "latent", "return_dict": False}
            self.pipe(**self._conditions(prompts), **asked)
        # What comes back as latents, some pipelines have turned into what their autoencoder takes.
        return last

    def _conditions(self, prompts: list[str]) -> dict:
        """Return what the pipeline takes of the prompts; each text is encoded once."""
        rows = [self._text(text) for text in prompts]
        given = self.family.batch(rows)
        if self._guided:
            asked = self.settings.negative_prompt
            if not asked and self.pipe.config.get("force_zeros_for_empty_prompt"):
                negative = {part: value.new_zeros(value.shape) for part, value in rows[0].items()}
            else:
                negative = self._text(asked or self.family.no_negative)
            given |= self.family.batch([negative] * len(prompts), "negative_")
        # Its default is a text, which stands beside no encoded one.
        takes = inspect.signature(self.pipe.__call__).parameters
        return given | ({"negative_prompt": None} if "negative_prompt" in takes else {})

    def _decoded(self, latents) -> tuple[list[np.ndarray], list[bool]]:
        import torch

        self.check_finite(latents)
        most = _DECODED_ON_CPU if self.device.type == "cpu" else _DECODED
        at_a_time = max(1, most // (self.height * self.width))
        checker = getattr(self.pipe, "safety_checker", None)
        pixels, blocked = [], []
        for some in latents.split(at_a_time):
            images = self.check_finite(families.decode(self.pipe.vae, some))
            if checker is None:
                blocked += [False] * len(images)
            else:
                # The checker blackens what it blocks in place.
                dtype = next(checker.parameters()).dtype
                blocked += map(bool, self.pipe.run_safety_checker(images.clone(), self.device, dtype)[1])
            levels = (images.float() / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
            pixels += list(levels.permute(0, 2, 3, 1).contiguous().cpu().numpy())
        return pixels, blocked

    def _full_images(
        self, prompts: list[str], seeds: list[int], steps: int, follow: Follow | None
    ) -> tuple[list[np.ndarray], list[bool]]:
        """Generate with a pipeline of no known family: it is given the texts, and encodes and decodes itself."""
        given = self._call_arguments(seeds, steps, follow)
        negative = self.settings.negative_prompt
        # Guidance apart from the network has none without a negative prompt.
        if negative or (self.family.argument == "true_cfg_scale" and self.family.is_guided(self.settings)):
            given["negative_prompt"] = [negative or " "] * len(prompts)
        with families.finite_decoding(self.pipe, self.check_finite):
            # Some write into what they are given.
            found = self.pipe(prompt=[*prompts], output_type="np", **given)
        blocked = getattr(found, "nsfw_content_detected", None) or [False] * len(prompts)
        images = self.check_finite(np.asarray(found.images))
        return list((images * 255).round().astype(np.uint8)), [bool(b) for b in blocked]

    def check_finite(self, numbers):
        """Return an array or tensor; raises RunError where a number is not finite."""
        if not finite.is_finite(numbers):
            fix = finite.not_finite(self.settings.dtype, "generation.dtype", alternatives="bfloat16 or float32")
            raise RunError(f"{self.model} gives {fix}")
        return numbers

    @contextlib.contextmanager
    def _own_noise_only(self) -> Iterator[None]:
        """Check that nothing is drawn from the generators that all images share, whose order depends on the run."""
        import torch

        states = [torch.get_rng_state]
        if self.device.type == "cuda":
            states.append(partial(torch.cuda.get_rng_state, self.device))
        before = [state() for state in states]
        yield
        if not all(torch.equal(b, state()) for b, state in zip(before, states, strict=True)):
            why = f"With {type(self.pipe.scheduler).__name__}, {self.model} uses noise that cannot be seeded by image."
            raise ParameterError(f"{why} Choose another scheduler.")


def fitting_batch(free: int, one: int, two: int) -> int:
    """Return how many images fit in ``free`` bytes, a power of two: one and two take so many at the peak."""
    each = max(two - one, 1)
    fixed = max(one - each, 0)
    n = min(MAX_BATCH, int((_SHARE * free - fixed) // each))
    return 1 << (n.bit_length() - 1) if n >= 1 else 1


def _batches_of_seeds(seeds: Sequence[int], most: int) -> int:
    """Return how many of the first images make a batch: ``most``, or fewer where that would part two of one noise."""
    end = min(most, len(seeds))
    while 0 < end < len(seeds) and seeds[end] == seeds[end - 1]:
        end -= 1
    return end or min(most, len(seeds))
