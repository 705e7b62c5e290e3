"""The cell of a notebook that sets its parameters, read so that a run can set them and its record is true.

papermill puts a run's values into a cell below that one. So each parameter must be a name that the cell sets to a
literal, once, with an annotation or without, and that no later cell sets again.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from biaslab.ground.errors import ParameterError

TAG = "parameters"
"""The tag of the cell."""
NO_CODE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What Python raises for code that is none, or lies too deep in itself."""
_INJECTED = "injected-parameters"
# The kinds of values that annotations name; a run gives lists for tuples.
_ANNOTATIONS = {
    **{kind.__name__: (kind,) for kind in (str, int, float, bool)},
    **dict.fromkeys(("list", "List", "Sequence", "tuple", "Tuple"), (list,)),
    **dict.fromkeys(("dict", "Dict", "Mapping"), (dict,)),
    "Optional": (type(None),),
}


def parameters(
    cells: Sequence[tuple[str, str, set[str]]],
) -> tuple[dict[str, Any], dict[str, tuple[type, ...]]]:
    """Return the defaults that the tagged cell sets, and of which kinds each may be; without kinds, of any.

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
        raise ParameterError(
            f"Cell {at + 1} is tagged 'parameters' and is no code. Tag the cell that sets them."
        )
    if any(_INJECTED in tags for _, _, tags in cells[:at]):
        raise ParameterError(
            "Values of an earlier run stand above the cell tagged 'parameters'. Delete that cell."
        )
    defaults: dict[str, Any] = {}
    kinds: dict[str, tuple[type, ...]] = {}
    line = 1
    try:
        for node in ast.parse(source).body:
            line = node.lineno
            if isinstance(node, ast.Expr | ast.Pass):
                continue
            if isinstance(node, ast.Import | ast.ImportFrom):
                bound = {alias.asname or alias.name for alias in node.names}
            else:
                name, value, own = _assigned(node)
                bound = {name}
            if twice := bound & {*defaults}:
                raise ValueError(f"{min(twice)} is set twice")
            if not isinstance(node, ast.Import | ast.ImportFrom):
                defaults[name], kinds[name] = value, own
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
    return defaults, kinds


def _line(source: str, number: int) -> str:
    # An error may lie behind the last.
    return "".join(f"`{line.strip():.80}`" for line in source.splitlines()[number - 1 : number]) or "its end"


def _assigned(node: ast.stmt) -> tuple[str, Any, tuple[type, ...]]:
    """Return name, value and kinds that an assignment of a literal to one name gives; a ValueError for all else."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=given):
            annotated: tuple[type, ...] = ()
        case ast.AnnAssign(target=ast.Name(id=name), value=given):
            annotated = _kinds_of(node.annotation)
        case _:
            raise ValueError("it is no assignment to one name")
    if given is None:
        raise ValueError(f"{name} has no value")
    try:
        value = ast.literal_eval(given)
    except NO_CODE:
        raise ValueError(f"{_written(given)} is none") from None
    # What says None and nothing else may be anything.
    own = () if value is None and not annotated else (list if isinstance(value, tuple) else type(value),)
    return name, value, tuple(dict.fromkeys((*annotated, *own)))


def _kinds_of(annotation: ast.expr) -> tuple[type, ...]:
    """Return the kinds of values that an annotation names; none where it says nothing of them."""
    match annotation:
        case ast.Constant(value=None):
            return (type(None),)
        case ast.Constant(value=str(text)):
            with contextlib.suppress(*NO_CODE):
                return _kinds_of(ast.parse(text.strip(), mode="eval").body)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return (*_kinds_of(left), *_kinds_of(right))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _ANNOTATIONS.get(name, ())
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            inside = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name == "Literal":
                return tuple(type(one.value) for one in inside if isinstance(one, ast.Constant))
            if name in ("Optional", "Union", "Final", "Annotated"):
                inside = inside[:1] if name == "Annotated" else inside
                return (*(kind for one in inside for kind in _kinds_of(one)), *_ANNOTATIONS.get(name, ()))
            return _ANNOTATIONS.get(name, ())
    return ()


def _written(value: ast.expr) -> str:
    try:
        return f"{ast.unparse(value):.80}"
    except RecursionError:
        return "what lies so deep in itself"


def _set_again(cell: str, names: Collection[str]) -> tuple[str, int] | None:
    """Return which of some names a cell sets to a literal, and in which line."""
    # What is no Python is a magic, or a mistake that the notebook itself will tell of.
    with contextlib.suppress(*NO_CODE):
        for node in ast.parse(cell).body:
            with contextlib.suppress(ValueError):
                name, *_ = _assigned(node)
                if name in names:
                    return name, node.lineno
    return None
