"""User-written YAML as plain values: keys are unique, and dates are texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from biaslab.errors import BiaslabError, InputError
from biaslab.io import reading


def read(path: str | Path, *, most: int, error: type[BiaslabError] = InputError) -> Any:
    """Return the value in a file of at most ``most`` bytes. Raises ``error``: It is missing, or not YAML in UTF-8."""
    import yaml

    try:
        return load(reading.text(path, "utf-8-sig", most=most))
    except FileNotFoundError:
        raise error(f"There is no file {path}. Specify an existing YAML file.") from None
    except InputError as failure:
        raise error(str(failure)) from None
    except yaml.YAMLError as failure:
        mark = getattr(failure, "problem_mark", None)
        position = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise error(f"{path} cannot be read as YAML{position}: {problem(failure)}.") from None


def load(text: str) -> Any:
    """Return the value of YAML. Raises yaml.YAMLError: The text is invalid, or not made of plain values."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except (ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        # Errors that PyYAML does not catch when it converts a text to a number, a date or a character.
        raise yaml.YAMLError(f"a value is not valid for its type ({error!s:.100})") from None


def problem(error: Exception) -> str:
    """Return the problem stated by a yaml.YAMLError."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


@cache
def _loader() -> type:
    """Return PyYAML's safe loader with unique keys, and dates as texts, because no setting is a date."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: ClassVar = {  # type: ignore[misc]  # PyYAML has it of classes, too.
            character: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            keys = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in keys and not key.tag.endswith(":merge"):
                    problem = f"the key {key.value!r} occurs twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                keys.add(str(key.value))
            return super().construct_mapping(node, deep)

    return Loader
