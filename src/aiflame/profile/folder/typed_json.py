"""Reads JSON that a stranger may have written into a dataclass. Standard library alone."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

from aiflame.profile.folder.json_data import parse

_BEYOND = 1 << 63

T = TypeVar("T")


def parse_as(kind: type[T], data: bytes, *, most_values: int) -> T:
    """ValueError if `data` is not JSON, has too many values (`json_data.parse`), or values of other types. Unknown keys are ignored."""
    value: T = _build(kind, parse(data, most_values=most_values))
    return value


def _build(kind: Any, data: object) -> Any:
    """`data` as the dataclass, tuple, dict, union or scalar `kind`; ValueError when it is something else."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(data, dict):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _build(hints[name], value) for name, value in data.items() if name in hints})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(data, list):
        return tuple(_build(arguments[0], value) for value in data)
    if origin is dict and isinstance(data, dict):
        return {name: _build(arguments[1], value) for name, value in data.items()}
    if origin is types.UnionType:
        kind = next((choice for choice in arguments if _fits(choice, data)), None)
        return _build(kind, data)
    if kind is types.NoneType and data is None:
        return None
    if type(data) is kind and not (isinstance(data, int) and abs(data) >= _BEYOND):
        return data
    raise ValueError(f"expected {kind}")


def _fits(choice: Any, data: object) -> bool:
    return isinstance(data, dict) if dataclasses.is_dataclass(choice) else type(data) is choice
