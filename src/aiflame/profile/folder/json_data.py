"""JSON that a stranger may have written, read within bounds. Standard library alone."""

from __future__ import annotations

import json

_DEEPEST = 64
_SEPARATORS = (b",", b"[", b"{")


def parse(data: bytes, *, most_values: int) -> object:
    """ValueError if it is not JSON, nests deeper than our own files, or may have more than `most_values` values.

    A few bytes of JSON become objects of a hundred bytes, so values are counted before they are created. Separators within texts are
    counted, too.
    """
    if sum(data.count(separator) for separator in _SEPARATORS) > most_values:
        raise ValueError("too many values")
    try:
        return _shallow(json.loads(data), _DEEPEST)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _shallow(value: object, levels: int) -> object:
    if levels == 0:
        raise ValueError("nested too deeply")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            _shallow(inner, levels - 1)
    return value
