"""Pictures and prompts of one's own: perceived gender by group, beside shares of one's choice and other models.

No paper's: what an auditor asks of any model, or of pictures that are there. Functions take tables and return tables.
"""

# ruff: noqa: F401
from biaslab.papers.answers import read
from biaslab.papers.custom import figures
from biaslab.papers.custom.analysis import (
    agreement,
    answered,
    answers_of,
    corrected,
    differences,
    distance,
    intersections,
    outcomes,
    shares,
    tones,
)
from biaslab.papers.custom.headlines import headlines
from biaslab.papers.custom.measure import benchmark, judges, own_answers, people, pictures, remarks, unmatched

answers = read("custom")
