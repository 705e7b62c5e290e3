"""What code a result depends on: a function, all that it uses of this package, and the data and packages behind it.

The key of a kept result must change with the code that makes it and with nothing else. So the closure of a function is
read from the sources, without importing anything: the definition itself, the definitions whose names it uses, in its
module or in those it imports, and so on. Comments, docstrings, annotations of functions and layout do not count; nor
do imports for type checking. What reads files of its package counts with them, but for the embedded models, whose
weights are inputs. Of other packages those count by version that numbers come from.

What no source says is not found: a module whose name is put together while the program runs, and methods of objects
that are handed over. A whole name of a module in a text counts as an import of it; objects are told by the digests
among a stage's inputs, and by their class where a function holds them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab.places import default_root

PACKAGE = __name__.split(".")[0]
# The file in the store's folder that says what sources were found to hold.
KEPT = "code.json"
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
# A definition that uses one of these reads files of its package.
_READS = frozenset(("__file__", "files", "resources"))
_NO_DATA = frozenset((".md", ".py", ".pyc"))
# Data that are inputs with digests of their own.
_INPUTS = ("mini", "models")
# Where work runs and where results are kept changes no result.
_APART = frozenset(f"{PACKAGE}.{name}" for name in ("closure", "engine", "places", "store"))
# What runs when a module is imported, beside its definitions; and all of a module.
_ALWAYS, _WHOLE = "", "*"
# Another number where summaries of modules hold something else.
_FORMAT = 2


def of(*works: Any) -> dict[str, str]:
    """Return digests of the code that functions depend on, by module, and of the versions of packages.

    Args:
        works: Functions, methods, partial functions, classes or objects that are called; or names of modules, which
            count whole. Of functions from elsewhere (a notebook, a test) their own code counts, with the values that
            they hold.

    Returns:
        Names of modules, ``package:NAME`` and, for functions from elsewhere, ``function:NAME``, in order.
    """
    found = _Objects()
    for work in works:
        if isinstance(work, str):
            found.refs.add(f"{work}:")
        else:
            found.look(work)
    return dict(sorted((_told(found.refs, _Summaries()) | found.foreign).items()))


def digest(*works: Any) -> str:
    """Return one digest of :func:`of`."""
    return _digest(of(*works))


def digests_of_cells(notebooks: Iterable[Sequence[str]]) -> list[str]:
    """Return digests of what the cells of notebooks use of this package; their own code is not in them.

    Magics are passed over; of a cell that is no Python, imports count whole.
    """
    summaries = _Summaries()
    return [_digest(sorted(_told(_refs_of_cells(cells), summaries).items())) for cells in notebooks]


def _refs_of_cells(cells: Sequence[str]) -> set[str]:
    refs, whole = set(), []
    for cell in cells:
        lines = [line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
        try:
            ast.parse(text := "\n".join(lines))
        except SyntaxError:
            refs |= {f"{name}:" for name in imported(lines)}
        else:
            whole.append(text)
    # Not what is imported and never used.
    used = (d["refs"] for d in _summary("\n".join(whole), "", False).values() if d["digest"])
    return refs.union(*used)


def imported(lines: Iterable[str]) -> set[str]:
    """Return the modules of this package that lines of code import, as far as these stand for themselves."""
    targets: set[str] = set()
    for line in lines:
        with contextlib.suppress(SyntaxError):
            for found in _imports([ast.parse(line.strip())], "", False).values():
                targets |= found
    names = (target.replace(":", ".").rstrip(".") for target in targets if target.startswith(PACKAGE))
    return {name if _file(name) else name.rpartition(".")[0] for name in names}


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


# -- from objects to definitions ---------------------------------------------------------------------------


class _Objects:
    """The definitions of this package (``module:name``) and the foreign code behind objects."""

    def __init__(self) -> None:
        self.refs: set[str] = set()
        self.foreign: dict[str, str] = {}
        # Addresses tell objects apart for as long as these live.
        self._seen: dict[int, Any] = {}

    def look(self, value: Any, *, counts: bool = True) -> None:
        """Take the code behind a value; ``counts`` says whether what foreign functions hold is part of the key."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if hasattr(value, "__wrapped__") and callable(value):
            self.look(value.__wrapped__, counts=counts)
            if isinstance(value, functools.partial):
                return  # It says itself what it stands for.
        if isinstance(value, types.MethodType):
            self.look(value.__func__, counts=counts)
            self.look(value.__self__)
        elif isinstance(value, functools.partial):
            held = (*value.args, *value.keywords.values())
            foreign = counts and not _is_ours(value.func)
            if foreign:
                self.foreign[f"function:{_module(value.func)} with"] = _digest([*map(_plain, held)])
            self._look_at_all((value.func,), counts=counts)
            self._look_at_all(held, counts=foreign)
        elif _is_outside(_module(value)):
            return
        elif isinstance(value, types.ModuleType):
            self.refs.add(f"{value.__name__}:")
        elif isinstance(value, types.FunctionType):
            self._function(value, counts)
        elif isinstance(value, type):
            for kind in value.__mro__:
                if _is_ours(kind):
                    self.refs.add(f"{kind.__module__}:{kind.__qualname__.split('.')[0]}")
                elif not _is_outside(kind.__module__):
                    self._look_at_all(v for v in vars(kind).values() if isinstance(v, types.FunctionType))
        elif _module(value) not in _APART and (counts or _is_ours(type(value))):
            kind = type(value)
            self.look(kind)
            # What it was made with; what it keeps for later comes and goes.
            held = getattr(value, "__dict__", {}).items() if _is_ours(kind) else ()
            made = (v for k, v in held if not isinstance(getattr(kind, k, None), functools.cached_property))
            self._look_at_all(made, counts=False)

    def _look_at_all(self, values: Iterable[Any], *, counts: bool = True) -> None:
        for value in values:
            self.look(value, counts=counts)

    def _function(self, work: types.FunctionType, counts: bool) -> None:
        held = [_cell(cell) for cell in work.__closure__ or ()]
        if _is_ours(work):
            self.refs.add(f"{work.__module__}:{work.__qualname__.split('.')[0]}")
            # Its values are inputs of the stage, but what it calls may be anybody's.
            self._look_at_all(held, counts=False)
            return
        held += [work.__globals__[name] for name in _names_in(work.__code__) if name in work.__globals__]
        plain = [_plain(value) for value in (*held, *(work.__defaults__ or ())) if counts]
        self.foreign[f"function:{work.__qualname__}"] = _digest([_code(work.__code__, work.__doc__), plain])
        self._look_at_all(held, counts=counts)


def _module(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not isinstance(value, types.FunctionType | type) and not hasattr(value, "__wrapped__"):
        value = type(value)
    return getattr(value, "__module__", None) or ""


def _is_ours(value: Any) -> bool:
    return _module(value).split(".")[0] == PACKAGE


@functools.cache
def _is_outside(module: str) -> bool:
    """Return whether a module is installed or the language's own, so that its version speaks for it."""
    if module.split(".")[0] == PACKAGE:
        return False
    try:
        spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        return False
    where = (spec and spec.origin) or ""
    return where in ("built-in", "frozen") or "site-packages" in where or where.startswith(_LIBRARY)


_LIBRARY = os.path.dirname(os.__file__)


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
    if type(value) in (list, tuple, set, frozenset):
        inside = [_plain(v) for v in value]
        return [kind, *(inside if isinstance(value, list | tuple) else sorted(inside))]
    if type(value) is dict:
        return [kind, *([_plain(k), _plain(v)] for k, v in value.items())]
    if hasattr(value, "to_numpy") or (hasattr(value, "dtype") and hasattr(value, "tobytes")):
        import numpy as np

        array = np.asarray(value)
        named = repr(getattr(value, "columns", getattr(value, "name", "")))
        held = repr(array.tolist()) if array.dtype.hasobject else array.tobytes().hex()
        return [kind, named, str(array.dtype), array.shape, held]
    return kind


# -- from definitions to all that they use -----------------------------------------------------------------


def _told(refs: Iterable[str], summaries: _Summaries) -> dict[str, str]:
    """Return digests of the definitions that refs lead to, by module, and versions of the packages that they use."""
    found: dict[str, dict[str, str]] = {}
    packages: dict[str, str] = {}
    for module, name in _reached(refs, summaries):
        definition = (summaries.of(module) or {}).get(name)
        if module in _PACKAGES:
            packages[f"package:{module}"] = _version(module)
        elif definition and definition["digest"]:
            found.setdefault(module, {})[name] = definition["digest"]
            if definition["reads"]:
                found[module][" data"] = summaries.data(_file(module).parent)
    summaries.keep()
    return {module: _digest(sorted(of.items()))[:16] for module, of in found.items()} | packages


def _reached(refs: Iterable[str], summaries: _Summaries) -> set[tuple[str, str]]:
    """Return module and name of the definitions that refs lead to, and the names of other packages."""
    seen: set[tuple[str, str]] = set()
    todo = [node for ref in refs for node in summaries.meant(ref)]
    while todo:
        module, name = node = todo.pop()
        if node in seen or module in _APART:
            continue
        seen.add(node)
        definitions = summaries.of(module) or {}
        if name in definitions:
            todo.append((module, _ALWAYS))
            todo += [node for ref in definitions[name]["refs"] for node in summaries.meant(ref)]
        elif name != _ALWAYS:
            # All of it, or an attribute that no definition makes.
            todo += [(module, other) for other in definitions]
    return seen


@functools.cache
def _version(name: str) -> str:
    try:
        return ".".join(metadata.version(_PACKAGES[name]).split("+")[0].split(".")[:2])
    except metadata.PackageNotFoundError:
        return "none"


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


def _data_digest(package: Path) -> str:
    """Return a digest of a package's data files."""
    whole = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(_root()).parts
        if path.is_dir() or path.suffix in _NO_DATA or path.name.startswith(".") or inside[:2] == _INPUTS:
            continue
        if next(folder for folder in path.parents if (folder / "__init__.py").exists()) == package:
            status = path.stat()
            whole.update(f"{'/'.join(inside)}\0".encode())
            whole.update(_hashed_content(path, status.st_mtime_ns, status.st_size))
    return whole.hexdigest()


@functools.cache
def _hashed_content(file: Path, mtime: int, size: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


# -- from sources to definitions ---------------------------------------------------------------------------


class _Summaries:
    """What the sources of modules define and use; read once and kept for as long as a file stays as it is."""

    _here: dict[str, tuple[list[int], dict]] = {}  # noqa: RUF012 (one for the process, as modules are)
    _read: set[Path] = set()  # noqa: RUF012

    def __init__(self) -> None:
        self._kept = default_root() / KEPT
        self._changed = False
        self._checked: dict[str, dict | None] = {}
        self._meant: dict[str, list[tuple[str, str]]] = {}
        # One look at a package's files is enough for all that is asked at once.
        self.data = functools.cache(_data_digest)
        if self._kept not in self._read:
            self._read.add(self._kept)
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                told = json.loads(self._kept.read_bytes())
                if (told["format"], told["root"]) == (_FORMAT, str(_root())):
                    self._here.update(
                        {name: kept for name, kept in told["modules"].items() if name not in self._here}
                    )

    def of(self, module: str) -> Mapping[str, Mapping] | None:
        """Return the definitions of a module by name; None where it has no source in this package."""
        if module not in self._checked:
            path = _file(module)
            self._checked[module] = path and self._of(module, path)
        return self._checked[module]

    def meant(self, ref: str) -> list[tuple[str, str]]:
        """Return what ``module:name.attribute`` means: one of the module's definitions, or of modules below it."""
        if ref not in self._meant:
            module, _, path = ref.partition(":")
            names = path.split(".") if path else []
            found = []
            if module.split(".")[0] != PACKAGE:
                module, names = module.split(".")[0], [_ALWAYS]
            while names and _file(f"{module}.{names[0]}"):
                if names[0] in (self.of(module) or {}):
                    # A package's own name in front of its module of that name.
                    found.append((module, names[0]))
                module = f"{module}.{names.pop(0)}"
            self._meant[ref] = [*found, (module, names[0] if names else _WHOLE)]
        return self._meant[ref]

    def _of(self, module: str, path: Path) -> dict:
        status = path.stat()
        stamp = [status.st_mtime_ns, status.st_size]
        if module not in self._here or self._here[module][0] != stamp:
            text = path.read_text(encoding="utf-8")
            self._here[module] = (stamp, _summary(text, module, path.name == "__init__.py"))
            self._changed = True
        return self._here[module][1]

    def keep(self) -> None:
        """Write down what was new, where there is a store."""
        if (not self._changed and self._kept.exists()) or not self._kept.parent.is_dir():
            return
        whole = {"format": _FORMAT, "root": str(_root()), "modules": self._here}
        temporary = self._kept.with_name(f".{self._kept.name}.{uuid.uuid4().hex[:8]}.tmp")
        # It only saves time: a disk without room keeps nobody from working.
        with contextlib.suppress(OSError):
            try:
                temporary.write_text(json.dumps(whole, separators=(",", ":")), encoding="utf-8")
                os.replace(temporary, self._kept)
            finally:
                temporary.unlink(missing_ok=True)


def _summary(text: str, module: str, is_package: bool) -> dict[str, dict]:
    """Return what a source defines: digest, refs to what it uses, and whether it reads files, by name."""
    groups: dict[str, list[ast.stmt]] = {}
    top: list[ast.stmt] = []
    for statement in _Silenced().visit(ast.parse(text)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            top.append(statement)
            continue
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            top.append(statement)  # Imports in a try or an if at the top.
        for name in _bound(statement) or {_ALWAYS}:
            groups.setdefault(name, []).append(statement)
    imports = _imports(top, module, is_package)
    summary = {}
    for name in {*groups, *imports}:
        refs, reads = set(imports.get(name, ())), False
        for statement in groups.get(name, ()):
            mine = _imports([statement], module, is_package)
            for first, _, rest in (used.partition(".") for used in _used(statement)):
                reads = reads or first in _READS
                if first in groups:
                    refs.add(f"{module}:{first}")
                for target in imports.get(first, set()) | mine.get(first, set()):
                    refs.add(f"{target}{'.' * bool(rest and target[-1] != ':')}{rest}")
            refs |= {f"{node.value}:" for node in ast.walk(statement) if _names_module(node)}
        dumped = "".join(map(ast.dump, groups.get(name, ())))
        summary[name] = {
            "digest": _digest(dumped)[:16] if dumped else "",
            "refs": sorted(refs - {f"{module}:{name}"}),
            "reads": reads,
        }
    return summary


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


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module makes, or changes."""
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    if isinstance(statement, definitions):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, definitions):
            names.add(node.name)
        elif isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names


def _imports(statements: Iterable[ast.AST], module: str, is_package: bool) -> dict[str, set[str]]:
    """Return what the names mean that imports anywhere in statements bind: ``module:`` or ``module:name``."""
    found: dict[str, set[str]] = {}
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import biaslab.x` binds `biaslab`; which of it is used, attributes tell.
                name = alias.asname or alias.name.split(".")[0]
                found.setdefault(name, set()).add(f"{alias.name if alias.asname else name}:")
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            above = parts[: len(parts) - node.level + is_package] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                star = alias.name == "*"
                name = _ALWAYS if star else alias.asname or alias.name
                found.setdefault(name, set()).add(f"{origin}:{'' if star else alias.name}")
    return found


def _used(node: ast.AST) -> Iterator[str]:
    """Yield the names that a tree uses, each with the attributes that are taken of it, as in ``np.linalg.norm``."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield ".".join([node.id, *parts])
        return
    for child in ast.iter_child_nodes(node):
        yield from _used(child)


def _names_module(node: ast.AST) -> bool:
    """Return whether a node is a text that is the name of a module, which may be imported by it."""
    text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and text.startswith(f"{PACKAGE}.") and bool(_file(text))
