"""Damaged copies of files, each made from a number: the same number damages the same file in the same way."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.protobuf import DamagedError, fields

_LONGEST_PART = 4_000
_DIGIT = re.compile(rb"[0-9]")
_LARGEST_JSON = 1 << 18
"""Bytes. A longer document is damaged as bytes only."""
_DEEPEST = 5
NUMBERS = ("-1", "0", "1e999", "-1e308", "4294967296", "9223372036854775807", "-9223372036854775808", "99999999999999999999999", "NaN")
WORDS = (*NUMBERS, "null", "true", '"x"', "[]", "{}", "")
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
VALUES: tuple[object, ...] = (
    None,
    True,
    "",
    "x" * 5000,
    "\x1b[31m\u202e\0",
    -1,
    0,
    1.5,
    1 << 31,
    (1 << 63) - 1,
    1 << 64,
    1e308,
    [],
    {},
    [[]],
)


def content(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def damaged(data: bytes, number: int) -> bytes:
    """The copy with that number: numbers that follow each other damage in different ways, every eighth in several."""
    chance = random.Random(number)
    way = number % (len(_WAYS) + 1)
    for _ in range(1 if way < len(_WAYS) else chance.randrange(2, 5)):
        data = (_WAYS[way] if way < len(_WAYS) else chance.choice(_WAYS))(data or b"\0", chance)
    return data


def damaged_copies(data: bytes, count: int) -> Iterator[bytes]:
    return (damaged(data, number) for number in range(count))


def says_one_sentence(error: AiflameError) -> bool:
    return bool(str(error).strip()) and "\n" not in str(error)


def _flip(data: bytes, chance: random.Random) -> bytes:
    copy = bytearray(data)
    for _ in range(chance.choice([1, 3, 12, 64])):
        copy[chance.randrange(len(copy))] = chance.randrange(256)
    return bytes(copy)


def _cut(data: bytes, chance: random.Random) -> bytes:
    """Takes out a part, or all that follows."""
    at, until = _part(data, chance)
    return data[:at] + (data[until:] if chance.random() < 0.5 else b"")


def _double(data: bytes, chance: random.Random) -> bytes:
    at, until = _part(data, chance)
    return data[:until] + data[at:until] * chance.choice([1, 1, 1, 20]) + data[until:]


def _swap_parts(data: bytes, chance: random.Random) -> bytes:
    """Two lines, or in a file without lines two parts, change their places."""
    end = b"\n" if data.count(b"\n") > 3 else b""
    parts = data.split(end) if end else [data[at : at + 16] for at in range(0, len(data), 16)]
    for _ in range(chance.choice([1, 1, 5])):
        one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        parts[one], parts[other] = parts[other], parts[one]
    return end.join(parts)


def _replace_numbers(data: bytes, chance: random.Random) -> bytes:
    """Digits of a text become other words; words of 1 to 8 bytes become the largest and smallest numbers."""
    copy = bytearray(data)
    places = [digit.start() for digit in _DIGIT.finditer(data)]
    texts = len(places) > len(data) // 50 and b"\0" not in data[:1000]
    for _ in range(chance.choice([1, 2, 6])):
        if texts:
            place = chance.choice(places)
            until = place + 1
            while chance.random() < 0.9 and data[until : until + 1].isdigit():
                until += 1
            copy[place:until] = chance.choice(WORDS).encode()
        else:
            size = chance.choice([1, 2, 4, 8])
            place = chance.randrange(len(copy))
            copy[place : place + size] = (chance.choice(EDGES) % (1 << 8 * size)).to_bytes(size, chance.choice(("big", "little")))  # type: ignore[arg-type]
        copy = copy or bytearray(1)
    return bytes(copy)


def _swap_values(data: bytes, chance: random.Random) -> bytes:
    """Values of a JSON document change their places, become something else, or are there twice; other files have their bytes flipped."""
    if data.lstrip()[:1] not in (b"{", b"[") or len(data) > _LARGEST_JSON:
        return _flip(data, chance)
    try:
        root = {"": json.loads(data)}
    except (ValueError, RecursionError):
        return _flip(data, chance)
    for _ in range(chance.choice([1, 1, 3, 10])):
        places = list(_places(root))
        if not places:
            break
        (holder, key), (other, other_key) = chance.choice(places), chance.choice(places)
        match chance.randrange(4):
            case 0:
                holder[key], other[other_key] = other[other_key], holder[key]
            case 1:
                holder[key] = chance.choice(VALUES)
            case 2 if isinstance(holder, list):
                holder[key:key] = [holder[key]] * chance.choice([1, 1, 30])
            case _:
                del holder[key]
        try:
            written = json.dumps(root.get(""))
        except ValueError:
            break  # a value was put into itself
        if len(written) > 4 * _LARGEST_JSON:
            break
        data, root = written.encode(), {"": json.loads(written)}
    return data


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each value in lists and objects, as its holder and key."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, inner in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(inner, (dict, list)):
                waiting.append(inner)


def _change_lengths(data: bytes, chance: random.Random) -> bytes:
    """Lengths and numbers in messages of protocol buffers become others; a file without messages has numbers replaced."""
    places = _wire(data)
    if len(places) < 3:
        return _replace_numbers(data, chance)
    for _ in range(chance.choice([1, 1, 3])):
        at, until, value = chance.choice(places)
        new = chance.choice([value + 1, max(value - 1, 0), value * 2, *EDGES])
        data = data[:at] + _varint(new) + data[until:]
    return data


def _wire(data: bytes, begin: int = 0, depth: int = 0) -> list[tuple[int, int, int]]:
    """Where each varint lies that is a length or a value, and its value."""
    places: list[tuple[int, int, int]] = []
    at = 0
    try:
        sound = sum(1 for _ in fields(data)) > 0
    except DamagedError:
        sound = False
    while sound and at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 in (0, 2):
            value, until = _read_varint(data, at)
            places.append((begin + at, begin + until, value))
            at = until
            if tag & 7 == 2:
                if depth < _DEEPEST:
                    places += _wire(data[at : at + value], begin + at, depth + 1)
                at += value
        else:
            at += 8 if tag & 7 == 1 else 4
    return places


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _part(data: bytes, chance: random.Random) -> tuple[int, int]:
    at, until = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return at, min(until, at + chance.choice([1, 20, _LONGEST_PART]))


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _double,
    _swap_parts,
    _replace_numbers,
    _swap_values,
    _change_lengths,
)
