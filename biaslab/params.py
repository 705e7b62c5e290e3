"""The parameters of a run: read from YAML, checked before anything starts, expanded into variants.

A run has a few keys of its own (:class:`RunParams`); every other key is a parameter of the notebooks,
whose ``parameters`` cells say which exist, of which type, and with which default.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from biaslab import values
from biaslab.errors import ParameterError, name_help
from biaslab.values import dotted

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?<!\.yaml)(?<!\.yml)")
# Texts of one word in a notebook's code.
_WORD = re.compile(r"""["'](\w+)["']""")
# Set by the runner for each notebook, never by a parameters file.
_RESERVED = "output_dir"


@dataclass(frozen=True)
class Notebook:
    """A notebook as a run sees it."""

    id: str
    """``<paper>/<section>``: its path below the notebooks folder, without the ending."""
    path: Path
    """The file."""
    title: str
    """Its first heading."""
    parameters: Mapping[str, Any]
    """Names and defaults in its cell tagged ``parameters``."""
    texts: frozenset[str] = frozenset()
    """Texts of one word in its code, among them the names of the tables that it takes."""
    needs: frozenset[str] = frozenset()
    """The tables among them that it cannot do without."""


@dataclass(frozen=True)
class RunParams:
    """What to run, checked."""

    run: str
    """Name of the run and of its folder below ``outputs``: letters, digits, ``.``, ``_`` and ``-``."""
    title: str
    """Heading of the report."""
    description: str
    """What is run and on what, for a reader who was not there."""
    notebooks: tuple[str, ...]
    """Patterns of notebook ids to execute, for example ``paradox/*``."""
    values: Mapping[str, Any]
    """Notebook parameters; a list means one execution a value."""
    jobs: int
    """Notebooks executed side by side; 0 is one per processor."""
    file: str = ""
    """The parameters file that they came from."""
    selected: tuple[Notebook, ...] = field(default=(), repr=False)
    """The notebooks that the patterns select, in order."""

    @property
    def sweep(self) -> dict[str, list]:
        """The notebook parameters that were given a list, with their values."""
        return {k: list(v) for k, v in self.values.items() if isinstance(v, list)}

    def variants(self) -> list[dict[str, Any]]:
        """Return one mapping of swept parameters per combination of their values; ``[{}]`` without a list."""
        return _combinations(self.sweep)

    def variants_in_words(self) -> list[dict[str, Any]]:
        """Return the same with a text for each mapping: those of its values in which the mappings differ."""
        return _combinations(
            {k: _distinct(v) if isinstance(v[0], dict) else v for k, v in self.sweep.items()}
        )


def _combinations(sweep: Mapping[str, list]) -> list[dict[str, Any]]:
    return [dict(zip(sweep, combo, strict=True)) for combo in itertools.product(*sweep.values())]


def _distinct(mappings: list[dict]) -> list[str]:
    mappings = [dotted(some) for some in mappings]
    names = list(dict.fromkeys(name for some in mappings for name in some))
    differ = [n for n in names if len({repr(some.get(n)) for some in mappings}) > 1]
    words = ({n: some[n] for n in differ if n in some} for some in mappings)
    return [", ".join(f"{n}={v}" for n, v in some.items()) or "defaults" for some in words]


# Keys of the run itself: the type that YAML must give and the default.
_RUN_KEYS: dict[str, tuple[type, Any]] = {
    "run": (str, None),
    "title": (str, ""),
    "description": (str, ""),
    "notebooks": (list, ["*"]),
    "jobs": (int, 0),
}


def load(
    path: str | Path,
    *,
    overrides: Sequence[str] = (),
    notebooks: Sequence[str] = (),
    notebooks_dir: str | Path | None = None,
) -> RunParams:
    """Read and check a parameters file.

    Args:
        path: A YAML file with a mapping of keys to values.
        overrides: ``key=value`` texts that replace the file's values; values are read as YAML.
        notebooks: Patterns of notebook ids that replace the file's.
        notebooks_dir: Where the notebooks are; by default the folder ``notebooks`` at or above the
            parameters file, else at or above the working folder.

    Raises:
        ParameterError: The file is missing or not YAML, a key is unknown (the nearest match is
            named), a value has a wrong type or is not allowed, or no notebook is selected.
    """
    given = _read_yaml(Path(path))
    available = find_notebooks(notebooks_dir or _notebooks_dir(Path(path)))
    set_here = _overrides(overrides, given, available)
    given |= set_here
    for key, value in given.items():
        values.check(key[:60], value)
    if notebooks:
        given["notebooks"] = list(notebooks)
    run = {key: _run_value(key, given.get(key, default)) for key, (_, default) in _RUN_KEYS.items()}
    selected = _select(available, run["notebooks"])
    asked = {k: v for k, v in given.items() if k not in _RUN_KEYS}
    checked = _notebook_values(asked, selected, available, strict=set_here)
    return RunParams(
        run=run["run"],
        title=run["title"] or run["run"],
        description=run["description"].strip(),
        notebooks=tuple(run["notebooks"]),
        values=checked,
        jobs=run["jobs"],
        file=str(path),
        selected=tuple(selected),
    )


def find_notebooks(folder: str | Path) -> list[Notebook]:
    """Return the notebooks below ``folder``, ordered by paper and section.

    A notebook without a cell tagged ``parameters``, such as one just begun, is passed over.

    Raises:
        ParameterError: The folder is missing, or a notebook's parameters are not literals.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ParameterError(f"There is no folder of notebooks at {folder}; name one with --notebooks-dir.")
    paths = [p for p in folder.rglob("*.ipynb") if not any(part.startswith(".") for part in p.parts)]
    tagged = [p for p in paths if _parameters_cell(p) is not None]
    found = [read_notebook(p, p.relative_to(folder).with_suffix("").as_posix()) for p in tagged]
    return sorted(found, key=lambda n: (paper_order(n.id), n.id))


def _parameters_cell(path: Path) -> str | None:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        tagged = ("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", []))
        return next(tagged, None)
    except (ValueError, KeyError, TypeError):
        return None


def read_notebook(path: Path, notebook_id: str) -> Notebook:
    """Return the title and the parameters of the notebook at ``path``.

    Raises:
        ParameterError: It is not a notebook, or has no cell of literals tagged ``parameters``.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(c["source"]) for c in cells]
    except (ValueError, KeyError, TypeError) as error:
        raise ParameterError(f"{path} is not a readable notebook: {error!r}.") from None
    tagged = [s for s, c in zip(sources, cells, strict=True) if "parameters" in c["metadata"].get("tags", [])]
    if not tagged:
        raise ParameterError(f"{path} has no cell tagged 'parameters'; add one that sets literals.")
    headings = [
        line[2:].strip()
        for s, c in zip(sources, cells, strict=True)
        if c["cell_type"] == "markdown"
        for line in s.splitlines()
        if line.startswith("# ")
    ]
    parameters = {}
    try:
        for node in ast.parse(tagged[0]).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                parameters[node.targets[0].id] = ast.literal_eval(node.value)
    except (SyntaxError, ValueError) as error:
        raise ParameterError(
            f"{path}: the cell tagged 'parameters' must set literals only ({error})."
        ) from None
    code = [s for s, c in zip(sources, cells, strict=True) if c["cell_type"] == "code"]
    taken, needs = _measured(code)
    texts = frozenset(_WORD.findall("\n".join(code))) | taken
    return Notebook(notebook_id, path, headings[0] if headings else notebook_id, parameters, texts, needs)


def _measured(cells: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the tables that cells take from a study, and those of them that they need.

    ``study.measured(paradox.percent_female)`` takes ``paradox_percent_female``, and so does
    ``study.measured(paradox.printed.percent_female)``; what is marked ``optional=True``, or asked about with
    ``study.has``, is not needed.
    """
    taken, optional, calls = set(), set(), []
    for cell in cells:
        # What is no Python is a magic, or a mistake that the notebook itself will tell of.
        with contextlib.suppress(SyntaxError):
            calls += [node for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Call)]
    for call in calls:
        asked = getattr(call.func, "attr", "")
        if asked not in ("measured", "has") or not call.args:
            continue
        what = call.args[0]
        names = ast.unparse(what).split(".")
        name = what.value if isinstance(what, ast.Constant) else f"{names[0]}_{names[-1]}"
        taken.add(name)
        if asked == "has" or any(k.arg == "optional" for k in call.keywords):
            optional.add(name)
    return frozenset(taken), frozenset(taken - optional)


def paper_order(notebook_id: str) -> int:
    """Return the place of a notebook's paper in reports."""
    order = ("synthesis", "paradox", "paired", "dalleval", "triplets")
    paper = notebook_id.split("/")[0]
    return order.index(paper) if paper in order else len(order)


def _read_yaml(path: Path) -> dict:
    import yaml

    if not os.path.isfile(path):
        near = [p.as_posix() for p in sorted(path.parent.glob("*.y*ml"))] if path.parent.is_dir() else []
        if _HUB_NAME.fullmatch(str(path)) and not os.path.isdir(path.parent):
            raise ParameterError(
                f"There is no parameters file {path}. If that is a model on the hub, name it in a file of parameters: "
                f"biaslab run params/sd14.yaml --set model={path} --set run=NAME."
            )
        raise ParameterError(f"There is no parameters file {path}. {name_help(path.as_posix(), near)}")
    try:
        given = _plain_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        what = "is not YAML" if _is_syntax(error) else "cannot be used"
        raise ParameterError(f"{path} {what}{where}: {_yaml_problem(error)}.") from None
    if given is None:
        raise ParameterError(
            f"{path} is empty; a parameters file holds keys and values, such as 'run: mine'."
        )
    if not isinstance(given, dict):
        raise ParameterError(
            f"{path} holds {type(given).__name__}; a parameters file holds keys and values, such as 'run: mine'."
        )
    return given


def _plain_yaml(text: str) -> Any:
    """Return what YAML says, in plain values.

    Raises:
        yaml.YAMLError: It is not YAML, or says something that no parameter can be.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_plain_loader())
    except (ValueError, OverflowError):
        # What a backslash and a number in quotes stand for is looked up outside of what PyYAML checks.
        raise yaml.YAMLError("an escape in quotation marks stands for no character") from None


def _is_syntax(error: Exception) -> bool:
    import yaml

    return isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError | yaml.reader.ReaderError)


def _yaml_problem(error: Exception) -> str:
    return str(
        getattr(error, "problem", None) or getattr(error, "reason", None) or error or "it cannot be parsed"
    )


def _unknown_tag(_, node):
    import yaml

    problem = f"{node.tag!r} is no kind of value that a parameter has; leave it out"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


@cache
def _plain_loader() -> type:
    """Return PyYAML's safe loader made to build plain values only, and keys that are texts and come once.

    Dates are texts: no parameter is one.
    """
    import yaml

    plain = [f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map")]

    class Loader(yaml.SafeLoader):
        yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in plain} | {
            None: _unknown_tag
        }
        yaml_implicit_resolvers: ClassVar = {
            first: [(tag, pattern) for tag, pattern in some if not tag.endswith(":timestamp")]
            for first, some in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        depth = 0

        def compose_node(self, parent, index):
            self.depth += 1
            if self.depth > values.DEEPEST:
                mark = self.peek_event().start_mark
                problem = f"more than {values.DEEPEST} lists or mappings lie in one another"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_object(self, node, deep=False):
            try:
                return super().construct_object(node, deep)
            except (ValueError, KeyError, AttributeError, OverflowError):
                said = node.value if len(node.value) <= 60 else f"{node.value[:60]}…"
                kind = _kind_name(
                    {"int": int, "float": float, "bool": bool}.get(node.tag.rsplit(":", 1)[-1], str)
                )
                if len(node.value) > 4000 and node.tag.endswith(":int"):
                    problem = (
                        f"a whole number of {len(node.value):,} digits; allowed is up to {values.LARGEST}"
                    )
                else:
                    problem = f"{said!r} cannot be read as {kind}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

        def construct_mapping(self, node, deep=False):
            seen = set()
            for key_node, _ in node.value:
                problem = ""
                if key_node.tag.endswith(":merge"):
                    continue
                if not key_node.tag.endswith(":str"):
                    said = f"{key_node.value[:60]!r}" if isinstance(key_node.value, str) else ""
                    problem = "a key is a list or mapping; a key must be a text"
                    problem = f"the key {said} is not a text; put it in quotation marks" if said else problem
                elif key_node.value in seen:
                    problem = f"the key {key_node.value!r} is given twice"
                if problem:
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    return Loader


def _overrides(texts: Sequence[str], given: dict, available: list[Notebook]) -> dict[str, Any]:
    """Return the values that ``--set`` gives; ``generation.steps=20`` changes one of the settings."""
    found: dict[str, Any] = {}
    mappings = {k for n in available for k, v in n.parameters.items() if isinstance(v, dict)}
    for text in texts:
        key, value = _override(text, available)
        whole, *path = key.split(".")
        if path and whole not in mappings and "settings" in mappings:
            whole, path = "settings", [whole, *path]
        if not path or whole not in mappings:
            found[key] = value
            continue
        inner = found[whole] = _mapping(found.get(whole, given.get(whole)), whole, text)
        for k in path[:-1]:
            inner[k] = inner = _mapping(inner.get(k), k, text)
        inner[path[-1]] = value
    return found


def _mapping(value: Any, name: str, text: str) -> dict[str, Any]:
    if not isinstance(value, dict | None):
        raise ParameterError(f"--set {text!r}: {name} is {value!r}, which has no values to set by name.")
    return dict(value or {})


def _override(text: str, available: list[Notebook]) -> tuple[str, Any]:
    """Return key and value of ``key=value``; a text parameter's value is taken as it stands, unless it is a list."""
    import yaml

    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ParameterError(f"--set {text!r} is not of the form key=value, for example --set seed=7.")
    if key in _RUN_KEYS:
        is_text = _RUN_KEYS[key][0] is str
    else:
        is_text = any(isinstance(n.parameters.get(key), str) for n in available)
    if is_text and not value.lstrip().startswith("["):
        return key, value
    try:
        return key, _plain_yaml(value) if value.strip() else ""
    except yaml.YAMLError as error:
        what = "is not YAML" if _is_syntax(error) else "cannot be used"
        raise ParameterError(f"--set {text[:200]!r}: the value {what} ({_yaml_problem(error)}).") from None


def _notebooks_dir(path: Path) -> Path:
    """Return the notebooks beside ``params`` at or above the file or the working folder, else the package's own."""
    for start in (path.resolve().parent, Path.cwd()):
        for folder in (start, *start.parents):
            if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
                return folder / "notebooks"
    for folder in (path.resolve().parent, Path.cwd(), Path(__file__).parents[1]):
        if (folder / "notebooks").is_dir():
            return folder / "notebooks"
    raise ParameterError(f"There is no folder 'notebooks' at or above {path}; name one with --notebooks-dir.")


def _run_value(key: str, value: Any) -> Any:
    kind = _RUN_KEYS[key][0]
    if key == "notebooks" and isinstance(value, str):
        value = [value]
    if value is None or not isinstance(value, kind) or isinstance(value, bool):
        problem = "is missing" if value is None else f"is {value!r}"
        raise ParameterError(f"{key} {problem}; it must be {_kind_name(kind)}.")
    if key == "run" and not RUN_NAME.fullmatch(value):
        raise ParameterError(
            f"run is {value!r}; a run's name is made of letters, digits, '.', '_' and '-', at most 80, "
            "and starts with a letter or digit."
        )
    if key == "jobs" and value < 0:
        raise ParameterError(f"jobs is {value}; it must be 0 (one per processor) or more.")
    if key == "notebooks" and not (value and all(isinstance(v, str) for v in value)):
        raise ParameterError(f"notebooks is {value!r}; it must be a list of patterns such as 'paradox/*'.")
    return value


def _select(available: list[Notebook], patterns: Sequence[str]) -> list[Notebook]:
    ids = [n.id for n in available]
    for pattern in patterns:
        if not any(fnmatch(i, pattern) for i in ids):
            raise ParameterError(f"No notebook matches {pattern!r}. {name_help(pattern, ids)}")
    return [n for n in available if any(fnmatch(n.id, p) for p in patterns)]


def _notebook_values(
    given: dict, selected: list[Notebook], available: list[Notebook], *, strict: Collection[str]
) -> dict[str, Any]:
    """Return the values in their types; a file's key of other notebooks is passed over, one in ``strict`` is not."""
    defaults = {k: v for n in selected for k, v in n.parameters.items() if k != _RESERVED}
    elsewhere = {k for n in available for k in n.parameters} - set(defaults) - {_RESERVED}
    problems = []
    typed: dict[str, Any] = {}
    for name, value in given.items():
        if name in defaults:
            problem, typed[name] = _typed(name, value, defaults[name])
            problems += [problem] if problem else []
        elif name == _RESERVED:
            problems.append(f"{name!r} is set by the run itself; choose the folder with --outputs and run.")
        elif name in elsewhere and name in strict:
            problems.append(f"{name!r} is a parameter of other notebooks, of none that this run selects.")
        elif name not in elsewhere:
            known = [*_RUN_KEYS, *defaults]
            problems.append(f"{name!r} is not a parameter. {name_help(name, known)}")
    if problems:
        raise ParameterError(" ".join(problems))
    return typed


def _typed(name: str, value: Any, default: Any) -> tuple[str, Any]:
    """Return a problem (or an empty text) and ``value`` in the type of ``default``."""
    kind = type(default)
    if isinstance(value, list) and kind is not list:
        if not value:
            return f"{name} is an empty list; give one value or more.", value
        typed = [_typed(name, v, default) for v in value]
        if len({repr(v) for _, v in typed}) < len(typed):
            return f"{name} lists a value twice: {value!r}.", value
        return " ".join(dict.fromkeys(p for p, _ in typed if p)), [v for _, v in typed]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return "", float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return "", int(value)
    if kind is dict and value is None:
        return "", {}
    if kind is str and isinstance(value, Path):
        return "", str(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return f"{name} is {value!r}; it must be {_kind_name(kind)}, for example {default!r}.", value
    return "", value


def _kind_name(kind: type) -> str:
    names = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        list: "a list",
        dict: "a mapping of names to values",
    }
    return names.get(kind, kind.__name__)
