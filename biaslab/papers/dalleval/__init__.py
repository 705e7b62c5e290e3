"""DALL-Eval: visual reasoning skills and social biases (Cho, Zala & Bansal 2023, https://arxiv.org/abs/2202.04053).

Functions here take tables and return tables. :mod:`printed` has the measurements that the paper prints,
:mod:`figures` draws results, and :mod:`findings` says what they show.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from biaslab.papers.dalleval import figures, findings, measure, printed
from biaslab.papers.dalleval.analysis.attributes import (
    attribute_corrected,
    attribute_difference,
    attribute_mean_difference,
    attribute_presence,
    attribute_prompt_difference,
)
from biaslab.papers.dalleval.analysis.bias import (
    average_gender,
    average_skin_tone,
    gender_balance,
    mad,
    mad_floor,
    model_correlation,
    model_difference,
    overall_average,
    skin_tone_check,
    skin_tone_methods,
    skin_tone_reach,
    two_tone_reading,
)
from biaslab.papers.dalleval.analysis.detector import (
    count_confusion,
    count_corrected,
    detector_error,
    detector_thresholds,
    ranking_kept,
    rater_agreement,
    skill_corrected,
    skill_rules,
    skill_steps,
)
from biaslab.papers.dalleval.analysis.people import (
    skin_tone_outcomes,
    skin_tone_truth,
    social_judges,
    social_outcomes,
    tones_by_attribute,
)
from biaslab.papers.dalleval.analysis.skills import (
    alignment_quality,
    metric_agreement,
    skill_accuracy,
    skill_agreement,
    skill_training,
)
