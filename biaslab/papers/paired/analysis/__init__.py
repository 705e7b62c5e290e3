"""What the numbers say: pure functions, frames in, frames out, one a table and named as it is.

``scores`` and ``images`` (4.4, 4.5), ``labour`` (4.4.2), ``changes`` (4.6), ``mitigation`` (5), ``judges`` (B and D),
``people`` (C), ``controls`` (beyond the paper); ``means`` and ``dependence`` hold what they share.
"""

from biaslab.papers.paired.analysis.changes import adherence, changed_cases, identity_change, score_change
from biaslab.papers.paired.analysis.controls import control_score, labour_gap, position_effect, skin_tone
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

__all__ = [
    "absolute_score",
    "adherence",
    "biased_images",
    "changed_cases",
    "control_score",
    "identity_change",
    "identity_mitigation",
    "judge_attenuation",
    "labour_amplification",
    "labour_comparison",
    "labour_correlation",
    "labour_gap",
    "labour_share",
    "lean",
    "mitigation",
    "mitigation_change",
    "occupation_score",
    "outcomes",
    "position_effect",
    "power_score",
    "questions",
    "role_coupling",
    "score_by_order",
    "score_change",
    "side_by_side",
    "skin_tone",
    "stereotype_score",
    "told",
    "truth",
    "valid_images",
]
