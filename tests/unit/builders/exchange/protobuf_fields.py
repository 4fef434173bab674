"""Protobuf messages taken apart by the format's documents, strictly: https://protobuf.dev/programming-guides/encoding/."""

from __future__ import annotations

Fields = list[tuple[int, "int | bytes"]]


def fields(data: bytes) -> Fields:
    """The fields of a message in their order: numbers of varints, bytes of all others."""
    answer: Fields = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        assert tag >> 3 and kind in (0, 1, 2), "no field has number 0, and no other kind is written"
        if kind == 0:
            value, at = varint(data, at)
            answer.append((tag >> 3, value))
            continue
        size, at = (8, at) if kind == 1 else varint(data, at)
        assert at + size <= len(data)
        answer.append((tag >> 3, data[at : at + size]))
        at += size
    return answer


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            assert value < 1 << 64
            return value, at


def one(message: bytes, field: int, otherwise: int | bytes = 0) -> int | bytes:
    return next((value for number, value in fields(message) if number == field), otherwise)


def several(message: bytes, field: int) -> list[bytes]:
    return [value for number, value in fields(message) if number == field and isinstance(value, bytes)]


def packed(message: bytes, field: int) -> list[int]:
    """A repeated field of whole numbers, of 64 bits with a sign."""
    numbers = []
    for data in several(message, field):
        at = 0
        while at < len(data):
            value, at = varint(data, at)
            numbers.append(value - (1 << 64) if value >> 63 else value)
    return numbers
