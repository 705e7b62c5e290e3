"""The tables that stages, notebooks and reports share: names, columns, order and file format.

A table is long ("tidy"): identity columns first, then values. Each is declared once, in the ``tables.yaml`` of a paper
or of a package with notebooks (:mod:`biaslab.plugins`); saving checks the declaration. For tables that no notebook
saves, ``unsaved`` lists the columns of texts and of numbers, without identity and limits.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab import plugins
from biaslab.errors import InputError, name_help, unknown_name
from biaslab.io import cells, delimited, reading
from biaslab.schema import old_names
from biaslab.schema.formatting import add_unit

if TYPE_CHECKING:
    import pandas as pd

# The packages whose subpackages declare tables.
_PACKAGE = Path(__file__).parents[1]
_PARENTS = ("papers", "analyses")
# The columns that tables of several papers share.
_SHARED_COLUMNS = Path(__file__).with_name("columns.yaml")
# Characters that make a spreadsheet run a text cell as a formula; East Asian spreadsheets accept the wide forms.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_SURROGATE = re.compile("[\ud800-\udfff]")
FLOAT_FORMAT = "%.10g"
"""Format of numbers in files: up to 10 significant digits, so that reading and rewriting changes nothing."""
MAX_BYTES = 4_000_000_000
"""Maximum bytes of a table's file."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str  # Column name, as in the file's header.
    description: str  # The meaning of the values, in one sentence.
    unit: str = ""  # ``%`` (0–100 points), ``points``, ``images``, … or empty.
    key: bool = False  # Whether the column is part of a row's identity: no two rows share all key values.
    text: bool = False  # Whether the values are text; else they are numbers and NaN means missing.
    low: float = float("-inf")  # Smallest value allowed.
    high: float = float("inf")  # Largest value allowed.
    allowed: tuple[str, ...] = ()  # The texts that may occur; empty for any.
    optional: bool = False  # Whether a table may lack it, for example measurements without intervals.
    of: str = ""  # For a limit of an interval: the estimate's column; the lower limit comes first.
    # Words for values, as in answers.
    labels: Mapping[str, str] = field(default_factory=dict, compare=False)


_BY_JUDGE = (
    Column("judge", "The judge whose labels these are.", key=True, text=True),
    Column("reference", "The judge of the run's headlines.", key=True, text=True),
)


@dataclass(frozen=True)
class Paper:
    """The head ``paper`` of a package's ``tables.yaml``."""

    order: int = 99  # Its place in reports.
    title: str = ""  # Its name in the limits of a run; empty for analyses that are not a paper's.
    rated: str = ""  # The kinds of its images that people may annotate, those of one person at an occupation first.
    # The kinds of its images that reports show, with their names: strips by group, of the first kind that a run has.
    # The function ``measure.people_in_images(pipeline, kind)`` returns the people in them.
    drawn: Mapping[str, str] = field(default_factory=dict, compare=False)
    rests_on: str = ""  # The paper whose measurements it uses.


@dataclass(frozen=True)
class Schema:
    """A table's name, its meaning and its columns in order; further columns may follow them."""

    name: str  # File name without ``.csv``: ``<paper>_<name>``.
    title: str  # A few words for a heading.
    description: str  # The meaning of a row and the source of the numbers.
    columns: tuple[Column, ...]  # Columns in order; a table has all that are not optional.
    rests_on: str = ""  # The paper whose measurements it uses, if another paper's.
    paper: str = ""  # For a measured table: the paper whose function measures it.
    function: str = ""  # The function's name, if it differs from the table's.
    rated: bool = False  # Whether it can be computed from a file of annotations.
    by_judge_of: str = ""  # The table that it repeats for each of ``judging.extra_judges``, with two more columns.

    @property
    def keys(self) -> list[str]:
        """Names of the identity columns."""
        return [c.name for c in self.columns if c.key]

    @property
    def names(self) -> list[str]:
        """Names of the required columns, in order."""
        return [c.name for c in self.columns if not c.optional]

    @property
    def intervals(self) -> list[tuple[str, str, str]]:
        """Each confidence interval: the columns of its estimate, its lower and its upper limit."""
        limits = [c for c in self.columns if c.of]
        return [(low.of, low.name, high.name) for low, high in zip(limits[::2], limits[1::2], strict=True)]

    def __post_init__(self) -> None:
        """Give limits the unit of their estimate. Raises InputError: The limits of an interval have different ones."""
        units = {c.name: c.unit for c in self.columns if not (c.text or c.key or c.of)}
        limits = [c for c in self.columns if c.of]
        pairs = [(low.of, low.name.removesuffix("low") + "high") for low in limits[::2]]
        if pairs != [(high.of, high.name) for high in limits[1::2]] or any(
            c.of not in units or c.unit not in ("", units[c.of]) for c in limits
        ):
            raise InputError(
                f"Table {self.name} has limits that are not the lower and upper limit of one column, in its unit."
            )
        columns = tuple(replace(c, unit=units[c.of]) if c.of else c for c in self.columns)
        object.__setattr__(self, "columns", columns)


def package_files(file: str) -> list[Path]:
    """Return the files of this name in the packages of papers and analyses, sorted by the packages' names."""
    paths = (path for parent in _PARENTS for path in (_PACKAGE / parent).glob(f"*/{file}"))
    return sorted(paths, key=lambda path: path.parent.name)


def folder(paper: str) -> Path:
    """Return the folder of the package of a paper or an analysis."""
    return next(path for parent in _PARENTS if (path := _PACKAGE / parent / paper).is_dir())


def module(paper: str, name: str) -> str:
    """Return the dotted name of a module in the package of a paper or an analysis; the module may be missing."""
    return f"{_PACKAGE.name}.{folder(paper).parent.name}.{paper}.{name}"


def files() -> dict[Path, str]:
    """Return the YAML files that declare tables with the package of each; that of shared columns comes first."""
    plugin_files = {folder / "tables.yaml": package for package, folder in plugins.notebook_folders().items()}
    return dict.fromkeys(_declaration_files(), "biaslab") | {
        path: package for path, package in plugin_files.items() if path.is_file()
    }


@cache
def _declaration_files() -> tuple[Path, ...]:
    # Cached, because each table that is created or read needs them.
    return _SHARED_COLUMNS, *package_files("tables.yaml")


@cache
def papers() -> dict[str, Paper]:
    """Return the papers that measure tables, and analyses across them, by name, in their order in reports."""
    heads = {path.parent.name: load_yaml(path).get("paper") for path in _declaration_files()}
    papers = {name: Paper(**head) for name, head in heads.items() if head}
    return dict(sorted(papers.items(), key=lambda item: item[1].order))


def measuring_papers() -> tuple[str, ...]:
    """Return the papers that measure tables, in order."""
    return tuple(name for name, paper in papers().items() if paper.title)


def place(name: str) -> int:
    """Return the place in reports of the paper of a notebook, given its id, or of a table, given its name."""
    return papers().get(re.split("[/_]", name)[0], Paper()).order


def schemas() -> dict[str, Schema]:
    """Return every declared table by name. Raises InputError: Two packages declare the same table."""
    return _schemas(tuple(files().items()))


@cache
def _schemas(declaration_files: tuple[tuple[Path, str], ...]) -> dict[str, Schema]:
    (shared_columns, _), *other_files = declaration_files
    shared = load_yaml(shared_columns)["columns"]
    schemas_by_name: dict[str, Schema] = {}
    package_of: dict[str, str] = {}
    for path, package in other_files:
        declarations = load_yaml(path)
        columns_by_name = shared | declarations.get("columns", {})
        paper = path.parent.name if package == "biaslab" else ""
        for name, declared in declarations["tables"].items():
            if name in schemas_by_name:
                raise InputError(
                    f"{package_of[name]} and {package} both declare the table {name!r}. Rename the table in one of "
                    "these packages, or uninstall one."
                )
            if table := declared.get("by_judge_of"):
                schemas_by_name[name] = _repeat_by_judge(name, schemas_by_name[table])
            else:
                columns = tuple(column for entry in declared["columns"] for column in _columns(entry, columns_by_name))
                schemas_by_name[name] = Schema(name, **{"paper": paper} | declared | {"columns": columns})
            package_of[name] = package
        for name, names in declarations.get("unsaved", {}).items():
            schemas_by_name[name], package_of[name] = (
                Schema(name, name, "", _unsaved_columns(names, columns_by_name), paper=paper),
                package,
            )
    return schemas_by_name


def _unsaved_columns(names: Mapping[str, Any], shared: Mapping[str, dict]) -> tuple[Column, ...]:
    """Return the columns of a table that no notebook saves: texts, numbers, and the limits of one number."""
    kinds = (("text", True), ("numbers", False))
    columns = [
        Column(name, "", text=text, labels=shared.get(name, {}).get("labels", {}))
        for kind, text in kinds
        for name in names.get(kind, ())
    ]
    limits = ("ci_low", "ci_high") if "interval" in names else ()
    return (*columns, *(Column(name, "", of=names["interval"]) for name in limits))


def _repeat_by_judge(name: str, base: Schema) -> Schema:
    """Return the table that repeats another for each of ``judging.extra_judges``, with two more columns."""
    text = "The same table for each judge in `judging.extra_judges`."
    columns = tuple({c.name: c for c in (*base.columns, *_BY_JUDGE)}.values())
    return Schema(name, f"{base.title}, by judge", text, columns, paper=base.paper, by_judge_of=base.name)


def labels(name: str) -> dict[str, Mapping[str, str]]:
    """Return the labels of values by column for the table ``name``; empty if there is no such table."""
    declared = schemas().get(name)
    return {c.name: c.labels for c in declared.columns if c.labels} if declared else {}


@cache
def load_yaml(path: Path) -> dict:
    """Return the content of a declaration in YAML."""
    import yaml

    # The loader in C, where PyYAML has it, because every notebook needs the declarations.
    return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _columns(entry: str | dict, shared: Mapping[str, dict | list]) -> list[Column]:
    """Return the columns of an entry of a declaration: one, several, or both limits of an ``interval``."""
    ((name, facts),) = ({entry: shared[entry]} if isinstance(entry, str) else entry).items()
    if isinstance(facts, list):
        return [column for part in facts for column in _columns(part, shared)]
    if name == "interval":
        estimate, options = facts["what"], {k: v for k, v in facts.items() if k != "what"}
        ends = (("ci_low", "Lower"), ("ci_high", "Upper"))
        return [Column(n, f"{end} limit of the confidence interval of {estimate}.", **options) for n, end in ends]
    options = {k: v for k, v in facts.items() if k != "is"}
    options |= {"text": options.get("text", options.get("key", False)), "allowed": tuple(options.get("allowed", ()))}
    return [Column(name, facts["is"], **options)]


def schema(name: str) -> Schema:
    """Return the declaration of the table ``name``; for a table of your own, such as ``my_table``, one without columns.

    Raises UnknownNameError: The name begins like a paper's tables, and there is no such table.
    """
    declared = schemas()
    if name in declared:
        return declared[name]
    if name.partition("_")[0] in {schemas_declared.partition("_")[0] for schemas_declared in declared}:
        raise unknown_name("table", name, declared)
    return Schema(name, name.replace("_", " ").capitalize(), "A user-defined table.", ())


def check(
    frame: pd.DataFrame, name: str, *, where: str = "", more_keys: Sequence[str] = (), finite: bool = False
) -> pd.DataFrame:
    """Return ``frame`` with the columns of table ``name``: checked, typed, in declared order.

    Further columns follow the declared ones. ``where`` is the name of the data in errors, ``more_keys`` are further
    columns of a row's identity, and ``finite`` states whether numbers must be finite.

    Raises InputError: A column is missing, a number is invalid or out of its range, or two rows have the same
    identity. UnknownNameError: There is no table ``name``.
    """
    import pandas as pd

    declared = schema(name)
    where = where or f"table {name}"
    old_names.check_columns(map(str, frame), declared.names, where)
    cells.require(frame, declared.names, where, f"Table {name} needs: {', '.join(declared.names)}.")
    out = frame.copy()
    present = [c for c in declared.columns if c.name in out.columns]
    for column in present:
        if column.text:
            texts = ["" if v is None or v is pd.NA or v != v else str(v) for v in out[column.name].tolist()]
            out[column.name] = pd.Series(texts, out.index, dtype=object)
            for value in sorted(set(texts).difference(column.allowed)) if column.allowed else ():
                raise InputError(f"{where}: {column.name} is {value!r}. {name_help(value, column.allowed)}")
        else:
            out[column.name] = _numbers(out[column.name], column, where, finite)
    keys = [k for k in dict.fromkeys([*declared.keys, *more_keys]) if k in out.columns]
    if keys and (twice := out.duplicated(keys)).any():
        row = out.loc[twice, keys].iloc[0].to_dict()
        raise InputError(f"{where} has two rows for {row}; keep one.")
    columns_present = [c.name for c in present]
    return out[columns_present + [c for c in out.columns if c not in columns_present]].reset_index(drop=True)


def _numbers(series: pd.Series, column: Column, where: str, finite: bool) -> pd.Series:
    """Return a column's values as numbers within its range. Raises InputError for invalid values."""
    import numpy as np
    import pandas as pd

    values = pd.to_numeric(series, errors="coerce")
    plain = values.to_numpy(dtype=float, na_value=np.nan)
    # Passes over columns dominate the time for small tables; most columns need only this one.
    unknown = np.isnan(plain)
    if unknown.any():
        unknown &= series.notna().to_numpy() & (series.astype(str).str.strip().to_numpy() != "")
    wrong = unknown | (np.isinf(plain) & finite)
    if wrong.any():
        raise InputError(
            f"{where}: {column.name} is {str(series[wrong].iloc[0])[:60]!r} in row {int(wrong.argmax()) + 1}; enter a "
            "finite number, or leave the cell empty if there is no value."
        )
    # Floats can exceed a limit by rounding (100 * x / x can be 100.00000000000001); they are set to the limit.
    is_beyond = (plain < column.low) | (plain > column.high)
    if not is_beyond.any():
        return values
    clipped = values.clip(column.low, column.high)
    outside = is_beyond & ~np.isclose(values, clipped, rtol=1e-10, atol=1e-10)
    if outside.any():
        has_limits = np.isfinite([column.low, column.high])
        bounds = f"{column.low:g} to {column.high:g}" if has_limits.all() else f"{column.low:g} or more"
        allowed = add_unit(bounds if has_limits[0] else f"{column.high:g} or less", column.unit)
        raise InputError(
            f"{where}: {column.name} is {plain[outside][0]:.10g} in row {int(outside.argmax()) + 1}; it must be "
            f"{allowed}."
        )
    return clipped


def make_table(rows: Sequence[Mapping] | Sequence[Sequence] | pd.DataFrame, name: str) -> pd.DataFrame:
    """Return rows as the table ``name``: absent columns are filled with missing values, undeclared ones are left out.

    Rows that are lists have a value for each required column, in order.

    Raises InputError: A value does not fit its column, or two rows have the same identity. UnknownNameError: There is
    no table ``name``.
    """
    import pandas as pd

    columns = [c.name for c in schema(name).columns]
    lists = isinstance(rows, list) and rows and isinstance(rows[0], list | tuple)
    frame = pd.DataFrame(rows, columns=schema(name).names if lists else None)
    names = [c for c in columns if c in frame.columns or c in schema(name).names]
    return check(frame.reindex(columns=names), name)


def join_tables(frames: Sequence[pd.DataFrame], name: str) -> pd.DataFrame:
    """Return concatenated frames as the table ``name`` (:func:`make_table`); without frames it has no rows."""
    import pandas as pd

    return make_table(pd.concat(frames, ignore_index=True) if frames else [], name)


def read(path: Path | str, name: str, *, more_keys: Sequence[str] = ()) -> pd.DataFrame:
    """Read the CSV file of table ``name`` and check it against its declaration, as :func:`check` does.

    Formats of spreadsheets are accepted (:mod:`biaslab.io.delimited`). Columns that are not declared become numbers
    if all of their cells are numbers.

    Raises InputError: The file is missing, empty, not UTF-8, or does not fit the declaration.
    """
    declared = {c.name: c for c in schema(name).columns}
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; it should contain the table {name}.")
    reading.check(path, most=MAX_BYTES)
    frame = delimited.table(Path(path))
    names = [_remove_guard(column).strip() for column in frame.columns]
    twice = [column for column in declared if names.count(column) > 1]
    if twice:
        raise InputError(f"{path} has two columns named {twice[0]!r}; keep one.")
    frame.columns = [f"{part}.{n}" if (n := names[:i].count(part)) else part for i, part in enumerate(names)]
    for column in frame.columns:
        column_declared = declared.get(column)
        if column_declared is None:
            frame[column] = _infer_type(frame[column])
        elif column_declared.text:
            frame[column] = frame[column].map(_remove_guard).astype(object)
        else:
            frame[column] = cells.decimals(frame[column], path, whole=column == "n" or column.startswith("n_"))
    return check(frame, name, where=str(path), more_keys=more_keys, finite=True)


def _infer_type(column: pd.Series) -> pd.Series:
    """Return texts as numbers, or as booleans, if all of them can be parsed; empty ones are missing."""
    import pandas as pd

    values = column.astype(object).where(column != "")
    numbers = pd.to_numeric(values, errors="coerce")
    # Whole numbers beyond NumPy's range stay texts.
    if numbers.notna().equals(values.notna()) and not column.str.fullmatch(r"[+-]?\d{19,}").any():
        return numbers
    return column == "True" if len(column) and column.isin(["True", "False"]).all() else values


def write(frame: pd.DataFrame, path: Path | str) -> Path:
    """Write ``frame`` as UTF-8 CSV with a header, to a temporary name first and then renamed.

    A leading apostrophe, which :func:`read` removes, guards texts and column names that a spreadsheet would run as a
    formula, and those that begin with an apostrophe. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
    Numbers have up to 10 significant digits (:data:`FLOAT_FORMAT`), also in a column with texts.
    """
    import pandas as pd

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    safe = frame.copy()
    texts = [c for c in safe.columns if not pd.api.types.is_numeric_dtype(safe[c])]
    for column in texts:
        safe[column] = safe[column].map(_guard, na_action="ignore")
    # Readers end a row at a carriage return, but the writer does not quote it.
    returns = any("\r" in v for column in texts for v in safe[column] if isinstance(v, str))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    safe.to_csv(
        temporary,
        index=False,
        header=[str(_guard(str(c))) for c in safe.columns],
        encoding="utf-8",
        float_format=FLOAT_FORMAT,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
    )
    os.replace(temporary, path)
    return path


def _guard(value: object) -> object:
    if isinstance(value, float):
        # In a column of numbers and texts, pandas ignores float_format.
        return float(FLOAT_FORMAT % value)
    if not isinstance(value, str):
        return value
    value = _SURROGATE.sub("\ufffd", value)
    return "'" + value if value.startswith((*_FORMULA_STARTS, "'")) else value


def _remove_guard(value: str) -> str:
    return value[1:] if value.startswith("'") and value[1:].startswith((*_FORMULA_STARTS, "'")) else value
