"""How the package is laid out: which room may import which, and what notebooks show of what is declared."""

import ast
import re
from graphlib import TopologicalSorter
from operator import attrgetter
from pathlib import Path

import pytest

from biaslab import tables, texts
from biaslab.params import find_notebooks
from biaslab.settings import Settings

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "biaslab"
# Below papers: whatever they are built from knows none of them.
GROUND = (
    "attribution",
    "captions",
    "generation",
    "judging",
    "mitigation",
    "net",
    "measures",
    "stats",
    "pipeline",
    "plots",
)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports(tree: ast.AST, *, when_loaded: bool) -> set[tuple[str, str]]:
    """Return module and name of the package's imports: all of them, or those outside of functions."""
    found = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "biaslab":
            found.update((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update((a.name, "") for a in node.names if a.name.split(".")[0] == "biaslab")
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if not (when_loaded and inner):
            for child in ast.iter_child_nodes(node):
                look(child)

    look(tree)
    return found


def needed(name: str) -> set[str]:
    """Return the modules that a module names outside of functions, for types too."""
    found = set()
    for module, taken in imports(TREES[name], when_loaded=True):
        # A module inside of a package that is being loaded does not wait for the package.
        inner = f"{module}.{taken}"
        found.add(inner if inner in MODULES else module)
    return found - {name}


def test_no_module_waits_for_itself():
    sorter = TopologicalSorter({name: needed(name) for name in MODULES})
    sorter.prepare()  # raises CycleError, which names the circle


def test_no_private_name_is_imported_from_another_module():
    found = [
        f"{name}: {module}.{taken}"
        for name, tree in TREES.items()
        for module, taken in imports(tree, when_loaded=False)
        if taken.startswith("_") and not taken.startswith("__")
    ]
    assert found == []


def test_imports_name_what_is_there():
    for name, tree in TREES.items():
        for module, _ in imports(tree, when_loaded=False):
            assert module in MODULES, f"{name} imports {module}"


@pytest.mark.parametrize("room", GROUND)
def test_papers_are_built_from_rooms_that_know_none_of_them(room):
    for name in MODULES:
        if name.startswith(f"biaslab.{room}"):
            above = {m for m, _ in imports(TREES[name], when_loaded=False) if m.startswith("biaslab.papers")}
            assert above == set(), name
            assert "biaslab.study" not in needed(name), name


# -- what notebooks show -----------------------------------------------------------------------------------


def calls(attribute: str) -> list[tuple[str, ast.Call]]:
    """Return each call of ``study.ATTRIBUTE(…)`` in a notebook, with the notebook's id."""
    found = []
    for notebook in find_notebooks(ROOT / "notebooks"):
        for node in ast.walk(ast.parse("\n".join(notebook.cells))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == attribute:
                found.append((notebook.id, node))
    return found


def words() -> set[str]:
    """Return the texts of one word in notebooks' code, and the tables that they take."""
    notebooks = find_notebooks(ROOT / "notebooks")
    found = {word for n in notebooks for word in re.findall(r"""["'](\w+)["']""", "\n".join(n.cells))}
    return found.union(*(n.takes for n in notebooks))


def first_text(call: ast.Call) -> str | None:
    return call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None


def test_notebooks_ask_for_settings_that_there_are():
    asked = set()
    for notebook in find_notebooks(ROOT / "notebooks"):
        code = notebook.path.read_text(encoding="utf-8")
        asked |= set(re.findall(r"study\.settings\.([a-z_.]*[a-z_])", code))
    assert asked
    for name in asked:
        attrgetter(name)(Settings())


def test_every_text_is_of_a_figure_that_a_notebook_shows():
    known = set(texts._figures())
    named = set()
    for notebook, call in calls("show"):
        options = {k.arg: k.value for k in call.keywords}
        given = options.get("text", call.args[0])
        # Of what is given in a dict, the text is among the words of the notebook.
        if None not in options:
            assert isinstance(given, ast.Constant), f"{notebook}: {ast.unparse(call)} names no text"
            named.add(given.value)
    assert named - known == set()
    assert known - words() == set()


def test_every_declared_table_is_saved_or_measured():
    saved = {first_text(call) for _, call in calls("save")}
    declared = set(tables.schemas())
    assert saved - declared == set()
    # A row an image, for whoever looks into single ones: no report lists them.
    assert declared - saved - words() == {"paired_images"}
