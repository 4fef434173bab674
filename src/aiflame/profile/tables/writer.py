"""Writes the tables of a sealed profile, piece by piece: for sealing, and for traces that are imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import TABLES
from aiflame.profile.tables.index import Index, Part, write_part

_PART_BYTES = 64 << 20
_NO_LIMIT = 1 << 62


def _always() -> None:
    pass


class TableWriter:
    """Gathers frames until they are worth a file."""

    def __init__(self, folder: Folder, before_a_file: Callable[[], None] = _always, most_waiting: int = _NO_LIMIT) -> None:
        """`before_a_file` is called before each new file, and may raise. When the frames of all tables have more than `most_waiting` bytes,
        the largest table gets a file."""
        self._folder, self._before_a_file, self._most_waiting = folder, before_a_file, most_waiting
        self._waiting: dict[str, list[tuple[NDArray[np.uint32], pl.DataFrame]]] = {}
        self._size: Counter[str] = Counter()
        self._parts: dict[str, list[Part]] = {}

    def add(self, table: str, process: int, frame: pl.DataFrame) -> None:
        self.add_many(table, np.full(len(frame), process, np.uint32), frame)

    def add_many(self, table: str, processes: NDArray[np.uint32], frame: pl.DataFrame) -> None:
        """`processes`: whose each row is."""
        self._waiting.setdefault(table, []).append((processes, frame))
        self._size[table] += int(frame.estimated_size())
        if self._size[table] >= _PART_BYTES:
            self._flush(table)
        elif self._size.total() > self._most_waiting:
            self._flush(self._size.most_common(1)[0][0])

    def finish(self) -> Index:
        for table in list(self._waiting):
            self._flush(table)
        order = [table.name for table in TABLES if table.name in self._parts]
        order += [name for name in self._parts if name not in order]
        return Index({name: tuple(self._parts[name]) for name in order})

    def _flush(self, table: str) -> None:
        self._before_a_file()
        waiting = self._waiting.pop(table)
        self._size[table] = 0
        process = np.concatenate([processes for processes, _ in waiting])
        frame = pl.concat([frame for _, frame in waiting]).insert_column(0, pl.Series("process", process))
        parts = self._parts.setdefault(table, [])
        parts.append(write_part(self._folder, table, f"{len(parts):05}", frame))
