"""What a pipeline measures for the gender triplets: one function a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab import tables
from biaslab.prompts import depicted as rule

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline


def prompt_sets(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many triplets each data set gives, and images of each prompt (Table 4)."""
    of = pipeline.triplets.prompts().groupby("dataset", sort=False)
    counts = of.agg(triplets=("triplet_id", "nunique"), seeds=("n_images", "first")).reset_index()
    return tables.of(counts.assign(evidence="computed"), "triplets_prompt_sets")


def funnel(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions are left after each step from a corpus to its triplets (section 3.1)."""
    return tables.of(pipeline.triplets.neutral().funnel, "triplets_funnel")


def excluded_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions each word of Table 2 keeps from being neutral."""
    return tables.of(pipeline.triplets.neutral().words, "triplets_excluded_words")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the prompts of all triplets, with the places of the words that differ (section 3.1)."""
    return tables.of(pipeline.triplets.prompts(), "triplets_prompts")


def depicted(pipeline: Pipeline) -> pd.DataFrame:
    """Return how often the filter ``depicted`` is right, on captions labelled by hand: once measured, for any run."""
    return tables.of(rule.measured(), "triplets_depicted")
