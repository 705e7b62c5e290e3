"""YAML that a user writes, in plain values: keys that come once, and dates as texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from biaslab.errors import BiaslabError, InputError
from biaslab.io import reading


def read(path: str | Path, *, most: int, error: type[BiaslabError] = InputError) -> Any:
    """Return what a file of at most ``most`` bytes says; an ``error`` where it is missing, no YAML, or not UTF-8."""
    import yaml

    try:
        return load(reading.text(path, "utf-8-sig", most=most))
    except FileNotFoundError:
        raise error(f"There is no file {path}. Name one that exists, in YAML.") from None
    except InputError as other:
        raise error(str(other)) from None
    except yaml.YAMLError as other:
        mark = getattr(other, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise error(f"{path} cannot be used as YAML{where}: {problem(other)}.") from None


def load(text: str) -> Any:
    """Return what YAML says; raise yaml.YAMLError for what cannot be in plain values."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except (ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        # What PyYAML does not check before it turns a text into a number, a date or a character.
        raise yaml.YAMLError(f"a value does not fit its kind ({error!s:.100})") from None


def problem(error: Exception) -> str:
    """Return what a yaml.YAMLError says is wrong."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


@cache
def _loader() -> type:
    """Return PyYAML's safe loader with keys that come once, and dates as texts: no value is one."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: ClassVar = {  # type: ignore[misc]  # PyYAML has it of classes, too.
            first: [(tag, pattern) for tag, pattern in some if not tag.endswith(":timestamp")]
            for first, some in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen and not key.tag.endswith(":merge"):
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    return Loader
