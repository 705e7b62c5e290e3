"""Code shared by the judges' models: devices, loading, batches and preprocessing."""

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
    """Return the torch device ``name`` (ParameterError if it is missing); ``auto`` is a GPU if available."""
    import torch

    if name == "auto":
        return torch.device(processor.accelerator())
    try:
        torch_device = torch.device(name)
        torch.empty(0, device=torch_device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ParameterError(f"device is {name!r}: {reason} Use auto, cpu, cuda or mps.") from None
    return torch_device


def dtype(name: str, torch_device):
    """Return the torch type ``name``; ``"auto"`` is float32 on a CPU and float16 on a GPU.

    float16 has three more binary digits than bfloat16, and the CLIP models were trained with it.
    """
    import torch

    if name == "auto":
        name = "float32" if torch_device.type == "cpu" else "float16"
    return getattr(torch, name)


class Batches:
    """Batches of images for a model: of ``size`` images, or if it is 0 of a default size for ``device``."""

    def __init__(self, device, size: int = 0) -> None:
        self.gpu = device.type != "cpu"
        self._size = size
        self._batch_size = size or (256 if self.gpu else 128)

    def run(self, images: Sequence[np.ndarray], work: Callable) -> list:
        """Return ``work(images)``, one result per image in order, called with images of one shape, without gradients.

        If GPU memory runs out, the same images are retried in halves, and batches stay that small.
        """
        import torch

        groups: dict[tuple[int, ...], list[int]] = {}
        for k, image in enumerate(images):
            groups.setdefault(image.shape, []).append(k)
        outputs: list = [None] * len(images)
        for shape, remaining in groups.items():
            while remaining:
                chunk, results = remaining[: self._find_batch_size(shape)], None
                try:
                    with torch.inference_mode():
                        results = list(work([images[k] for k in chunk]))
                except torch.OutOfMemoryError:
                    if len(chunk) == 1:
                        raise
                # Outside the handler, where no traceback references tensors of the failed call.
                if results is None:
                    self._batch_size = len(chunk) // 2
                    torch.cuda.empty_cache()
                    continue
                for k, result in zip(chunk, results, strict=True):
                    outputs[k] = result
                remaining = remaining[len(chunk) :]
        return outputs

    def _find_batch_size(self, shape: tuple[int, ...]) -> int:
        # On a CPU, large images gain nothing from large batches and would fill main memory.
        if self._size or self.gpu:
            return self._batch_size
        return max(1, min(self._batch_size, self._batch_size * 128 * 128 // (shape[0] * shape[1])))


MAX_SIDE = 16_384
"""Maximum pixels per side of a model's input; :data:`MAX_TOKENS` are those of a text. No model takes as many."""
MAX_TOKENS = 10**6


def check_sizes(name: str, quantity: str, sizes: Iterable[Any], limit: int = MAX_SIDE) -> None:
    """Raise ParameterError if sizes in a model's configuration are not whole numbers from 1 to ``limit``."""
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= limit:
            raise ParameterError(
                f"{name}: its configuration states {size!r:.40} as {quantity}, which is not between 1 and {limit:,}. "
                "Download the model again, or choose another one."
            )


def check_processor(name: str, processor) -> None:
    """Check the image size and the maximum number of tokens of a processor of transformers (:func:`check_sizes`)."""
    images = getattr(processor, "image_processor", processor)
    for size in (getattr(images, attribute, None) for attribute in ("size", "crop_size")):
        # A longest edge is only a limit, so it is not checked.
        size = size if isinstance(size, Mapping) else vars(size) if hasattr(size, "__dict__") else {}
        sides = [size.get(side) for side in ("height", "width", "shortest_edge")]
        check_sizes(name, "a side of images", [side for side in sides if side is not None])
    max_tokens = getattr(getattr(processor, "tokenizer", None), "model_max_length", 1)
    # Tokenizers without a limit have a huge number here.
    check_sizes(name, "the tokens of a text", [min(max_tokens, MAX_TOKENS)], MAX_TOKENS)


def pretrained(kind, folder):
    """Return a model of transformers in a folder, loaded from safetensors, and transformers' loading information."""
    options = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    model, info = kind.from_pretrained(folder, **options)
    return model.eval(), info


def fetch_transformers(name: str, kind: str, label: str) -> tuple[str, str]:
    """Return the folder of a model of transformers, downloaded if it is on the hub, and its ``model_type``.

    Raises ParameterError, which names the ``label``, where it is unavailable.
    """
    with loading(name, label):
        files = model_files.look_up(name, kind).with_weights()
        return str(files.fetch()), str(files.json("config.json").get("model_type", ""))


def check_detector(files: ModelFiles) -> None:
    """Raise ParameterError where the configuration of a model is not that of an object detector."""
    from transformers.models.auto import modeling_auto as auto

    models = auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES
    model_files.check_type(files, models, "object detector", registry.HUB["detector"][1])


def labels_of(files: ModelFiles) -> Mapping:
    """Return the labels of a detector by number, from its configuration."""
    return files.json("config.json").get("id2label") or {}


def writable(images: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return images as writable arrays: torch warns about others, such as those of decoded files."""
    return [np.require(image, requirements="W") for image in images]


class TransformersModel:
    """A model of transformers in a folder, loaded by the class ``auto`` from safetensors, with its processor.

    Raises ParameterError, which ends with ``fix``, where it cannot be loaded as ``label``, lacks weights
    (transformers initializes them randomly), or, with ``use_all``, has parts that transformers ignores.
    """

    def __init__(
        self,
        auto: str,
        name: str,
        folder: str,
        label: str,
        device_name: str,
        *,
        processor="AutoProcessor",
        use_all=False,
        fix="",
    ) -> None:
        import transformers

        self.name, self.device = name, device(device_name)
        with loading(name, label), registry.quiet():
            model, info = pretrained(getattr(transformers, auto), folder)
        # Single unexpected weights are buffers of an old release.
        parts, missing = dict(model.named_children()), sorted(info["missing_keys"])
        unexpected = sorted(key for key in info["unexpected_keys"] if use_all and key.partition(".")[0] not in parts)
        if missing or unexpected:
            problem = f"lacks {len(missing)} weights" if missing else f"has {len(unexpected)} superfluous weights"
            raise ParameterError(
                f"{name} {problem} of {label}, such as {(missing or unexpected)[0]}; it was trained for another "
                f"purpose.{fix}"
            )
        with loading(name, label):
            self.processor = getattr(transformers, processor).from_pretrained(folder, trust_remote_code=False)
            check_processor(name, self.processor)
        self.model = model.to(self.device)

    def checked(self, numbers):
        """Return the output of the model unchanged; raises InputError where a number is not finite."""
        return finite.check_finite(numbers, self.name, self.model.dtype)

    def greedy(self, max_tokens: int) -> dict[str, Any]:
        """Return options for greedy decoding of at most ``max_tokens`` tokens, which override the checkpoint's.

        Generation then raises InputError where a token's score is not finite.
        """
        from transformers import LogitsProcessor, LogitsProcessorList

        class Watch(LogitsProcessor):
            def __call__(watch, input_ids, scores):
                # Forbidden tokens have a score of minus infinity.
                self.checked(scores[~scores.isneginf()])
                return scores

        watch = LogitsProcessorList([Watch()])
        return {"max_new_tokens": max_tokens, "num_beams": 1, "do_sample": False, "logits_processor": watch}


class Detector(TransformersModel):
    """An object detector of transformers; ParameterError for any other model."""

    def __init__(self, name: str, device_name: str, batch_size: int) -> None:
        import torch

        label = "an object detector"
        folder, _ = fetch_transformers(name, "detector", label)
        super().__init__(
            "AutoModelForObjectDetection", name, folder, label, device_name, processor="AutoImageProcessor"
        )
        # This memory format makes convolutions a quarter faster, also on a CPU.
        self.model = self.model.to(memory_format=torch.channels_last)
        self.batches = Batches(self.device, batch_size)

    def predict(self, images: Sequence[np.ndarray]):
        """Return the model's output for images of one size; boxes are relative to the image, without padding."""
        inputs = self.processor(images=writable(images), return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        # transformers' script trains on images that are padded to squares, and on boxes relative to these.
        if (mask := inputs.get("pixel_mask")) is not None:
            width, height = (mask[0].amax(axis).float().mean() for axis in (0, 1))
            outputs.pred_boxes = outputs.pred_boxes / outputs.pred_boxes.new_tensor([width, height, width, height])
        return outputs


# -- preprocessing of images of any size -------------------------------------------------------------------


@dataclass(frozen=True)
class Pixels:
    """A resize to height and width, a center crop, and a normalization of values 0 to 1 of each channel.

    It processes whole batches on the model's device; on a CPU, values are within 1 of 255 of Pillow's (rounding).
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    """``bicubic`` or ``bilinear``, both antialiased."""
    squash: bool = False
    """Whether images are resized to the size directly; otherwise the shorter side is resized, and the rest cropped."""
    shorter: int = 0
    """Pixels of the shorter side before the crop, if more than the size; 0 represents the size."""
    one_by_one: Callable | None = None
    """A different preprocessing of one PIL image; if given, it is applied to each image instead."""

    @classmethod
    def of_open_clip(cls, settings: dict, transform: Callable) -> Pixels:
        """Return the preprocessing for ``model.visual.preprocess_cfg``; ``transform`` is open_clip's own."""
        size, mode = settings["size"], settings.get("resize_mode") or "shortest"
        size = (size, size) if isinstance(size, int) else tuple(size)
        kind = settings.get("interpolation") or "bicubic"
        plain = kind in ("bicubic", "bilinear") and (mode == "squash" or (mode == "shortest" and size[0] == size[1]))
        fallback = None if plain else transform
        mean, std = tuple(settings["mean"]), tuple(settings["std"])
        return cls(size, mean, std, kind, mode == "squash", one_by_one=fallback)

    def __call__(self, images: Sequence[np.ndarray], device, dtype):
        """Return ``(images, 3, height, width)`` on ``device`` for images of one shape."""
        import torch
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms import functional as tv

        if self.one_by_one is not None:
            from PIL import Image

            return torch.stack([self.one_by_one(Image.fromarray(i)) for i in images]).to(device, dtype)
        batch = _stack_images(images, device).to(device, non_blocking=True).permute(0, 3, 1, 2)
        if self.shorter or tuple(batch.shape[-2:]) != self.size:
            options = InterpolationMode(self.interpolation)
            target = list(self.size) if self.squash else [self.shorter or self.size[0]]
            batch = tv.resize(batch, target, interpolation=options, antialias=True)
            batch = tv.center_crop(batch, list(self.size))
        # One multiplication and one subtraction: (value / 255 - mean) / standard deviation.
        mean, std = (torch.tensor(v, device=device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return batch.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std).to(dtype)


def _stack_images(images: Sequence[np.ndarray], device):
    """Return images of one shape as one uint8 tensor in main memory, pinned for a fast transfer to ``device``."""
    import torch

    if device.type == "cpu":
        return torch.from_numpy(np.stack(images))
    # Page-locked memory reaches a GPU several times faster; one thread alone could not fill it as fast.
    out = torch.empty((len(images), *images[0].shape), dtype=torch.uint8, pin_memory=device.type == "cuda")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(np.copyto, out.numpy(), images))
    return out
