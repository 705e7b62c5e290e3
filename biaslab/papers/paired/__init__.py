"""The Paired Stereotype Test: people of opposite stereotype in one image, alone and in pairs.

Measured: :mod:`.measure` (from images made and judged here) and :mod:`.printed` (what the paper prints).
Analysed: :mod:`.analysis`, frames in, frames out. Shown: :mod:`.figures` and :mod:`.findings`. Asked:
:mod:`biaslab.prompts.paired`, here as ``prompts``; the texts as a measured table are ``measure.prompts``.
"""

from biaslab.papers.paired import figures, findings, measure, printed
from biaslab.papers.paired.analysis.changes import adherence, changed_cases, identity_change, score_change
from biaslab.papers.paired.analysis.controls import control_score, labour_gap, position_effect, skin_tone
from biaslab.papers.paired.analysis.examples import (
    critique_examples,
    failures_shown,
    out_of_order_shown,
    pairs_shown,
    single_and_paired_shown,
    three_shown,
)
from biaslab.papers.paired.analysis.images import biased_images
from biaslab.papers.paired.analysis.judges import judge_attenuation, questions, truth
from biaslab.papers.paired.analysis.labour import (
    labour_amplification,
    labour_comparison,
    labour_correlation,
    labour_share,
)
from biaslab.papers.paired.analysis.mitigated import identity_mitigation, mitigation, mitigation_change, told
from biaslab.papers.paired.analysis.people import outcomes, score_by_order, valid_images
from biaslab.papers.paired.analysis.scores import (
    absolute_score,
    lean,
    occupation_score,
    power_score,
    role_coupling,
    side_by_side,
    stereotype_score,
)
from biaslab.papers.paired.measure import (
    critiques,
    images,
    judge_agreement,
    pair_images,
    people,
    percent_female,
    pictures,
    renders,
    run_score,
    seen,
)
from biaslab.prompts import paired as prompts

__all__ = [
    "absolute_score",
    "adherence",
    "biased_images",
    "changed_cases",
    "control_score",
    "critique_examples",
    "critiques",
    "failures_shown",
    "figures",
    "findings",
    "identity_change",
    "identity_mitigation",
    "images",
    "judge_agreement",
    "judge_attenuation",
    "labour_amplification",
    "labour_comparison",
    "labour_correlation",
    "labour_gap",
    "labour_share",
    "lean",
    "measure",
    "mitigation",
    "mitigation_change",
    "occupation_score",
    "out_of_order_shown",
    "outcomes",
    "pair_images",
    "pairs_shown",
    "people",
    "percent_female",
    "pictures",
    "position_effect",
    "power_score",
    "printed",
    "prompts",
    "questions",
    "renders",
    "role_coupling",
    "run_score",
    "score_by_order",
    "score_change",
    "seen",
    "side_by_side",
    "single_and_paired_shown",
    "skin_tone",
    "stereotype_score",
    "three_shown",
    "told",
    "truth",
    "valid_images",
]
