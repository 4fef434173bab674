"""Reads the recorder's looks at waiting threads: a separate set of tables for each process (`recorder/looks/writer`), which sealing appends
to the process's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.frame_words import renumbered
from aiflame.profile.spool.open_lives import LOOKS_FOLDER
from aiflame.profile.spool.process_spool import ProcessSpool, empty_frame
from aiflame.values import dataclass, field

_TABLES = ("codes", "marks", "modules", "stacks", "waits")
_REPEATED = ("threads", "modules")
"""Tables of the process that are needed to match the looks with it."""


@dataclass(slots=True)
class OwnRows:
    """The rows of a process to which its looks refer."""

    last: Counter[str] = field(default_factory=Counter)
    """The highest id of each table."""
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=lambda: {name: [empty_frame(TABLE[name])] for name in _REPEATED})

    def add(self, table: str, frame: pl.DataFrame) -> None:
        if table in _TABLES and len(frame):
            self.last[table] = int(frame["id"][-1])
        if table in _REPEATED:
            self.frames[table].append(frame)

    def table(self, name: str) -> pl.DataFrame:
        return pl.concat(self.frames[name])


def looked_at(spool: Folder) -> frozenset[str]:
    """The processes (PID.START_NS) for which the recorder has written looks."""
    return frozenset(spool.folder(LOOKS_FOLDER).names())


def looks(
    spool: Folder, process: str, own_rows: OwnRows, damage: Counter[str], *, growing: bool = False
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a process's looks, to be added behind its own, in the order of their ids."""
    parts = {name: [empty_frame(TABLE[name])] for name in _TABLES}
    with ProcessSpool(spool.folder(LOOKS_FOLDER, process), growing=growing) as tables:
        for name, frame in tables.chunks():
            if name in parts:
                parts[name].append(frame)
        if not growing:
            damage.update(tables.damage)
    rows = {name: pl.concat(frames) for name, frames in parts.items()}
    modules, numbers = _modules(rows["modules"], own_rows)
    behind = {name: pl.col("id") + own_rows.last[name] for name in _TABLES}
    yield "codes", rows["codes"].with_columns(behind["codes"])
    yield "marks", rows["marks"].with_columns(behind["marks"])
    yield "modules", modules
    parent = pl.when(pl.col("parent") > 0).then(pl.col("parent") + own_rows.last["stacks"]).otherwise(0).cast(pl.UInt32)
    word = renumbered("frame", codes=own_rows.last["codes"], marks=own_rows.last["marks"], modules=numbers)
    yield "stacks", rows["stacks"].with_columns(behind["stacks"], parent=parent, frame=word)
    yield "waits", _of_threads(rows["waits"].with_columns(behind["waits"], stack=pl.col("stack") + own_rows.last["stacks"]), own_rows)


def _modules(rows: pl.DataFrame, own_rows: OwnRows) -> tuple[pl.DataFrame, dict[int, int]]:
    """Rows for modules that the process has not recorded itself, and the new number of each module."""
    own = own_rows.table("modules").select("path", "base", own="id").unique(["path", "base"], keep="last")
    both = rows.join(own, on=["path", "base"], how="left", maintain_order="left")
    numbers = both.select("id", pl.coalesce(pl.col("own"), pl.col("id") + own_rows.last["modules"]))
    new = both.filter(pl.col("own").is_null()).drop("own").with_columns(pl.col("id") + own_rows.last["modules"])
    return new, dict(numbers.rows())


def _of_threads(waits: pl.DataFrame, own_rows: OwnRows) -> pl.DataFrame:
    """Replaces the system's thread ids by rows of `threads`: the last thread that had the id by then. Rows of threads that the process has
    not recorded are left out."""
    threads = own_rows.table("threads").select("start_ns", thread="tid", row="id").sort("start_ns")
    matched = waits.sort("time_ns").join_asof(threads, left_on="time_ns", right_on="start_ns", by="thread", check_sortedness=False)
    kept = matched.filter(pl.col("row").is_not_null()).with_columns(thread="row")
    return kept.select(waits.columns).sort("id")
