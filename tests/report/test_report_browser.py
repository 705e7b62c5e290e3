"""The pages in headless Chromium, opened from file URLs: no network, no injection, keyboard, phone, print."""

import itertools
import shutil

import pytest
from fake_run import LARGE_ROWS

pytestmark = pytest.mark.browser

NOTEBOOKS = ["notebooks/paradox/4_baseline.html", "notebooks/paradox/8_prompts.html"]


@pytest.fixture
def page(visit, run_dir):
    """The index page of the run."""
    return visit(run_dir / "index.html")


def _cells(page, table, column):
    return page.locator(f"#table-{table} .frame tbody tr td:nth-child({column})").all_text_contents()


def _open(page, table):
    table_locator = page.locator(f"#table-{table}")
    if not table_locator.is_visible():
        page.locator("details.tables", has=table_locator).locator("> summary").click()
    table_locator.locator("> summary").click()
    return table_locator


def test_pages_load_without_network_errors_or_injection(visit, run_dir):
    for path in ("index.html", *NOTEBOOKS):
        page = visit(run_dir / path)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        page.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        # The style sheet was admitted by its hash.
        assert page.evaluate("getComputedStyle(document.body).maxWidth") in ("1054px", "1326px")


@pytest.mark.long
def test_policy_blocks_injected_code(browser, run_dir):
    page = browser.new_page()
    page.goto((run_dir / "index.html").as_uri())
    blocked = []
    page.on("console", lambda message: blocked.append(message.text))
    page.evaluate("""() => {
        document.body.insertAdjacentHTML('beforeend', '<img src="https://example.org/x" onerror="window.hacked=1">');
        const script = document.createElement('script');
        script.textContent = 'window.hacked = 1';
        document.body.append(script);
    }""")
    while len([text for text in blocked if "Content Security Policy" in text]) < 2:
        page.wait_for_event("console")
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.long
@pytest.mark.parametrize("path", ["index.html", *NOTEBOOKS])
@pytest.mark.parametrize("script", [True, False])
def test_pages_do_not_scroll_horizontally(visit, run_dir, path, script):
    page = visit(run_dir / path, java_script_enabled=script)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


@pytest.mark.long
def test_sorting_by_mouse_is_numeric(page):
    table = _open(page, "paradox_percent_female")
    head = table.locator("th", has_text="female")
    assert head.get_attribute("aria-sort") == "none"
    initial_cells = _cells(page, "paradox_percent_female", 2)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    ascending = _cells(page, "paradox_percent_female", 2)
    # 100.0 comes last as a number, first as a text.
    assert ascending == [*("5.00", "14.5", "24.0", "33.5", "43.0", "52.5", "62.0", "71.5", "81.0", "90.5"), "100"]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert _cells(page, "paradox_percent_female", 2) == ascending[::-1]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert _cells(page, "paradox_percent_female", 2) == initial_cells


@pytest.mark.long
def test_sorting_by_keyboard_is_natural_with_gaps_last(page):
    table = _open(page, "paradox_percent_female")
    table.locator("th", has_text="occupation").get_by_role("button").focus()
    page.keyboard.press("Enter")
    names = _cells(page, "paradox_percent_female", 1)
    plain = [name for name in names if name in ("nurse", "Doctor", "doctor 10", "doctor 9", "ceo")]
    assert plain == ["ceo", "Doctor", "doctor 9", "doctor 10", "nurse"]
    gaps = _open(page, "paired_gaps")
    button = gaps.locator("th", has_text="score").get_by_role("button")
    button.focus()
    page.keyboard.press("Space")
    assert _cells(page, "paired_gaps", 2) == ["-10.5", "-3.25", "1.3e-05", "12.5", "–"]
    page.keyboard.press("Space")
    assert _cells(page, "paired_gaps", 2) == ["12.5", "1.3e-05", "-3.25", "-10.5", "–"]
    assert button.evaluate("(b) => b === document.activeElement")


@pytest.mark.long
def test_table_filter_and_paging(page):
    table = _open(page, "triplets_disparity")
    count = table.locator(".count")
    assert count.text_content() == "Rows 1–25 of 60"
    table.get_by_role("button", name="Next").click()
    table.get_by_role("button", name="Next").click()
    assert count.text_content() == "Rows 51–60 of 60"
    # The button that became disabled hands the focus on.
    assert page.evaluate("document.activeElement.textContent") == "Previous"
    box = table.get_by_role("searchbox", name="Filter the rows of Disparity")
    box.fill("88.5 PAIR")  # both words, in any cell, in either case: 59 × 1.5
    assert count.text_content() == "Rows 1–1 of 1 that match (60 in all)"
    assert _cells(page, "triplets_disparity", 1) == ["pair 59"]
    box.fill("no such pair")
    assert count.text_content() == "No row matches (60 in all)"
    box.fill("")
    table.get_by_role("button", name="Show all rows").click()
    assert count.text_content() == "60 rows"
    assert len(_cells(page, "triplets_disparity", 1)) == 60


@pytest.mark.long
def test_coverage_filter_limits_rows(page):
    page.locator("#coverage > summary").click()
    page.locator("#ledger > summary").click()
    rows = page.locator("#ledger tbody tr")
    assert rows.count() == 16
    page.get_by_role("button", name="open", exact=True).click()
    assert rows.count() == 4
    pressed = page.get_by_role("button", name="open", exact=True)
    assert pressed.get_attribute("aria-pressed") == "true"
    # Still under the pointer: white on black, not white on the pale colour of a hovered button.
    colours = pressed.evaluate("(b) => [getComputedStyle(b).color, getComputedStyle(b).backgroundColor]")
    assert colours == ["rgb(255, 255, 255)", "rgb(27, 33, 39)"]
    page.locator("#ledger").get_by_role("searchbox").fill("triplets")
    assert rows.count() == 2
    page.locator("#ledger").get_by_role("searchbox").fill("")
    page.get_by_role("button", name="all", exact=True).click()
    # A link opens the fold that it leads into.
    assert page.locator("#table-paradox_amplification").get_attribute("open") is None
    page.locator("#ledger tbody a", has_text="Expected amplification").first.click()
    page.wait_for_selector("#table-paradox_amplification[open]")
    assert page.url.endswith("#table-paradox_amplification")


@pytest.mark.long
@pytest.mark.parametrize("page_only", [False, True])
def test_download_equals_file_even_without_run_folder(visit, run_dir, tmp_path, page_only):
    index = run_dir / "index.html"
    if page_only:
        index = shutil.copy(index, tmp_path / "index.html")
    page = visit(index, accept_downloads=True)
    for name in ("paired_gaps", "dalleval_skills"):
        table = _open(page, name)
        with page.expect_download() as download:
            table.get_by_role("link", name="Download CSV").click()
        assert download.value.suggested_filename == f"{name}.csv"
        saved_path = tmp_path / f"{name}.csv"
        download.value.save_as(saved_path)
        assert saved_path.read_bytes() == (run_dir / f"tables/{name}.csv").read_bytes()
    assert saved_path.read_text(encoding="utf-8").count("\n") == LARGE_ROWS + 1


@pytest.mark.long
def test_table_download_as_latex_and_markdown(visit, run_dir, tmp_path):
    page = visit(run_dir / "index.html", accept_downloads=True)
    table = _open(page, "paired_gaps")
    table.get_by_role("searchbox").fill("e")  # nurse, ceo, poet; a gap's reason too
    table.locator("th", has_text="score").get_by_role("button").click()
    texts = {}
    for name, ending in (("LaTeX", "tex"), ("Markdown", "md")):
        with page.expect_download() as download:
            table.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == f"paired_gaps.{ending}"
        download.value.save_as(tmp_path / ending)
        texts[ending] = (tmp_path / ending).read_text(encoding="utf-8").splitlines()
    assert texts["tex"] == [
        r"\begin{tabular}{lrrl}", r"\toprule", r"occupation & score & n & reason \\", r"\midrule",
        r"ceo & -3.25 & 8 &  \\", r"poet & 1.3e-05 & 7 &  \\", r"nurse & 12.5 & 30 &  \\",
        r"=SUM(A1) & -- & 0 & no accepted image \\", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    assert texts["md"][:3] == [
        "| occupation | score | n | reason |",
        "| --- | ---: | ---: | --- |",
        "| ceo | -3.25 | 8 |  |",
    ]


@pytest.mark.long
def test_figure_dialog_returns_focus(page):
    figure = page.locator("a.zoom").first
    figure.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Enlarged figure")
    assert dialog.is_visible()
    assert dialog.get_by_role("img").get_attribute("alt") == "Points lie above the diagonal."
    assert dialog.get_by_role("link", name="Open file").get_attribute("href") == "figures/paradox_naive.svg"
    dialog.get_by_role("button", name="Actual size").click()
    width = dialog.get_by_role("img").evaluate("(image) => [image.clientWidth, image.naturalWidth]")
    assert width[0] == width[1] == 1120  # 7 inches at 160 dpi
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert figure.evaluate("(f) => f === document.activeElement")


@pytest.mark.long
def test_focus_order_follows_page_and_is_visible(page):
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    order, outlines = [], []
    for _ in range(100):
        page.keyboard.press("Tab")
        place, outline, inside = page.evaluate("""() => {
            const active = document.activeElement;
            const style = getComputedStyle(active);
            const outline = `${style.outlineStyle} ${style.outlineWidth}`;
            const box = active.getBoundingClientRect();
            return [[box.top + scrollY, box.left], outline, active.closest('main') !== null];
        }""")
        if inside:
            order.append(place)
            outlines.append(outline)
        elif order:
            break
    assert len(order) > 30
    # Down the page, and up only to a column further right; controls of one line may differ by a few pixels.
    back = [(a, b) for a, b in itertools.pairwise(order) if b[0] < a[0] - 30 and b[1] <= a[1]]
    assert back == []
    assert set(outlines) == {"solid 3px"}


@pytest.mark.long
def test_page_without_script_shows_everything(visit, run_dir):
    page = visit(run_dir / "index.html", java_script_enabled=False)
    table = _open(page, "triplets_disparity")
    assert len(_cells(page, "triplets_disparity", 1)) == 60
    assert table.get_by_role("link", name="Download CSV").get_attribute("href") == "tables/triplets_disparity.csv"
    assert not page.get_by_role("searchbox").first.is_visible()
    assert not page.get_by_role("button").first.is_visible()
    assert page.locator("figure img").first.is_visible()


@pytest.mark.long
def test_print_shows_content_without_controls(visit, run_dir):
    page = visit(run_dir / "index.html", color_scheme="dark")
    page.emulate_media(media="print")
    for hidden in (".tools label", ".tools .button", ".pager", "nav", ".choices"):
        assert not page.locator(hidden).first.is_visible()
    assert page.locator("h1").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
    heights = page.evaluate("[...document.querySelectorAll('.card img')].map((image) => image.clientHeight)")
    assert max(heights) <= 400  # 105 mm are 397 px
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.long
def test_section_page_links_back_to_index(page, run_dir):
    page.locator("#paper-paradox").get_by_text("Notebooks").click()
    page.locator("#paper-paradox .sections").get_by_role("link", name="Naive approach").first.click()
    assert page.title() == "The naive approach"
    page.locator("details.code summary").first.click()
    assert page.locator("details.code .highlight").first.is_visible()
    page.get_by_role("link", name="Back to the report").click()
    assert page.url == (run_dir / "index.html").as_uri()


_LOW_CONTRAST = """() => {
        const parse = (text) => text.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (element) => {
            for (let e = element; e; e = e.parentElement) {
                const colour = parse(getComputedStyle(e).backgroundColor);
                if (colour.length === 3 || colour[3] === 1) return colour;
            }
            return [255, 255, 255];
        };
        const found = [];
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const element = walk.currentNode.parentElement;
            if (!walk.currentNode.data.trim() || element.closest('script, :disabled, .vh, .same bdi')) continue;
            const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < 4.5) found.push(`${ratio} ${element.className}: ${walk.currentNode.data}`);
        }
        return found;
    }"""


@pytest.mark.long
@pytest.mark.parametrize("path", ["index.html", NOTEBOOKS[1]])
def test_text_contrast_meets_wcag(visit, run_dir, path):
    """All visible text reaches 4.5 to 1 against its background (WCAG 2.2, 1.4.3), disabled controls aside."""
    page = visit(run_dir / path)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(_LOW_CONTRAST) == [], scheme
