"""What is asked of a text-to-image model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from biaslab.errors import ParameterError, name_help

DTYPES = ("auto", "float32", "bfloat16", "float16")
CHECKERS = ("model", "off")


@dataclass(frozen=True)
class GenerationSettings:
    """The model and how it generates.

    Raises:
        ParameterError: A value is not allowed.
    """

    model: str
    """``mini``, a folder with a diffusers pipeline, or its name on the hub."""
    steps: int = 50
    """Denoising steps (paradox paper: 50)."""
    guidance_scale: float = 7.5
    """How far the image is pushed towards the prompt; 1 and below is no guidance (paradox paper: 7.5)."""
    scheduler: str = ""
    """Name of a diffusers scheduler that the model can take; empty is the model's own."""
    negative_prompt: str = ""
    """What images shall not show; empty is none."""
    height: int = 0
    """Pixels; 0 is the model's own."""
    width: int = 0
    """Pixels; 0 is the model's own."""
    aspect: float = 1.0
    """Where the width is the model's own: width over height as a multiple of the model's, for wide images."""
    dtype: str = "auto"
    """Numbers of the denoising network, on a GPU of the whole model: ``float32``, ``bfloat16``, ``float16``, or
    ``auto``, which finds it: on a CPU bfloat16 where the processor multiplies it and the model stays accurate, else
    float32; on a GPU float16 for U-Nets and bfloat16 for transformers."""
    device: str = "auto"
    """``cpu``, ``cuda``, … or ``auto``: a GPU where there is one."""
    batch_size: int = 0
    """Images at a time, at most 64; 0 finds it from free memory."""
    safety_checker: str = "model"
    """``model`` keeps the checker that a model has; what it blocks has the outcome ``blocked``. ``off`` takes it
    away."""
    compile: bool = False
    """Whether the denoising network is compiled, which takes a minute or more and makes it faster after that: for
    runs of thousands of images."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("height", 0), ("width", 0), ("batch_size", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ParameterError(f"{name} is {value!r}; it must be a whole number from {least}.")
        if not isinstance(self.aspect, int | float) or not 0.1 <= self.aspect <= 10:
            raise ParameterError(f"aspect is {self.aspect!r}; it must be a number from 0.1 to 10.")
        if self.aspect != 1 and self.width:
            raise ParameterError(
                f"width is {self.width} and aspect is {self.aspect}; give one of them and leave width 0 or aspect 1."
            )
        scale = self.guidance_scale
        if not isinstance(scale, int | float) or not 0 <= scale < math.inf:
            raise ParameterError(f"guidance_scale is {scale!r}; it must be a number from 0.")
        for name, allowed in (("dtype", DTYPES), ("safety_checker", CHECKERS)):
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(f"{name} is {value!r}. {name_help(str(value), allowed)}")
        if self.negative_prompt and not self.guided:
            raise ParameterError(
                f"negative_prompt is {self.negative_prompt!r}, but it works through guidance and guidance_scale is "
                f"{scale}; set guidance_scale above 1 or leave negative_prompt empty."
            )

    @property
    def guided(self) -> bool:
        """Whether guidance is asked for."""
        return self.guidance_scale > 1
