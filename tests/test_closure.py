"""Keys follow the modules that a result comes from: all of them, and nothing else."""

import ast
import functools
import types
from functools import partial

import numpy as np
import pandas as pd
import pytest

from biaslab.keep import closure

STAGE = '''"""A stage."""
from __future__ import annotations
from typing import TYPE_CHECKING
from biaslab import VERSION, tools
from biaslab.rooms import door
from .near import neighbour as beside
if TYPE_CHECKING:
    from biaslab.report import Page

LIMIT = 3

def work(rows: list) -> list:
    """Work."""
    from biaslab.late import later
    # A comment.
    return [tools.tool(r) + helper(r) + door() + beside() + later() for r in rows if r < LIMIT]

def helper(r):
    return r

def unused(page: Page):
    return page
'''
FILES = {
    "__init__.py": "VERSION = 1\n",
    "stage.py": STAGE,
    "tools.py": "def tool(r):\n    return _inner(r)\ndef _inner(r):\n    return r\ndef other():\n    return 1\n",
    "near.py": "def neighbour():\n    return 1\n",
    "late.py": "import torch, tqdm\ndef later():\n    return torch.ones(1)\n",
    "report.py": "class Page:\n    pass\n",
    "rooms/__init__.py": "from biaslab.rooms.doors import door\n",
    "rooms/doors.py": "def door():\n    return read()\ndef read():\n    return __file__\n",
    "rooms/data/words.json": "[1]",
    "rooms/notes.md": "Notes.",
    "deaf.py": "import importlib\ndef deaf():\n    return importlib.import_module('biaslab.near')\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a small package and returns the code that a function of it depends on."""
    root = tmp_path / "biaslab"
    monkeypatch.setattr(closure, "_ROOT", root)
    monkeypatch.setattr(closure, "_known", {})
    monkeypatch.setattr(closure, "_read", set())
    monkeypatch.setenv("BIASLAB_STORE", str(tmp_path / "none"))

    def forget():
        closure._found.cache_clear()
        closure._place.cache_clear()

    def write(changes=None, name="stage.work"):
        forget()
        for path, text in {**FILES, **(changes or {})}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        work = types.FunctionType((lambda rows: rows).__code__, {})
        work.__module__, work.__qualname__ = f"biaslab.{name.split('.')[0]}", name.split(".", 1)[1]
        return closure.of(work)

    yield write
    forget()


def test_the_closure_is_what_is_used_and_no_more(package):
    names = ("stage", "tools", "near", "late", "rooms:door", "rooms.doors")
    assert set(package()) == {"package:torch", *(f"biaslab.{name}" for name in names)}
    # A module by its name in a text.
    assert set(package(name="deaf.deaf")) == {"biaslab.deaf", "biaslab.near"}


CHANGES = {
    "own code": ("stage.py", "helper(r) + door()", "helper(r) * door()"),
    "a constant": ("stage.py", "LIMIT = 3", "LIMIT = 4"),
    "a default": ("stage.py", "def helper(r)", "def helper(r, more=1)"),
    "an import at the top": ("tools.py", "return _inner(r)", "return 2 * _inner(r)"),
    "a relative import": ("near.py", "return 1", "return 2"),
    "an import in a function": ("late.py", "ones(1)", "ones(2)"),
    "behind a package": ("rooms/doors.py", "return read()", "return 2 * read()"),
    "data that are read": ("rooms/data/words.json", "[1]", "[2]"),
    "another function under that name": (
        "rooms/__init__.py",
        "from biaslab.rooms.doors import door",
        "from biaslab.near import neighbour as door",
    ),
    "another function of the same module under that name": ("rooms/__init__.py", "import door", "import read as door"),
}
SILENT = {
    "a docstring": ("stage.py", '"""Work."""', '"""Works."""'),
    "a module's docstring": ("stage.py", '"""A stage."""', ""),
    "a comment": ("stage.py", "# A comment.", "# Another."),
    "layout": ("stage.py", "[tools.tool(r) + ", "[\n        tools.tool(r)\n        + "),
    "annotations": ("stage.py", "rows: list) -> list", "rows: tuple) -> tuple"),
    "an import for types": ("report.py", "pass", "x = 1"),
    "prose": ("rooms/notes.md", "Notes.", "More notes."),
    "the version": ("__init__.py", "VERSION = 1", "VERSION = 2"),
    "what else a package hands on": (
        "rooms/__init__.py",
        "import door\n",
        "import door\nfrom biaslab.deaf import deaf\n",
    ),
}


@pytest.mark.parametrize("what", CHANGES | SILENT)
def test_code_that_matters_changes_the_key_and_what_does_nothing_leaves_it(package, what):
    path, old, new = (CHANGES | SILENT)[what]
    before = package()
    assert FILES[path].count(old) == 1
    assert (package({path: FILES[path].replace(old, new)}) != before) == (what in CHANGES)


# A package that only hands on, another that hands on what that one does, and a module that imports it.
HANDS = {
    "hands/__init__.py": "from biaslab import near\nfrom biaslab.rooms import door\nfrom biaslab.tools import tool\n",
    "again/__init__.py": "from biaslab.hands import tool as hammer\n__all__ = ['hammer']\n",
    "uses.py": "from biaslab import again, hands\ndef uses(r):\n    return hands.tool(r)\n",
    # What a package holds has the name of one of its modules, and is of another.
    "both/__init__.py": "from biaslab.near import neighbour as same\n",
    "both/same.py": "def same():\n    return 1\n",
}
NEAR, TOOLS, DOORS = "biaslab.near", "biaslab.tools", "biaslab.rooms.doors"
WHOLE = {"biaslab.hands", "biaslab.rooms:door", NEAR, TOOLS, DOORS}
USES = {
    "from biaslab import hands\nhands.tool(1)": {"biaslab.hands:tool", TOOLS},
    "from biaslab.hands import tool": {"biaslab.hands:tool", TOOLS},
    "from biaslab import hands\nhands.near.neighbour()": {"biaslab.hands:near", NEAR},
    "from biaslab import hands\nhands.door()": {"biaslab.hands:door", "biaslab.rooms:door", DOORS},
    "from biaslab import again\nagain.hammer(1)": {"biaslab.again:hammer", "biaslab.hands:tool", TOOLS},
    # Through what a module imports.
    "from biaslab import uses\nuses.hands.near": {
        *("biaslab.uses", "biaslab.again", "biaslab.hands:near", "biaslab.hands:tool"),
        *(NEAR, TOOLS),
    },
    "from biaslab.both import same\nsame()": {"biaslab.both:same", "biaslab.both.same", NEAR},
    # Its names cannot be known, so all that it hands on counts.
    "from biaslab import hands\ngetattr(hands, name)": WHOLE,
    "from biaslab import hands\nhands.unknown": WHOLE,
    "from biaslab.hands import *": WHOLE,
    "from biaslab import hands": WHOLE,
    "import biaslab.hands\nbiaslab.hands.tool": {*WHOLE, "biaslab.hands:tool"},
}


@pytest.mark.parametrize("cell", USES)
def test_what_only_hands_on_counts_by_the_names_that_are_used(package, cell):
    package(HANDS)
    assert set(closure.of(*closure.used([cell]))) == USES[cell]


def test_cells_import_modules(package):
    package()
    cells = ["%matplotlib inline\nfrom biaslab import tools", "tools.other()", "from biaslab.rooms import (\n  door\n)"]
    assert closure.imported(cells) == {"biaslab.tools", "biaslab.rooms"}
    # Of a cell that is no Python, the lines that are.
    broken = ["from biaslab import near, VERSION\nimport torch, biaslab.late\nx = ("]
    assert closure.imported(broken) == {"biaslab", "biaslab.near", "biaslab.late"}


def test_cells_use_names_of_what_they_import(package):
    package(HANDS)
    # Across cells; what stands in a magic, or beside a cell that is no Python, could use any.
    cells = ["from biaslab import hands", "x = hands.tool(hands.near.neighbour())"]
    names = {"biaslab.hands.tool", "biaslab.hands.near.neighbour"}
    assert closure.used(cells) == names
    assert closure.used([*cells, "%time 1"]) == names
    for other in ("%time hands.door()", "  !echo {hands}", "y = ("):
        assert closure.used([*cells, other]) == {*names, "biaslab.hands"}


def test_what_was_found_is_kept_for_the_next_process(package, tmp_path, monkeypatch):
    def anew():
        monkeypatch.setattr(closure, "_known", {})
        monkeypatch.setattr(closure, "_read", set())
        return closure.of("biaslab.tools")

    package()
    monkeypatch.setenv("BIASLAB_STORE", str(tmp_path))
    kept = tmp_path / closure.KEPT
    first = anew()
    assert kept.exists()
    with monkeypatch.context() as patch:
        patch.setattr(closure, "_summary", lambda *_: pytest.fail("read again"))
        assert anew() == first
    # A file that was changed is read again; one that is no such file is passed over.
    (tmp_path / "biaslab/tools.py").write_text("def tool():\n    return 5\n")
    second = closure.of("biaslab.tools")
    assert second != first
    for text in ("{", "[]", '{"format": 0}'):
        kept.write_text(text)
        assert anew() == second


def holding(value):
    def work(rows):
        return value

    return work


LEVEL = 1


def leveled(rows):
    return rows * LEVEL


def test_functions_from_elsewhere_count_with_what_they_hold(monkeypatch):
    values = [1, 1.0, "1", (1,), [1], {1: 1}, {1}, np.ones(1), np.ones(2), pd.DataFrame({"a": [1]})]
    found = [closure.digest(holding(value)) for value in values]
    assert len(set(found)) == len(values)
    assert found == [closure.digest(holding(value)) for value in values]
    assert closure.digest(holding(np.zeros(1))) not in found
    assert closure.digest(lambda rows: 1) != closure.digest(lambda rows: 2)
    before = closure.digest(leveled)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert closure.digest(leveled) != before
    # Functions that it holds, and those of this package.
    assert closure.digest(holding(leveled)) != closure.digest(holding(holding(1)))
    assert closure.digest(partial(leveled, 1)) != closure.digest(partial(leveled, 2))

    # What functions of this package hold is told by a stage's inputs; only the code of a function counts.
    def given(value):
        held = types.FunctionType((lambda: value).__code__, {}, closure=(types.CellType(value),))
        held.__module__ = "biaslab.ground.errors"
        return closure.digest(held)

    assert given(1) == given(2)
    assert given(holding(1)) == given(holding(2)) != given(leveled)

    @functools.cache
    def cached(rows):
        return LEVEL

    assert "function:" in "".join(closure.of(cached))


def test_a_module_that_no_source_names_is_known(root):
    """Imports by names that are made at run time are few.

    Who needs them adds the modules itself, the pipeline's rehearsal decides about no number, and headlines of a run,
    and who is in its pictures, are read by commands alone.
    """
    found = set()
    for path in (root / "biaslab").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "import_module" in text or "__import__" in text else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                named = node.args and isinstance(node.args[0], ast.Constant)
                if name in ("import_module", "__import__") and not named:
                    found.add(path.relative_to(root / "biaslab").as_posix())
    runs = {f"runs/{name}.py" for name in ("plan", "jobs", "pictures", "units")}
    assert found == {"keep/kernels.py", *runs}
