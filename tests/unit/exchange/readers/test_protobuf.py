"""The wire format of protocol buffers, against an encoder written here from its description."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.errors import AiflameError
from aiflame.exchange.readers.protobuf import (
    DamagedError,
    double,
    fields,
    message,
    messages,
    numbers,
    signed,
    single,
    text,
    unsigned,
    zigzag,
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sized(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


FIELDS = st.lists(st.tuples(st.integers(1, (1 << 29) - 1), st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=300))), max_size=20)


def encoded(of: list[tuple[int, int | bytes]]) -> bytes:
    return b"".join(number(field, value) if isinstance(value, int) else sized(field, value) for field, value in of)


@given(FIELDS)
def test_what_was_written_is_read(of: list[tuple[int, int | bytes]]) -> None:
    assert [(field, value if isinstance(value, int) else bytes(value)) for field, value in fields(encoded(of))] == of


@given(FIELDS, st.integers(1, 40))
def test_blocks_of_any_size_give_the_same_fields(of: list[tuple[int, int | bytes]], size: int) -> None:
    data = encoded(of)
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    assert [(field, value if isinstance(value, int) else bytes(value)) for field, value in messages(blocks, 1000)] == of


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_packed_numbers(of: list[int]) -> None:
    assert numbers(memoryview(b"".join(map(varint, of)))) == of


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_in_both_ways(of: int) -> None:
    assert [signed(value) for _, value in fields(number(1, of))] == [of]
    assert [zigzag(value) for _, value in fields(number(1, of << 1 ^ of >> 63))] == [of]


def test_fractions_have_fixed_sizes() -> None:
    data = varint(1 << 3 | 1) + struct.pack("<d", -2.5) + varint(2 << 3 | 5) + struct.pack("<f", 0.75)
    (_, of_64), (_, of_32) = fields(data)
    assert (double(of_64), single(of_32)) == (-2.5, 0.75)


def test_texts_are_read_as_far_as_they_are_utf8() -> None:
    ((_, value),) = fields(sized(3, b"a\xffb"))
    assert text(value) == "a\ufffdb"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x08", "cut off"),
        (b"\x08" + b"\x80" * 3, "cut off"),
        (b"\x08" + b"\xff" * 11, "more than 64 bits"),
        (b"\x0a\x05abc", "should have 5 bytes, and 3 are left"),
        (b"\x0a" + varint((1 << 64) - 1), "should have 18,446,744,073,709,551,615 bytes"),
        (b"\x09abc", "cut off"),
        (b"\x0dabc", "cut off"),
        (b"\x0b", "type 3"),
        (b"\x0f", "type 7"),
        (b"\x00\x00", "number 0"),
        (varint(1 << 40), "too large"),
    ],
)
def test_damage_is_an_error_that_says_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(DamagedError, match=says):
        list(fields(data))
    with pytest.raises(AiflameError):
        list(messages([data], 1000))


def test_a_field_that_is_too_large_is_refused_before_it_is_kept() -> None:
    with pytest.raises(DamagedError, match="more than 10 are not read"):
        next(messages([b"\x0a\x0b"], 10))


def test_a_field_of_the_other_kind_is_an_error() -> None:
    with pytest.raises(DamagedError):
        message(3)
    with pytest.raises(DamagedError):
        unsigned(memoryview(b"a"))
    with pytest.raises(DamagedError):
        text(3)


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_an_error(data: bytes) -> None:
    try:
        for _, value in fields(data):
            assert isinstance(value, int) or len(value) <= len(data)
    except DamagedError:
        pass
