"""The digest of code changes with all that a result comes from, and with nothing that only people read."""

import ast
import functools
import importlib
import json
import os
import subprocess
import sys
import types
from functools import cached_property, partial

import numpy as np
import pandas as pd
import pytest

from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.captions.indicators import indicate

STAGE = '''"""A stage."""
from __future__ import annotations
from typing import TYPE_CHECKING
from guest import tools
from guest.rooms import door
from .near import neighbour as beside
if TYPE_CHECKING:
    from guest.report import Page

LIMIT = 3

def work(rows: list) -> list:
    """Work."""
    from guest.late import later
    # A comment.
    return [tools.tool(r) + helper(r) + door() + beside() + later() for r in rows if r < LIMIT]

def helper(r):
    return r

def unused(page: Page):
    return page
'''
FILES = {
    "__init__.py": "",
    "stage.py": STAGE,
    "tools.py": "from guest import whole\nimport guest.dotted.inner\ndef tool(r):\n    return whole.part.x + r\n",
    "near.py": "def neighbour():\n    return 1\n",
    "late.py": "import torch, tqdm\nNAMED = 'guest.named'\nENTRY = 'guest.entry:load'\ndef later():\n    return 1\n",
    "named.py": "x = 1\n",
    "entry.py": "x = 1\n",
    "report.py": "class Page:\n    pass\n",
    "rooms/__init__.py": "from guest.rooms.doors import door\n",
    "rooms/doors.py": "def door():\n    return read()\ndef read():\n    return __file__\n",
    "rooms/data/words.json": "[1]",
    "rooms/notes.md": "Notes.",
    # Modules in a package that is imported as an object.
    "whole/__init__.py": "",
    "whole/part.py": "x = 1\n",
    "dotted/__init__.py": "",
    "dotted/inner.py": "x = 1\n",
    "apart.py": "x = 1\n",
    "held.py": "class Model:\n    pass\n",
}


def forget():
    for cached in (code_digest._path, code_digest._source, code_digest._file_hash):
        cached.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a package with plug-ins and returns the code that a function of it depends on."""
    monkeypatch.setattr(plugins, "plugin_packages", lambda: frozenset({"guest"}))
    monkeypatch.syspath_prepend(tmp_path)

    def write(changes=None, name="stage.work"):
        for path, text in {**FILES, **(changes or {})}.items():
            (tmp_path / "guest" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "guest" / path).write_text(text)
        importlib.invalidate_caches()
        forget()
        work = types.FunctionType((lambda rows: rows).__code__, {})
        work.__module__, work.__qualname__ = f"guest.{name.split('.')[0]}", name.split(".", 1)[1]
        return code_digest.function_digests(work)

    yield write
    forget()


def test_the_modules_are_those_that_are_imported_or_named(package):
    names = ("stage", "tools", "near", "late", "named", "entry", "rooms", "rooms.doors", "whole", "whole.part")
    names += ("dotted.inner",)
    assert set(package()) == {"package:torch", "guest", *(f"guest.{name}" for name in names)}


CHANGES = {
    "own code": ("stage.py", "helper(r) + door()", "helper(r) * door()"),
    "a constant": ("stage.py", "LIMIT = 3", "LIMIT = 4"),
    "a default": ("stage.py", "def helper(r)", "def helper(r, more=1)"),
    "the name of an argument": ("stage.py", "def helper(r)", "def helper(q)"),
    "an import at the top": ("tools.py", "x + r", "x * r"),
    "a relative import": ("near.py", "return 1", "return 2"),
    "an import in a function": ("late.py", "return 1", "return 2"),
    "an imported constant": ("whole/part.py", "x = 1", "x = 2"),
    "a module with dots": ("dotted/inner.py", "x = 1", "x = 2"),
    "a module that a text names": ("named.py", "x = 1", "x = 2"),
    "an entry point in a text": ("entry.py", "x = 1", "x = 2"),
    "behind a package": ("rooms/doors.py", "return read()", "return 2 * read()"),
    "data that are read": ("rooms/data/words.json", "[1]", "[2]"),
    "another function under that name": ("rooms/__init__.py", "import door", "import read as door"),
}
SILENT = {
    "a docstring": ("stage.py", '"""Work."""', '"""Works."""'),
    "a module's docstring": ("stage.py", '"""A stage."""', ""),
    "a comment": ("stage.py", "# A comment.", "# Another."),
    "layout": ("stage.py", "[tools.tool(r) + ", "[\n        tools.tool(r)\n        + "),
    "annotations": ("stage.py", "rows: list) -> list", "rows: tuple) -> tuple"),
    "an import for types": ("report.py", "pass", "x = 1"),
    "prose": ("rooms/notes.md", "Notes.", "More notes."),
    "a module that is not imported": ("apart.py", "x = 1", "x = 2"),
}


@pytest.mark.parametrize("what", CHANGES | SILENT)
def test_code_that_matters_changes_the_key_and_the_rest_does_not(package, what):
    path, old, new = (CHANGES | SILENT)[what]
    before = package()
    assert FILES[path].count(old) == 1
    assert (package({path: FILES[path].replace(old, new)}) != before) == (what in CHANGES)


def test_a_source_that_changes_while_the_process_runs_is_read_again(package, tmp_path):
    before = package()
    path = tmp_path / "guest/near.py"
    path.write_text("def neighbour():\n    return 2\n")
    os.utime(path, (1.7e9, 1.7e9))
    assert code_digest.function_digests("guest.stage") != before


def test_the_classes_of_held_objects_count(package):
    package()
    model = importlib.import_module("guest.held").Model()
    assert "guest.held" in code_digest.function_digests(partial(len, model))
    # In the attributes of another object as well, unless they come and go with its use.
    holder, kind = importlib.import_module("guest.held").Model(), type(model)
    holder.model = types.MethodType(lambda self: self, importlib.import_module("guest.tools"))
    assert {"guest.held", "guest.tools"} <= set(code_digest.function_digests(holder))
    kind.lazy = cached_property(lambda self: importlib.import_module("guest.apart"))
    kind.lazy.__set_name__(kind, "lazy")
    before = code_digest.function_digests(model)
    assert model.lazy.x == 1 and code_digest.function_digests(model) == before
    for name in [name for name in sys.modules if name.split(".")[0] == "guest"]:
        del sys.modules[name]


def test_cells_import_modules(package):
    package()
    cells = ["%matplotlib inline\nfrom guest import tools", "tools.other()", "from guest.rooms import (\n  doors\n)"]
    assert code_digest.imported_modules(cells) == {f"guest{name}" for name in ("", ".tools", ".rooms", ".rooms.doors")}
    # Of a cell that is not Python as well.
    broken = ["%%time\nfrom guest import near\nimport torch, guest.late\nx = !ls ("]
    assert code_digest.imported_modules(broken) == {"guest", "guest.near", "guest.late"}


# -- functions of notebooks and tests ----------------------------------------------------------------------


def holding(value):
    def work(rows):
        return value

    return work


LEVEL = 1


def leveled(rows):
    return rows * LEVEL


def test_functions_from_elsewhere_count_with_the_values_that_they_hold():
    values = [1, 1.0, "1", (1,), [1], {1: 1}, {1}, np.ones(1), np.ones(2), np.zeros(1), pd.DataFrame({"a": [1]})]
    found = [code_digest.digest(holding(value)) for value in values]
    assert len(set(found)) == len(values)
    assert found == [code_digest.digest(holding(value)) for value in values]
    assert code_digest.digest(lambda rows: 1) != code_digest.digest(lambda rows: 2)
    assert code_digest.digest(holding(leveled)) != code_digest.digest(holding(holding(1)))
    assert code_digest.digest(holding([leveled])) != code_digest.digest(holding([holding(1)]))
    assert code_digest.digest(partial(leveled, 1)) != code_digest.digest(partial(leveled, 2))
    assert "function:" in "".join(code_digest.function_digests(functools.cache(holding(1))))

    # The values that functions of this package hold are inputs of a stage; the code of held functions counts.
    def given(value):
        held = types.FunctionType((lambda: value).__code__, {}, closure=(types.CellType(value),))
        held.__module__ = "biaslab.errors"
        return code_digest.digest(held)

    assert given(1) == given(2) and given(holding(1)) != given(leveled)


def test_a_global_that_a_function_reads_changes_its_key(monkeypatch):
    before = code_digest.digest(leveled)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert code_digest.digest(leveled) != before


CELL = '''
import functools
import aside

LEVEL = 1
KINDS = frozenset(["women", "men", "unclear"])

def decorated(n):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(row):
            return n * function(row)
        return wrapper
    return decorator

class Judge:
    limit = 2
    @classmethod
    def make(cls):
        return cls()
    @property
    def least(self):
        return 7
    def answer(self, row):
        """Answer."""
        try:
            checked = int(row)
        except ValueError:
            checked = 0
        return checked > self.limit

@decorated(3)
def helper(row):
    return row + LEVEL  # a comment

def work(rows: list):
    """Work."""
    return [aside.scaled(helper(row)) for row in rows if Judge().answer(row) and row in {"women", "men", "unclear"}]
'''
# What a change of the notebook's code does to the digest.
OF_CELL = {
    ("LEVEL = 1", "LEVEL = 2"): True,
    ("row + LEVEL", "row - LEVEL"): True,
    ("limit = 2", "limit = 3"): True,
    ("return cls()", "return cls"): True,
    ("return 7", "return 8"): True,
    ("decorated(3)", "decorated(4)"): True,
    ("checked = 0", "checked = -1"): True,
    # Into the block whose errors are caught.
    ("checked = 0\n        return checked > self.limit", "checked = 0\n            return checked > self.limit"): True,
    ("def helper(row)", "def helper(row, *, more=None)"): True,
    ('"""Work."""', '"""Works."""'): False,
    ("  # a comment", ""): False,
    ("rows: list", "rows: tuple"): False,
    ("\n\nclass Judge", "\n\n\n\n\nclass Judge"): False,
}
IN_PROCESS = """
import json, sys
from biaslab.cache import code_digest
def digest(cell):
    names = {"__name__": "__main__"}
    exec(compile(cell, "cell", "exec"), names)
    return code_digest.digest(names["work"])
print(json.dumps([digest(cell) for cell in json.loads(sys.stdin.read())]))
"""


def test_a_function_of_a_notebook_is_keyed_by_its_code_and_helpers_in_every_process(tmp_path):
    cells = [CELL, *(CELL.replace(*change) for change in OF_CELL)]
    assert len(set(cells)) == len(cells)

    def told(seed, aside):
        (tmp_path / "aside.py").write_text(f"def scaled(x):\n    return {aside} * x\n")
        path = os.pathsep.join([str(tmp_path), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", IN_PROCESS]
        done = subprocess.run(command, input=json.dumps(cells), capture_output=True, text=True, env=env, check=True)
        return json.loads(done.stdout)

    first, *found = told("1", 2)
    assert {change: digest != first for change, digest in zip(OF_CELL, found, strict=True)} == OF_CELL
    assert told("2", 2) == [first, *found]
    # A module next to the notebook.
    assert told("1", 3)[0] != first


def test_a_module_that_no_source_names_is_known(root):
    """Imports by names that are made at run time are few.

    Who needs them adds the modules itself, planning decides about no number, and headlines of a run, and who is in its
    pictures, are read by commands alone.
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
    runs = {f"runs/{name}.py" for name in ("annotation_page", "generated_images", "jobs")}
    assert found == {"execution/kernels.py", "planning/measures.py", *runs}


def test_digest_of_a_partial_that_wraps_work_is_that_of_the_work():
    work = partial(indicate, "gazetteer", {})
    watched = partial(lambda log, work, rows: work(rows), "log", work)
    assert code_digest.function_digests(watched) != code_digest.function_digests(work)
    watched.__wrapped__ = work
    assert code_digest.function_digests(watched) == code_digest.function_digests(work)


def test_digest_values_that_a_function_holds_count_unless_own_code_is_given_it():
    def holding(value):
        return lambda: value

    assert code_digest.function_digests(holding(1)) != code_digest.function_digests(holding(2))
    # What a stage's own code is given is an input of the stage.
    assert code_digest.function_digests(partial(indicate, holding(1))) == code_digest.function_digests(
        partial(indicate, holding(2))
    )
