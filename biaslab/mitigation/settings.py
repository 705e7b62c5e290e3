"""Settings of FairCritic's critic."""

from __future__ import annotations

from typing import Literal

from biaslab.endpoints.settings import Url, Variable
from biaslab.schema.groups import Group, Integer, field


class CriticSettings(Group):
    """FairCritic's critic (paired paper, section 5)."""

    kind: Literal["counts", "endpoint"] = field(
        "counts",
        "FairCritic's critic: `counts` (rules on the judged counts), or `endpoint`, the vision model `critic.model` "
        "at `critic.url` as in the paper.",
    )
    rounds: Integer = field(1, "FairCritic rounds (paper: 1); 0 skips FairCritic.", "rounds", ge=0, le=10)
    images_per_request: Integer = field(8, "Images in one request to the vision model.", "images", ge=1, le=64)
    model: str = field("", "Name of the vision model (paper: gpt-4-vision-preview).")
    url: Url = field("", "Base URL of the critic's endpoint; empty is `endpoint.url`.", secret=True)
    api_key_env: Variable = field(
        "",
        "Environment variable that holds the API key for the critic's endpoint; empty is `endpoint.api_key_env`.",
        secret=True,
    )
