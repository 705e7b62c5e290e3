"""Figures of pictures and prompts of one's own: rows of the tables that each names in, a figure out."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery
from biaslab.prompts.custom import ALL
from biaslab.stats import significance

NAMES = {ALL: "mean over groups"}
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


def shares(table: pd.DataFrame) -> Figure:
    """Draw shares by group and answer, a panel a model (``custom_shares``); groups in the order of rows."""
    rows, panel = forms.by_model(table)
    return forms.estimates(
        rows, "percent", row="group", color="answer", panel=panel, look=ANSWERS, names=NAMES, reference=50,
        label="People seen (%)", xlim=(-2, 102),
    )  # fmt: skip


def outcomes(table: pd.DataFrame) -> Figure:
    """Draw what became of people by group, a panel a model (``custom_outcomes``)."""
    rows, panel = forms.by_model(table)
    return forms.stacked(
        rows, "percent", row="group", part="outcome", look=OUTCOMES, label="People asked for (%)", counts="n",
        panel=panel, names={ALL: "all together"},
    )  # fmt: skip


def distance(table: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw shares of groups beside what they are compared with, a panel a model (``custom_distance``)."""
    each = table[table["group"] != ALL].assign(told=table["p_holm"] < significance(confidence))
    order = each.groupby("group")["percent_female"].mean().sort_values(ascending=False, kind="stable").index
    places: dict[Any, list] = {"model": list(dict.fromkeys(each["model"])), "group": list(order)}
    each = each.sort_values([*places], key=lambda column: column.map(places[column.name].index))
    for end in ("ci_low", "ci_high"):
        each[end] = each[end] + each["benchmark"]
    rows, panel = forms.by_model(each)
    return forms.estimates(
        rows, "percent_female", row="group", panel=panel, reference=None, mark="benchmark", filled="told",
        label="Perceived as female, of those judged (%)", xlim=(-2, 102),
        names={"mark": "compared with", "filled": "differs from it", "hollow": "not told apart"},
    )  # fmt: skip


def pictures(images: list, people: list[pd.DataFrame]) -> Figure:
    """Draw images of a model by group, with the people whom the judge saw (``custom_people``)."""
    named = [dict.fromkeys([rows["group"].iloc[0], rows["prompt"].iloc[0]]) for rows in people]
    return gallery(images, people, [": ".join(names) for names in named])
