"""MsgPack, as profilers write it: numbers, texts, lists and maps, without a limit to how deeply they are nested."""

from __future__ import annotations

import struct
from collections.abc import Callable

from aiflame.exchange.readers.protobuf import DamagedError

_MOST_VALUES = 20_000_000
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    **{0xCC + power: struct.Struct(f">{letter}") for power, letter in enumerate("BHIQ")},
    **{0xD0 + power: struct.Struct(f">{letter}") for power, letter in enumerate("bhiq")},
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
}
_SIZED = {0xD9: (1, "text"), 0xDA: (2, "text"), 0xDB: (4, "text"), 0xC4: (1, "bytes"), 0xC5: (2, "bytes"), 0xC6: (4, "bytes"),
          0xDC: (2, "list"), 0xDD: (4, "list"), 0xDE: (2, "map"), 0xDF: (4, "map")}  # fmt: skip


def unpacked(data: bytes) -> object:
    """The value that the bytes begin with. Keys of maps are texts."""
    values: list[object] = []
    waiting: list[tuple[Callable[[object], None], int, dict[str, object] | None]] = [(values.append, 1, None)]
    at = count = 0
    while waiting:
        put, left, keyed = waiting.pop()
        if not left:
            continue
        waiting.append((put, left - 1, keyed))
        count += 1
        if count > _MOST_VALUES:
            raise DamagedError(f"it has more than {_MOST_VALUES:,} values")
        if keyed is not None:
            key, at = _next(data, at)
            if not isinstance(key, str):
                raise DamagedError("a key is no text")
            put = _Put(keyed, key)
        value, at = _next(data, at)
        if isinstance(value, _Container):
            content: list[object] | dict[str, object] = {} if value.keyed else []
            put(content)
            if isinstance(content, dict):
                waiting.append((values.append, value.size, content))
            else:
                waiting.append((content.append, value.size, None))
        else:
            put(value)
    return values[0]


class _Put:
    def __init__(self, content: dict[str, object], key: str) -> None:
        self._content, self._key = content, key

    def __call__(self, value: object) -> None:
        self._content[self._key] = value


class _Container:
    def __init__(self, size: int, keyed: bool) -> None:
        self.size, self.keyed = size, keyed


def _next(data: bytes, at: int) -> tuple[object, int]:
    """A value, or how many follow, and the place behind it."""
    first = _whole(data, at, 1)
    at += 1
    if first < 0x80 or first >= 0xE0:
        return first if first < 0x80 else first - 256, at
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if number := _NUMBERS.get(first):
        if len(data) - at < number.size:
            raise DamagedError("a number is cut off")
        return number.unpack_from(data, at)[0], at + number.size
    if first < 0xC0:
        size, kind = (first & 0xF, "list" if first >= 0x90 else "map") if first < 0xA0 else (first & 0x1F, "text")
    elif first in _SIZED:
        width, kind = _SIZED[first]
        size, at = _whole(data, at, width), at + width
    else:
        raise DamagedError(f"a value has the type {first:#x}, which no profiler writes")
    if size > len(data) - at:
        raise DamagedError(f"a {kind} should have {size:,} parts, and {len(data) - at:,} bytes are left")
    if kind in ("list", "map"):
        return _Container(size, kind == "map"), at
    content = data[at : at + size]
    return content.decode("utf-8", "replace") if kind == "text" else content, at + size


def _whole(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise DamagedError("the end is missing")
    return int.from_bytes(data[at : at + width], "big")
