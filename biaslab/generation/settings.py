"""What is asked of a text-to-image model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from biaslab.errors import ParameterError
from biaslab.schema.groups import Group, Integer, OffText, field


class GenerationSettings(Group):
    """How many images are generated, and how. Raises ParameterError: A value is not allowed."""

    images_per_prompt: Integer = field(8, "Images of an occupation and template (paper: 500).", "images", ge=1)
    caption_prompts_per_occupation: Integer = field(
        8, "Captions for each occupation that serve as prompts (paper: 500).", "captions", ge=1
    )
    images_per_caption: Integer = field(1, "Images of a caption as a prompt (paper: 10).", "images", ge=1)
    steps: Integer | None = field(
        None, "Denoising steps (paper: 50); null is the model's own, as its makers give it.", "steps", ge=1, le=1000
    )
    guidance_scale: float | None = field(
        None,
        "How far the image is pushed towards the prompt; 1 and below is no guidance (paper: 7.5). null is the model's "
        "own; of a model whose images it does not change, it is refused.",
        ge=0,
        le=100,
    )
    scheduler: str = field("", "Name of a diffusers scheduler that the model takes; empty is its own.")
    negative_prompt: str = field("", "What images shall not show; empty is none.")
    height: Integer = field(0, "Height of images; 0 is the model's own.", "pixels", ge=0)
    width: Integer = field(0, "Width of images; 0 is the model's own.", "pixels", ge=0)
    aspect: float = field(
        1.0, "Where the width is the model's own: its width over height times this, for wide images.", ge=0.1, le=10
    )
    pictures: Literal["", "drawings", "photographs"] = field(
        "",
        "What the model's images are; empty is what it says of itself, and photographs where it says nothing. A judge "
        "that knows another kind is refused.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        "auto",
        "Numbers of the denoising network, on a GPU of the whole model. `auto` finds them: on a CPU bfloat16 where the "
        "processor multiplies it faster than float32 (AMX, or AMD's AVX-512) and the model stays accurate, else "
        "float32; on a GPU float16 for U-Nets and bfloat16 for transformers, where it has it.",
    )
    batch_size: Integer = field(0, "Images at a time, at most 64; 0 finds it from free memory.", "images", ge=0)
    safety_checker: Annotated[Literal["model", "off"], OffText] = field(
        "model",
        "`model` keeps the checker that a model has; what it blocks has the outcome `blocked`. `off` takes it away.",
    )
    compile: bool = field(
        False, "Whether the denoising network is compiled, which takes a minute and makes it faster after that."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.aspect != 1 and self.width:
            raise ParameterError(
                f"width is {self.width} and aspect is {self.aspect:g}; give one of them and leave width 0 or aspect 1."
            )
        return self

    @property
    def look(self) -> dict[str, object]:
        """What decides how an image looks: not how many there are, nor how fast they are made."""
        apart = {"images_per_prompt", "caption_prompts_per_occupation", "images_per_caption"}
        return self.model_dump(exclude=apart | {"batch_size", "compile", "pictures"})
