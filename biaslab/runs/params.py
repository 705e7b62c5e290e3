"""The parameters of a run: read from YAML, checked before anything starts, expanded into variants.

A run has a few keys of its own (:class:`RunParams`); every other key is a parameter of the notebooks. The
``parameters`` cells of notebooks define these parameters with their types and defaults.
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
from biaslab.io.places import packaged_root, project_root
from biaslab.report import records
from biaslab.schema import old_names, tables, values
from biaslab.schema.groups import Group, Integer, Texts, field, unknown_help
from biaslab.schema.values import flatten

# Set by the runner for each notebook, never by a parameters file.
_RESERVED = "output_dir"
_ALL = "*"
MAX_VARIANTS = 1_000
"""Maximum number of variants of a run, each of which executes every notebook."""
# Maximum size of a parameters file in bytes; YAML's reader takes about a second per million.
_MOST_BYTES = 5_000_000
# Notebooks that compare the measures of all papers are executed last, so that a report shows the papers first.
_LAST = ("synthesis/models",)
_KINDS = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of names to values",
}
# The tag of the cell below which papermill injects a run's values.
_TAG = "parameters"
_UNTAGGED = "It has no cell tagged 'parameters', so a run cannot set its parameters. Add this tag to their cell."
# Errors that Python raises for invalid or too deeply nested code.
_NO_CODE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Notebook:
    """A notebook that a run can execute."""

    id: str  # ``<paper>/<section>``: its path below the notebooks folder, without file extension.
    path: Path  # The file.
    title: str  # Its first heading.
    parameters: Mapping[str, Any]  # Names and defaults in its cell tagged ``parameters``.
    cells: tuple[str, ...] = ()  # The code of its cells.
    used_tables: frozenset[str] = frozenset()  # The measured tables that it takes.
    required_tables: frozenset[str] = frozenset()  # The tables among them that it cannot do without.
    folder: Path | None = None  # The folder in which it is executed, for a notebook of another package.
    problem: str = ""  # Why it cannot be executed, in a sentence; such a notebook has no parameters.
    is_tagged: bool = True  # Whether it has a parameters cell; a new, unfinished notebook has none.


def run_name(name: str) -> str:
    """Return the name of a run or a comparison, and of its folder; raise ParameterError if it is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name):
        raise ParameterError(
            f"{name!r} is not a valid name. Use at most 80 letters, digits, '.', '_' and '-', and begin with a letter "
            "or digit."
        )
    return name


class RunParams(Group):
    """The parameters of a run, validated as every :class:`~biaslab.schema.groups.Group`."""

    run: Annotated[str, AfterValidator(run_name)] = field("mine", "Name of the run and of its folder below `outputs`.")
    title: str = field("", "Heading of the report.")
    description: str = field("", "Description of the run for readers of the report.")
    notebooks: Texts = field(
        (_ALL,), "Patterns of notebook ids to execute; `*` is all except those of other packages.", min_length=1
    )
    jobs: Integer = field(
        0,
        "Notebooks executed in parallel. 0 means one per processor, but only one if work runs in workers, or if a GPU "
        "generates or judges images, because its memory fits one set of models.",
        ge=0,
    )
    # Not keys of the file.
    values: dict[str, Any] = field({}, "Notebook parameters; a list means one execution per value.")
    file: str = field("", "The parameters file that contains these values.")
    set_here: Texts = field((), "Names of the settings that a command sets; each must have an effect.")
    selected: tuple[Notebook, ...] = field((), "The notebooks that the patterns select, in order.")

    @property
    def sweep(self) -> dict[str, list]:
        """The notebook parameters that were given a list, with their values."""
        return {k: list(v) for k, v in self.values.items() if isinstance(v, list)}

    def default(self, name: str) -> Any:
        """Return the value of a parameter, or its default in the first notebook that has it."""
        defaults = (n.parameters[name] for n in self.selected if name in n.parameters)
        return self.values.get(name, next(defaults, None))

    @property
    def confidence(self) -> float:
        """The confidence level of intervals, 0–1; the highest of several."""
        level = self.default("confidence") or 0.95
        return max(level) if isinstance(level, list) else level

    def variants(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the swept parameters per combination of their values, unchanged and in words.

        Without a sweep, there is one empty combination. In words, a mapping is a text of its differences from the
        other mappings. Raises ParameterError: There are more than :data:`MAX_VARIANTS` combinations.
        """
        if (n := math.prod(map(len, self.sweep.values()))) > MAX_VARIANTS:
            lists = " times ".join(f"{len(v):,} of {k}" for k, v in self.sweep.items())
            raise ParameterError(
                f"The lists of values yield {n:,} variants ({lists}); the maximum is {MAX_VARIANTS:,}. Use shorter "
                "lists."
            )
        words = {k: _describe_differences(v) if isinstance(v[0], dict) else v for k, v in self.sweep.items()}
        values, in_words = (
            [dict(zip(sweep, row, strict=True)) for row in itertools.product(*sweep.values())]
            for sweep in (self.sweep, words)
        )
        return list(zip(values, in_words, strict=True))


# Keys of the run itself; every other is a notebook's.
_RUN_KEYS = ("run", "title", "description", "notebooks", "jobs")


def _describe_differences(mappings: list[dict]) -> list[str]:
    mappings = [flatten(mapping) for mapping in mappings]
    names = list(dict.fromkeys(name for mapping in mappings for name in mapping))
    differing_names = [n for n in names if len({repr(mapping.get(n)) for mapping in mappings}) > 1]
    words = ({n: mapping[n] for n in differing_names if n in mapping} for mapping in mappings)
    return [", ".join(f"{n}={v}" for n, v in mapping.items()) or "defaults" for mapping in words]


def load(
    path: str | Path,
    *,
    given: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    notebooks: Sequence[str] = (),
    notebooks_dir: str | Path | None = None,
    baselines: str = "",
) -> RunParams:
    """Read and check a parameters file, or the contents of one (``given``).

    Args:
        overrides: ``key=value`` texts that replace the file's values; values are read as YAML.
        notebooks: Patterns of notebook ids that replace the file's.
        notebooks_dir: The folder of notebooks, in addition to those that installed packages bring; by default the
            folder ``notebooks`` at or above the parameters file, else at or above the working folder.
        baselines: Additional baseline next to the results: ``published``.

    Raises:
        ParameterError: The file is missing or not YAML, a key is unknown (the nearest match is named), a value has a
            wrong type or is not allowed, or no notebook is selected.
    """
    path = Path(path)
    if given is None:
        # The package's own parameters files can be named from any folder.
        package_path = packaged_root() / path
        given = read_yaml(package_path if package_path.is_file() and not os.path.isfile(path) else path)
    else:
        given = dict(given)
    package_folders = (folder / "notebooks" for folder in plugins.notebook_folders().values())
    available = find_notebooks(notebooks_dir or _notebooks_dir(path), *package_folders)
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
    details = {"title": run.title or run.run, "description": run.description.strip(), "file": str(path)}
    details["set_here"] = names
    notebook_values = _notebook_values(given, selected, available, str(path), strict=set_here)
    return run.with_changes(**details, values=notebook_values, selected=tuple(selected))


def _matches(notebook: Notebook, pattern: str) -> bool:
    # Notebooks of other packages, and those without a parameters cell, are executed only if a pattern names them.
    passed_over = pattern == _ALL and (notebook.folder or not notebook.is_tagged)
    return fnmatch(notebook.id, pattern) and not passed_over


def as_yaml(params: RunParams) -> str:
    """Return the contents of a parameters file with these parameters."""
    import yaml

    keys = {key: getattr(params, key) for key in _RUN_KEYS}
    content = {**keys, "notebooks": list(params.notebooks), **params.values}
    # JSON converts tuples in settings to lists.
    return yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, allow_unicode=True, width=110)


def find_notebooks(folder: str | Path, *package_folders: Path) -> list[Notebook]:
    """Return the notebooks below ``folder`` and ``package_folders``, ordered by paper and section.

    If several have the same id, the first folder's counts. Notebooks of packages are executed in ``folder``, so that
    they share its cache. Notebooks that cannot be executed are included, with the ``problem``.

    Raises:
        ParameterError: The folder is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ParameterError(f"There is no folder of notebooks at {folder}; specify one with --notebooks-dir.")
    notebooks: dict[str, Notebook] = {}
    for root in (folder, *package_folders):
        for path in root.rglob("*.ipynb"):
            place = path.relative_to(root)
            name = place.with_suffix("").as_posix()
            if name in notebooks or any(part.startswith(".") for part in place.parts):
                continue
            notebook = _read_notebook(path, name)
            notebooks[name] = notebook if root == folder else replace(notebook, folder=folder)
    return sorted(notebooks.values(), key=lambda n: (n.id in _LAST, tables.place(n.id), n.id))


def _read_notebook(path: Path, notebook_id: str) -> Notebook:
    """Return the notebook at ``path``; its ``problem`` states why it cannot be executed."""

    def make_unusable(problem: str, is_tagged: bool = True) -> Notebook:
        return Notebook(notebook_id, path, notebook_id, {}, problem=problem, is_tagged=is_tagged)

    try:
        if not (text := reading.text(path)).strip():
            return make_unusable(_UNTAGGED, False)
        cells = [
            ("".join(cell["source"]), cell["cell_type"], set(cell["metadata"].get("tags") or ()))
            for cell in json.loads(text)["cells"]
        ]
    except OSError as error:
        return make_unusable(f"It cannot be read ({error.strerror}). Repair or remove it.")
    except InputError as error:
        return make_unusable(f"It {str(error).removeprefix(f'{path} ')}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return make_unusable("It is not a complete notebook in format 4. Save it again in JupyterLab, or remove it.")
    if not any(_TAG in tags for _, _, tags in cells):
        return make_unusable(_UNTAGGED, False)
    try:
        parameters = _defaults(cells)
    except ParameterError as error:
        return make_unusable(str(error))
    prose = "\n".join(source for source, kind, _ in cells if kind == "markdown")
    heading = re.search("^# (.*)", prose, re.MULTILINE)
    code = tuple(source for source, kind, _ in cells if kind == "code")
    title = heading[1].strip() if heading else notebook_id
    return Notebook(notebook_id, path, title, parameters, code, *_find_tables(code))


def _defaults(cells: Sequence[tuple[str, str, set[str]]]) -> dict[str, Any]:
    """Return the literals that the tagged cell sets; raise ParameterError if a run's values would have no effect."""
    index = next(i for i, (_, _, tags) in enumerate(cells) if _TAG in tags)
    if any("injected-parameters" in tags for _, _, tags in cells[:index]):
        raise ParameterError("A cell above the cell tagged 'parameters' contains values of an earlier run. Delete it.")
    defaults, line = {}, 1
    try:
        for node in ast.parse(cells[index][0]).body:
            line = node.lineno
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Pass):
                defaults |= [_read_assignment(node)]
    except _NO_CODE as error:
        raise ParameterError(
            "Statements in the cell tagged 'parameters' must assign one literal to one name, such as `seed = 1`; line "
            f"{getattr(error, 'lineno', None) or line} does not."
        ) from None
    for i, (source, kind, _) in enumerate(cells[index + 1 :], start=index + 2):
        if kind == "code" and (repeated := _literals(source) & defaults.keys()):
            raise ParameterError(
                f"Cell {i} sets {min(repeated)} again, so the run's value would have no effect. Use another name there."
            )
    return defaults


def _read_assignment(node: ast.stmt) -> tuple[str, Any]:
    """Return name and value of an assignment of a literal to one name; raise ValueError for other statements."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        raise ValueError
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if len(targets) > 1 or not isinstance(targets[0], ast.Name):
        raise ValueError
    return targets[0].id, ast.literal_eval(node.value)


def _literals(cell: str) -> set[str]:
    """Return the names that a cell sets to literals."""
    names = set()
    for node in getattr(_parse(cell), "body", ()):
        with contextlib.suppress(*_NO_CODE):
            names.add(_read_assignment(node)[0])
    return names


@lru_cache(maxsize=2048)
def _parse(cell: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None for magics and invalid code, which fails when the notebook is executed."""
    try:
        return ast.parse(cell)
    except _NO_CODE:
        return None


# One command reads parameters files, and with them notebooks, several times.
@lru_cache(maxsize=512)
def _find_tables(cells: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the tables that cells take from a study, and the subset that they require."""
    used_tables, optional = set(), set()
    trees = filter(None, map(_parse, cells))
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        method = getattr(call.func, "attr", "")
        if method not in ("load", "has_table") or not call.args:
            continue
        argument = call.args[0]
        try:
            names = ast.unparse(argument).split(".")
        except RecursionError:
            continue
        name = argument.value if isinstance(argument, ast.Constant) else f"{names[0]}_{names[-1]}"
        used_tables.add(name)
        if method == "has_table" or any(k.arg == "optional" for k in call.keywords):
            optional.add(name)
    return frozenset(used_tables), frozenset(used_tables - optional)


def _with_baseline(settings: Any, baseline: str) -> Any:
    """Return settings, or each item of a list of settings, with one more baseline."""
    if isinstance(settings, list):
        return [_with_baseline(mapping, baseline) for mapping in settings]
    if not isinstance(settings, Mapping):
        return settings
    baselines = settings.get("baselines", ())
    names = baselines if isinstance(baselines, list | tuple) else [baselines]
    return {**settings, "baselines": [*(name for name in names if name not in ("none", baseline)), baseline]}


def read_yaml(path: Path) -> dict:
    """Return the keys and values of a parameters file; raise ParameterError if it cannot be used."""
    if not os.path.isfile(path):
        candidates = [p.as_posix() for p in sorted(path.parent.glob("*.y*ml"))] if path.parent.is_dir() else []
        raise ParameterError(
            f"There is no parameters file {path}. {name_help(path.as_posix(), candidates)} To specify a model, use "
            "--set model=NAME."
        )
    content = plainyaml.read(path, most=_MOST_BYTES, error=ParameterError)
    if not isinstance(content, dict):
        problem = "is empty" if content is None else f"contains a {type(content).__name__}"
        raise ParameterError(f"{path} {problem}; a parameters file must contain keys and values, such as 'run: mine'.")
    return content


_MODEL_SETTING = re.compile(r"(?:settings\.)?models\.(.+)\.(\w+)\.(\w+)")


def setting_names(overrides: Sequence[str]) -> list[str]:
    """Return the names in values of ``--set``, such as ``generation.steps`` of ``generation.steps=20``."""
    return [text.partition("=")[0].strip().removeprefix("settings.") for text in overrides]


def _overrides(texts: Sequence[str], parameters: dict, available: list[Notebook]) -> dict[str, Any]:
    """Return the values that ``--set`` gives; ``generation.steps=20`` changes one of the settings."""
    changes: dict[str, Any] = {}
    mappings = {k for n in available for k, v in n.parameters.items() if isinstance(v, dict)}
    for text in texts:
        key, value = _override(text, available)
        # Names of models have dots in them.
        match = _MODEL_SETTING.fullmatch(key)
        name, *path = ("models", *match.groups()) if match else key.split(".")
        if path and name not in mappings and "settings" in mappings and not get_close_matches(name, mappings):
            name, path = "settings", [name, *path]
        if not path or name not in mappings:
            changes[name if path else key] = value
            continue
        inner = changes
        changes.setdefault(name, deepcopy(parameters.get(name)))
        for part in path:
            inner[name] = {} if inner.get(name) is None else inner[name]
            if not isinstance(inner[name], dict):
                message = f"{name} is {inner[name]!r}, which contains no named values."
                raise ParameterError(f"--set {text!r}: {message}")
            inner, name = inner[name], part
        inner[name] = value
    return changes


def _override(text: str, available: list[Notebook]) -> tuple[str, Any]:
    """Return key and value of ``key=value``; the value of a text parameter is not read as YAML, unless it is a list."""
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
        message = f"the value cannot be read as YAML ({plainyaml.problem(error)})"
        raise ParameterError(f"--set {text[:200]!r}: {message}.") from None


def _notebooks_dir(path: Path) -> Path:
    """Return the folder of notebooks at or above the file or the working folder, else the package's own."""
    for root in (project_root(path.parent), project_root(), packaged_root()):
        # The notebooks in a run's folder were executed, and contain its parameters.
        if (root / "notebooks").is_dir() and not (root / records.FILE).is_file():
            return root / "notebooks"
    raise ParameterError(f"There is no folder 'notebooks' at or above {path}; specify one with --notebooks-dir.")


def _notebook_values(
    parameters: dict, selected: list[Notebook], available: list[Notebook], file: str, *, strict: Collection[str]
) -> dict[str, Any]:
    """Return the values in their types; ignore keys of notebooks that are not selected, unless they are ``strict``."""
    defaults = {k: v for n in selected for k, v in n.parameters.items() if k != _RESERVED}
    other_names = {k for n in available for k in n.parameters} - set(defaults) - {_RESERVED}
    problems, typed = [], {}
    for name, value in parameters.items():
        if name in defaults:
            try:
                typed[name] = _typed(name, value, defaults[name])
            except ParameterError as error:
                problems.append(str(error))
        elif name == _RESERVED:
            problems.append(f"{name!r} is set by the run itself; choose the folder with --outputs and the key run.")
        elif name not in other_names and (message := _renaming_error(name, "--set" if name in strict else file)):
            problems.append(message)
        elif name not in other_names:
            problems.append(f"{name!r} is not a parameter. {_parameter_help(name, [*_RUN_KEYS, *defaults])}")
        elif name in strict:
            problems.append(f"{name!r} is a parameter of other notebooks, but of none in this run.")
    if problems:
        # Notebooks that cannot be read may define these parameters.
        problems += [f"{n.path}: {n.problem}" for n in selected if n.problem]
        raise ParameterError(" ".join(problems))
    return typed


def _parameter_help(name: str, names: Sequence[str]) -> str:
    """Return advice on an unknown parameter: similar parameters, or else settings with this name in a group."""
    from biaslab.settings import Settings

    if "settings" in names and name in Settings.model_fields:
        return f"It is a setting; write settings.{name}."
    is_setting = "settings" in names and not near_matches(name, names)
    return unknown_help(Settings, [name]) if is_setting else name_help(name, names)


def _renaming_error(name: str, source: str) -> str | None:
    """Return the error for an old name of a parameter, or of a setting outside ``settings``; None for other names."""
    return old_names.message("parameters", name, source) or old_names.message("settings", name, source)


def _typed(name: str, value: Any, default: Any) -> Any:
    """Return ``value`` in the type of its default, or any type if that is None; convert each item of a list."""
    kind = list if isinstance(default, tuple) else type(default)
    if isinstance(value, list) and kind is not list:
        typed = [_typed(name, v, default) for v in value]
        if not typed or len(set(map(repr, typed))) < len(typed):
            raise ParameterError(f"{name} is {value!r}; specify at least one value, and each value once.")
        return typed
    if default is None:
        return value
    if kind is dict and value is None:
        return {}
    try:
        # Other literals have no counterpart in a parameters file.
        if kind in _KINDS:
            adapter = TypeAdapter(Integer if kind is int else kind, config=ConfigDict(strict=True))
            return adapter.validate_python(value)
    except ValidationError:
        pass
    requirement = f"{_KINDS[kind]}, for example {default!r}" if kind in _KINDS else f"left at its default, {default!r}"
    raise ParameterError(f"{name} is {value!r}; it must be {requirement}.")
