"""Decodes records of EU stalls.

A record has an address and how often a thread was seen there, for each reason. Its layout depends on the generation of the GPU; it has no
time, no process and no kernel. The layouts are from Linux's xe_eu_stall.c, and for Xe3P from its successor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiflame.values import dataclass

RECORD_BYTES = 64
_INSTRUCTION_BITS = 3
"""The address counts units of 8 bytes."""
_FIELD_BITS = 8
_SHORT_NUMBER = 0
"""The kind of a value of Level Zero's that has 32 bits."""

_COMMON = ("other", "control", "pipestall", "send", "dist_acc", "sbid", "sync", "inst_fetch")


@dataclass(frozen=True, slots=True)
class Layout:
    ip_bits: int
    fields: tuple[str, ...]
    """the reasons, in the order of their 8 bits, which follow the address"""
    overflow_bit: int = 0
    """set in a record after which others were lost; 0: the GPU has none"""

    @property
    def address_bits(self) -> int:
        return self.ip_bits + _INSTRUCTION_BITS

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(f"eustall_{name}" for name in self.fields)


PONTE_VECCHIO = Layout(29, ("active", *_COMMON), overflow_bit=408)
XE2 = Layout(29, ("tdr", *_COMMON, "active"))
XE3P = Layout(61, ("tdr", *_COMMON, "active"))


def layout_of(version: tuple[int, int]) -> Layout | None:
    """The layout for a version of the graphics unit; None: not known."""
    if (12, 60) <= version < (12, 70):
        return PONTE_VECCHIO
    if 20 <= version[0] <= 30:
        return XE2
    return XE3P if version[0] == 35 else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Samples by address."""

    address: NDArray[np.uint64]
    """in bytes: each once, in order"""
    counts: NDArray[np.uint64]
    """a row for each address, a column for each reason"""
    overflows: int = 0

    def rows(self) -> bytes:
        """ROW of `profile/folder/eu_stall_files.py`."""
        at, reason = np.nonzero(self.counts)
        rows = np.empty(len(at), np.dtype([("address", "<u8"), ("reason", "<u4"), ("count", "<u4")]))
        rows["address"], rows["reason"] = self.address[at], reason
        rows["count"] = np.minimum(self.counts[at, reason], 0xFFFF_FFFF)
        return rows.tobytes()


def decode(records: bytes, layout: Layout) -> Counts:
    words = np.frombuffer(records[: len(records) // RECORD_BYTES * RECORD_BYTES], "<u8").reshape(-1, RECORD_BYTES // 8)
    address = (words[:, 0] & np.uint64((1 << layout.ip_bits) - 1)) << np.uint64(_INSTRUCTION_BITS)
    counts = [_bits(words, layout.ip_bits + place * _FIELD_BITS, _FIELD_BITS) for place in range(len(layout.fields))]
    overflows = int(_bits(words, layout.overflow_bit, 1).sum()) if layout.overflow_bit else 0
    return _added(address, np.stack(counts, axis=1), overflows)


def of_metrics(values: bytes, address: int, metrics: int) -> Counts:
    """Values of Level Zero's metrics, a row of `metrics` for each instruction; one of them is its address, in the same units."""
    typed = np.frombuffer(values, [("kind", "<u4"), ("padding", "<u4"), ("value", "<u8")])
    rows = np.where(typed["kind"] == _SHORT_NUMBER, typed["value"] & 0xFFFF_FFFF, typed["value"])
    rows = rows[: len(rows) // metrics * metrics].reshape(-1, metrics)
    return _added(rows[:, address] << np.uint64(_INSTRUCTION_BITS), np.delete(rows, address, axis=1), 0)


def together(parts: list[Counts]) -> Counts:
    """The sum of at least one part."""
    address, counts = np.concatenate([part.address for part in parts]), np.concatenate([part.counts for part in parts])
    return _added(address, counts, sum(part.overflows for part in parts))


def _bits(words: NDArray[np.uint64], first: int, count: int) -> NDArray[np.uint64]:
    word, shift = divmod(first, 64)
    value: NDArray[np.uint64] = words[:, word] >> np.uint64(shift)
    if shift + count > 64:
        value = value | words[:, word + 1] << np.uint64(64 - shift)
    value &= np.uint64((1 << count) - 1)
    return value


def _added(address: NDArray[np.uint64], counts: NDArray[np.uint64], overflows: int) -> Counts:
    order = np.argsort(address, kind="stable")
    address, counts = address[order], counts[order]
    first = np.flatnonzero(np.concatenate([np.ones(min(len(address), 1), np.bool_), address[1:] != address[:-1]]))
    return Counts(address[first], np.add.reduceat(counts, first, axis=0) if len(first) else counts, overflows)
