"""The inputs and outputs of a notebook: :class:`Study` loads its tables and saves its results."""

from biaslab.study.study import Study as Study
