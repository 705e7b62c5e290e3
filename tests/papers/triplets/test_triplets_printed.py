"""The printed numbers of gender triplets: complete, on their grid, and consistent with each other.

Printed figures that do not follow from others are named as exceptions; none is corrected.
"""

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.papers import triplets

VERSIONS = ["SD v1.4", "SD v2.0", "SD v2.1"]
GROUPS = ["explicitly_guided", "implicitly_guided", "explicitly_independent", "implicitly_independent", "hidden"]
# Half a unit of the last printed decimal, and room for binary fractions.
CENT = 0.005 + 1e-9


def load(*tables: int) -> pd.DataFrame:
    return pd.concat([reference.load(f"triplets_table_{t}") for t in tables], ignore_index=True)


def wide(rows: pd.DataFrame, index: str | list[str], columns: str, values: str) -> pd.DataFrame:
    return rows.pivot(index=index, columns=columns, values=values)


def test_printed_tables_are_complete():
    table_names = {n for n in reference.names() if n.startswith("triplets_")}
    assert table_names == {"triplets_text", "triplets_bias_score_text", *(f"triplets_table_{t}" for t in range(2, 14))}
    for name in table_names:
        # one word is printed twice in table 2
        assert reference.load(name).duplicated().sum() == (name == "triplets_table_2"), name


METRICS = {
    "t": "prompt",
    "z0": "denoising",
    **dict.fromkeys(["ssim", "diff_pix", "resnet", "clip", "dino", "split_product"], "image"),
}


@pytest.mark.parametrize(("table", "rows"), [(5, 3 * 5 * 2 * 8), (10, 2 * 8)])
def test_disparity_tables_are_complete(table, rows):
    d = load(table)
    assert len(d) == rows == len(d[["model", "dataset", "pair", "metric"]].drop_duplicates())
    assert d["space"].equals(d["metric"].map(METRICS))
    assert (d["higher_is_closer"] == (d["metric"] != "diff_pix")).all()
    assert (d["unit"] == np.where(d["metric"] == "diff_pix", "%", "1")).all()
    percent = d["metric"] == "diff_pix"
    assert d["value"][percent].dropna().between(30, 50).all()
    assert d["value"][~percent].dropna().between(0.4, 1).all()
    assert d["value"].isna().equals(d["reading"] == "missing")
    assert (d["as_read"] == "").equals(d["reading"] == "clear")


def test_table_5_lists_damaged_cells():
    d = load(5)
    assert set(d["model"]) == set(VERSIONS)
    damaged = d[d["reading"] != "clear"]
    cells = damaged.groupby(["model", "dataset", "pair", "reading"])["metric"].apply(list)
    everything = list(METRICS)
    assert cells.to_dict() == {
        ("SD v2.1", "COCO", "neutral-feminine", "reconstructed"): everything,
        ("SD v2.1", "COCO", "neutral-masculine", "missing"): ["ssim", "dino"],
        ("SD v2.1", "COCO", "neutral-masculine", "reconstructed"): [m for m in everything if m not in ("ssim", "dino")],
        ("SD v2.1", "TextCaps", "neutral-masculine", "missing"): ["ssim", "clip", "dino", "split_product"],
        ("SD v2.1", "TextCaps", "neutral-masculine", "reconstructed"): ["t", "z0", "diff_pix", "resnet"],
    }
    # a reconstructed value is one of the numbers in its cell
    rebuilt = damaged[damaged["reading"] == "reconstructed"]
    for value, cell in zip(rebuilt["value"], rebuilt["as_read"], strict=True):
        assert value in [float(part) for part in cell.split()]
    notes = " ".join(reference.describe("triplets_table_5").notes)
    for dataset in ("COCO", "TextCaps"):
        assert f"SD v2.1 {dataset}, neutral-masculine" in notes


def test_prompt_space_values_ignore_unet():
    # SD v2.0 and v2.1 share the text encoder, so their prompt-space values agree, the damaged ones too
    t = wide(load(5).query("metric == 't'"), ["dataset", "pair"], "model", "value")
    assert t["SD v2.0"].equals(t["SD v2.1"].rename("SD v2.0"))


@pytest.mark.parametrize("pair", ["neutral-feminine", "neutral-masculine"])
def test_table_10_columns_match_table_5(pair):
    # two headings of table 10 are lost: ordered by size, its metrics are those of SD v2.0 on GCC in table 5
    full = load(5).query("model == 'SD v2.0' and dataset == 'GCC'")
    orders = [rows[rows["pair"] == pair].sort_values("value")["metric"].tolist() for rows in (full, load(10))]
    assert orders[0] == orders[1]
    assert len(set(orders[0])) == 8


def test_stated_bias_scores_match_figures_4_7_and_8():
    scores = reference.load("triplets_bias_score_text")
    # Section 5.3 states 28 scores (figure 4); section 6.3.2 states 19 of implicitly guided objects and 8 of others.
    assert scores["figure"].value_counts().to_dict() == {"4": 28, "7": 19, "8": 8}
    groups = {"4": "all", "7": "implicitly_guided", "8": "implicitly_independent"}
    assert (scores["dependency_group"] == scores["figure"].map(groups)).all()
    assert scores["bias_score"].between(0, 1).all()
    assert not scores.duplicated(["model", "dataset", "dependency_group", "object"]).any()


def test_bias_score_omits_printed_value_of_computed_cell():
    counts = pd.DataFrame(
        [("SD v2.0", "GCC", gender, "suit", "", n, 100) for gender, n in (("masculine", 30), ("feminine", 10))],
        columns=["model", "dataset", "prompt_gender", "object", "case", "count", "n_images"],
    )
    scores = triplets.bias_score(counts, printed=triplets.printed.printed_bias_score())
    computed = scores[scores["reason"] == ""]
    # 30 / (30 + 10), as both sets have 100 images. The printed scores of SD v2.0 on GCC are not shown next to it.
    assert computed[["object", "bias_score"]].to_numpy().tolist() == [["suit", 0.75]]
    printed = scores[scores["reason"] == "the paper prints no counts"]
    assert len(printed) == 28 - 6 and "GCC" not in set(printed["dataset"]) and printed["p_holm"].isna().all()
