"""The tables that models are compared on, without rows."""

from biaslab.schema import tables

_OF_MODELS = {
    "scores": "paired_stereotype_score",
    "averages": "dalleval_overall_average",
    "mads": "dalleval_mad",
    "accuracy": "dalleval_skill_accuracy",
    "references": "dalleval_references",
    "by_prompt": "dalleval_attribute_prompt_difference",
    "gaps": "triplets_disparity_gap",
    "amplification": "paradox_amplification",
}
_OF_UNITS = {
    "shares": "paired_percent_female",
    "genders": "dalleval_average_gender",
    "tone_counts": "dalleval_skin_tone_counts",
    "verdicts": "dalleval_skill_verdicts",
    "by_prompt": "dalleval_attribute_prompt_difference",
    "similarity": "triplets_similarity",
    "occupations": "paradox_occupation_amplification",
}


def of_models(**given):
    """Return what ``synthesis.models`` takes: the tables given, and the others without rows."""
    return {k: tables.make_table([], name) for k, name in _OF_MODELS.items()} | given


def of_units(**given):
    """Return the same of ``synthesis.units``."""
    return {k: tables.make_table([], name) for k, name in _OF_UNITS.items()} | given
