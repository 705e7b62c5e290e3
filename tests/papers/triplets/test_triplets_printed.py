"""The printed numbers of gender triplets: complete, on their grid, and consistent with each other.

Printed figures that do not follow from others are named as exceptions; none is corrected.
"""

import numpy as np
import pandas as pd
import pytest

from biaslab import published

DATASETS = ["GCC", "COCO", "TextCaps", "Flickr30k", "Profession"]
VERSIONS = ["SD v1.4", "SD v2.0", "SD v2.1"]
GROUPS = ["explicitly_guided", "implicitly_guided", "explicitly_independent", "implicitly_independent", "hidden"]
# Half a unit of the last printed decimal, and room for binary fractions.
CENT = 0.005 + 1e-9


def load(*tables: int) -> pd.DataFrame:
    return pd.concat([published.load(f"triplets_table_{t}") for t in tables], ignore_index=True)


def wide(rows: pd.DataFrame, index: str | list[str], columns: str, values: str) -> pd.DataFrame:
    return rows.pivot(index=index, columns=columns, values=values)


def test_every_table_is_there():
    found = {n for n in published.names() if n.startswith("triplets_")}
    assert found == {"triplets_text", *(f"triplets_table_{t}" for t in range(2, 14))}
    for name in found:
        # one word is printed twice in table 2
        assert published.load(name).duplicated().sum() == (name == "triplets_table_2"), name


def test_triplet_counts():
    rows = load(4)
    assert rows["dataset"].tolist() == DATASETS
    assert rows["prompts"].equals(3 * rows["triplets"])
    assert rows["images"].equals(rows["prompts"] * rows["seeds"])


def test_triplet_word_lists():
    words = load(2)
    assert words[words.duplicated()]["word"].tolist() == ["queen"]
    jobs = load(3)
    assert jobs.groupby("topic").size().tolist() == [20] * 16
    assert sorted(jobs[jobs["profession"].duplicated()]["profession"]) == ["Nutritionist", "Sommelier"]


METRICS = {
    "t": "prompt",
    "z0": "denoising",
    **dict.fromkeys(["ssim", "diff_pix", "resnet", "clip", "dino", "split_product"], "image"),
}


@pytest.mark.parametrize(("table", "rows"), [(5, 3 * 5 * 2 * 8), (10, 2 * 8)])
def test_disparities_are_complete(table, rows):
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


def test_which_disparities_are_damaged():
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
    notes = " ".join(published.describe("triplets_table_5").notes)
    for dataset in ("COCO", "TextCaps"):
        assert f"SD v2.1 {dataset}, neutral-masculine" in notes


def test_prompt_space_does_not_depend_on_the_unet():
    # SD v2.0 and v2.1 share the text encoder, so their prompt-space values agree, the damaged ones too
    t = wide(load(5).query("metric == 't'"), ["dataset", "pair"], "model", "value")
    assert t["SD v2.0"].equals(t["SD v2.1"].rename("SD v2.0"))


def closer(rows: pd.DataFrame) -> pd.Series:
    """Return how much closer the masculine pair is, by model, dataset and metric."""
    pairs = wide(rows, ["model", "dataset", "metric", "higher_is_closer"], "pair", "value")
    gap = (pairs["neutral-masculine"] - pairs["neutral-feminine"]).dropna()
    sign = np.where(gap.index.get_level_values("higher_is_closer") == 1, 1, -1)
    return (gap * sign).droplevel("higher_is_closer")


def test_neutral_is_closer_to_masculine_but_for_named_exceptions():
    gap = closer(load(5))
    # 120 comparisons less the 6 with a missing side
    assert len(gap) == 114
    assert set(gap[gap <= 0].index) == {
        *((model, dataset, "clip") for model in VERSIONS for dataset in ("COCO", "Flickr30k")),
        ("SD v2.0", "Profession", "t"),
        ("SD v2.1", "Profession", "t"),
        ("SD v2.1", "Flickr30k", "split_product"),
    }
    assert (closer(load(10)) > 0).all()


def test_ssim_and_differing_pixels_move_in_opposite_directions():
    # why 0.438, read for SSIM of SD v2.1 on TextCaps, is missing: it would be the one pair that breaks this
    d = wide(load(5), ["model", "dataset", "pair"], "metric", "value")
    change = d.xs("neutral-masculine", level="pair") - d.xs("neutral-feminine", level="pair")
    change = change[["ssim", "diff_pix"]].dropna()
    assert len(change) == 13
    assert (change["ssim"] / change["diff_pix"]).between(-0.012, -0.006).all()


@pytest.mark.parametrize("pair", ["neutral-feminine", "neutral-masculine"])
def test_columns_of_table_10_are_those_of_table_5(pair):
    # two headings of table 10 are lost: ordered by size, its metrics are those of SD v2.0 on GCC in table 5
    full = load(5).query("model == 'SD v2.0' and dataset == 'GCC'")
    orders = [rows[rows["pair"] == pair].sort_values("value")["metric"].tolist() for rows in (full, load(10))]
    assert orders[0] == orders[1]
    assert len(set(orders[0])) == 8


def test_object_similarity():
    d = load(6)
    assert len(d) == 3 * 5 * 2
    assert d["value"].between(0.3, 0.6).all()
    pairs = wide(d, ["model", "dataset"], "pair", "value")
    assert (pairs["neutral-masculine"] > pairs["neutral-feminine"]).all()


def test_chi_square_tables():
    d = load(7, 8, 9)
    assert len(d) == 3 * 5 * 4 * 5 == len(d.drop(columns=["p", "p_relation"]).drop_duplicates())
    assert d.groupby("model").size().to_dict() == dict.fromkeys(VERSIONS, 100)
    assert set(d["pair"]) == {"neutral-feminine", "neutral-masculine", "feminine-masculine", "triplet"}
    assert (d["p"][d["p_relation"] == "<"] == 1e-5).all()
    exact = d[d["p_relation"] == "="]
    assert (exact["p"] > 1e-5).all()
    assert (d["p"] <= 1).all()
    # the values printed in powers of ten
    assert sorted(exact["p"][exact["p"] < 0.01]) == [1.01e-5, 3.05e-5, 4e-5, 1e-4, 2e-4, 3e-4, 2e-3]
    assert (d["p"][d["dependency_group"] == "hidden"] == 1).all()
    implicit = d["dependency_group"].isin(["implicitly_guided", "implicitly_independent"])
    assert (d["p"][implicit] < 0.05).all()
    # among explicit groups only COCO differs, and there not always
    explicit = d[d["dependency_group"].str.startswith("explicitly") & (d["p"] < 0.05)]
    assert set(explicit["dataset"]) == {"COCO"}
    # 3 models x 4 comparisons x 2 groups, less feminine-masculine independent with SD v2.0 and v2.1
    assert len(explicit) == 22


def test_group_shares():
    d = load(11)
    assert len(d) == 25
    assert d["percent_images"].between(0, 100).all()
    # GCC has 6270 images with one model (table 4): a share is a multiple of 100 / 6270 = 0.016 to rounding
    gcc = d.query("dataset == 'GCC'")["percent_images"].to_numpy()
    counts = gcc * 6270 / 100
    np.testing.assert_allclose(100 * np.round(counts) / 6270, gcc, rtol=0, atol=CENT)


def test_group_intersections_follow_from_the_counts():
    counts = load(12).set_index(["dataset", "dependency_group"])["objects"]
    shares = load(13).set_index(["dataset", "over", "dependency_group"])["percent"]
    assert len(counts) == 5 * 6
    assert len(shares) == 5 * 6 * 6
    off = {}
    for (dataset, over, group), percent in shares.items():
        # the intersection is a whole number; the larger of the two shares, over fewer objects, gives it best
        whole, other = counts[dataset, over], counts[dataset, group]
        best = max((percent, whole), (shares[dataset, group, over], other))
        both = round(best[0] * best[1] / 100)
        if abs(100 * both / whole - percent) > CENT:
            off[dataset, over, group] = (percent, round(100 * both / whole, 2))
    assert off == {
        ("GCC", "implicitly_guided", "explicitly_independent"): (0.63, 6.33),
        ("TextCaps", "hidden", "explicitly_guided"): (9.50, 9.45),
        ("TextCaps", "hidden", "implicitly_guided"): (13.90, 13.91),
    }


def test_nouns_hold_the_explicit_and_the_hidden():
    d = load(13)
    assert set(d["over"]) == set(d["dependency_group"]) == {*GROUPS, "nouns"}
    inside = ["explicitly_guided", "explicitly_independent", "hidden", "nouns"]
    assert (d[(d["dependency_group"] == "nouns") & d["over"].isin(inside)]["percent"] == 100).all()
    assert (d[d["over"] == d["dependency_group"]]["percent"] == 100).all()


def test_running_text():
    d = published.load("triplets_text").set_index(["quantity", "unit"])["value"]
    # 227 of 346 nouns
    agreed = 100 * d["nouns_agreed", "nouns"].item() / d["nouns", "nouns"].item()
    assert round(agreed, 2) == d["nouns_agreed", "%"].item()
