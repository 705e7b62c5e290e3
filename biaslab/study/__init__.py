"""What a notebook holds: where its inputs come from, and where its results go."""

from biaslab.study.study import Study as Study
