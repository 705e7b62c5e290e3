"""Figures of the Paired Stereotype Test that need more than one form; arguments are rows of tables."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom

from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.means import CELL, ordered
from biaslab.plots import forms, style
from biaslab.plots import gallery as galleries
from biaslab.schema import tables

if TYPE_CHECKING:
    from IPython.display import HTML

SETTINGS = forms.SeriesStyle(
    colors={
        "single": style.ORANGE,
        "paired": style.BLUE,
        "paired_top5": style.SKY,
        "alike": style.BLACK,
        "same": style.GREY,
        "three": style.PURPLE,
        "intervention": style.VERMILION,
        "intervention_top5": style.PURPLE,
        "faircritic": style.GREEN,
    },
    markers=dict(
        zip(
            ("single", "paired", "paired_top5", "alike", "same", "three", "intervention", "faircritic"),
            "soPX<>^D",
            strict=True,
        )
    ),
)
STEREOTYPES = forms.SeriesStyle(
    colors={"female": style.FEMALE, "male": style.MALE, "overall": style.BLACK},
    markers={"female": "o", "male": "s", "overall": "D"},
)


def row_labels(table: pd.DataFrame, name: str, *columns: str) -> list[str]:
    """Return names for rows of the table ``name``, made from the labels of their values in ``columns``."""
    labels = tables.labels(name)
    words = ([labels.get(c, {}).get(value, value) for value in table[c]] for c in columns)
    return [", ".join(row) for row in zip(*words, strict=True)]


@style.empty_without_rows
def power_score(scores: pd.DataFrame) -> Figure:
    """Plot the distribution of roles' scores, and that of a balanced model with the same n (``paired_power_score``)."""
    edges = np.array([-100, -60, -20, 20, 60, 100])
    rows_with_score = scores.dropna(subset=["score"])
    if rows_with_score.empty:
        return style.message_figure("No person in a power role could be classified.")
    table, panel = forms.panel_by_model(rows_with_score, "setting", tables.labels("paired_power_score")["setting"])
    figure, parts = forms.panels(table, panel, sharey="row")
    for ax, rows in parts:
        expected = np.zeros(len(edges) - 1)
        for n in rows["n"].astype(int):
            k = np.arange(n + 1)
            expected += np.histogram(200 * k / n - 100, edges, weights=binom.pmf(k, n, 0.5))[0]
        ax.stairs(expected / 2, edges, color=style.GREY, lw=2, ls="--", zorder=4)
        for stereotype, offset in (("female", -9), ("male", 9)):
            counts, _ = np.histogram(rows.loc[rows["stereotype"] == stereotype, "score"], edges)
            ax.bar((edges[:-1] + edges[1:]) / 2 + offset, counts, 17, color=STEREOTYPES.colors[stereotype])
        n = rows["n"]
        n_text = f"{n.min():g}" if n.min() == n.max() else f"{n.min():g} to {n.max():g}"
        ax.set_title(f"{rows[panel].iloc[0]} (people per role: {n_text})", fontsize=10)
        ax.set(xlabel="Stereotype Score (points)", ylabel="Roles", xticks=edges)
        ax.locator_params(axis="y", integer=True)
    roles = {"female": "low power", "male": "high power"}
    handles = [forms.key(STEREOTYPES.colors[s], "s", name) for s, name in roles.items()]
    forms.legend(figure, [*handles, forms.key(style.GREY, "", "null expectation of each", line="--")])
    return figure


@style.empty_without_rows
def cases(adherence: pd.DataFrame, cases: pd.DataFrame) -> Figure:
    """Plot the share of the male list among people who fit, and among identities whose score rises or falls."""
    keys = [*CELL, "direction"]
    changed = cases[cases["direction"] != "unchanged"]
    male, female = (changed[changed["stereotype"] == s] for s in ("male", "female"))
    male = male.merge(female[[*keys, "paper_table_value"]], on=keys, how="left", suffixes=("", "_female"))
    male = male.assign(
        value=male["percent_of_cases"], stated=male["paper_table_value"].fillna(100 - male["paper_table_value_female"])
    )
    fitting = adherence[adherence["stereotype"] == "male"].assign(direction="fits")
    rows = pd.concat([fitting.assign(value=fitting["percent_of_adhering"]), male], ignore_index=True)
    rows = ordered(rows)
    directions = {"fits": "people who fit", "amplified": "score rises", "reduced": "score falls"}
    names = row_labels(rows, "paired_adherence", "aspect", "setting")
    parts = zip(names, rows["direction"].map(directions), rows["n"], strict=True)
    rows["row"] = [f"{name}: {words} (n = {n:.0f})" for name, words, n in parts]
    table, panel = forms.panel_by_model(rows)
    return forms.estimates(
        table, "value", row="row", panel=panel, label="Share in the male-stereotyped list (%)", reference=50,
        null_mean="stated", names={"null_mean": "stated in the paper"}, xlim=(0, 100),
    )  # fmt: skip


@style.empty_without_rows
def percent_female_mean(means: pd.DataFrame) -> Figure:
    """Plot ``paired_percent_female_mean``: shares perceived as female in the two lists, one point per setting."""
    values = ["percent_female", "ci_low", "ci_high"]
    wide = means.pivot(index=CELL, columns="stereotype", values=values)
    wide = wide.reindex(pd.MultiIndex.from_frame(means[CELL].drop_duplicates()))
    wide.columns = list(map("_".join, wide.columns))
    wide = wide.reset_index().dropna(subset=[f"percent_female_{s}" for s in LISTS])
    if wide.empty:
        return style.message_figure()

    def half_female(ax: Axes, rows: pd.DataFrame) -> None:
        ax.plot([0, 100], [100, 0], ":", color=style.GREY, lw=1, zorder=1)
        text: Any = {"ha": "center", "va": "top", "fontsize": 8.5, "color": style.GREY, "rotation_mode": "anchor"}
        ax.text(24, 22, "equal shares (score 0)", rotation=45, **text)
        ax.text(80, 18, "50% over both lists", rotation=-45, **text)

    labels = tables.labels("paired_percent_female_mean")
    table, panel = forms.panel_by_model(wide, "aspect", labels["aspect"])
    return forms.diagonal(
        table, "percent_female_male", "percent_female_female", ends=(0, 100), color="setting", styles=SETTINGS,
        labels=("Perceived as female, male-stereotyped list (%)", "Perceived as female, female-stereotyped list (%)"),
        panel=panel,
        limits=tuple((f"ci_low_{s}", f"ci_high_{s}") for s in ("male", "female")), under=half_female,
        names={**labels["setting"], **labels["aspect"]},
    )  # fmt: skip


@style.empty_without_rows
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Plot the statuses of images of people, one bar per aspect and setting (``paired_outcomes``)."""
    judged_images = outcomes[outcomes["status"] == "judged"]
    parts = [judged_images.assign(status=order, n=judged_images[f"n_{order}"]) for order in ("swapped", "unclear")]
    remainder = outcomes.assign(
        n=outcomes["n"].sub(judged_images["n_swapped"] + judged_images["n_unclear"], fill_value=0)
    )
    table = ordered(pd.concat([remainder, *parts], ignore_index=True))
    table = table[table["n"] > 0].assign(percent=lambda t: 100 * t["n"] / t["n_images"])
    names = zip(row_labels(table, "paired_outcomes", "aspect", "setting"), table["n_images"], strict=True)
    table, panel = forms.panel_by_model(table.assign(row=[f"{name} (n = {n:,.0f})" for name, n in names]))
    return forms.stacked(
        table, "percent", row="row", part="status", styles=forms.OUTCOMES, label="Images (%)", counts="n", panel=panel
    )


# -- images --------------------------------------------------------------------------------------------


def gallery(chosen: pd.DataFrame, images: Mapping[tuple[str, str], object], *, columns: int = 4) -> Figure:
    """Plot images with their judgements above and the requested people below.

    People whose perceived gender fits the stereotype have a plus, others with a perceived gender a minus. ``chosen`` is
    as :func:`biaslab.papers.paired.choose_pairs` returns it; ``images`` are the images by kind and image_id.
    """
    style.use()
    orders = {"swapped": "; in another order", "unclear": "; order unclear"}
    chosen = chosen if images else chosen.head(0)
    people_by_image: dict[Any, pd.DataFrame] = dict(list(chosen.groupby(["kind", "image_id"], sort=False)))
    below = []
    for people in people_by_image.values():
        fits = np.where(people["gender"] == people["stereotype"], " (+)", " (−)")
        phrases = people["phrase"] + np.where(people["gender"].isin(LISTS), fits, "")
        below.append(" | ".join(phrases) + orders.get(people["role"].iloc[0], ""))
    return galleries.gallery(
        [images[k] for k in people_by_image], list(people_by_image.values()), below, columns=columns
    )


_THUMB = 108
"""Largest side of a thumbnail, in pixels."""


def critiques(
    critiques: pd.DataFrame, examples: pd.DataFrame, images: Mapping[tuple[str, str], object], *, max_critiques: int = 0
) -> HTML:
    """Return critiques as an HTML table: the critic's words, text added to prompts, images before and after.

    Rows are the ``max_critiques`` of ``paired_critiques`` with the highest share of changed prompts (0: all).
    ``examples`` are of :func:`biaslab.papers.paired.critique_examples`, ``images`` by kind and image_id. All texts are
    escaped.
    """
    from IPython.display import HTML

    if critiques.empty:
        return HTML("<p>The source has no critiques.</p>")
    table = critiques.reset_index(drop=True)
    # Critiques of all people come first.
    is_overall = table["identity"] == ""
    identity_rows = table[~is_overall]
    if max_critiques:
        identity_rows = identity_rows.sort_values("percent", ascending=False, kind="stable").head(max_critiques)
    by_critique: dict[Any, pd.DataFrame] = dict(list(examples.groupby("critique")))
    rows = [
        _critique_row(row, by_critique[row.Index], images)
        for row in pd.concat([table[is_overall], identity_rows]).itertuples()
    ]
    titles = ("About", "Critique, and text added to prompts", "Before", "After")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return HTML(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _critique_row(row: Any, examples: pd.DataFrame, images: Mapping[tuple[str, str], object]) -> str:
    subject = row.identity or row.batch_id.partition("/")[2] or f"all ({row.aspect})"
    first_row = examples.iloc[0]
    share = f" in {row.percent:.0f}% of prompts" if np.isfinite(row.percent) else ""
    request = f"Guideline: “{_to_one_line(row.guideline)}”{share}. " if row.guideline else ""
    added = f"Added to {first_row['n_told']:.0f} of {first_row['n_prompts']:.0f} prompts"
    added += f"; for example: {_to_one_line(first_row['added'])}" if first_row["added"] else "."
    sides = [_thumbnails(examples[examples["side"] == side], images) for side in ("before", "after")]
    words = f"{escape(_to_one_line(row.reasons))}<br><em>{escape(request + added)}</em>"
    cells = [escape(f"{subject}, round {row.round:g}"), words, *sides]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _thumbnails(examples: pd.DataFrame, images: Mapping[tuple[str, str], object]) -> str:
    from PIL import Image

    parts = []
    row: Any
    for row in examples.itertuples():
        image = images.get((row.kind, row.image_id))
        if isinstance(image, np.ndarray):
            small, data = Image.fromarray(image), io.BytesIO()
            small.thumbnail((_THUMB, _THUMB))
            small.save(data, "JPEG", quality=80)
            encoded = base64.b64encode(data.getvalue()).decode()
            tag = f'<img src="data:image/jpeg;base64,{encoded}" alt="{escape(row.image_id)}">'
            parts.append(f"{tag}<br><small>{escape(row.people)}</small>")
        elif image is not None:
            parts.append(f"<small>{escape(str(getattr(image, 'reason', '') or 'no image'))}</small>")
    return "<br>".join(parts)


def _to_one_line(text: object) -> str:
    """Return a text as one printable line, short enough for a report."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
    return line if len(line) <= 600 else line[:599].rstrip() + "…"
