"""Pickles of plain data are read as Python reads them; any other is refused in a sentence, and nothing in it is called."""

from __future__ import annotations

import collections
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from aiflame.exchange.readers.memory.pickles import NotPlainError, plain_data

EVIDENCE: list[str] = []


def call(text: str) -> None:
    EVIDENCE.append(text)


class Caller:
    def __reduce__(self) -> tuple[Any, ...]:
        return call, ("called",)


def read(data: bytes) -> Any:
    return plain_data(data, lambda share: None)


PLAIN: list[Any] = [
    None,
    True,
    False,
    0,
    255,
    256,
    65_536,
    -1,
    -(1 << 31),
    1 << 31,
    (1 << 64) - 1,
    1.5,
    "",
    "a",
    "ünïcode 🔥",
    "long " * 99,
]
BYTES: list[Any] = [b"", b"\0\xff", b"x" * 300]


def some_data(chance: random.Random, plain: list[Any], depth: int = 0) -> Any:
    match chance.randrange(5) if depth < 5 else 0:
        case 1:
            return [some_data(chance, plain, depth + 1) for _ in range(chance.randrange(6))]
        case 2:
            return tuple(some_data(chance, plain, depth + 1) for _ in range(chance.randrange(6)))
        case 3:
            return {f"key {number}": some_data(chance, plain, depth + 1) for number in range(chance.randrange(5))}
        case _:
            return chance.choice(plain)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_what_python_reads(protocol: int) -> None:
    chance = random.Random(protocol)
    plain = PLAIN + (BYTES if protocol > 2 else [])  # bytes are a call before protocol 3
    for _ in range(60):
        shared = some_data(chance, plain)
        value = [some_data(chance, plain), shared, {"shared": shared}, [[number] for number in range(300)]]
        assert read(pickle.dumps(value, protocol)) == value


def test_shared_lists_stay_shared_and_a_list_may_contain_itself() -> None:
    value: list[Any] = [[1]]
    value += [value[0], value]
    again = read(pickle.dumps(value, 4))
    assert again[1] is again[0]
    assert again[2] is again


@pytest.mark.parametrize(
    "value",
    [Caller(), [1, {"a": Caller()}], collections.OrderedDict(a=1), Path("a"), len, Caller, 1j],
    ids=["call", "inside", "OrderedDict", "Path", "function", "class", "complex"],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_with_code_is_refused_and_not_run(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    EVIDENCE.clear()
    with pytest.raises(NotPlainError, match="a pickle with code is refused"):
        read(data)
    assert EVIDENCE == []


def test_each_instruction_that_reaches_outside_is_refused() -> None:
    outside = [
        b"cos\nsystem\n",
        b"(ios\nsystem\n",
        b"\x82\x01",
        b"\x83\x01\0",
        b"\x84\x01\0\0\0",
        b"Pid\n",
        b"NQ",
        b"N(\x81",
        b"N)R",
        b"NNb",
        b"(No",
    ]
    for code in outside:
        with pytest.raises(NotPlainError, match="refused"):
            read(b"\x80\x02" + code + b".")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x04" + b"(" * 200 + b".", "nested too deeply"),
        (b"\x80\x04]r\xff\xff\xff\x7f.", "with gaps"),
        (b"\x80\x04\x8b" + struct.pack("<i", 1 << 20) + b"\0" * (1 << 20) + b".", "a number of 1,048,576 bytes"),
        (b"\x80\x04\x8b" + struct.pack("<i", -1) + b".", "a number of -1 bytes"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.", "a text of"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.", "a text of"),
        (b"\x80\x04}K\x01K\x02s.", "whose keys are no texts"),
        (b"\x80\x04}(K\x01K\x02u.", "whose keys are no texts"),
        (b"\x80\x04}(\x8c\x01au.", "whose keys are no texts"),
        (b"\x80\x04]", "ends in the middle"),
        (b"\x80\x04h\x05.", "ends in the middle"),
        (b"\x80\x04\x86.", "ends in the middle"),
        (b"\x80\x04.", "ends in the middle"),
        (b"\x80\x04u.", "ends in the middle"),
        (b"\x80\x04K\x01K\x02a.", "no container"),
        (b"\x80\x04\x8f.", "0x8f"),
    ],
)
def test_a_damaged_or_hostile_pickle_is_refused_in_a_sentence(data: bytes, said: str) -> None:
    with pytest.raises(NotPlainError, match=said):
        read(data)


def test_memory_is_bounded() -> None:
    """Each byte of such a pickle is an object of 64 bytes."""
    many = b"\x80\x04" + b"]0" * 40_000
    assert plain_data(many + b"N.", lambda share: None, 3_000_000) is None
    with pytest.raises(NotPlainError, match="more than 2 MB"):
        plain_data(many + b"N.", lambda share: None, 2_000_000)
