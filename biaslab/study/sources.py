"""Sources of measured tables: published values, annotations, a folder of tables, or a pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.errors import InputError, MissingInputError, name_help, unknown_name
from biaslab.io import cells, plaintext, reading
from biaslab.planning import measures as measuring
from biaslab.planning.measures import measures
from biaslab.request import Request, makes_images, names
from biaslab.schema import tables

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.pipeline import Pipeline

# The folder of a run with the measured tables that it read.
MEASURED = "measured"
# Columns of names, which are compared in a normalized form.
_NAME_COLUMNS = ("occupation", "profession", "model")


def load_measured(
    name: str, *, source: str, annotations: str = "", pipeline: Pipeline | None = None, baselines: Iterable[str] = ()
) -> pd.DataFrame:
    """Return the measured table ``name`` from ``source``, checked against its declaration.

    Args:
        name: The name of the table.
        source: A source, as in :class:`biaslab.request.Request`. A folder contains ``<name>.csv`` in its subfolder
            ``measured`` (the inputs of a run) or ``tables``, or directly.
        annotations: The file of annotations, for the source ``annotations``.
        pipeline: The pipeline that measures, for sources that generate images; its settings name the baselines.
        baselines: For other sources, ``published`` to add published values of other models.

    Raises:
        InputError: The data are missing or do not fit.
        UnknownNameError: There is no such table in this source.
    """
    if "published" in baselines and not makes_images(source) and is_comparable(name, source):
        return _add_printed(name, source, annotations)
    if source == "published":
        if name not in _printed_tables():
            raise _missing_table_error("published", name, _printed_tables())
        return tables.check(_printed_tables()[name](), name)
    if makes_images(source):
        assert pipeline is not None, "what makes images is a pipeline"
        return tables.check(_measure_with_pipeline(name, pipeline), name)
    if source == "annotations":
        from biaslab.ratings import shares

        if not _is_rated(name):
            raise _missing_table_error("annotations", name, filter(_is_rated, _list_tables()))
        return tables.check(shares.read(annotations).percent_female, name)
    folder = Path(source)
    tables.schema(name)
    if path := table_path(folder, name):
        _check_unchanged(folder, path)
        return _check_plausible(_normalize_names(tables.read(path, name), name, path), name, path)
    table_names = sorted({p.stem for p in [*folder.glob("*.csv"), *folder.glob("*/*.csv")]})
    raise MissingInputError(f"{source} contains no {name}.csv. {name_help(name, table_names)}")


def _check_unchanged(folder: Path, path: Path) -> None:
    """Raise InputError if a table in a run's folder differs from the digest in the run's record."""
    if not (record := folder / "run.json").is_file():
        return
    try:
        files, name = json.loads(reading.text(record)).get("files", {}), path.relative_to(folder).as_posix()
        changed = name in files and reading.describe_changes(folder, {name: files[name]})
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InputError(f"{record} is not the record of a run. Start the run again, or remove the file.") from None
    if changed:
        raise InputError(
            f"{path} was changed since the run ended. Start the run again, or copy the table into another folder to "
            "use the changed version."
        )


def is_comparable(name: str, source: str) -> bool:
    """Return whether published rows of a table can be added: the source measures, or has a table of the same paper."""
    if source == "published" or name not in _printed_tables():
        return False
    if makes_images(source):
        return True
    paper = name.partition("_")[0]
    return any(has_table(table, source=source) for table in _list_tables() if table.partition("_")[0] == paper)


def _add_printed(name: str, source: str, annotations: str) -> pd.DataFrame:
    """Return the rows of a table in a source, if any, followed by published rows of other models."""
    import pandas as pd

    printed = load_measured(name, source="published")
    if not has_table(name, source=source):
        return printed
    rows = load_measured(name, source=source, annotations=annotations)
    if "model" not in rows:
        return rows
    printed_rows = printed[~printed["model"].isin(rows["model"])]
    return tables.check(pd.concat([rows, printed_rows], ignore_index=True), name)


def printed_models(name: str, frame: pd.DataFrame) -> list[str]:
    """Return the models whose rows of the measured table ``name`` are published values, in the order of ``frame``.

    Rows are compared as they are written, with 10 digits.
    """
    if name not in _printed_tables() or "model" not in frame or frame.empty:
        return []

    def lines(rows: pd.DataFrame) -> set[str]:
        return set(rows.to_csv(index=False, header=False, float_format=tables.FLOAT_FORMAT).splitlines())

    printed = tables.check(_printed_tables()[name](), name)
    # Printed rows that follow measured ones also have columns without printed values.
    printed_lines, frame = lines(printed), tables.check(frame, name).reindex(columns=printed.columns)
    return [str(model) for model, rows in frame.groupby("model", sort=False) if lines(rows) <= printed_lines]


def _measure_with_pipeline(name: str, pipeline: Pipeline) -> pd.DataFrame:
    import pandas as pd

    from biaslab.planning import preflight

    measure, baselines = measures().get(name), None
    if "published" in pipeline.settings.baselines:
        baselines = _printed_tables().get(name)
    if not measure and not baselines:
        raise _missing_table_error("the pipeline", name, _list_tables())
    frames, missing = [], []
    for model_pipeline in (pipeline, *pipeline.baseline_pipelines) if measure else ():
        try:
            preflight.check_table(model_pipeline, name)
            frames.append(measures()[name](model_pipeline))
        except MissingInputError as error:
            missing.append(error)
    if missing and not frames:
        raise missing[0]
    table = pd.concat([*frames, *([baselines()] if baselines else [])], ignore_index=True)
    # Tables without a model, such as those on captions, are the same for the pipeline of every model.
    return table if "model" in table else table.drop_duplicates(ignore_index=True)


def _is_rated(name: str) -> bool:
    """Return whether a table can be computed from a file of annotations."""
    return name in tables.schemas() and tables.schema(name).rated


def _missing_table_error(source: str, name: str, table_names: Iterable[str]) -> Exception:
    """Return the error for a table that ``source`` lacks: a MissingInputError if another source can contain it."""
    if name not in _list_tables():
        return unknown_name(f"table of measurements in {source}", name, table_names)
    options = "Set source to 'published', or to a folder with this table"
    if name not in _printed_tables():
        options = "It is measured on images. Set source to 'pipeline', or to a folder with this table"
    return MissingInputError(f"{source[0].upper()}{source[1:]} has no table {name}. {options}.")


def _normalize_names(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Return a user's table with names in the normalized form of :mod:`biaslab.io.plaintext`, for joining tables."""
    texts = [c.name for c in tables.schema(name).columns if c.key and c.text and c.name in frame]
    table = frame.assign(**{c: frame[c].map(lambda text: plaintext.normalize(text).strip()) for c in texts})
    name_columns = [c for c in texts if c in _NAME_COLUMNS]
    table = table.assign(**{c: cells.names(table[c], path, empty=True).astype(object) for c in name_columns})
    # Normalization can give two rows the same name.
    return frame if table.equals(frame) else tables.check(table, name, where=str(path), finite=True)


def _check_plausible(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Raise InputError if a model's shares are probably in another unit, or numbers of images are invalid."""
    # A benchmark has no model, and its shares need no sample size.
    if not {"model", "percent_female", "n"}.issubset(frame.columns):
        return frame
    share, n = frame["percent_female"], frame["n"]
    if share.max() <= 1 and (share > 0).any():
        raise InputError(
            f"{path}: every percent_female is at most 1, so the shares seem to be fractions (0–1). Multiply them by "
            "100."
        )
    bad = share.notna() & ((n < 1) | (n % 1 != 0) | n.isna())
    if bad.any():
        raise InputError(
            f"{path}: n is {n[bad].iloc[0]:g} in row {int(bad.to_numpy().argmax()) + 1}; it counts images, so it must "
            "be a whole number of at least 1."
        )
    if _is_rated(name) and frame["source"].nunique() < 2:
        raise InputError(
            f"{path}: source is {', '.join(sorted(set(frame['source']))) or 'empty'}; amplification needs both "
            "'training' and 'generated'."
        )
    return frame


def read_tables(request: Request) -> None:
    """Read the tables of a file or folder, to detect errors before any computation.

    Raises InputError: A table does not fit its declaration, or the folder contains no table.
    """
    source, model = request.source, request.model
    if source == "annotations":
        from biaslab.ratings import shares

        shares.read(request.annotations).of_model(model)
    elif source not in names():
        table_names = [name for name in _list_tables() if has_table(name, source=source)]
        if not table_names:
            raise InputError(f"{source} contains none of the tables that notebooks read: {', '.join(_list_tables())}.")
        for name in table_names:
            load_measured(name, source=source)


def has_table(name: str, *, source: str, baselines: Iterable[str] = ()) -> bool:
    """Return whether ``source`` contains the measured table ``name``; ``baselines`` is as in :func:`load_measured`."""
    if source == "published":
        return name in _printed_tables()
    if "published" in baselines and is_comparable(name, source):
        return True
    if makes_images(source):
        return name in measures()
    if source == "annotations":
        return _is_rated(name)
    return table_path(Path(source), name) is not None


def table_path(folder: Path, name: str) -> Path | None:
    """Return the file of a table in a folder (see :func:`load_measured`); None if it is missing."""
    paths = (folder / place / f"{name}.csv" for place in (MEASURED, "tables", "."))
    return next((path for path in paths if path.exists()), None)


def models(paper: str, *, source: str, annotations: str = "") -> list[str] | None:
    """Return the models with measurements for ``paper`` in ``source``; None without any, or if all can be measured."""
    if makes_images(source):
        return None
    table_names = [n for n in _list_tables() if n.startswith(f"{paper}_") and has_table(n, source=source)]
    frames = [load_measured(name, source=source, annotations=annotations) for name in table_names]
    model_sets = [set(frame["model"]) for frame in frames if "model" in frame]
    return sorted(set().union(*model_sets)) if model_sets else None


def digest(request: Request) -> str:
    """Return a digest of a source's files (for a pipeline, of weights and captions); published values are code."""
    source = request.source
    if source == "published":
        return "published"
    if request.makes_images:
        from biaslab.planning import validation

        return validation.digest(request.opened)
    if source == "annotations":
        paths = cells.files(cells.file_path(request.annotations))
    else:
        paths = [path for name in _list_tables() if (path := table_path(Path(source), name))]
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(path.name.encode())
        hasher.update(reading.content(path, most=tables.MAX_BYTES))
    return hasher.hexdigest()


# The functions that return printed tables, by table.
_printed_tables = partial(measuring.table_functions, "printed")


def modules() -> list[str]:
    """Return the names of all modules that provide measured tables."""
    return [module.__name__ for name in ("printed", "measure") for module in measuring.paper_modules(name)]


def _list_tables() -> list[str]:
    """Return the names of all tables that a source can contain."""
    return sorted({*_printed_tables(), *measures()})
