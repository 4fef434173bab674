"""A profile in the making: readers of other tools' files add rows to the tables that a recording has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, Imported, JobRank, Meta
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.records import Type
from aiflame.profile.sealing.going_on import SEALED
from aiflame.profile.sealing.telemetry import SERIES, SERIES_COLUMNS, VALUE_COLUMNS, VALUES
from aiflame.profile.spool.process_spool import POLARS
from aiflame.profile.tables.index import Index, Part, write_part
from aiflame.profile.tables.writer import TableWriter

FIRST_NS = 1_000_000_000
"""The first moment of an imported profile, on its clock."""
_MOST_WAITING = 80 << 20
"""Bytes of rows that wait to be written."""
_AT_ONCE = 1 << 18
"""Rows that get the types of their table in one piece."""
_DEFAULTS = {Type.STR: "", Type.BLOB: b""}


class Making:
    """Tables and facts of an imported profile. Readers add rows and set the facts that their file has."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._tables = folder.new_folder(SEALED)
        self._writer = TableWriter(self._tables, most_waiting=_MOST_WAITING)
        self._rows: dict[str, dict[int, int]] = {}
        self._whole: dict[str, tuple[Part, ...]] = {}
        self.format = ""
        """The format, for people, where a reader knows it better than `formats`."""
        self.notes: dict[str, None] = {}
        self.lacks: tuple[str, ...] = ()
        """Facts that no file of the format has, each as a noun: `stall reasons`."""
        self.unused: Counter[str] = Counter()
        self.command: tuple[str, ...] = ()
        self.host = Host()
        self.realtime_ns = 0
        """Time since 1970 at FIRST_NS; 0: not known."""
        self.last_ns = FIRST_NS
        self.rank: JobRank | None = None
        """Where the trace's process stands in a parallel job, if the trace says so."""

    def note(self, text: str) -> None:
        """Adds a line for people, on something that is missing or damaged."""
        self.notes[text] = None

    def add(self, table: str, rows: pl.DataFrame) -> None:
        """Rows of a table, with a column `process`. Missing columns are empty or 0; without `id`, rows of each process count on."""
        for piece in rows.iter_slices(_AT_ONCE) if len(rows) else ():
            self._add(table, piece)

    def _add(self, table: str, rows: pl.DataFrame) -> None:
        process = rows["process"].cast(pl.UInt32)
        columns = [self._ids(table, process) if "id" not in rows.columns else rows["id"].cast(pl.UInt32)]
        for column in TABLE[table].columns:
            kind = POLARS[column.type]
            if column.name in rows.columns:
                values = rows[column.name].cast(kind)
                columns.append(values.fill_null(_DEFAULTS.get(column.type, 0)) if values.null_count() else values)
            else:
                columns.append(pl.Series(column.name, [_DEFAULTS.get(column.type, 0)], dtype=kind).new_from_index(0, len(rows)))
        self._writer.add_many(table, process.to_numpy(), pl.DataFrame(columns))

    def keep_code(self, crc: int, content: bytes) -> None:
        """Keeps a file of device code."""
        self._folder.make_folder("cubins").put(f"{crc:016x}.cubin", content)

    def measure(self, series: pl.DataFrame, values: pl.DataFrame) -> None:
        """Measurements of the machine: `series` and `values` as telemetry has them."""
        for table, rows, schema in ((SERIES, series, SERIES_COLUMNS), (VALUES, values, VALUE_COLUMNS)):
            self._whole[table] = (
                write_part(self._tables, table, "00000", rows.select(pl.col(name).cast(of) for name, of in schema.items())),
            )

    def numbered(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the `id` that they get in a table when they are added next."""
        return rows.with_columns(self._ids(table, rows["process"].cast(pl.UInt32)))

    def finish(self, format: str, files: tuple[str, ...], version: str) -> None:
        """Writes the tables and `meta.json`; then the folder is a profile."""
        index = Index({**self._writer.finish().tables, **self._whole})
        index.write(self._tables)
        has_time_of_day = self.realtime_ns > 0
        moments = [
            Clocks(monotonic_ns=at, raw_ns=at, realtime_ns=self.realtime_ns + at - FIRST_NS if has_time_of_day else 0)
            for at in (FIRST_NS, self.last_ns)
        ]
        Meta(
            version=version,
            command=self.command,
            host=self.host,
            started=moments[0],
            ended=moments[1],
            degraded=tuple(self.notes),
            complete=True,
            job_rank=self.rank,
            imported=Imported(self.format or format, files, self.lacks, dict(sorted(self.unused.items()))),
        ).write(self._folder)

    def _ids(self, table: str, process: pl.Series) -> pl.Series:
        counts = self._rows.setdefault(table, {})
        if len(process) and process.min() == process.max():
            owner = int(process[0])
            count = counts[owner] = counts.get(owner, 0) + len(process)
            return pl.int_range(count - len(process) + 1, count + 1, dtype=pl.UInt32, eager=True).alias("id")
        numbers = pl.DataFrame({"process": process}).select(pl.int_range(1, pl.len() + 1).over("process"))[:, 0].to_numpy()
        owners = process.to_numpy()
        before = np.zeros(int(owners.max()) + 1, dtype=np.int64)
        for number, count in counts.items():
            if number < len(before):
                before[number] = count
        ids = numbers + before[owners]
        for number, last in zip(*_last(owners, ids), strict=True):
            counts[number] = last
        return pl.Series("id", ids, dtype=pl.UInt32)


def _last(owners: np.ndarray, ids: np.ndarray) -> tuple[list[int], list[int]]:
    latest = np.zeros(int(owners.max()) + 1, dtype=np.int64)
    np.maximum.at(latest, owners, ids)
    there = np.flatnonzero(latest)
    return there.tolist(), latest[there].tolist()
