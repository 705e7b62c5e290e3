"""An executed notebook as one HTML file in the form of a report: without network, scripts or hostile content."""

from __future__ import annotations

import ast
import base64
import io
import re
import tokenize
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from biaslab.errors import InputError
from biaslab.report import pages
from biaslab.report.formulas import formula_html

_WORDS = """a abbr b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2 h3
    h4 h5 h6 hr i img kbd li mark ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr u
    ul var"""
_TAGS = frozenset(_WORDS.split())
# Dropped with their content; other unknown tags are removed, and their content stays.
_DROPPED_WORDS = """script style iframe object embed applet template noscript svg math form input button select
    textarea link meta base audio video title"""
_DROPPED = _DROPPED_WORDS.split()
_ATTRIBUTE_WORDS = "class id title lang dir colspan rowspan scope width height start"
_ATTRIBUTES = frozenset(_ATTRIBUTE_WORDS.split())
# A link that is not relative.
_ABSOLUTE_LINK = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_NUMBER_CELL = re.compile(r"\s*(?:[-+−]?[\d.,]+(?:e[-+]?\d+)?\s*%?|nan|inf|-inf)\s*", re.IGNORECASE)
_IMAGE_TYPES = ("image/svg+xml", "image/png", "image/jpeg")
_IMAGE_FILES = {".png": "image/png", ".jpg": "image/jpeg", "jpeg": "image/jpeg", ".svg": "image/svg+xml"}
_ACTIVE_TYPES = {"application/vnd.jupyter.widget-view+json", "application/javascript"}
_ERROR_TAG = "papermill-error-cell-tag"
# Maximum characters of one text on a page. The time for cleaning grows with the square of a text's length.
_LONGEST_TEXT, _LONGEST_NUMBER = 20_000, 40
# Maximum number of table rows that a page shows unfolded.
_ROWS = 10
_TEXT_TYPES = {"text/plain", "text/markdown", "text/latex"}


def render_notebook(
    ipynb_path: str | Path, html_path: str | Path, *, title: str | None = None, index_href: str | None = None
) -> Path:
    """Write an executed notebook as a self-contained HTML page and return the page's path.

    Prose, tables and figures are shown; code is folded; the parameters cell becomes a table of the values used.
    Markdown and HTML outputs are reduced to an allowlist of tags and attributes; widgets and JavaScript outputs are
    left out. An image's alternative text is the output's or the cell's ``alt``. The page's ``title`` is by default the
    notebook's first heading, then the file's name; ``index_href`` is the link back to the index, relative to the page.

    Raises:
        InputError: The file is missing or not a notebook.
    """
    import nbformat

    ipynb_path, html_path = Path(ipynb_path), Path(html_path)
    try:
        # reader.reads, unlike nbformat.read, neither repairs nor warns, and a page needs no ids.
        notebook = nbformat.reader.reads(ipynb_path.read_text(encoding="utf-8"))
        # Only papermill's metadata are needed; nbconvert fails on incomplete metadata of widgets.
        python = {"name": "python", "pygments_lexer": "ipython3"}
        metadata = {"language_info": python, "papermill": notebook.metadata.get("papermill", {})}
        notebook.metadata = nbformat.from_dict(metadata)
        notebook = nbformat.convert(notebook, 4)
        _prepare(notebook)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError) as error:
        raise InputError(
            f"{ipynb_path} cannot be read as a notebook: {error!r}. Specify an executed .ipynb file."
        ) from error
    heading = _first_heading(notebook.cells)
    page = {
        "title": pages.clean_text(title or heading or ipynb_path.stem),
        "has_heading": bool(heading),
        "index_href": index_href if index_href and not _ABSOLUTE_LINK.match(index_href) else None,
        "ran": _describe_time(notebook.metadata.get("papermill", {})),
        "style": (style := pages.asset("report.css")),
        "policy": pages.content_security_policy(style=style),
    }
    resources = {"metadata": {"path": str(ipynb_path.parent), "name": ipynb_path.stem}, "page": page}
    return pages.write_page(html_path, _exporter().from_notebook_node(notebook, resources=resources)[0])


@cache
def _exporter():
    """Return the process's exporter: nbconvert with filters that sanitise. It is not thread-safe."""
    from jinja2 import pass_context
    from nbconvert.exporters import HTMLExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        # IPythonRenderer leaves formulas to MathJax; here they are rendered immediately.
        def inline_math(self, body: str) -> str:
            return formula_html(unescape(body))

        def block_math(self, body: str) -> str:
            return f'<p class="formula">{formula_html(unescape(body), 19.0, True)}</p>'

        def image(self, text: str, url: str, title: str | None = None) -> str:
            if url.startswith("attachment:") and url.partition(":")[2] not in self.attachments:
                url = "lost"  # shown as its description; nbconvert would fail for the whole page
            return super().image(text, url, title)

        def _src_to_base64(self, src: str) -> str | None:
            # Only images, and only from the notebook's own folder, after links are resolved.
            kind = _IMAGE_FILES.get(src[-4:].lower())
            path = pages.file_inside(Path(self.path), unquote(src)) if kind else None
            return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}" if path else None

        def _html_embed_images(self, html: str) -> str:
            # Inline HTML arrives tag by tag; parsing "<b>" alone would close it immediately and lose its content.
            return super()._html_embed_images(html) if "<img" in html.lower() else html

        def latex_environment(self, name: str, body: str) -> str:
            return self.block_math(body)

    class ReportExporter(HTMLExporter):
        @pass_context
        def markdown2html(self, context: Any, source: str) -> str:
            renderer = Renderer(
                escape=False,
                attachments=context.get("cell", {}).get("attachments", {}),
                embed_images=True,
                path=context["resources"]["metadata"]["path"],
                exclude_anchor_links=True,
            )
            return MarkdownWithMath(renderer=renderer).render(pages.clean_text(source))

    # The richest types come first; scripts and widgets are not in the list, so they are never chosen.
    mime_types = ["text/html", "text/markdown", *_IMAGE_TYPES, "text/latex", "text/plain"]
    return ReportExporter(
        extra_template_basedirs=[pages.TEMPLATES],
        template_name="biaslab_report",
        filters={"clean_html": sanitise},
        config={"NbConvertBase": {"display_data_priority": mime_types}},
    )


def sanitise(html: object) -> str:
    """Return HTML with allowed tags and attributes only, and with its tables laid out; bleach cleans the result."""
    text = pages.clean_text(html)
    if "<" in text or len(text) > _LONGEST_TEXT:
        text = _lay_out(text)
    return _cleaner().clean(text)


def _shorten_text(text: str) -> str:
    """Return a text truncated for a page; the notebook has the full text. A truncated text stays unchanged."""
    n_cut = len(text) - _LONGEST_TEXT
    return f"{text[:_LONGEST_TEXT]} … ({n_cut:,} more characters in the notebook)" if n_cut > 100 else text


def _lay_out(html: str) -> str:
    from bs4 import BeautifulSoup
    from bs4.formatter import HTMLFormatter

    soup = BeautifulSoup(html, "html.parser")
    for tag in soup(_DROPPED):
        if not tag.decomposed:
            tag.decompose()
    for text in soup.find_all(string=lambda text: len(text) > _LONGEST_TEXT):
        text.replace_with(soup.new_string(_shorten_text(str(text))))
    for image in soup("img"):
        if not pages.EMBEDDED.fullmatch(str(image.get("src", ""))):
            description = f"[image not embedded: {image.get('alt') or 'no description'}]"
            image.replace_with(soup.new_string(description))
    for table in soup("table"):
        # A biaslab.schema.table_layout.TableLayout marks its numeric columns itself.
        if table.get("class") != ["data"]:
            _align_numbers(table)
        table["class"] = "data"
        if (rows := len(table.select("tbody > tr"))) > _ROWS and table.find_parent("table") is None:
            # Works without a script: the style sheet shows further rows if this element is open.
            fold = soup.new_tag("details", attrs={"class": "rest"})
            fold.append(soup.new_tag("summary", string=f"All {rows:,} rows"))
            table.insert_before(fold)
        if table.find_parent("table") is None:
            table.wrap(soup.new_tag("div", attrs={"class": "scroll", "tabindex": "0", "role": "region"}))
            table.parent["aria-label"] = "Table"
    # Quotes become entities, so that attributes are in double quotes: bleach escapes single-quoted ones twice.
    return soup.decode(formatter=HTMLFormatter(entity_substitution=escape))


def _align_numbers(table: Any) -> None:
    """Set the class of numbers for cells with a number, and for headings of columns whose first cell is a number."""
    for cell in table(["td", "th"]):
        cell.attrs.pop("class", None)
        text = cell.get_text()
        if cell.name == "td" and len(text) <= _LONGEST_NUMBER and _NUMBER_CELL.fullmatch(text):
            cell["class"] = "n"
    first_row, head = table.select_one("tbody tr"), table.find("thead")
    columns = [cell.get("class") == "n" for cell in first_row(["td", "th"])] if first_row else []
    for row in head("tr") if head else ():
        names = row("th")
        for name, number in zip(names, columns, strict=True) if len(names) == len(columns) else ():
            if number:
                name["class"] = "n"


@cache
def _cleaner():
    from bleach.sanitizer import Cleaner

    def allowed(tag: str, name: str, value: str) -> bool:
        if tag == "img" and name in {"src", "alt"}:
            return name == "alt" or bool(pages.EMBEDDED.fullmatch(value))
        if tag == "a" and name == "href":
            return not value.strip().lower().startswith("data:")
        if tag == "div" and name in {"tabindex", "role", "aria-label"}:
            return (name, value) in {("tabindex", "0"), ("role", "region"), ("aria-label", "Table")}
        return name in _ATTRIBUTES

    # "data" is allowed here for images; links with it are refused above.
    protocols = {"http", "https", "mailto", "data"}
    return Cleaner(_TAGS, allowed, protocols, strip=True, strip_comments=True)


def _prepare(notebook: Any) -> None:
    """Rewrite cells in place for the template: parameters as a table, images with alternative text."""
    parameter_cells = [cell for cell in notebook.cells if {"parameters", "injected-parameters"} & _tags(cell)]
    parameters: dict[str, dict[str, str]] = {}
    for row in (row for cell in parameter_cells for row in _assignments(cell.source)):
        earlier = parameters.get(row["name"], row)
        parameters[row["name"]] = row | {"note": row["note"] or earlier["note"]}
    parameters.pop("output_dir", None)  # a folder of the machine that executed the run
    if parameter_cells and parameters:
        injected_cells = [cell for cell in parameter_cells if "parameters" not in _tags(cell)]
        shown_cell = next((cell for cell in parameter_cells if cell not in injected_cells), parameter_cells[0])
        shown_cell.metadata["biaslab_parameters"] = list(parameters.values())
        notebook.cells = [cell for cell in notebook.cells if cell is shown_cell or cell not in injected_cells]
    for number, cell in enumerate(notebook.cells):
        cell.metadata["biaslab_role"] = "banner" if _ERROR_TAG in _tags(cell) else ""
        cell.setdefault("id", f"cell-{number}")
        if cell.cell_type == "code":
            # Drop outputs that need scripts: their text form is only the name of a Python class.
            outputs = cell.get("outputs", [])
            cell.outputs = [o for o in outputs if _ACTIVE_TYPES.isdisjoint(o.get("data", {}))]
            for output in cell.outputs:
                _shorten(output)
                if "data" in output:
                    output.metadata |= _image(output, cell)


def _shorten(output: Any) -> None:
    """Truncate the texts of an output in place."""
    if "text" in output:
        output.text = _shorten_text(output.text)
    for kind in output.get("data", {}).keys() & _TEXT_TYPES:
        output.data[kind] = _shorten_text(output.data[kind])
    if "traceback" in output:
        output.traceback = list(map(_shorten_text, output.traceback))


def _tags(cell: Any) -> set[str]:
    return set(cell.get("metadata", {}).get("tags", []))


def _image(output: Any, cell: Any) -> dict[str, Any]:
    """Return an image's alternative text, and its stated width in pixels; 0 if it states none."""
    places = [place for kind in _IMAGE_TYPES if isinstance(place := output.metadata.get(kind), dict)]
    texts = (place.get("alt") for place in (output.metadata, *places, cell.metadata))
    alt = next(filter(None, texts), "Figure, described in the text around it.")
    width = next((w for place in places if type(w := place.get("width")) is int and 0 < w < 100_000), 0)
    return {"biaslab_alt": pages.clean_text(alt), "biaslab_width": width}


def _assignments(source: str) -> list[dict[str, str]]:
    """Return the assignments of a parameters cell: name, value as source, and the comment on the same line."""
    try:
        tree = ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []
    comments = {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}
    rows = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and isinstance(targets[0], ast.Name):
            note = comments.get(node.end_lineno or 0, "")
            rows.append({"name": targets[0].id, "value": ast.unparse(node.value), "note": pages.clean_text(note)})
    return rows


def _first_heading(cells: list[Any]) -> str:
    for cell in cells:
        if cell.cell_type == "markdown" and _ERROR_TAG not in _tags(cell):
            match = re.search(r"^#[ \t]+(.+)$", cell.source, re.MULTILINE)
            if match and (heading := match.group(1).rstrip(" \t#")):
                return re.sub(r"[*_`]", "", heading)
    return ""


def _describe_time(papermill: Any) -> str:
    """Return the time and duration of papermill's execution in words; empty if papermill did not execute it."""
    try:
        duration = pages.format_seconds(papermill["duration"])
        return f"Run on {pages.format_time(papermill['start_time'])}{f', in {duration}' if duration else ''}"
    except (KeyError, TypeError):
        return ""
