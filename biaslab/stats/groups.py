"""Estimates by group, similar to fairlearn's ``MetricFrame``.

:func:`by_group` splits a table into groups, applies an estimator to each group, and combines the results in one table.
:func:`share`, :func:`shares`, :func:`mean` and :func:`stereotype_score` return estimators. Any other function of a
group's rows can also be an estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from biaslab.errors import InputError
from biaslab.schema.genders import GENDERS
from biaslab.stats.checks import check_columns
from biaslab.stats.clusters import clustered_share
from biaslab.stats.hypothesis import adjust_families
from biaslab.stats.intervals import mean_interval, percent

_SHARE, _SCORE = ("percent", "ci_low", "ci_high"), ("score", "ci_low", "ci_high")
# Genders as other tools and people write them.
_OTHER_SPELLINGS = frozenset(("F", "M", "f", "m", "Female", "Male", "woman", "man", "Woman", "Man", "women", "men"))
Row = dict[str, Any]
Estimator = Callable[[pd.DataFrame], "Row | Iterable[Row] | pd.DataFrame"]


def by_group(
    frame: pd.DataFrame,
    keys: str | Sequence[str],
    estimator: Estimator,
    *,
    overall: str = "",
    adjust: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return an estimate for each group of rows.

    Args:
        frame: One row per observation, with the columns ``keys``.
        keys: Columns that identify a group. Groups are in the order of their first rows.
        estimator: Function that takes a group's rows and returns its estimate as one row (a dict), several rows, or a
            table.
        overall: Name of the overall estimate in the last of the ``keys``. Its rows come before those of the groups. If
            empty, the overall estimate is omitted.
        adjust: Columns that identify a family of tests, within which the column ``p`` is adjusted
            (:func:`biaslab.stats.adjust_families`). If None, no p-value is adjusted.

    Returns:
        The columns ``keys`` and those of the estimates. If there is no group, the columns ``keys`` without rows.

    Raises:
        InputError: A key is not a column or has missing values, a group has the name ``overall``, the estimates have a
            key as a column, or the estimator counts a label that no row has.
    """
    keys = [keys] if isinstance(keys, str) else list(keys)
    check_columns(frame, keys)
    if check := getattr(estimator, "check", None):
        check(frame)
    if incomplete_keys := [key for key in keys if frame[key].isna().any()]:
        raise InputError(
            f"The key {incomplete_keys[0]!r} has missing values, which belong to no group; fill in or drop these rows."
        )
    if overall and (frame[keys[-1]] == overall).any():
        raise InputError(
            f"A group of {keys[-1]!r} is called {overall!r}, which is the name of the estimate over all groups; rename "
            "it."
        )
    table = []
    for names, rows in _groups(frame, keys, overall):
        estimates = estimator(rows)
        if isinstance(estimates, pd.DataFrame):
            estimates = estimates.to_dict("records")
        key = dict(zip(keys, names, strict=True))
        for row in [estimates] if isinstance(estimates, dict) else estimates:
            if shared_columns := key.keys() & row.keys():
                raise InputError(
                    f"The estimator returns the column {min(shared_columns)!r}, which is a key; give it another name."
                )
            table.append(key | row)
    estimated = pd.DataFrame(table) if table else pd.DataFrame(columns=keys)
    return estimated if adjust is None or estimated.empty else adjust_families(estimated, list(adjust))


def _groups(frame: pd.DataFrame, keys: list[str], overall: str) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield the key values and the rows of each group; if ``overall`` is set, rows of all groups come first."""
    if not overall:
        yield from frame.groupby(keys, sort=False)
        return
    *outer_keys, last_key = keys
    for names, rows in frame.groupby(outer_keys, sort=False) if outer_keys else [((), frame)]:
        yield (*names, overall), rows
        for name, group in rows.groupby(last_key, sort=False):
            yield (*names, name), group


def share(
    column: str, value: object, confidence: float = 0.95, *, cluster: str = "", labels: Sequence[object] = GENDERS
) -> Callable[[pd.DataFrame], Row]:
    """Return an estimator of the share of rows with ``value`` in a column; rows with a missing value are excluded.

    Its columns are percent, ci_low, ci_high (0–100), count and n (rows). ``cluster`` is a column such as the image of
    each row. With it, the interval is that of :func:`biaslab.stats.clustered_share`, and the column ``n_images`` is the
    number of clusters. Without it, the interval is Wilson's. If ``value`` is a string that no row of the frame
    contains, :func:`by_group` raises an error, unless it is one of ``labels``, the possible values of the column.
    """

    def check(frame: pd.DataFrame) -> None:
        check_columns(frame, [column])
        values = frame[column].dropna().unique()
        if isinstance(value, str) and len(values) and value not in {*values, *labels}:
            raise InputError(
                f"No row has {value!r} in the column {column!r}, which contains {', '.join(map(repr, values[:6]))}. "
                f"Use one of these, or include {value!r} in labels if it could occur but does not."
            )

    def estimate(rows: pd.DataFrame) -> dict[str, Any]:
        check_columns(rows, filter(None, (column, cluster)))
        rows = rows.dropna(subset=[column])
        hits = rows[column] == value
        counts = {"count": int(hits.sum()), "n": len(rows)}
        if not cluster:
            limits = percent(counts["count"], counts["n"], confidence)
            return dict(zip(_SHARE, limits, strict=True)) | counts
        images = hits.groupby(rows[cluster], sort=False).agg(["sum", "size"])
        estimated = clustered_share(images["sum"], images["size"], confidence)
        limits = dict(zip(_SHARE, (100 * end for end in estimated[:3]), strict=True))
        return limits | counts | {"n_images": len(images)}

    estimate.check = check  # type: ignore[attr-defined]
    return estimate


def stereotype_score(
    gender: str = "gender", stereotype: str = "stereotype", confidence: float = 0.95, *, cluster: str = ""
) -> Callable[[pd.DataFrame], Row]:
    """Return an estimator of the stereotype score over people.

    The score is 100 if all people have the stereotypical gender of their occupation, and -100 if none have it. The
    columns ``gender`` and ``stereotype`` contain ``female`` or ``male``. People with another value of ``gender``, such
    as ``unclear``, are excluded. The estimator's columns are score, ci_low, ci_high, count (people who match the
    stereotype) and n; ``cluster`` is as in :func:`share`. Source: paired, section 3.2.3, equation 1. Raises InputError:
    A stereotype is neither ``female`` nor ``male``, or a gender has another spelling, such as ``F``.
    """
    share_of_fits = share("fits", True, confidence, cluster=cluster)

    def estimate(rows: pd.DataFrame) -> dict[str, Any]:
        check_columns(rows, (gender, stereotype))
        spellings = sorted({*rows[gender].astype(str)} & _OTHER_SPELLINGS)
        if spellings:
            raise InputError(f"The column {gender!r} contains {spellings[0]!r}; use {' or '.join(map(repr, GENDERS))}.")
        classified = rows[rows[gender].isin(GENDERS)]
        if not classified[stereotype].isin(GENDERS).all():
            raise InputError(f"The column {stereotype!r} must contain {' or '.join(map(repr, GENDERS))}.")
        row = share_of_fits(classified.assign(fits=classified[gender] == classified[stereotype]))
        ends = {name: 2 * row.pop(end) - 100 for name, end in zip(_SCORE, _SHARE, strict=True)}
        return ends | row

    return estimate


def shares(
    column: str, values: Iterable[str], confidence: float = 0.95, *, cluster: str = "", unclear: str = ""
) -> Callable[[pd.DataFrame], Iterator[Row]]:
    """Return an estimator with one row per value of a column: the value, and the columns of :func:`share`.

    The share of the value ``unclear`` is among all rows; that of any other value is among the rows without ``unclear``.
    """

    def estimate(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
        check_columns(rows, [column])
        clear_rows = rows[rows[column] != unclear] if unclear else rows
        for value in values:
            base = rows if value == unclear else clear_rows
            yield {column: value} | share(column, value, confidence, cluster=cluster)(base)

    return estimate


def mean(column: str, confidence: float = 0.95, *, cluster: str = "") -> Callable[[pd.DataFrame], Row]:
    """Return an estimator of the mean of a column; missing values are excluded.

    Its columns are value, ci_low, ci_high (in the column's unit) and n (values). ``cluster`` is a column such as the
    image of each row. With it, the sampling unit is the cluster, and the column ``n_images`` is the number of clusters.
    Without it, the interval is Student's t over rows (:func:`biaslab.stats.mean_interval`).
    """

    def estimate(rows: pd.DataFrame) -> dict[str, Any]:
        check_columns(rows, filter(None, (column, cluster)))
        values = rows[column].astype(float)
        clusters = rows[cluster].astype(str) if cluster else None
        columns = mean_interval(values, confidence, skip_nan=True, clusters=clusters)._asdict()
        return columns | {"n_images": rows.loc[values.notna(), cluster].nunique()} if cluster else columns

    return estimate
