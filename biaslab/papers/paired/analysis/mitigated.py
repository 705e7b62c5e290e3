"""Scores with and without mitigation (paired section 5)."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab import stats
from biaslab.papers.paired.analysis.dependence import LISTS, deviations
from biaslab.papers.paired.analysis.means import count_groups, pair_scores, strata
from biaslab.papers.paired.analysis.scores import occupation_score, power_score
from biaslab.schema import tables

_KINDS = {"paired": "none", "paired_top5": "none", "intervention_top5": "intervention"}
_SETTINGS = {("top5", "none"): "paired_top5", ("all", "none"): "paired", ("top5", "intervention"): "intervention_top5"}
NO_DIFFERENCE, NOT_TESTED = "no difference shown", "not tested"
_TOWARDS, _AGAINST = "towards stereotypes", "against stereotypes"


def mitigation(scores: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return scores of pairs without and with mitigation (paired 5, Table 2 and the last rows of Table 1)."""
    scores = _add_scope(scores).reset_index(drop=True)
    keys = ["model", "aspect", "stereotype"]
    unmitigated = scores.loc[scores["setting"] == "paired", [*keys, "n"]]
    # Overall, two fully dependent people of an image count as one; p(1-p) is at most 1/4.
    images: pd.Series = scores[keys].merge(unmitigated, on=keys, how="left")["n"] / np.where(
        scores["stereotype"] == "overall", 2, 1
    )
    lacks_n = (scores["scope"] == "all") & scores["n"].isna() & (images > 0)
    directions = [direction(*row) for row in scores[["score", "ci_low", "ci_high"]].itertuples(index=False)]
    before = scores.loc[scores["mitigation"] == "none", [*keys, "scope", "score"]]
    before = scores[[*keys, "scope"]].merge(before, on=[*keys, "scope"], how="left")["score"]
    product = scores["score"] * before
    is_biased = pd.Series(directions, scores.index).isin([_TOWARDS, _AGAINST])
    sides = np.select([is_biased & (product < 0), is_biased & (product > 0)], ["over", "short"], "")
    frame = scores.assign(
        margin=100 * norm.ppf((1 + confidence) / 2) / np.sqrt(images.where(lacks_n)),
        direction=pd.Series(directions, scores.index, dtype=object),
        score_before=before.where(scores["mitigation"] != "none"),
        correction=np.where(scores["mitigation"] != "none", sides, ""),
    )
    return tables.make_table(frame, "paired_mitigation")


def _add_scope(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of two people, with the scope and the mitigation of their setting."""
    table = table[table["setting"] != "single"]
    scope = table["setting"].str.endswith("_top5").map({True: "top5", False: "all"})
    return table.assign(scope=scope, mitigation=table["setting"].replace(_KINDS))


def direction(score: float, low: float, high: float) -> str:
    """Return the direction of bias that the interval of a score (points) supports, as in the tables.

    A score without an interval is ``not tested``; a missing score has no direction ("").
    """
    if not isfinite(score):
        return ""
    if not (isfinite(low) and isfinite(high)):
        return NOT_TESTED
    return _TOWARDS if low > 0 else _AGAINST if high < 0 else NO_DIFFERENCE


def mitigation_change(shares: pd.DataFrame, pairs: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the mean change in the score from unmitigated to mitigated pairs, over identities."""
    frame = _add_scope(
        pd.concat([score(shares, confidence=confidence) for score in (occupation_score, power_score)])
    ).dropna(subset=["score"])
    frame["direction"] = [
        NO_DIFFERENCE if p >= stats.significance(confidence) else direction(score, score, score)
        for p, score in zip(frame["p_holm"], frame["score"], strict=True)
    ]
    identity_keys, values = ["model", "aspect", "scope", "identity"], ["score", "min_attainable_p_holm", "direction"]
    before = frame.loc[frame["mitigation"] == "none", [*identity_keys, *values]]
    after = frame[frame["mitigation"] != "none"].merge(before, on=identity_keys, suffixes=("", "_before"))
    after = after.assign(change=after["score"] - after["score_before"])
    images, rows = pair_scores(pairs, count_groups(shares)), []
    keys = ["model", "aspect", "scope", "mitigation"]
    for names, group in after.groupby(keys, sort=False):
        model, aspect, scope, kind = map(str, names)
        sides = []
        for mitigation, column, sign in (("none", "score_before", -1), (kind, "score", 1)):
            setting = _SETTINGS.get((scope, mitigation), mitigation)
            side = deviations(images.get((model, aspect, setting)), group, column)
            if side is not None:
                sides.append(side.assign(**{s: sign * side[s] for s in LISTS}))
        # Where only shares are known, an identity's mitigated and unmitigated pairs both affect its partners.
        terms = pd.concat(sides) if len(sides) == 2 else None
        for row, part in strata(group, "change", confidence, -200, 200, effect="change", images=terms, two_people=True):
            row |= dict(zip(keys, names, strict=True))
            for end in ("_before", ""):
                row[f"n_towards{end}"] = int((part[f"direction{end}"] == _TOWARDS).sum())
                row[f"n_against{end}"] = int((part[f"direction{end}"] == _AGAINST).sum())
                row[f"min_attainable_p_holm{end}"] = part[f"min_attainable_p_holm{end}"].min()
            rows.append(row)
    return tables.make_table(rows, "paired_mitigation_change")
