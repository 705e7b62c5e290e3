"""Judges that other packages bring, found by the entry points ``biaslab.judges``.

A package declares ``[project.entry-points."biaslab.judges"]`` with ``name = "module:factory"``; the setting
``judging.gender: plugin:name`` or ``plugin:name:ARGUMENT`` then calls
``factory(ARGUMENT, device=…, batch_size=…)``, which returns a :class:`~biaslab.judging.judge.GenderModel`. The factory
says which pictures its judge knows by an attribute ``knows``: ``drawings``, ``photographs`` (where there is none) or
``any``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from biaslab import closure, models, plugins
from biaslab.errors import InputError, ParameterError, loading

PLUGIN = "plugin:"
"""How the names of such judges begin."""
_SEES = ("image", "face")


def _named(name: str) -> tuple[metadata.EntryPoint, str]:
    """Return the entry point that a name means, and the argument behind it."""
    short, _, argument = name.removeprefix(PLUGIN).partition(":")
    return plugins.point(plugins.JUDGES, short, "judge"), argument


def digest(name: str) -> str:
    """Return a digest of what stands behind a name: package, version, the factory's module, and a file it names.

    Raises:
        ParameterError: The module of the entry point is not there.
        UnknownNameError: No installed package brings such a judge.
    """
    point, argument = _named(name)
    whole = hashlib.sha256(f"{closure.brought(point)} {argument} ".encode())
    if argument and (path := Path(argument).expanduser()).is_file():
        whole.update(path.read_bytes())
    return whole.hexdigest()


def knows(name: str) -> str:
    """Return which pictures a judge knows, as its factory's attribute ``knows`` says; photographs where it has none.

    Raises:
        ParameterError: The factory cannot be had, or says something else.
        UnknownNameError: No installed package brings such a judge.
    """
    point, _ = _named(name)
    with loading(name, "a judge"):
        told = getattr(point.load(), "knows", models.PHOTOGRAPHS)
    if told not in (*models.PICTURES, models.ANY):
        allowed = ", ".join((*models.PICTURES, models.ANY))
        raise ParameterError(
            f"{name} says that it knows {told!r}; {point.value}.knows must be one of {allowed}."
        )
    return told


def load(name: str, *, device: str, batch_size: int) -> CheckedJudge:
    """Return the judge that a name means, whose answers are checked.

    Of ``device`` and ``batch_size`` the judge makes what it will; a size of 0 leaves it to the judge.

    Raises:
        ParameterError: It cannot be loaded, or is no judge.
        UnknownNameError: No installed package brings such a judge.
    """
    point, argument = _named(name)
    with loading(name, "a judge"):
        model = point.load()(argument, device=device, batch_size=batch_size)
    if getattr(model, "sees", None) not in _SEES or not callable(getattr(model, "p_female", None)):
        raise ParameterError(
            f"{name} is no judge: what {point.value} returns needs `sees` ({' or '.join(map(repr, _SEES))}) and "
            "`p_female(images)`."
        )
    return CheckedJudge(name, model)


class CheckedJudge:
    """A judge of another package whose answers are probabilities, one an image, or an error."""

    def __init__(self, name: str, model) -> None:
        self.sees: str = model.sees
        self._name, self._model = name, model
        if hasattr(model, "side"):
            self.side = model.side

    def p_female(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probability of perceived as female, ``float64 (images,)``, 0 to 1; NaN where there is none.

        Raises InputError where the judge gives another number of answers, or other numbers.
        """
        found = np.asarray(self._model.p_female(images), dtype=float)
        if found.shape != (len(images),):
            raise InputError(
                f"{self._name} gives answers of shape {found.shape} to {len(images)} images; it must give one each."
            )
        wrong = found[(found < 0) | (found > 1)]
        if len(wrong):
            raise InputError(f"{self._name} gives {wrong[0]:g}; a probability lies from 0 to 1.")
        return found
