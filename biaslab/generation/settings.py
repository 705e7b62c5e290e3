"""Settings of image generation."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import model_validator

from biaslab.errors import ParameterError
from biaslab.schema.groups import Group, Integer, OffText, field


class GenerationSettings(Group):
    """How many images are generated, and how. Raises ParameterError: A value is not allowed."""

    images_per_prompt: Integer = field(8, "Images of each occupation and prompt template (paper: 500).", "images", ge=1)
    caption_prompts_per_occupation: Integer = field(
        8, "Captions used as prompts for each occupation (paper: 500).", "captions", ge=1
    )
    images_per_caption: Integer = field(1, "Images of each caption used as a prompt (paper: 10).", "images", ge=1)
    steps: Integer | None = field(
        None, "Denoising steps (paper: 50); null is the model's default.", "steps", ge=1, le=1000
    )
    guidance_scale: float | None = field(
        None,
        "Classifier-free guidance scale (paper: 7.5); 1 or less disables guidance, and null is the model's default. "
        "Models that ignore guidance reject values above 1.",
        ge=0,
        le=100,
    )
    scheduler: str = field("", "Name of a compatible diffusers scheduler; empty is the model's default.")
    negative_prompt: str = field("", "Negative prompt; empty uses none.")
    height: Integer = field(0, "Image height; 0 is the model's default.", "pixels", ge=0)
    width: Integer = field(0, "Image width; 0 is the model's default.", "pixels", ge=0)
    aspect: float = field(
        1.0,
        "Factor by which the model's aspect ratio (width divided by height) is multiplied if `generation.width` is 0; "
        "values above 1 make images wider.",
        ge=0.1,
        le=10,
    )
    image_domain: Literal["", "drawings", "photographs"] = field(
        "",
        "Domain of the generated images; empty uses the domain that the model declares, or else photographs. "
        "Classifiers for another domain are rejected.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        "auto",
        "Precision of the denoising network; on a GPU, of the whole model. On CPUs, `auto` selects bfloat16 if it is "
        "faster and hardly changes the network's outputs, else float32. On GPUs, it selects float16 for U-Nets and, "
        "if supported, bfloat16 for transformers.",
    )
    batch_size: Integer = field(0, "Images per batch, at most 64; 0 selects the number by free memory.", "images", ge=0)
    safety_checker: Annotated[Literal["model", "off"], OffText] = field(
        "model",
        "`model` keeps the model's safety checker, and images that it blocks have the status `blocked`; `off` removes "
        "it.",
    )
    compile: bool = field(
        False, "Whether to compile the denoising network, which takes about a minute and speeds up later batches."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.aspect != 1 and self.width:
            raise ParameterError(
                f"width is {self.width} and aspect is {self.aspect:g}; set only one of them, and leave width at 0 or "
                "aspect at 1."
            )
        return self

    @property
    def look(self) -> dict[str, object]:
        """The settings that determine pixels, without those of the number and speed of images."""
        excluded_fields = {"images_per_prompt", "caption_prompts_per_occupation", "images_per_caption"}
        return self.model_dump(exclude=excluded_fields | {"batch_size", "compile", "image_domain"})
