"""FairCritic: a critic looks at a batch of images, says whether it is biased, and its guideline changes the prompts.

Rounds are driven from outside: images → people judged → :func:`~.critique.briefs` → a critic (:mod:`~.counts` judges
from counts by a stated rule, :mod:`~.endpoint` asks a vision model as in the paper) → :func:`~.revision.revise` →
images again. The same brief has the same critique.

Source: paired paper, section 5 and Figure 10.
"""
