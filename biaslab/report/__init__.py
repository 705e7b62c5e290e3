"""The pages: a run's ``index.html``, one per executed notebook, one over all runs, one on which people rate images.

They open from a file URL without network or server. All text from a run is hostile: it is escaped or reduced to an
allowlist, and a Content-Security-Policy stands behind both.
"""

from __future__ import annotations

from biaslab.report.all_runs import check_overview, overview
from biaslab.report.index import build
from biaslab.report.notebook import render_notebook

__all__ = ["build", "check_overview", "overview", "render_notebook"]
