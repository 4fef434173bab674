"""The window of a ring: of which tables old rows may go, and how the newest time in a part of a file is found. Standard library alone.

Rows of these tables are events. All other tables define the things to which events refer (stacks, names, modules, threads …) and stay.
"""

from __future__ import annotations

import os
import struct

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, SPOOL_HEADER, TABLE
from aiflame.profile.schema.records import COMMIT, layout
from aiflame.values import dataclass

TIMES = {
    "cpu_samples": "time_ns",
    "waits": "time_ns",
    "loop_turns": "end_ns",
    "regions": "begin_ns",
    "region_ends": "end_ns",
    "counters": "time_ns",
    "layer_calls": "end_ns",
    "model_calls": "end_ns",
    "gradient_sums": "end_ns",
    "jit_calls": "end_ns",
    "calls": "end_ns",
    "launches": "end_ns",
    "kernels": "end_ns",
    "copies": "end_ns",
    "syncs": "end_ns",
    "allocations": "time_ns",
    "host_allocations": "time_ns",
    "host_frees": "time_ns",
    "pool_blocks": "time_ns",
    "physical_memory": "time_ns",
    "gpu_windows": "end_ns",
    "gpu_counters": "end_ns",
}
"""Tables of events → the column by which they grow old."""
BY_WINDOW = "gpu_samples"
"""Its rows have no time: they go with their row of `gpu_windows`."""

_FUTURE_NS = 1 << 62
_HEADER = {column.name: offset for column, offset in layout(SPOOL_HEADER)[0]}
_NEWEST_BYTES = 256 << 10
"""The end of a table is searched for its newest row. Threads reserve rows ahead, so the last one need not be the newest."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How the rows of a file are laid out."""

    size: int
    column: int
    """offset of the column by which rows are judged"""
    wide: bool = True
    """the column has 8 bytes, not 4"""
    header: int = HEADER_BYTES

    def around(self, begin: int, end: int) -> tuple[int, int]:
        """The part of the file with all rows of which a byte lies in [begin, end)."""
        first, last = max(begin - self.header, 0) // self.size, -(-(end - self.header) // self.size)
        return self.header + first * self.size, self.header + last * self.size

    def newest(self, descriptor: int, begin: int, end: int) -> int:
        """The highest value in rows of which a byte lies in [begin, end); 0: there is none."""
        first, last = self.around(begin, end)
        data = os.pread(descriptor, last - first, first)
        words = memoryview(data)[: len(data) // self.size * self.size].cast("Q" if self.wide else "I")
        width = 8 if self.wide else 4
        values = words[self.column // width :: self.size // width].tolist()
        return max((value for value in values if value < _FUTURE_NS), default=0) if values else 0


def rows_of(table: str) -> Rows:
    placed, size = layout((COMMIT, *TABLE[table].columns))
    name = "window" if table == BY_WINDOW else TIMES.get(table, "end_ns")
    return Rows(size, next(offset for column, offset in placed if column.name == name), wide=table != BY_WINDOW)


def reserved(descriptor: int) -> int:
    """The number of rows that a table's header says were reserved."""
    data = os.pread(descriptor, 8, _HEADER["next"])
    return int(struct.unpack("<Q", data)[0]) if len(data) == 8 else 0


def newest_ns(spool: Folder) -> int:
    """The newest time of any event in a spool; 0: it has none."""
    return max((newest_in(spool.folder(entry.name)) for entry in spool.entries() if entry.is_folder), default=0)


def newest_in(process: Folder) -> int:
    """The same of one process."""
    newest = 0
    for table in TIMES:
        with process.file(f"{table}.table") as file:
            if file is not None:
                rows = rows_of(table)
                end = rows.header + reserved(file.fileno()) * rows.size
                newest = max(newest, rows.newest(file.fileno(), max(end - _NEWEST_BYTES, rows.header), end))
    return newest


def next_data(descriptor: int, at: int) -> int | None:
    """Where the first byte at or behind `at` lies that is in no hole; None: there is none. `at` where holes cannot be found."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == 6 else at  # ENXIO
