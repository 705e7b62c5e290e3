"""What a run would take on many devices, reckoned from what images and pieces of the store take here.

Workers take pieces of :data:`~biaslab.generation.images.SHARD` images. One kind of image is made after the other, so
that at the end of each some workers have nothing to do. A piece is written to the store by its worker and handed out by
one process, which each take a little: these times tell from how many workers on one of them is what is waited for.
``benchmarks/scheduling.py`` holds this against the engine's own loop with a model of a set rate.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.generation.images import SHARD
from biaslab.ground.errors import ParameterError
from biaslab.ground.wording import duration, megabytes
from biaslab.keep.engine import LocalEngine
from biaslab.keep.store import Store
from biaslab.pipeline.asked import Asked, Cost

if TYPE_CHECKING:
    import pandas as pd

# How many pieces are written, and how many empty ones handed out, to find out what that takes.
_WRITTEN, _HANDED = 8, 64
_GIVEN = re.compile(r"gpus=(\d+)(?:,seconds=(\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Devices:
    """So many devices of a kind."""

    n: int
    seconds: float | None = None  # What an image takes on one; None is as long as here.


@dataclass(frozen=True)
class Overhead:
    """What a piece takes beside its images, in seconds."""

    store: float  # To be written: file, checksum, lock.
    handing: float  # To be handed out and answered for, by the one process that does it for all.


@dataclass(frozen=True)
class Plan:
    """What many devices take for a run."""

    seconds: float
    pieces: int
    busy: float  # The share of the devices' time that goes into images, 0–1.
    store_at: float  # With how many workers the store is written to all the time.
    handing_at: float  # With how many workers the process that hands out pieces does nothing else.


def devices(given: str) -> Devices:
    """Return what ``gpus=64`` or ``gpus=64,seconds=0.2`` (an image, on one) says; a ParameterError for all else."""
    found = _GIVEN.fullmatch(given.replace(" ", ""))
    if found is None or not int(found[1]) or (found[2] and not float(found[2])):
        raise ParameterError(
            f"--plan is {given!r}; give a number of devices, such as gpus=64, or also the seconds that an image takes "
            "on one of them, such as gpus=64,seconds=0.2."
        )
    return Devices(int(found[1]), float(found[2]) if found[2] else None)


def plan(found: Iterable[Asked], measured: dict[tuple, Cost], on: Devices, overhead: Overhead) -> Plan:
    """Return what a run takes on devices; images of endpoints, of which nothing is ``measured``, are made elsewhere."""
    total = work = longest = 0.0
    pieces = 0
    for one in found:
        each = measured.get(one.alike)
        if each is None or one.left <= 0:
            continue
        seconds, n = on.seconds or each.seconds, math.ceil(one.left / SHARD)
        # The last piece of a kind may be a smaller one, which ends sooner where nothing else is to be done.
        piece = min(one.left, SHARD) * seconds + overhead.store
        total += max(math.ceil(n / on.n) * piece, n * overhead.store, n * overhead.handing)
        work, pieces, longest = work + one.left * seconds, pieces + n, max(longest, SHARD * seconds)
    return Plan(
        seconds=total,
        pieces=pieces,
        busy=work / (on.n * total) if total else 0.0,
        store_at=(longest + overhead.store) / overhead.store,
        handing_at=(longest + overhead.store) / overhead.handing,
    )


def overhead(root: Path, size: float) -> Overhead:
    """Return what a piece of ``size`` bytes takes to be written below ``root``, and to be handed out here."""
    import pandas as pd

    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        here = Store(folder).stage("written", {}, partial(_bytes, max(1, int(size))))
        away = Store(folder, engine=LocalEngine(1)).stage("handed", {}, partial(_bytes, 1))
        # What is looked up once, and the worker's start, come before the clock.
        for stage in (here, away):
            next(stage.compute_iter(pd.DataFrame({"piece": [-2, -1]}), shard_rows=1, progress=False))
        rows = pd.DataFrame({"piece": range(_HANDED)})
        began = time.perf_counter()
        next(here.compute_iter(rows[:_WRITTEN], shard_rows=1, progress=False))
        written = (time.perf_counter() - began) / _WRITTEN
        began = time.thread_time()
        next(away.compute_iter(rows, shard_rows=1, progress=False))
        return Overhead(written, (time.thread_time() - began) / _HANDED)


def _bytes(n: int, piece: pd.DataFrame) -> pd.DataFrame:
    """Return a piece with so many bytes."""
    return piece.assign(file=[os.urandom(n)])


def said(found: list[Asked], measured: dict[tuple, Cost], on: Devices) -> str:
    """Return in words, for a terminal, what a run takes on devices."""
    here = [(one, each) for one in found if (each := measured.get(one.alike)) is not None]
    if not here:
        return f"On {on.n} devices: nothing is left for them to make."
    size = SHARD * max(each.bytes for _, each in here)
    taken = overhead(here[0][0].pipeline.store.root, size)
    whole = plan(found, measured, on, taken)
    rate = f"at {on.seconds:g} s an image" if on.seconds else "each as fast as the device here"
    return "\n".join(
        [
            f"On {on.n} devices, {rate}: {duration(whole.seconds)} to make them; {whole.busy:.0%} of the devices' time "
            "goes into images, the rest into waiting for the last pieces of each kind",
            f"Pieces: {whole.pieces:,} of up to {SHARD} images and {megabytes(size)}; one takes "
            f"{taken.store * 1e3:.1f} ms to write to this store and {taken.handing * 1e3:.2f} ms to hand out",
            f"Limits: the store, written to as here, is what is waited for from {whole.store_at:,.0f} workers on, the "
            f"process that hands out pieces from {whole.handing_at:,.0f}",
        ]
    )
