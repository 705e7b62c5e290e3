"""Units of estimates, paired over two runs, compared with correlations by hand."""

import numpy as np
import pandas as pd
import pytest

from biaslab.papers.estimands import correlations, unit_rows
from biaslab.papers.paired.estimands import score_units


def units(values, **columns):
    rows = pd.DataFrame({"model": "a", "unit": range(len(values)), "value": values})
    return unit_rows(rows, "unit", rows["value"], **columns)


def test_correlations_scale_by_shared_units():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=12), rng.normal(size=9)
    (row,) = correlations(units(first), units(second), ["model"], min_units=6).to_dict("records")
    # The first run has three units more.
    r = np.corrcoef(first[:9], second)[0, 1]
    assert row == {"model": "a", "correlation": pytest.approx(r * 9 / np.sqrt(12 * 9)), "n_paired": 9}
    # A key that one run lacks has no effect.
    assert (
        correlations(units(first), units(second).drop(columns="model"), ["model"], min_units=6)["n_paired"].item() == 9
    )
    assert correlations(units(first), units(second), ["model"], min_units=10).empty
    assert correlations(units(first), units(np.ones(9)), ["model"], min_units=6).empty


def test_correlations_use_cells_at_full_image_count():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(2, 8))
    # By two prompts, and of one of them estimated at fewer images as well.
    cells = [units(values[0], cell="1", n_images=9), units(values[1], cell="2", n_images=5)]
    fewer, other = units(rng.normal(size=8), cell="1", n_images=5), rng.normal(size=8)
    (row,) = correlations(pd.concat([*cells, fewer]), units(other), ["model"], min_units=6).to_dict("records")
    assert row["correlation"] == pytest.approx(np.corrcoef(values.mean(axis=0), other)[0, 1])


def test_score_units_correlate_within_lists():
    rng = np.random.default_rng(3)
    sides = []
    for shift in (0, 30):
        names = [f"o{k}" for k in range(16)]
        rows = pd.DataFrame({"model": "a", "aspect": "occupation", "setting": "single", "identity": names})
        percent = rng.uniform(0, 70, 16) + shift * (np.arange(16) < 8)
        lists = ["female"] * 8 + ["male"] * 8
        sides.append(rows.assign(occupation=names, stereotype=lists, percent_female=percent))
    keys = ["model", "aspect", "setting", "stereotype"]
    by_list = correlations(*map(score_units, sides), keys, min_units=6).set_index("stereotype")
    assert by_list["n_paired"].to_dict() == {"female": 8, "male": 8, "overall": 16}
    # Each score is 100 for a woman of the first list and for a man of the second, else -100.
    scores = [np.where(np.arange(16) < 8, 2, -2) * (rows["percent_female"] - 50) for rows in sides]
    within = [np.concatenate([a[:8] - a[:8].mean(), a[8:] - a[8:].mean()]) for a in scores]
    assert by_list.loc["overall", "correlation"] == pytest.approx(np.corrcoef(*within)[0, 1])
    assert by_list.loc["male", "correlation"] == pytest.approx(np.corrcoef(scores[0][8:], scores[1][8:])[0, 1])
