"""Digests of the code that a result depends on, which are part of the result's key.

:func:`function_digests` covers the modules of functions and of the objects that they reference, and all modules that
these import from this package and from packages with plug-ins (:mod:`biaslab.plugins`). It also covers the data files
next to modules that read files, and the versions of libraries that compute numbers. Sources are parsed, not imported. A
module counts as a whole, without comments, docstrings, annotations of functions and imports for type checking.

Modules whose names are composed at run time are not found, and neither are the contents of objects' lists and mappings.
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
# Modules that do not affect results: workers, progress, storage of results, and checks before a run.
_NO_EFFECT = re.compile(
    rf"{_PACKAGE}(\.cache(\..+)?|\.execution\.(kernels|progress|workers)|\.io\.places|\.planning\.preflight)?"
)
# Libraries that compute numbers, and their distributions if these have other names.
_LIBRARIES = {"cv2", "diffusers", "gender_guesser", "mediapipe", "open_clip", "scipy", "sentence_transformers", "spacy"}
_LIBRARIES |= {"statsmodels", "torch", "torchvision", "transformers"}
_DISTRIBUTIONS = {"cv2": "opencv-python-headless", "open_clip": "open_clip_torch"}
# Names that indicate a module that reads files next to it.
_READS = {"__file__", "__path__", "__spec__", "files", "get_data", "resources"}
# Fields of syntax trees that do not affect results.
_IGNORED_FIELDS = {"ctx", "returns", "type_comment"}
_NO_DATA = {".md", ".py", ".pyc"}
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+)(?::\w+)?")


def function_digests(*works: Any) -> dict[str, str]:
    """Return digests of the code that ``works`` depend on, by name, in alphabetical order.

    ``works`` are functions, methods, partial functions, classes, other objects, or names of modules. The names are
    those of modules, ``package:NAME`` for versions (first two parts) of libraries, and ``function:NAME`` for functions
    and classes defined elsewhere, such as in a notebook, whose digest includes the values that they close over or read.
    """
    todo, digests = _collect_modules(works)
    while todo:
        name = todo.pop()
        if (library := name.split(".")[0]) in _LIBRARIES:
            digests[f"package:{library}"] = _version(library)
        elif name.endswith(".*"):
            package = _path(name[:-2])
            modules = package.parent.glob("*.py") if package and package.name == "__init__.py" else ()
            todo += [f"{name[:-2]}.{path.stem}" for path in modules if path != package]
        elif name not in digests and not _NO_EFFECT.fullmatch(name) and (path := _path(name)):
            code, reads, names = _source(name, path, path.stat().st_mtime_ns)
            digests[name] = _hash(code, _data(path.parent) if reads else "")
            todo += names
    return dict(sorted(digests.items()))


def digest(*works: Any) -> str:
    """Return one digest of the names of ``works`` and of the code that they depend on."""
    return _hash([getattr(work, "__qualname__", "") for work in works], function_digests(*works))


def entry_digest(entry: metadata.EntryPoint) -> str:
    """Return a digest of the package, version and code behind an entry point of another package.

    Raises ParameterError: The entry point's module is missing, or has no source.
    """
    if _path(entry.module) is None:
        raise ParameterError(
            f"{entry.name} refers to the module {entry.module}, whose source file is missing. Reinstall its package."
        )
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return _hash(package, entry.value, function_digests(entry.module))


def imported_modules(cells: Iterable[str]) -> set[str]:
    """Return the modules of this package, and of packages with plug-ins, that the cells of a notebook may import.

    These are all modules that the text names, and modules in a named package whose last name is a word of the text.
    """
    words = set(re.findall(r"[A-Za-z_][\w.]*", "\n".join(cells)))
    paths = {word: path for word in words if (path := _path(word))}
    packages = {name: path.parent for name, path in paths.items() if path.name == "__init__.py"}
    submodules = {f"{name}.{path.stem}" for name, folder in packages.items() for path in folder.iterdir()}
    return {*paths, *(name for name in submodules if name.rpartition(".")[2] in words and _path(name))}


def _is_followed(module: str) -> bool:
    """Return whether a module belongs to this package or to a package with plug-ins."""
    package = module.split(".")[0]
    return package == _PACKAGE or package in plugins.plugin_packages()


def _hash(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _collect_modules(works: Iterable[Any]) -> tuple[list[str], dict[str, str]]:
    """Return the modules of ``works`` and of the objects that they reference, and digests of external code."""
    # Each with whether its values count; arguments of a stage's code are inputs of the stage.
    todo = [(work, True) for work in works if not isinstance(work, str)]
    digests: dict[str, str] = {}
    names = [name for work in works if isinstance(work, str) for name in (work, f"{work}.*")]
    # References the objects, so that no two have the same id.
    visited: dict[int, Any] = {}
    while todo:
        value, counts_values = todo.pop()
        if id(value) in visited:
            continue
        visited[id(value)] = value
        contents, is_external = _contents(value), _is_external(value)
        if not counts_values and _is_external(type(value)):
            continue
        todo += [(item, counts_values and is_external) for item in contents]
        module = value.__module__ if isinstance(value, types.FunctionType | type) else type(value).__module__
        names.append(module or "")
        if isinstance(value, types.ModuleType):
            names += [value.__name__, f"{value.__name__}.*"]
        elif is_external:
            name = f"function:{getattr(value, '__qualname__', '')}"
            codes = [*_codes(value.__code__)] if isinstance(value, types.FunctionType) else []
            facts = [_facts(code, value.__doc__) for code in codes]
            digests[name] = _hash(digests.get(name), facts, [*map(_hash_value, contents)] if counts_values else [])
    return names, digests


def _is_external(value: Any) -> bool:
    """Return whether a function, class or module is outside of installed packages, for instance in a notebook."""
    if isinstance(value, functools.partial) and not hasattr(value, "__wrapped__"):
        value = value.func
    if not isinstance(value, types.FunctionType | types.ModuleType | type):
        return False
    module = value.__name__ if isinstance(value, types.ModuleType) else value.__module__ or ""
    if _is_followed(module) or module.split(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False
    return module == "__main__" or "-packages" not in (getattr(sys.modules.get(module), "__file__", None) or "")


def _contents(value: Any) -> list[Any]:
    """Return the objects that a function or object references; for external code, all that it uses."""
    if isinstance(value, functools.partial) and not hasattr(value, "__wrapped__"):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, property):
        return [value.fget]
    is_external = _is_external(value)
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        if not is_external:
            return cells
        names = [name for code in _codes(value.__code__) for name in code.co_names]
        global_values = [value.__globals__[name] for name in names if name in value.__globals__]
        contents = [*cells, *global_values, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        nested = [item for element in contents if isinstance(element, list | tuple) for item in element]
        return contents + [item for item in nested if callable(item)]
    if isinstance(value, classmethod) or (callable(value) and hasattr(value, "__wrapped__")):
        return [value.__wrapped__]
    if isinstance(value, types.ModuleType | type) and is_external:
        members = [element for name, element in vars(value).items() if not name.startswith("__") or callable(element)]
        return [*getattr(value, "__bases__", ()), *members]
    # Values of cached properties depend on earlier use of the object.
    state = getattr(value, "__dict__", {}) if _is_followed(type(value).__module__) else {}
    cached_names = {name for name in state if isinstance(getattr(type(value), name, None), functools.cached_property)}
    return [type(value), *(state[name] for name in state if name not in cached_names)]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _facts(code: types.CodeType, doc: str | None) -> list[Any]:
    """Return the bytecode, constants and names of a code object, without line numbers and docstring."""
    consts = [_hash_value(const) for const in code.co_consts if doc is None or const != doc]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_flags]
    return [code.co_code.hex(), code.co_exceptiontable.hex(), consts, names]


def _hash_value(value: Any) -> str:
    """Return a hash of a value of Python, NumPy or pandas, or the name of any other type."""
    import joblib

    if type(value).__module__.split(".")[0] in ("builtins", "numpy", "pandas"):
        with contextlib.suppress(TypeError, AttributeError, ValueError, RecursionError, pickle.PicklingError):
            return joblib.hash(sorted(value, key=repr) if isinstance(value, frozenset) else value)
    return type(value).__qualname__


@functools.cache
def _path(module: str) -> Path | None:
    """Return the source file of a module of this package or a package with plug-ins, or None."""
    package, *names = module.split(".")
    spec = importlib.util.find_spec(package) if package and _is_followed(package) else None
    if not names:
        return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
    places = [Path(folder, *names) for folder in (spec and spec.submodule_search_locations) or ()]
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
def _file_hash(path: Path, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def _source(module: str, path: Path, mtime_ns: int) -> tuple[str, bool, list[str]]:
    """Return a digest of a source, whether it reads data files, and the names of its imports."""
    nodes: list[ast.AST] = []
    code = _structure(ast.parse(path.read_bytes()), nodes)
    reads = any(isinstance(node, ast.Name) and node.id in _READS for node in nodes)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return _hash(code), reads, sorted(_imports(nodes, package))


def _structure(node: Any, nodes: list[ast.AST]) -> str:
    """Return a syntax tree as text, without ignored parts, and append its imports, names and constants to ``nodes``."""
    kind = type(node)
    if kind is list:
        return f"[{','.join(filter(None, [_structure(child, nodes) for child in node]))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return ""
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return _structure(node.orelse, nodes)
    if kind in (ast.Import, ast.ImportFrom, ast.Name, ast.Constant):
        nodes.append(node)
    fields = [_structure(getattr(node, name), nodes) for name in node._fields if name not in _IGNORED_FIELDS]
    return f"{kind.__name__}({','.join(fields)})"


def _imports(nodes: Iterable[ast.AST], package: str) -> set[str]:
    """Return the modules that nodes import or name in strings, and ``NAME.*`` for modules in an imported package."""
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
