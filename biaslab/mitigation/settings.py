"""Who criticises, how often, and what a critic at an endpoint sees."""

from __future__ import annotations

from typing import Literal

from biaslab.endpoints.settings import Url, Variable
from biaslab.schema.groups import Group, Integer, field


class CriticSettings(Group):
    """FairCritic's critic (paired paper, section 5)."""

    kind: Literal["counts", "endpoint"] = field(
        "counts",
        "FairCritic's critic: `counts` (from the judges' counts), or `endpoint`: the vision model `critic.model` "
        "behind `critic.url` (as in the paper).",
    )
    rounds: Integer = field(1, "Rounds of FairCritic (paper: 1); 0 leaves it out.", "rounds", ge=0, le=10)
    images: Integer = field(8, "Images that a critic at an endpoint sees at a time.", "images", ge=1, le=64)
    model: str = field("", "Name of the vision model there (paper: gpt-4-vision-preview).")
    url: Url = field("", "Base URL of the critic's endpoint; empty is `endpoint.url`.", secret=True)
    key_variable: Variable = field(
        "",
        "Environment variable that holds the critic's key, which is sent to the critic's endpoint; empty is "
        "`endpoint.key_variable`.",
        secret=True,
    )
