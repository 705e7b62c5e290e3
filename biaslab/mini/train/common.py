"""What the trainings share: a schedule, a resumable loop with a curve, and an average of weights."""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biaslab.errors import InputError, ParameterError

if TYPE_CHECKING:
    import torch

WARM_UP = 0.02
# A checkpoint is written this often (seconds), and at the end.
SAVE_EVERY = 120.0


@dataclass
class Training:
    """One resumable training: what is trained, for how long, and where its state and curve go."""

    parts: dict[str, Any]
    """Modules and optimisers by name; their ``state_dict`` makes the checkpoint."""
    steps: int
    """Steps in all."""
    learning_rate: float
    """Largest learning rate, after warm-up; it falls along a cosine to 2 % of it."""
    checkpoint: Path | None = None
    """Where the state is kept; an existing one is continued."""
    log: Path | None = None
    """CSV of the curve."""
    minutes: float = 0.0
    """Ends after this many minutes of training, the schedule shortened to fit; 0 does all steps. With it, the
    weights depend on the speed of the machine."""
    progress: bool = True
    """Whether a progress bar is shown."""
    step: int = field(default=0, init=False)
    elapsed: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ParameterError(f"steps is {self.steps!r}; it must be 1 or more.")
        if self.minutes < 0:
            raise ParameterError(f"minutes is {self.minutes!r}; it must be 0 (all steps) or more.")

    @property
    def fraction(self) -> float:
        """Return how much of the training is done, 0 to 1."""
        done = self.step / self.steps
        return min(1.0, max(done, self.elapsed / (60 * self.minutes)) if self.minutes else done)

    def run(
        self,
        optimiser: torch.optim.Optimizer,
        one_step: Callable[[int], dict[str, float]],
        quality: Callable[[], dict[str, float]] | None = None,
        *,
        quality_every: int = 500,
    ) -> dict[str, float]:
        """Train to the end (or on from the checkpoint) and return the last quality.

        Args:
            optimiser: Its learning rate is set before every step.
            one_step: Does step number ``i``, random draws from ``i`` alone, and returns losses by name.
            quality: Measures quality on held-out data.
            quality_every: Steps between measurements.
        """
        from tqdm import tqdm

        self._resume()
        last: dict[str, float] = {}
        smooth: dict[str, float] = {}
        bar = tqdm(total=self.steps, initial=self.step, unit="step", disable=not self.progress, mininterval=2)
        saved = time.monotonic()
        while self.fraction < 1:
            began = time.monotonic()
            rate = self.learning_rate * _schedule(self.fraction)
            for group in optimiser.param_groups:
                group["lr"] = rate
            losses = one_step(self.step)
            if not all(math.isfinite(v) for v in losses.values()):
                raise InputError(
                    f"The loss is {losses} at step {self.step}; train with a lower learning rate."
                )
            self.step += 1
            self.elapsed += time.monotonic() - began
            smooth = {k: 0.98 * smooth.get(k, v) + 0.02 * v for k, v in losses.items()}
            bar.update()
            if self.step % 50 == 0:
                bar.set_postfix({k: f"{v:.4f}" for k, v in smooth.items()}, refresh=False)
            if self.step % quality_every == 0 or self.fraction >= 1:
                last = quality() if quality else {}
                self._note(smooth | last)
            if time.monotonic() - saved > SAVE_EVERY or self.fraction >= 1:
                self._save()
                saved = time.monotonic()
        bar.close()
        return last or (quality() if quality else {})

    def _save(self) -> None:
        import torch

        if self.checkpoint is None:
            return
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in self.parts.items()}
        temporary = self.checkpoint.with_name(f".{self.checkpoint.name}.{os.getpid()}.tmp")
        torch.save({"state": state, "step": self.step, "elapsed": self.elapsed}, temporary)
        os.replace(temporary, self.checkpoint)

    def _resume(self) -> None:
        import torch

        if self.checkpoint is None or not self.checkpoint.exists():
            return
        # weights_only: a checkpoint holds tensors and numbers, never code.
        whole = torch.load(self.checkpoint, weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(whole["state"][name])
        self.step, self.elapsed = int(whole["step"]), float(whole["elapsed"])

    def _note(self, values: dict[str, float]) -> None:
        if self.log is None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        new = not self.log.exists()
        with self.log.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["step", "minutes", *values])
            numbers = (f"{v:.6g}" for v in values.values())
            writer.writerow([self.step, f"{self.elapsed / 60:.2f}", *numbers])


def _schedule(fraction: float) -> float:
    """Return the share of the largest learning rate: a short linear warm-up, then a cosine to 0.02."""
    if fraction < WARM_UP:
        return max(0.02, fraction / WARM_UP)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (fraction - WARM_UP) / (1 - WARM_UP)))


class Average:
    """An exponential moving average of modules' weights, which is what gets saved."""

    def __init__(self, modules: dict[str, torch.nn.Module], decay: float = 0.999) -> None:
        import copy

        self.modules = modules
        self.decay = decay
        self.kept = {
            name: copy.deepcopy(module).eval().requires_grad_(False) for name, module in modules.items()
        }

    def update(self, step: int) -> None:
        """Move the average toward the present weights; faster at first."""
        import torch

        decay = min(self.decay, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, module in self.modules.items():
                kept, now = list(self.kept[name].parameters()), list(module.parameters())
                torch._foreach_lerp_(kept, now, 1 - decay)

    def state_dict(self) -> dict:
        """Return the averaged weights."""
        return {name: module.state_dict() for name, module in self.kept.items()}

    def load_state_dict(self, state: dict) -> None:
        """Set the averaged weights."""
        for name, module in self.kept.items():
            module.load_state_dict(state[name])


def rng(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """Return the random numbers of one step: nothing but the seed and the step decides them."""
    return np.random.default_rng([seed, stream, step])


def torch_rng(seed: int, step: int, stream: int = 1) -> torch.Generator:
    """Return torch's random numbers of one step."""
    import torch

    return torch.Generator().manual_seed(int(rng(seed, step, stream).integers(2**63 - 1)))


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """Return uint8 images (n, h, w, 3) as float (n, 3, h, w) in -1 to 1, channels last in memory."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    return tensor.float().div(127.5).sub(1)


def chunks(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of pieces of ``size`` (the last may be smaller)."""
    for start in range(0, total, size):
        yield start, min(start + size, total)
