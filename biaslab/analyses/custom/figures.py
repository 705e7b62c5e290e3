"""Figures of custom prompts and images."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery

ANSWERS = forms.series_style(
    {
        "female": ("perceived as female", style.FEMALE, "o"),
        "male": ("perceived as male", style.MALE, "s"),
        "unclear": ("unclear to the judge", style.GREY, "D"),
    }
)


def image_grid(images: list, people: list[pd.DataFrame]) -> Figure:
    """Plot images of a model by group, with the detected people (``custom_people``)."""
    titles = [dict.fromkeys([rows["group"].iloc[0], rows["prompt"].iloc[0]]) for rows in people]
    return gallery(images, people, [": ".join(parts) for parts in titles])
