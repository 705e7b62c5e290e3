"""Analyses of the measured tables: pure functions, one per table and named after it.

Arguments are rows of the tables that a docstring names, in order: ``shares`` of ``paired_percent_female``, ``pairs``
of ``paired_pair_images``, ``people`` of ``paired_people``, ``printed`` of ``paired_printed_value``; all but ``shares``
may be empty. A function returns the table ``paired_<its name>``: scores in points, -100 to 100, their changes -200 to
200, shares in %, 0–100. InputError: shares cannot come from their n, or images of pairs and shares disagree.
``confidence`` is the level of intervals, 0–1; ``seed`` and ``replicates`` are a bootstrap's. Intervals of shares of
images, people and cases are Wilson's unless a docstring names another method.
"""
