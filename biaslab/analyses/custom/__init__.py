"""Custom prompts and images: perceived gender by group, compared with reference shares and other models.

Not from a paper: an audit of any model, or of existing images. Functions take tables and return tables.
"""

# ruff: noqa: F401
from biaslab.analyses.custom import figures
from biaslab.analyses.custom.analysis import (
    answer_shares,
    differences,
    distance,
    intersections,
    outcomes,
    shares,
    tones,
    wide_answers,
)
from biaslab.analyses.custom.comparison import comparison
from biaslab.analyses.custom.conditions import conditions
from biaslab.analyses.custom.estimands import headlines
from biaslab.analyses.custom.matching import unmatched
from biaslab.analyses.custom.measure import (
    benchmark,
    condition_people,
    example_images,
    people,
    person_answers,
    remarks,
    service_images,
)
from biaslab.analyses.custom.service import service_changes
from biaslab.analyses.custom.summaries import judged_shares, listed_answers, name_pairs
from biaslab.papers.answers import load_answers

answers = load_answers("custom")
