"""Judges that other packages provide, found by the entry points ``biaslab.judges``.

A package declares ``[project.entry-points."biaslab.judges"]`` with ``name = "module:factory"``. The setting
``judging.gender: plugin:name`` or ``plugin:name:ARGUMENT`` calls ``factory(ARGUMENT, device=…, batch_size=…)``, and the
method ``judge(people)`` of the result. It returns for each :class:`biaslab.judges.person.Person` a gender (``female``,
``male``, ``unclear``, or empty), a probability of perceived as female (0 to 1, or None) and a reason.
``judging.skin_tone`` calls ``tones(people)``, which returns a tone (Monk scale, 1 to 10, or None) and a reason.

The factory may have ``image_domain`` (``drawings``, ``photographs``, which is the default, or ``any``), and
``files(ARGUMENT)``, the files and folders, such as weights, whose content is part of the keys of results.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from numbers import Real
from pathlib import Path
from typing import Any

from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.errors import BiaslabError, InputError, ParameterError, loading
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading
from biaslab.judges.judge import Answer, Judge, People
from biaslab.judges.judge_labels import UNCLEAR
from biaslab.schema.genders import GENDERS


class PluginJudge(Judge):
    """``plugin:NAME`` or ``plugin:NAME:ARGUMENT``: a judge of another package, whose answers are checked."""

    prefix = "plugin:"

    @cached_property
    def _entry(self) -> tuple[metadata.EntryPoint, str]:
        """The entry point of the name, and the argument after it; UnknownNameError if it is missing."""
        short, _, argument = self.argument.partition(":")
        return plugins.entry_point(plugins.JUDGES, short, "judge"), argument

    @property
    def _factory(self) -> Any:
        with loading(self.name, "a judge"):
            return self._entry[0].load()

    @property
    def domain(self) -> str:
        """The images for which it is suitable: the factory's attribute ``image_domain``, by default photographs.

        Raises ParameterError where the factory cannot be loaded, or declares another value.
        """
        domain = getattr(self._factory, "image_domain", hub.PHOTOGRAPHS)
        if domain not in (*hub.IMAGE_DOMAINS, hub.ANY):
            raise ParameterError(
                f"{self.name} declares {domain!r}; {self._entry[0].value}.image_domain must be drawings, "
                "photographs or any."
            )
        return domain

    def files(self) -> list[ModelFiles]:
        """Return nothing: the factory loads its own files. Raises as :attr:`domain`."""
        _ = self.domain
        return []

    def digest(self) -> str:
        """Return a digest of package, version, the factory's module, its argument, and their files.

        Raises ParameterError where the module or a file is missing, UnknownNameError where no package provides it.
        """
        point, argument = self._entry
        digest = hashlib.sha256(f"{code_digest.entry_digest(point)} {argument} ".encode())
        if argument and (path := Path(argument).expanduser()).is_file():
            digest.update(reading.content(path))
        find_files = getattr(self._factory, "files", lambda _: ())
        with _wrap_errors(self.name):
            paths = [Path(path).expanduser() for path in find_files(argument)]
        for path in paths:
            if not path.exists():
                raise ParameterError(f"{self.name} declares the file {path}, which does not exist.")
            for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
                digest.update(file.name.encode() + b"\0")
                with file.open("rb") as handle:
                    digest.update(hashlib.file_digest(handle, "sha256").digest())
        return digest.hexdigest()

    def load(self) -> Any:
        """Return the result of the factory. Raises InputError where it fails, else as :attr:`domain`."""
        factory = self._factory
        with _wrap_errors(self.name):
            return factory(self._entry[1], device=self.options.device, batch_size=self.options.judging.batch_size)

    def answers(self, people: People) -> list[Answer]:
        """Return one answer per person. Raises ParameterError where it does not judge gender, InputError where it
        fails or an answer is not allowed.
        """
        return [_read_gender(self.name, *answer) for answer in self._call("judge", people)]

    def tones(self, people: People) -> list[tuple[float, str]]:
        """Return one skin tone (Monk scale, 1 to 10, or NaN) and reason per person; raises as :meth:`answers`."""
        return [_read_tone(self.name, *tone[:2]) for tone in self._call("tones", people)]

    def _call(self, method: str, people: People) -> list[tuple]:
        if not callable(getattr(self.model, method, None)):
            raise ParameterError(
                f"{self.name} cannot be used here: the object that {self._entry[0].value} returns needs the method "
                f"`{method}(people)`."
            )
        with _wrap_errors(self.name):
            answers = [_as_tuple(self.name, answer) for answer in getattr(self.model, method)(people.persons)]
        if len(answers) != len(people.persons):
            raise InputError(
                f"{self.name} returns {len(answers)} answers about {len(people.persons)} people; it must return one "
                "answer per person."
            )
        return answers


class PluginTones(PluginJudge):
    """The same as a judge of skin tones."""

    task = "tones"


@contextmanager
def _wrap_errors(name: str) -> Iterator[None]:
    """Turn exceptions of a judge of another package into an InputError that states their type."""
    try:
        yield
    except BiaslabError:
        raise
    except (Exception, SystemExit) as error:
        message = " ".join(str(error).split())
        raise InputError(f"{name} failed: {type(error).__name__}: {message:.400}") from error


def _as_tuple(name: str, answer: Any) -> tuple:
    """Return an answer of another package as a tuple; InputError where it is not one, or has too many parts."""
    parts = () if isinstance(answer, str) else tuple(answer)
    if not 1 <= len(parts) <= 3:
        raise InputError(
            f"{name} returns {answer!r:.60}; an answer must be a tuple of gender, probability and reason, or of tone "
            "and reason."
        )
    return parts


def _read_gender(name: str, gender: str, p: float | None = None, reason: str = "") -> Answer:
    """Return an answer of another package: a gender without a probability counts as certain, ``unclear`` as 0.5."""
    sure = {GENDERS[0]: 1.0, GENDERS[1]: 0.0, UNCLEAR: 0.5, "": float("nan")}
    if not isinstance(gender, str) or gender not in sure:
        raise InputError(f"{name} returns {gender!r}; the gender must be one of {', '.join(map(repr, sure))}.")
    if p is not None and not (isinstance(p, Real) and 0 <= p <= 1):
        raise InputError(f"{name} returns {p!r:.60}; the probability must be a number from 0 to 1.")
    if not gender:
        return Answer(reason=str(reason) or "the judge gives no answer")
    if p is None or gender == UNCLEAR:
        return Answer(sure[gender], reason=str(reason))
    if (p >= 0.5) != (gender == GENDERS[0]):
        raise InputError(
            f"{name} returns {gender!r} with a probability of {p:g} for perceived as female, a contradiction."
        )
    return Answer(float(p), reason=str(reason))


def _read_tone(name: str, tone: float | None, reason: str = "") -> tuple[float, str]:
    is_number = isinstance(tone, Real) and not isinstance(tone, bool)
    if tone is None or (is_number and math.isnan(tone)):
        return float("nan"), str(reason) or "the judge gives no answer"
    if not is_number or tone not in range(1, 11):
        raise InputError(
            f"{name} returns {tone!r}; the tone must be a whole number from 1 to 10, or None with a reason."
        )
    return float(tone), ""
