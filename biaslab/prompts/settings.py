"""The design of the Paired Stereotype Test: whom its prompts ask for, how often, and the shape of its images."""

from __future__ import annotations

from biaslab.groups import Group, Whole, field


class PeopleDesign(Group):
    """Which people are asked for, alone and together (paired paper)."""

    occupations: Whole = field(
        0,
        "Occupations of each of the two stereotyped lists that stand in pairs; 0 is all (as in the paper: 20).",
        "occupations",
        ge=0,
    )
    pair_images: Whole = field(1, "Images for each ordered pair of occupations (paper: 1).", "images", ge=1)
    power_runs: Whole = field(
        3, "Samplings of a high- and a low-power role for each occupation (paper: 3).", "samplings", ge=1
    )
    single_images: Whole = field(3, "Images of each occupation alone (paper: 3).", "images", ge=1)
    control_partners: Whole = field(
        1,
        "Partners of the same stereotype that each occupation gets in control pairs, as far as there are others.",
        "partners",
        ge=1,
    )
    three_prompts: Whole = field(
        24, "Prompts for three people (section C.2); 0 leaves them out.", "prompts", ge=0
    )
    guidance_scale: float | None = field(
        None, "Guidance of images of people whom prompts place; null is that of all images.", ge=0, le=100
    )
    aspect: float = field(
        1.5,
        "Width over height of images of several people, as a multiple of the model's own ratio; 1 is its own shape. "
        "Endpoints take `people.image_size` instead.",
        ge=0.1,
        le=10,
    )
    image_size: str = field(
        "", "Size asked of an images endpoint for images of several people; empty is `endpoint.size`."
    )
