"""Tables of records: their typed columns, and the layout of a record as a C struct."""

from __future__ import annotations

from enum import Enum

from aiflame.values import dataclass


class Type(Enum):
    """A column's type: (C++ type, numpy dtype). A third item sets types apart that have the same two."""

    U8 = ("uint8_t", "u1")
    U16 = ("uint16_t", "<u2")
    U32 = ("uint32_t", "<u4")
    U64 = ("uint64_t", "<u8")
    I32 = ("int32_t", "<i4")
    I64 = ("int64_t", "<i8")
    STR = ("uint32_t", "<u4", "text")
    """A reference into the process's `strings` stream; text in a sealed profile."""
    BLOB = ("uint32_t", "<u4", "bytes")
    """A reference into the same stream; bytes in a sealed profile."""

    @property
    def cpp(self) -> str:
        return str(self.value[0])

    @property
    def numpy(self) -> str:
        return str(self.value[1])


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    doc: str


def columns(*rows: tuple[str, Type, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


@dataclass(frozen=True, slots=True)
class Table:
    """A record type. `cpp` is its struct name; a record's id is its place in the file, counted from 1."""

    name: str
    cpp: str
    doc: str
    columns: tuple[Column, ...]


COMMIT = Column("commit", Type.U32, "check word over the record, written last: 0 marks a record that was never finished")


def layout(of: tuple[Column, ...]) -> tuple[list[tuple[Column, int]], int]:
    """Each column with its offset in a C struct, and the size of the record, a multiple of 8."""
    placed, offset = [], 0
    for column in of:
        size = int(column.type.numpy[-1])
        offset = -(-offset // size) * size
        placed.append((column, offset))
        offset += size
    return placed, -(-offset // 8) * 8
