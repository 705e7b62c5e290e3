"""Judges that other packages bring, found by the entry points ``biaslab.judges``.

A package declares ``[project.entry-points."biaslab.judges"]`` with ``name = "module:factory"``; the setting
``judging.gender: plugin:name`` or ``plugin:name:ARGUMENT`` calls ``factory(ARGUMENT, device=…, batch_size=…)`` and asks
``judge(people)`` of what that returns, which gives an :class:`Answer` to each :class:`biaslab.judges.person.Person`;
``judging.skin_tone`` asks ``tones(people)``, which gives a :class:`Tone` of each.

The factory may have ``known_domain`` (``drawings``, ``photographs``, which is the default, or ``any``), and
``files(ARGUMENT)``, the files and folders, such as weights, whose content is part of the keys of results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.errors import BiaslabError, InputError, ParameterError, loading
from biaslab.hub import registry
from biaslab.io import reading
from biaslab.judges.judge_labels import UNCLEAR
from biaslab.judges.person import Person
from biaslab.schema.genders import GENDERS

PLUGIN = "plugin:"
"""How the names of such judges begin."""


class Answer(NamedTuple):
    """What a judge says of somebody: ``female``, ``male``, ``unclear``, or empty where it says nothing, and why.

    Without a probability of perceived as female, 0 to 1, its word is taken for sure.
    """

    gender: str
    probability_female: float | None = None
    reason: str = ""


class Tone(NamedTuple):
    """What a judge says of a skin tone: on the Monk scale, from 1 (light) to 10 (dark), or nothing, and why."""

    tone: float | None
    reason: str = ""


def _entry_point(name: str) -> tuple[metadata.EntryPoint, str]:
    """Return the entry point that a name means, and the argument behind it."""
    short, _, argument = name.removeprefix(PLUGIN).partition(":")
    return plugins.entry_point(plugins.JUDGES, short, "judge"), argument


def digest(name: str) -> str:
    """Return a digest of what stands behind a name: package, version, the factory's module, its argument, and their
    files.

    Raises ParameterError where the module or a file is not there, UnknownNameError where no package brings such a
    judge.
    """
    point, argument = _entry_point(name)
    whole = hashlib.sha256(f"{code_digest.entry_digest(point)} {argument} ".encode())
    if argument and (path := Path(argument).expanduser()).is_file():
        whole.update(reading.content(path))
    with loading(name, "a judge"):
        declared = getattr(point.load(), "files", lambda _: ())
    with _declaration(name):
        paths = [Path(path).expanduser() for path in declared(argument)]
    for path in paths:
        if not path.exists():
            raise ParameterError(f"{name} declares the file {path}, which is not there.")
        for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
            whole.update(file.name.encode() + b"\0")
            with file.open("rb") as opened:
                whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()


@contextmanager
def _declaration(name: str) -> Iterator[None]:
    """Turn what a judge of another package raises into an InputError that tells its type."""
    try:
        yield
    except BiaslabError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{name} fails: {type(error).__name__}: {said:.400}") from error


def known_domain(name: str) -> str:
    """Return which pictures a judge knows, as its factory's attribute ``image_domain`` says; photographs where it has
    none.

    Raises ParameterError where the factory cannot be had, or says something else, else as :func:`digest`.
    """
    point, _ = _entry_point(name)
    with loading(name, "a judge"):
        told = getattr(point.load(), "image_domain", registry.PHOTOGRAPHS)
    if told not in (*registry.IMAGE_DOMAINS, registry.ANY):
        raise ParameterError(
            f"{name} says that it knows {told!r}; {point.value}.image_domain must be drawings, photographs or any."
        )
    return told


def load(name: str, *, tones: bool = False, device: str, batch_size: int) -> PluginJudge:
    """Return the judge of gender, or of skin ``tones``, that a name means; a batch size of 0 leaves it to the judge.

    Raises ParameterError where it cannot be had or is no judge, InputError where its factory fails, else as
    :func:`digest`.
    """
    point, argument = _entry_point(name)
    with loading(name, "a judge"):
        factory = point.load()
    with _declaration(name):
        model = factory(argument, device=device, batch_size=batch_size)
    method = "tones" if tones else "judge"
    if not callable(getattr(model, method, None)):
        raise ParameterError(f"{name} is not such a judge: what {point.value} returns needs `{method}(people)`.")
    return PluginJudge(name, getattr(model, method), _check_tone if tones else _check_gender)


class PluginJudge:
    """A judge of another package, whose answers are checked: an InputError where it fails, or they are of no form."""

    def __init__(self, name: str, ask: Callable, read: Callable) -> None:
        self._name, self._ask, self._read = name, ask, read

    def answers(self, people: Sequence[Person]) -> list[tuple[float, str]]:
        """Return for each the probability of perceived as female, or the tone (Monk scale), NaN where nothing is said,
        and a reason.

        A word without a probability counts as sure, ``unclear`` as even.
        """
        with _declaration(self._name):
            answers = list(map(tuple, self._ask(people)))
        if len(answers) != len(people):
            raise InputError(
                f"{self._name} gives {len(answers)} answers about {len(people)} people; it must give one each."
            )
        return [self._read(self._name, *answer) for answer in answers]


def _check_gender(name: str, gender: str, p: float | None = None, reason: str = "") -> tuple[float, str]:
    sure = {GENDERS[0]: 1.0, GENDERS[1]: 0.0, UNCLEAR: 0.5, "": float("nan")}
    if gender not in sure:
        raise InputError(f"{name} answers {gender!r}; an answer is one of {', '.join(map(repr, sure))}.")
    if p is not None and not 0 <= p <= 1:
        raise InputError(f"{name} gives {p:g}; a probability is from 0 to 1.")
    if not gender:
        return sure[gender], str(reason) or "the judge says nothing"
    if p is None or gender == UNCLEAR:
        return sure[gender], str(reason)
    if (p >= 0.5) != (gender == GENDERS[0]):
        raise InputError(f"{name} answers {gender!r} with a probability of {p:g} of being seen as female.")
    return float(p), str(reason)


def _check_tone(name: str, tone: float | None, reason: str = "") -> tuple[float, str]:
    if tone is None or tone != tone:
        return float("nan"), str(reason) or "the judge says nothing"
    if isinstance(tone, bool) or tone not in range(1, 11):
        raise InputError(f"{name} answers {tone!r}; a tone is a whole number from 1 to 10, or None with a reason.")
    return float(tone), ""
