"""How figures of pictures and prompts of one's own look."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery

ANSWERS = forms.look(
    {
        "female": ("perceived as female", style.FEMALE, "o"),
        "male": ("perceived as male", style.MALE, "s"),
        "unclear": ("unclear to the judge", style.GREY, "D"),
    }
)
OUTCOMES = forms.look(
    {
        "judged": ("judged female or male", style.LIGHT),
        "uncertain": ("uncertain to the judge", style.ORANGE),
        "no_face": ("no face", style.BLACK),
        "one_face": ("fewer faces than asked for", style.BLUE),
        "too_many_faces": ("more faces than asked for", style.GREEN),
        "overlapping": ("faces overlap", style.PURPLE),
        "face_too_small": ("face too small", style.SKY),
        "unreadable": ("unreadable", style.GREY),
        "blocked": ("withheld by the model", style.VERMILION),
        "unrated": ("not rated", style.YELLOW),
        "unanswered": ("no answer of the judge", style.GREY),
    }
)


def pictures(images: list, people: list[pd.DataFrame]) -> Figure:
    """Draw images of a model by group, with the people whom the judge saw (``custom_people``)."""
    named = [dict.fromkeys([rows["group"].iloc[0], rows["prompt"].iloc[0]]) for rows in people]
    return gallery(images, people, [": ".join(names) for names in named])
