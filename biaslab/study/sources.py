"""Where measured tables come from: printed numbers, annotations, a folder of tables, or the pipeline itself."""

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

# Where a run keeps the measured tables that it read.
MEASURED = "measured"
# Columns of names, which mean one thing however a letter is written.
_NAMED = ("occupation", "profession", "model")


def load_measured(
    name: str, *, source: str, annotations: str = "", pipeline: Pipeline | None = None, baselines: Iterable[str] = ()
) -> pd.DataFrame:
    """Return the measured table ``name`` from ``source``, checked against its declaration.

    Args:
        source: As of :class:`biaslab.request.Request`; a folder has ``<name>.csv`` in its ``load_measured`` (a run's
            inputs), in its ``tables``, or in itself.
        pipeline: What measures, for sources that generate images; what its settings ask to ``baselines`` follows.
        baselines: For sources that make none, ``published`` where printed numbers of other models are to follow.

    Raises:
        InputError: The data are missing or do not fit.
        UnknownNameError: There is no such table in this source.
    """
    if "published" in baselines and not makes_images(source) and is_comparable(name, source):
        return _with_printed(name, source, annotations)
    if source == "published":
        if name not in _published():
            raise _not_held("published", name, _published())
        return tables.check(_published()[name](), name)
    if makes_images(source):
        assert pipeline is not None, "what makes images is a pipeline"
        return tables.check(_by_pipeline(name, pipeline), name)
    if source == "annotations":
        from biaslab.ratings import shares

        if not _is_rated(name):
            raise _not_held("annotations", name, filter(_is_rated, _readable()))
        return tables.check(shares.read(annotations).percent_female, name)
    folder = Path(source)
    tables.schema(name)
    if path := table_path(folder, name):
        _check_unchanged(folder, path)
        return _plausible(_in_one_form(tables.read(path, name), name, path), name, path)
    there = sorted({p.stem for p in [*folder.glob("*.csv"), *folder.glob("*/*.csv")]})
    raise MissingInputError(f"{source} holds no {name}.csv. {name_help(name, there)}")


def _check_unchanged(folder: Path, path: Path) -> None:
    """Raise InputError where a table in a run's folder differs from the digest in the run's record."""
    if not (record := folder / "run.json").is_file():
        return
    try:
        files, name = json.loads(reading.text(record)).get("files", {}), path.relative_to(folder).as_posix()
        changed = name in files and reading.altered(folder, {name: files[name]})
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise InputError(f"{record} is not the record of a run; start the run again, or remove the file.") from None
    if changed:
        raise InputError(
            f"{path} was changed since the run ended. Start the run again, or copy the table into another folder to "
            "use it as your own."
        )


def is_comparable(name: str, source: str) -> bool:
    """Return whether what is printed of a table can be next to a source: one that measures, or holds its paper's."""
    if source == "published" or name not in _published():
        return False
    if makes_images(source):
        return True
    paper = name.partition("_")[0]
    return any(has_table(one, source=source) for one in _readable() if one.partition("_")[0] == paper)


def _with_printed(name: str, source: str, annotations: str) -> pd.DataFrame:
    """Return a source's rows, where it holds a table, and those of other models that are printed."""
    import pandas as pd

    printed = load_measured(name, source="published")
    if not has_table(name, source=source):
        return printed
    own = load_measured(name, source=source, annotations=annotations)
    if "model" not in own:
        return own
    others = printed[~printed["model"].isin(own["model"])]
    return tables.check(pd.concat([own, others], ignore_index=True), name)


def printed_models(name: str, frame: pd.DataFrame) -> list[str]:
    """Return the models whose rows of the measured table ``name`` are what papers print, in the order of ``frame``.

    Rows are compared as tables are written, that is to 10 digits.
    """
    if name not in _published() or "model" not in frame or frame.empty:
        return []

    def lines(rows: pd.DataFrame) -> set[str]:
        return set(rows.to_csv(index=False, header=False, float_format=tables.FLOAT_FORMAT).splitlines())

    printed = tables.check(_published()[name](), name)
    # Next to measured rows, printed ones have columns of which papers print nothing.
    known, frame = lines(printed), tables.check(frame, name).reindex(columns=printed.columns)
    return [str(model) for model, rows in frame.groupby("model", sort=False) if lines(rows) <= known]


def _by_pipeline(name: str, pipeline: Pipeline) -> pd.DataFrame:
    import pandas as pd

    from biaslab.planning import preflight

    own, baselines = measures().get(name), None
    if "published" in pipeline.settings.baselines:
        baselines = _published().get(name)
    if not own and not baselines:
        raise _not_held("the pipeline", name, _readable())
    frames, missing = [], []
    for one in (pipeline, *pipeline.baseline_pipelines) if own else ():
        try:
            preflight.check_table(one, name)
            frames.append(measures()[name](one))
        except MissingInputError as error:
            missing.append(error)
    if missing and not frames:
        raise missing[0]
    whole = pd.concat([*frames, *([baselines()] if baselines else [])], ignore_index=True)
    # What says nothing of a model, such as what captions hold, every model's pipeline says alike.
    return whole if "model" in whole else whole.drop_duplicates(ignore_index=True)


def _is_rated(name: str) -> bool:
    """Return whether a file of annotations gives a table."""
    return name in tables.schemas() and tables.schema(name).rated


def _not_held(source: str, name: str, held: Iterable[str]) -> Exception:
    """Return the error for a table that ``source`` lacks: no failure where another source can have it."""
    if name not in _readable():
        return unknown_name(f"table of measurements in {source}", name, held)
    options = "set source to 'published', or to a folder with this table"
    if name not in _published():
        options = "it takes images. Set source to 'pipeline', or to a folder with this table"
    return MissingInputError(f"{source[0].upper()}{source[1:]} has no {name}: {options}.")


def _in_one_form(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Return a user's table with names in the form of :mod:`biaslab.io.plaintext`, by which tables are joined."""
    texts = [c.name for c in tables.schema(name).columns if c.key and c.text and c.name in frame]
    same = frame.assign(**{c: frame[c].map(lambda text: plaintext.normalize(text).strip()) for c in texts})
    named = [c for c in texts if c in _NAMED]
    same = same.assign(**{c: cells.names(same[c], path, empty=True).astype(object) for c in named})
    # Two rows may be of one name now.
    return frame if same.equals(frame) else tables.check(same, name, where=str(path), finite=True)


def _plausible(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Refuse a model's shares that are likely given in other units, and numbers of images that are none."""
    # A benchmark has no model, and its shares may be of no sample.
    if not {"model", "percent_female", "n"}.issubset(frame.columns):
        return frame
    share, n = frame["percent_female"], frame["n"]
    if share.max() <= 1 and (share > 0).any():
        raise InputError(f"{path}: every percent_female is 1 or less, as if given as 0–1; multiply it by 100.")
    bad = share.notna() & ((n < 1) | (n % 1 != 0) | n.isna())
    if bad.any():
        raise InputError(
            f"{path}: n is {n[bad].iloc[0]:g} in row {int(bad.to_numpy().argmax()) + 1}; it counts images, so it must "
            "be a whole number of 1 or more."
        )
    if _is_rated(name) and frame["source"].nunique() < 2:
        raise InputError(
            f"{path}: source is {', '.join(sorted(set(frame['source']))) or 'nowhere given'}; amplification needs "
            "'training' and 'generated'."
        )
    return frame


def read_tables(request: Request) -> None:
    """Read what a file or a folder holds: errors come before work.

    Raises InputError: A table does not fit its declaration, or the folder holds none.
    """
    source, model = request.source, request.model
    if source == "annotations":
        from biaslab.ratings import shares

        shares.read(request.annotations).of_model(model)
    elif source not in names():
        held = [name for name in _readable() if has_table(name, source=source)]
        if not held:
            raise InputError(f"{source} holds none of the tables that notebooks read: {', '.join(_readable())}.")
        for name in held:
            load_measured(name, source=source)


def has_table(name: str, *, source: str, baselines: Iterable[str] = ()) -> bool:
    """Return whether ``source`` holds the measured table ``name``; ``baselines`` as the setting."""
    if source == "published":
        return name in _published()
    if "published" in baselines and is_comparable(name, source):
        return True
    if makes_images(source):
        return name in measures()
    if source == "annotations":
        return _is_rated(name)
    return table_path(Path(source), name) is not None


def table_path(folder: Path, name: str) -> Path | None:
    """Return the file of a table in a folder (:func:`load_measured`); None where there is none."""
    paths = (folder / place / f"{name}.csv" for place in (MEASURED, "tables", "."))
    return next((path for path in paths if path.exists()), None)


def models(paper: str, *, source: str, annotations: str = "") -> list[str] | None:
    """Return the models of which ``source`` has measurements for ``paper``; None where it has none, or measures any."""
    if makes_images(source):
        return None
    held = [n for n in _readable() if n.startswith(f"{paper}_") and has_table(n, source=source)]
    frames = [load_measured(name, source=source, annotations=annotations) for name in held]
    of = [set(frame["model"]) for frame in frames if "model" in frame]
    return sorted(set().union(*of)) if of else None


def digest(request: Request) -> str:
    """Return a digest of a source's files, for a pipeline of weights and captions; printed numbers count as code."""
    source = request.source
    if source == "published":
        return "published"
    if request.makes_images:
        from biaslab.planning import validation

        return validation.digest(request.opened)
    if source == "annotations":
        paths = cells.files(cells.file_path(request.annotations))
    else:
        paths = [path for name in _readable() if (path := table_path(Path(source), name))]
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.name.encode())
        whole.update(reading.content(path, most=tables.MOST_BYTES))
    return whole.hexdigest()


# What is printed, and what measures with a pipeline, by table.
_published = partial(measuring.table_functions, "printed")


def modules() -> list[str]:
    """Return the names of the modules that measured tables come from, whichever of them a notebook names."""
    return [module.__name__ for name in ("printed", "measure") for module in measuring.paper_modules(name)]


def _readable() -> list[str]:
    """Return the names of all tables that a source can hold."""
    return sorted({*_published(), *measures()})
