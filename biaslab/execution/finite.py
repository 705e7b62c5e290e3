"""The rule for numbers that models give: all of them finite, or an error that names the model, its type and the fix.

Left alone, one of an overflow in float16 or of damaged weights would turn into a black image or an empty text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from biaslab.errors import InputError

if TYPE_CHECKING:
    import torch

_Numbers = TypeVar("_Numbers", np.ndarray, "torch.Tensor")


def is_finite(numbers: np.ndarray | torch.Tensor) -> bool:
    """Return whether all numbers of an array or a tensor are finite."""
    finite = np.isfinite(numbers) if isinstance(numbers, np.ndarray) else numbers.isfinite()
    return bool(finite.all())


def checked(numbers: _Numbers, model: str, dtype: object, *, setting: str = "") -> _Numbers:
    """Return numbers that a model gives, of any shape; an InputError where one is not finite.

    ``dtype`` is the type that it computes in and ``setting`` what sets that; empty where the device decides.
    """
    if not is_finite(numbers):
        raise InputError(f"{model} gives {not_finite(dtype, setting)}")
    return numbers


def not_finite(dtype: object, setting: str = "", *, others: str = "float32") -> str:
    """Return the end of an error: what is wrong with numbers in this type, and what to do; ``others`` may do better."""
    name = str(dtype).removeprefix("torch.")
    if name == "float32":
        fix = "No type holds more, so its weights are damaged: fetch them again, or choose another model."
    elif setting:
        fix = f"Set {setting} to {others}."
    else:
        fix = "Set compute.device to cpu, where it computes in float32."
    return f"numbers that are not finite in {name}. {fix}"
