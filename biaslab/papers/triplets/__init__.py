"""Gender triplets, "Revealing Gender Bias from Prompt to Image in Stable Diffusion": from the prompt to the image.

Functions of this package compute tables from tables. ``printed`` has the paper's own numbers, ``figures`` plots
tables, ``answers`` has the answers in reports, and ``cases`` computes measured tables from results of single images.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from biaslab.papers.answers import load_answers
from biaslab.papers.triplets import cases, figures, measure, printed
from biaslab.papers.triplets.analysis import (
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
    extremes,
    gap_by_step,
    gap_summary,
    group_objects,
    group_share,
    intersection,
    null_similarity,
    professions,
    select_pooled,
    top_objects,
)
from biaslab.papers.triplets.estimands import ESTIMANDS, pooled_gaps

answers = load_answers("triplets")
