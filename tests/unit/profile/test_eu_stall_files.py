"""Files of EU stall samples: read as they were written, and without harm when they are damaged."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stalled_gpu import BASE, Program, recording, stretch

from aiflame.profile.folder.eu_stall_files import ROW, Block, Header, blocks, pack_block, pack_header, read_header
from aiflame.profile.opening import open_profile
from aiflame.profile.sealing.placed_code import functions_of

HEADER = Header("0000:03:00.0", 1, 1757, 64, ("eustall_active", "eustall_tdr"))
BLOCKS = [Block(begin, begin + 5, begin, b"".join(ROW.pack(1 << 63 | row, row % 2, row + 1) for row in range(begin))) for begin in range(4)]
FILE = pack_header(HEADER) + b"".join(map(pack_block, BLOCKS))


def _read(data: bytes) -> tuple[Header, list[Block | None]]:
    header, begin = read_header(data)
    return header, [one and Block(one.begin_ns, one.end_ns, one.dropped, bytes(one.rows)) for one in blocks(memoryview(data)[begin:])]


def test_read_as_written() -> None:
    assert _read(FILE) == (HEADER, BLOCKS)


@given(st.integers(0, len(FILE)))
def test_cut_off_anywhere(length: int) -> None:
    """The blocks before it are whole, and nothing is called damaged."""
    with contextlib.suppress(ValueError):
        _, read = _read(FILE[:length])
        assert read == BLOCKS[: len(read)]


@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_a_damaged_byte(at: int, difference: int) -> None:
    """No block has other rows than were written."""
    damaged = bytearray(FILE)
    damaged[at] ^= difference
    with contextlib.suppress(ValueError):
        _, read = _read(bytes(damaged))
        whole = [one for one in read if one is not None]
        assert whole == BLOCKS[: len(whole)] and len(whole) >= len(read) - 1


@pytest.mark.parametrize("rows", [1 << 24, (1 << 24) + 1, 0xFFFF_FFFF])
def test_a_number_of_rows_that_no_file_has(rows: int) -> None:
    read = list(blocks(memoryview(struct.pack("<IIQQQ", 0, rows, 1, 2, 0) + bytes(100))))
    assert read in ([], [None])


@pytest.mark.parametrize(
    "wrong", [{"address": 3}, {"period": 0}, {"period": True}, {"period": 1 << 31}, {"address_bits": 31}, {"reasons": (1,)}, {"unit": "0"}]
)
def test_a_header_of_other_values(wrong: dict[str, object]) -> None:
    fields = {"address": "", "unit": 0, "period": 251, "address_bits": 32, "reasons": ("a",), **wrong}
    with pytest.raises(ValueError, match="damaged"):
        read_header(pack_header(Header(**fields)))  # type: ignore[arg-type]


@given(st.binary(max_size=300), st.integers(0, 200))
def test_device_code_that_is_no_module(content: bytes, at: int) -> None:
    assert functions_of(content) == []
    whole = bytearray(
        b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 2, 205, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 1) + bytes(192)
    )
    whole[at : at + len(content)] = content
    for function in functions_of(bytes(whole)):
        assert function.size > 0


def test_reasons_that_the_header_does_not_have_and_times_that_run_backwards(tmp_path: Path) -> None:
    program = Program()
    program.load({"matmul": (BASE, 0x740)}, 10)
    good = stretch(300, 200, {(BASE, "eustall_sbid"): 5})
    rows = bytes(good.rows) + ROW.pack(BASE & 0xFFFF_FFFF, 77, 9) + ROW.pack((1 << 64) - 1, 0, 0xFFFF_FFFF)
    profile = open_profile(recording(tmp_path / "p", [program], [Block(good.begin_ns, good.end_ns, (1 << 64) - 1, rows)]))
    assert np.sum(profile.table("gpu_samples")["count"].to_numpy().astype(np.int64)) == 5 + 0xFFFF_FFFF
