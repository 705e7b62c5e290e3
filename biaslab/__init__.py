"""biaslab: audit text-to-image models for social bias.

Importing the package loads nothing heavy; name the module you need, for example
``from biaslab import metrics`` or ``from biaslab.study import Study``.
"""

__version__ = "0.1.0"
