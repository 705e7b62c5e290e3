"""Gender triplets, "Revealing Gender Bias from Prompt to Image in Stable Diffusion": from the prompt to the image.

Functions of this package analyse: frames in, a table out. ``printed`` has the paper's own numbers, ``figures`` draws
tables, ``findings`` says what they show, and ``cases`` makes measured tables of what stages say of single images.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from biaslab.papers.triplets import cases, figures, findings, measure, printed
from biaslab.papers.triplets.analysis import (
    as_printed,
    bias_score,
    chi_square,
    co_occurrence,
    datasets,
    depicted,
    detector,
    detector_error,
    detector_gender,
    disparity,
    disparity_gap,
    examples,
    excluded_words,
    extremes,
    floor,
    gap_summary,
    group_objects,
    group_share,
    group_truth,
    guidance,
    intersection,
    mask_truth,
    one_prompt,
    professions,
    thresholds,
    together,
    top_objects,
    where,
)
