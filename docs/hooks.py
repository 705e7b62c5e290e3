"""Pages of the site that come from elsewhere: the READMEs, the notebooks' steps, and what docstrings say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

from biaslab.report.formulas import formula_html

ROOT = Path(__file__).resolve().parents[1]
# Where pages of the site lie that others link to as files of the project.
PLACES = {
    "docs/": "",
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../world/README.md": "world.md",
    "CONTRIBUTING.md": "contributing.md",
    "world/README.md": "world.md",
}
# What the reference has a page of, with the packages on it.
REFERENCE = {
    "study": ["biaslab.study", "biaslab.papers.findings", "biaslab.settings"],
    "paradox": ["biaslab.papers.paradox"],
    "paired": ["biaslab.papers.paired"],
    "dalleval": ["biaslab.papers.dalleval"],
    "triplets": ["biaslab.papers.triplets"],
    "synthesis": ["biaslab.papers.synthesis"],
    "ratings": ["biaslab.papers.ratings", "biaslab.ratings"],
    "judges": ["biaslab.judging.judge", "biaslab.judging.settings"],
    "packages": ["biaslab.ground.plugins", "biaslab.models", "biaslab.models.truths"],
    "world": ["biaslab_world"],
}


def on_files(files: Files, config) -> Files:
    """Add the generated pages."""

    def add(path: str, text: str) -> None:
        files.append(File.generated(config, path, content=text))

    add("index.md", _linked((ROOT / "README.md").read_text(encoding="utf-8")))
    add("contributing.md", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    add("world.md", (ROOT / "world" / "README.md").read_text(encoding="utf-8"))
    brought = ROOT.glob("world/biaslab_world/*/notebooks/*/*.ipynb")
    for path in sorted([*ROOT.glob("notebooks/*/*.ipynb"), *brought], key=lambda path: path.parts[-2:]):
        add(f"notebooks/{path.parent.name}/{path.stem}.md", _notebook(path))
    for name, packages in REFERENCE.items():
        modules = [module for package in packages for module in _modules(package)]
        add(f"reference/{name}.md", f"# {name}\n\n" + "\n\n".join(f"::: {module}" for module in modules))
    for folder in ("measures", "stats"):
        modules = _modules(f"biaslab.{folder}")
        add(f"reference/{folder}.md", f"# {folder}\n\n" + "\n\n".join(f"::: {module}" for module in modules))
    return files


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Return the guide with its links as the site has them."""
    return _linked(markdown) if page.file.src_uri == "guide.md" else markdown


def _linked(text: str) -> str:
    for there, here in PLACES.items():
        text = text.replace(f"]({there}", f"]({here}")
    return text


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
