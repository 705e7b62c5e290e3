"""Measures that other packages bring, found by the entry points ``biaslab.measures``.

A package declares ``[project.entry-points."biaslab.measures"]`` with ``name = "module:function"``; the setting
``measures: [name]`` then calls ``function(study)`` with the :class:`~biaslab.study.study.Study` of the notebook
``synthesis/models``, from which it takes what the papers measure (``study.load``), judgements or images. It returns
what its measure is the mean of, a row a model and prompt; intervals, tests and figures are made of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from biaslab.ground import plugins
from biaslab.ground.errors import InputError, ParameterError, loading
from biaslab.keep import closure

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "model": "the model",
    "measure": "what is measured, in a few words",
    "measure_unit": "the unit of the values, such as %",
    "unit": "what was asked, such as a prompt or an occupation",
    "value": "a number; missing where there is none",
}
"""The columns of what such a measure returns, all of them needed."""
FLOOR = "floor"
"""A column that may follow: what chance alone gives on average, in the measure's unit; it is taken off."""


def load(name: str) -> Callable[..., pd.DataFrame]:
    """Return the measure of this name, whose answers are checked.

    Raises ParameterError: It cannot be loaded or called. UnknownNameError: No installed package brings it.
    """
    point = plugins.point(plugins.MEASURES, name, "measure")
    with loading(name, "a measure"):
        measure = point.load()
    if not callable(measure):
        raise ParameterError(
            f"{name} is no measure: {point.value} cannot be called. Name a function of a study that returns a table."
        )
    return lambda study: checked(measure(study), name)


def digest(name: str) -> str:
    """Return a digest of the package and module behind a measure; errors as of :func:`load`."""
    return closure.brought(plugins.point(plugins.MEASURES, name, "measure"))


def checked(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return what the measure ``name`` gave: its columns :data:`COLUMNS` and :data:`FLOOR`, missing values left out.

    Raises InputError: It is no table, lacks a column, has a value that is no finite number, or a row twice.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"The measure {name} returns {type(frame).__name__}; it must return a pandas DataFrame.")
    for column, what in COLUMNS.items():
        if column not in frame.columns:
            raise InputError(f"The measure {name} returns no column {column!r} ({what}).")
    frame = frame.reindex(columns=[*COLUMNS, FLOOR]).dropna(subset=["value"]).reset_index(drop=True)
    for column in ("value", FLOOR):
        numbers = pd.to_numeric(frame[column], errors="coerce")
        wrong = frame.loc[frame[column].notna() & ~np.isfinite(numbers), column]
        if len(wrong):
            raise InputError(
                f"The measure {name} returns {column} {wrong.iloc[0]!r}; it must be a finite number, or missing."
            )
        frame[column] = numbers.astype(float)
    for column in (c for c in COLUMNS if c != "value"):
        if wrong := [v for v in frame[column] if not isinstance(v, str) or not v.strip()]:
            raise InputError(f"The measure {name} returns {column} {wrong[0]!r}; it must be a text.")
    keys = ["model", "measure", "unit"]
    for model, measure, unit in frame.loc[frame.duplicated(keys), keys].to_numpy():
        raise InputError(f"The measure {name} returns {measure!r} of {model!r} and {unit!r} twice; give it once.")
    return frame
