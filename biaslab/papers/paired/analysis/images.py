"""How many images of two people fit stereotypes: counted, or between the limits that shares per identity allow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.ground import tables
from biaslab.measures import biased_images as fitting_images
from biaslab.papers.paired.analysis import scores as of_scores
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.means import CELL, by_cell, counted, ordered


def biased_images(
    shares: pd.DataFrame, pairs: pd.DataFrame, scores: pd.DataFrame, *, confidence: float
) -> pd.DataFrame:
    """Return the share of images in which the person, both people, or at least one fits (paired 4.4.1, Figure 6).

    Images are counted in ``pairs``; where there are none, the limits that the shares per identity allow (Fréchet
    bounds) stand instead. ``scores`` of ``paired_stereotype_score`` are for images of one person.
    """
    seen = dict(list(pairs.groupby(CELL, sort=False)))
    overall = scores[(scores["stereotype"] == "overall") & (scores["evidence"] == "computed")].set_index(CELL)
    rows = []
    for cell, group in by_cell(counted(shares)):
        names = tuple(cell.values())
        if cell["setting"] == "single":
            alone = overall.loc[[names]].iloc[0]
            row = cell | {"measure": "person", "percent": (100 + alone["score"]) / 2, "evidence": "counted"}
            row |= {c: (100 + alone[c]) / 2 for c in ("ci_low", "ci_high")}
            rows.append(row | {c: alone[c] for c in ("n", "dependence", "reason")})
        # The pairs of the top five are a part of the pairs that are counted whole.
        elif names not in seen and not (names[2] == "paired_top5" and (*names[:2], "paired") in seen):
            rows += [cell | row for row in _bounds(group, cell["aspect"])]
    occupations = of_scores.occupations_of(shares)
    for names, images in seen.items():
        cell = dict(zip(CELL, names, strict=True))
        rows += [cell | row for row in _counted(images, occupations, confidence)]
    return ordered(tables.of(rows, "paired_biased_images"))


def _bounds(group: pd.DataFrame, aspect: str) -> list[dict]:
    """Return the limits of "both fit" and "at least one fits" that the shares per identity allow.

    In ``power`` the two people of an image have the same occupation, so the limits are taken per occupation
    and added; otherwise partners cross all identities and only the totals of the lists bind.
    """
    known = group.dropna(subset=["score"])
    known = known.assign(fits=(known["n"] + known["score"] * known["n"] / 100) / 2)
    block = known["occupation"] if aspect == "power" else pd.Series("", known.index)
    totals = known.groupby([block.rename("block"), "stereotype"])[["fits", "n"]].sum()
    fits, n = (totals[c].round().unstack("stereotype").reindex(columns=LISTS) for c in ("fits", "n"))
    if known.empty or (n["female"] != n["male"]).any():
        reason = "the two lists do not count the same images"
        return [{"measure": m, "evidence": "bounds", "reason": reason} for m in ("both", "any")]
    a, b, images = fits["female"], fits["male"], n["female"]
    ends = {
        "both": ((a + b - images).clip(lower=0), np.minimum(a, b)),
        "any": (np.maximum(a, b), np.minimum(a + b, images)),
    }
    total, reason = images.sum(), "no perceived gender of both people of an image is given"
    return [
        {"measure": measure, "percent_least": 100 * low.sum() / total, "percent_most": 100 * high.sum() / total}
        | {"n": int(total), "evidence": "bounds", "reason": reason}
        for measure, (low, high) in ends.items()
    ]


def _counted(images: pd.DataFrame, occupations: dict[str, str], confidence: float) -> list[dict]:
    labels = {s: images[f"{s}_label"] for s in LISTS}
    fits = [label.eq(s).astype(float).where(label.isin(LISTS)).to_numpy() for s, label in labels.items()]
    counts = fitting_images(*fits)
    known = np.isfinite(fits[0] + fits[1])
    whose = of_scores.shown_occupations(images, occupations)
    events = {"both": fits[0] * fits[1] == 1, "any": fits[0] + fits[1] >= 1}
    missing, total = counts.n_missing, counts.n + counts.n_missing
    reason = f"no judgement of both people in {missing} of {total} images" if missing else ""
    if whose is None:
        reason = "; ".join(filter(None, (reason, of_scores.NO_IDENTITIES)))
    rows = []
    for measure, percent in (("both", counts.percent_both), ("any", counts.percent_any)):
        row = {"measure": measure, "percent": percent, "n": counts.n, "evidence": "counted", "reason": reason}
        if whose is not None and counts.n:
            row |= of_scores.share_of_images(events[measure][known], whose[known], confidence)
        rows.append(row)
    return rows
