"""What the numbers say: pure functions, frames in, frames out, one a table and named as it is.

``scores`` and ``images`` (4.4, 4.5), ``labour`` (4.4.2), ``changes`` (4.6), ``mitigated`` (5), ``judges`` (B and D),
``people`` (C), ``controls`` (beyond the paper), ``examples`` (images that are shown); ``means`` and ``dependence`` hold
what they share.

Frames are rows of the tables that a docstring names, in their order; ``shares`` are rows of ``paired_percent_female``.
``confidence`` is the level of intervals, 0–1; ``seed`` and ``replicates`` are a bootstrap's.
"""
