"""FairCritic: a critic looks at a batch of images, says whether it is biased, and its guideline changes the prompts.

Rounds are driven from outside: images → people judged → :func:`briefs` → a critic → :func:`revise` → images again.

- :mod:`~biaslab.mitigation.critique`: what a critic is given and what it answers, as objects and as a table.
- :mod:`~biaslab.mitigation.counts`: the embedded critic, which judges from counts by a stated rule.
- :mod:`~biaslab.mitigation.endpoint`: a vision model behind an endpoint, as in the paper.
- :mod:`~biaslab.mitigation.revision`: guidelines put into prompts.

A critic has ``critique(brief) -> Critique``, and ``critiques(briefs) -> list[Critique]`` in their order. It changes
nothing that it is given, and the same brief has the same critique.

Source: paired paper, section 5 and Figure 10.
"""

from __future__ import annotations

from biaslab.mitigation.counts import CountsCritic
from biaslab.mitigation.critique import (
    Brief,
    Counts,
    Critique,
    Finding,
    Guideline,
    briefs,
    critiques_table,
)
from biaslab.mitigation.endpoint import EndpointCritic
from biaslab.mitigation.revision import revise

__all__ = [
    "Brief",
    "Counts",
    "CountsCritic",
    "Critique",
    "EndpointCritic",
    "Finding",
    "Guideline",
    "briefs",
    "critiques_table",
    "revise",
]
