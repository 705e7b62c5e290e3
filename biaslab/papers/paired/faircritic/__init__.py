"""FairCritic (paired paper, section 5): a critic looks at a batch of images, and its guideline changes the prompts.

Rounds are driven from outside: images → people judged → :func:`~.critique.briefs` → a critic (:mod:`~.counts` or
:mod:`~.endpoint`) → :func:`~.revision.revise` → images again.
"""
