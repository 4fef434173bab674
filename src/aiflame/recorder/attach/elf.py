"""The functions that a mapped file exports, read from the program's memory: the file may be another one by now, or in a container."""

from __future__ import annotations

import struct

from aiflame.recorder.looks.memory import Memory, UnreadableError

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _FUNCTION, _FUNCTION_THAT_CHOOSES = 2, 2, 10
_TEXTS, _SYMBOLS, _TEXTS_BYTES, _GNU_HASH, _HASH = 5, 6, 10, 0x6FFFFEF5, 4
_MOST_HEADERS, _LARGEST, _MOST_SYMBOLS = 64, 16 << 20, 1 << 18


def exported(memory: Memory, first: int, base: int) -> dict[bytes, tuple[int, int]]:
    """Address and size of each function; nothing of a file that is none of ours to read. `first`: where its headers are."""
    try:
        return _exported(memory, first, base)
    except (UnreadableError, struct.error, ValueError):
        return {}


def _exported(memory: Memory, first: int, base: int) -> dict[bytes, tuple[int, int]]:
    head = memory.read(first, 64)
    count = min(int.from_bytes(head[56:58], "little"), _MOST_HEADERS)
    headers = memory.read(first + int.from_bytes(head[32:40], "little"), count * _PROGRAM_HEADER.size)
    place = next((row for row in _PROGRAM_HEADER.iter_unpack(headers) if row[0] == _DYNAMIC), None)
    if place is None:
        return {}
    facts: dict[int, int] = {}
    for tag, value in struct.iter_unpack("<QQ", memory.read(base + place[3], min(place[6], 4096) // 16 * 16)):
        if tag == 0:
            break
        facts.setdefault(tag, value)

    def address(tag: int) -> int:
        return facts[tag] if facts[tag] >= base else base + facts[tag]

    if not {_TEXTS, _SYMBOLS, _TEXTS_BYTES} <= facts.keys():
        return {}
    if _GNU_HASH in facts:
        number = _count_by_gnu_hash(memory, address(_GNU_HASH))
    elif _HASH in facts:
        number = struct.unpack("<II", memory.read(address(_HASH), 8))[1]
    else:
        return {}
    if number > _MOST_SYMBOLS:
        return {}
    texts = memory.read(address(_TEXTS), min(facts[_TEXTS_BYTES], _LARGEST))
    functions = {}
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(memory.read(address(_SYMBOLS), number * _SYMBOL.size)):
        if section and info & 15 in (_FUNCTION, _FUNCTION_THAT_CHOOSES):
            functions[texts[name : texts.index(b"\0", name)]] = (base + value, size)
    return functions


def _count_by_gnu_hash(memory: Memory, at: int) -> int:
    """The number of symbols, from the last chain of the table."""
    buckets, offset, filters, _ = struct.unpack("<IIII", memory.read(at, 16))
    if buckets > _MOST_SYMBOLS or filters > _MOST_SYMBOLS:
        return 0
    table = at + 16 + 8 * filters
    last = max(struct.unpack(f"<{buckets}I", memory.read(table, 4 * buckets)), default=0)
    if last < offset:
        return int(offset)
    chain = table + 4 * buckets + 4 * (last - offset)
    while last < _MOST_SYMBOLS:
        if struct.unpack("<I", memory.read(chain, 4))[0] & 1:
            return int(last) + 1
        last, chain = last + 1, chain + 4
    return int(last)
