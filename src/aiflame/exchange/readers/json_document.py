"""A JSON document as a whole, for formats whose files are nested and small; each value is taken with the type that it must have."""

from __future__ import annotations

import json
import math
from typing import Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.source import Source

_MOST = 192 << 20
"""Bytes: in memory they become ten times as many."""
_LARGEST = float(1 << 62)


def document(source: Source) -> dict[str, Any]:
    data = source.whole(_MOST)
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"))
    except RecursionError:
        raise AiflameError(f"{source.path} is nested too deep: no profiler writes such a file") from None
    except ValueError as error:
        raise AiflameError(f"{source.path} is no whole JSON document: {error}") from None
    if not isinstance(value, dict):
        raise AiflameError(f"{source.path} is no JSON object")
    return value


def begins_object(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> float | int | None:
    """A number that a computer can count with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > _LARGEST:
        return None
    return value


def whole(value: object, otherwise: int = 0) -> int:
    parsed = number(value)
    return otherwise if parsed is None else round(parsed)


def scaled(value: object, factor: int) -> int:
    """A number times the factor, rounded."""
    parsed = number(value)
    times = 0 if parsed is None else parsed * factor
    return round(times) if abs(times) < _LARGEST else 0


def item(values: list[Any], at: object) -> Any:
    """The value at an index; None where there is none."""
    return values[at] if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(values) else None


def file_of(url: str) -> str:
    """The path of a `file://` address; others stay."""
    return url.removeprefix("file://")
