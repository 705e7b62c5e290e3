"""Models next to each other: the main measures of all papers, and tests of the models' differences.

What each paper measures is in its ``estimands``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

import pandas as pd

from biaslab import stats
from biaslab.papers.estimands import CELL, Estimand
from biaslab.schema import tables
from biaslab.schema.formatting import explain_unattainable, format_count


def models(estimands: Iterable[Estimand], results: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return ``synthesis_models``: each model's main measures as the papers' tables have them, one below the other.

    ``estimate`` is the paper's definition. ``estimate_corrected`` is corrected for small-sample bias; it equals
    ``estimate`` where the measure has none. ``null_mean`` is the null expectation of ``estimate_corrected``.
    ``results`` has by name the table of each estimand with a measure.
    """
    frames = [estimand.estimates(results[estimand.table]) for estimand in estimands if estimand.measure]
    return tables.make_table(pd.concat(frames, ignore_index=True).dropna(subset="estimate"), "synthesis_models")


def units(estimands: Iterable[Estimand], sources: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the values that the measures average, one row per model, measure, list, unit and cell of equal prompts.

    ``sources`` has by name the table of units of each estimand with a measure. ``list`` is one of two lists of
    stereotypes, ``cell`` a role, template or prompt (with the training share where models are compared over the same
    one). ``n_images`` is the number of images for which a deviation is estimated (one row for each number of any
    model), else 0. ``value`` is in ``measure_unit``.
    """
    frames = [estimand.units_of_models(sources[estimand.source]) for estimand in estimands if estimand.measure]
    return pd.concat(frames, ignore_index=True)


def model_differences(units: pd.DataFrame, *, printed: Collection[str] = (), confidence: float = 0.95) -> pd.DataFrame:
    """Return ``synthesis_model_differences``: first minus second model, over the units of both.

    ``units`` are those of :func:`units`. They are paired
    (:func:`biaslab.stats.paired_difference`), deviations compared at the same number of images, and the two lists of a
    score treated as dependent. ``printed`` are models with numbers printed by papers, which are not compared with
    measured ones. p is adjusted (Holm) over the pairs of models of one measure, separately by kind.
    """
    keys = [*CELL, "n_images"]
    rows = []
    for (measure, unit), measure_rows in units.groupby(["measure", "measure_unit"], sort=False):
        by_model = {model: group.set_index(keys)["value"] for model, group in measure_rows.groupby("model", sort=False)}
        for first, second in combinations(by_model, 2):
            if (first in printed) != (second in printed):
                continue
            differences = (by_model[first] - by_model[second]).dropna().sort_index()
            # The largest number of images that both models have.
            differences = differences.groupby(level=keys[:3]).last().groupby(level=keys[:2]).mean()
            lists = [values.to_numpy() for _, values in differences.groupby(level="list")]
            row = {"model_a": first, "model_b": second, "measure": measure, "unit": unit, "n": 0}
            row["kind"] = "printed" if first in printed else "measured"
            if lists:
                test = stats.paired_difference(*lists, confidence=confidence)._asdict()
                row |= {"difference_corrected": test.pop("difference")} | test
                row["n"] = differences.index.get_level_values("unit").nunique()
            else:
                row["reason"] = "the models have no unit in common"
            rows.append(row)
    table = tables.make_table(rows, "synthesis_model_differences")
    holm = table.groupby(["measure", "kind"], sort=False)["p"].transform(lambda p: stats.adjust(p.to_numpy()))
    return table.assign(p_holm=holm)


def by_pair(differences: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return rows of ``synthesis_model_differences`` with the columns of answers about each pair of models.

    ``model`` names the pair, ``p_pair`` is p_holm adjusted over the pair's measures (Holm), ``scale`` the unit as it
    follows a number. ``open`` is the answer without a significant measure, ``untold`` names measures without a test.
    """
    alpha, rows = stats.significance(confidence), differences
    rows = rows.assign(model=rows["model_a"] + " and " + rows["model_b"])
    rows["p_pair"] = rows.groupby("model")["p_holm"].transform(stats.adjust)
    is_range = rows["unit"].str.contains(" to ")
    rows["scale"] = rows["unit"].where(~is_range, "(range of the measure: " + rows["unit"] + ")")
    # The minimum attainable p, adjusted over a measure's pairs as if all had theirs.
    min_p = rows["min_attainable_p"].where(rows["p"].notna())
    min_p = min_p.groupby([rows["measure"], rows["kind"]]).transform(stats.adjust)
    for _, pair in rows.groupby("model", sort=False):
        tested, lacking = pair[pair["p"].notna()], pair[pair["p"].isna()]
        untold = [
            f"Not tested: {'; '.join(rows['measure'])} ({reason})."
            for reason, rows in lacking.groupby("reason", sort=False)
        ]
        possible = stats.adjust(min_p[tested.index])
        n_measures = format_count(len(tested), "measure", "measures")
        words = f"In 0 of {n_measures} (Holm's correction)."
        if len(tested) and not (possible < alpha).any():
            words = "Inconclusive: no outcome could be significant."
            cause = explain_unattainable(f"{tested['n'].max():.0f} units", possible.min(), alpha)
            untold.insert(0, f"{cause[0].upper()}{cause[1:]}.")
        rows.loc[pair.index, ["open", "untold"]] = words, " ".join(untold)
    return rows
