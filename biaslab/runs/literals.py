"""The cell of a notebook that sets its parameters, read so that a run can set them and its record is true.

papermill puts a run's values into a cell below that one. So each parameter must be a name that the cell sets to a
literal, once, with an annotation or without, and that no later cell sets again.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from biaslab.ground.errors import ParameterError

TAG = "parameters"
"""The tag of the cell."""
NO_CODE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What Python raises for code that is none, or lies too deep in itself."""
_INJECTED = "injected-parameters"


def parameters(cells: Sequence[tuple[str, str, set[str]]]) -> dict[str, Any]:
    """Return the defaults that the tagged cell sets.

    Args:
        cells: Source, type and tags of each cell, one of which is tagged at least.

    Raises:
        ParameterError: The notebook would compute with another value than a run sets, or than its record says.
    """
    at, *others = [i for i, (_, _, tags) in enumerate(cells) if TAG in tags]
    source, kind, _ = cells[at]
    if others:
        raise ParameterError(
            f"Cells {at + 1} and {others[0] + 1} are tagged 'parameters', and a run would set those of the first. Put "
            "it all into one."
        )
    if kind != "code":
        raise ParameterError(f"Cell {at + 1} is tagged 'parameters' and is no code. Tag the cell that sets them.")
    if any(_INJECTED in tags for _, _, tags in cells[:at]):
        raise ParameterError("Values of an earlier run stand above the cell tagged 'parameters'. Delete that cell.")
    defaults: dict[str, Any] = {}
    line = 1
    try:
        for node in ast.parse(source).body:
            line = node.lineno
            if isinstance(node, ast.Expr | ast.Pass):
                continue
            imports = isinstance(node, ast.Import | ast.ImportFrom)
            bound = {a.asname or a.name: None for a in node.names} if imports else dict([_assigned(node)])
            if twice := bound.keys() & defaults.keys():
                raise ValueError(f"{min(twice)} is set twice")
            defaults |= {} if imports else bound
    except NO_CODE as error:
        line = getattr(error, "lineno", None) or line
        why = getattr(error, "msg", "") or f"{error!s:.200}" or "it lies too deep in itself"
        raise ParameterError(
            f"The cell tagged 'parameters' must set literals only, one name each, such as `seed = 1`; cell {at + 1}, "
            f"line {line} ({_line(source, line)}) does not: {why}."
        ) from None
    for i, (later, kind, _) in enumerate(cells[at + 1 :], start=at + 1):
        if kind == "code" and (again := _set_again(later, defaults)):
            name, line = again
            raise ParameterError(
                f"Cell {i + 1}, line {line} ({_line(later, line)}) sets {name} again, so what a run sets would have no "
                "effect. Take the line out, or give it another name."
            )
    return defaults


def _line(source: str, number: int) -> str:
    # An error may lie behind the last.
    return "".join(f"`{line.strip():.80}`" for line in source.splitlines()[number - 1 : number]) or "its end"


def _target(node: ast.stmt) -> str | None:
    """Return the one name that an assignment gives a value to; None for all else."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    one = isinstance(node, ast.Assign | ast.AnnAssign) and [*map(type, targets)] == [ast.Name]
    return targets[0].id if one else None


def _assigned(node: ast.stmt) -> tuple[str, Any]:
    """Return name and value that an assignment of a literal to one name gives; a ValueError for all else."""
    if (name := _target(node)) is None:
        raise ValueError("it is no assignment to one name")
    if node.value is None:
        raise ValueError(f"{name} has no value")
    try:
        return name, ast.literal_eval(node.value)
    except NO_CODE:
        raise ValueError(f"{ast.unparse(node.value):.80} is none") from None


def _set_again(cell: str, names: Collection[str]) -> tuple[str, int] | None:
    """Return which of some names a cell sets to a literal, and in which line."""
    # What is no Python is a magic, or a mistake that the notebook itself will tell of.
    with contextlib.suppress(*NO_CODE):
        for node in parsed(cell).body:
            if _target(node) in names:
                with contextlib.suppress(ValueError):
                    return _assigned(node)[0], node.lineno
    return None


@lru_cache(maxsize=2048)
def parsed(cell: str) -> ast.Module:
    """Return a cell's code as Python reads it, to be looked at and not changed; one of NO_CODE where it is none."""
    return ast.parse(cell)
