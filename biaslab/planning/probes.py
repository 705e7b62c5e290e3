"""Trials of each model and judge of a run on one image, before the first image is generated or bought."""

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
from biaslab.generation.models import LoadedModel
from biaslab.hub.image_sources import UnreadableImage
from biaslab.hub.model_files import ModelFiles
from biaslab.pipeline import Pipeline
from biaslab.planning.costs import Cost, measure_cost
from biaslab.planning.records import ImageRequest, ModelUse
from biaslab.request import Request

# A function that classifies an image with a judge.
Probe = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Trial:
    """A model of a run that is tested once; it can be sent to another process."""

    use: ModelUse
    request: Request
    image_request: ImageRequest | None = None  # The request of an image model; None for a judge or an encoder.
    n_remaining: int = 0  # Images that remain to be generated, over all requests with the same cost key.
    located: tuple[ModelFiles, ...] = ()  # The files of the model.
    result: TrialResult | None = None  # None if its weights are missing and are not downloaded.

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that uses the model."""
        return self.image_request.pipeline if self.image_request else self.request.opened

    @property
    def settings_description(self) -> str:
        """The generation settings of an image model; empty for judges and encoders."""
        return self.image_request.image_model.describe_settings() if self.image_request else ""

    @property
    def is_local(self) -> bool:
        """Whether all files are on this machine."""
        return not any(files.missing for files in self.located)

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
        judging = settings.judging.with_changes(gender="", extra_judges=())
        finder = settings.triplets.thresholds, settings.triplets.object_vocabulary_file
        identity = (
            (type(judge).__name__, judge.argument, getattr(judge, "places", False))
            if judge
            else (use.setting, use.name)
        )
        return repr((*identity, judging, settings.compute.device, finder))


def make_trial(request: ImageRequest, n_remaining: int = 0) -> Trial:
    """Return the trial of an image model, with a request for its images."""
    use = ModelUse("model", request.pipeline.model)
    return Trial(use, Request.from_pipeline(request.pipeline), request, n_remaining or request.n_remaining)


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial."""

    problem: str = ""  # The error, and what to do about it; empty if the model succeeded.
    cost: Cost | None = None  # Cost of an image, for an image model.
    memory: int = 0  # Bytes of this machine's memory, or of the GPU's, that the model used.
    device: str = ""  # The device of the model.


def test_image(side: int = 256) -> np.ndarray:
    """Return the test image for judges: ``uint8 (side, side, 3)``, a skin-coloured oval on a gradient."""
    rows, columns = np.mgrid[:side, :side] / side
    image = np.stack([90 + 60 * rows, 130 + 50 * columns, 170 - 40 * rows], axis=-1)
    image[((rows - 0.42) / 0.24) ** 2 + ((columns - 0.5) / 0.18) ** 2 <= 1] = (205, 160, 130)
    return image.astype(np.uint8)


def run_trials(
    trials: Sequence[Trial], purchases: Sequence[Trial], number_file: Path, threads: int
) -> list[TrialResult]:
    """Return the results of trials, in order; if all succeeded, buy images, which the judges then classify.

    ``purchases`` are models at endpoints; the first image of each is bought. Judges stay loaded after their trial only
    if there are purchases. ``number_file`` contains the number of the current trial, which is read if this process is
    killed. ``threads`` is the number of torch's threads.
    """
    # Judges at endpoints do not need torch.
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(threads)
    results, probes, ready = [], {}, None
    for number, trial in enumerate(trials):
        number_file.write_text(str(number), encoding="ascii")
        notice(trial.use.name)
        result, probe, ready = _run_trial(trial, ready)
        results.append(result)
        if probe and purchases:
            probes[number] = probe
        gc.collect()
    if any(result.problem for result in results):
        return results
    for purchase in purchases:
        request = purchase.image_request
        options = {"seed": request.pipeline.seed, "cache": request.pipeline.cache, "progress": False}
        images = request.image_model.generate(request.prompts.iloc[:1].assign(n_images=1), **options)
        (image,) = images.read(list(images.table["image_id"]))
        for number, probe in probes.items() if not isinstance(image, UnreadableImage) else ():
            if problem := _problem(trials[number], lambda probe=probe, image=image: probe(image)):
                results[number] = replace(results[number], problem=problem)
    return results


def _run_trial(trial: Trial, ready: LoadedModel | None) -> tuple[TrialResult, Probe | None, LoadedModel | None]:
    """Run a trial; return its result, and the probe of the judge or the loaded image model, for reuse."""
    outputs: dict = {}

    def work() -> None:
        if trial.image_request:
            outputs["ready"] = trial.image_request.image_model.ready(ready)
            outputs["cost"] = measure_cost(trial.image_request, trial.n_remaining, outputs["ready"])
        elif probe := _load_probe(trial):
            probe(test_image())
            outputs["probe"] = probe

    device = _device_of(trial)
    memory_before = _memory_in_use(device)
    problem = _problem(trial, work)
    memory = max(_memory_in_use(device, peak=True) - memory_before, 0)
    result = TrialResult(problem, outputs.get("cost"), memory, device)
    return result, outputs.get("probe"), outputs.get("ready")


def _problem(trial: Trial, work: Callable[[], object]) -> str:
    """Run ``work`` and return the message of the error that it raises; empty if it succeeds."""
    subject = f"{trial.use.setting} is {trial.use.name!r}"
    try:
        work()
    except BiaslabError as error:
        return trial.use.describe_problem(error)
    # A judge of another package may raise any error, and exit.
    except (Exception, SystemExit) as error:
        kind, message = type(error).__name__, " ".join(str(error).split())
        # torch has an error of its own.
        is_memory = isinstance(error, MemoryError) or kind == "OutOfMemoryError"
        return f"{subject}: {too_large(trial)}" if is_memory else f"{subject}, which failed: {kind}: {message:.400}"
    return ""


def too_large(trial: Trial) -> str:
    """Return a sentence on a model that does not fit in memory: required memory, free memory, and remedies."""
    try:
        size = sum(files.size for files in trial.use.files(trial.pipeline))
    except BiaslabError:
        size = 0
    device = _device_of(trial)
    free, total = processor.memory(device)
    memory_name = "the GPU's memory" if device != "cpu" else "memory"
    needs = f" Its weights alone are {size / 1e9:.1f} GB." if size else ""
    options = ["close other programs that use it", "choose a smaller model"]
    if trial.use.setting == "model" and device == "cuda" and trial.request.settings.compute.offload == "none":
        options.append("set compute.offload to model")
    if device != "cpu" and size < processor.memory("cpu")[0]:
        options.append("set compute.device to cpu, which has enough memory but is slow")
    if trial.use.setting == "model" and size / 2 < free:
        options.insert(0, "set generation.dtype to bfloat16, which needs half the memory of float32")
    return (
        f"it does not fit in {memory_name} ({free / 1e9:.1f} of {total / 1e9:.1f} GB are free).{needs} "
        "To solve this, "
        f"{', or '.join(options)}."
    )


def _device_of(trial: Trial) -> str:
    device = trial.request.settings.compute.device
    return processor.accelerator() if device == "auto" else device


def _memory_in_use(device: str, *, peak: bool = False) -> int:
    """Return the memory of this process on a device in bytes; with ``peak``, a GPU's peak since the last other call."""
    if device.startswith("cuda"):
        import torch

        if peak:
            return torch.cuda.max_memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return psutil.Process().memory_info().rss


def _load_probe(trial: Trial) -> Probe | None:
    """Return the judge of a trial as a function of an image; None if it uses no images."""
    use, pipeline = trial.use, trial.pipeline
    if use.judge is not None:
        return use.judge.fresh().probe if use.judge.needs_images else None
    options = {"device": pipeline.device, "dtype": pipeline.settings.captions.encoder_dtype}
    Encoder(use.name, **options).encode(["a photo of a nurse"])
    return None
