"""Gender triplets, "Revealing Gender Bias from Prompt to Image in Stable Diffusion": from the prompt to the image.

Functions of this package analyse: frames in, a table out. ``printed`` has the paper's own numbers, ``figures`` draws
tables, ``findings`` says what they show, and ``cases`` makes measured tables of what stages say of single images.
"""

from biaslab.papers.triplets import cases, figures, findings, measure, printed
from biaslab.papers.triplets.analysis import (
    as_printed,
    bias_score,
    chi_square,
    co_occurrence,
    co_occurrence_summary,
    datasets,
    depicted,
    detector,
    disparity,
    disparity_gap,
    examples,
    excluded_words,
    floor,
    gap_summary,
    group_bias_score,
    group_chi_square,
    group_objects,
    group_share,
    intersection,
    professions,
    together,
    top_objects,
    where,
)

__all__ = [
    "as_printed",
    "bias_score",
    "cases",
    "chi_square",
    "co_occurrence",
    "co_occurrence_summary",
    "datasets",
    "depicted",
    "detector",
    "disparity",
    "disparity_gap",
    "examples",
    "excluded_words",
    "figures",
    "findings",
    "floor",
    "gap_summary",
    "group_bias_score",
    "group_chi_square",
    "group_objects",
    "group_share",
    "intersection",
    "measure",
    "printed",
    "professions",
    "together",
    "top_objects",
    "where",
]
