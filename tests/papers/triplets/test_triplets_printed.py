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


def test_every_table_is_there():
    found = {n for n in published.names() if n.startswith("triplets_")}
    assert found == {"triplets_text", *(f"triplets_table_{t}" for t in range(2, 14))}
    for name in found:
        # one word is printed twice in table 2
        assert published.load(name).duplicated().sum() == (name == "triplets_table_2"), name


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
