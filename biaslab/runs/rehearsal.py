"""The rehearsal of a run: every model and judge that it uses answers on one picture before an image is made or bought.

Names were looked up before (:mod:`biaslab.pipeline.checks`). Here weights are fetched, each model is loaded once and
asked about a picture, and what fails is told together; at an endpoint one image is bought after that, and looked at by
all judges. All of it happens in a process of its own, which gives all memory back.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.generation.models import ENDPOINT
from biaslab.ground import processor
from biaslab.ground.errors import ParameterError
from biaslab.judging import kinds
from biaslab.judging.names import VQA
from biaslab.models import registry
from biaslab.models.repositories import Located
from biaslab.pipeline import checks, uses
from biaslab.runs import kernels, planning, runner, trials
from biaslab.runs.planning import Asked, Cost
from biaslab.runs.trials import Trial, Tried

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline
    from biaslab.runs.params import RunParams


@dataclass(frozen=True)
class Part:
    """A model that a run uses, and what is known of it."""

    trial: Trial
    located: tuple[Located, ...] = ()
    tried: Tried | None = None
    """None where it was not tried: its weights are not here, and not to be fetched."""
    words: str = ""
    """By which settings it makes images, of what makes some."""

    @property
    def here(self) -> bool:
        """Whether nothing is to be fetched."""
        return not any(located.missing for located in self.located)


@dataclass(frozen=True)
class Rehearsal:
    """What a run uses, and what became of its trial."""

    asked: list[Asked]
    parts: list[Part]
    measured: Mapping[tuple, Cost] = field(default_factory=dict)
    """What an image takes, by :attr:`biaslab.runs.planning.Asked.alike`, of what was tried."""
    left_out: Sequence[str] = ()
    """What the run does without, in sentences."""


def rehearse(
    params: RunParams,
    *,
    fetch: bool = True,
    buy: bool = True,
    always: bool = False,
    time: bool = False,
    say: Callable[[str], object] | None = None,
) -> Rehearsal:
    """Try what a run uses; raise where something does not answer.

    Args:
        params: The run.
        fetch: Whether weights that are not here are fetched; else their models are not tried.
        buy: Whether the first image of each model at an endpoint is bought.
        always: Whether it is tried where all images are there as well.
        time: Whether it is found out what images take, of all kinds.
        say: Is told what is done, where that takes long.

    Returns:
        What the run uses; nothing is tried where all images are there, or another process of this run has done so.

    Raises:
        ParameterError: Something does not answer, or an input cannot be used: all of it in one message.
    """
    jobs = runner.plan(params, Path("unused"))
    without = runner.left_out(jobs)
    for text in without if say else ():
        say(text)
    opened = runner.pipelines(params, jobs=jobs, progress=False)
    asked = planning.asked(params, opened)
    of = [(one, one_of.tables) for one_of in opened for one in (one_of.pipeline, *one_of.pipeline.others)]
    found = _rehearsed(asked, of, fetch=fetch, buy=buy, always=always, time=time, say=say)
    return replace(found, left_out=without)


def before(pipeline: Pipeline, table: str) -> None:
    """Rehearse what a measured table takes of a pipeline, before it is measured outside of a run.

    Raises as :func:`rehearse`.
    """
    if os.environ.get(runner.REHEARSED):
        return
    asked = list(planning.of_tables(pipeline, [table]))
    if not any(one.left > 0 for one in asked):
        return
    made = [trials.of_asked(one) for one in asked if one.left > 0]
    judged = [
        Trial(use, pipeline.model, pipeline.settings, pipeline.seed)
        for use in uses.of_tables(pipeline, {table})
        if use.setting != "model"
    ]
    # Nothing is looked up again that has answered here.
    if _answered.issuperset(map(_known, [*made, *judged])):
        return
    if problems := checks.check_models(pipeline.model, pipeline.settings, {table}):
        raise uses.together(problems)
    _rehearsed(asked, [(pipeline, {table})])


# The trials that this process has seen answer.
_answered: set[str] = set()


def _rehearsed(
    asked: list[Asked],
    of: Iterable[tuple[Pipeline, set[str]]],
    *,
    fetch: bool = True,
    buy: bool = True,
    always: bool = False,
    time: bool = False,
    say: Callable[[str], object] | None = None,
) -> Rehearsal:
    left = [one for one in asked if one.left > 0]
    done = bool(os.environ.get(runner.REHEARSED))
    if not always and (done or not left):
        return Rehearsal(asked, [])
    # What a model cannot do is said before it is fetched; how strong guidance is does not matter for that.
    for one in {one.made_by.alike: one for one in left}.values():
        one.made_by.look_up()
    timed = planning.to_time(asked)
    if not time:
        # Each model once, and one image of it.
        once = {(one.model, one.of, one.kept_as): key for key, (one, _) in reversed(timed.items())}
        timed = {key: (timed[key][0], 1) for key in once.values()}
    parts = _parts(of)
    # One model after the other, so that each is loaded once for all that it makes.
    of_key = {}
    for key, (one, n) in sorted(timed.items(), key=lambda item: item[1][0].made_by.alike):
        located = tuple(one.made_by.look_up())
        of_key[key] = Part(trials.of_asked(one, n), located, words=one.made_by.in_words())
        parts.append(of_key[key])
    purchases = {one.model: Part(trials.of_asked(one)) for one in reversed(left) if one.price is not None}
    todo: dict[str, Part] = {}
    for part in parts if not done else ():
        # What workers of a cluster have, this machine may not.
        compute = part.trial.settings.compute
        if compute.engine == "ray" and (compute.address or os.environ.get("RAY_ADDRESS")):
            continue
        if (fetch or part.here) and (time or _known(part.trial) not in _answered):
            todo.setdefault(_known(part.trial), part)
    bought = [part.trial for part in purchases.values()] if buy and not done else []
    bought = [trial for trial in bought if _known(trial) not in _answered]
    results: dict[str, Tried] = {}
    if todo or bought:
        _check_disk(todo.values())
        if say:
            say(_under_way(todo.values(), bought))
        found = _perform([part.trial for part in todo.values()], bought, progress=say is not None)
        results = dict(zip(todo, found, strict=True))
        if problems := [tried.problem for tried in found if tried.problem]:
            raise uses.together(problems)
        # What a model has done once, it does for all that is asked of it.
        _answered.update((*todo, *(_known(trials.of_asked(one)) for one in left)))
    costs = {
        key: tried.cost for key, p in of_key.items() if (tried := results.get(_known(p.trial))) and tried.cost
    }
    parts = [replace(part, tried=results.get(_known(part.trial))) for part in (*parts, *purchases.values())]
    return Rehearsal(asked, parts, costs)


def _to_fetch(parts: Iterable[Part]) -> int:
    """Return how many bytes models are that are not here, each of them once."""
    return sum({at.repository.name: at.download for part in parts for at in part.located}.values())


def _free() -> tuple[int, Path]:
    """Return how many bytes are free where models are fetched to, and where that is."""
    cache = registry.cached("").parent
    return shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free, cache


def _check_disk(parts: Iterable[Part]) -> None:
    """Refuse to fetch what the disk does not hold."""
    if not (size := _to_fetch(parts)):
        return
    free, cache = _free()
    if size > free:
        raise ParameterError(
            f"{planning.bytes_in_words(size)} of weights are to be fetched to {cache}, where "
            f"{planning.bytes_in_words(free)} are free. Free some space, or set HF_HOME to a folder on a larger disk."
        )


def _parts(of: Iterable[tuple[Pipeline, set[str]]]) -> list[Part]:
    """Return the judges that pipelines take for measured tables, with their files."""
    found: dict[tuple, Part] = {}
    for pipeline, tables in of:
        for use in uses.of_tables(pipeline, tables):
            trial = Trial(use, pipeline.model, pipeline.settings, pipeline.seed)
            if use.setting != "model" and (use.setting, _known(trial)) not in found:
                found[use.setting, _known(trial)] = Part(trial, tuple(uses.look_up(use, pipeline)))
    return list(found.values())


def _known(trial: Trial) -> str:
    """Return what makes trials the same: the model, and what it is given."""
    use, s = trial.use, trial.settings
    if trial.images:
        return repr(
            (trial.asked.made_by.alike, trial.images.kept_as, s.people.image_size, s.endpoint, trial.seed)
        )
    # Who answers questions, or judges gender, is asked alike by whatever setting.
    asks = (
        "vqa" if use.kind == "vqa" or use.name.startswith(VQA) else use.setting.replace("further", "gender")
    )
    given = (
        s.judging.changed(gender="", further=()),
        s.compute.device,
        s.triplets.thresholds,
        s.triplets.vocabulary,
    )
    return repr((asks, use.name.removeprefix(VQA), use.by, given))


def _perform(todo: list[Trial], purchases: list[Trial], *, progress: bool) -> list[Tried]:
    """Return what becomes of trials, in a process of their own; ParameterError where that was killed at one."""
    from tqdm import tqdm

    environment = {**runner.environment(), runner.REHEARSED: "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        kernels.Processes(environment, runner.read_libraries, runner.MODEL_MODULES) as processes,
        ThreadPoolExecutor(1) as pool,
        tqdm(total=len(todo), unit="model", desc="Rehearsal", disable=not progress, file=sys.stderr) as bar,
    ):
        log, under_way = Path(folder, "log"), Path(folder, "under_way")
        coming = pool.submit(processes.call, log, trials.perform, todo, purchases, under_way)
        told = None
        try:
            while not coming.done():
                wait([coming], timeout=1)
                if (now := (_number(under_way), _shown(todo, _number(under_way), log))) != told:
                    bar.n, told = now[0], now
                    bar.set_postfix_str(now[1])
            found = coming.result()
        except EOFError:
            of = (todo or purchases)[min(_number(under_way), len(todo or purchases) - 1)]
            said = f"{of.use.setting} is {of.use.name!r}: its process was killed, likely because "
            raise ParameterError(said + trials.too_large(of)) from None
        except BaseException:
            processes.kill()
            raise
        bar.n = len(todo)
        bar.set_postfix_str("")
        return found


def _number(under_way: Path) -> int:
    """Return the number of the trial that is made."""
    try:
        return int(under_way.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _shown(todo: list[Trial], number: int, log: Path) -> str:
    """Return which trial is made, and the end of what is said meanwhile, such as how much was fetched."""
    name = todo[number].use.name if number < len(todo) else ""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").split("\n")
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{name} {last:.60}".strip()


def _under_way(parts: Collection[Part], purchases: list[Trial]) -> str:
    """Return what is about to be done, in words."""
    size = _to_fetch(parts)
    fetched = f", after {planning.bytes_in_words(size)} of weights are fetched" if size else ""
    bought = f"; then one image of {' and '.join(t.model for t in purchases)} is bought" if purchases else ""
    return f"Rehearsal: {len(parts)} models are tried on one picture{fetched}{bought}."


# -- in words ----------------------------------------------------------------------------------------------


def said(found: Rehearsal) -> str:
    """Return what a run uses and will make, for a terminal: a table of its models, then :func:`planning.said`."""
    told = "\n".join([*found.left_out, planning.said(found.asked, found.measured)])
    if not found.parts:
        return told
    same: dict[tuple, list[Part]] = {}
    for part in found.parts:
        same.setdefault((part.trial.use.setting, part.trial.use.name), []).append(part)
    rows = [_COLUMNS, *(_row(parts) for parts in same.values())]
    notes = list(dict.fromkeys(r for part in found.parts for at in part.located for r in at.remarks))
    if size := _to_fetch(found.parts):
        free, cache = _free()
        notes.append(
            f"Download: {planning.bytes_in_words(size)} to {cache}, where {planning.bytes_in_words(free)} are free. "
            "What is not here was looked up and not tried; --fetch fetches it and tries it, too."
        )
    where = {part.tried.device for part in found.parts if part.tried} or {"cpu"}
    for device in sorted(where):
        free, whole = processor.memory(device)
        notes.append(
            f"Memory here ({device}): {planning.bytes_in_words(free)} of {planning.bytes_in_words(whole)} free."
        )
    # By which settings each makes images; of one size or several.
    notes += dict.fromkeys(f"{part.trial.use.name}: {part.words}." for part in found.parts if part.words)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *notes, told])


_COLUMNS = ("what", "name", "commit", "download", "memory", "seconds an image", "price", "pictures")
_NONE = "-"


def _row(parts: list[Part]) -> tuple[str, ...]:
    """Return what is known of a model in one setting; of what makes images of several kinds, of all of them."""
    (use, s), located = (parts[0].trial.use, parts[0].trial.settings), [at for p in parts for at in p.located]
    # A model's own first, then of what it is made of.
    commits = list(dict.fromkeys(at.repository.commit[:8] for at in located if at.repository.commit))
    # The same files may be looked up for several uses.
    whole = {at.repository.name: at for at in located}.values()
    size, weights = sum(at.download for at in whole), sum(at.size for at in whole)
    memory = f"at least {planning.bytes_in_words(weights)}" if weights else _NONE
    price = pictures = seconds = _NONE
    tried = [part.tried for part in parts if part.tried is not None]
    if tried:
        memory = planning.bytes_in_words(max(weights, *(one.memory for one in tried)))
    if costs := [one.cost for one in tried if one.cost]:
        limits = min(cost.seconds for cost in costs), max(cost.longest for cost in costs)
        seconds = planning.between(*limits, "{:.2g}")
    if parts[0].trial.images:
        made_by = parts[0].trial.asked.made_by
        pictures = made_by.pictures
        price = (
            _NONE
            if s.endpoint.price is None or not use.name.startswith(ENDPOINT)
            else f"{s.endpoint.price:g}"
        )
    elif use.pictures:
        pictures = kinds.knows(use.name, "vqa" if use.name.startswith(VQA) else use.kind)
    there = "here" if all(part.here for part in parts) else "size not told"
    fetched = planning.bytes_in_words(size) if size else there if whole else _NONE
    return (use.setting, use.name, ", ".join(commits) or _NONE, fetched, memory, seconds, price, pictures)
