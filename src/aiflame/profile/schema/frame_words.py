"""Unpacks frame words and the column `autograd`. No other Python code knows their bits.

A frame of a stack is one 64-bit word. Its top four bits are its kind; `enums.FrameKind` describes the bits below for each kind.
The collector packs the same words in `native/unwind/frames.hpp`, the recorder in `frame_packing`, `target/refusals.py` those of
tracebacks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.schema.enums import FrameKind, LeafFlag
from aiflame.profile.schema.frame_packing import ID, KIND, MODULE

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
FrameWords = NDArray[np.uint64]

_MODULE_BITS, _ID_BITS, _ROW_BITS, _ADDRESS_BITS = KIND - MODULE, KIND - ID, 32, 48

AUTOGRAD_THREAD = 0x7FFF
"""Bits of `autograd`: torch's number of the thread whose forward code made the node; 0: the program has no torch autograd."""
AUTOGRAD_BACKWARD = 1 << 15
"""Bit of `autograd`: set for the work of a node of the backward graph."""
_AUTOGRAD_THREAD_BITS = 15


def frame_kind(column: str = "frame") -> pl.Expr:
    """The kind of each word of a column."""
    return pl.col(column) // (1 << KIND)


def is_frame_of(kind: FrameKind, column: str = "frame") -> pl.Expr:
    """True where a word of the column has this kind."""
    return frame_kind(column) == kind


def code_of_python(column: str = "frame") -> pl.Expr:
    """The row of `codes` that a PYTHON word names."""
    return ((pl.col(column) // (1 << ID)) % (1 << _ID_BITS)).cast(pl.UInt32)


def module_of_native(column: str = "frame") -> pl.Expr:
    """The row of `modules` that a NATIVE word names."""
    return (pl.col(column) // (1 << MODULE) % (1 << _MODULE_BITS)).cast(pl.UInt32)


def frame_kinds(words: FrameWords) -> FrameWords:
    """The kind of each word."""
    return _bits(words, KIND, 64 - KIND)


def layer_rows(words: FrameWords) -> Ints:
    """The row of `layers` that each LAYER word names; 0 for words of other kinds."""
    return np.where(frame_kinds(words) == FrameKind.LAYER, _bits(words, 0, _ROW_BITS), 0).astype(np.int64)


def renumbered(column: str, *, codes: int, marks: int, modules: Mapping[int, int]) -> pl.Expr:
    """The words with new row numbers: `codes` and `marks` are added to the rows of those tables, and `modules` maps rows to new rows."""
    word, kind = pl.col(column), frame_kind(column)
    module = module_of_native(column)
    moved = module.replace_strict(modules, default=0, return_dtype=pl.UInt64)
    return (
        pl.when(kind == FrameKind.PYTHON)
        .then(word + (codes << ID))
        .when(kind == FrameKind.MARK)
        .then(word + marks)
        .when(kind == FrameKind.NATIVE)
        .then(word - module.cast(pl.UInt64) * (1 << MODULE) + moved * (1 << MODULE))
        .otherwise(word)
    )


def unpacked(frames: pl.DataFrame) -> pl.DataFrame:
    """The table with the unpacked fields of its column `frame` added: `word_kind`, `id` (row of the module, code object or method), `rest`
    (the low 32 bits), `address`, `offset` in a module, `exact` (the instruction itself, no return address), `approximate`."""
    word = frames["frame"].to_numpy().astype(np.uint64)
    kind = frame_kinds(word)
    native = (kind == FrameKind.NATIVE) | (kind == FrameKind.NATIVE_APPROX)
    module, number = _bits(word, MODULE, _MODULE_BITS), _bits(word, ID, _ID_BITS)
    return frames.with_columns(
        word_kind=pl.Series(kind.astype(np.uint8)),
        id=pl.Series(np.where(native, module, number).astype(np.uint32)),
        rest=pl.Series(_bits(word, 0, _ROW_BITS)),
        address=pl.Series(_bits(word, 0, _ADDRESS_BITS)),
        offset=pl.Series(word & np.uint64(LeafFlag.EXACT_PC - 1)),
        exact=pl.Series(native & (word & np.uint64(LeafFlag.EXACT_PC) != 0)),
        approximate=pl.Series(kind == FrameKind.NATIVE_APPROX),
    )


def is_backward(autograd: Ints) -> Mask:
    """True for work of nodes of the backward graph."""
    return autograd >= AUTOGRAD_BACKWARD


def is_backward_column(column: str = "autograd") -> pl.Expr:
    """`is_backward` of a column."""
    return pl.col(column) >= AUTOGRAD_BACKWARD


def is_forward(column: str = "autograd") -> pl.Expr:
    """True for work outside of the backward graph, in a program that has torch's autograd."""
    return pl.col(column).is_between(1, AUTOGRAD_THREAD)


def torch_thread(process: Ints, autograd: Ints) -> Ints:
    """One number for each of torch's threads in each process: process << 15 | torch's number."""
    return process << _AUTOGRAD_THREAD_BITS | autograd & AUTOGRAD_THREAD


def torch_thread_column() -> pl.Expr:
    """`torch_thread` of the columns `process` and `autograd`."""
    thread = pl.col("autograd").cast(pl.Int64) % (AUTOGRAD_THREAD + 1)
    return pl.col("process").cast(pl.Int64) * (1 << _AUTOGRAD_THREAD_BITS) + thread


def _bits(words: FrameWords, lowest: int, count: int) -> FrameWords:
    bits: FrameWords = words >> np.uint64(lowest) & np.uint64((1 << count) - 1)
    return bits
