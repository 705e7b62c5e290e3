"""The inputs and outputs of a notebook: :class:`Study` loads tables and saves results."""

from biaslab.study.study import Study as Study
