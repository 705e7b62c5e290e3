"""Pages of the site that come from elsewhere: READMEs, notebooks, commands, settings, tables, and docstrings."""

from __future__ import annotations

import argparse
import json
import re
from functools import partial
from itertools import groupby
from pathlib import Path

from mkdocs.structure.files import File, Files

from biaslab import cli
from biaslab.report.formulas import formula_html
from biaslab.runs import caveats, settings_reference
from biaslab.schema import tables

ROOT = Path(__file__).resolve().parents[1]
# Where pages of the site lie that are files of the project elsewhere.
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "world/README.md": "world.md",
    "world/biaslab_world/DATA.md": "data.md",
}
# The modules that the reference shows, by page: those of the stable API, which docs/reference/library.md lists.
REFERENCE = {
    "metrics": ["biaslab.metrics"],
    "stats": ["biaslab.stats"],
    "reference": ["biaslab.reference"],
    "study": ["biaslab.study.study"],
    "paradox": [
        f"biaslab.papers.paradox.{name}" for name in ("analysis", "measure", "example_images", "figures", "printed")
    ],
    "paired": [f"biaslab.papers.paired.{name}" for name in ("analysis", "measure", "figures", "printed")],
    "dalleval": [f"biaslab.papers.dalleval.{name}" for name in ("analysis", "measure", "figures", "printed")],
    "triplets": [f"biaslab.papers.triplets.{name}" for name in ("analysis", "measure", "figures", "printed")],
    "custom": [f"biaslab.analyses.custom.{name}" for name in ("analysis", "measure", "figures")],
    "precision": [f"biaslab.analyses.precision.{name}" for name in ("analysis", "measure", "figures")],
    "ratings": [f"biaslab.analyses.ratings.{name}" for name in ("analysis", "figures")],
    "synthesis": [f"biaslab.analyses.synthesis.{name}" for name in ("curve", "models", "figures")],
    "plugins": ["biaslab.hub.registry", "biaslab.hub.ground_truth", "biaslab.judges.plugins"],
}
# Notebooks that stand below no paper's page.
OTHERS = {"custom": "Custom prompts and images", "synthesis": "Across the papers"}


def on_config(config):
    """Put the notebooks below their papers, and the reference of modules at its end."""
    folders = sorted(
        {path.parent.name for path in _notebooks()}, key=lambda name: (name in OTHERS, tables.place(f"{name}/"))
    )
    pages = {name: [f"notebooks/{p.parent.name}/{p.stem}.md" for p in _notebooks(name)] for name in folders}
    for section in config.nav:
        if "Papers" in section:
            own = {Path(page).stem: page for page in section["Papers"]}
            section["Papers"] = [
                {OTHERS.get(name, name): [*([own[name]] if name in own else []), *pages[name]]} for name in pages
            ]
        if "Reference" in section:
            section["Reference"] += [{"Modules": [f"reference/{name}.md" for name in REFERENCE]}]
    return config


def on_files(files: Files, config) -> Files:
    """Add the generated pages."""

    def add(path: str, text: str) -> None:
        files.append(File.generated(config, path, content=text))

    for name, place in PLACES.items():
        add(place, _linked((ROOT / name).read_text(encoding="utf-8"), Path(name).parent))
    # The README links to it as a file.
    add("CITATION.cff", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for path in _notebooks():
        add(f"notebooks/{path.parent.name}/{path.stem}.md", _notebook(path))
    for name, packages in REFERENCE.items():
        modules = [module for package in packages for module in _modules(package)]
        add(f"reference/{name}.md", f"# {name}\n\n" + "\n\n".join(f"::: {module}" for module in modules))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Return a page with its links as the site has them, its formulas as pictures, and what is put in."""
    if match := re.search(r"\{\{ (\w+) \}\}", markdown):
        markdown = markdown.replace(match[0], PUT_IN[match[1]]())
    if page.file.src_uri.startswith("papers/"):
        markdown = _formulas(markdown)
    if page.file.generated_by or page.file.src_uri.startswith("notebooks/"):
        return markdown
    return _linked(markdown, Path("docs") / Path(page.file.src_uri).parent)


def on_page_content(html: str, page, config, files) -> str:
    """Return a page without the roles that docstrings give names."""
    return re.sub(r":(?:func|class|mod|data|attr|meth|exc):(?=<code)", "", html)


def _linked(text: str, folder: Path) -> str:
    """Return a page of a ``folder`` of the project with links to pages as the site has them."""

    up = "../" * (len(folder.parts) - 1) if folder.parts[:1] == ("docs",) else ""

    def moved(match: re.Match) -> str:
        target, *anchor = match[1].split("#")
        if not target or "://" in target:
            return match[0]
        there = Path(*_plain((folder / target).parts))
        if there.suffix == ".ipynb":
            there = Path(*there.parts[-3:]).with_suffix(".md")
        place = PLACES.get(there.as_posix(), there.as_posix().removeprefix("docs/"))
        return f"]({'#'.join([up + place, *anchor])})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)


def _plain(parts: tuple[str, ...]) -> list[str]:
    """Return the parts of a path without steps upwards."""
    found: list[str] = []
    for part in parts:
        found = found[:-1] if part == ".." else [*found, part]
    return found


def _notebooks(folder: str = "*") -> list[Path]:
    brought = ROOT.glob(f"world/biaslab_world/*/notebooks/{folder}/*.ipynb")
    return sorted([*ROOT.glob(f"notebooks/{folder}/*.ipynb"), *brought], key=lambda path: path.parts[-2:])


def _commands() -> str:
    """Return the help of each command."""
    (subparsers,) = (a for a in cli.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {choice.dest: choice.help for choice in subparsers._choices_actions}
    parts = []
    for name, parser in subparsers.choices.items():
        parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=88, max_help_position=28)
        text = summaries[name][0].upper() + summaries[name][1:]
        parts.append(f"## {name}\n\n{text}.\n\n```text\n{parser.format_help().strip()}\n```")
    return "\n\n".join(parts)


def _settings() -> str:
    """Return all settings, a heading a group."""
    parts = []
    for group, about in settings_reference.groups().items():
        inside = [one for one in settings_reference.find_declared() if one.name.rpartition(".")[0] == group]
        if inside:
            parts.append(f"## {group or 'Beside the groups'}\n\n{about}")
        for one in inside:
            more = "".join(f" {text[0].upper()}{text[1:]}." for text in one.package_default)
            parts.append(f"`{one.name}`{{ #{one.name} }}\n:   {one.meaning}{more}\n\n    *{one.facts}*")
    return "\n\n".join(parts)


def _limits() -> str:
    return "\n".join(f"- {text}" for text in caveats.LIMITS)


def _tables() -> str:
    """Return every declared table by the paper whose it is, with its columns."""
    parts, papers = [], list(tables.papers())
    by_place = sorted(tables.schemas().items(), key=lambda one: (tables.place(one[0]), one[0]))
    for paper, found in groupby(by_place, key=lambda one: one[0].partition("_")[0]):
        parts.append(f"## {paper if paper in papers else 'Others'}" if paper in papers or paper == "pipeline" else "")
        for name, schema in found:
            if not schema.description:
                continue
            columns = ", ".join(f"(`{c.name}`)" if c.optional else f"`{c.name}`" for c in schema.columns)
            text = " ".join(f"{schema.title}. {schema.description}".split())
            parts.append(f"`{name}`{{ #{name} }}\n:   {text}\n\n    *{columns}*")
    return "\n\n".join(filter(None, parts))


# What pages name in double braces.
PUT_IN = {"commands": _commands, "settings": _settings, "limits": _limits, "tables": _tables}


def _modules(package: str) -> list[str]:
    """Return a module itself, or the public modules of a package that have something to say."""
    root = ROOT if package.startswith("biaslab.") else ROOT / "world"
    path = root / Path(*package.split("."))
    if path.with_suffix(".py").is_file():
        return [package]
    found = sorted(path.rglob("*.py"))
    names = [p.relative_to(root).with_suffix("").parts for p in found if not p.stem.startswith("_")]
    return [".".join(parts) for parts in names]


def _notebook(path: Path) -> str:
    """Return a notebook's prose and code as Markdown: its outputs are in the reports."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(_formulas(source) if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts)


def _formulas(text: str) -> str:
    text = re.sub(r"\$\$(.+?)\$\$", lambda m: formula_html(m[1], display=True), text, flags=re.DOTALL)
    return re.sub(r"(?<![\\$\w])\$([^$\n]+?)\$(?!\d)", lambda m: formula_html(m[1]), text)
