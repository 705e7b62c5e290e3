"""Check that outputs of models are finite; the error names the model, its data type and the fix.

Without this check, an overflow in float16 or damaged weights would result in a black image or an empty text.
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


def check_finite(numbers: _Numbers, model: str, dtype: object, *, setting: str = "") -> _Numbers:
    """Return the output of a model, of any shape, if all numbers are finite. Raises InputError: One is not.

    ``dtype`` is the model's data type and ``setting`` the setting of that type; empty if the device determines it.
    """
    if not is_finite(numbers):
        raise InputError(f"{model} returns {not_finite(dtype, setting)}")
    return numbers


def not_finite(dtype: object, setting: str = "", *, alternatives: str = "float32") -> str:
    """Return the end of an error message about ``dtype``, with the fix; ``alternatives`` are types that may work."""
    name = str(dtype).removeprefix("torch.")
    if name == "float32":
        fix = "No type has a larger range, so the weights are damaged. Download them again, or choose another model."
    elif setting:
        fix = f"Set {setting} to {alternatives}."
    else:
        fix = "Set compute.device to cpu, on which this model computes in float32."
    return f"numbers that are not finite in {name}. {fix}"
