"""The parameters of a run: read from YAML, checked before anything starts, expanded into variants.

A run has a few keys of its own (:class:`RunParams`); every other key is a parameter of the notebooks,
whose ``parameters`` cells say which exist, of which type, and with which default.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError

from biaslab import plugins
from biaslab.errors import InputError, ParameterError, name_help, near_matches
from biaslab.io import plainyaml, reading
from biaslab.io.places import is_packaged, project_root
from biaslab.report import records
from biaslab.schema import old_names, tables, values
from biaslab.schema.groups import Group, Integer, Texts, field, unknown_help
from biaslab.schema.values import dotted

# Set by the runner for each notebook, never by a parameters file.
_RESERVED = "output_dir"
_ALL = "*"
MOST_VARIANTS = 1_000
"""Variants of a run, each of which executes every notebook."""
# Bytes of a file of parameters, of which YAML's reader takes a second for each million.
_MOST_BYTES = 5_000_000
# What lays the measures of all papers side by side comes when they are there: a report fills in from the papers on.
_LAST = ("synthesis/models",)
_KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of names to values",
}
# The tag of the cell that papermill puts a run's values below.
_TAG = "parameters"
_UNTAGGED = "It has no cell tagged 'parameters', so a run cannot set what it computes with. Tag that cell."
# What Python raises for code that is none, or lies too deep in itself.
_NO_CODE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Notebook:
    """A notebook as a run sees it."""

    id: str  # ``<paper>/<section>``: its path below the notebooks folder, without the ending.
    path: Path  # The file.
    title: str  # Its first heading.
    parameters: Mapping[str, Any]  # Names and defaults in its cell tagged ``parameters``.
    cells: tuple[str, ...] = ()  # The code of its cells.
    used_tables: frozenset[str] = frozenset()  # The measured tables that it takes.
    required_tables: frozenset[str] = frozenset()  # The tables among them that it cannot do without.
    folder: Path | None = None  # Of one that another package brings: the folder that it is executed in.
    problem: str = ""  # Why it cannot be executed, in a sentence; such a notebook has no parameters.
    is_tagged: bool = True  # Whether it has a cell of parameters; one that is just begun has none.


def run_name(name: str) -> str:
    """Return the name of a run or a comparison, and of its folder; a ParameterError where it cannot be one."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        raise ParameterError(
            f"{name!r} is not a name; use letters, digits, '.', '_' and '-', at most 80, with a letter or digit first."
        )
    return name


class RunParams(Group):
    """What to run, checked as :class:`~biaslab.schema.groups.Group` checks."""

    run: Annotated[str, AfterValidator(run_name)] = field("mine", "Name of the run and of its folder below `outputs`.")
    title: str = field("", "Heading of the report.")
    description: str = field("", "Description of the run for readers of the report.")
    notebooks: Texts = field(
        (_ALL,), "Patterns of notebook ids to execute; `*` is all except those of other packages.", min_length=1
    )
    jobs: Integer = field(
        0,
        "Notebooks executed in parallel; 0 is one per processor, or one if work runs in workers, or if a GPU generates "
        "or judges images, since it fits one set of models.",
        ge=0,
    )
    # Not keys of the file.
    values: dict[str, Any] = field({}, "Notebook parameters; a list means one execution per value.")
    file: str = field("", "The parameters file that they came from.")
    set_here: Texts = field((), "Names of the settings that a command sets: each is to have an effect.")
    selected: tuple[Notebook, ...] = field((), "The notebooks that the patterns select, in order.")

    @property
    def sweep(self) -> dict[str, list]:
        """The notebook parameters that were given a list, with their values."""
        return {k: list(v) for k, v in self.values.items() if isinstance(v, list)}

    def default(self, name: str) -> Any:
        """Return the value of a parameter, or where it has none, its default in the first notebook that has it."""
        defaults = (n.parameters[name] for n in self.selected if name in n.parameters)
        return self.values.get(name, next(defaults, None))

    @property
    def confidence(self) -> float:
        """The level of its intervals, 0–1; of several, the highest."""
        given = self.default("confidence") or 0.95
        return max(given) if isinstance(given, list) else given

    def variants(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the swept parameters per combination of their values, as they are and in words.

        Without a list there is one, which is empty. In words, a mapping is a text of what differs from the others.
        Raises ParameterError where there are more than :data:`MOST_VARIANTS`.
        """
        if (n := math.prod(map(len, self.sweep.values()))) > MOST_VARIANTS:
            lists = " times ".join(f"{len(v):,} of {k}" for k, v in self.sweep.items())
            raise ParameterError(
                f"The lists of values make {n:,} variants ({lists}); at most {MOST_VARIANTS:,}. Give shorter lists."
            )
        words = {k: _distinct(v) if isinstance(v[0], dict) else v for k, v in self.sweep.items()}
        values, in_words = (
            [dict(zip(of, some, strict=True)) for some in itertools.product(*of.values())] for of in (self.sweep, words)
        )
        return list(zip(values, in_words, strict=True))


# Keys of the run itself; every other is a notebook's.
_RUN_KEYS = ("run", "title", "description", "notebooks", "jobs")


def _distinct(mappings: list[dict]) -> list[str]:
    mappings = [dotted(some) for some in mappings]
    names = list(dict.fromkeys(name for some in mappings for name in some))
    differ = [n for n in names if len({repr(some.get(n)) for some in mappings}) > 1]
    words = ({n: some[n] for n in differ if n in some} for some in mappings)
    return [", ".join(f"{n}={v}" for n, v in some.items()) or "defaults" for some in words]


def load(
    path: str | Path,
    *,
    given: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    notebooks: Sequence[str] = (),
    notebooks_dir: str | Path | None = None,
    baselines: str = "",
) -> RunParams:
    """Read and check a parameters file, or what one would hold (``given``).

    Args:
        overrides: ``key=value`` texts that replace the file's values; values are read as YAML.
        notebooks: Patterns of notebook ids that replace the file's.
        notebooks_dir: Where the notebooks are, next to those that installed packages bring; by default the folder
            ``notebooks`` at or above the parameters file, else at or above the working folder.
        baselines: Additional baseline next to the results: ``published``.

    Raises:
        ParameterError: The file is missing or not YAML, a key is unknown (the nearest match is named), a value has a
            wrong type or is not allowed, or no notebook is selected.
    """
    path = Path(path)
    if given is None:
        # What comes with the package is there from any folder.
        inside = is_packaged() / path
        given = read_yaml(inside if inside.is_file() and not os.path.isfile(path) else path)
    else:
        given = dict(given)
    brought = (folder / "notebooks" for folder in plugins.notebook_folders().values())
    available = find_notebooks(notebooks_dir or _notebooks_dir(path), *brought)
    names = setting_names(overrides)
    old_names.check("settings", names, "--set")
    set_here = _overrides(overrides, given, available)
    given |= set_here
    if baselines:
        given["settings"] = _with_baseline(given.get("settings") or {}, baselines)
        names.append("baselines")
    for key, value in given.items():
        values.check_key(str(path), key)
        values.check(key[:60], value)
    old_names.check("settings", old_names.setting_names(given.get("settings")), str(path))
    if notebooks:
        given["notebooks"] = list(notebooks)
    run = RunParams(**{"run": ""} | {key: given.pop(key) for key in _RUN_KEYS if key in given})
    for pattern in run.notebooks:
        if not any(_matches(notebook, pattern) for notebook in available):
            raise ParameterError(f"No notebook matches {pattern!r}. {name_help(pattern, [n.id for n in available])}")
    selected = [n for n in available if any(_matches(n, pattern) for pattern in run.notebooks)]
    if all(notebook.problem for notebook in selected):
        raise ParameterError(" ".join(f"{n.path}: {n.problem}" for n in selected))
    more = {"title": run.title or run.run, "description": run.description.strip(), "file": str(path)}
    more["set_here"] = names
    checked = _notebook_values(given, selected, available, str(path), strict=set_here)
    return run.changed(**more, values=checked, selected=tuple(selected))


def _matches(notebook: Notebook, pattern: str) -> bool:
    # What other packages bring, or is just begun, is executed where a pattern asks for it, and not by default.
    passed_over = pattern == _ALL and (notebook.folder or not notebook.is_tagged)
    return fnmatch(notebook.id, pattern) and not passed_over


def as_yaml(params: RunParams) -> str:
    """Return parameters as a file that gives them again."""
    import yaml

    keys = {key: getattr(params, key) for key in _RUN_KEYS}
    whole = {**keys, "notebooks": list(params.notebooks), **params.values}
    # In plain values: settings may hold tuples.
    return yaml.safe_dump(json.loads(json.dumps(whole)), sort_keys=False, allow_unicode=True, width=110)


def find_notebooks(folder: str | Path, *brought: Path) -> list[Notebook]:
    """Return the notebooks below ``folder``, and below those ``brought`` by packages, ordered by paper and section.

    Of several with one id the first folder's counts. Those of packages are executed in ``folder``, so that they keep
    results where the others do. What cannot be executed is among them and says why, so that the others are not lost.

    Raises:
        ParameterError: The folder is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ParameterError(f"There is no folder of notebooks at {folder}; name one with --notebooks-dir.")
    found: dict[str, Notebook] = {}
    for root in (folder, *brought):
        for path in root.rglob("*.ipynb"):
            place = path.relative_to(root)
            name = place.with_suffix("").as_posix()
            if name in found or any(part.startswith(".") for part in place.parts):
                continue
            notebook = _read_notebook(path, name)
            found[name] = notebook if root == folder else replace(notebook, folder=folder)
    return sorted(found.values(), key=lambda n: (n.id in _LAST, tables.place(n.id), n.id))


def _read_notebook(path: Path, notebook_id: str) -> Notebook:
    """Return the notebook at ``path``; what keeps it from being executed is its ``problem``."""

    def cannot(problem: str, is_tagged: bool = True) -> Notebook:
        return Notebook(notebook_id, path, notebook_id, {}, problem=problem, is_tagged=is_tagged)

    try:
        if not (text := reading.text(path)).strip():
            return cannot(_UNTAGGED, False)
        cells = [
            ("".join(cell["source"]), cell["cell_type"], set(cell["metadata"].get("tags") or ()))
            for cell in json.loads(text)["cells"]
        ]
    except OSError as error:
        return cannot(f"It cannot be read ({error.strerror}). Mend or remove it.")
    except InputError as error:
        return cannot(f"It {str(error).removeprefix(f'{path} ')}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return cannot("It is not a whole notebook of format 4. Save it again in JupyterLab, or remove it.")
    if not any(_TAG in tags for _, _, tags in cells):
        return cannot(_UNTAGGED, False)
    try:
        parameters = _defaults(cells)
    except ParameterError as error:
        return cannot(str(error))
    prose = "\n".join(source for source, kind, _ in cells if kind == "markdown")
    heading = re.search("^# (.*)", prose, re.MULTILINE)
    code = tuple(source for source, kind, _ in cells if kind == "code")
    title = heading[1].strip() if heading else notebook_id
    return Notebook(notebook_id, path, title, parameters, code, *_measured(code))


def _defaults(cells: Sequence[tuple[str, str, set[str]]]) -> dict[str, Any]:
    """Return the literals that the tagged cell sets; a ParameterError where what a run sets would have no effect."""
    at = next(i for i, (_, _, tags) in enumerate(cells) if _TAG in tags)
    if any("injected-parameters" in tags for _, _, tags in cells[:at]):
        raise ParameterError("Values of an earlier run are above the cell tagged 'parameters'. Delete that cell.")
    defaults, line = {}, 1
    try:
        for node in ast.parse(cells[at][0]).body:
            line = node.lineno
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Pass):
                defaults |= [_assigned(node)]
    except _NO_CODE as error:
        raise ParameterError(
            "The cell tagged 'parameters' must set literals only, one name each, such as `seed = 1`; its line "
            f"{getattr(error, 'lineno', None) or line} does not."
        ) from None
    for i, (source, kind, _) in enumerate(cells[at + 1 :], start=at + 2):
        if kind == "code" and (again := _literals(source) & defaults.keys()):
            raise ParameterError(
                f"Cell {i} sets {min(again)} again, so what a run sets would have no effect. Give it another name."
            )
    return defaults


def _assigned(node: ast.stmt) -> tuple[str, Any]:
    """Return name and value of an assignment of a literal to one name; a ValueError for all else."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        raise ValueError
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if len(targets) > 1 or not isinstance(targets[0], ast.Name):
        raise ValueError
    return targets[0].id, ast.literal_eval(node.value)


def _literals(cell: str) -> set[str]:
    """Return the names that a cell sets to literals."""
    names = set()
    for node in getattr(_parsed(cell), "body", ()):
        with contextlib.suppress(*_NO_CODE):
            names.add(_assigned(node)[0])
    return names


@lru_cache(maxsize=2048)
def _parsed(cell: str) -> ast.Module | None:
    """Return a cell's code; None where it is a magic, or a mistake that the notebook itself will tell of."""
    try:
        return ast.parse(cell)
    except _NO_CODE:
        return None


# A file of parameters is read several times on its way, and notebooks with it.
@lru_cache(maxsize=512)
def _measured(cells: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the tables that cells take from a study, and those of them that they need."""
    taken, optional = set(), set()
    parsed = filter(None, map(_parsed, cells))
    for call in (node for tree in parsed for node in ast.walk(tree) if isinstance(node, ast.Call)):
        asked = getattr(call.func, "attr", "")
        if asked not in ("load", "has_table") or not call.args:
            continue
        what = call.args[0]
        try:
            names = ast.unparse(what).split(".")
        except RecursionError:
            continue
        name = what.value if isinstance(what, ast.Constant) else f"{names[0]}_{names[-1]}"
        taken.add(name)
        if asked == "has_table" or any(k.arg == "optional" for k in call.keywords):
            optional.add(name)
    return frozenset(taken), frozenset(taken - optional)


def _with_baseline(settings: Any, baseline: str) -> Any:
    """Return settings, or each of several, with one more baseline."""
    if isinstance(settings, list):
        return [_with_baseline(one, baseline) for one in settings]
    if not isinstance(settings, Mapping):
        return settings
    asked = settings.get("baselines", ())
    own = asked if isinstance(asked, list | tuple) else [asked]
    return {**settings, "baselines": [*(one for one in own if one not in ("none", baseline)), baseline]}


def read_yaml(path: Path) -> dict:
    """Return the keys and values of a parameters file; a ParameterError where it cannot be used."""
    if not os.path.isfile(path):
        near = [p.as_posix() for p in sorted(path.parent.glob("*.y*ml"))] if path.parent.is_dir() else []
        raise ParameterError(
            f"There is no parameters file {path}. {name_help(path.as_posix(), near)} A model is named with "
            "--set model=NAME."
        )
    given = plainyaml.read(path, most=_MOST_BYTES, error=ParameterError)
    if not isinstance(given, dict):
        held = "is empty" if given is None else f"holds {type(given).__name__}"
        raise ParameterError(f"{path} {held}; a parameters file holds keys and values, such as 'run: mine'.")
    return given


_OF_A_MODEL = re.compile(r"(?:settings\.)?models\.(.+)\.(\w+)\.(\w+)")


def setting_names(overrides: Sequence[str]) -> list[str]:
    """Return the names in values of ``--set``, such as ``generation.steps`` of ``generation.steps=20``."""
    return [text.partition("=")[0].strip().removeprefix("settings.") for text in overrides]


def _overrides(texts: Sequence[str], given: dict, available: list[Notebook]) -> dict[str, Any]:
    """Return the values that ``--set`` gives; ``generation.steps=20`` changes one of the settings."""
    found: dict[str, Any] = {}
    mappings = {k for n in available for k, v in n.parameters.items() if isinstance(v, dict)}
    for text in texts:
        key, value = _override(text, available)
        # Names of models have dots in them.
        of_a_model = _OF_A_MODEL.fullmatch(key)
        name, *path = ("models", *of_a_model.groups()) if of_a_model else key.split(".")
        if path and name not in mappings and "settings" in mappings and not get_close_matches(name, mappings):
            name, path = "settings", [name, *path]
        if not path or name not in mappings:
            found[name if path else key] = value
            continue
        inner = found
        found.setdefault(name, deepcopy(given.get(name)))
        for part in path:
            inner[name] = {} if inner.get(name) is None else inner[name]
            if not isinstance(inner[name], dict):
                said = f"{name} is {inner[name]!r}, which has no values to set by name."
                raise ParameterError(f"--set {text!r}: {said}")
            inner, name = inner[name], part
        inner[name] = value
    return found


def _override(text: str, available: list[Notebook]) -> tuple[str, Any]:
    """Return key and value of ``key=value``; a text parameter's value is taken as it stands, unless it is a list."""
    import yaml

    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ParameterError(f"--set {text!r} is not of the form key=value, for example --set seed=7.")
    is_text = any(isinstance(n.parameters.get(key), str) for n in available)
    if (is_text or key in ("run", "title", "description")) and not value.lstrip().startswith("["):
        return key, value
    try:
        return key, plainyaml.load(value) if value.strip() else ""
    except yaml.YAMLError as error:
        said = f"the value cannot be used as YAML ({plainyaml.problem(error)})"
        raise ParameterError(f"--set {text[:200]!r}: {said}.") from None


def _notebooks_dir(path: Path) -> Path:
    """Return the notebooks next to ``params`` at or above the file or the working folder, else the package's own."""
    for root in (project_root(path.parent), project_root(), is_packaged()):
        # Those of a run were executed, with its parameters in them.
        if (root / "notebooks").is_dir() and not (root / records.FILE).is_file():
            return root / "notebooks"
    raise ParameterError(f"There is no folder 'notebooks' at or above {path}; name one with --notebooks-dir.")


def _notebook_values(
    given: dict, selected: list[Notebook], available: list[Notebook], file: str, *, strict: Collection[str]
) -> dict[str, Any]:
    """Return the values in their types; a file's key of other notebooks is passed over, one in ``strict`` is not."""
    defaults = {k: v for n in selected for k, v in n.parameters.items() if k != _RESERVED}
    elsewhere = {k for n in available for k in n.parameters} - set(defaults) - {_RESERVED}
    problems, typed = [], {}
    for name, value in given.items():
        if name in defaults:
            try:
                typed[name] = _typed(name, value, defaults[name])
            except ParameterError as error:
                problems.append(str(error))
        elif name == _RESERVED:
            problems.append(f"{name!r} is set by the run itself; choose the folder with --outputs and run.")
        elif name not in elsewhere and (renamed := _renamed(name, "--set" if name in strict else file)):
            problems.append(renamed)
        elif name not in elsewhere:
            problems.append(f"{name!r} is not a parameter. {_parameter_help(name, [*_RUN_KEYS, *defaults])}")
        elif name in strict:
            problems.append(f"{name!r} is a parameter of other notebooks, of none that this run selects.")
    if problems:
        # What cannot be read may have had them.
        problems += [f"{n.path}: {n.problem}" for n in selected if n.problem]
        raise ParameterError(" ".join(problems))
    return typed


def _parameter_help(name: str, known: Sequence[str]) -> str:
    """Return the parameters that are near an unknown one; where none is, the settings, named without their group."""
    from biaslab.settings import Settings

    if "settings" in known and name in Settings.model_fields:
        return f"It is a setting: name it settings.{name}."
    is_setting = "settings" in known and not near_matches(name, known)
    return unknown_help(Settings, [name]) if is_setting else name_help(name, known)


def _renamed(name: str, where: str) -> str | None:
    """Return the error for an old name of a parameter, or of a setting outside ``settings``; None for another name."""
    return old_names.message("parameters", name, where) or old_names.message("settings", name, where)


def _typed(name: str, value: Any, default: Any) -> Any:
    """Return ``value`` in the kind of its default, in any where that is None; of a list, each."""
    kind = list if isinstance(default, tuple) else type(default)
    if isinstance(value, list) and kind is not list:
        typed = [_typed(name, v, default) for v in value]
        if not typed or len(set(map(repr, typed))) < len(typed):
            raise ParameterError(f"{name} is {value!r}; give one value or more, each once.")
        return typed
    if default is None:
        return value
    if kind is dict and value is None:
        return {}
    try:
        # Anything else that is a literal has no words in a file.
        if kind in _KINDS:
            checked = TypeAdapter(Integer if kind is int else kind, config=ConfigDict(strict=True))
            return checked.validate_python(value)
    except ValidationError:
        pass
    words = _KINDS.get(kind, "left as it is")
    raise ParameterError(f"{name} is {value!r}; it must be {words}, for example {default!r}.")
