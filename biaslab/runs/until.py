"""Images in batches, before a run, until intervals of shares by group and of their mean are narrow enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from biaslab.ground import tables
from biaslab.ground.errors import InputError, ParameterError, RunError
from biaslab.ground.genders import GENDERS
from biaslab.ground.tables import Rounds
from biaslab.runs import jobs, planning
from biaslab.runs.params import RunParams
from biaslab.stats import confidence_sequence
from biaslab.study import sources

ALL = "all"
"""What the mean over groups is called."""
# At most so many times the images of a fixed number are made: at a share of 50 %, 1.6 times as many people are needed,
# and hardly ever more than 2 times (benchmarks/coverage_until.py); and not all are judged.
_TIMES = 3
# By what a batch multiplies the images a prompt, at least and at most.
_GROWTH = 1.1, 1.5
_FOLDED = (
    "Images were made until intervals were ±{points:g} points, and those hold their level whenever one stops. All "
    "others on this page, as of distances, deviations and differences, are ordinary ones that do not know of it."
)


def target(text: str) -> float:
    """Return what ``--until`` aims at, half the width of intervals in points; a ParameterError where it is none."""
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not 0.5 <= points <= 30:
        raise ParameterError(
            f"--until is {text!r}; it must be half the width of intervals in points, 0.5 to 30, such as 5."
        )
    return points


def at_most(params: RunParams, points: float) -> tuple[RunParams, str]:
    """Return a run that asks for as many images a prompt as are made at most, and what to say of that.

    Raises:
        ParameterError: Pictures are there already, several designs are swept, the number is set besides, or no notebook
            is executed whose images can be made in rounds.
        InputError: A prompt says itself how many images it has.
    """
    if params.sweep:
        raise ParameterError(f"--until is of one run: give one value of {', '.join(params.sweep)}.")
    opened = jobs.pipelines(jobs.plan(params))
    if any(one.custom.folder for own in opened for one in (own.pipeline, *own.pipeline.others)):
        raise ParameterError("--until makes images, and of pictures that are there no more can be made: leave it out.")
    if not (each := _rounds(opened)):
        able = " or ".join(paper.title for paper in tables.papers().values() if paper.rounds)
        raise ParameterError(f"--until is of {able}: name prompts with --prompts, or such a --paper.")
    _, fixed, most = _numbers(params, points)
    for rounds in each:
        if rounds.setting in params.set_here:
            raise ParameterError(f"{rounds.setting} is set, and --until finds it: leave one of them out.")
        for one in _in_rounds(planning.asked(_at(opened, rounds, most)), rounds):
            if len(own := one.prompts[one.prompts["n_images"] != most]):
                raise InputError(
                    f"The prompt {own['text'].iloc[0]!r} says how many images it has, {own['n_images'].iloc[0]}, which "
                    "--until finds: leave the column n out of the file."
                )
        params = _changed(params, rounds, most)
    return params, (
        f"Images are made until all intervals are ±{points:g} points, or there are {most:,} a prompt, which is planned "
        f"here: {_TIMES} times the {fixed:,} that a fixed number would be for a share of 50 %."
    )


def made(params: RunParams, points: float, say: Callable[[str], object], **how: bool) -> RunParams:
    """Make and judge images in batches until intervals are ±``points``; return the run that asks for as many.

    ``params`` are as of :func:`at_most`, ``say`` hears a sentence a batch, ``how`` is for
    :func:`biaslab.runs.jobs.pipelines`. Where no more can be made, for their number, a limit of cost or an error after
    the first batch, the run asks for those of the last whole batch. Its ``until`` has ``points``, ``groups`` (rows of
    :func:`intervals`) and ``limits`` (sentences).

    Raises RunError: The first batch cannot be made or judged.
    """
    opened = jobs.pipelines(jobs.plan(params), **how)
    groups, limits = [], [_FOLDED.format(points=points)]
    for rounds in _rounds(opened):
        n, found, short = _batches(params, opened, rounds, points, say)
        params = _changed(params, rounds, n)
        groups += found
        if short:
            limits.append(f"Not all of these intervals became ±{points:g} points. {short}")
            say(limits[-1])
    return params.changed(until={"points": points, "groups": groups, "limits": limits})


def _batches(
    params: RunParams, opened: Sequence[jobs.Opened], rounds: Rounds, points: float, say: Callable
) -> tuple[int, list[dict[str, Any]], str]:
    """Return how many images a prompt were made, the intervals then, and where these are wider, why; else nothing."""
    confidence, _, most = _numbers(params, points)
    # Where all people are alike, intervals are the first to be narrow.
    low, high = confidence_sequence(np.zeros(most), points / 100, confidence)
    widest, done, found = "", 0, []
    n = int((high - low > points / 50 + 1e-9).sum()) + 1
    while True:
        n = min(n, most)
        # Of a limit that allows no image of each prompt, the endpoint says what it takes.
        n = max(_paid(_at(opened, rounds, n), rounds, n), 0 if done else 1)
        if n <= done:
            return done, found, f"The limit of cost ended them at {widest}"
        try:
            pipelines = [own.pipeline for own in _at(opened, rounds, n)]
            people = [sources.measured(rounds.table, source="pipeline", pipeline=one) for one in pipelines]
        except RunError as error:
            if not done:
                raise
            return done, found, f"{error} They ended at {widest}"
        done, found = n, intervals(pd.concat(people), rounds, points, confidence)
        last = max(found, key=lambda row: row["ci_high"] - row["ci_low"])
        half = (last["ci_high"] - last["ci_low"]) / 2
        widest = f"{n:,} images a prompt, with ±{half:.1f} points as the widest ({last['model']}, {last['group']})."
        say(f"Until ±{points:g} points: {widest}")
        if half <= points + 1e-9:
            return n, found, ""
        if n == most:
            return n, found, f"The most that are made are {widest}"
        n = math.ceil(n * np.clip((half / points) ** 2, *_GROWTH))


def intervals(people: pd.DataFrame, rounds: Rounds, points: float, confidence: float = 0.95) -> list[dict[str, Any]]:
    """Return shares perceived as female by model and group, and the mean over groups, with limits for whoever stops.

    An image counts as the share of women among its judged people; one of whom nobody is judged is no observation. The
    k-th observation of a group is the mean over its prompts of the k-th image of each that counts, that of the mean
    over groups the mean of their k-th: so prompts, and groups, count alike however many of their people are judged.
    Limits hold after all numbers of observations at once, so that groups may differ in theirs.

    ``people`` are rows of the table that ``rounds`` names, ``points`` half the width that is aimed at, ``confidence``
    that of the limits, 0–1.

    Returns:
        A row for each model and group, and for :data:`ALL` where there are several: model, group, percent_female (of
        all observations; None without any), ci_low, ci_high (:func:`biaslab.stats.confidence_sequence`, in percent), n
        (observations).
    """
    for column, value in rounds.only.items():
        people = people[people[column] == value]
    gender = next((name for name in rounds.gender if people[name].isin(GENDERS).any()), rounds.gender[0])
    female = people[gender].map({"female": 1.0, "male": 0.0}).astype(float)
    keys = [people[name] for name in ("model", rounds.group, "prompt", "image_id")]
    rows = []
    for model, images in female.groupby(keys, sort=False).mean().groupby(level=0, sort=False):
        prompts = images.groupby(level=[1, 2], sort=False)
        counted = pd.DataFrame({key: pd.Series(one.dropna().to_numpy()) for key, one in prompts}).T
        # A column at least, perhaps of no observation.
        groups = counted.reindex(columns=range(max(1, counted.shape[1]))).groupby(level=0, sort=False)
        values = groups.mean().where(groups.count().eq(groups.size(), axis=0))
        if len(values) > 1:
            values.loc[ALL] = values.mean(skipna=False)
        low, high = (100 * ends[:, -1] for ends in confidence_sequence(values.to_numpy(), points / 100, confidence))
        for k, (group, row) in enumerate(values.iterrows()):
            share = 100 * float(row.mean()) if (n := int(row.count())) else None
            limits = {"ci_low": round(float(low[k]), 1), "ci_high": round(float(high[k]), 1)}
            rows.append({"model": model, "group": group, "percent_female": share, **limits, "n": n})
    return rows


def _numbers(params: RunParams, points: float) -> tuple[float, int, int]:
    """Return confidence, what a fixed number is for such an interval of a share of 50 % (normal), and the most."""
    confidence = params.confidence
    fixed = math.ceil((50 * scipy_stats.norm.ppf((1 + confidence) / 2) / points) ** 2)
    return confidence, fixed, _TIMES * fixed


def _rounds(opened: Sequence[jobs.Opened]) -> list[Rounds]:
    """Return whose images, of those that pipelines make, can be made in rounds."""
    taken = set().union(*(own.tables for own in opened))
    return [paper.rounds for paper in tables.papers().values() if paper.rounds and paper.rounds.table in taken]


def _at(opened: Sequence[jobs.Opened], rounds: Rounds, n: int) -> list[jobs.Opened]:
    """Return pipelines that ask for ``n`` images of each prompt."""
    group, name = rounds.setting.split(".")
    return [own._replace(pipeline=own.pipeline.changed(**{group: {name: n}})) for own in opened]


def _changed(params: RunParams, rounds: Rounds, n: int) -> RunParams:
    """Return a run that asks for ``n`` images of each prompt."""
    group, name = rounds.setting.split(".")
    settings = params.values.get("settings") or {}
    settings = {**settings, group: {**(settings.get(group) or {}), name: n}}
    return params.changed(values={**params.values, "settings": settings})


def _in_rounds(asked: Sequence[planning.Asked], rounds: Rounds) -> list[planning.Asked]:
    """Return what of all that is asked of models can be made in rounds."""
    schema = tables.schema(rounds.table)
    return [one for one in asked if one.kind in schema.makes and one.paper == schema.paper]


def _paid(opened: Sequence[jobs.Opened], rounds: Rounds, n: int) -> int:
    """Return how many of ``n`` images a prompt a limit of cost lets be bought, beside all else that the run buys."""
    asked = planning.asked(opened)
    for one in _in_rounds(asked, rounds):
        room = one.made_by.left_to_buy(one.prompts, seed=one.pipeline.seed, store=one.pipeline.store)
        short = max(0, sum(other.left for other in asked if other.model == one.model) - room)
        n -= math.ceil(short / len(one.prompts))
    return n
