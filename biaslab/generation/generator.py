"""Generate images of prompts: texts are encoded once, batches span prompts, and each image has its own noise.

Noise is drawn on the CPU, by :func:`image_seed`, so that it is bitwise identical in every batch and on every device.
Pixels are identical for the same batches on the same machine; otherwise they may differ by 1 or 2 of 255.
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
# Maximum batch size.
MAX_BATCH = 64
# Maximum number of cached encoded prompts: images of a prompt are consecutive.
_MAX_CACHED_TEXTS = 128
# Maximum pixels decoded at a time: autoencoders need far more memory for them than denoising does. On a CPU, 16 small
# images fit in the processor's caches.
_DECODED_PIXELS, _DECODED_PIXELS_ON_CPU = 2**21, 2**16
# Maximum relative error of the denoising network in bfloat16; networks that tolerate the type have 0.005 to 0.02.
_MAX_ERROR = 0.05
# Maximum longer side of an image, in pixels.
_MAX_SIDE = 16_384
# Images up to this many pixels have short sequences in attention.
_SMALL_IMAGE = 128 * 128
# Share of free GPU memory that batches may use.
_MEMORY_SHARE = 0.85


# A callback after each denoising step: its number, from 1, and latents of any number type.
Follow = Callable[[int, "torch.Tensor"], None]
# A function from the positions of a batch among the prompts to the context in which the batch is generated.
Watch = Callable[[range], AbstractContextManager[Follow | None]]


def no_watch(positions: range) -> AbstractContextManager[None]:
    """Return a context without a callback."""
    return contextlib.nullcontext()


class _EarlyExit(Exception):
    """Ends a pipeline's call after the first call of its network."""


class EncodedText(NamedTuple):
    """A text as the denoising network receives it."""

    tokens: np.ndarray  # ``float32 (tokens, width)``: the input of cross-attention (``encoder_hidden_states``).
    pooled: np.ndarray | None  # ``float32 (width,)``: the text as one vector, if the network takes one.


def image_seed(seed: int, prompt_id: str, index: int) -> int:
    """Return the seed of an image's noise, 0 to 2**63 - 1, from the run's seed, prompt (or noise_id) and index."""
    key = f"{int(seed)}\0{prompt_id}\0{int(index)}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1


def load(model: str, settings: GenerationSettings, *, device: str = "auto", offload: str = "none") -> Generator:
    """Load a model, by a name as for :func:`biaslab.hub.checkpoints.find_checkpoint`.

    ``device`` is ``cpu``, ``cuda``, … or ``auto``, ``offload`` as the setting ``compute.offload``.

    Raises ParameterError, MissingInputError: As :func:`biaslab.generation.loading.look_up`, or the model cannot be
    loaded, or does not support the settings.
    """
    import torch

    torch_device = find_device(device)
    on_cpu = torch_device.type == "cpu"
    check_offload(offload, torch_device.type)
    files = loading.fetch(model, safety_checker=settings.safety_checker == "model")
    name = model_names.split(model).base
    family = stated.add_stated_settings(families.family_of_files(files.pipeline, name), files, name)
    dtype = settings.dtype
    if dtype == "auto" and not on_cpu:
        is_emulated = torch_device.type != "cuda" or not torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = "float16" if is_emulated else family.dtype
    # On a CPU, text encoder and autoencoder stay float32, because they take little time.
    load_dtype = "float32" if dtype == "auto" or (on_cpu and family.denoiser) else dtype
    pipe = loading.load_pipeline(files, model, dtype=getattr(torch, load_dtype))
    # The loaded pipeline has values that its configurations lack; stated values are kept.
    fields = ("steps", "guidance", "distilled", "unstated", "sources")
    values = {field: getattr(family, field) for field in fields} if family.sources or family.unstated else {}
    family = replace(families.family_of_pipeline(pipe, name), **values)
    if settings.scheduler:
        loading.set_scheduler(pipe, settings.scheduler)
    # Creating the generator runs the model, which reveals inconsistent configurations.
    with loading.quiet(), errors.loading(model, "a text-to-image model"):
        if offload == "none":
            pipe.to(torch_device)
        details = {"folder": files.pipeline.folder, "commit": files.base.commit, "family": family}
        loaded = Generator(pipe, settings.with_changes(dtype=dtype), model=model, device=torch_device, **details)
        # Number types are set before, because offloaded weights have none until they are moved.
        if offload == "model":
            pipe.enable_model_cpu_offload(device=torch_device)
        elif offload == "sequential":
            pipe.enable_sequential_cpu_offload(device=torch_device)
    loaded.check_effect()
    return loaded


def check_offload(offload: str, device: str) -> None:
    """Raise ParameterError if offloading is set and models run on the CPU, where they already are in memory."""
    if offload != "none" and (processor.accelerator() if device == "auto" else device) == "cpu":
        raise ParameterError(
            f"compute.offload is {offload!r}, but models run on the CPU here. Set compute.offload to none."
        )


class Generator:
    """A loaded diffusers pipeline, called ``model`` in messages, and its settings.

    ``folder`` is the folder of its files, ``commit`` that of a model on the hub. Raises ParameterError: The model
    ignores a setting, or does not support it.
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
        self._text = lru_cache(_MAX_CACHED_TEXTS)(partial(self.family.encode, pipe, device=device))
        # The image embeddings of a safety checker that uses CLIP must be finite.
        if projection := getattr(getattr(pipe, "safety_checker", None), "visual_projection", None):
            projection.register_forward_hook(lambda module, args, output: self.check_finite(output))
        self._apply_settings(settings)
        self._prepare()
        self._batch_size = min(settings.batch_size, MAX_BATCH)

    @property
    def batch_size(self) -> int:
        """The batch size: from the settings, or determined at first access; halved when memory runs out."""
        if not self._batch_size:
            self._batch_size = self._find_batch_size()
        return self._batch_size

    def with_settings(self, settings: GenerationSettings) -> Generator | None:
        """Return a generator with other settings and the same pipeline; None if they need another pipeline."""
        changeable = ("steps", "guidance_scale", "negative_prompt", "height", "width", "aspect", "batch_size")
        own_settings, new_settings = (s.model_dump(exclude={*changeable, "dtype"}) for s in (self.settings, settings))
        if own_settings != new_settings or settings.dtype not in ("auto", self.settings.dtype):
            return None
        variant = copy.copy(self)
        variant._apply_settings(settings.with_changes(dtype=self.settings.dtype))
        variant._batch_size = min(settings.batch_size, MAX_BATCH)
        variant.check_effect()
        return variant

    def _apply_settings(self, settings: GenerationSettings) -> None:
        """Apply settings, completed by the model's defaults."""
        self.family.check(settings, self.model)
        self.height, self.width = self.family.size(settings, self.model)
        if self.height and not 0 < min(self.height, self.width) <= max(self.height, self.width) <= _MAX_SIDE:
            raise ParameterError(
                f"{self.model} cannot be loaded as a text-to-image model: its configuration states images of "
                f"{self.height} x {self.width} pixels, but each side must be from 1 to {_MAX_SIDE:,}."
            )
        self._guidance, self._sources = settings.guidance_scale, self.family.setting_sources(settings)
        self.settings = self.family.complete_settings(settings)

    def check_effect(self) -> None:
        """Raise ParameterError if guidance has no effect on images of a pipeline without a family."""
        if self.family.denoiser or self._guidance is None or self._guidance <= self.family.unguided:
            return
        variant = copy.copy(self)
        variant.settings = self.settings.with_changes(guidance_scale=2 * self._guidance + 1)
        first, second = (g._run_batch(["a photo of a person"], [0], steps=1)[0] for g in (self, variant))
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and np.array_equal(first, second):
            raise ParameterError(
                f"guidance_scale is {self._guidance:g}, but {self.model} is a {self.family.pipeline} that ignores it: "
                f"a guidance scale of {2 * self._guidance + 1:g} gives the same pixels. Leave guidance_scale empty "
                "(null)."
            )

    def description(self) -> dict[str, object]:
        """Return the configuration in use: pipeline, scheduler, types, sizes, versions of libraries."""
        import diffusers
        import torch
        import transformers

        checker = getattr(self.pipe, "safety_checker", None)
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
            "device": processor.describe_device(f"{self.device}"),
            "batch_size": self.batch_size,
            "revision": self._commit,
            "versions": {m.__name__: str(m.__version__) for m in (torch, diffusers, transformers)},
        }

    def _prepare(self) -> None:
        """Convert the denoising network to its number type; on a CPU, determine whether it tolerates bfloat16."""
        import torch

        family, dtype = self.family, self.settings.dtype
        if not family.denoiser or families.is_quantised(self._denoiser):
            # A quantised network computes in its own type, with inputs and outputs of any type.
            self.settings = self.settings.with_changes(dtype="float32" if dtype == "auto" else dtype)
            return
        if dtype == "auto":
            self.settings = self.settings.with_changes(dtype=self._try_bfloat16())
        elif dtype != "float32":
            families.cast_inputs(self._denoiser, getattr(torch, dtype))
        for network in (self.pipe.vae, self._denoiser):
            # Networks for videos have another memory format.
            if all(weights.ndim < 5 for weights in network.parameters()):
                network.to(memory_format=torch.channels_last)
        if self.device.type == "cpu" and self.settings.dtype == "bfloat16":
            families.planar_norms(self._denoiser)
        if self.device.type != "cpu":
            # Some autoencoders overflow in float16, according to their configuration.
            if self.pipe.vae.dtype == torch.float16 and self.pipe.vae.config.get("force_upcast"):
                self.pipe.vae.to(torch.float32)
        elif family.denoiser == "unet" and self.height * self.width <= _SMALL_IMAGE:
            from diffusers.models.attention_processor import AttnProcessor

            # The fused kernel is slower for short sequences.
            self._denoiser.set_attn_processor(AttnProcessor())
        if self.settings.compile:
            self._denoiser.compile()

    @property
    def _denoiser(self):
        return getattr(self.pipe, self.family.denoiser)

    def _try_bfloat16(self) -> str:
        """Convert the network to bfloat16 if the CPU is faster with it and its error is small; return the type."""
        import torch

        if not processor.favours_bfloat16():
            return "float32"
        network, reference = self._denoiser, self._first_prediction()
        low_precision = copy.deepcopy(network)
        families.cast_inputs(low_precision, torch.bfloat16)
        setattr(self.pipe, self.family.denoiser, low_precision)
        error = float((self._first_prediction() - reference).norm() / reference.norm())
        if error <= _MAX_ERROR:
            return "bfloat16"
        setattr(self.pipe, self.family.denoiser, network)
        _log.info("%s runs in float32, because bfloat16 changes its outputs by %.3f.", self.model, error)
        return "float32"

    def _first_prediction(self):
        """Return the network's prediction at the first step of an image without a prompt."""
        import torch

        prediction = None

        def record(module, args, output):
            nonlocal prediction
            prediction = torch.stack([row.float() for row in output[0]])
            raise _EarlyExit

        with self._denoiser.register_forward_hook(record), contextlib.suppress(_EarlyExit):
            self._latents([""], [0])
        return prediction

    def _find_batch_size(self) -> int:
        import torch

        pixels = max(self.height * self.width, 64 * 64) if self.height else 512 * 512
        if self.device.type != "cuda":
            # On a CPU, larger batches exceed the caches and are slower. Guidance needs two rows per image.
            return max(1, min(MAX_BATCH, MAX_BATCH * 64 * 64 // (pixels * (2 if self._is_guided else 1))))
        torch.cuda.empty_cache()
        baseline = torch.cuda.memory_allocated(self.device)
        peaks = []
        for n in (1, 2):
            torch.cuda.reset_peak_memory_stats(self.device)
            try:
                self._run_batch([""] * n, list(range(n)), steps=min(2, self.settings.steps))
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                return 1
            peaks.append(torch.cuda.max_memory_allocated(self.device))
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info(self.device)
        return max_batch_size(free_bytes, *(p - baseline for p in peaks))

    @property
    def _is_guided(self) -> bool:
        """Whether the network runs twice per step: with the prompt, and with a negative prompt."""
        return self.family.negative and self.family.is_guided(self.settings)

    def check(self, prompts: Sequence[str]) -> None:
        """Raise ParameterError, which lists the words, if the tokenizer has no token for a word of a prompt."""
        texts.check_words(self._folder, [*prompts, self.settings.negative_prompt], self.model)

    def n_tokens_truncated(self, prompts: Sequence[str]) -> np.ndarray:
        """Return the number of tokens at the end of each prompt that no text encoder reads, ``int64 (prompts,)``."""
        with loading.quiet():
            return texts.n_tokens_truncated(self.pipe, prompts)

    def images(
        self, prompts: Sequence[str], keys: Sequence[tuple[str, int]], seed: int, *, watch: Watch = no_watch
    ) -> list[np.ndarray | UnreadableImage]:
        """Generate one image for each prompt and key.

        Args:
            prompts: Texts, one for each image.
            keys: ``(prompt_id, index)`` of each image, or noise_id in place of prompt_id, which with the seed determine
                its noise. Neighbours with the same key are in one batch if it is large enough.
            seed: Seed of the run.
            watch: Returns the context in which a batch is generated. The context receives the error of a batch that
                does not fit in memory, which is repeated in parts. Its value, if not None, is called after each step
                with latents ``(images, channels, height, width)``, or in the pipeline's form for unknown families.

        Returns:
            ``uint8 (height, width, 3)`` RGB for each, or :class:`~biaslab.hub.image_sources.UnreadableImage` with the
            reason ``blocked`` where the model's safety checker withheld it.

        Raises ParameterError: The scheduler draws noise that cannot be seeded for each image. RunError: A single image
        does not fit in memory, or the numbers overflow.
        """
        seeds = [image_seed(seed, prompt_id, index) for (prompt_id, index), _ in zip(keys, prompts, strict=True)]
        results: list[np.ndarray | UnreadableImage] = []
        while len(results) < len(prompts):
            n = _count_batch(seeds[len(results) :], self.batch_size)
            positions = range(len(prompts))[len(results) : len(results) + n]
            results += self._generate_batch(prompts, seeds, positions, watch)
        return results

    def _generate_batch(self, prompts: Sequence[str], seeds: list[int], positions: range, watch: Watch) -> list:
        """Generate a batch, or its first half if memory runs out; later batches are then smaller, too."""
        import torch

        out_of_memory = None
        try:
            with watch(positions) as follow:
                return self._run_batch([prompts[i] for i in positions], [seeds[i] for i in positions], follow=follow)
        except torch.cuda.OutOfMemoryError as error:
            out_of_memory = str(error)
        # Outside the handler, tensors that the error's traceback references are freed.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(positions) == 1:
            raise RunError(
                f"{self.model} does not fit in memory for one image of {self.height} x {self.width} pixels "
                f"in {self.settings.dtype}. Choose a smaller size, a smaller data type, or another device. "
                f"({out_of_memory:.200})"
            )
        self._batch_size = len(positions) // 2
        _log.warning("Out of memory: from now on, batches have at most %d images.", self._batch_size)
        n = _count_batch(seeds[positions.start : positions.stop], self._batch_size)
        return self._generate_batch(prompts, seeds, positions[:n], watch)

    def embeddings(self, prompts: Sequence[str]) -> list[EncodedText]:
        """Return texts as the denoising network receives them; shorter ones are padded with zeros.

        Raises ParameterError: The pipeline's text encoding is unknown. RunError: The numbers overflow.
        """
        if not self.family.denoiser:
            raise ParameterError(f"{self.model} is a {self.family.pipeline}, whose text encoding is unsupported.")
        import torch

        with torch.no_grad(), loading.quiet():
            rows = [self.family.tokens(self._text(text)) for text in prompts]
        max_length = max((len(tokens) for tokens, _ in rows), default=0)
        return [
            EncodedText(
                np.pad(self.check_finite(tokens.float().cpu().numpy()), ((0, max_length - len(tokens)), (0, 0))),
                None if pooled is None else self.check_finite(pooled.float().cpu().numpy()),
            )
            for tokens, pooled in rows
        ]

    def _run_batch(self, prompts: list[str], seeds: list[int], steps: int = 0, follow: Follow | None = None) -> list:
        import torch

        with torch.no_grad(), loading.quiet(), self._check_seeded_noise():
            if self.family.denoiser:
                pixels, is_blocked = self._decode(self._latents(prompts, seeds, steps, follow))
            else:
                pixels, is_blocked = self._run_pipeline(prompts, seeds, steps, follow)
        return [UnreadableImage(BLOCKED) if b else p for p, b in zip(pixels, is_blocked, strict=True)]

    def _call_arguments(self, seeds: list[int], steps: int, follow: Follow | None) -> dict:
        """Return the pipeline's arguments in addition to prompts, if it accepts them."""
        import torch

        parameters = inspect.signature(self.pipe.__call__).parameters
        arguments = self.family.arguments(self.pipe, self.settings)
        arguments |= {"num_inference_steps": steps} if steps else {}
        arguments |= {"height": self.height or None, "width": self.width or None}
        arguments["generator"] = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        if follow and "callback_on_step_end" in parameters:

            def after_step(pipe, i, _, values):
                follow(i + 1, values["latents"])
                return {}

            arguments["callback_on_step_end"] = after_step
        elif follow:
            arguments["callback"] = lambda i, _, latents: follow(i + 1, latents)
        return {k: v for k, v in arguments.items() if k in parameters and v is not None}

    def _latents(self, prompts: list[str], seeds: list[int], steps: int = 0, follow: Follow | None = None):
        """Return denoised latents ``(images, channels, height, width)``, float32."""
        import torch

        family, final = self.family, None

        def record(step: int, latents) -> None:
            nonlocal final
            final = family.unpack_latents(latents, self.height, self.width)
            if follow:
                follow(step, final)

        arguments = self._call_arguments(seeds, steps, record)
        with torch.no_grad():
            noise = family.pack_latents(family.noise(self.height, self.width, arguments["generator"]))
            arguments |= {"latents": noise.to(self.device), "output_type": "latent", "return_dict": False}
            self.pipe(**self._conditions(prompts), **arguments)
        # Latents of the last step, because some pipelines return them rescaled for the autoencoder.
        return final

    def _conditions(self, prompts: list[str]) -> dict:
        """Return the pipeline's arguments for prompts; each text is encoded once."""
        rows = [self._text(text) for text in prompts]
        conditions = self.family.batch(rows)
        if self._is_guided:
            negative_prompt = self.settings.negative_prompt
            if not negative_prompt and self.pipe.config.get("force_zeros_for_empty_prompt"):
                negative = {part: value.new_zeros(value.shape) for part, value in rows[0].items()}
            else:
                negative = self._text(negative_prompt or self.family.no_negative)
            conditions |= self.family.batch([negative] * len(prompts), "negative_")
        # Its default is a text, which must not be combined with encoded ones.
        parameters = inspect.signature(self.pipe.__call__).parameters
        return conditions | ({"negative_prompt": None} if "negative_prompt" in parameters else {})

    def _decode(self, latents) -> tuple[list[np.ndarray], list[bool]]:
        import torch

        self.check_finite(latents)
        max_pixels = _DECODED_PIXELS_ON_CPU if self.device.type == "cpu" else _DECODED_PIXELS
        batch_size = max(1, max_pixels // (self.height * self.width))
        checker = getattr(self.pipe, "safety_checker", None)
        pixels, is_blocked = [], []
        for batch in latents.split(batch_size):
            images = self.check_finite(families.decode(self.pipe.vae, batch))
            if checker is None:
                is_blocked += [False] * len(images)
            else:
                # The checker blackens what it blocks in place.
                dtype = next(checker.parameters()).dtype
                is_blocked += map(bool, self.pipe.run_safety_checker(images.clone(), self.device, dtype)[1])
            levels = (images.float() / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
            pixels += list(levels.permute(0, 2, 3, 1).contiguous().cpu().numpy())
        return pixels, is_blocked

    def _run_pipeline(
        self, prompts: list[str], seeds: list[int], steps: int, follow: Follow | None
    ) -> tuple[list[np.ndarray], list[bool]]:
        """Generate with a pipeline of unknown family, which receives texts, and encodes and decodes itself."""
        arguments = self._call_arguments(seeds, steps, follow)
        negative = self.settings.negative_prompt
        # Guidance outside the network is inactive without a negative prompt.
        if negative or (self.family.argument == "true_cfg_scale" and self.family.is_guided(self.settings)):
            arguments["negative_prompt"] = [negative or " "] * len(prompts)
        with families.finite_decoding(self.pipe, self.check_finite):
            # Some pipelines modify their arguments.
            output = self.pipe(prompt=[*prompts], output_type="np", **arguments)
        is_blocked = getattr(output, "nsfw_content_detected", None) or [False] * len(prompts)
        images = self.check_finite(np.asarray(output.images))
        return list((images * 255).round().astype(np.uint8)), [bool(b) for b in is_blocked]

    def check_finite(self, numbers):
        """Return an array or tensor unchanged; raises RunError where a number is not finite."""
        if not finite.is_finite(numbers):
            fix = finite.not_finite(self.settings.dtype, "generation.dtype", alternatives="bfloat16 or float32")
            raise RunError(f"{self.model} returns {fix}")
        return numbers

    @contextlib.contextmanager
    def _check_seeded_noise(self) -> Iterator[None]:
        """Raise ParameterError if random numbers come from the global generators, whose order depends on the run."""
        import torch

        states = [torch.get_rng_state]
        if self.device.type == "cuda":
            states.append(partial(torch.cuda.get_rng_state, self.device))
        saved_states = [state() for state in states]
        yield
        if not all(torch.equal(b, state()) for b, state in zip(saved_states, states, strict=True)):
            cause = (
                f"With {type(self.pipe.scheduler).__name__}, {self.model} uses noise that cannot be seeded by image."
            )
            raise ParameterError(f"{cause} Choose another scheduler.")


def max_batch_size(free_bytes: int, peak_of_one: int, peak_of_two: int) -> int:
    """Return the number of images that fit in ``free_bytes``, a power of two, from the peak bytes of one and two."""
    bytes_per_image = max(peak_of_two - peak_of_one, 1)
    fixed_bytes = max(peak_of_one - bytes_per_image, 0)
    n = min(MAX_BATCH, int((_MEMORY_SHARE * free_bytes - fixed_bytes) // bytes_per_image))
    return 1 << (n.bit_length() - 1) if n >= 1 else 1


def _count_batch(seeds: Sequence[int], max_batch: int) -> int:
    """Return the size of the next batch: ``max_batch``, or fewer to keep images with the same noise together."""
    end = min(max_batch, len(seeds))
    while 0 < end < len(seeds) and seeds[end] == seeds[end - 1]:
        end -= 1
    return end or min(max_batch, len(seeds))
