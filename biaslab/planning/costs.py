"""What an image of a model costs here: seconds and bytes, measured on a few."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.generation.models import Ready
from biaslab.planning.plan import ImageRequest

# Seconds that images of one kind are timed for, about; images that are timed together at most; and the share of those
# left to be made that is enough.
TIMING_SECONDS, MAX_TIMED_IMAGES, SUFFICIENT_SHARE = 1.5, 64, 0.1
# Denoising steps that are made of an image, twice, to find out; and how often images of one number are.
_STEPS, _ROUNDS = (2, 4), 3


@dataclass(frozen=True)
class Cost:
    """What an image of a model takes here."""

    seconds: float  # At the quickest.
    bytes: float  # In the store.
    images: int  # How many were made to find out.
    longest: float  # Seconds at the slowest; what else the machine does makes them longer.


def measure_cost(request: ImageRequest, n_remaining: int = 10**9, ready: Ready | None = None) -> Cost:
    """Return what an image takes here, from some that are made for it and thrown away; of few ``n_remaining``, fewer
    are made.

    Of a model that denoises, two numbers of a few steps tell what a step takes, and what is added. Noise that was
    left in makes bytes rather too many. ``ready`` is the model, where it is loaded. Raises as
    :meth:`biaslab.generation.models.ImageModel.generate`.
    """
    ready = ready or request.image_model.ready()
    # Prompts that share noise are asked together.
    groups = request.prompts["noise_id" if "noise_id" in request.prompts else "prompt_id"]
    few, many = _STEPS
    n, spent, rounds_measured = 1, 0.0, []
    while True:
        subset = request.prompts[groups.isin(groups.unique()[:n])].assign(n_images=1)
        if ready.set_steps is not None and ready.steps > many:
            ready.set_steps(few)
            first, _ = _time_images(request, ready, subset)
            ready.set_steps(many)
            took, kept = _time_images(request, ready, subset)
            step = max(took - first, 0.0) / (many - few)
            seconds, took = took + (ready.steps - many) * step, took + first
        else:
            took, kept = _time_images(request, ready, subset)
            seconds = took
        spent += took
        rounds_measured.append((len(subset), seconds / len(subset), kept / len(subset)))
        filled = n > 1 and (took > TIMING_SECONDS / 4 or len(subset) >= MAX_TIMED_IMAGES)
        rounds = sum(made == len(subset) for made, *_ in rounds_measured)
        enough = sum(made for made, *_ in rounds_measured) >= SUFFICIENT_SHARE * n_remaining
        if (filled and rounds >= _ROUNDS) or spent > 4 * TIMING_SECONDS or n >= groups.nunique() or enough:
            break
        n *= 1 if filled else 4
    # Earlier rounds include one-time preparation, and small batches are slower per image.
    last = [seconds for made, seconds, _ in rounds_measured if made == rounds_measured[-1][0]]
    total = sum(made for made, *_ in rounds_measured)
    return Cost(min(last), rounds_measured[-1][2], total, longest=max(last))


def _time_images(request: ImageRequest, ready: Ready, prompts: pd.DataFrame) -> tuple[float, int]:
    """Return the seconds that images of prompts took, and their bytes in a store."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        options = {"seed": request.pipeline.seed, "progress": False, "storage_class": request.storage_class}
        made = ready.generate(prompts, cache=ResultCache(folder), **options)
        made.read(list(made.table["image_id"]))
        took = time.perf_counter() - began
        return took, sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


def requests_to_time(requests: Iterable[ImageRequest]) -> dict[tuple, tuple[ImageRequest, int]]:
    """Return by :attr:`ImageRequest.cost_key` one request to time, and the number of such images that remain."""
    alike: dict[tuple, list[ImageRequest]] = {}
    for request in requests:
        if request.n_remaining > 0 and request.price is None:
            alike.setdefault(request.cost_key, []).append(request)
    return {key: (similar[0], sum(request.n_remaining for request in similar)) for key, similar in alike.items()}
