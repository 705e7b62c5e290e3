"""Pages of the site that come from other folders: READMEs, notebooks with their outputs, and docstrings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from mkdocs.structure.files import File, Files

from biaslab.report.formulas import formula_html
from biaslab.report.notebook import sanitise
from biaslab.schema import tables

ROOT = Path(__file__).resolve().parents[1]
# Where pages of the site lie that are files of the project elsewhere.
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "world/README.md": "world.md",
    "world/biaslab_world/DATA.md": "data.md",
    # Links to code lead to the page of its docstrings.
    **{f"biaslab/{name}": f"reference/{name}.md" for name in ("metrics", "stats", "reference", "study")},
    "biaslab/judges/plugins.py": "reference/plugins.md",
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
# Runs whose outputs notebooks show, the first that has them, and what a page says of them.
RUNS = {
    "published": "The outputs are computed from the values that the papers print "
    "(`biaslab run params/published.yaml`).",
    "mini": "The outputs come from a small model of the [synthetic world](../../world.md) "
    "(`biaslab run world/params/mini.yaml`). They do not show how deployed models behave.",
}
NO_OUTPUTS = (
    "This page has no outputs: the notebook needs generated images or annotations. "
    "`biaslab run world/params/mini.yaml` executes it on the [synthetic world](../../world.md)."
)
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
        if not name.endswith(".md"):
            continue
        add(place, _linked((ROOT / name).read_text(encoding="utf-8"), Path(name).parent))
    # The README links to it as a file.
    add("CITATION.cff", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for path in _notebooks():
        place = f"notebooks/{path.parent.name}/{path.stem}"

        def add_image(number: int, data: bytes, place: str = place) -> str:
            files.append(File.generated(config, f"{place}-{number}.png", content=data))
            return f"{Path(place).name}-{number}.png"

        add(f"{place}.md", _notebook(path, add_image))
    for name, packages in REFERENCE.items():
        modules = [module for package in packages for module in _modules(package)]
        add(f"reference/{name}.md", f"# {name}\n\n" + "\n\n".join(f"::: {module}" for module in modules))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Return a page with its links as the site has them, and its formulas as images."""
    if page.file.src_uri.startswith(("papers/", "methodology", "comparison")):
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


def _modules(package: str) -> list[str]:
    """Return a module itself, or the public modules of a package that have something to say."""
    root = ROOT if package.startswith("biaslab.") else ROOT / "world"
    path = root / Path(*package.split("."))
    if path.with_suffix(".py").is_file():
        return [package]
    found = sorted(path.rglob("*.py"))
    names = [p.relative_to(root).with_suffix("").parts for p in found if not p.stem.startswith("_")]
    return [".".join(parts) for parts in names]


def _notebook(path: Path, add_image: Callable[[int, bytes], str]) -> str:
    """Return a notebook's prose, code and outputs as Markdown; ``add_image`` takes a PNG and returns its address."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    note, outputs = _outputs(path, [_source(cell) for cell in cells if cell["cell_type"] == "code"])
    parts, number = [], 0
    for cell in cells:
        if cell["cell_type"] == "markdown":
            parts.append(_formulas(_source(cell)))
            continue
        parts.append(f"```python\n{_source(cell)}\n```")
        for output in next(outputs, ()):
            number += 1
            parts.append(_output(output, lambda data, number=number: add_image(number, data)))
    # Below the title.
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"*{note}*", rest.strip(), *filter(None, parts[1:])])


def _outputs(path: Path, sources: list[str]) -> tuple[str, Iterator[list[dict]]]:
    """Return a note on a notebook's outputs, and those of each code cell, of a run of this code without errors."""
    for run, note in RUNS.items():
        executed = ROOT / "outputs" / run / "notebooks" / path.parent.name / path.name
        if executed.is_file():
            cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
            cells = [cell for cell in cells if cell["cell_type"] == "code"]
            cells = [cell for cell in cells if "injected-parameters" not in cell["metadata"].get("tags", [])]
            failed = any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
            if [_source(cell) for cell in cells] == sources and not failed:
                return note, iter([cell["outputs"] for cell in cells])
    return NO_OUTPUTS, iter(())


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _output(output: dict, add_image: Callable[[bytes], str]) -> str:
    """Return an output of a cell as HTML."""
    data = output.get("data", {})
    if "image/png" in data:
        alt = output["metadata"].get("image/png", {}).get("alt", "Figure.")
        place = add_image(base64.b64decode("".join(data["image/png"])))
        return f'<figure><img src="{place}" alt="{escape(alt)}"><figcaption>{escape(alt)}</figcaption></figure>'
    if "text/html" in data:
        # Without blank lines, which would end the block.
        return f'<div class="output" data-search-exclude>{" ".join(sanitise("".join(data["text/html"])).split())}</div>'
    text = output.get("text") or data.get("text/plain") or ""
    return f'<pre class="output" data-search-exclude>{escape("".join(text).rstrip())}</pre>'


def _formulas(text: str) -> str:
    text = re.sub(r"\$\$(.+?)\$\$", lambda m: formula_html(m[1], display=True), text, flags=re.DOTALL)
    return re.sub(r"(?<![\\$\w])\$([^$\n]+?)\$(?!\d)", lambda m: formula_html(m[1]), text)
