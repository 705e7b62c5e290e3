"""The digest of code covers everything that affects a result, and no comments or prose."""

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
    for cached_function in (code_digest._path, code_digest._source, code_digest._file_hash):
        cached_function.cache_clear()


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


def test_function_digests_list_imported_and_named_modules(package):
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
def test_function_digests_change_with_effective_code_only(package, what):
    path, old, new = (CHANGES | SILENT)[what]
    digest_before = package()
    assert FILES[path].count(old) == 1
    assert (package({path: FILES[path].replace(old, new)}) != digest_before) == (what in CHANGES)


def test_function_digests_reread_changed_source(package, tmp_path):
    digest_before = package()
    path = tmp_path / "guest/near.py"
    path.write_text("def neighbour():\n    return 2\n")
    os.utime(path, (1.7e9, 1.7e9))
    assert code_digest.function_digests("guest.stage") != digest_before


def test_function_digests_cover_classes_of_held_objects(package):
    package()
    model = importlib.import_module("guest.held").Model()
    assert "guest.held" in code_digest.function_digests(partial(len, model))
    # In the attributes of another object as well, except lazily computed ones.
    holder, kind = importlib.import_module("guest.held").Model(), type(model)
    holder.model = types.MethodType(lambda self: self, importlib.import_module("guest.tools"))
    assert {"guest.held", "guest.tools"} <= set(code_digest.function_digests(holder))
    kind.lazy = cached_property(lambda self: importlib.import_module("guest.apart"))
    kind.lazy.__set_name__(kind, "lazy")
    digest_before = code_digest.function_digests(model)
    assert model.lazy.x == 1 and code_digest.function_digests(model) == digest_before
    for name in [name for name in sys.modules if name.split(".")[0] == "guest"]:
        del sys.modules[name]


def test_imported_modules_of_cells(package):
    package()
    cells = ["%matplotlib inline\nfrom guest import tools", "tools.other()", "from guest.rooms import (\n  doors\n)"]
    assert code_digest.imported_modules(cells) == {f"guest{name}" for name in ("", ".tools", ".rooms", ".rooms.doors")}
    # Of a cell that is not Python as well.
    broken_cells = ["%%time\nfrom guest import near\nimport torch, guest.late\nx = !ls ("]
    assert code_digest.imported_modules(broken_cells) == {"guest", "guest.near", "guest.late"}


# -- functions of notebooks and tests ----------------------------------------------------------------------


def make_function(value):
    def work(rows):
        return value

    return work


LEVEL = 1


def scale_by_level(rows):
    return rows * LEVEL


def test_digest_covers_values_held_by_functions():
    values = [1, 1.0, "1", (1,), [1], {1: 1}, {1}, np.ones(1), np.ones(2), np.zeros(1), pd.DataFrame({"a": [1]})]
    result = [code_digest.digest(make_function(value)) for value in values]
    assert len(set(result)) == len(values)
    assert result == [code_digest.digest(make_function(value)) for value in values]
    assert code_digest.digest(lambda rows: 1) != code_digest.digest(lambda rows: 2)
    assert code_digest.digest(make_function(scale_by_level)) != code_digest.digest(make_function(make_function(1)))
    assert code_digest.digest(make_function([scale_by_level])) != code_digest.digest(make_function([make_function(1)]))
    assert code_digest.digest(partial(scale_by_level, 1)) != code_digest.digest(partial(scale_by_level, 2))
    assert "function:" in "".join(code_digest.function_digests(functools.cache(make_function(1))))

    # The values that functions of this package hold are inputs of a stage; the code of held functions counts.
    def package_digest(value):
        holder_function = types.FunctionType((lambda: value).__code__, {}, closure=(types.CellType(value),))
        holder_function.__module__ = "biaslab.errors"
        return code_digest.digest(holder_function)

    assert package_digest(1) == package_digest(2) and package_digest(make_function(1)) != package_digest(scale_by_level)


def test_digest_covers_globals_read_by_function(monkeypatch):
    digest_before = code_digest.digest(scale_by_level)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert code_digest.digest(scale_by_level) != digest_before


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
# Whether a change of the notebook's code changes the digest.
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


def test_notebook_function_digest_is_equal_in_all_processes(tmp_path):
    cells = [CELL, *(CELL.replace(*change) for change in OF_CELL)]
    assert len(set(cells)) == len(cells)

    def run_digests(seed, aside):
        (tmp_path / "aside.py").write_text(f"def scaled(x):\n    return {aside} * x\n")
        path = os.pathsep.join([str(tmp_path), *sys.path])
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", IN_PROCESS]
        completed = subprocess.run(
            command, input=json.dumps(cells), capture_output=True, text=True, env=env, check=True
        )
        return json.loads(completed.stdout)

    first, *result = run_digests("1", 2)
    assert {change: digest != first for change, digest in zip(OF_CELL, result, strict=True)} == OF_CELL
    assert run_digests("2", 2) == [first, *result]
    # A module next to the notebook.
    assert run_digests("1", 3)[0] != first


def test_dynamic_imports_are_limited_to_known_modules(root):
    """Imports by names that are made at run time are few.

    Who needs them adds the modules itself, planning decides about no number, and headlines of a run, and who is in its
    pictures, are read by commands alone.
    """
    result = set()
    for path in (root / "biaslab").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "import_module" in text or "__import__" in text else ():
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                is_literal = node.args and isinstance(node.args[0], ast.Constant)
                if name in ("import_module", "__import__") and not is_literal:
                    result.add(path.relative_to(root / "biaslab").as_posix())
    runs = {f"runs/{name}.py" for name in ("annotation_page", "generated_images", "jobs")}
    assert result == {"execution/kernels.py", "planning/measures.py", *runs}


def test_digest_of_wrapped_partial_is_that_of_work():
    work = partial(indicate, "gazetteer", {})
    wrapped_work = partial(lambda log, work, rows: work(rows), "log", work)
    assert code_digest.function_digests(wrapped_work) != code_digest.function_digests(work)
    wrapped_work.__wrapped__ = work
    assert code_digest.function_digests(wrapped_work) == code_digest.function_digests(work)


def test_digest_ignores_held_values_given_to_own_code():
    def make_function(value):
        return lambda: value

    assert code_digest.function_digests(make_function(1)) != code_digest.function_digests(make_function(2))
    # What a stage's own code is given is an input of the stage.
    assert code_digest.function_digests(partial(indicate, make_function(1))) == code_digest.function_digests(
        partial(indicate, make_function(2))
    )
