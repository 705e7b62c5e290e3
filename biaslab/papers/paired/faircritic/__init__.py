"""FairCritic (paired paper, section 5): a critic examines a batch of images, and its guideline changes the prompts.

The caller runs the rounds: images → people judged → :func:`~.critique.briefs` → a critic (:mod:`~.counts` or
:mod:`~.endpoint`) → :func:`~.revision.revise` → images again.
"""
