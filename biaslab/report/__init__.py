"""HTML pages: a run's ``index.html``, one page per executed notebook, an overview of all runs, and annotation pages.

They open from a file URL without network or server. All text from a run is treated as hostile: it is escaped or reduced
to an allowlist, and a content security policy restricts the pages in addition.
"""

from __future__ import annotations

from biaslab.report.all_runs import check_overview, overview
from biaslab.report.index import build
from biaslab.report.notebook import render_notebook

__all__ = ["build", "check_overview", "overview", "render_notebook"]
