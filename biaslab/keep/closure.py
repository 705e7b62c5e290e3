"""What code a result depends on: the modules behind a function, with the data and packages that these use.

The key of a kept result must change with the code that makes it. So modules are followed through their sources, without
importing anything: that of the function, all of this package that it imports, and so on, and packages that bring
something to this one (:mod:`biaslab.ground.plugins`) alike. Comments, docstrings, annotations of functions, layout and
imports for type checking do not count. Of other packages those count by version that numbers come from.

A module counts whole, so a stage's function belongs beside what it uses. One that only hands on what others hold, such
as most packages, counts by the names that are used of it. What no source says is not found: a module whose name is put
together while the program runs, and methods of objects that are handed over; these are told by the digests among a
stage's inputs, and by their class where a function holds them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import sys
import types
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab.ground import plugins
from biaslab.ground.errors import ParameterError
from biaslab.ground.places import default_root

PACKAGE = __name__.split(".")[0]
# The file in the store's folder that says what sources were found to hold; another name where it holds something else.
KEPT = "sources.json"
# Packages that numbers come from, by the name they are imported by; of their versions the first two parts count. Those
# that only carry tables, pictures or files are passed over.
_PACKAGES = {
    **{name: name for name in ("diffusers", "mediapipe", "scipy", "spacy", "statsmodels", "torch", "torchvision")},
    "cv2": "opencv-python-headless",
    "gender_guesser": "gender-guesser",
    "open_clip": "open_clip_torch",
    "sentence_transformers": "sentence-transformers",
    "transformers": "transformers",
}
# What uses one of these reads files of its package, which count with it.
_READS = frozenset(("__file__", "files", "resources"))
_NO_DATA = frozenset((".md", ".py", ".pyc"))
# The folder of a package whose files, weights of models, are inputs with digests of their own.
_WEIGHTS = "weights"
# Larger files are known by size and time of change.
_HASHED = 64_000_000
# What may be the name of a module.
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_ROOT = Path(__file__).parents[1]
# What Python raises for code that is none, or lies too deep in itself.
_NO_CODE = (SyntaxError, ValueError, RecursionError, MemoryError)
# Where work runs and where results are kept changes no result; nor does this package's version.
_APART = frozenset(
    (
        PACKAGE,
        *(f"{PACKAGE}.{name}" for name in ("ground.places", "keep.closure", "keep.store", "keep.workers")),
        # What is tried before work decides about no number.
        f"{PACKAGE}.pipeline.rehearsal",
    )
)


def of(*works: Any) -> dict[str, str]:
    """Return digests of the code that functions depend on, by module, and of the versions of packages.

    ``works`` are functions, methods, partial functions, classes or objects that are called; or names of modules and of
    what they hold. Of functions from elsewhere (a notebook, a test) their own code counts, with the values that they
    hold.

    The keys are names of modules, ``MODULE:NAME`` for what one only hands on (with where it is from), ``package:NAME``
    and, for functions from elsewhere, ``function:NAME``, in order.
    """
    names, found = _behind(works)
    todo = [name.replace(":", ".") for name in names]
    seen: set[str] = set()
    with _remembering():
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            used, handed = _resolved(name)
            found |= handed
            for each in used - found.keys():
                if each in _PACKAGES:
                    found[f"package:{each}"] = _version(each)
                elif (path := _file(each)) and each not in _APART:
                    source = _source(each, path)
                    data = _data_digest(path.parent) if source["reads"] else ""
                    found[each] = _digest([source["digest"], data])[:16]
                    todo += [*source["uses"], *filter(_file, source["texts"])]
    return dict(sorted(found.items()))


def digest(*works: Any) -> str:
    """Return one digest of :func:`of`, and of the works' names."""
    return _digest([[getattr(work, "__qualname__", "") for work in works], of(*works)])


def brought(entry: metadata.EntryPoint) -> str:
    """Return a digest of what an entry point of another package gives.

    Package and version count, the code that it reaches, and what lies in its folders ``weights``. Raises ParameterError
    where its module is missing, or has no source.
    """
    if _file(entry.module) is None:
        raise ParameterError(
            f"{entry.name} names the module {entry.module}, which is not there as source. Install its package again."
        )
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    folders = _place(entry.module.split(".")[0], tuple(sys.path))[1]
    weights = [_data_digest(found) for folder in folders for found in sorted(folder.rglob(_WEIGHTS))]
    return _digest([package, entry.value, of(entry.module), weights])


def used(cells: Iterable[str]) -> set[str]:
    """Return the full names that cells of notebooks use of what they import, such as ``biaslab.stats.mean_interval``.

    What a magic names counts whole; where a cell is no Python, so does all that any cell imports.
    """
    whole, sound = ast.Module([], []), True
    magics: list[str] = []
    for cell in cells:
        lines = cell.splitlines()
        code = [line for line in lines if not line.lstrip().startswith(("%", "!", "?"))]
        magics += [line for line in lines if line not in code]
        try:
            whole.body += ast.parse("\n".join(code)).body
        except _NO_CODE:
            sound = False
            for line in code:
                with contextlib.suppress(*_NO_CODE):
                    whole.body += ast.parse(line.strip()).body
    imported, names = _names(whole, "")
    told = re.findall(r"\w+", " ".join(magics)) if sound else imported
    return names.union(*(imported.get(name, ()) for name in told))


def imported(cells: Iterable[str]) -> set[str]:
    """Return the modules of this package, and of those that bring something to it, that cells of notebooks import."""
    return {_module_in(name) for name in used(cells) if follows(name)}


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
    return follows(_module_of(value))


def follows(name: str) -> bool:
    """Return whether a module is of this package, or of one that brings something to it."""
    first = name.split(".")[0]
    return first == PACKAGE or first in plugins.packages()


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


def _file(module: str) -> Path | None:
    """Return the source of a module of a package that is followed; None where there is none."""
    return _found(module, tuple(sys.path)) if follows(module) else None


@functools.cache
def _found(module: str, path: tuple[str, ...]) -> Path | None:
    first, *rest = module.split(".")
    own, folders = _place(first, path)
    if not rest:
        return own
    places = [folder.joinpath(*rest) for folder in folders]
    paths = (file for at in places for file in (at / "__init__.py", at.with_name(f"{at.name}.py")))
    return next(filter(Path.is_file, paths), None)


@functools.cache
def _place(package: str, path: tuple[str, ...]) -> tuple[Path | None, list[Path]]:
    """Return the source of a package, or of a module that is one by itself, and the folders of its modules."""
    if package == PACKAGE:
        return _ROOT / "__init__.py", [_ROOT]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None, []
    own = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    return own, [Path(folder) for folder in spec.submodule_search_locations or ()]


def _module_in(name: str) -> str:
    """Return the module that a name is of, or is: of what is followed the one with a source, of others the package."""
    first = name.split(".")[0]
    while name != first and not _file(name):
        name = name.rpartition(".")[0]
    return name


def _resolved(name: str) -> tuple[set[str], dict[str, str]]:
    """Return the modules that a name leads to, and of those that only hand it on where it is from."""
    modules: set[str] = set()
    handed: dict[str, str] = {}
    todo, seen = [name], set()
    while todo:
        name = todo.pop()
        module = _module_in(name)
        if name in seen or module in _APART:
            continue
        seen.add(name)
        attribute, _, more = name[len(module) + 1 :].partition(".")
        above, _, last = module.rpartition(".")
        # What a package holds may have the name of one of its modules.
        for at, key, rest in ((module, attribute, more), (above, last, "")):
            path = _file(at) if key else None
            source: dict[str, Any] = _source(at, path) if path else {"imports": {}, "hands_on": False}
            origins = [one for one in source["imports"].get(key, ()) if one != module]
            todo += [f"{one}.{rest}" if rest else one for one in origins if _module_in(one) != module]
            if origins and source["hands_on"]:
                handed[f"{at}:{key}"] = " ".join(origins)
            elif origins or at == module:
                modules.add(at)
    return modules, handed


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
        if Path(at) == package / _WEIGHTS:
            folders[:], files = [], []
        for path in (Path(at, name) for name in sorted(files)):
            if path.suffix not in _NO_DATA and not path.name.startswith("."):
                status = path.stat()
                whole.update(f"{path.relative_to(package).as_posix()}\0".encode())
                whole.update(_hashed_content(path, status.st_mtime_ns, status.st_size))
    return whole.hexdigest()


@functools.cache
def _hashed_content(file: Path, mtime: int, size: int) -> bytes:
    return hashlib.sha256(file.read_bytes() if size <= _HASHED else f"{size} {mtime}".encode()).digest()


# What sources hold, by path: time of change, size, and what :func:`_summary` returns.
_known: dict[str, list] = {}


def _source(module: str, path: Path) -> dict[str, Any]:
    status, known = path.stat(), _known.get(str(path))
    if known is None or known[:2] != [status.st_mtime_ns, status.st_size]:
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        known = [status.st_mtime_ns, status.st_size, _summary(path.read_text(encoding="utf-8"), package)]
        _known[str(path)] = known
    return _known[str(path)][2]


def _summary(text: str, package: str) -> dict[str, Any]:
    """Return what a source holds; nothing of it depends on which other packages are installed."""
    tree = _Silenced().visit(ast.parse(text))
    imported, names = _names(tree, package)
    nodes = list(ast.walk(tree))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    names_all = [node for node in assigned if ast.unparse(node.targets[0]) == "__all__"]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {
        "digest": _digest(ast.dump(tree))[:16],
        "imports": {name: sorted(origins) for name, origins in imported.items()},
        "uses": sorted(names),
        "texts": sorted(filter(_DOTTED.fullmatch, texts)),
        "reads": any(isinstance(node, ast.Name) and node.id in _READS for node in nodes),
        "hands_on": all(isinstance(node, ast.ImportFrom) or node in names_all for node in tree.body),
    }


def _names(tree: ast.AST, package: str) -> tuple[dict[str, set[str]], set[str]]:
    """Return what a tree imports anywhere, by the names that it has for it, and the full names that it uses of that."""
    imported: dict[str, set[str]] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                imported.setdefault(alias.asname or first, set()).add(alias.name if alias.asname else first)
                # Importing it does something, too.
                names |= set() if alias.asname or first == alias.name else {alias.name}
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):  # beyond the top of a package, or in a notebook
                origin = importlib.util.resolve_name(origin, package)
                for alias in node.names:
                    imported.setdefault(alias.asname or alias.name, set()).add(f"{origin}.{alias.name}")
    chains = _Chains()
    chains.visit(tree)
    unused = [(name,) for name in imported.keys() - {chain[0] for chain in chains.found}]
    for name, *attributes in [*unused, *(chain for chain in chains.found if chain[0] in imported)]:
        names |= {".".join([origin, *attributes]) for origin in imported[name]}
    return imported, names


class _Chains(ast.NodeVisitor):
    """Collects the names that a tree reads, with the attributes that are had of them as far as these go."""

    def __init__(self) -> None:
        self.found: set[tuple[str, ...]] = set()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes, at = [node.attr], node.value
        while isinstance(at, ast.Attribute):
            attributes.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name):
            self.found.add((at.id, *reversed(attributes)))
        else:
            self.visit(at)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.found.add((node.id,))


class _Silenced(ast.NodeTransformer):
    """Takes out of a source what does nothing: docstrings, annotations of functions, what only types need."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
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
