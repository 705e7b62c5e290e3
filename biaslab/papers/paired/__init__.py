"""The Paired Stereotype Test: people of opposite stereotypes, alone and in pairs in one image.

One module for each step: ``prompts``, ``stages`` (images and judgements), ``faircritic``, ``measure`` and ``analysis``.
``measure.prompts`` returns the texts of ``prompts`` as a measured table.
"""

# ruff: noqa: F401 (imports are the package's public interface)

from biaslab.papers.answers import load_answers
from biaslab.papers.paired import figures, measure, printed, prompts
from biaslab.papers.paired.analysis.changes import adherence, changed_cases, identity_change, score_change
from biaslab.papers.paired.analysis.controls import control_score
from biaslab.papers.paired.analysis.examples import (
    choose_failures,
    choose_pairs,
    choose_single_and_paired,
    choose_three,
    critique_examples,
)
from biaslab.papers.paired.analysis.mitigated import mitigation, mitigation_change
from biaslab.papers.paired.analysis.people import outcomes, questions, valid_images
from biaslab.papers.paired.analysis.scores import (
    biased_images,
    labour_comparison,
    labour_correlation,
    occupation_score,
    percent_female_mean,
    power_score,
    role_coupling,
    stereotype_score,
)
from biaslab.papers.paired.estimands import ESTIMANDS, headlines
from biaslab.papers.paired.measure import (
    confusion,
    critiques,
    judge_agreement,
    pair_images,
    people,
    people_with_faces,
    percent_female,
    read_images,
    run_score,
)

answers = load_answers("paired")
