"""Reports of real runs in Chromium: legible text without overlaps, and limits of page length and size."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

SCREENS = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}
# CSS px.
LEAST, LONGEST = 11, {"wide": 7_000, "narrow": 12_000}
HEAVIEST = 6_000_000
# How wide each figure is shown.
FIGURES = """() => {
  document.querySelectorAll('details').forEach((part) => { part.open = true; });
  return [...document.querySelectorAll('figure .zoom')].map((zoom) => {
    const image = zoom.querySelector('img');
    return [zoom.getAttribute('href'), image.clientWidth];
  });
}"""
# The smallest text of the page itself.
WORDS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = [];
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !parent.checkVisibility() || parent.closest('svg')) continue;
    const size = parseFloat(getComputedStyle(parent).fontSize);
    if (size < %d) small.push([size, walker.currentNode.data.trim().slice(0, 60)]);
  }
  return small;
}"""
# Overlapping texts of a figure: of two upright ones, more than a seventh of the smaller one.
COVERED = """() => {
  const texts = [...document.querySelectorAll('text')].filter((one) => one.textContent.trim());
  const upright = texts.filter((one) => Math.abs(one.getCTM().b) < 0.01 || Math.abs(one.getCTM().a) < 0.01);
  const boxes = upright.map((one) => [one.textContent.trim(), one.getBoundingClientRect()]);
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [a, A] = boxes[i], [b, B] = boxes[j];
    const wide = Math.min(A.right, B.right) - Math.max(A.left, B.left);
    const high = Math.min(A.bottom, B.bottom) - Math.max(A.top, B.top);
    const least = Math.min(A.width * A.height, B.width * B.height);
    if (wide > 1 && high > 1 && wide * high > 0.15 * least) found.push([a, b]);
  }
  return found;
}"""


@pytest.fixture(scope="module", params=["published", "mini"])
def folder(request, root, report):
    report(request.param)
    return root / "outputs" / request.param


def smallest(svg: Path) -> tuple[float, float]:
    """The smallest words of a figure and its width, in points."""
    text = svg.read_text(encoding="utf-8")
    sizes = [float(size) for size in re.findall(r"font(?:-size)?:\s*(?:[a-z0-9]+ )*?([\d.]+)px", text)]
    return min(sizes, default=LEAST), float(re.search(r'width="([\d.]+)pt"', text)[1])


@pytest.mark.parametrize("screen", SCREENS)
def test_text_of_figures_and_pages_is_large_enough(screen, folder, visit):
    page = visit(folder / "index.html", viewport=SCREENS[screen])
    assert page.evaluate(WORDS % LEAST) == []
    figures_shown, small = page.evaluate(FIGURES), []
    assert len(figures_shown) > 15
    for href, width in figures_shown:
        least, wide = smallest(folder / href)
        size = least * width / wide
        if size < LEAST:
            small.append((href, round(size, 1)))
    assert small == []


@pytest.mark.long
def test_pages_stay_below_length_and_size_limits(folder, visit):
    for name in ("index.html", *sorted(folder.glob("notebooks/**/*.html"))):
        assert (folder / name).stat().st_size <= HEAVIEST, name
        page = visit(folder / name)
        for screen, size in SCREENS.items():
            page.set_viewport_size(size)
            page.wait_for_function("[...document.images].every((image) => image.complete)")
            longest = LONGEST[screen] if name == "index.html" else LONGEST["narrow"]
            assert page.evaluate("document.documentElement.scrollHeight") <= longest, (name, screen)
        page.context.close()


def test_figure_texts_do_not_overlap(folder, browser):
    page, overlaps = browser.new_page(), {}
    for svg in sorted(folder.glob("figures/*.svg")):
        page.set_content(svg.read_text(encoding="utf-8").partition("?>")[2])
        if covered := page.evaluate(COVERED):
            overlaps[svg.name] = covered[:3]
    page.close()
    assert overlaps == {}
