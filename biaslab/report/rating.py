"""The page on which people rate images: one file that works without a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from biaslab.keep.store import check_target
from biaslab.report.pages import asset, content_security_policy, environment, is_page, write_page


def check_rating_page(path: str | Path) -> None:
    """Check that the page can be written: a ParameterError where something else than such a page has its name."""
    check_target(Path(path), partial(is_page, title="Rate images"), "rating page", "--to")


def rating_page(
    path: str | Path, cells: Sequence[Sequence[str]], pictures: Sequence[str], *, seed: int
) -> Path:
    """Write the page and return its path.

    Images and what is known of them stand in one block of data, which is no script; shown are the images alone. What
    is downloaded has the columns of ``cells``, then ``rater`` and ``label``. A browser keeps answers under a name made
    of the page's content, so that pages of other images do not share them.

    Args:
        path: The file.
        cells: A header, then a row an image: what the file of ratings says of it.
        pictures: The images in the order of the rows, as ``data:`` URLs.
        seed: Seed of the raters' orders.

    Raises:
        OSError: The page cannot be written.
        ParameterError: As of :func:`check_rating_page`.
    """
    check_rating_page(path)
    header, *rows = cells
    data = {"seed": seed, "header": header, "rows": rows, "pictures": pictures}
    data["id"] = hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]
    style, script = asset("report.css") + asset("rate.css"), asset("rate.js")
    page = environment().get_template("rate.html.j2")
    shown = {
        "n": len(rows),
        "data": htmlsafe_json_dumps(data),
        "style": Markup(style),
        "script": Markup(script),
    }
    policy = content_security_policy(style=style, script=script)
    return write_page(Path(path), page.render(**shown, policy=policy))
