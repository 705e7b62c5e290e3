"""Shared parts of trainings: a resumable loop with schedule and curve, weight averaging, and random numbers."""

from __future__ import annotations

import copy
import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab.errors import InputError, ParameterError
from biaslab.execution import processor

WARM_UP = 0.02
# Seconds between checkpoints; the last one is written at the end.
SAVE_EVERY = 120.0


@dataclass
class Training:
    """One resumable training: its length, random numbers, checkpoint and training curve."""

    steps: int  # number of steps
    batch: int  # images per step
    learning_rate: float  # maximum learning rate, after warm-up; it decays along a cosine to 2% of the maximum
    seed: int = 0  # seed of weights, data and random numbers
    checkpoint: Path | None = None  # file of the state; training continues from an existing one
    log: Path | None = None  # CSV of the curve
    # Maximum duration; the schedule is shortened to fit, so that weights depend on the machine's speed. 0: all steps.
    minutes: float = 0.0
    progress: bool = True  # whether to show a progress bar
    compiled: bool = True  # whether to compile networks: takes minutes at first, then steps are faster
    step: int = field(default=0, init=False)
    elapsed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ParameterError(f"steps is {self.steps!r}; it must be 1 or more.")
        if self.minutes < 0:
            raise ParameterError(f"minutes is {self.minutes!r}; it must be 0 (all steps) or more.")

    @property
    def fraction(self) -> float:
        """Completed fraction of the training, 0 to 1."""
        step_fraction = self.step / self.steps
        return min(1.0, max(step_fraction, self.elapsed / (60 * self.minutes)) if self.minutes else step_fraction)

    def run(self, module: Callable, **options: Any) -> Callable:
        """Return ``module``, compiled with torch's ``options`` if :attr:`compiled` is set."""
        return torch.compile(module, **options) if self.compiled else module

    def fit(
        self,
        trained: dict[str, torch.nn.Module],
        average: Average,
        loss: Callable[[int], tuple[torch.Tensor, dict[str, torch.Tensor]]],
        quality: Callable[[], dict[str, float]],
        *,
        quality_every: int = 500,
        clip: float = 1.0,
        after_step: Callable[[], object] = lambda: None,
        **adam: Any,
    ) -> dict[str, float]:
        """Train to the end, from the checkpoint if it exists, and return the last quality.

        ``loss`` returns the loss of step ``i``, with random numbers determined by ``i`` alone, and its parts for the
        curve. ``after_step`` is called before ``average`` is updated; ``clip`` is the maximum norm of the gradient and
        ``adam`` are settings of AdamW.
        """
        from tqdm import tqdm

        parameters = [p for module in trained.values() for p in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, fused=True, **adam)
        parts = trained | {"optimizer": optimizer, "average": average}
        self._resume(parts)
        last_quality: dict[str, float] = {}
        smooth: dict[str, float] = {}
        bar = tqdm(total=self.steps, initial=self.step, unit="step", disable=not self.progress, mininterval=2)
        saved = time.monotonic()
        while self.fraction < 1:
            began = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * _schedule(self.fraction)
            total, logged = loss(self.step)
            optimizer.zero_grad(set_to_none=True)
            total.backward()
            torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
            after_step()
            average.update(self.step)
            losses = {name: float(value.detach()) for name, value in logged.items()}
            if not all(math.isfinite(v) for v in losses.values()):
                raise InputError(f"The loss is {losses} at step {self.step}; train with a lower learning rate.")
            self.step += 1
            self.elapsed += time.monotonic() - began
            smooth = {k: 0.98 * smooth.get(k, v) + 0.02 * v for k, v in losses.items()}
            bar.update()
            if self.step % 50 == 0:
                bar.set_postfix({k: f"{v:.4f}" for k, v in smooth.items()}, refresh=False)
            if self.step % quality_every == 0 or self.fraction >= 1:
                last_quality = quality()
                self._note(smooth | last_quality)
            if time.monotonic() - saved > SAVE_EVERY or self.fraction >= 1:
                self._save(parts)
                saved = time.monotonic()
        bar.close()
        return last_quality or quality()

    def _save(self, parts: dict[str, Any]) -> None:
        if self.checkpoint is None:
            return
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in parts.items()}
        temporary = self.checkpoint.with_name(f".{self.checkpoint.name}.{os.getpid()}.tmp")
        torch.save({"state": state, "step": self.step, "elapsed": self.elapsed}, temporary)
        os.replace(temporary, self.checkpoint)

    def _resume(self, parts: dict[str, Any]) -> None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        # weights_only: a checkpoint holds tensors and numbers, never code.
        saved = torch.load(self.checkpoint, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved["state"][name])
        self.step, self.elapsed = int(saved["step"]), float(saved["elapsed"])

    def _note(self, values: dict[str, float]) -> None:
        if self.log is None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                writer.writerow(["step", "minutes", *values])
            numbers = (f"{v:.6g}" for v in values.values())
            writer.writerow([self.step, f"{self.elapsed / 60:.2f}", *numbers])


def _schedule(fraction: float) -> float:
    """Return the factor of the maximum learning rate: a short linear warm-up, then a cosine to 0.02."""
    if fraction < WARM_UP:
        return max(0.02, fraction / WARM_UP)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (fraction - WARM_UP) / (1 - WARM_UP)))


class Average:
    """An exponential moving average of modules' weights and running statistics, which trainings save."""

    def __init__(self, modules: dict[str, torch.nn.Module], decay: float = 0.999) -> None:
        self.modules, self.decay = modules, decay
        self.averaged = {name: copy.deepcopy(module).eval().requires_grad_(False) for name, module in modules.items()}

    def update(self, step: int) -> None:
        """Move the average toward the current weights; the first steps have a smaller decay."""
        decay = min(self.decay, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, module in self.modules.items():
                pairs = list(zip(_saved(self.averaged[name]), _saved(module), strict=True))
                moving = [(a, b) for a, b in pairs if a.is_floating_point()]
                torch._foreach_lerp_(*map(list, zip(*moving, strict=True)), 1 - decay)
                # Counts, such as those of batch normalization, are copied.
                for a, b in pairs:
                    if not a.is_floating_point():
                        a.copy_(b)

    def state_dict(self) -> dict:
        """Return the averaged weights."""
        return {name: module.state_dict() for name, module in self.averaged.items()}

    def load_state_dict(self, state: dict) -> None:
        """Set the averaged weights."""
        for name, module in self.averaged.items():
            module.load_state_dict(state[name])


def _saved(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return the saved tensors of a module: unique weights, running means and variances, and counts."""
    names = module.state_dict().keys()
    return [*module.parameters(), *(buffer for name, buffer in module.named_buffers() if name in names)]


def rng(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """Return the random generator of one step, determined by the arguments alone."""
    return np.random.default_rng([seed, stream, step])


def torch_rng(seed: int, step: int, stream: int = 1) -> torch.Generator:
    """Return torch's random generator of one step."""
    return torch.Generator().manual_seed(int(rng(seed, step, stream).integers(2**63 - 1)))


def mixed_precision() -> torch.autocast:
    """Return a context in which torch computes in bfloat16 if the processor is faster with it, else in float32."""
    return torch.autocast("cpu", torch.bfloat16, enabled=processor.favours_bfloat16())


def save_half(model: torch.nn.Module, folder: Path) -> None:
    """Save a model of transformers as float16 with a configuration that loads it as float32."""
    copy.deepcopy(model).half().save_pretrained(folder, safe_serialization=True)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for part in (config, config.get("text_config", {}), config.get("vision_config", {})):
        part["dtype"] = "float32"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """Return uint8 images (n, h, w, 3) as float (n, 3, h, w) in -1 to 1, channels last in memory."""
    tensor = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    return tensor.float().div(127.5).sub(1)


def chunks(images: np.ndarray, size: int = 64) -> Iterator[torch.Tensor]:
    """Yield batches of ``size`` uint8 images (the last may be smaller) as tensors of :func:`to_tensor`."""
    for start in range(0, len(images), size):
        yield to_tensor(images[start : start + size]).contiguous(memory_format=torch.channels_last)
