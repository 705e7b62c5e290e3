"""The bias amplification paradox: does a model show stronger gender–occupation bias than its training images?

Seshadri, Singh and Elazar (2023).
"""

# ruff: noqa: F401
from biaslab.papers.answers import load_answers
from biaslab.papers.paradox import example_images, figures, printed
from biaslab.papers.paradox.analysis.amplification import (
    amplification,
    approach_change,
    baseline,
    mean_over_prompts,
    occupation_amplification,
    overall,
    prompt_variation,
    share_intervals,
    t_tests,
)
from biaslab.papers.paradox.analysis.captions import (
    gender_word_accuracy,
    image_survival,
    inclusion_rates,
    indicator_correlation,
    indicator_use,
    marked_examples,
    outcomes,
    similarity_mean,
    simulated_models,
)
from biaslab.papers.paradox.estimands import ESTIMANDS, headlines
from biaslab.papers.paradox.measure import (
    caption_counts,
    caption_pairs,
    download_outcomes,
    examples,
    gender_words,
    indicators,
    judgement_outcomes,
    paraphrases,
    percent_female,
    prompts,
    rated_images,
    selection_examples,
    settings,
    similarity,
)

answers = load_answers("paradox")
