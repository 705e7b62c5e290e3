"""Values printed in the triplets paper, one function per measured table, named without the paper's prefix."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from biaslab import reference
from biaslab.metrics.similarity import DEPENDENCY_GROUPS, METRICS, NETWORKS
from biaslab.papers.triplets.analysis import ALL_GROUPS, MEAN, PAIRS, TESTED
from biaslab.papers.triplets.prompts import ONE
from biaslab.schema import tables

ONE_TRIPLET = ONE.format("GCC")
"""The name of the dataset in which a single triplet was repeated over many seeds (section 7.1)."""
STATED_BOUND = 1e-5
"""Upper bound of all p-values among pairs and triplets, stated in sections 5.3 and 7.1."""
NOT_LEGIBLE = "not legible in the text of table 5"

_CELL = ["model", "dataset"]


def prompt_sets() -> pd.DataFrame:
    """Return triplets and seeds of each dataset (table 4)."""
    sizes = reference.load("triplets_table_4")[["dataset", "triplets", "seeds"]]
    sizes = sizes.rename(columns={"triplets": "n_triplets", "seeds": "n_seeds"})
    return sizes.astype({"n_triplets": int, "n_seeds": int}).assign(evidence="printed")


def similarity() -> pd.DataFrame:
    """Return the mean similarities of tables 5 and 10.

    n is nominal: triplets in prompt space, which has no seeds, and triplets times seeds elsewhere.
    """
    all_triplets, single = reference.load("triplets_table_5"), reference.load("triplets_table_10")
    size = prompt_sets().set_index("dataset")
    seeds = all_triplets["dataset"].map(size["n_seeds"]).where(all_triplets["space"] != "prompt", 1)
    all_triplets = all_triplets.assign(sample="triplets", n=all_triplets["dataset"].map(size["n_triplets"]) * seeds)
    n = np.where(single["space"] == "prompt", 1, _load_stated("seeds"))
    single = single.assign(dataset=ONE_TRIPLET, sample="seeds", n=n)
    table = pd.concat([all_triplets, single], ignore_index=True)
    table["rounding"] = _rounding(table, [*_CELL, "space", "metric"], np.where(table["unit"] == "%", 2, 3))
    return table.assign(case=MEAN, reason=np.where(table["value"].isna(), NOT_LEGIBLE, ""))


def networks() -> pd.DataFrame:
    """Return the networks that compare images in the paper (section 4.1.3)."""
    rows = [(metric, NETWORKS[kind]) for kind in NETWORKS for metric in METRICS[kind]]
    return pd.DataFrame(rows, columns=["metric", "network"]).assign(evidence="printed", replaces="")


def object_similarity() -> pd.DataFrame:
    """Return the mean co-occurrence similarities of table 6, and those that section 7.1 states for one triplet."""
    size = prompt_sets().set_index("dataset")
    all_triplets = reference.load("triplets_table_6")
    all_triplets = all_triplets.assign(
        sample="triplets", n=all_triplets["dataset"].map(size["n_triplets"] * size["n_seeds"])
    )
    single = pd.DataFrame(
        [["SD v2.0", ONE_TRIPLET, pair, _load_stated("co_occurrence_similarity", pair)] for pair in PAIRS],
        columns=[*_CELL, "pair", "value"],
    ).assign(sample="seeds", n=_load_stated("seeds"))
    table = pd.concat([all_triplets, single], ignore_index=True)
    return table.assign(case=MEAN, rounding=_rounding(table, _CELL, 3), reading="clear", reason="")


def object_counts() -> pd.DataFrame:
    """Return no rows: the paper prints no counts of objects; a source that detects objects has them."""
    return tables.make_table([], "triplets_object_counts")


def group_object_counts() -> pd.DataFrame:
    """Return no rows: the paper prints no counts by dependency group; a source that detects objects has them."""
    return tables.make_table([], "triplets_group_object_counts")


def printed_chi_square() -> pd.DataFrame:
    """Return the p-values of tables 7 to 9, and the bounds that sections 5.3 and 7.1 state."""
    printed = pd.concat([reference.load(f"triplets_table_{k}") for k in (7, 8, 9)], ignore_index=True)
    printed["sample"] = "triplets"
    cells = product(printed["model"].unique(), printed["dataset"].unique(), TESTED)
    bound = ["<", STATED_BOUND]
    rows = [[*cell, ALL_GROUPS, *bound, "triplets", ""] for cell in cells]
    for pair, group in product(TESTED, (ALL_GROUPS, *DEPENDENCY_GROUPS)):
        is_tested = group == ALL_GROUPS or group.startswith("implicitly")
        values = [*bound, "seeds", ""] if is_tested else ["", np.nan, "seeds", "not tested: fewer than 5 objects"]
        rows.append(["SD v2.0", ONE_TRIPLET, pair, group, *values])
    columns = [*_CELL, "pair", "dependency_group", "p_relation", "p", "sample", "reason"]
    return pd.concat([printed.assign(reason=""), pd.DataFrame(rows, columns=columns)], ignore_index=True)


def printed_bias_score() -> pd.DataFrame:
    """Return the bias scores that sections 5.3 and 6.3.2 state of objects in figures 4, 7 and 8."""
    return reference.load("triplets_bias_score_text").drop(columns=["section", "figure"])


def group_images() -> pd.DataFrame:
    """Return the shares of images with a dependency group (table 11), with n from table 4."""
    size = reference.load("triplets_table_4").set_index("dataset").astype(int)
    printed = reference.load("triplets_table_11")
    return printed.assign(n=printed["dataset"].map(size["images"]), n_triplets=printed["dataset"].map(size["triplets"]))


def printed_group_objects() -> pd.DataFrame:
    """Return the number of different objects in each dependency group (table 12)."""
    return reference.load("triplets_table_12").astype({"objects": int}).rename(columns={"objects": "n_objects"})


def printed_intersection() -> pd.DataFrame:
    """Return the shares of objects that dependency groups have in common (table 13)."""
    return reference.load("triplets_table_13").rename(columns={"over": "base_group"})


def detector_counts() -> pd.DataFrame:
    """Return the nouns that people and the detector find (section 7.3)."""
    text = reference.load("triplets_text")
    counts = {
        "n_images": _load_stated("annotated_images"),
        "n_nouns": _load_stated("nouns"),
        "n_nouns_both": text.query("quantity == 'nouns_agreed' and unit == 'nouns'")["value"],
        "n_nouns_detector_only": _load_stated("nouns_model_only"),
        "n_nouns_people_only": np.nan,
    }
    return pd.DataFrame(counts).assign(model="SD v2.0", reference="people")


def _load_stated(quantity: str, subject: str = "") -> float:
    text = reference.load("triplets_text")
    return float(text.query("quantity == @quantity and subject == @subject")["value"].iloc[0])


def _rounding(rows: pd.DataFrame, cell: list[str], min_decimals: int | np.ndarray) -> pd.Series:
    """Return one unit of the last printed digit; the values of a cell have the same number of decimals.

    ``min_decimals`` is the minimum, because trailing zeros are lost where all values of a cell end in 0.
    """
    decimals = pd.Series(min_decimals, index=rows.index, dtype=int)
    for places in range(6, 0, -1):
        is_needed = (rows["value"] - rows["value"].round(places - 1)).abs() > 1e-9
        decimals = decimals.mask(is_needed & (decimals < places), places)
    return 10.0 ** -decimals.groupby([rows[c] for c in cell]).transform("max")
