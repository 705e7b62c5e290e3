"""What code a result depends on: the modules behind a function, with the data and packages that these use.

The key of a kept result must change with the code that makes it. So modules are followed through their sources, without
importing anything: that of the function, all of this package that it imports, at its top or inside of functions, and
so on. Comments, docstrings, annotations of functions and layout do not count; nor do imports for type checking. Of
other packages those count by version that numbers come from.

A module counts whole, so a stage's function belongs beside what it uses, and not where much else is imported. What no
source says is not found: a module whose name is put together while the program runs, and methods of objects that are
handed over; these are told by the digests among a stage's inputs, and by their class where a function holds them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sys
import types
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab.places import default_root

PACKAGE = __name__.split(".")[0]
# The file in the store's folder that says what sources were found to hold; another name where it holds something else.
KEPT = "modules.json"
# Packages that numbers come from, by the name they are imported by; of their versions the first two parts count. Those
# that only carry tables, pictures or files are passed over.
_PACKAGES = {
    "cv2": "opencv-python-headless",
    "diffusers": "diffusers",
    "gender_guesser": "gender-guesser",
    "krippendorff": "krippendorff",
    "mediapipe": "mediapipe",
    "open_clip": "open_clip_torch",
    "scipy": "scipy",
    "sentence_transformers": "sentence-transformers",
    "spacy": "spacy",
    "statsmodels": "statsmodels",
    "torch": "torch",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
# What uses one of these reads files of its package, which count with it.
_READS = frozenset(("__file__", "files", "resources"))
_NO_DATA = frozenset((".md", ".py", ".pyc"))
# Data that are inputs with digests of their own.
_INPUTS = ("mini", "models")
# Where work runs and where results are kept changes no result.
_APART = frozenset(f"{PACKAGE}.{name}" for name in ("closure", "engine", "places", "store"))


def of(*works: Any) -> dict[str, str]:
    """Return digests of the code that functions depend on, by module, and of the versions of packages.

    Args:
        works: Functions, methods, partial functions, classes or objects that are called; or names of modules. Of
            functions from elsewhere (a notebook, a test) their own code counts, with the values that they hold.

    Returns:
        Names of modules, ``package:NAME`` and, for functions from elsewhere, ``function:NAME``, in order.
    """
    todo, found = _behind(works)
    seen: set[str] = set()
    with _remembering():
        while todo:
            module = _module_in(todo.pop())
            if module in seen or module in _APART:
                continue
            seen.add(module)
            if module in _PACKAGES:
                found[f"package:{module}"] = _version(module)
            elif path := _file(module):
                source = _source(module, path)
                data = _data_digest(path.parent) if source["reads"] else ""
                found[module] = _digest([source["digest"], data])[:16]
                todo += source["imports"]
    return dict(sorted(found.items()))


def digest(*works: Any) -> str:
    """Return one digest of :func:`of`, and of the works' names."""
    return _digest([[getattr(work, "__qualname__", "") for work in works], of(*works)])


def imported(cells: Iterable[str]) -> set[str]:
    """Return the modules of this package that cells of notebooks import.

    Magics are passed over; of a cell that is no Python, the lines count that are.
    """
    found: set[str] = set()
    for cell in cells:
        lines = [line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
        try:
            found |= _imports(ast.parse("\n".join(lines)), "")
        except SyntaxError:
            for line in lines:
                with contextlib.suppress(SyntaxError):
                    found |= _imports(ast.parse(line.strip()), "")
    return {_module_in(name) for name in found if name.split(".")[0] == PACKAGE}


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


# -- from objects to modules -------------------------------------------------------------------------------


def _behind(works: Iterable[Any]) -> tuple[list[str], dict[str, str]]:
    """Return the modules of this package behind objects, and digests of functions from elsewhere."""
    modules = [work for work in works if isinstance(work, str)]
    foreign: dict[str, str] = {}
    # Addresses tell objects apart for as long as these live.
    seen: dict[int, Any] = {}
    # With each: whether what it holds is part of the key, should it be from elsewhere.
    todo = [(work, True) for work in works if not isinstance(work, str)]
    while todo:
        value, counts = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if wraps := callable(value) and hasattr(value, "__wrapped__"):
            todo.append((value.__wrapped__, counts))
        if isinstance(value, types.ModuleType):
            modules.append(value.__name__)
        elif isinstance(value, types.MethodType):
            todo += [(value.__func__, counts), (value.__self__, True)]
        elif isinstance(value, functools.partial) and not wraps:
            held = [*value.args, *value.keywords.values()]
            elsewhere = counts and not _is_ours(value.func)
            if elsewhere:
                foreign[f"function:{_module_of(value.func)} with"] = _digest([*map(_plain, held)])
            todo += [(value.func, counts), *((one, elsewhere) for one in held)]
        elif isinstance(value, types.FunctionType):
            held = [_cell(cell) for cell in value.__closure__ or ()]
            if _is_ours(value):
                modules.append(value.__module__)
                # Its values are inputs of the stage, but what it calls may be anybody's.
                todo += [(one, False) for one in held]
            elif not _is_installed(value.__module__ or ""):
                code, known = value.__code__, value.__globals__
                held += [known[name] for name in _names_in(code) if name in known]
                plain = [_plain(one) for one in (*held, *(value.__defaults__ or ())) if counts]
                foreign[f"function:{value.__qualname__}"] = _digest([_code(code, value.__doc__), plain])
                todo += [(one, counts) for one in held]
        elif isinstance(value, type):
            for kind in value.__mro__:
                if _is_ours(kind):
                    modules.append(kind.__module__)
                elif not _is_installed(kind.__module__):
                    todo += [(v, True) for v in vars(kind).values() if isinstance(v, types.FunctionType)]
        elif _module_of(value) not in _APART and (counts or _is_ours(value)):
            kind = type(value)
            todo.append((kind, True))
            # What it was made with; what it keeps for later comes and goes.
            kept = getattr(value, "__dict__", {}).items() if _is_ours(kind) else ()
            todo += [(v, False) for k, v in kept if not isinstance(getattr(kind, k, None), cached_property)]
    return modules, foreign


def _module_of(value: Any) -> str:
    itself = isinstance(value, types.FunctionType | type) or hasattr(value, "__wrapped__")
    named = value if itself else type(value)
    return getattr(named, "__module__", None) or ""


def _is_ours(value: Any) -> bool:
    return _module_of(value).split(".")[0] == PACKAGE


@functools.cache
def _is_installed(module: str) -> bool:
    """Return whether a module is installed or the language's own, so that its version speaks for it."""
    if module.split(".")[0] in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        return False
    return "site-packages" in ((spec and spec.origin) or "")


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _names_in(code: types.CodeType) -> list[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return sorted({*code.co_names, *(name for some in inner for name in _names_in(some))})


def _code(code: types.CodeType, doc: str | None = None) -> list:
    consts = [
        _code(const) if isinstance(const, types.CodeType) else repr(const)
        for i, const in enumerate(code.co_consts)
        if not (i == 0 and isinstance(const, str) and const == doc)
    ]
    return [code.co_code.hex(), consts, list(code.co_names), list(code.co_freevars)]


def _plain(value: Any) -> Any:
    """Return what tells a value of a plain kind from others of it; its kind for all else, which has no value here."""
    kind = type(value).__qualname__
    if value is None or type(value) in (bool, int, float, str, bytes, complex):
        return repr(value)
    if type(value) in (list, tuple):
        return [kind, *map(_plain, value)]
    if type(value) in (set, frozenset):
        return [kind, *sorted(map(_plain, value), key=repr)]
    if type(value) is dict:
        return [kind, *([_plain(k), _plain(v)] for k, v in value.items())]
    if hasattr(value, "to_numpy") or (hasattr(value, "dtype") and hasattr(value, "tobytes")):
        import numpy as np

        array = np.asarray(value)
        named = repr(getattr(value, "columns", getattr(value, "name", "")))
        held = repr(array.tolist()) if array.dtype.hasobject else array.tobytes().hex()
        return [kind, named, str(array.dtype), array.shape, held]
    return kind


# -- from modules to all that they use ---------------------------------------------------------------------


@functools.cache
def _root() -> Path:
    return Path(__file__).parent


@functools.cache
def _file(module: str) -> Path | None:
    """Return the source of a module of this package; None where there is none."""
    first, *rest = module.split(".")
    base = _root().joinpath(*rest)
    paths = (base / "__init__.py", base.with_suffix(".py")) if first == PACKAGE else ()
    return next((path for path in paths if path.is_file()), None)


def _module_in(name: str) -> str:
    """Return the module that a name is of, or is: of this package the one with a source, of another the package."""
    first = name.split(".")[0]
    while name != first and not (first == PACKAGE and _file(name)):
        name = name.rpartition(".")[0]
    return name


@functools.cache
def _version(name: str) -> str:
    try:
        return ".".join(metadata.version(_PACKAGES[name]).split("+")[0].split(".")[:2])
    except metadata.PackageNotFoundError:
        return "none"


def _data_digest(package: Path) -> str:
    """Return a digest of a package's data files."""
    whole = hashlib.sha256()
    for at, folders, files in os.walk(package):
        packages = (name for name in folders if Path(at, name, "__init__.py").exists())
        folders[:] = sorted({*folders} - {*packages, "__pycache__"})
        if Path(at) == _root().joinpath(*_INPUTS):
            folders[:], files = [], []
        for path in (Path(at, name) for name in sorted(files)):
            if path.suffix not in _NO_DATA and not path.name.startswith("."):
                status = path.stat()
                whole.update(f"{path.relative_to(_root()).as_posix()}\0".encode())
                whole.update(_hashed_content(path, status.st_mtime_ns, status.st_size))
    return whole.hexdigest()


@functools.cache
def _hashed_content(file: Path, mtime: int, size: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


# What sources hold, by path: time of change, size, and what :func:`_summary` returns.
_known: dict[str, list] = {}


def _source(module: str, path: Path) -> dict[str, Any]:
    status, known = path.stat(), _known.get(str(path))
    if known is None or known[:2] != [status.st_mtime_ns, status.st_size]:
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        known = [status.st_mtime_ns, status.st_size, _summary(path.read_text(encoding="utf-8"), package)]
        _known[str(path)] = known
    return known[2]


def _summary(text: str, package: str) -> dict[str, Any]:
    """Return what a source holds: its digest, the names that it imports, and whether it reads files."""
    tree = _Silenced().visit(ast.parse(text))
    reads = any(isinstance(node, ast.Name) and node.id in _READS for node in ast.walk(tree))
    return {
        "digest": _digest(ast.dump(tree))[:16],
        "imports": sorted(_imports(tree, package)),
        "reads": reads,
    }


def _imports(tree: ast.AST, package: str) -> set[str]:
    """Return the full names that a tree imports anywhere, and the modules of this package that texts in it name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # beyond the top of a package, or in a notebook
                origin = importlib.util.resolve_name(origin, package)
                found |= {f"{origin}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Constant) and str(node.value).startswith(f"{PACKAGE}.") and _file(node.value)
        ):
            found.add(node.value)
    return found


class _Silenced(ast.NodeTransformer):
    """Takes out of a source what does nothing: docstrings, annotations of functions, what only types need."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_types = getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING"
        return None if for_types else self.generic_visit(node)


# Whose notes this process has read.
_read: set[Path] = set()


@contextlib.contextmanager
def _remembering() -> Iterator[None]:
    """Know what earlier processes found in sources, and write down what is new, where there is a store."""
    kept = default_root() / KEPT
    if kept not in _read:
        _read.add(kept)
        with contextlib.suppress(OSError, ValueError, TypeError):
            _known.update(json.loads(kept.read_bytes()) | _known)
    before = dict(_known)
    yield
    if (_known == before and kept.exists()) or not kept.parent.is_dir():
        return
    temporary = kept.with_name(f".{kept.name}.{uuid.uuid4().hex[:8]}.tmp")
    # It only saves time: a disk without room keeps nobody from working.
    with contextlib.suppress(OSError):
        try:
            temporary.write_text(json.dumps(_known, separators=(",", ":")), encoding="utf-8")
            os.replace(temporary, kept)
        finally:
            temporary.unlink(missing_ok=True)
