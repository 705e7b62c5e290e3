"""Figures of the bias amplification paradox that need more than one form of :mod:`biaslab.plots.forms`.

Unless a docstring describes it, the first argument has rows of the table of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle

from biaslab.plots import forms, style, texts
from biaslab.plots import gallery as galleries
from biaslab.schema import tables

APPROACH_NAMES, PROMPT_NAMES = (tables.labels("paradox_amplification")[column] for column in ("approach", "prompt"))
_NAMES = {**APPROACH_NAMES, **PROMPT_NAMES}
OUTCOMES = replace(forms.OUTCOMES, names=tables.labels("paradox_outcomes")["status"])
_INCLUSION = forms.series_style(
    {
        "": ("included by the paper's definition", style.BLACK, "o"),
        "out": ("excluded by this definition", style.VERMILION, "X"),
    }
)
_GENDERS = {"female": (style.FEMALE, "o"), "male": (style.MALE, "s")}
_SHARES = ("percent_training", "percent_generated")
slug = texts.as_name


# -- shares ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def shares(occupations: pd.DataFrame, panel: Sequence[str] = ("model",)) -> Figure:
    """Draw % female in training against generated images, one point per occupation (Figures 3, 5, 7 and 9).

    Rows are of ``paradox_occupation_amplification`` or ``mean_over_prompts``. ``panel`` names the columns with one
    panel per value, of ``model``, ``approach`` and ``prompt``.
    """
    heads = occupations[list(panel)].map(lambda value: _NAMES.get(value, value)).agg(", ".join, axis=1)
    rows = occupations.assign(panel=heads, counted=np.where(occupations["excluded"] == "", "", "out"))
    keys: list[Artist] = [
        Patch(facecolor=style.AMPLIFIED, alpha=0.3, label="amplified"),
        Patch(facecolor=style.DEAMPLIFIED, alpha=0.4, label="de-amplified"),
        Patch(facecolor="white", edgecolor="#BBBBBB", hatch="////", label="opposite direction"),
    ]
    if rows["percent_training_ci_low"].notna().any():
        keys.append(Line2D([], [], color=style.GREY, marker="+", ms=11, ls="", label="median Wilson intervals"))
    return forms.diagonal(
        rows.dropna(subset=_SHARES), *_SHARES, ends=(-2, 102), color="counted", styles=_INCLUSION, panel="panel",
        labels=("Perceived as female, training (%)", "Perceived as female, generated (%)"),
        point="occupation", named=12, under=_regions, keys=keys,
    )  # fmt: skip


def _regions(ax: Axes, rows: pd.DataFrame) -> None:
    """Shade regions of amplified, de-amplified and reversed bias; show the median width of intervals."""
    for corners, color, alpha in (
        ([(0, 0), (50, 50), (50, 0)], style.AMPLIFIED, 0.13),
        ([(50, 50), (100, 100), (50, 100)], style.AMPLIFIED, 0.13),
        ([(0, 0), (50, 50), (0, 50)], style.DEAMPLIFIED, 0.2),
        ([(50, 50), (100, 100), (100, 50)], style.DEAMPLIFIED, 0.2),
    ):
        ax.add_patch(Polygon(corners, facecolor=color, alpha=alpha, edgecolor="none", zorder=0))
    for corner in ((0, 50), (50, 0)):
        hatching: Any = {"facecolor": "none", "edgecolor": style.LIGHT, "hatch": "////", "lw": 0, "zorder": 0}
        ax.add_patch(Rectangle(corner, 50, 50, **hatching))
    widths = [rows[f"percent_{side}_ci_high"] - rows[f"percent_{side}_ci_low"] for side in ("training", "generated")]
    x, y = (float(width.median()) / 2 for width in widths)
    if np.isfinite(x + y):
        # In the emptiest corner: all training images female, all generated ones male.
        ax.errorbar(98 - x, 2 + y, xerr=x, yerr=y, color=style.GREY, lw=1.2, zorder=2)


# -- change ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def signed_changes(occupations: pd.DataFrame, *, max_occupations: int = 15) -> Figure:
    """Plot the ``max_occupations`` that change most in the direction of training bias, and as many against it.

    Rows are of ``paradox_occupation_amplification``, one model and approach; dots are means over prompts, lines ranges.
    """
    rows = occupations.assign(counted=occupations["excluded"] == "").groupby("occupation")
    mean = rows["signed_change"].agg(signed_change="mean", lowest="min", highest="max")
    mean = mean.assign(counted=rows["counted"].all()).dropna()
    mean = mean.sort_values("signed_change", ascending=False).reset_index()
    top = mean[mean["signed_change"] > 0].head(max_occupations)
    bottom = mean[mean["signed_change"] < 0].tail(max_occupations)
    smallest, largest = min(0, mean["lowest"].min()), max(0, mean["highest"].max())
    margin = 0.04 * (largest - smallest)
    names = {"along": "Largest positive changes", "against": "Largest negative changes"}
    names |= {
        "filled": "included by the paper's definition for every prompt",
        "hollow": "excluded for at least one prompt",
    }
    return forms.estimates(
        pd.concat([top.assign(part="along"), bottom.iloc[::-1].assign(part="against")]), "signed_change",
        row="occupation", panel="part", label="Signed change (points)", names=names, limits=("lowest", "highest"),
        filled="counted", xlim=(smallest - margin, largest + margin), columns=2,
    )  # fmt: skip


@style.empty_without_rows
def variation(variation: pd.DataFrame, shares: pd.DataFrame, *, max_occupations: int = 15) -> Figure:
    """Plot a model's generated shares by prompt for occupations that vary most, and the range of sampling noise."""
    top = variation.nlargest(max_occupations, "sd_prompts").set_index("occupation")
    sides = {source: rows[rows["occupation"].isin(top.index)] for source, rows in shares.groupby("source")}
    wide = sides["generated"].pivot(index="occupation", columns="prompt", values="percent_female")
    wide = wide.loc[top.index]
    # sd_noise is the standard deviation of shares around their own mean.
    mean, reach = wide.mean(axis=1), 2 * top["sd_noise"]
    training = sides["training"].drop_duplicates("occupation").set_index("occupation")["percent_female"]
    noise = pd.DataFrame({"low": mean - reach, "high": mean + reach, "training": training.reindex(top.index)})
    return forms.estimates(
        noise.join(wide).reset_index().melt(["occupation", *noise], var_name="prompt", value_name="share"), "share",
        row="occupation", color="prompt", label="Perceived as female (%)", limits=None, reference=50,
        names={**PROMPT_NAMES, "band": "about 95% of shares by sampling noise alone", "mark": "training images"},
        band=("low", "high"), mark="training", xlim=(-2, 102),
    )  # fmt: skip


# -- captions and their images -----------------------------------------------------------------------------------


@style.empty_without_rows
def indicator_correlation(indicators: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Plot the share of captions that indicate a gender against the share of images perceived as that gender."""
    occupations = indicators[indicators["n"] > 0].dropna(subset=["percent_female"])
    if occupations.empty:
        return style.message_figure("No occupation has training images with a classified person.")
    shares = {"female": occupations["percent_female"], "male": 100 - occupations["percent_female"]}
    indicated = {g: occupations[f"percent_{g}_indicator"] + occupations["percent_both"] for g in shares}
    by_gender = pd.concat([occupations.assign(gender=g, share=shares[g], indicated=indicated[g]) for g in shares])
    any_of = correlation[correlation["counted"] == "any"].set_index("gender")
    heads = {gender: _correlation_title(any_of.loc[[gender]].iloc[0]) for gender in shares if gender in any_of.index}
    ends = {"xlim": (-2, 102), "ylim": (-2, min(102, by_gender["indicated"].max() * 1.1 + 2))}
    figure, parts = forms.panels(by_gender, "gender", names=heads, height=4.4, subplot_kw=ends)
    for ax, rows in parts:
        color, marker = _GENDERS[gender := rows["gender"].iloc[0]]
        ax.plot(rows["share"], rows["indicated"], marker, color=color, alpha=0.85)
        if len(rows) > 2 and rows["share"].nunique() > 1:
            line = {"scatter": False, "ci": None, "color": style.BLACK, "truncate": True}
            sns.regplot(rows, x="share", y="indicated", **line, ax=ax)
        ax.set_xlabel(f"Training images perceived as {gender} (%)")
        ax.set_ylabel(f"Captions with {gender} indicators (%)")
        outliers = rows.loc[(rows["indicated"] - rows["indicated"].median()).abs().nlargest(10).index]
        points = rows["share"], rows["indicated"]
        style.label_points(ax, outliers["share"], outliers["indicated"], outliers["occupation"], avoid=points)
    return figure


def _correlation_title(row: pd.Series) -> str:
    if not np.isfinite(row["r"]):
        return f"no correlation (n = {row['n']:.0f})"
    return f"r = {row['r']:.2f} ({row['ci_low']:.2f} to {row['ci_high']:.2f}), n = {row['n']:.0f}"


# -- images ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def gallery(rows: pd.DataFrame, read: Callable, *, line: str = "", columns: int = 8, blur: bool = True) -> Figure:
    """Plot images with their status and perceived gender.

    ``rows`` are judgements with ``kind`` and ``below``, as :mod:`example_images` chooses them. ``read`` returns the
    images of a kind (``study.images``). ``line`` is a column with one line of images per value; by default lines have
    ``columns`` images. With ``blur``, faces are blurred if training images, which may show real people, are included.
    """
    rows = rows.reset_index(drop=True)
    images: dict[Hashable, Any] = {}
    for kind, group in rows.groupby("kind"):
        images |= dict(zip(group.index, read(str(kind)).read(group["image_id"].tolist()), strict=True))
    if line:
        columns = int(rows[line].value_counts().max())
    blur_faces = blur and bool((rows["kind"] == "training").any())
    texts = rows["below"].astype(str).tolist()
    return galleries.gallery([images[i] for i in rows.index], rows, texts, columns=columns, blur=blur_faces)
