"""What the triplets paper prints, as measured tables: a function a table, named without the paper's prefix."""

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
"""The dataset's name where a single triplet was repeated over many seeds (section 7.1)."""
STATED_BOUND = 1e-5
"""Sections 5.3 and 7.1 say that all p-values among pairs and triplets are below it."""
NOT_LEGIBLE = "not legible in the text of table 5"

_CELL = ["model", "dataset"]


def prompt_sets() -> pd.DataFrame:
    """Return triplets and seeds of each dataset (table 4)."""
    sizes = reference.load("triplets_table_4")[["dataset", "triplets", "seeds"]]
    sizes = sizes.rename(columns={"triplets": "n_triplets", "seeds": "n_seeds"})
    return sizes.astype({"n_triplets": int, "n_seeds": int}).assign(evidence="printed")


def similarity() -> pd.DataFrame:
    """Return the mean similarities of tables 5 and 10.

    n is nominal: triplets in prompt space, where a seed changes nothing, and triplets times seeds elsewhere.
    """
    many, one = reference.load("triplets_table_5"), reference.load("triplets_table_10")
    size = prompt_sets().set_index("dataset")
    seeds = many["dataset"].map(size["n_seeds"]).where(many["space"] != "prompt", 1)
    many = many.assign(sample="triplets", n=many["dataset"].map(size["n_triplets"]) * seeds)
    n = np.where(one["space"] == "prompt", 1, _stated("seeds"))
    one = one.assign(dataset=ONE_TRIPLET, sample="seeds", n=n)
    whole = pd.concat([many, one], ignore_index=True)
    whole["rounding"] = _rounding(whole, [*_CELL, "space", "metric"], np.where(whole["unit"] == "%", 2, 3))
    return whole.assign(case=MEAN, reason=np.where(whole["value"].isna(), NOT_LEGIBLE, ""))


def networks() -> pd.DataFrame:
    """Return the networks that compare images in the paper (section 4.1.3)."""
    found = [(metric, NETWORKS[by]) for by in NETWORKS for metric in METRICS[by]]
    return pd.DataFrame(found, columns=["metric", "network"]).assign(evidence="printed", replaces="")


def object_similarity() -> pd.DataFrame:
    """Return the mean co-occurrence similarities of table 6, and what section 7.1 states for one triplet."""
    size = prompt_sets().set_index("dataset")
    many = reference.load("triplets_table_6")
    many = many.assign(sample="triplets", n=many["dataset"].map(size["n_triplets"] * size["n_seeds"]))
    one = pd.DataFrame(
        [["SD v2.0", ONE_TRIPLET, pair, _stated("co_occurrence_similarity", pair)] for pair in PAIRS],
        columns=[*_CELL, "pair", "value"],
    ).assign(sample="seeds", n=_stated("seeds"))
    whole = pd.concat([many, one], ignore_index=True)
    return whole.assign(case=MEAN, rounding=_rounding(whole, _CELL, 3), reading="clear", reason="")


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
    below = ["<", STATED_BOUND]
    rows = [[*cell, ALL_GROUPS, *below, "triplets", ""] for cell in cells]
    for pair, group in product(TESTED, (ALL_GROUPS, *DEPENDENCY_GROUPS)):
        known = group == ALL_GROUPS or group.startswith("implicitly")
        found = [*below, "seeds", ""] if known else ["", np.nan, "seeds", "not tested: fewer than 5 objects"]
        rows.append(["SD v2.0", ONE_TRIPLET, pair, group, *found])
    columns = [*_CELL, "pair", "dependency_group", "p_relation", "p", "sample", "reason"]
    return pd.concat([printed.assign(reason=""), pd.DataFrame(rows, columns=columns)], ignore_index=True)


def printed_bias_score() -> pd.DataFrame:
    """Return the bias scores that sections 5.3 and 6.3.2 state of objects in figures 4, 7 and 8."""
    return reference.load("triplets_bias_score_text").drop(columns=["section", "figure"])


def group_images() -> pd.DataFrame:
    """Return the shares of images that hold a dependency group (table 11), with n from table 4."""
    size = reference.load("triplets_table_4").set_index("dataset").astype(int)
    printed = reference.load("triplets_table_11")
    return printed.assign(n=printed["dataset"].map(size["images"]), n_triplets=printed["dataset"].map(size["triplets"]))


def printed_group_objects() -> pd.DataFrame:
    """Return how many different objects each dependency group has (table 12)."""
    return reference.load("triplets_table_12").astype({"objects": int}).rename(columns={"objects": "n_objects"})


def printed_intersection() -> pd.DataFrame:
    """Return the shares of objects that dependency groups have in common (table 13)."""
    return reference.load("triplets_table_13").rename(columns={"over": "base_group"})


def detector_counts() -> pd.DataFrame:
    """Return the nouns that people and the detector find (section 7.3)."""
    text = reference.load("triplets_text")
    counts = {
        "n_images": _stated("rated_images"),
        "n_nouns": _stated("nouns"),
        "n_nouns_both": text.query("quantity == 'nouns_agreed' and unit == 'nouns'")["value"],
        "n_nouns_detector_only": _stated("nouns_model_only"),
        "n_nouns_people_only": np.nan,
    }
    return pd.DataFrame(counts).assign(model="SD v2.0", reference="people")


def _stated(quantity: str, subject: str = "") -> float:
    text = reference.load("triplets_text")
    return float(text.query("quantity == @quantity and subject == @subject")["value"].iloc[0])


def _rounding(rows: pd.DataFrame, cell: list[str], least: int | np.ndarray) -> pd.Series:
    """Return one unit of the last printed digit; the two values of a cell are printed alike.

    Both ending in 0 would look coarser than printed: no value has fewer than ``least`` decimals.
    """
    decimals = pd.Series(least, index=rows.index, dtype=int)
    for places in range(6, 0, -1):
        needed = (rows["value"] - rows["value"].round(places - 1)).abs() > 1e-9
        decimals = decimals.mask(needed & (decimals < places), places)
    return 10.0 ** -decimals.groupby([rows[c] for c in cell]).transform("max")
