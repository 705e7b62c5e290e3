"""Shared functions of figures."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox
from PIL import Image

from biaslab.plots import style
from biaslab.study import Study, study

pytestmark = pytest.mark.usefixtures("plain_look")


def axes_to_100():
    _, ax = plt.subplots(figsize=(5, 5))
    ax.set(xlim=(0, 100), ylim=(0, 100))
    return ax


def test_label_points_avoid_labels_and_points():
    axes = axes_to_100()
    rng = np.random.default_rng(0)
    x, y = rng.uniform(5, 95, (2, 60))
    axes.plot(x, y, "o", markersize=4)
    placed = style.label_points(axes, x[:25], y[:25], [f"occupation {i}" for i in range(25)], avoid=(x, y))
    assert len(placed) > 15
    boxes = [text.get_window_extent() for text in placed]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    points = axes.transData.transform(np.column_stack([x, y]))
    assert not any(box.contains(*point) for box in boxes for point in points)
    frame = axes.get_window_extent()
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 and frame.y0 <= b.y0 and b.y1 <= frame.y1 for b in boxes)


@pytest.mark.long
def test_label_points_omits_labels_without_room():
    axes = axes_to_100()
    assert style.label_points(axes, [], [], []) == []
    # Two hundred texts on one spot: most find no room, the most important one does.
    placed = style.label_points(axes, [50] * 200, [50] * 200, [f"a long name {i}" for i in range(200)])
    assert placed[0].get_text() == "a long name 0" and 1 < len(placed) < 100
    assert len(axes.texts) == len(placed)


@pytest.mark.usefixtures("any_text")
def test_show_lays_out_once_and_crops_nothing(tmp_path, monkeypatch):
    style.use()
    figure, ax = plt.subplots(figsize=(9, 3))
    ax.plot([0, 1], [0, 1])
    ax.text(1.1, 0.5, "outside of the axes", transform=ax.transAxes)
    # So long that glyphs of whole pixels at another resolution would add up to more than the margin.
    ax.set_yticks([0.5], ["at least one of them " * 3])
    # By whichever engine: between savings matplotlib may give the figure another one.
    laid_out, drawn_figures = [], []
    execute, draw = ConstrainedLayoutEngine.execute, mpl.figure.Figure.draw
    monkeypatch.setattr(
        ConstrainedLayoutEngine, "execute", lambda self, fig: (laid_out.append(fig), execute(self, fig))
    )
    monkeypatch.setattr(
        mpl.figure.Figure, "draw", lambda self, renderer: (drawn_figures.append(self), draw(self, renderer))
    )
    Study(tmp_path).show("paired_shape", figure)
    assert len(laid_out) == 1
    # As PNG and as SVG; to lay it out nothing is drawn.
    assert len(drawn_figures) == 2
    assert not plt.fignum_exists(figure.number)
    page = np.asarray(Image.open(tmp_path / "figures" / "paired_shape.png").convert("L"))
    # 0.1 inches of white all round, at 170 dots an inch, and something right behind it.
    edge = int(0.1 * 170) - 2
    assert (page[:edge] == 255).all() and (page[-edge:] == 255).all()
    assert (page[:, :edge] == 255).all() and (page[:, -edge:] == 255).all()
    assert (page[:, -edge - 6 : -edge] < 255).any()
    svg = (tmp_path / "figures" / "paired_shape.svg").read_text()
    width = float(svg.split('width="')[1].split("pt")[0])
    assert width / 72 == pytest.approx(page.shape[1] / 170, abs=0.02)


def test_save_png_keeps_vertical_lines(tmp_path):
    # Widths of a whole number of pixels, and slightly more or less: rounding must not shear the image.
    for hair in (-1e-12, 0, 1e-12):
        figure = plt.figure(figsize=(5, 2))
        figure.add_artist(plt.Line2D([0.2, 0.2], [0, 1], color="black", linewidth=3))
        study._save_png(figure, tmp_path / "page.png", Bbox([[0, 0], [407 / 170 + hair, 2]]))
        plt.close(figure)
        page = np.asarray(Image.open(tmp_path / "page.png").convert("L"))
        assert (page[20:-20] == page[20]).all() and page[20].min() < 64, hair
