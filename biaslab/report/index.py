"""The entry page of a run: ``index.html``, built from ``run.json``, the layouts of the tables, and the figures."""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from biaslab.io import reading
from biaslab.report import cards, citation, records
from biaslab.report.dotplots import draw_rows, number
from biaslab.report.image_pages import MARKS, evenly
from biaslab.report.pages import EMBEDDED, asset, clean_text, file_inside, format_seconds, format_time, href, write_from
from biaslab.schema.formatting import format_level
from biaslab.schema.table_layout import TableLayout

# Maximum number of table rows on the page, which has a preview of longer tables and a link to the file.
ROWS_SHOWN = 400
ROWS_PREVIEW = 50
# Maximum number of cells in all tables together; further tables have a preview only, so that the page opens quickly.
CELLS_SHOWN = 40_000
# Maximum embedded bytes, so that the page is self-contained with at most 6 MB: one figure, all figures, one file, all
# table files.
FIGURE_BYTES, FIGURES_BYTES = 700_000, 2_300_000
TABLE_FILE_BYTES, TABLES_BYTES = 30_000_000, 500_000
_FIGURE_FILE_BYTES = 20_000_000
# A figure that takes more bytes with lossless compression contains photographs, for which lossy compression suffices.
_PHOTOGRAPHS, _QUALITY = 150_000, 85

COVERAGE_STATUS = {
    "regenerated": "recomputed by this run, from the inputs that the note names",
    "reprinted": "shown with the paper's values; intervals or tests are added where possible",
    "open": "not shown by this run",
    "illustrative": "a diagram or a comparison in words, without values to compute or show",
}
_PAPERS: dict[str, dict[str, str]] = cards.words("papers")
# Maximum number of groups in all strips at the top of the page, and of models with a strip.
_ROWS, _STRIPS = 4, 4
# Size in pixels of the smallest text in a figure, and maximum width and height of a paper's first figure, which is next
# to findings.
_SMALLEST, _WIDEST, _HIGHEST = 11.2, 775, 540
# Counts of a page's tests, as `findings.adjust_across_report` returns them.
_COUNTS = "alpha", "headlines", "significant", "untested", "withdrawn", "printed", "others", "others_significant"
# Maximum number of findings of a paper that the page shows unfolded.
_MAIN = 2


def build(run_dir: str | Path, layouts: Mapping[str, TableLayout]) -> Path:
    """Write ``index.html`` into the folder of a run and return its path.

    The page is one file that contains style, script, figures and the compressed files of tables, and needs no network.
    It shows a preview of tables longer than ``ROWS_SHOWN``, and names figures that are missing or unreadable.

    Args:
        run_dir: The folder of the run.
        layouts: The layout of each table of ``run.json`` that has rows, by the table's name.

    Raises:
        RunError: ``run.json`` is missing or not the record of a run.
    """
    run_dir = Path(run_dir)
    run = records.read(run_dir, needs={})
    options = {"style": asset("report.css"), "script": asset("image_pages.js") + asset("index.js")}
    return write_from(run_dir / "index.html", "index.html.j2", **options, **_content(run, run_dir, layouts))


def _content(run: dict[str, Any], run_dir: Path, layouts: Mapping[str, TableLayout]) -> dict[str, Any]:
    """Return the variables of the template."""
    notebooks = [_notebook(entry, run_dir) for entry in cards.entries(run, "notebooks")]
    pages: dict[tuple[str, str | None], dict[str, Any]] = {}
    for notebook in notebooks:
        pages.setdefault((str(notebook["id"]), str(notebook["variant"])), notebook)
        pages.setdefault((str(notebook["id"]), None), notebook)

    def page_of(entry: dict[str, Any]) -> dict[str, Any] | None:
        """Return the notebook that an entry names, of the same variant if there is one."""
        key = str(entry["notebook"])
        return pages.get((key, str(entry["variant"]))) or pages.get((key, None))

    ids: Counter[str] = Counter()
    question_cards, by_judge = cards.by_question(run), cards.by_judge(run_dir, run)
    for card in question_cards:
        for row in card["rows"]:
            row["judges"] = by_judge.get((card["paper"], row["model"], row["headline"]), [])
    # Figures of the cards at the top of the page and of each paper are embedded first.
    first_cards = [
        card
        for paper in {card["paper"]: 0 for card in question_cards}
        for card in cards.opening_cards(card for card in question_cards if card["paper"] == paper)
    ]
    order = [str(card["figure"]) for card in (*cards.opening_cards(question_cards), *first_cards) if card["figure"]]
    figures = _figures(run, run_dir, ids, page_of, order)
    tables = _tables(run, run_dir, layouts, ids, page_of)
    failed_notebooks = [notebook for notebook in notebooks if notebook["status"] not in ("ok", "skipped")]
    anchors = {name: item for item in [*tables, *figures] for name in item["names"]}
    page_cards = [card | {"page": page_of(card), "figure": anchors.get(str(card["figure"]))} for card in question_cards]
    measures = []
    for measure, rows in cards.measures(run_dir, run).items():
        if marks := draw_rows(rows, unit=rows[0].get("unit", "")):
            models = [row["model"] for row in rows if row["estimate"] is not None]
            measures.append({"name": measure, "marks": marks, "models": models})
    lists = {key: run.get(key) or [] for key in ("problems", "limits", "notes", "left_out", "notices")}
    model_names = [str(row["model"]) for card in page_cards for row in card["rows"]]
    model_texts = cards.introduce([*model_names, *(name for measure in measures for name in measure["models"])])
    strips = _strips(run, run_dir)
    papers = _papers(cards=page_cards, figures=figures, tables=tables, notebooks=notebooks, strips=strips)
    # The strips of the first paper; strips with at most three groups, such as genders of prompts, are not shortened.
    opening_strips = [strip for strip in strips if strip["paper"] == strips[0]["paper"]][:_STRIPS]
    limit = max(_ROWS // max(len(opening_strips), 1), 1)
    opening_strips = [s if len(s["rows"]) <= 3 else s | {"rows": evenly(s["rows"], limit)} for s in opening_strips]
    for paper in papers:
        # Strips at the top of the page are not repeated, unless they were shortened.
        paper["strips"] = [strip for strip in paper["strips"] if strip not in opening_strips]
    opening_cards = cards.opening_cards(page_cards)
    glossary = cards.words("glossary")["terms"]
    page_text = json.dumps(
        [[card[key] for key in ("question", "answers", "marks")] for card in opening_cards], default=str
    )
    return lists | {
        "run": {key: run.get(key) for key in ("run", "status")},
        "title": str(run.get("title") or run.get("run") or "Report"),
        **_description(str(run.get("description") or "")),
        "sweep": {
            key: ", ".join(map(str, values)) if isinstance(values, list) else values
            for key, values in run.get("sweep", {}).items()
        },
        "started": format_time(run.get("started")),
        "started_iso": run.get("started"),
        "seconds": run.get("seconds"),
        "cards": opening_cards,
        "agreement": anchors.get("synthesis_judge_agreement"),
        "words": [word for word in glossary if len(word) > 1 and _names(page_text, word)],
        "verdicts": _verdicts(run),
        "models": model_texts,
        "strips": opening_strips,
        "picture_marks": MARKS,
        "measures": measures,
        "papers": papers,
        "paper_names": {key: about["name"] for key, about in _PAPERS.items()},
        "notebooks": notebooks,
        "finished": sum(notebook["status"] == "ok" for notebook in notebooks),
        "skipped": [notebook for notebook in notebooks if notebook["status"] == "skipped"],
        "failed": failed_notebooks,
        "stopped": sum(notebook["status"] == "stopped" for notebook in failed_notebooks),
        "incomplete": bool(failed_notebooks or lists["problems"]) or run.get("status") not in ("ok", None),
        "terms": model_texts | glossary,
        "citations": citation.of_run(run),
        "coverage": _coverage(run, page_of, anchors),
        "coverage_status": COVERAGE_STATUS,
        "provenance": _provenance(run),
        "packages": run.get("packages", {}),
        "commits": run.get("commits", {}),
        "parameters": _flatten(run.get("parameters", {})),
        "defaults": _flatten(run.get("notebook_defaults", {})),
    }


def _names(text: str, word: str) -> bool:
    """Return whether a text contains a word, or its plural, in any case."""
    return re.search(rf"\b{re.escape(word)}s?\b", text, re.IGNORECASE) is not None


def _verdicts(run: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of the joint adjustment of a page's headlines; ``any`` is false if the run has none."""
    counts = {key: number(value) for key, value in run.get("verdicts", {}).items()}
    if any(counts.get(key) is None for key in _COUNTS):
        return {"any": False}
    texts = {key: f"{value:,.0f}" for key, value in counts.items()}
    levels = {"level": format_level(counts["alpha"]), "confidence": _confidence(run)}
    return texts | levels | {"any": counts["headlines"] > 0}


def _confidence(run: dict[str, Any]) -> str:
    """Return the level of a run's intervals, followed by a space: ``95% ``; empty if it is unknown or varies."""
    alphas = {number(entry.get("alpha")) for entry in cards.entries(run, "findings")}
    alpha = alphas.pop() if len(alphas) == 1 else None
    return "" if alpha is None else f"{format_level(1 - alpha)} "


def _description(text: str) -> dict[str, Any]:
    """Return the first sentence of a run's description, and the other paragraphs, which the page folds."""
    first_part, *parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    opening, *rest = re.split(r"(?<=[.!?])\s+", first_part, maxsplit=1)
    return {"opening": opening, "description": [*rest, *parts]}


def _papers(**items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the contents of the page for each paper: papers in their usual order, then others as they occur."""
    parts: dict[str, dict[str, list]] = {key: defaultdict(list) for key in _PAPERS}
    for kind, entries in items.items():
        for item in entries:
            parts.setdefault(item["paper"], defaultdict(list))[kind].append(item)
    entries_by_paper = []
    for key, part in parts.items():
        if not part:
            continue
        paper_texts = _PAPERS.get(key, {"name": key, "question": "", "bibtex": ""})
        main = [card for card in part["cards"] if card["main"]] or part["cards"][:1]
        main = sorted(main, key=lambda card: number(card["card"]) or math.inf)[:_MAIN]
        more_cards = [card for card in part["cards"] if card not in main]
        # The lead figure belongs to the paper's first cards, and its text must be legible next to findings.
        figure_cards = [card for card in (*cards.opening_cards(part["cards"]), *main) if card["figure"]]
        # Findings on models come before other findings.
        figure_cards.sort(key=lambda card: not any(row["model"] for row in card["rows"]))
        card_figures = [card["figure"] for card in figure_cards]
        candidates = [f for f in [*card_figures, *part["figures"]] if f["source"]] or part["figures"]
        lead = next(filter(_fits, candidates), None)
        lead = lead or next((f for f in candidates if not f["size"] or f["size"][1] <= 1.2 * f["size"][0]), None)
        pictures = sorted(part["figures"], key=lambda item: item is not lead)
        entry = {"key": key, "anchor": "paper-" + (_plain(key) or "unnamed"), "main": main, "more": more_cards}
        entry["stacked"] = bool(pictures and not _fits(pictures[0], height=False))
        entry |= {"lead": pictures[:1], "figures": pictures[1:]}
        if pictures and (size := pictures[0]["size"]):
            # The smallest size at which its text is legible.
            entry["lead"] = [pictures[0] | {"size": tuple(round(pictures[0]["least"] * side) for side in size)}]
        entries_by_paper.append(paper_texts | entry | {key: part[key] for key in ("tables", "notebooks", "strips")})
    return entries_by_paper


def _fits(figure: dict[str, Any], *, height: bool = True) -> bool:
    """Return whether a figure with legible text fits next to findings."""
    if not figure["size"]:
        return True
    figure_width, figure_height = (figure["least"] * side for side in figure["size"])
    return figure_width <= _WIDEST and (figure_height <= _HIGHEST or not height)


def _strips(run: dict[str, Any], run_dir: Path) -> list[dict[str, Any]]:
    """Return the strips of a run's images, each with the page of its model; empty if they cannot be read."""
    path = file_inside(run_dir, run.get("pictures", {}).get("strips"))
    if path is None:
        return []
    pages = {entry["model"]: href(run_dir, entry["page"]) for entry in cards.entries(run.get("pictures", {}), "models")}
    try:
        return [
            {key: entry[key] for key in ("paper", "title", "model", "groups", "images")}
            | {"mean": None if entry["mean"] is None else float(entry["mean"])}
            | {"page": pages.get(entry["model"]), "rows": list(map(_row, entry["rows"]))}
            for entry in json.loads(reading.text(path))["strips"]
        ]
    except (OSError, ValueError, TypeError, LookupError):
        return []


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a group of a strip; raise ValueError, TypeError or LookupError if it is invalid."""
    share = (
        {key: float(row["share"][key]) for key in ("percent", "low", "high", "n", "unclear")} if row["share"] else {}
    )
    fields = ("source", "marks", "group", "prompt", "said", "alt")
    pictures = [{key: image[key] for key in fields} for image in row["pictures"] if EMBEDDED.fullmatch(image["source"])]
    return {"group": row["group"], "share": share, "pictures": pictures}


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _flatten(mapping: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested parameters as texts under dotted names."""
    flat: dict[str, str] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        flat |= _flatten(value, f"{name}.") if isinstance(value, dict) and value else {name: _value(value)}
    return flat


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)


def _anchor(kind: str, name: str, ids: Counter[str]) -> str:
    """Return an id for ``name`` that no other element of the page has."""
    plain = f"{kind}-" + (_plain(name).strip("-") or "unnamed")
    ids[plain] += 1
    return plain if ids[plain] == 1 else f"{plain}.{ids[plain]}"


def _notebook(entry: dict[str, Any], run_dir: Path) -> dict[str, Any]:
    return entry | {
        "paper": str(entry["paper"] or str(entry["id"]).partition("/")[0]),
        "title": entry["title"] or entry["id"] or "Untitled",
        "status": str(entry["status"] or "unknown"),
        "reason": entry["reason"] or "No reason was recorded.",
        "kept": format_time(entry["ended"]) if entry["kept"] else "",
        "html": href(run_dir, entry["html"]),
        "notebook": href(run_dir, entry["notebook"]),
    }


def _figures(
    run: dict[str, Any], run_dir: Path, ids: Counter[str], page_of: Any, first_figures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the figures in the order in which they are embedded: ``first_figures`` (names) come first."""
    figures, bytes_left = [], FIGURES_BYTES
    ordered_entries = sorted(
        cards.order_entries(cards.entries(run, "figures")), key=lambda entry: str(entry["name"]) not in first_figures
    )
    for place, entry in enumerate(ordered_entries, start=1):
        name, title = str(entry["name"]), entry["title"] or entry["name"] or "Figure"
        source, size, n_bytes = _embed_figure(run_dir, entry, min(bytes_left, FIGURE_BYTES))
        bytes_left -= n_bytes
        figures.append(
            entry
            | {
                "anchor": _anchor("figure", name, ids),
                "names": {name, str(entry["png"]), str(entry["svg"])} - {""},
                "number": place,
                "title": title,
                "alt": entry["alt"] or entry["caption"] or title,
                # Stated, or derived from its notebook or the beginning of its name.
                "paper": str(entry["paper"] or str(entry["notebook"]).partition("/")[0] or name.partition("_")[0]),
                "page": page_of(entry),
                "png": href(run_dir, entry["png"]),
                "svg": href(run_dir, entry["svg"]),
                "source": source,
                "size": size,
                # The smallest legible scale; the text of a figure without a stated size may be small.
                "least": min(_SMALLEST * 72 / 110 / (number(entry["smallest"]) or 8.0), 1.0),
            }
        )  # fmt: skip
    return figures


def _embed_figure(run_dir: Path, entry: dict[str, Any], allowed: int) -> tuple[str, tuple[int, int] | None, int]:
    """Return a figure as a data URL, its width and height on the page, and its bytes; ``""`` if it is not embedded."""
    from PIL import Image

    kinds = {"png": "image/png", "svg": "image/svg+xml"}
    # On a machine without a script's font, the PNG shows boxes.
    for key, kind in sorted(kinds.items(), key=lambda item: (item[0] == "svg") != bool(entry["svg_first"])):
        path = file_inside(run_dir, entry[key])
        if path is None or path.stat().st_size > _FIGURE_FILE_BYTES:
            continue
        data, size = path.read_bytes(), None
        if key == "png":
            try:
                kind, data, size = _compress(data)
            # Damaged images are not shown.
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
                continue
        elif sides := re.search(rb'<svg[^>]{1,300}? width="([\d.]+)pt" height="([\d.]+)pt"', data[:2000]):
            size = round(float(sides[1]) * 110 / 72), round(float(sides[2]) * 110 / 72)
        if len(data) <= allowed:
            return f"data:{kind};base64,{base64.b64encode(data).decode()}", size, len(data)
    return "", None, 0


def _compress(png: bytes) -> tuple[str, bytes, tuple[int, int]]:
    """Return an image's type, its bytes, compressed if that makes them fewer, and its size in CSS px (110 per inch)."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as source:
        image, dpi = source.convert("RGB"), source.info.get("dpi", (0, 0))[0]
    width, height = image.size
    if 50 <= dpi <= 1200:
        width, height = round(width * 110 / dpi), round(height * 110 / dpi)
    smallest = "image/png", png
    # WebP does not support longer sides.
    for options in ({"lossless": True, "quality": 20}, {"quality": _QUALITY}) if max(image.size) < 2**14 else ():
        image.save(file := io.BytesIO(), "WEBP", method=1, **options)
        smallest = "image/webp", file.getvalue()
        if len(smallest[1]) <= _PHOTOGRAPHS:
            break
    return *min(smallest, ("image/png", png), key=lambda pair: len(pair[1])), (width, height)


def _tables(
    run: dict[str, Any], run_dir: Path, layouts: Mapping[str, TableLayout], ids: Counter[str], page_of: Any
) -> list[dict[str, Any]]:
    tables, cells_left, bytes_left = [], CELLS_SHOWN, TABLES_BYTES
    for entry in cards.order_entries(cards.entries(run, "tables")):
        if entry["rows"] == 0:
            # The table has no measurements, as ``run.json`` states.
            continue
        name, file = str(entry["name"]), str(entry["file"])
        notebooks = entry["notebooks"] or entry["notebook"] or [""]
        notebooks = [notebooks] if isinstance(notebooks, str) else list(notebooks)
        path = file_inside(run_dir, file)
        meanings = {str(column["name"]): column for column in cards.entries(entry, "columns")}
        layout = layouts[name]
        n_shown = layout.total if layout.total <= (ROWS_SHOWN if cells_left > 0 else ROWS_PREVIEW) else ROWS_PREVIEW
        cells_left -= n_shown * len(layout.columns)
        payload = ""
        # For download without the folder.
        if path is not None and path.stat().st_size <= TABLE_FILE_BYTES:
            payload = base64.b64encode(gzip.compress(path.read_bytes(), mtime=0)).decode()
            payload = payload if len(payload) <= bytes_left else ""
        bytes_left -= len(payload)
        columns = [defaultdict(str, meanings.get(c.name, {}), name=c.name) for c in layout.columns]
        pages = [page for key in notebooks if (page := page_of(defaultdict(str, notebook=key)))]
        tables.append(
            entry
            | {
                "anchor": _anchor("table", name, ids),
                "names": {name, file} - {""},
                "title": entry["title"] or name or "Table",
                "paper": str(notebooks[0]).partition("/")[0] or name.partition("_")[0],
                "pages": list({page["html"]: page for page in pages}.values()),
                "href": href(run_dir, file),
                "file_name": file.rpartition("/")[2] or "table.csv",
                "packed": payload,
                "columns": columns,
                "explained": any(column["unit"] or column["description"] for column in columns),
                "shown": n_shown,
                "total": layout.total,
                "html": Markup(clean_text(layout.html(n_shown))),
            }
        )
    return tables


def _coverage(run: dict[str, Any], page_of: Any, anchors: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for entry in cards.entries(run, "coverage"):
        labels = {"paper": str(entry["paper"]), "kind": str(entry["kind"])}
        labels["status"] = str(entry["status"] or "unknown")
        if entry["inputs"] and labels["status"] == "regenerated":
            labels["note"] = f"From the printed {entry['inputs']}. {entry['note']}"
        rows.append(entry | labels | {"target": anchors.get(str(entry["output"])), "page": page_of(entry)})
    counts = Counter((row["paper"], row["kind"], row["status"]) for row in rows)
    statuses = list(dict.fromkeys([*COVERAGE_STATUS, *(row["status"] for row in rows)]))
    groups = []
    for paper, kind in dict.fromkeys((row["paper"], row["kind"]) for row in rows):
        counts_by_status = [counts[paper, kind, status] for status in statuses]
        groups.append({"paper": paper, "kind": kind, "counts": counts_by_status, "total": sum(counts_by_status)})
    totals = Counter(row["status"] for row in rows)
    return {"rows": rows, "statuses": statuses, "totals": totals, "groups": groups}


def _provenance(run: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the facts that identify a run, as pairs of name and value; empty values are left out."""
    biaslab, platform = run.get("biaslab", {}), run.get("platform", {})
    commit = str(biaslab.get("git_commit") or "")
    if commit and biaslab.get("git_dirty"):
        commit += " (with uncommitted changes)"
    machine = (platform.get(key) for key in ("system", "machine", "processor"))
    pairs = [
        ("Run", run.get("run")),
        ("Parameters file", run.get("params_file")),
        ("biaslab", biaslab.get("version")),
        ("Commit", commit),
        ("Seeds", ", ".join(f"{k} {_value(v)}" for k, v in run.get("seeds", {}).items() if v is not None)),
        ("Python", platform.get("python")),
        ("Platform", ", ".join(dict.fromkeys(str(part) for part in machine if part))),
        ("Cores", platform.get("cores")),
        ("Started", format_time(run.get("started"))),
        ("Ended", format_time(run.get("ended"))),
        ("Duration", format_seconds(run.get("seconds"))),
    ]
    return [(name, value) for name, value in pairs if value not in (None, "")]
