"""What the judges' models share: where they run, how they are named, loaded and fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from biaslab.errors import ParameterError, loading
from biaslab.execution import finite, processor
from biaslab.hub import model_files, registry
from biaslab.hub.model_files import ModelFiles


def device(name: str):
    """Return the torch device ``name`` (ParameterError where there is none); ``auto`` is a GPU where there is one."""
    import torch

    if name == "auto":
        return torch.device(processor.accelerator())
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ParameterError(f"device is {name!r}: {reason} Use auto, cpu, cuda or mps.") from None
    return found


def dtype(name: str, where):
    """Return the torch type ``name``; ``"auto"`` is float32 on a CPU and float16 on a GPU.

    float16 has three more binary digits than bfloat16, and the CLIP models were trained with it.
    """
    import torch

    if name == "auto":
        name = "float32" if where.type == "cpu" else "float16"
    return getattr(torch, name)


class Batches:
    """How many images go through a model at a time: ``size``, or where it is 0 what is usual on ``device``."""

    def __init__(self, device, size: int = 0) -> None:
        self.gpu = device.type != "cpu"
        self._size = size
        self._most = size or (256 if self.gpu else 128)

    def run(self, images: Sequence[np.ndarray], work: Callable) -> list:
        """Return ``work(images)``, one result per image in order, called with images of one shape, without gradients.

        Out of GPU memory, the same images are tried again in halves, and batches stay that small.
        """
        import torch

        groups: dict[tuple[int, ...], list[int]] = {}
        for k, image in enumerate(images):
            groups.setdefault(image.shape, []).append(k)
        out: list = [None] * len(images)
        for shape, left in groups.items():
            while left:
                chunk, found = left[: self._at_a_time(shape)], None
                try:
                    with torch.inference_mode():
                        found = list(work([images[k] for k in chunk]))
                except torch.OutOfMemoryError:
                    if len(chunk) == 1:
                        raise
                # Outside the handler, where nothing holds on to what the failed call had made.
                if found is None:
                    self._most = len(chunk) // 2
                    torch.cuda.empty_cache()
                    continue
                for k, result in zip(chunk, found, strict=True):
                    out[k] = result
                left = left[len(chunk) :]
        return out

    def _at_a_time(self, shape: tuple[int, ...]) -> int:
        # On a CPU large images gain nothing from large batches, and their memory is the machine's.
        if self._size or self.gpu:
            return self._most
        return max(1, min(self._most, self._most * 128 * 128 // (shape[0] * shape[1])))


MOST_SIDE = 16_384
"""Pixels a side of what a model is fed, and :data:`MOST_TOKENS` of a text that it reads: far more than any takes."""
MOST_TOKENS = 10**6


def check_sizes(name: str, what: str, sizes: Iterable[Any], most: int = MOST_SIDE) -> None:
    """Refuse sizes of a model's configuration that are no whole numbers from 1 to ``most`` (ParameterError)."""
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= most:
            raise ParameterError(
                f"{name}: its configuration gives {size!r:.40} as {what}, which is not between 1 and {most:,}. Fetch "
                "the model again, or choose another one."
            )


def check_processor(name: str, processor) -> None:
    """Check what a processor of transformers brings images to, and the most tokens that it reads."""
    images = getattr(processor, "image_processor", processor)
    for given in (getattr(images, of, None) for of in ("size", "crop_size")):
        # A longest edge is a limit, and may be as large as it is.
        given = given if isinstance(given, Mapping) else vars(given) if hasattr(given, "__dict__") else {}
        sides = [given.get(side) for side in ("height", "width", "shortest_edge")]
        check_sizes(name, "a side of images", [side for side in sides if side is not None])
    longest = getattr(getattr(processor, "tokenizer", None), "model_max_length", 1)
    # Tokenizers without a limit have a number that is larger than all.
    check_sizes(name, "the tokens of a text", [min(longest, MOST_TOKENS)], MOST_TOKENS)


def pretrained(kind, folder):
    """Return a model of transformers in a folder, loaded from safetensors, and what its class says of the loading."""
    options = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    model, info = kind.from_pretrained(folder, **options)
    return model.eval(), info


def of_transformers(name: str, kind: str, what: str) -> tuple[str, str]:
    """Return the folder of a model of transformers, fetched where it is on the hub, and its ``model_type``;
    ParameterError where it cannot be had as ``what``.
    """
    with loading(name, what):
        files = model_files.look_up(name, kind).with_weights()
        return str(files.fetch()), str(files.json("config.json").get("model_type", ""))


def check_detector(files: ModelFiles) -> None:
    """Raise ParameterError where the configuration of a model is of no object detector."""
    from transformers.models.auto import modeling_auto as auto

    models = auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES
    model_files.check_type(files, models, "object detector", registry.HUB["detector"][1])


def labels_of(files: ModelFiles) -> Mapping:
    """Return the labels of a detector by number, as its configuration has them."""
    return files.json("config.json").get("id2label") or {}


def writable(images: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return images that torch may write to: it warns of others, such as those of decoded files."""
    return [np.require(image, requirements="W") for image in images]


class Ready:
    """A model of transformers in a folder, loaded by the class ``auto`` from safetensors, with its processor.

    Raises ParameterError, which ends with ``fix``, where it cannot be loaded as ``what``, lacks weights (transformers
    draws them at random), or, where the ``whole`` of it must be used, has parts that transformers leaves out.
    """

    def __init__(
        self, auto: str, name: str, folder: str, what: str, on: str, *, processor="AutoProcessor", whole=False, fix=""
    ) -> None:
        import transformers

        self.name, self.device = name, device(on)
        with loading(name, what), registry.quiet():
            model, info = pretrained(getattr(transformers, auto), folder)
        # Single weights too many are an old release's buffers.
        parts, missing = dict(model.named_children()), sorted(info["missing_keys"])
        more = sorted(key for key in info["unexpected_keys"] if whole and key.partition(".")[0] not in parts)
        if missing or more:
            odd = f"lacks {len(missing)} weights" if missing else f"has {len(more)} weights too many"
            raise ParameterError(
                f"{name} {odd} of {what}, such as {(missing or more)[0]}; it was trained for something else.{fix}"
            )
        with loading(name, what):
            self.processor = getattr(transformers, processor).from_pretrained(folder, trust_remote_code=False)
            check_processor(name, self.processor)
        self.model = model.to(self.device)

    def checked(self, numbers):
        """Return what the model gives; raises InputError where a number is not finite."""
        return finite.checked(numbers, self.name, self.model.dtype)

    def greedy(self, longest: int) -> dict[str, Any]:
        """Return options for answers of at most so many tokens that depend on the input alone, whatever the checkpoint
        suggests; InputError where a token's score is not finite.
        """
        from transformers import LogitsProcessor, LogitsProcessorList

        class Watch(LogitsProcessor):
            def __call__(watch, input_ids, scores):
                # Tokens that it must not write have a score below all numbers.
                self.checked(scores[~scores.isneginf()])
                return scores

        watch = LogitsProcessorList([Watch()])
        return {"max_new_tokens": longest, "num_beams": 1, "do_sample": False, "logits_processor": watch}


class Detector(Ready):
    """An object detector of transformers; ParameterError where it is none."""

    def __init__(self, name: str, on: str, batch_size: int) -> None:
        import torch

        what = "an object detector"
        folder, _ = of_transformers(name, "detector", what)
        super().__init__("AutoModelForObjectDetection", name, folder, what, on, processor="AutoImageProcessor")
        # Convolutions are a quarter faster so, on a CPU too.
        self.model = self.model.to(memory_format=torch.channels_last)
        self.batches = Batches(self.device, batch_size)

    def see(self, images: Sequence[np.ndarray]):
        """Return what the model gives for images of one size; boxes are relative to the image, without padding."""
        inputs = self.processor(images=writable(images), return_tensors="pt").to(self.device)
        found = self.model(**inputs)
        # transformers' script trains on images that are padded to squares, and on boxes relative to these.
        if (mask := inputs.get("pixel_mask")) is not None:
            width, height = (mask[0].amax(axis).float().mean() for axis in (0, 1))
            found.pred_boxes = found.pred_boxes / found.pred_boxes.new_tensor([width, height, width, height])
        return found


# -- from images of any size to what a model takes ---------------------------------------------------------


@dataclass(frozen=True)
class Pixels:
    """A resize to height and width, a crop in the middle, and a normalisation of values 0 to 1 of each channel.

    It runs on whole batches, on the model's device; on a CPU within a level of 255 of Pillow's (rounding).
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    """``bicubic`` or ``bilinear``, both without aliasing."""
    squash: bool = False
    """Whether images are brought to the size at once; otherwise the shorter side is, and the rest is cut."""
    shorter: int = 0
    """Pixels of the shorter side before the cut, where that is more than the size; 0 represents the size."""
    one_by_one: Callable | None = None
    """A preprocessing of one PIL image that is not of this kind; then it is used, image by image."""

    @classmethod
    def of_open_clip(cls, settings: dict, transform: Callable) -> Pixels:
        """Return the preprocessing that ``model.visual.preprocess_cfg`` asks for; ``transform`` is open_clip's own."""
        size, mode = settings["size"], settings.get("resize_mode") or "shortest"
        size = (size, size) if isinstance(size, int) else tuple(size)
        kind = settings.get("interpolation") or "bicubic"
        plain = kind in ("bicubic", "bilinear") and (mode == "squash" or (mode == "shortest" and size[0] == size[1]))
        own = None if plain else transform
        mean, std = tuple(settings["mean"]), tuple(settings["std"])
        return cls(size, mean, std, kind, mode == "squash", one_by_one=own)

    def __call__(self, images: Sequence[np.ndarray], device, dtype):
        """Return ``(images, 3, height, width)`` on ``device`` for images of one shape."""
        import torch
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms import functional as tv

        if self.one_by_one is not None:
            from PIL import Image

            return torch.stack([self.one_by_one(Image.fromarray(i)) for i in images]).to(device, dtype)
        batch = _stacked(images, device).to(device, non_blocking=True).permute(0, 3, 1, 2)
        if self.shorter or tuple(batch.shape[-2:]) != self.size:
            options = InterpolationMode(self.interpolation)
            target = list(self.size) if self.squash else [self.shorter or self.size[0]]
            batch = tv.resize(batch, target, interpolation=options, antialias=True)
            batch = tv.center_crop(batch, list(self.size))
        # One multiplication and one addition: value / 255, less the mean, over the deviation.
        mean, std = (torch.tensor(v, device=device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return batch.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std).to(dtype)


def _stacked(images: Sequence[np.ndarray], device):
    """Return images of one shape as one uint8 tensor in main memory, ready for a quick way to ``device``."""
    import torch

    if device.type == "cpu":
        return torch.from_numpy(np.stack(images))
    # Page-locked memory reaches a GPU several times faster; one thread alone could not fill it as fast.
    out = torch.empty((len(images), *images[0].shape), dtype=torch.uint8, pin_memory=device.type == "cuda")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(np.copyto, out.numpy(), images))
    return out
