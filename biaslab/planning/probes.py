"""Each model and judge of a run tried on one image, before the first image is made or bought."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil

from biaslab.captions.embeddings import Encoder
from biaslab.errors import BiaslabError
from biaslab.execution import processor
from biaslab.execution.progress import notice
from biaslab.generation.models import Ready
from biaslab.hub.image_sources import UnreadableImage
from biaslab.hub.model_files import ModelFiles
from biaslab.pipeline import Pipeline
from biaslab.planning.costs import Cost, measure_cost
from biaslab.planning.records import ImageRequest, ModelUse
from biaslab.request import Request

# Asks a judge about an image.
Probe = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Trial:
    """A model that a run uses, to be tried once, as another process can have it."""

    use: ModelUse
    request: Request
    image_request: ImageRequest | None = None  # Of an image model; None for a judge or an encoder.
    n_remaining: int = 0  # Images that are left to generate, over all requests with the same cost key.
    located: tuple[ModelFiles, ...] = ()  # Its files.
    result: TrialResult | None = None  # None where its weights are not here, and not to be fetched.

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that it is of."""
        return self.image_request.pipeline if self.image_request else self.request.opened

    @property
    def settings_description(self) -> str:
        """The generation settings of an image model; empty for judges and encoders."""
        return self.image_request.image_model.describe_settings() if self.image_request else ""

    @property
    def is_local(self) -> bool:
        """Whether all files are on this machine."""
        return not any(located.missing for located in self.located)

    @property
    def key(self) -> str:
        """Key that trials of one model with equal settings share, so that the model is tested once."""
        use, settings = self.use, self.request.settings
        if self.image_request:
            model = self.image_request.image_model.cost_key, self.image_request.storage_class
            return repr((*model, settings.paired.image_size, settings.endpoint, self.request.seed))
        # A local judge is probed once for all settings that name it, a paid service once in total.
        judge = use.judge
        if judge is not None and judge.is_charged:
            return repr((use.name, settings.vision, settings.endpoint))
        judging = settings.judging.changed(gender="", extra_judges=())
        finder = settings.triplets.thresholds, settings.triplets.object_vocabulary_file
        who = (
            (type(judge).__name__, judge.argument, getattr(judge, "places", False))
            if judge
            else (use.setting, use.name)
        )
        return repr((*who, judging, settings.compute.device, finder))


def make_trial(request: ImageRequest, n_remaining: int = 0) -> Trial:
    """Return the trial of a model by images that are asked of it."""
    use = ModelUse("model", request.pipeline.model)
    return Trial(use, Request.from_pipeline(request.pipeline), request, n_remaining or request.n_remaining)


@dataclass(frozen=True)
class TrialResult:
    """What became of a trial."""

    problem: str = ""  # What is wrong, and what to do; empty where it has answered.
    cost: Cost | None = None  # What an image takes, of what generates images.
    memory: int = 0  # Bytes that it took of this machine's memory, or of the GPU's, as long as it was there.
    device: str = ""  # Where it ran.


def test_image(side: int = 256) -> np.ndarray:
    """Return what judges are tried on: ``uint8 (side, side, 3)``, an oval of a skin's colour before a gradient."""
    rows, columns = np.mgrid[:side, :side] / side
    image = np.stack([90 + 60 * rows, 130 + 50 * columns, 170 - 40 * rows], axis=-1)
    image[((rows - 0.42) / 0.24) ** 2 + ((columns - 0.5) / 0.18) ** 2 <= 1] = (205, 160, 130)
    return image.astype(np.uint8)


def run_trials(
    trials: Sequence[Trial], purchases: Sequence[Trial], number_file: Path, threads: int
) -> list[TrialResult]:
    """Return the results of trials, in order; where all have succeeded, buy images, which the judges then classify.

    ``purchases`` are models at endpoints; the first image of each is bought. Only for purchases, judges stay loaded
    after their trial. ``number_file`` holds the number of the current trial, which is read where this process was
    killed. ``threads`` are torch's.
    """
    # Judges at endpoints do without.
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(threads)
    results, looks, held = [], {}, None
    for number, trial in enumerate(trials):
        number_file.write_text(str(number), encoding="ascii")
        notice(trial.use.name)
        tried, look, held = _run_trial(trial, held)
        results.append(tried)
        if look and purchases:
            looks[number] = look
        gc.collect()
    if any(tried.problem for tried in results):
        return results
    for purchase in purchases:
        request = purchase.image_request
        options = {"seed": request.pipeline.seed, "cache": request.pipeline.cache, "progress": False}
        made = request.image_model.generate(request.prompts.iloc[:1].assign(n_images=1), **options)
        (image,) = made.read(list(made.table["image_id"]))
        for number, look in looks.items() if not isinstance(image, UnreadableImage) else ():
            if problem := _problem(trials[number], lambda look=look, image=image: look(image)):
                results[number] = replace(results[number], problem=problem)
    return results


def _run_trial(trial: Trial, held: Ready | None) -> tuple[TrialResult, Probe | None, Ready | None]:
    """Run a trial; return its result, and the probe of the judge or the loaded image model, for reuse."""
    made: dict = {}

    def work() -> None:
        if trial.image_request:
            made["ready"] = trial.image_request.image_model.ready(held)
            made["cost"] = measure_cost(trial.image_request, trial.n_remaining, made["ready"])
        elif look := _load_probe(trial):
            look(test_image())
            made["look"] = look

    where = _where(trial)
    before = _memory_in_use(where)
    problem = _problem(trial, work)
    tried = TrialResult(problem, made.get("cost"), max(_memory_in_use(where, peak=True) - before, 0), where)
    return tried, made.get("look"), made.get("ready")


def _problem(trial: Trial, work: Callable[[], object]) -> str:
    """Run ``work`` and return the message of the error that it raises; empty if it succeeds."""
    what = f"{trial.use.setting} is {trial.use.name!r}"
    try:
        work()
    except BiaslabError as error:
        return trial.use.describe_problem(error)
    # A judge of another package may raise anything, and end the program.
    except (Exception, SystemExit) as error:
        kind, message = type(error).__name__, " ".join(str(error).split())
        # torch has an error of its own.
        is_memory = isinstance(error, MemoryError) or kind == "OutOfMemoryError"
        return f"{what}: {too_large(trial)}" if is_memory else f"{what}, which fails: {kind}: {message:.400}"
    return ""


def too_large(trial: Trial) -> str:
    """Return what to say of a model that does not fit in memory: what it needs, what there is, and what would fit."""
    try:
        size = sum(located.size for located in trial.use.files(trial.pipeline))
    except BiaslabError:
        size = 0
    where = _where(trial)
    free, whole = processor.memory(where)
    memory_name = "the GPU's memory" if where != "cpu" else "memory"
    needs = f" Its weights alone are {size / 1e9:.1f} GB." if size else ""
    fits = ["close what else uses it", "choose a smaller model"]
    if where != "cpu" and size < processor.memory("cpu")[0]:
        fits.append("set compute.device to cpu, where it fits and is slow")
    if trial.use.setting == "model" and size / 2 < free:
        fits.insert(0, "set generation.dtype to bfloat16, which takes half of float32")
    return (
        f"it does not fit in {memory_name} ({free / 1e9:.1f} of {whole / 1e9:.1f} GB are free).{needs} "
        "To make it fit, "
        f"{', or '.join(fits)}."
    )


def _where(trial: Trial) -> str:
    device = trial.request.settings.compute.device
    return processor.accelerator() if device == "auto" else device


def _memory_in_use(where: str, *, peak: bool = False) -> int:
    """Return how many bytes of memory this process has taken on a device: now, or on a GPU at most since then."""
    if where.startswith("cuda"):
        import torch

        if peak:
            return torch.cuda.max_memory_allocated(where)
        torch.cuda.reset_peak_memory_stats(where)
        return torch.cuda.memory_allocated(where)
    return psutil.Process().memory_info().rss


def _load_probe(trial: Trial) -> Probe | None:
    """Return the judge of a trial as a function of an image; None where it uses no images."""
    use, pipeline = trial.use, trial.pipeline
    if use.judge is not None:
        return use.judge.fresh().probe if use.judge.needs_images else None
    options = {"device": pipeline.device, "dtype": pipeline.settings.captions.encoder_dtype}
    Encoder(use.name, **options).encode(["a photo of a nurse"])
    return None
