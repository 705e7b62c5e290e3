"""Citations of biaslab, of a run, and of the papers whose methods the run used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab import __version__
from biaslab.errors import ParameterError
from biaslab.report import cards

_TITLE = "biaslab: audit text-to-image models for social bias"
_MAKERS = "The biaslab developers"
_YEAR = "2026"


@dataclass(frozen=True)
class Citation:
    """A citation, in words and as BibTeX."""

    what: str  # `run`, `biaslab` or a paper's short name.
    text: str
    bibtex: str


def of_package(version: str = __version__, commit: str = "") -> Citation:
    """Return the citation of biaslab, with the version and commit that were used."""
    version_text = f"version {version}" + (f", commit {commit[:12]}" if commit else "")
    fields = {"title": _TITLE, "author": f"{{{_MAKERS}}}", "year": _YEAR, "version": _tex(version)}
    bibtex = _entry("software", "biaslab", **fields, note=f"Commit {_tex(commit)}" if commit else "")
    return Citation("biaslab", f"{_MAKERS} ({_YEAR}). {_TITLE} ({version_text}).", bibtex)


def of_run(record: Mapping[str, Any], url: str = "", author: str = "") -> list[Citation]:
    """Return the citations of a run, of the version of biaslab that it used, and of the papers whose methods it used.

    Args:
        record: The contents of ``run.json``.
        url: The address of the run's report.
        author: The author of the run.

    Raises ParameterError: The address is invalid.
    """
    if url and not re.fullmatch(r"https?://[^\s{}]+|doi:[^\s{}]+", url):
        raise ParameterError(f"--url is {url!r}; it must be like https://example.org/report/index.html.")
    code = record.get("biaslab", {})
    version, commit = str(code.get("version") or ""), str(code.get("git_commit") or "")
    name, title = str(record.get("run") or "run"), " ".join(str(record.get("title") or "").split())
    title = title or f"Report of the run {name}"
    match = re.match(r"(\d{4})-\d\d-\d\d", str(record.get("started") or ""))
    date, year = match.group(0, 1) if match else ("", "")
    dirty_note = ", with uncommitted changes" if code.get("git_dirty") else ""
    tool = " ".join(filter(None, ("biaslab", version, f"(commit {commit[:12]}{dirty_note})" if commit else "")))
    prefix = f"{author}{f' ({year})' if year else ''}. " if author else ""
    text = f"{prefix}{title.rstrip('.')}. Run “{name}”{f' of {date}' if date else ''}, generated with {tool}. {url}"
    fields = {"title": _tex(title), "author": _tex(author), "year": year, "url": url}
    fields["howpublished"] = _tex(f"Run ``{name}'' generated with {tool}")
    key = "biaslab-run-" + re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
    run = Citation("run", text.rstrip(), _entry("misc", key, **fields, note=f"Generated on {date}" if date else ""))
    return [run, of_package(version or __version__, commit), *map(of_paper, papers(record))]


def of_paper(name: str) -> Citation:
    """Return the citation of a paper by its short name."""
    bibtex = cards.words("papers")[name]["bibtex"].strip()
    fields = dict(re.findall(r"^\s*(\w+) = \{(.*)\},?$", bibtex, re.MULTILINE))
    people = fields["author"].replace(" and ", "; ")
    venue = fields.get("journal") or fields["booktitle"]
    issue = f" {fields['volume']}({fields['number']})" if "volume" in fields else ""
    doi = f" https://doi.org/{fields['doi']}" if "doi" in fields else ""
    text = f"{people} ({fields['year']}). {fields['title']}. {venue}{issue}.{doi}"
    return Citation(name, re.sub("[{}]", "", text), bibtex)


def papers(record: Mapping[str, Any]) -> list[str]:
    """Return the papers whose methods a run used, from its finished notebooks and tables, in the order of reports."""
    run_papers = [
        entry["id"].partition("/")[0] for entry in cards.entries(record, "notebooks") if entry["status"] == "ok"
    ]
    table_papers = [str(entry["name"]).partition("_")[0] for entry in cards.entries(record, "tables") if entry["rows"]]
    paper_texts = cards.words("papers")
    return [name for name in paper_texts if paper_texts[name]["bibtex"] and name in {*run_papers, *table_papers}]


def format_citations(citations: list[Citation]) -> str:
    """Return citations as a text: first all in words, then all as BibTeX."""
    words = "\n".join(citation.text for citation in citations)
    return f"{words}\n\n" + "\n\n".join(citation.bibtex for citation in citations)


def _entry(kind: str, key: str, **fields: str) -> str:
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}"


def _tex(text: str) -> str:
    """Return a text with TeX's special characters escaped or removed."""
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\]", "", text))
