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
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab.places import default_root

PACKAGE = __name__.split(".")[0]
# The file in a store's folder that says what sources were found to hold.
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
_INPUTS = (("mini", "models"),)
# Where work runs and where results are kept changes no result.
_APART = frozenset(f"{PACKAGE}.{name}" for name in ("closure", "engine", "places", "store"))
# What runs when a module is imported, beside its definitions.
_ALWAYS = ""
_WHOLE = "*"
_DATA = "data"
# Another number where summaries of modules hold something else.
_FORMAT = 1


def of(*works: Any, kept: Path | None = None) -> dict[str, str]:
    """Return digests of the code that functions depend on, by module, and of the versions of packages.

    Args:
        works: Functions, methods, partial functions, classes or objects that are called; or names of modules, which
            count whole. Of functions from elsewhere (a notebook, a test) their own code counts, with the values that
            they hold.
        kept: The file where what was found in sources is kept for the next process; by default the one in the store's
            folder. Where there is no such folder, nothing is kept.

    Returns:
        Names of modules, ``package:NAME`` and, for functions from elsewhere, ``function:NAME``, in order.
    """
    return Closure(*works, kept=kept).of()


def digest(*works: Any, kept: Path | None = None) -> str:
    """Return one digest of :func:`of`."""
    return _digest(of(*works, kept=kept))


class Closure:
    """All that some works lead to, for those who ask for it more than once. Arguments as in :func:`of`."""

    def __init__(self, *works: Any, kept: Path | None = None) -> None:
        found = _Found()
        for work in works:
            found.add(work)
        self._kept = kept
        self._foreign = found.foreign
        summaries = _Summaries(kept)
        self._nodes = _reached(found.seeds, summaries)
        self._told = _told(self._nodes, summaries) | self._foreign
        summaries.keep()

    def of(self) -> dict[str, str]:
        """Return the digests as :func:`of` does."""
        return dict(sorted(self._told.items()))

    def with_cells(self, cells: Sequence[str]) -> str:
        """Return one digest of this and of what a notebook's cells use of this package beside it.

        The cells' own code is not in it, and magics are passed over; of a cell that is no Python, imports count whole.
        """
        seeds: set[tuple[str, str]] = set()
        whole = []
        for cell in cells:
            lines = [line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
            try:
                ast.parse(text := "\n".join(lines))
            except SyntaxError:
                seeds |= {(name, _WHOLE) for name in imported(lines)}
            else:
                whole.append(text)
        summary = _summary("\n".join(whole), "", False)
        seeds |= {(m, n) for entry in summary.values() if entry["digest"] for m, n in entry["refs"] if m}
        summaries = _Summaries(self._kept)
        more = _told(_reached(seeds, summaries, self._nodes), summaries)
        summaries.keep()
        return _digest([self.of(), sorted(more.items())])


def imported(lines: Iterable[str]) -> set[str]:
    """Return the modules of this package that lines of code import, as far as these stand for themselves."""
    imports: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(line.strip()).body:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    _take_import(statement, "", False, imports, {})
    targets = {target for found in imports.values() for target in found}
    return {inner if _file(inner := f"{module}.{name}") else module for module, name in targets}


def _digest(told: Any) -> str:
    return _hash(json.dumps(told, sort_keys=True).encode())


# -- from objects to definitions ---------------------------------------------------------------------------


class _Found:
    """Definitions of this package and foreign code behind objects."""

    def __init__(self) -> None:
        self.seeds: set[tuple[str, str]] = set()
        self.foreign: dict[str, str] = {}
        self._seen: set[int] = set()
        # Addresses tell objects apart for as long as these live.
        self._held: list[Any] = []

    def add(self, work: Any) -> None:
        """Take what is called, or the name of a module."""
        if isinstance(work, str):
            self.seeds.add((work, _WHOLE))
        else:
            self._add(work)

    def _add(self, work: Any, *, counts: bool = True) -> None:
        if id(work) in self._seen:
            return
        self._seen.add(id(work))
        self._held.append(work)
        if hasattr(work, "__wrapped__"):
            self._add(work.__wrapped__, counts=counts)
        if isinstance(work, types.FunctionType):
            self._function(work, counts=counts)
        elif isinstance(work, type):
            for kind in work.__mro__:
                self._class(kind)
        elif isinstance(work, types.MethodType):
            self._add(work.__func__, counts=counts)
            self._add(work.__self__)
        elif isinstance(work, functools.partial):
            if not hasattr(work, "__wrapped__"):
                self._add(work.func, counts=counts)
                ours = _is_ours(_module(work))
                held = (*work.args, *work.keywords.values())
                self._values(held, counts=counts and not ours)
                if counts and not ours:
                    self.foreign[f"function:{_module(work)} with"] = _hash(
                        json.dumps([*map(_plain, held)]).encode()
                    )
        elif not isinstance(work, types.BuiltinFunctionType):
            self._object(work)

    def _object(self, work: Any) -> None:
        """Take an object's class, and what it was made with; what it keeps for later comes and goes."""
        self._add(type(work))
        if _is_ours(type(work).__module__):
            kind = type(work)
            held = [
                value
                for name, value in getattr(work, "__dict__", {}).items()
                if not isinstance(getattr(kind, name, None), functools.cached_property)
            ]
            self._values(held, counts=False)

    def _function(self, work: types.FunctionType, *, counts: bool = True) -> None:
        held = [_cell(cell) for cell in work.__closure__ or ()]
        if _is_ours(work.__module__):
            self.seeds.add((work.__module__, work.__qualname__.split(".")[0]))
            # Its values are inputs of the stage, but what it calls may be anybody's.
            self._values(held, counts=False)
            return
        names = _names_in(work.__code__)
        used = [work.__globals__[name] for name in names if name in work.__globals__]
        plain = [_plain(value) for value in (*held, *used, *(work.__defaults__ or ())) if counts]
        self.foreign[f"function:{work.__qualname__}"] = _hash(
            json.dumps([_code(work.__code__, work.__doc__), plain]).encode()
        )
        self._values((*held, *used), counts=counts)

    def _class(self, kind: type) -> None:
        if _is_ours(kind.__module__):
            self.seeds.add((kind.__module__, kind.__qualname__.split(".")[0]))
        elif not _is_outside(kind.__module__):
            for value in vars(kind).values():
                if isinstance(value, types.FunctionType):
                    self._add(value)

    def _values(self, values: Iterable[Any], *, counts: bool = True) -> None:
        """Take from what a function holds that which is code: functions, and objects of this package's classes.

        ``counts`` says whether values that functions from elsewhere hold in turn are part of the key.
        """
        for value in values:
            if isinstance(value, types.ModuleType):
                if _is_ours(value.__name__):
                    self.seeds.add((value.__name__, _WHOLE))
            elif isinstance(value, types.FunctionType | types.MethodType | functools.partial) or (
                hasattr(value, "__wrapped__") and callable(value)
            ):
                if _is_ours(_module(value)) or not _is_outside(_module(value)):
                    self._add(value, counts=counts)
            elif isinstance(value, type):
                if _is_ours(value.__module__):
                    self._add(value)
            elif _is_ours(type(value).__module__) and type(value).__module__ not in _APART:
                self._add(value)


def _module(value: Any) -> str:
    if isinstance(value, functools.partial):
        return _module(value.func)
    return getattr(value, "__module__", None) or ""


def _is_ours(module: str | None) -> bool:
    return (module or "").split(".")[0] == PACKAGE


@functools.cache
def _is_outside(module: str) -> bool:
    """Return whether a module is installed or the language's own, so that its version speaks for it."""
    try:
        spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        return False
    where = (spec and spec.origin) or ""
    return (
        where in ("built-in", "frozen")
        or "site-packages" in where
        or where.startswith(os.path.dirname(os.__file__))
    )


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
    if value is None or type(value) in (bool, int, float, str, bytes, complex):
        return repr(value)
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(_plain, value)]
    if type(value) in (set, frozenset):
        return ["set", *sorted(map(repr, value))]
    if type(value) is dict:
        return ["dict", *([_plain(k), _plain(v)] for k, v in value.items())]
    if hasattr(value, "to_numpy") or (hasattr(value, "dtype") and hasattr(value, "tobytes")):
        return [type(value).__name__, _array(value)]
    return type(value).__qualname__


def _array(value: Any) -> str:
    import numpy as np

    named = repr(getattr(value, "columns", getattr(value, "name", "")))
    array = np.asarray(value)
    inside = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return _hash(f"{named}{array.dtype}{array.shape}".encode() + inside)


# -- from definitions to all that they use -----------------------------------------------------------------


def _reached(
    seeds: Iterable[tuple[str, str]], summaries: _Summaries, known: Set[tuple[str, str]] = frozenset()
) -> set[tuple[str, str]]:
    """Return the definitions that seeds lead to, beside those that are known."""
    seen: set[tuple[str, str]] = set()
    todo = list(seeds)
    while todo:
        node = todo.pop()
        if node in seen or node in known:
            continue
        seen.add(node)
        module, name = node
        definitions = None if module in _APART else summaries.of(module)
        if definitions is None:
            continue
        if name == _WHOLE:
            todo += [(module, other) for other in definitions]
        elif name in definitions:
            todo.append((module, _ALWAYS))
            todo += [(m, n) for m, n in definitions[name]["refs"]]
        elif name != _ALWAYS:
            # An attribute of a package that is one of its modules, or one that no definition makes.
            inner = f"{module}.{name}"
            todo.append((inner, _WHOLE) if _file(inner) else (module, _WHOLE))
    return seen


def _told(nodes: Iterable[tuple[str, str]], summaries: _Summaries) -> dict[str, str]:
    """Return digests of definitions by module, and the versions of the packages that they use."""
    of_module: dict[str, dict[str, str]] = {}
    outside: set[str] = set()
    for module, name in nodes:
        entry = (summaries.of(module) or {}).get(name)
        if entry is None or module in _APART:
            continue
        outside.update(entry["outside"])
        if entry["digest"]:
            of_module.setdefault(module, {})[name] = entry["digest"]
        if entry["reads"]:
            of_module.setdefault(module, {})[_DATA] = _data_digest(module)
    result = {module: _digest(sorted(of.items()))[:16] for module, of in of_module.items()}
    return result | {f"package:{name}": _version(name) for name in outside if name in _PACKAGES}


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
    if first != PACKAGE:
        return None
    base = _root().joinpath(*rest)
    for path in (base / "__init__.py", base.with_name(base.name + ".py") if rest else base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _data_digest(module: str) -> str:
    """Return a digest of the data files of the package that a module stands in."""
    path = _file(module)
    files = sorted(_data_files(path.parent)) if path else []
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.relative_to(path.parent).as_posix().encode() + b"\0" + _content(file))
    return whole.hexdigest()


def _data_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            inside = path.relative_to(_root()).parts
            if path.name != "__pycache__" and inside not in _INPUTS and not (path / "__init__.py").exists():
                yield from _data_files(path)
        elif path.suffix not in _NO_DATA and not path.name.startswith("."):
            yield path


def _content(file: Path) -> bytes:
    status = file.stat()
    return _hashed_content(file, status.st_mtime_ns, status.st_size)


@functools.cache
def _hashed_content(file: Path, mtime: int, size: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


# -- from sources to definitions ---------------------------------------------------------------------------


class _Summaries:
    """What the sources of modules define and use; read once and kept for as long as a file stays as it is."""

    _here: dict[str, tuple[list[int], dict]] = {}  # noqa: RUF012 (one for the process, as modules are)
    _read: set[Path] = set()  # noqa: RUF012

    def __init__(self, kept: Path | None) -> None:
        self._kept = kept = kept or default_root() / KEPT
        self._changed = False
        self._checked: dict[str, dict | None] = {}
        if kept not in self._read:
            self._read.add(kept)
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                told = json.loads(kept.read_bytes())
                if told["format"] == _FORMAT and told["root"] == str(_root()):
                    for name, (stamp, summary) in told["modules"].items():
                        self._here.setdefault(name, (stamp, summary))

    def of(self, module: str) -> Mapping[str, Mapping] | None:
        """Return the definitions of a module by name; None where it has no source in this package."""
        if module not in self._checked:
            self._checked[module] = self._of(module)
        return self._checked[module]

    def _of(self, module: str) -> dict | None:
        path = _file(module)
        if path is None:
            return None
        status = path.stat()
        stamp = [status.st_mtime_ns, status.st_size]
        if module not in self._here or list(self._here[module][0]) != stamp:
            text = path.read_text(encoding="utf-8")
            self._here[module] = (stamp, _summary(text, module, path.name == "__init__.py"))
            self._changed = True
        return self._here[module][1]

    def keep(self) -> None:
        """Write down what was new, where that can be."""
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
    """Return what a source defines: digest, references, other packages and whether it reads files, by name."""
    tree = ast.parse(text)
    groups: dict[str, list[ast.stmt]] = {}
    imports: dict[str, list[tuple[str, str]]] = {}
    others: dict[str, str] = {}
    for statement in tree.body:
        if _for_types(statement):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _take_import(statement, module, is_package, imports, others)
            continue
        if _is_text(statement):
            continue
        for name in _bound(statement) or {_ALWAYS}:
            groups.setdefault(name, []).append(statement)
        for inner in ast.walk(statement):
            # Imports in a try or an if at the top.
            if not isinstance(
                statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
            ) and isinstance(inner, ast.Import | ast.ImportFrom):
                _take_import(inner, module, is_package, imports, others)
    top = {*groups, *imports}
    summary = {}
    for name in top:
        statements = groups.get(name, [])
        refs: set[tuple[str, str]] = set(imports.get(name, ()))
        outside: set[str] = set()
        reads = False
        for statement in statements:
            uses = _Uses(module, is_package, groups, imports, others)
            uses.look(statement)
            refs |= uses.refs
            outside |= uses.outside
            reads = reads or uses.reads
        refs.discard((module, name))
        dumped = "".join("".join(_dump(s)) for s in statements)
        summary[name] = {
            "digest": _hash(dumped.encode())[:16] if statements else "",
            "refs": sorted(refs),
            "outside": sorted(outside),
            "reads": reads,
        }
    return summary


def _for_types(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    test = statement.test
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module makes, or changes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name):
                names.add(base.id)
    return names


def _take_import(
    statement: ast.Import | ast.ImportFrom,
    module: str,
    is_package: bool,
    imports: dict[str, list[tuple[str, str]]],
    others: dict[str, str],
) -> None:
    """Note which names an import binds: to definitions or modules of this package, or to other packages."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if _is_ours(alias.name):
                if alias.asname:
                    imports.setdefault(alias.asname, []).append((alias.name, _WHOLE))
                else:
                    # `import biaslab.x` binds `biaslab`; which of it is used, attributes tell.
                    imports.setdefault(PACKAGE, []).append((PACKAGE, _ALWAYS))
            else:
                others[alias.asname or alias.name.split(".")[0]] = alias.name.split(".")[0]
        return
    origin = statement.module or ""
    if statement.level:
        parts = module.split(".")
        parts = parts[: len(parts) - statement.level + is_package]
        origin = ".".join([*parts, *([statement.module] if statement.module else [])])
    for alias in statement.names:
        bound = alias.asname or alias.name
        if not _is_ours(origin):
            others[bound] = origin.split(".")[0]
        elif alias.name == "*":
            imports.setdefault(_ALWAYS, []).append((origin, _WHOLE))
        else:
            imports.setdefault(bound, []).append((origin, alias.name))


class _Uses(ast.NodeVisitor):
    """What a definition uses."""

    def __init__(self, module, is_package, groups, imports, others) -> None:
        self._module, self._is_package = module, is_package
        self._groups = groups
        self._imports = {name: list(targets) for name, targets in imports.items()}
        self._others = dict(others)
        self.refs: set[tuple[str, str]] = set()
        self.outside: set[str] = set()
        self.reads = False

    def look(self, statement: ast.stmt) -> None:
        """Collect what a statement uses; its own imports bind names anywhere in it."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                mine: dict[str, list[tuple[str, str]]] = {}
                _take_import(node, self._module, self._is_package, mine, self._others)
                for name, targets in mine.items():
                    self._imports.setdefault(name, []).extend(targets)
        self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        if not _for_types(node):
            self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Pass over an annotation."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node.id, ())

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if isinstance(base, ast.Name):
            self._use(base.id, tuple(parts))
        else:
            self.visit(base)

    def visit_Constant(self, node: ast.Constant) -> None:
        # A module that is imported by its name in a text.
        if isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}.") and _file(node.value):
            self.refs.add((node.value, _WHOLE))

    def _use(self, name: str, parts: tuple[str, ...]) -> None:
        if name in _READS:
            self.reads = True
        if name in self._groups:
            self.refs.add((self._module, name))
        if name in self._others:
            self.outside.add(self._others[name])
        for module, what in self._imports.get(name, ()):
            self._use_import(module, what, parts)

    def _use_import(self, module: str, what: str, parts: tuple[str, ...]) -> None:
        if what not in (_WHOLE, _ALWAYS):
            inner = f"{module}.{what}"
            if not _file(inner):
                self.refs.add((module, what))
                return
            package = _file(module)
            if package and what in _defined_in(package):
                # A package's own name in front of its module of that name.
                self.refs.add((module, what))
            module = inner
        while parts and _file(f"{module}.{parts[0]}"):
            module, parts = f"{module}.{parts[0]}", parts[1:]
        self.refs.add((module, parts[0] if parts else _WHOLE))


@functools.cache
def _defined_in(path: Path) -> frozenset[str]:
    """Return the names that a package's ``__init__`` imports or defines."""
    names: set[str] = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        else:
            names |= _bound(statement)
    return frozenset(names)


# Fields of a syntax tree that say nothing about what is done.
_SILENT = frozenset(("ctx", "type_comment", "kind", "returns", "type_ignores", "type_params"))


def _dump(node: Any) -> Iterator[str]:
    """Write down a syntax tree without docstrings, annotations of functions and places; alike in all versions."""
    if isinstance(node, ast.AST):
        yield type(node).__name__
        yield "("
        for name in node._fields:
            value = getattr(node, name, None)
            if (
                name in _SILENT
                or value is None
                or value == []
                or (name == "annotation" and isinstance(node, ast.arg))
            ):
                continue
            yield name
            yield "="
            yield from _dump(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            if not (isinstance(item, ast.stmt) and (_is_text(item) or _for_types(item))):
                yield from _dump(item)
                yield ","
        yield "]"
    else:
        yield repr(node)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
