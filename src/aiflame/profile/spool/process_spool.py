"""Reads one process's folder of the spool, in pieces, as columns.

A table file is a header of 4096 bytes and an array of records; a record's id is its place, counted from 1. The process may have been
stopped in the middle of a write, and files may have been damaged since: a record counts if its check word is right; a reference to a
missing record becomes 0 (no caller, no thread) or `[damaged]`; `damage` counts both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from types import TracebackType
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import refuse_newer
from aiflame.profile.schema.all_tables import HEADER_BYTES, SPOOL_HEADER, SPOOL_MAGIC, TABLE, TABLES
from aiflame.profile.schema.control_schema import FORMAT
from aiflame.profile.schema.records import COMMIT, Column, Table, Type, layout
from aiflame.profile.secrets.masking import masked_command
from aiflame.profile.spool.check_words import intact_records
from aiflame.profile.spool.strings import Strings
from aiflame.profile.spool.window import next_data

REFERENCES: dict[tuple[str, str], str] = {
    ("stacks", "parent"): "stacks",
    ("threads", "creator"): "stacks",
    ("thread_ends", "thread"): "threads",
    ("cpu_samples", "thread"): "threads",
    ("cpu_samples", "stack"): "stacks",
    ("waits", "stack"): "stacks",
    ("launches", "thread"): "threads",
    ("launches", "stack"): "stacks",
    ("kernels", "shape"): "kernel_shapes",
    ("graph_nodes", "thread"): "threads",
    ("graph_nodes", "stack"): "stacks",
    ("gpu_samples", "window"): "gpu_windows",
    ("gpu_samples", "function"): "gpu_functions",
    ("gpu_samples", "reason"): "stall_reasons",
}
"""Columns that hold the id of a record: (table, column) → the table that it refers to."""

READ_FIRST = tuple(dict.fromkeys(REFERENCES.values()))
DAMAGED_TEXT = "[damaged]"

_CHUNKS = (*(TABLE[name] for name in READ_FIRST), *(table for table in TABLES if table.name not in (*READ_FIRST, "processes")))
"""The tables of `chunks`, in their order."""

POLARS: dict[Type, pl.DataType] = {
    Type.U8: pl.UInt8(),
    Type.U16: pl.UInt16(),
    Type.U32: pl.UInt32(),
    Type.U64: pl.UInt64(),
    Type.I32: pl.Int32(),
    Type.I64: pl.Int64(),
    Type.STR: pl.String(),
    Type.BLOB: pl.Binary(),
}

_QUANTITIES = ("bytes", "size")
_IMPOSSIBLE = 1 << 62
"""Larger times and sizes are impossible, so readers may use signed numbers."""

_BLOCK_BYTES = 4 << 20
_LARGEST_TABLE = 512 << 30
_LARGEST_RECORD = 4096
_FIRST_RECORDS = 16
"""Enough that one of them was finished."""
_TEXT_BYTES = 64 << 20
_SHORTENED = 4096


@cache
def record_type(table: Table) -> np.dtype[np.void]:
    return _struct((COMMIT, *table.columns))


@cache
def empty_frame(table: Table) -> pl.DataFrame:
    """A table without rows, as read from the spool."""
    columns: dict[str, pl.DataType] = {"id": pl.UInt32()}
    return pl.DataFrame(schema=columns | {column.name: POLARS[column.type] for column in table.columns})


class ProcessSpool:
    """Reads `PROFILE/spool/PID.START_NS/`. `chunks` gives every table's rows once, in an order in which references point to earlier
    tables."""

    def __init__(self, folder: Folder, *, growing: bool = False) -> None:
        """`growing`: the process may still write. Its tables are read up to their present end."""
        self._folder = folder.held()
        pid, _, start = folder.name.partition(".")
        self.pid, self.start_ns = _number(pid, 32), _number(start, 62)
        self.damage: Counter[str] = Counter()
        self._known = {name: np.zeros(1, np.bool_) for name in READ_FIRST}
        if growing:
            self._tables = _filled(self._folder)
        else:
            sizes = {entry.name: entry.size for entry in self._folder.entries() if entry.is_file}
            self._tables = {table.name: sizes[_file_name(table)] for table in TABLES if _file_name(table) in sizes}
        self._refuse_newer()
        self._strings = Strings(self._folder)

    def other_layout(self) -> str:
        """The name of a table whose records were laid out by another version of aiflame, or "". With our layout, all its records would look
        damaged."""
        return next((name for name in self._tables if self._is_of_other_layout(TABLE[name])), "")

    def size(self) -> int:
        return sum(self._tables.values())

    def process(self) -> pl.DataFrame:
        """Its row of `processes`, with secrets in its command masked; made from the folder's name if the record is missing; no row if
        nothing was recorded."""
        row = pl.concat([empty_frame(TABLE["processes"]), *self._table(TABLE["processes"])]).head(1)
        if row.is_empty() and any(True for table in TABLES for _ in self._blocks(table)):
            from_name = pl.DataFrame({"id": [1], "pid": [self.pid], "start_ns": [self.start_ns]}, schema_overrides=row.schema)
            row = pl.concat([row, from_name], how="diagonal").with_columns(pl.col(pl.String).fill_null(""), pl.col(pl.UInt32).fill_null(0))
        self.damage.clear()
        return row.with_columns(pl.Series("command", [masked_command(command) for command in row["command"]], pl.String))

    def chunks(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """(table, some of its rows with `id` in front), for all tables but `processes`, in the order of ids within a table."""
        for table in _CHUNKS:
            for frame in self._table(table):
                yield table.name, frame

    def rows(self, table: str) -> pl.DataFrame:
        """All rows of a table that refers to none but those of `chunks`; before `chunks`, or in another object."""
        return pl.concat([empty_frame(TABLE[table]), *self._table(TABLE[table])])

    def close(self) -> None:
        self._strings.close()

    def __enter__(self) -> ProcessSpool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _refuse_newer(self) -> None:
        """A process writes all its files with one library: either all headers have a newer format, or a bit has flipped in one."""
        headers = [header for table in self._tables if (header := _header(self._folder, TABLE[table])) is not None]
        sound = [header for header in headers if header["magic"] == int.from_bytes(SPOOL_MAGIC, "little")]
        if sound and (written := min(int(header["format"]) for header in sound)) > FORMAT:
            refuse_newer(self._folder.path.parent.parent, written)

    def _is_of_other_layout(self, table: Table) -> bool:
        """A damaged header may state any record size. The layout is another one only if the check words fit at the stated size."""
        header = _header(self._folder, table)
        size = 0 if header is None else int(header["record_bytes"])
        if size == record_type(table).itemsize or size % 8 or not 0 < size <= _LARGEST_RECORD:
            return False
        with self._folder.file(_file_name(table)) as file:
            if file is None:
                return False
            file.seek(HEADER_BYTES)
            data = file.read(_FIRST_RECORDS * size)
        words = np.frombuffer(data[: len(data) // size * size], "<u8").reshape(-1, size // 8)
        return bool(intact_records(words).any())

    def _table(self, table: Table) -> Iterator[pl.DataFrame]:
        for ids, records in self._blocks(table):
            kept = self._check_values(table, ids, records)
            if not kept.all():
                ids, records = ids[kept], records[kept]
            yield from self._frames(table, ids, records)

    def _blocks(self, table: Table) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.void]]]:
        """Ids and records, without incomplete ones."""
        if table.name not in self._tables:
            return
        dtype = record_type(table)
        with self._folder.file(_file_name(table)) as file:
            if file is None:
                return
            size = min(file.seek(0, 2), self._tables[table.name], HEADER_BYTES + _LARGEST_TABLE)
            slots = max(size - HEADER_BYTES, 0) // dtype.itemsize
            step, width = _BLOCK_BYTES // dtype.itemsize, dtype.itemsize // 8
            first = -step
            while (first := _with_data(file, HEADER_BYTES, dtype.itemsize, first + step)) < slots:
                file.seek(HEADER_BYTES + first * dtype.itemsize)
                words = np.fromfile(file, "<u8", min(step, slots - first) * width)
                words = words[: len(words) // width * width].reshape(-1, width)
                written = np.flatnonzero(words[:, 0].astype(np.uint32))
                if len(written) == 0:
                    continue
                if len(written) < len(words):
                    words = words[written]
                intact = intact_records(words)
                self._count(f"damaged records of {table.name} left out", len(intact) - int(intact.sum()))
                if not intact.all():
                    written, words = written[intact], words[intact]
                if len(written):
                    # Up to here as 8-byte words: numpy does not copy the padding of records, which check words cover.
                    yield (written + (first + 1)).astype(np.uint32), words.view(dtype).reshape(-1)

    def _check_values(self, table: Table, ids: NDArray[np.uint32], records: NDArray[np.void]) -> NDArray[np.bool_]:
        """True for the records that stay. Sets references to missing records to 0, and remembers the ids that other records may refer
        to."""
        kept = is_possible(records, table)
        self._count(f"records of {table.name} with impossible values left out", len(kept) - int(kept.sum()))
        if table.name == "stacks":
            # A node is appended after its caller; any other order could be a circle.
            in_order = records["parent"] < ids
            self._count("stacks left out that name a later one as their caller", len(kept) - int(in_order.sum()))
            kept &= in_order
        if table.name in self._known:
            self._remember(table.name, ids[kept])
        for (name, reference), target in REFERENCES.items():
            if name == table.name:
                there, value = self._known[target], records[reference]
                lost = (value != 0) & ~there[np.minimum(value, len(there) - 1)] | (value >= len(there))
                lost &= kept
                records[reference][lost] = 0
                self._count(f"rows of {name} whose {reference} is missing", int(lost.sum()))
        return kept

    def _remember(self, table: str, ids: NDArray[np.uint32]) -> None:
        there = self._known[table]
        if len(ids) and ids[-1] >= len(there):
            more = max(int(ids[-1]) + 1 - len(there), len(there))
            there = self._known[table] = np.concatenate([there, np.zeros(more, np.bool_)])
        there[ids] = True

    def _frames(self, table: Table, ids: NDArray[np.uint32], records: NDArray[np.void]) -> Iterator[pl.DataFrame]:
        """The records as frames, cut so that no frame holds much more than `_TEXT_BYTES` of text."""
        if len(ids) == 0:
            return
        columns: dict[str, pl.Series] = {"id": pl.Series(ids)}
        weight = np.zeros(len(ids), np.int64)
        for column in table.columns:
            values = np.ascontiguousarray(records[column.name])
            if column.type in (Type.STR, Type.BLOB):
                columns[column.name], bytes_each = self._texts(column.type, values, table.name)
                weight += bytes_each
            else:
                columns[column.name] = pl.Series(values)
        frame = pl.DataFrame(columns)
        if not weight.any():
            yield frame
            return
        cuts = np.flatnonzero(np.diff(np.cumsum(weight) // _TEXT_BYTES)) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(frame)], strict=True):
            yield frame[begin:end]

    def _texts(self, kind: Type, references: NDArray[np.uint32], table: str) -> tuple[pl.Series, NDArray[np.int64]]:
        """A column of texts or blobs, and the length of each."""
        distinct, place, uses = np.unique(references, return_inverse=True, return_counts=True)
        contents = self._strings.fetch(distinct)
        self._count(f"damaged texts in {table}", sum(count for count, text in zip(uses.tolist(), contents, strict=True) if text is None))
        if sum(count * len(text or b"") for count, text in zip(uses.tolist(), contents, strict=True)) > _TEXT_BYTES * 4:
            contents = [self._shortened(text, count, table) for count, text in zip(uses.tolist(), contents, strict=True)]
        lengths = np.array([len(text or b"") for text in contents], np.int64)[place]
        if kind is Type.BLOB:
            return pl.Series([text or b"" for text in contents], dtype=pl.Binary)[place], lengths
        names = [DAMAGED_TEXT if text is None else text.decode("utf-8", "replace") for text in contents]
        return pl.Series(names, dtype=pl.String)[place], lengths

    def _shortened(self, text: bytes | None, uses: int, table: str) -> bytes | None:
        """Cuts a long text that many rows refer to: each row in the written file has its own copy, and a megabyte for each of a million
        rows is too much."""
        if text is None or uses == 1 or len(text) <= _SHORTENED:
            return text
        self._count(f"long texts in {table} cut to {_SHORTENED} bytes", 1)
        return text[:_SHORTENED]

    def _count(self, what: str, times: int) -> None:
        if times:
            self.damage[what] += times


def is_possible(records: NDArray[np.void], table: Table) -> NDArray[np.bool_]:
    """True for the records whose times and sizes are possible."""
    kept = np.ones(len(records), np.bool_)
    for column in table.columns:
        if column.type is Type.U64 and (column.name.endswith("_ns") or column.name in _QUANTITIES):
            kept &= records[column.name] < _IMPOSSIBLE
    return kept


def read(folder: Folder) -> dict[str, pl.DataFrame]:
    """All tables of one process at once, for small recordings and tests."""
    frames = {table.name: [empty_frame(table)] for table in TABLES}
    with ProcessSpool(folder) as spool:
        frames["processes"].append(spool.process())
        for name, frame in spool.chunks():
            frames[name].append(frame)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def _with_data(file: BinaryIO, header: int, size: int, row: int) -> int:
    """The first row from here on that may have been written: the ring's old parts are holes."""
    at = next_data(file.fileno(), header + row * size)
    file.seek(0)  # the file's own place is elsewhere now
    return max(row, (at - header) // size) if at is not None else _LARGEST_TABLE


def _file_name(table: Table) -> str:
    return f"{table.name}.table"


def _filled(folder: Folder) -> dict[str, int]:
    """The number of used bytes of each table. A table is looked at before the tables that it refers to: records are written after those
    that they name, so no name leads behind these sizes."""
    last = ("threads", "stacks")  # threads refer to stacks
    order = sorted(TABLES, key=lambda table: last.index(table.name) + 2 if table.name in last else table.name in READ_FIRST)
    bytes_used = {}
    for table in order:
        if (header := _header(folder, table)) is not None:
            bytes_used[table.name] = HEADER_BYTES + min(int(header["next"]), _LARGEST_TABLE) * record_type(table).itemsize
    return {table.name: bytes_used[table.name] for table in TABLES if table.name in bytes_used}


def _header(folder: Folder, table: Table) -> np.void | None:
    dtype = _struct(SPOOL_HEADER)
    with folder.file(_file_name(table)) as file:
        data = file.read(dtype.itemsize) if file is not None else b""
    if len(data) < dtype.itemsize:
        return None
    header: np.void = np.frombuffer(data, dtype)[0]
    return header


@cache
def _struct(columns: tuple[Column, ...]) -> np.dtype[np.void]:
    placed, size = layout(columns)
    return np.dtype(
        {
            "names": [column.name for column, _ in placed],
            "formats": [column.type.numpy for column, _ in placed],
            "offsets": [offset for _, offset in placed],
            "itemsize": size,
        }
    )


def _number(text: str, bits: int) -> int:
    """A part of a folder's name as a number; 0 if it is not one."""
    return int(text) % (1 << bits) if text.isascii() and text.isdigit() and len(text) < 24 else 0
