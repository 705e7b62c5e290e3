"""The cost of a model's image on this machine, in seconds and bytes, measured on a few images."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.generation.models import LoadedModel
from biaslab.planning.plan import ImageRequest

# Approximate seconds for timing images of one kind, the maximum number of images to time together, and the share of the
# remaining images that suffices.
TIMING_SECONDS, MAX_TIMED_IMAGES, SUFFICIENT_SHARE = 1.5, 64, 0.1
# Numbers of denoising steps of the two timed generations, and the number of rounds with one number of images.
_STEPS, _ROUNDS = (2, 4), 3


@dataclass(frozen=True)
class Cost:
    """The cost of a model's image on this machine."""

    seconds: float  # Seconds per image in the fastest round.
    bytes: float  # Bytes per image in the cache.
    images: int  # Number of images that were generated to measure the cost.
    longest: float  # Seconds per image in the slowest round; other load on the machine increases them.


def measure_cost(request: ImageRequest, n_remaining: int = 10**9, ready: LoadedModel | None = None) -> Cost:
    """Return the cost of an image, measured on images that are discarded; fewer are generated if ``n_remaining`` is
    small.

    For a diffusion model, generations with two small numbers of steps give the time per step and the overhead.
    Remaining noise in these images makes the estimate of bytes somewhat too large. ``ready`` is the model, if it is
    loaded. Raises as :meth:`biaslab.generation.models.ImageModel.generate`.
    """
    ready = ready or request.image_model.ready()
    # Prompts that share noise are generated together.
    groups = request.prompts["noise_id" if "noise_id" in request.prompts else "prompt_id"]
    few_steps, many_steps = _STEPS
    n, elapsed, rounds_measured = 1, 0.0, []
    while True:
        subset = request.prompts[groups.isin(groups.unique()[:n])].assign(n_images=1)
        if ready.set_steps is not None and ready.steps > many_steps:
            ready.set_steps(few_steps)
            seconds_few, _ = _time_images(request, ready, subset)
            ready.set_steps(many_steps)
            duration, n_bytes = _time_images(request, ready, subset)
            step = max(duration - seconds_few, 0.0) / (many_steps - few_steps)
            seconds, duration = duration + (ready.steps - many_steps) * step, duration + seconds_few
        else:
            duration, n_bytes = _time_images(request, ready, subset)
            seconds = duration
        elapsed += duration
        rounds_measured.append((len(subset), seconds / len(subset), n_bytes / len(subset)))
        is_full = n > 1 and (duration > TIMING_SECONDS / 4 or len(subset) >= MAX_TIMED_IMAGES)
        rounds = sum(n_images == len(subset) for n_images, *_ in rounds_measured)
        is_sufficient = sum(n_images for n_images, *_ in rounds_measured) >= SUFFICIENT_SHARE * n_remaining
        if (is_full and rounds >= _ROUNDS) or elapsed > 4 * TIMING_SECONDS or n >= groups.nunique() or is_sufficient:
            break
        n *= 1 if is_full else 4
    # Earlier rounds include one-time preparation, and small batches are slower per image.
    final_seconds = [seconds for n_images, seconds, _ in rounds_measured if n_images == rounds_measured[-1][0]]
    total = sum(n_images for n_images, *_ in rounds_measured)
    return Cost(min(final_seconds), rounds_measured[-1][2], total, longest=max(final_seconds))


def _time_images(request: ImageRequest, ready: LoadedModel, prompts: pd.DataFrame) -> tuple[float, int]:
    """Return the seconds that the images of prompts took, and their bytes in a cache."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        options = {"seed": request.pipeline.seed, "progress": False, "storage_class": request.storage_class}
        images = ready.generate(prompts, cache=ResultCache(folder), **options)
        images.read(list(images.table["image_id"]))
        duration = time.perf_counter() - start
        return duration, sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


def requests_to_time(requests: Iterable[ImageRequest]) -> dict[tuple, tuple[ImageRequest, int]]:
    """Return by :attr:`ImageRequest.cost_key` one request to time, and the number of such images that remain."""
    by_key: dict[tuple, list[ImageRequest]] = {}
    for request in requests:
        if request.n_remaining > 0 and request.price is None:
            by_key.setdefault(request.cost_key, []).append(request)
    return {key: (group[0], sum(request.n_remaining for request in group)) for key, group in by_key.items()}
