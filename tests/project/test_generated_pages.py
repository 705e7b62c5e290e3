"""Generated parts of reference pages are up to date, and links of Markdown files work."""

import json
import re
import runpy
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from biaslab.runs import replication_status

ROOT = Path(__file__).parents[2]
GENERATED = runpy.run_path(str(ROOT / "docs/generated.py"))
MARKDOWN = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "world/*.md", "world/biaslab_world/*.md", ".github/**/*.md")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("page", GENERATED["PAGES"])
def test_generated_pages_are_up_to_date(page):
    pytest.importorskip("biaslab_world", reason="the pages list the tables and settings of biaslab-world")
    committed = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert committed == GENERATED["updated"](page), f"docs/{page} is out of date: run `make reference`."


def test_updated_page_without_markers_raises_value_error(tmp_path):
    (tmp_path / "limits.md").write_text("# Limits\n")
    updated = GENERATED["updated"]
    docs = updated.__globals__["DOCS"]
    try:
        updated.__globals__["DOCS"] = tmp_path
        with pytest.raises(ValueError, match=r"docs/limits\.md lacks one of the lines"):
            updated("limits.md")
    finally:
        updated.__globals__["DOCS"] = docs


def anchors(text):
    """Return the anchors of a Markdown file as GitHub gives them: of headings, and named ones."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    slugs = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    ]
    return {*slugs, *re.findall(r'<a id="([^"]+)"', text)}


def broken_links(path):
    """Return the relative links of a Markdown file that lead to no file or anchor."""
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:|mailto:", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (path.parent / place).resolve() if place else path
        is_page = target.suffix == ".md" and target.is_file()
        if not target.exists() or (anchor and is_page and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_markdown_links_resolve(path):
    assert broken_links(path) == []


def test_broken_links_lists_missing_files_and_anchors(tmp_path):
    (tmp_path / "other.md").write_text('# A heading\n\n<a id="named"></a>\n')
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#a-heading) [b](other.md#named) [c](other.md#gone) [d](gone.md) [e](https://example.org)\n"
        "`[f](code.md)`\n"
    )
    assert broken_links(page) == ["other.md#gone", "gone.md"]


@pytest.mark.parametrize("page", ["README.md", "docs/replication-notes.md"])
def test_replication_counts_on_pages_match_status(page):
    rows = [row for row in replication_status.entries() if row["kind"] != "text"]
    status = Counter(row["status"] for row in rows)
    # What the run on published values shows is reprinted where `reprinted_by` names the run, else recomputed.
    reprinted = sum("published" in row["reprinted_by"].split() for row in rows)
    recomputed = sum(
        "published" in row["runs"].split() and "published" not in row["reprinted_by"].split() for row in rows
    )
    text = (ROOT / page).read_text(encoding="utf-8")
    assert (
        f"Of the papers' {len(rows)} numbered tables, figures and tests, {status['regenerated']} can be regenerated "
        f"from images or captions, {status['reprinted']} can only be reprinted, and {status['illustrative']} are "
        "diagrams" in text
    )
    assert f"From published values alone, {recomputed} are regenerated and {reprinted} are reprinted" in text


def test_readme_count_of_asserting_notebooks_is_correct():
    paths = [*ROOT.glob("notebooks/*/*.ipynb"), *ROOT.glob("world/biaslab_world/*/notebooks/*/*.ipynb")]
    asserting = sum(
        any(
            re.search(r"^\s*(assert |.*\bassert_\w+\()", "".join(cell["source"]), re.MULTILINE)
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "code"
        )
        for path in paths
    )
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Of the {len(paths)} notebooks, {asserting} recompute a result in plain code" in text
