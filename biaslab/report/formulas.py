"""TeX formulas as small SVG images, so that a page needs no MathJax and no network."""

from __future__ import annotations

import base64
import logging
from functools import lru_cache
from html import escape

_CODES = {1: "M", 2: "L", 3: "Q", 4: "C"}  # matplotlib.path.Path codes; 79 closes
_AXIS = 0.25  # height of the mathematical axis above the baseline, in em


@lru_cache(maxsize=512)
def formula_html(tex: str, size: float = 17.0, display: bool = False) -> str:
    r"""Return ``tex`` (without dollar signs) as an ``<img>`` of ``size`` px type.

    matplotlib's mathtext renders it; unsupported TeX is shown as source in ``<code>``.
    """
    try:
        svg, width, height = _svg(tex.replace(r"\frac", r"\dfrac") if display else tex, size)
    except (ValueError, RuntimeError):
        return f'<code class="tex">{escape(tex)}</code>'
    data = base64.b64encode(svg.encode()).decode()
    kind = "math display" if display else "math"
    return (
        f'<img class="{kind}" alt="{escape(" ".join(tex.split()))}" width="{width:.1f}" height="{height:.1f}" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def _svg(tex: str, size: float) -> tuple[str, float, float]:
    """Return the SVG of ``tex``, its width and height in px, vertically symmetric about the mathematical axis."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    # matplotlib logs glyphs that no font has; the page shows a box for them, so the log is redundant.
    logger = logging.getLogger("matplotlib.mathtext")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        path = TextPath((0, 0), f"${' '.join(tex.split())}$", size=size, prop=FontProperties(math_fontfamily="stix"))
    finally:
        logger.setLevel(level)
    if not len(path.vertices):
        raise ValueError("An empty formula.")
    box = path.get_extents()
    middle = _AXIS * size
    half = max(box.y1 - middle, middle - box.y0) + 1
    left, width, height = box.x0 - 1, box.x1 - box.x0 + 2, 2 * half
    steps = []
    for points, code in path.iter_segments(simplify=False, curves=True):
        if code in _CODES:
            pairs = (f"{x - left:.2f} {middle + half - y:.2f}" for x, y in points.reshape(-1, 2))
            steps.append(_CODES[code] + " ".join(pairs))
        else:
            steps.append("Z")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.2f}" height="{height:.2f}" '
        f'viewBox="0 0 {width:.2f} {height:.2f}"><path d="{"".join(steps)}" fill="#1b2127"/></svg>'
    )
    return svg, width, height
