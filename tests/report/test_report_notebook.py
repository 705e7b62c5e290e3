"""A notebook page as text: a readable report, without active or external content."""

import base64
import json
import re
from xml.etree import ElementTree

import nbformat
import pytest
from bs4 import BeautifulSoup
from fake_run import IMAGE, SCRIPT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from biaslab.errors import InputError
from biaslab.report import render_notebook
from biaslab.report.formulas import formula_html
from biaslab.report.notebook import sanitise

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


def _page(folder, cells, **options):
    path = folder / "n.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    html = render_notebook(path, folder / "out" / "n.html", **options).read_text(encoding="utf-8")
    return BeautifulSoup(html, "html.parser")


def _display(data, metadata=None):
    return new_code_cell("show()", outputs=[new_output("display_data", data, metadata=metadata or {})])


@pytest.fixture(scope="module")
def good(run_dir):
    return BeautifulSoup((run_dir / "notebooks/paradox/4_baseline.html").read_text("utf-8"), "html.parser")


@pytest.fixture(scope="module")
def failed(run_dir):
    return BeautifulSoup((run_dir / "notebooks/paradox/8_prompts.html").read_text("utf-8"), "html.parser")


def _assert_harmless(page):
    assert not page(["script", "iframe", "object", "embed", "form", "svg", "base", "meta"], src=True)
    assert not page(["script", "iframe", "object", "embed", "form", "svg", "base"])
    assert len(page("style")) == 1
    for tag in page(True):
        assert not [name for name in tag.attrs if name.startswith("on") or name in {"style", "srcset"}]
    assert all(re.match(r"data:image/[a-z+]+;base64,", image["src"]) for image in page("img"))
    for link in page("a", href=True):
        assert re.match(r"#|https?:|mailto:|[\w./-]+$", link["href"]), link["href"]


@pytest.mark.long
def test_notebook_page_has_no_active_content(good, failed):
    _assert_harmless(good)
    _assert_harmless(failed)
    policy = good.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "script-src 'none'" in policy


def test_notebook_code_is_folded_and_highlighted(good):
    folds = good("details", class_="code")
    assert folds[1].summary.get_text(" ", strip=True) == "Code 7 lines"
    assert not folds[1].has_attr("open")
    assert folds[1].find("span", class_="kn").get_text() == "import"


def test_parameters_table_shows_values_used(good):
    rows = [[cell.get_text() for cell in row(["th", "td"])] for row in good.find(class_="parameters")("tr")]
    # papermill injected the model; the other values and all meanings come from the defaults' cell.
    assert rows == [
        ["Name", "Value", "Meaning"],
        ["model", "'SD 1.5'", "which model"],
        ["seed", "1", "seed of every resampling"],
        ["alphas", "[0.05, 0.01]", ""],
    ]
    assert len(good(class_="parameters")) == 1
    assert "Parameters" not in [code.get_text().strip() for code in good("code")]


def test_parameters_table_handles_non_literals(tmp_path):
    cell = new_code_cell(
        "a: int = 1  # one\nb = c = 2\nx.y = 3\nimport os\nd = 60 * 2", metadata={"tags": ["parameters"]}
    )
    page = _page(tmp_path, [cell])
    assert [row.get_text("|") for row in page.find(class_="parameters").tbody("tr")] == ["a|1|one", "b|2", "d|60 * 2"]
    broken = new_code_cell("a = = 1", metadata={"tags": ["parameters"]})
    page = _page(tmp_path, [broken])
    assert page.find(class_="parameters") is None
    assert "a = = 1" in page.get_text()


def test_notebook_tables_are_laid_out(good):
    table = good.find(class_="result").table
    assert table["class"] == ["data"]
    assert table.parent["class"] == ["scroll"]
    assert table.parent["tabindex"] == "0"
    assert [head.get_text() for head in table.thead("th", class_="n")] == ["amplification"]
    assert [cell.get_text() for cell in table("td", class_="n")] == ["10.25", "-3.50"]


def test_notebook_images_keep_alt_text_and_pixel_width(good, tmp_path):
    assert good.find("figure").img["alt"] == "A rising line"
    widths = (640, 0, -5, "640", "100%", True, 10**9, "1 onload=x")
    cells = [_display({"image/png": PIXEL}, {"image/png": {"width": width}}) for width in widths]
    cells[0].outputs[0].metadata["image/png"]["alt"] = "under its type"
    cells[1].metadata["alt"] = f"of the cell {IMAGE}"
    page = _page(tmp_path, cells)
    alts = ["under its type", f"of the cell {IMAGE}", *["Figure, described in the text around it."] * 6]
    assert [image["alt"] for image in page("img")] == alts
    assert [image.get("width") for image in page("img")] == ["640", *[None] * 7]
    _assert_harmless(page)


def test_notebook_renders_every_output_type(good):
    formulas = [image["alt"] for image in good("img", class_="math")]
    assert formulas == [r"|\hat{p}-50|", r"\frac{1}{n}\sum_{i} (G_i - T_i)"]
    prose, text = good.main.find(class_="prose"), good.get_text()
    assert [link.get("href") for link in prose("a")] == [None, "https://example.org/"]
    assert "[image not embedded: remote]" in prose.get_text() and "$" not in prose.get_text()
    assert good.find("b").get_text() == "kept"
    assert f"{SCRIPT}{IMAGE}" in good("pre", class_="out")[-1].get_text()  # printed text is text
    assert "Javascript object" not in text


def test_markdown_embeds_only_local_images(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "p.png").write_bytes(b"inside")
    (tmp_path / "q.png").write_bytes(b"outside")
    page = _page(
        folder, [new_markdown_cell('![in](p.png) ![out](../q.png) <img src="p.png" alt="tag"> a <b>bold</b> word')]
    )
    assert [(image["alt"], image["src"]) for image in page("img")] == [
        ("in", "data:image/png;base64," + base64.b64encode(b"inside").decode()),
        ("tag", "data:image/png;base64," + base64.b64encode(b"inside").decode()),
    ]
    assert page.find("b").get_text() == "bold"


def test_failed_notebook_shows_banner_and_error(failed):
    banners = failed(class_="banner")
    assert "In [5]" in banners[0].get_text()
    assert banners[0].a["href"] == "#papermill-error-cell"
    assert failed.find(id="papermill-error-cell") is not None
    assert failed.main.find(True) == banners[0] or failed.main.find("div") == banners[0]
    failure = failed.find(class_="failure")
    assert failure.p.get_text(strip=True) == f"ValueError:no table {SCRIPT}"
    assert "Traceback" in failure.details.summary.get_text()
    assert failed("summary")[-1].get_text(" ", strip=True) == "Code 12 lines, not run"


def test_notebook_page_has_back_link_title_and_heading(tmp_path, good):
    assert good.find("a", class_="back")["href"] == "../../index.html"
    assert good.title.get_text() == "The naive approach"
    assert [h1.get_text() for h1 in good("h1")] == ["The naive approach"]
    page = _page(tmp_path, [new_markdown_cell("text")], title=SCRIPT, index_href="javascript:alert(1)")
    assert page.title.get_text() == SCRIPT
    assert page.h1.get_text() == SCRIPT
    assert not page("a", class_="back")
    assert _page(tmp_path, []).title.get_text() == "n"


def test_notebook_omits_widgets_javascript_and_raw_cells(tmp_path):
    cells = [
        _display({"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "HBox(children=())"}),
        _display({"application/javascript": "window.hacked=1", "text/plain": "<Javascript>"}),
        nbformat.v4.new_raw_cell("<script>window.hacked=1</script>"),
        _display({"image/svg+xml": "<svg onload='window.hacked=1'></svg>"}),
        _display({"text/latex": "$a+b$"}),
    ]
    page = _page(tmp_path, cells)
    assert "HBox" not in page.get_text()
    assert "hacked" not in page.main.get_text()
    assert [image["src"][:26] for image in page("img")] == ["data:image/svg+xml;base64,"] * 2
    _assert_harmless(page)


def test_stderr_is_folded_without_colour_codes(tmp_path):
    cell = new_code_cell("x", outputs=[new_output("stream", name="stderr", text="\x1b[31mred\x1b[0m <b>\r\n")])
    page = _page(tmp_path, [cell])
    fold = page("details")[-1]
    assert fold.summary.get_text() == "Messages"
    assert fold.pre.get_text().strip() == "red <b>"
    assert "\x1b" not in str(page)


def test_notebook_with_missing_attachment_renders(tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "markdown", "metadata": {},'
        ' "source": ["# A ", "title\\n", "![lost](attachment:lost.png)"]}]}',
        encoding="utf-8",
    )
    html = render_notebook(path, tmp_path / "n.html").read_text(encoding="utf-8")
    assert "<h1>A title</h1>" in html
    assert "[image not embedded: lost]" in html


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"nbformat": 4}', "\x00"])
def test_render_notebook_invalid_file_raises(tmp_path, content):
    path = tmp_path / "n.ipynb"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"n\.ipynb cannot be read as a notebook: .*Specify an executed \.ipynb file\."
    ):
        render_notebook(path, tmp_path / "n.html")
    with pytest.raises(InputError, match="cannot be read as a notebook"):
        render_notebook(tmp_path / "missing.ipynb", tmp_path / "n.html")


KEPT = '<p class="a" id="b">x <a href="https://example.org/">l</a></p><details><summary>s</summary>t</details>'


# The sanitiser. Each input but the last two would run a script, load something or restyle the page.
@pytest.mark.parametrize(
    ("hostile", "clean"),
    [
        ("<script>alert(1)</script>a", "a"),
        ("<scr<script>ipt>alert(1)</script>", None),
        ("<b onclick=alert(1)>a</b>", "<b>a</b>"),
        ('<a href="javascript:alert(1)">a</a>', "<a>a</a>"),
        ('<a href=" java\tscript:alert(1)">a</a>', None),
        ('<a href="data:text/html,<script>alert(1)</script>">a</a>', "<a>a</a>"),
        ("<style>*{display:none}</style>a", "a"),
        ('<p style="background:url(//example.org)">a</p>', "<p>a</p>"),
        ("<svg><script>alert(1)</script></svg>", ""),
        ("<math><mtext><img src=x onerror=alert(1)></mtext></math>", ""),
        ("<form action=//example.org><input name=a></form>", ""),
        ("<iframe srcdoc='<script>alert(1)</script>'></iframe>", ""),
        ("<meta http-equiv=refresh content='0;url=//example.org'>", ""),
        ("<base href=//example.org>", ""),
        ("<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>", None),
        ("<img src=https://example.org/a.png alt=a>", "[image not embedded: a]"),
        ("<img src='data:text/html;base64,AAAA' alt=a>", "[image not embedded: a]"),
        ("<div role=alert tabindex=5>a</div>", "<div>a</div>"),
        ("<!-- c -->a", "a"),
        ("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2"),
        # Elements of reports remain.
        (KEPT, KEPT),
    ],
)
def test_sanitise_removes_active_content(hostile, clean):
    result = sanitise(hostile)
    if clean is not None:
        assert result == clean
    page = BeautifulSoup(result, "html.parser")
    assert not page(["script", "style", "iframe", "svg", "form", "meta", "base", "noscript", "img"])
    assert not [n for tag in page(True) for n in tag.attrs if n.startswith("on") or n == "style"]
    assert not [a for a in page("a", href=True) if "script" in a["href"]]


# Formulas


def test_formula_html_is_svg_of_stated_size():
    image = BeautifulSoup(formula_html(r"\frac{1}{n}"), "html.parser").img
    svg = ElementTree.fromstring(base64.b64decode(image["src"].partition(",")[2]))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(svg.get("width")) == pytest.approx(float(image["width"]), abs=0.06)
    assert float(svg.get("height")) == pytest.approx(float(image["height"]), abs=0.06)
    assert [child.tag.rpartition("}")[2] for child in svg] == ["path"]
    # A fraction is higher than a letter, and both are centred on the same axis.
    letter = BeautifulSoup(formula_html("n"), "html.parser").img
    assert float(image["height"]) > 1.4 * float(letter["height"])


@pytest.mark.parametrize("tex", [r"\begin{cases} a \end{cases}", r"\nosuch", "a_", "", "<b>"])
def test_formula_html_invalid_tex_shows_source(tex):
    html = formula_html(tex)
    assert html.startswith('<code class="tex">') or (tex == "<b>" and 'alt="&lt;b&gt;"' in html)
    assert "<b>" not in html


@pytest.mark.parametrize(
    "widgets",
    [
        None,
        {"application/vnd.jupyter.widget-state+json": None},
        # As Colab writes them: the models without their "state".
        {"application/vnd.jupyter.widget-state+json": {"0a1b": {"model_name": "LayoutModel", "state": {}}}},
    ],
)
def test_notebook_with_widget_metadata_renders(tmp_path, widgets):
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "HBox()"}
    outputs = [new_output("display_data", view), new_output("stream", text="one\ntwo")]
    cells = [new_markdown_cell("# A title"), new_code_cell("x", outputs=outputs)]
    odd = {"widgets": widgets, "kernelspec": {"name": "x"}, "language_info": None}
    (tmp_path / "n.ipynb").write_text(json.dumps({**new_notebook(cells=cells), "metadata": odd}))
    page = render_notebook(tmp_path / "n.ipynb", tmp_path / "n.html").read_text(encoding="utf-8")
    text = BeautifulSoup(page, "html.parser").main.get_text()
    assert "A title" in text and "one\ntwo" in text and "HBox" not in text


def test_notebook_negative_duration_is_omitted(tmp_path):
    for duration, expected in ((-3600.0, "Run on 2 January 2026, 00:00 UTC"), (60.0, "00:00 UTC, in 1 min 0 s")):
        papermill_metadata = {"start_time": "2026-01-02T00:00:00+00:00", "duration": duration}
        nbformat.write(new_notebook(metadata={"papermill": papermill_metadata}), tmp_path / "n.ipynb")
        page = render_notebook(tmp_path / "n.ipynb", tmp_path / "n.html").read_text(encoding="utf-8")
        (line,) = re.findall(r"Run on [^<]*", page)
        assert line.strip().rstrip(".").endswith(expected)
