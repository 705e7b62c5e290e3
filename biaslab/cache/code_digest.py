"""Digests of the code that a result depends on, which are part of the result's key.

:func:`function_digests` covers the modules of functions and of the objects that they hold, all modules that these
import of this package and of packages with plug-ins (:mod:`biaslab.plugins`), the data files next to modules that read
files, and the versions of libraries that compute numbers. Sources are parsed, not imported. A module counts as a whole,
without comments, docstrings, annotations of functions and imports for type checking.

Modules whose names are composed at run time are not found, and neither is what lists and mappings of objects hold.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import pickle
import re
import sys
import types
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab import plugins
from biaslab.errors import ParameterError

_PACKAGE = __name__.split(".")[0]
# Where work runs, what shows its progress, where results are stored and what is checked before a run change no result.
_APART = re.compile(
    rf"{_PACKAGE}(\.cache(\..+)?|\.execution\.(kernels|progress|workers)|\.io\.places|\.planning\.preflight)?"
)
# Libraries that numbers come from, and their distributions where these have other names.
_LIBRARIES = {"cv2", "diffusers", "gender_guesser", "mediapipe", "open_clip", "scipy", "sentence_transformers", "spacy"}
_LIBRARIES |= {"statsmodels", "torch", "torchvision", "transformers"}
_DISTRIBUTIONS = {"cv2": "opencv-python-headless", "open_clip": "open_clip_torch"}
# A module that uses one of these names reads files next to it.
_READS = {"__file__", "__path__", "__spec__", "files", "get_data", "resources"}
# Fields of syntax trees that do not count.
_SILENT = {"ctx", "returns", "type_comment"}
_NO_DATA = {".md", ".py", ".pyc"}
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+)(?::\w+)?")


def function_digests(*works: Any) -> dict[str, str]:
    """Return digests of the code that ``works`` depend on, by name, in alphabetical order.

    ``works`` are functions, methods, partial functions, classes, other objects, or names of modules. The names are
    those of modules, ``package:NAME`` for versions (first two parts) of libraries, and ``function:NAME`` for functions
    and classes defined elsewhere, such as in a notebook; of these the values count that they close over or read.
    """
    todo, found = _reached(works)
    while todo:
        name = todo.pop()
        if (library := name.split(".")[0]) in _LIBRARIES:
            found[f"package:{library}"] = _version(library)
        elif name.endswith(".*"):
            package = _path(name[:-2])
            modules = package.parent.glob("*.py") if package and package.name == "__init__.py" else ()
            todo += [f"{name[:-2]}.{path.stem}" for path in modules if path != package]
        elif name not in found and not _APART.fullmatch(name) and (path := _path(name)):
            code, reads, names = _source(name, path, path.stat().st_mtime_ns)
            found[name] = _hash(code, _data(path.parent) if reads else "")
            todo += names
    return dict(sorted(found.items()))


def digest(*works: Any) -> str:
    """Return one digest of the names of ``works`` and of the code that they depend on."""
    return _hash([getattr(work, "__qualname__", "") for work in works], function_digests(*works))


def entry_digest(entry: metadata.EntryPoint) -> str:
    """Return a digest of the package, version and code behind an entry point of another package.

    Raises ParameterError: The entry point's module is missing, or has no source.
    """
    if _path(entry.module) is None:
        raise ParameterError(
            f"{entry.name} names the module {entry.module}, which is not there as source. Install its package again."
        )
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return _hash(package, entry.value, function_digests(entry.module))


def imported_digest(cells: Iterable[str]) -> set[str]:
    """Return the modules of this package, and of packages with plug-ins, that the cells of a notebook may import.

    These are all modules that the text names, and the modules in a named package whose own name is a word of the text.
    """
    words = set(re.findall(r"[A-Za-z_][\w.]*", "\n".join(cells)))
    named = {word: path for word in words if (path := _path(word))}
    packages = {name: path.parent for name, path in named.items() if path.name == "__init__.py"}
    inner = {f"{name}.{path.stem}" for name, folder in packages.items() for path in folder.iterdir()}
    return {*named, *(name for name in inner if name.rpartition(".")[2] in words and _path(name))}


def _follows(module: str) -> bool:
    """Return whether a module belongs to this package or to a package with plug-ins."""
    package = module.split(".")[0]
    return package == _PACKAGE or package in plugins.plugin_packages()


def _hash(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _reached(works: Iterable[Any]) -> tuple[list[str], dict[str, str]]:
    """Return the modules of ``works`` and of the objects that they hold, and digests of code defined elsewhere."""
    # With each whether the values that it holds count; what a stage's own code is given is an input of the stage.
    todo = [(work, True) for work in works if not isinstance(work, str)]
    found: dict[str, str] = {}
    names = [name for work in works if isinstance(work, str) for name in (work, f"{work}.*")]
    # Holds the objects, so that no two have the same id.
    seen: dict[int, Any] = {}
    while todo:
        value, counts = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        held, elsewhere = _held(value), _is_elsewhere(value)
        if not counts and _is_elsewhere(type(value)):
            continue
        todo += [(each, counts and elsewhere) for each in held]
        module = value.__module__ if isinstance(value, types.FunctionType | type) else type(value).__module__
        names.append(module or "")
        if isinstance(value, types.ModuleType):
            names += [value.__name__, f"{value.__name__}.*"]
        elif elsewhere:
            name = f"function:{getattr(value, '__qualname__', '')}"
            codes = [*_codes(value.__code__)] if isinstance(value, types.FunctionType) else []
            facts = [_facts(code, value.__doc__) for code in codes]
            found[name] = _hash(found.get(name), facts, [*map(_plain, held)] if counts else [])
    return names, found


def _is_elsewhere(value: Any) -> bool:
    """Return whether a function, class or module belongs to no installed package, for instance to a notebook."""
    if isinstance(value, functools.partial) and not hasattr(value, "__wrapped__"):
        value = value.func
    if not isinstance(value, types.FunctionType | types.ModuleType | type):
        return False
    module = value.__name__ if isinstance(value, types.ModuleType) else value.__module__ or ""
    if _follows(module) or module.split(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False
    return module == "__main__" or "-packages" not in (getattr(sys.modules.get(module), "__file__", None) or "")


def _held(value: Any) -> list[Any]:
    """Return what a function or an object holds; of functions, classes and modules from elsewhere all that they use."""
    if isinstance(value, functools.partial) and not hasattr(value, "__wrapped__"):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, property):
        return [value.fget]
    elsewhere = _is_elsewhere(value)
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        if not elsewhere:
            return cells
        names = [name for code in _codes(value.__code__) for name in code.co_names]
        read = [value.__globals__[name] for name in names if name in value.__globals__]
        held = [*cells, *read, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return held + [item for each in held if isinstance(each, list | tuple) for item in each if callable(item)]
    if isinstance(value, classmethod) or (callable(value) and hasattr(value, "__wrapped__")):
        return [value.__wrapped__]
    if isinstance(value, types.ModuleType | type) and elsewhere:
        members = [each for name, each in vars(value).items() if not name.startswith("__") or callable(each)]
        return [*getattr(value, "__bases__", ()), *members]
    # A cached property is there or not, as the object was used before.
    state = getattr(value, "__dict__", {}) if _follows(type(value).__module__) else {}
    cached = {name for name in state if isinstance(getattr(type(value), name, None), functools.cached_property)}
    return [type(value), *(state[name] for name in state if name not in cached)]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _facts(code: types.CodeType, doc: str | None) -> list[Any]:
    """Return what a code object does, without line numbers and docstring."""
    consts = [_plain(const) for const in code.co_consts if doc is None or const != doc]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_flags]
    return [code.co_code.hex(), code.co_exceptiontable.hex(), consts, names]


def _plain(value: Any) -> str:
    """Return a hash of a value of Python, NumPy or pandas; of all else the name of its type."""
    import joblib

    if type(value).__module__.split(".")[0] in ("builtins", "numpy", "pandas"):
        with contextlib.suppress(TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError):
            return joblib.hash(sorted(value, key=repr) if isinstance(value, frozenset) else value)
    return type(value).__qualname__


@functools.cache
def _path(module: str) -> Path | None:
    """Return the source of a module of a package that is followed; None where there is none."""
    first, *rest = module.split(".")
    spec = importlib.util.find_spec(first) if first and _follows(first) else None
    if not rest:
        return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
    places = [Path(folder, *rest) for folder in (spec and spec.submodule_search_locations) or ()]
    paths = (path for place in places for path in (place / "__init__.py", place.with_name(f"{place.name}.py")))
    return next(filter(Path.is_file, paths), None)


@functools.cache
def _version(library: str) -> str:
    try:
        return ".".join(metadata.version(_DISTRIBUTIONS.get(library, library)).split("+")[0].split(".")[:2])
    except metadata.PackageNotFoundError:
        return "none"


def _data(folder: Path) -> str:
    """Return a digest of the data files below a folder."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix not in _NO_DATA and path.is_file()]
    paths = [path for path in paths if path.parent.name != "__pycache__"]
    return _hash([[path.relative_to(folder).as_posix(), _file_hash(path, path.stat().st_mtime_ns)] for path in paths])


@functools.cache
def _file_hash(path: Path, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _source(module: str, path: Path, changed: int) -> tuple[str, bool, list[str]]:
    """Return a digest of a source as last ``changed``, whether it reads data files, and names of what it imports."""
    noted: list[ast.AST] = []
    code = _structure(ast.parse(path.read_bytes()), noted)
    reads = any(isinstance(node, ast.Name) and node.id in _READS for node in noted)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return _hash(code), reads, sorted(_imports(noted, package))


def _structure(node: Any, noted: list[ast.AST]) -> str:
    """Return a syntax tree as text, without what does not count; its imports, names and constants go to ``noted``."""
    kind = type(node)
    if kind is list:
        return f"[{','.join(filter(None, [_structure(each, noted) for each in node]))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return _structure(node.orelse, noted)
    if kind in (ast.Import, ast.ImportFrom, ast.Name, ast.Constant):
        noted.append(node)
    fields = [_structure(getattr(node, name), noted) for name in node._fields if name not in _SILENT]
    return f"{kind.__name__}({','.join(fields)})"


def _imports(nodes: Iterable[ast.AST], package: str) -> set[str]:
    """Return the modules that nodes import or name as text, and ``NAME.*`` for the modules in an imported package."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(*((alias.name, f"{alias.name}.*") for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names.update((origin,), *((f"{origin}.{alias.name}", f"{origin}.{alias.name}.*") for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {match[1]} if (match := _DOTTED.fullmatch(node.value)) else set()
    return names
