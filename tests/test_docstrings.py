"""What docstrings of the public surface say: errors raised, sources, shapes and units; and that they say it truly."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "biaslab"
SOURCE = re.compile(
    r"\b([Ss]ection|[Ee]quation|eq\.|[Tt]able|[Ff]igure|[Aa]ppendix|[Cc]hapter|et al\.|arXiv|IEC|BT\.\d+)|"
    r"\b[A-ZÀ-Ž][\w-]+(,| and [A-Z]\w+| & [A-Z]\w+)? \(?(19|20)\d\d\)?"
)
SHAPE = re.compile(
    r"``[^`]*\([^)`]*[,)][^`]*``|\((\.\.\.|[a-z]+)(, ?[\w.]+)*,?\)|(one|two)-dimensional|(any|one|of that) shape"
    r"|[Ee]lementwise|axis|broadcast|[Oo]ne for each|\beach\b|[Bb]y group|:func:|:class:|\b[Aa] row\b"
)
ARRAY = re.compile(r"ndarray|ArrayLike|NDArray|Series")


class Module:
    """The functions of a module, and what each raises."""

    def __init__(self, text: str, helpers: dict[str, set[str]] | None = None) -> None:
        tree = ast.parse(text)
        self.doc = ast.get_docstring(tree) or ""
        self.functions = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                own = {f"{node.name}.{f.name}": f for f in node.body if isinstance(f, ast.FunctionDef)}
                self.functions |= own
        self.docs = {name: ast.get_docstring(node) or "" for name, node in self.functions.items()}
        # What holds for all methods is told once.
        self.classes = {n.name: ast.get_docstring(n) or "" for n in tree.body if isinstance(n, ast.ClassDef)}
        self.docs |= {f"{name}.__init__": doc for name, doc in self.classes.items()}
        stats = [n for n in tree.body if isinstance(n, ast.ImportFrom) and "biaslab.stats" in (n.module or "")]
        known = {name.name for node in stats for name in node.names}
        self._helpers = {n: e for n, e in (helpers or {}).items() if n.partition(".")[0] in known}
        self._raised = {}

    def public(self):
        """Yield name and node of each function that callers name; a class stands for its ``__init__``."""
        for name, node in self.functions.items():
            if not any(part.startswith("_") for part in name.removesuffix(".__init__").split(".")):
                yield name, node

    def raised(self, name: str) -> set[str]:
        """Return the classes that a function raises, itself, by private ones of its module, or by ``helpers``."""
        if name not in self._raised:
            self._raised[name] = set()
            self._raised[name] = self._of(self.functions[name].body, frozenset(), name.rpartition(".")[0])
        return self._raised[name]

    def _of(self, nodes, caught: frozenset, owner: str) -> set[str]:
        out = set()
        for node in nodes:
            inner = caught
            if isinstance(node, ast.Try):
                names = {n.id for h in node.handlers if h.type for n in ast.walk(h.type) if isinstance(n, ast.Name)}
                out |= self._of(node.body, caught | names, owner)
                rest = [*node.handlers, *node.orelse, *node.finalbody]
                out |= self._of(rest, caught, owner)
                continue
            if isinstance(node, ast.Raise) and node.exc is not None:
                what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                called = ast.unparse(what).rpartition(".")[2]
                called = {"unknown_name": "UnknownNameError"}.get(called, called)
                out |= {called} - caught if called.endswith("Error") else set()
            if isinstance(node, ast.Name | ast.Attribute):
                named = ast.unparse(node)
                named = f"{owner}.{named[5:]}" if named.startswith("self.") else named
                out |= self._helpers.get(named, set()) - caught
                # What is public tells of its errors itself.
                if named in self.functions and named.rpartition(".")[2].startswith("_"):
                    out |= self.raised(named) - caught
            out |= self._of(ast.iter_child_nodes(node), inner, owner)
        return out


def section(doc: str, title: str) -> dict[str, str]:
    """Return the entries of a Google style section by name; several names before one colon each get its text."""
    found = re.search(rf"^{title}:\n((?:    .*\n?|\n)+)", doc, re.MULTILINE)
    if not found:
        return {}
    entries = re.findall(r"^    (\S.*?):(?: (.*(?:\n {8}.*)*)|$)", found[1], re.MULTILINE)
    return {name.strip("*` "): text for names, text in entries for name in names.split(",")}


def parameters(node: ast.FunctionDef) -> dict[str, str]:
    """Return the parameters of a function and their annotations, but for ``self``."""
    a = node.args
    given = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    return {
        p.arg: ast.unparse(p.annotation) if p.annotation else ""
        for p in given
        if p is not None and p.arg not in ("self", "cls")
    }


def unraised(module: Module, name: str) -> list[str]:
    """Return what is wrong with what a docstring says of errors, in a section or in a sentence."""
    docs = [module.docs[name], module.classes.get(name.rpartition(".")[0], "")]
    told = {error for doc in docs for error in section(doc, "Raises")}
    for sentence in re.findall(r"\bRaises\s+(\w+Error.*)", "\n".join(docs), re.DOTALL):
        told.update(re.findall(r"\w+Error", sentence))
    return [f"{name} raises {error}" for error in sorted(module.raised(name)) if not {error, "BiaslabError"} & told]


def misnamed(module: Module, name: str) -> list[str]:
    """Return entries of ``Args`` that are no parameters, and parameters that it lacks."""
    told, known = section(module.docs[name], "Args"), parameters(module.functions[name])
    wrong = [f"{name} has no parameter {entry}" for entry in told if entry not in known]
    return wrong + [f"{name} tells nothing of {entry}" for entry in known if told and entry not in told]


def shapeless(module: Module, name: str) -> list[str]:
    """Return arrays of which neither a shape nor an element is told."""
    doc, told = module.docs[name], section(module.docs[name], "Args")
    arrays = [p for p, kind in parameters(module.functions[name]).items() if ARRAY.search(kind)]
    return [f"{name}: what is {p}?" for p in arrays if not SHAPE.search(told.get(p) or doc)]


def sourceless(module: Module, name: str) -> list[str]:
    """Return a function whose source neither it nor its module names."""
    return [] if SOURCE.search(module.docs[name]) or SOURCE.search(module.doc) else [f"{name} has no source"]


WRONG = Module('''
"""Checks."""
class Table:
    """A table.

    Raises:
        KeyError: There is no such column.
    """
    def told(self):
        """Return it."""
        raise KeyError
    def untold(self):
        """Return it."""
        return self._look()
    def _look(self):
        raise module.InputError("x")
def _refuse():
    raise ValueError("x")
def helped(count: np.ndarray, seed: int):
    """Return something.

    Args:
        count: What there is.
        level: No parameter.
    """
    _refuse()
def told(count: npt.ArrayLike):
    """Return something by Smith et al. of ``count``, whole numbers (rows,).

    Raises:
        ValueError, TypeError: It is wrong.
    """
    _refuse()
def in_words():
    """Return something (section 2). Raises TypeError: It is none. ValueError: It is wrong."""
    _refuse()
def caught():
    """Return something."""
    try:
        _refuse()
    except (ValueError, KeyError):
        pass
def named(kind):
    """Return something (section 3)."""
    raise unknown_name("kind", kind, ())
''')


def test_the_checks_can_fail():
    assert _wrong(unraised, WRONG) == [
        "Table.untold raises InputError",
        "helped raises ValueError",
        "named raises UnknownNameError",
    ]
    assert _wrong(misnamed, WRONG) == ["helped has no parameter level", "helped tells nothing of seed"]
    assert _wrong(shapeless, WRONG) == ["helped: what is count?"]
    assert _wrong(sourceless, WRONG) == [
        f"{name} has no source" for name in ("Table.told", "Table.untold", "helped", "caught")
    ]
    # What a checked function raises counts for who calls it.
    helped = Module("from biaslab.stats import checks\ndef f(x):\n    return checks.numbers(x, 'x')", BY_CONTRACT)
    assert helped.raised("f") == {"InputError"}


CHECKS = Module((ROOT / "stats/checks.py").read_text(encoding="utf-8"))
BY_CONTRACT = {n: CHECKS.raised(n) for n, _ in CHECKS.public()}
BY_CONTRACT |= {f"checks.{name}": errors for name, errors in BY_CONTRACT.items()}


def _modules(*rooms: str) -> list:
    paths = [path for room in rooms for path in sorted((ROOT / room).glob("*.py"))]
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    return [pytest.param(Module(t, BY_CONTRACT), id=f"{p.parent.name}/{p.stem}") for p, t in texts]


def _wrong(check, module: Module) -> list[str]:
    return [line for name, _ in module.public() for line in check(module, name)]


@pytest.mark.parametrize("module", _modules("stats", "measures", "pipeline"))
def test_errors_that_are_raised_are_told(module):
    assert not _wrong(unraised, module)


@pytest.mark.parametrize("module", _modules("stats", "measures", "pipeline"))
def test_arguments_that_are_told_are_those_that_there_are(module):
    assert not _wrong(misnamed, module)


@pytest.mark.parametrize("module", _modules("stats", "measures"))
def test_arrays_have_a_shape_or_an_element(module):
    assert not _wrong(shapeless, module)


@pytest.mark.parametrize("module", _modules("measures"))
def test_measures_name_their_source(module):
    assert not _wrong(sourceless, module)
