"""What a run will make, known before it starts: images by paper and model, hours, disk and price.

Counts come from the prompts that the stages themselves ask, hours and disk from a handful of images made for it with
the models of the run.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.keep.store import Store, UnfinishedError
from biaslab.pipeline import uses
from biaslab.pipeline.people import ROUND
from biaslab.runs import runner

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.generation import GeneratedImages
    from biaslab.generation.models import ImageModel, Ready
    from biaslab.pipeline import Pipeline
    from biaslab.runs.params import RunParams

# A corpus of so many captions is searched for the plan; of a larger one, what settings allow is the most that it asks.
SEARCHED = 50_000
# The share of a store's work that has none of it.
_NOTHING = (10**9 - 1, 10**9)
# Seconds that images of one kind are timed for, about; images that are timed together at most; and the share of images
# that are left to be made after which nobody waits for a better estimate.
TIMED, MOST, ENOUGH = 1.5, 64, 0.1
# Denoising steps that are made of an image, twice, to find out; and how often images of one number are.
_STEPS, _ROUNDS = (2, 4), 3


@dataclass(frozen=True)
class Asked:
    """Images of one kind that a run asks of one model."""

    paper: str  # The paper that first asks for them.
    model: str  # What tables call the model.
    kind: str  # What is asked for, as the stages call it.
    images: int  # How many.
    there: int  # How many of them are there and need not be made.
    at_most: bool  # Whether fewer may be asked, which only a search of all captions would tell.
    prompts: pd.DataFrame  # What is asked, or texts like it.
    made_by: ImageModel  # The model with the settings for this kind.
    kept_as: type[GeneratedImages] | None  # As what its images are kept.
    pipeline: Pipeline  # The pipeline whose store and seed are used.
    of: str = "captions"  # What its prompts ask for, as :meth:`Pipeline.image_model` has it.
    several: bool = False  # Whether they ask for several people.

    @property
    def left(self) -> int:
        """How many are left to be made."""
        return self.images - self.there

    @property
    def price(self) -> float | None:
        """What an image costs at an endpoint; None of a model that runs here."""
        return getattr(self.made_by, "price", None)

    @property
    def alike(self) -> tuple:
        """The same for all whose images take alike: the model, its settings and as what images are kept."""
        return self.made_by.alike, self.kept_as


@dataclass(frozen=True)
class Cost:
    """What an image of a model takes here."""

    seconds: float  # At the quickest.
    bytes: float  # In the store.
    images: int  # How many were made to find out.
    slowest: float = 0.0  # Seconds at the slowest; what else the machine does makes them longer.

    @property
    def longest(self) -> float:
        """Seconds at the slowest."""
        return max(self.seconds, self.slowest)


def asked(params: RunParams, opened: Iterable[runner.Opened] | None = None) -> list[Asked]:
    """Return the images that a run asks for, by kind and model; nothing is made.

    ``opened`` are the pipelines of the run (:func:`biaslab.runs.runner.pipelines`), where these are known.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used.
    """
    import pandas as pd

    found: dict[tuple, Asked] = {}
    for own in runner.pipelines(params, progress=False) if opened is None else opened:
        pipeline = own.pipeline
        some = [asks for one in (pipeline, *pipeline.others) for asks in of_tables(one, own.tables)]
        for notebook in sorted(own.notebooks):
            for more in runner.work(notebook, pipeline):
                paper = notebook.split("/")[0]
                some += [_of_captions(one, paper, "generated") for one in more.generators]
        for asks in some:
            # Whoever asks for the same images, they are made once.
            texts = pd.util.hash_pandas_object(asks.prompts[["prompt_id", "text", "n_images"]], index=False)
            same = asks.images, int(texts.sum()), asks.pipeline.seed, asks.pipeline.store.root
            found.setdefault((asks.model, *asks.alike, *same), asks)
    return list(found.values())


def of_tables(pipeline: Pipeline, names: Iterable[str]) -> Iterator[Asked]:
    """Yield the images of a pipeline's own model that measured tables take, by the tables' names."""
    names, s = set(names), pipeline.settings
    for kind in pipeline.kinds if pipeline.has_images else ():
        if names & (uses.of_templates(pipeline) if kind == "generated" else uses.OF_AS_PROMPTS):
            yield _of_captions(pipeline, "paradox", kind)
    if names & uses.OF_CAPTIONED:
        if s.dalleval.captions:
            yield _asked(pipeline, "dalleval", "captioned", pipeline.dalleval.caption_prompts())
        else:
            yield _of_captions(pipeline, "dalleval", "caption_prompts")
    yield from _of_people(pipeline, _kinds_of_people(pipeline, names))
    rated = {"dalleval_skill_ratings"} if s.dalleval.ratings else set()
    for kind, of in (("skills", uses.OF_SKILLS | rated), ("social", uses.OF_SOCIAL)):
        if names & of:
            yield _asked(pipeline, "dalleval", kind, pipeline.dalleval.prompts(kind), of="dalleval")
    if names & (uses.OF_TRIPLETS | ({"triplets_detections"} if s.triplets.ratings else set())):
        yield _of_triplets(pipeline)


def _kinds_of_people(pipeline: Pipeline, names: set[str]) -> list[str]:
    """Return the kinds of images of people that tables take: all, those that judges or the critic look at, or none."""
    kinds = pipeline.people.kinds
    if names & uses.OF_EVERYONE:
        return list(kinds)
    wanted = {"single", "paired"} if "paired_judge_agreement" in names else set()
    if names & {"paired_critiques", "paired_prompts"}:
        # The last round's images are made by its critique, and those of the intervention chosen by those of pairs.
        wanted |= {"paired", *[kind for kind in kinds if kind.startswith(ROUND)][:-1]}
    return [kind for kind in kinds if kind in wanted]


def _asked(
    pipeline: Pipeline,
    paper: str,
    kind: str,
    prompts: pd.DataFrame,
    *,
    of: str = "captions",
    known: bool = True,
    at_most: int | None = None,
    kept_as: type[GeneratedImages] | None = None,
) -> Asked:
    """Return what is asked; which images are there can be told only where the very texts are ``known``."""
    several = of == "people" and kind != "single"
    made_by = pipeline.image_model(of, several=several)
    n, there = int(prompts["n_images"].sum()) if at_most is None else at_most, 0
    if known and at_most is None:
        there = made_by.n_there(prompts, seed=pipeline.seed, store=pipeline.store, kept_as=kept_as)
    what = paper, pipeline.label, kind, n, there, at_most is not None, prompts
    return Asked(*what, made_by, kept_as, pipeline, of, several)


def _of_people(pipeline: Pipeline, kinds: list[str]) -> Iterator[Asked]:
    """Yield images of people; texts that depend on what judges said are the very ones where all of that is kept."""
    complete = True
    for kind in kinds:
        depends, texts = pipeline.people.depends(kind), None
        # A critic at an endpoint is not asked to find out.
        if depends and complete and pipeline.settings.critic.kind == "counts":
            texts = _kept_texts(pipeline, kind)
        known = not depends or texts is not None
        texts = pipeline.people.foreseen(kind) if texts is None else texts
        yield (one := _asked(pipeline, "paired", kind, texts, of="people", known=known))
        complete = complete and one.there == one.images


def _kept_texts(pipeline: Pipeline, kind: str) -> pd.DataFrame | None:
    """Return the texts of a kind by what the store has, None where something is missing; nothing is computed."""
    looks = pipeline.changed()
    looks.store = Store(pipeline.store.root, share=_NOTHING)
    try:
        return looks.people.prompts(kind).texts
    except UnfinishedError:
        return None


def _is_small(pipeline: Pipeline) -> bool:
    # Captions that are written as they are read cost next to nothing, however many there are.
    rows = pipeline.settings.captions.rows
    return not pipeline.has_captions or 0 < rows <= SEARCHED or pipeline.corpus.written


def _of_captions(pipeline: Pipeline, paper: str, kind: str) -> Asked:
    if kind == "generated" or _is_small(pipeline):
        return _asked(pipeline, paper, kind, pipeline.texts(kind))
    s = pipeline.settings.generation
    most = len(pipeline.occupations) * s.caption_prompts_per_occupation * s.images_per_caption
    return _asked(pipeline, paper, kind, pipeline.texts(), at_most=most)


def _of_triplets(pipeline: Pipeline) -> Asked:
    s = pipeline.settings.triplets
    if not s.triplets or _is_small(pipeline):
        prompts, kept_as = pipeline.triplets.texts()
        return _asked(pipeline, "triplets", "triplets", prompts, of="triplets", kept_as=kept_as)
    most = (3 + s.placebo) * (s.triplets * s.seeds + s.one_triplet)
    if s.professions:
        most += int(pipeline.triplets.professions()["n_images"].sum())
    return _asked(pipeline, "triplets", "triplets", pipeline.texts(), of="triplets", at_most=most)


def cost(one: Asked, left: int = 10**9, ready: Ready | None = None) -> Cost:
    """Return what an image takes here, from some that are made for it and thrown away; of few ``left``, fewer are made.

    Of a model that denoises, a few steps are made of each: two numbers of them tell what a step takes, and what comes
    beside. Noise that was left in is no smaller as a file, so that bytes are rather too many. ``ready`` is the model,
    where it is loaded.

    Raises:
        ParameterError: The model cannot be loaded.
        RunError: It gives numbers that are not finite, or does not fit in memory.
    """
    ready = ready or one.made_by.ready()
    # Prompts that share noise are asked together.
    groups = one.prompts["noise_id" if "noise_id" in one.prompts else "prompt_id"]
    few, many = _STEPS
    n, spent, found = 1, 0.0, []
    while True:
        some = one.prompts[groups.isin(groups.unique()[:n])].assign(n_images=1)
        if ready.take is not None and ready.steps > many:
            ready.take(few)
            first, _ = _made(one, ready, some)
            ready.take(many)
            took, kept = _made(one, ready, some)
            step = max(took - first, 0.0) / (many - few)
            seconds, took = took + (ready.steps - many) * step, took + first
        else:
            took, kept = _made(one, ready, some)
            seconds = took
        spent += took
        found.append((len(some), seconds / len(some), kept / len(some)))
        filled = n > 1 and (took > TIMED / 4 or len(some) >= MOST)
        rounds = sum(made == len(some) for made, *_ in found)
        enough = sum(made for made, *_ in found) >= ENOUGH * left
        if (filled and rounds >= _ROUNDS) or spent > 4 * TIMED or n >= groups.nunique() or enough:
            break
        n *= 1 if filled else 4
    # The first ones take what is prepared as well, and few at a time are slower than many.
    last = [seconds for made, seconds, _ in found if made == found[-1][0]]
    total = sum(made for made, *_ in found)
    return Cost(min(last), found[-1][2], total, slowest=max(last))


def _made(one: Asked, ready: Ready, prompts: pd.DataFrame) -> tuple[float, int]:
    """Return the seconds that images of prompts took, and their bytes in a store."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        how = {"seed": one.pipeline.seed, "progress": False, "kept_as": one.kept_as}
        made = ready.generate(prompts, store=Store(folder), **how)
        made.read(list(made.table["image_id"]))
        took = time.perf_counter() - began
        return took, sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


def to_time(found: Iterable[Asked]) -> dict[tuple, tuple[Asked, int]]:
    """Return what is to be timed, by :attr:`Asked.alike`: one of each, and how many images are left of all alike.

    Of what is left to be made, and here: none is bought to find out.
    """
    alike: dict[tuple, list[Asked]] = {}
    for one in found:
        if one.left > 0 and one.price is None:
            alike.setdefault(one.alike, []).append(one)
    return {key: (some[0], sum(one.left for one in some)) for key, some in alike.items()}


def said(found: list[Asked], measured: Mapping[tuple, Cost]) -> str:
    """Return the plan of a run in words, for a terminal: what is asked, and what it takes where that was measured."""
    import pandas as pd

    if not found:
        return "This run makes no images."
    rows = []
    for one in found:
        of = measured.get(one.alike, Cost(0.0, 0.0, 0))
        told = (one.paper, one.model, one.images, one.there, one.at_most, one.left)
        rows.append((*told, one.left * of.seconds, one.left * of.longest, one.left * of.bytes))
    names = ["paper", "model", "images", "there", "at_most", "left", "seconds", "longest", "bytes"]
    rows = pd.DataFrame(rows, columns=names)
    total, there = rows["images"].sum(), rows["there"].sum()
    lines = [f"Images: {_most(rows)}{total:,}" + (f", {there:,} already there" if there else "")]
    for (paper, model), of in rows.groupby(["paper", "model"], sort=False):
        kept = f", {of['there'].sum():,} already there" if of["there"].any() else ""
        each = (
            [of[name].sum() / of["left"].sum() for name in ("seconds", "longest")]
            if of["left"].any()
            else [0]
        )
        each = f"{between(*each, '{:.2g}'):>18} s each" if each[0] else ""
        lines.append(f"  {paper:<10}{model:<32}{_most(of)}{of['images'].sum():>9,}{each}{kept}")
    if measured:
        n = sum(of.images for of in measured.values())
        time_here = durations(rows["seconds"].sum(), rows["longest"].sum())
        lines.append(
            f"Time here: {time_here} to make them, as {n} took that were made in part to find out; judging them comes "
            "on top"
        )
    lines += _disk(found, float(rows["bytes"].sum())) if measured else []
    by_model: dict[str, list[Asked]] = {}
    for one in found:
        if one.price is not None:
            by_model.setdefault(one.model, []).append(one)
    for model, of in by_model.items():
        left, each, limit = sum(one.left for one in of), of[0].price, of[0].made_by.cost_limit
        short = f", more than endpoint.cost_limit, {limit:g}, lets it buy" if left * each > limit else ""
        lines.append(f"Price: {model} {left:,} x {each:g} = {left * each:,.2f}{short}")
    return "\n".join(lines)


def _disk(found: list[Asked], size: float) -> list[str]:
    root = found[0].pipeline.store.root
    free = shutil.disk_usage(next(path for path in (root, *root.parents) if path.exists())).free
    room = "" if size < free else f", and only {bytes_in_words(free)} are free"
    return [f"Disk: {bytes_in_words(size)}{room}"]


def between(low: float, high: float, how: str | Callable[[float], str]) -> str:
    """Return two numbers in words, one where they are told alike."""
    each = [how.format(v) if isinstance(how, str) else how(v) for v in (low, high)]
    return " to ".join(dict.fromkeys(each))


def _most(rows: pd.DataFrame) -> str:
    return "at most " if rows["at_most"].any() else ""


def duration(seconds: float) -> str:
    """Return a time in words."""
    hours = f"{seconds / 3600:.2g} hours"
    return hours if seconds > 7200 else f"{hours} ({seconds / 60:.1f} minutes)"


def durations(low: float, high: float) -> str:
    """Return the time between two times in words."""
    unit, size = ("hours", 3600) if high > 7200 else ("minutes", 60)
    return f"{between(low / size, high / size, '{:.2g}')} {unit}"


def bytes_in_words(n: float) -> str:
    """Return a size in words."""
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"
