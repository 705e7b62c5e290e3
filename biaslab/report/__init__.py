"""The pages: a run's ``index.html``, one per executed notebook, one over all runs, one on which people rate images.

All open from a file URL without a network and without a server. Everything that reaches them from a run
(names, captions, occupations, table cells, notebook outputs) is treated as hostile: text is escaped, notebook
HTML is reduced to an allowlist, and a Content-Security-Policy that admits only this package's own style and
script stands behind both.
"""

from __future__ import annotations

from biaslab.report.all_runs import check_overview, overview
from biaslab.report.index import build
from biaslab.report.notebook import render_notebook, warm_up

__all__ = ["build", "check_overview", "overview", "render_notebook", "warm_up"]
