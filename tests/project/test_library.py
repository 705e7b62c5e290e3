"""The page of the stable API: listed names are importable, and required names are listed."""

import ast
import doctest
import importlib
import json
import re
import runpy
from pathlib import Path

import pytest

from biaslab import metrics, plugins, stats

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
LISTED = {
    module: set(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(r"^\| `(biaslab[\w.]*)` \| ((?:`\w+`(?:, )?)+) \|$", PAGE, re.MULTILINE)
}


def test_library_page_examples_pass_doctest():
    blocks = "".join(re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(blocks, {}, "library.md", None, 0)
    problems = []
    assert len(test.examples) >= 10
    assert doctest.DocTestRunner(verbose=False).run(test, out=problems.append).failed == 0, "".join(problems)


def import_name(dotted):
    """Return the module, or the attribute of a module, of a dotted name."""
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError:
        owner, _, name = dotted.rpartition(".")
        return getattr(import_name(owner), name)


def names_in_notebooks():
    """Yield each name of biaslab that a notebook imports, or takes of a module that it imports: module and name."""
    for path in sorted((ROOT / "notebooks").glob("*/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        tree = ast.parse(re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE))
        modules = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("biaslab."):
                yield from ((node.module, alias.name) for alias in node.names if not is_module(node.module, alias.name))
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "biaslab":
                modules |= {
                    alias.asname or alias.name: f"{node.module}.{alias.name}"
                    for alias in node.names
                    if is_module(node.module, alias.name)
                }
        for node in ast.walk(tree):
            parts = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else []
            if parts and parts[0] in modules and all(map(str.isidentifier, parts)):
                owner, rest = modules[parts[0]], parts[1:]
                while len(rest) > 1 and is_module(owner, rest[0]):
                    owner, rest = f"{owner}.{rest[0]}", rest[1:]
                if not is_module(owner, rest[0]):
                    yield owner, rest[0]


def is_module(owner, name):
    try:
        importlib.import_module(f"{owner}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("module", LISTED)
def test_listed_names_are_importable(module):
    owner = import_name(module)
    assert [name for name in LISTED[module] if not hasattr(owner, name)] == []


@pytest.mark.parametrize("package", [metrics, stats], ids=lambda package: package.__name__)
def test_public_packages_are_listed_completely(package):
    assert LISTED[package.__name__] == set(package.__all__)


def test_names_used_in_notebooks_are_listed():
    used = set(names_in_notebooks())
    assert len(used) > 200
    assert sorted((module, name) for module, name in used if name not in LISTED.get(module, ())) == []


def test_dotted_names_in_prose_are_importable():
    groups = set(plugins.GROUPS)
    for dotted in set(re.findall(r"`(biaslab\.[\w.]+)`", PAGE)) - groups:
        assert import_name(dotted) is not None
    assert all(f"`{group}`" in PAGE for group in groups)


def test_reference_pages_show_listed_modules():
    hooks = runpy.run_path(str(ROOT / "docs/hooks.py"))
    for package in (package for packages in hooks["REFERENCE"].values() for package in packages):
        for module in hooks["_modules"](package):
            assert any(listed == module or module.startswith(f"{listed}.") for listed in LISTED) or module in PAGE, (
                module
            )
