"""The metrics of files about memory, and bytes for people."""

from __future__ import annotations

KINDS = (
    ("live-at-peak", "bytes", "bytes live at the peak"),
    ("live-at-end", "bytes", "bytes live at the end of the trace"),
    ("allocated", "bytes", "bytes allocated"),
    ("allocations", "allocations", "allocations"),
)
PEAK, END, ALLOCATED, ALLOCATIONS = range(len(KINDS))
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:,.0f} {name}"
    return f"{size:,} bytes"
