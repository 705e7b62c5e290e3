"""DALL-Eval: visual reasoning skills and social biases (Cho, Zala & Bansal 2023, https://arxiv.org/abs/2202.04053).

Functions here take tables and return tables. :mod:`printed` has the paper's printed measurements, :mod:`figures` plots
results, and ``answers.yaml`` has the answers in reports.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from biaslab.papers.answers import load_answers
from biaslab.papers.dalleval import figures, measure, printed
from biaslab.papers.dalleval.analysis.attributes import (
    attribute_difference,
    attribute_estimates,
    attribute_mean_difference,
    attribute_presence,
    attribute_prompt_difference,
)
from biaslab.papers.dalleval.analysis.bias import (
    average_gender,
    average_skin_tone,
    mad,
    overall_average,
    skin_tone_check,
)
from biaslab.papers.dalleval.analysis.people import (
    skin_tone_outcomes,
    tones_by_attribute,
)
from biaslab.papers.dalleval.analysis.skills import (
    alignment_quality,
    annotator_agreement,
    skill_accuracy,
    skill_agreement,
    skill_estimates,
    skill_steps,
)
from biaslab.papers.dalleval.estimands import ESTIMANDS, attribute_headlines, headlines

answers = load_answers("dalleval")
