"""Tables computed from measurements: frames in, a frame out, one function a table."""

from biaslab.papers.paradox.analysis.amplification import amplification
from biaslab.papers.paradox.analysis.groups import wilson_percent

__all__ = ["amplification", "wilson_percent"]
