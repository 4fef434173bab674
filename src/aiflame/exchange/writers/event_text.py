"""Text of events, made by `libaiflame_trace_writer.so` (native/trace_writer) for millions of rows: an event is a list of pieces, with the
numbers and the texts of its row in their places."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_bool, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.errors import AiflameError
from aiflame.values import dataclass

LIBRARY = Path(__file__).parents[2] / "lib" / "libaiflame_trace_writer.so"
_ROOM = 4 << 20
"""Bytes that are written at a time. A longer event gets more."""
_TEXT, _NUMBER, _MICROSECONDS, _CHOSEN, _AT_LEAST, _MEMBERS = range(6)


class _Piece(ctypes.Structure):
    _fields_ = (
        *(("kind", c_int32), ("count", c_int32), ("size", c_int64), ("text", c_char_p)),
        *(("column", c_void_p), ("ends", c_void_p)),
    )


class _Events(ctypes.Structure):
    _fields_ = (("pieces", POINTER(_Piece)), ("count", c_int64), ("rows", c_int64))


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts one after the other, by their number."""

    joined: bytes
    ends: NDArray[np.int64]
    """Where each ends; the first is 0."""

    @staticmethod
    def of(texts: Sequence[str]) -> Texts:
        encoded = [one.encode() for one in texts]
        sizes = np.fromiter((len(one) for one in encoded), dtype=np.int64, count=len(encoded))
        return Texts(b"".join(encoded), np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)]))


@dataclass(frozen=True, slots=True)
class Piece:
    kind: int
    column: str = ""
    text: bytes = b""
    ends: NDArray[np.int64] | None = None
    size: int = 0
    inner: tuple[Piece, ...] = ()

    def flat(self) -> Iterator[tuple[Piece, int]]:
        """The piece and those within, each with the number of pieces within it."""
        within = [pair for piece in self.inner for pair in piece.flat()]
        yield self, len(within)
        yield from within


def text(piece: str) -> Piece:
    encoded = piece.encode()
    return Piece(_TEXT, text=encoded, size=len(encoded))


def number(column: str) -> Piece:
    return Piece(_NUMBER, column)


def microseconds(column: str) -> Piece:
    """Nanoseconds as a decimal number of microseconds: no digit is lost."""
    return Piece(_MICROSECONDS, column)


def chosen(column: str, texts: Texts) -> Piece:
    """The text that the column numbers."""
    return Piece(_CHOSEN, column, texts.joined, texts.ends)


def at_least(column: str, least: int, *pieces: Piece) -> Piece:
    """Pieces of the rows whose number is not less."""
    return Piece(_AT_LEAST, column, size=least, inner=pieces)


def members(*pieces: Piece) -> Piece:
    """`,"args":{…}` of pieces that write `,"name":value` or nothing; nothing if they all do."""
    return Piece(_MEMBERS, inner=pieces)


def written(rows: pl.DataFrame, pieces: Sequence[Piece], is_first: bool) -> Iterator[memoryview]:
    """The text of an event for each row, in parts; each is valid until the next is asked for."""
    flat = [pair for piece in pieces for pair in piece.flat()]
    columns = {piece.column: _numbers(rows[piece.column]) for piece, _ in flat if piece.column}
    for piece, _ in flat:
        if piece.ends is not None:
            _check(columns[piece.column], len(piece.ends) - 1)
    native = (_Piece * len(flat))(*(_native(piece, count, columns) for piece, count in flat))
    events, row, room = _Events(native, len(flat), len(rows)), c_int64(0), bytearray(_ROOM)
    while row.value < len(rows):
        to = (ctypes.c_char * len(room)).from_buffer(room)
        size = _library().aiflame_events_write(ctypes.byref(events), ctypes.byref(row), is_first, to, len(room))
        del to
        if size:
            is_first = False
            yield memoryview(room)[:size]
        else:
            room = bytearray(2 * len(room))


def _native(piece: Piece, count: int, columns: dict[str, NDArray[np.int64]]) -> _Piece:
    column = columns[piece.column].ctypes.data if piece.column else None
    ends = piece.ends.ctypes.data if piece.ends is not None else None
    return _Piece(piece.kind, count, piece.size, piece.text, column, ends)


def _numbers(column: pl.Series) -> NDArray[np.int64]:
    if column.null_count():
        raise ValueError(f"{column.null_count()} events have no {column.name}")
    return np.ascontiguousarray(column.cast(pl.Int64).to_numpy())


def _check(which: NDArray[np.int64], count: int) -> None:
    if len(which) and (int(which.min()) < 0 or int(which.max()) >= count):
        raise IndexError("an event has a text that is not there")


@cache
def _library() -> ctypes.CDLL:
    """Calls of it let other Python threads run."""
    if not LIBRARY.is_file():
        raise AiflameError(f"the writer of events is missing at {LIBRARY}: reinstall aiflame (pip install --force-reinstall aiflame)")
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.aiflame_events_write.restype = c_size_t
    loaded.aiflame_events_write.argtypes = (POINTER(_Events), POINTER(c_int64), c_bool, c_void_p, c_size_t)
    return loaded
