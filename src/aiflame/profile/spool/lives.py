"""Reads `spool/lives.table`, which all processes of a recording share, for processes of which only the start and the end were recorded.

A process with more records has a folder with the same facts, and then the folder counts. For the others, sealing makes the rows that a
folder would have had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import (
    HEADER_BYTES,
    LIVES,
    LIVES_FILE,
    LIVES_IN_PAGE,
    LIVES_LONG_TEXT,
    LIVES_PAGE,
    LIVES_PAGE_BYTES,
    TABLE,
)
from aiflame.profile.schema.records import Column, Type
from aiflame.profile.secrets.masking import masked_command
from aiflame.profile.spool.check_words import intact_records
from aiflame.profile.spool.process_spool import DAMAGED_TEXT, POLARS, empty_frame, is_possible, record_type
from aiflame.profile.spool.strings import Strings
from aiflame.values import dataclass

LIFE, LIFE_END = LIVES
_BEGIN, _END = record_type(LIFE), record_type(LIFE_END)
_WIDTH = (_BEGIN.itemsize + _END.itemsize) // 8
_LARGEST = 8 << 30


@dataclass(frozen=True, slots=True)
class Lives:
    """`rows`: table → rows, at most one for each process; their `process` is a row of `rows["processes"]`."""

    rows: dict[str, pl.DataFrame]
    process: dict[str, NDArray[np.uint32]]
    bytes: int
    damage: Counter[str]

    def __len__(self) -> int:
        return len(self.rows["processes"])


def read_lives(spool: Folder, elsewhere: Collection[tuple[int, int]], window: tuple[int, int] | None = None) -> Lives:
    """The processes in the order of their start, with secrets masked. `elsewhere`: (PID, start) of the processes that have a folder;
    `window`: without those that ended before it or started after it."""
    damage: Counter[str] = Counter()
    begins, ends, size = _records(spool, damage)
    keys = zip(begins["pid"].tolist(), begins["start_ns"].tolist(), strict=True)
    kept = np.array([key not in elsewhere for key in keys], np.bool_)
    if window is not None:
        kept &= ((ends["end_ns"] == 0) | (ends["end_ns"] >= window[0])) & (begins["start_ns"] <= window[1])
    begins, ends = begins[kept], ends[kept]
    order = np.lexsort((begins["pid"], begins["start_ns"]))
    begins, ends = begins[order], ends[order]
    every = np.arange(len(begins), dtype=np.uint32)
    with Strings(spool, LIVES_FILE) as texts:
        begun = _frame(begins, LIFE.columns, texts, damage).with_columns(pl.col("command").map_batches(_masked, pl.String))
        ended = np.flatnonzero(ends["commit"]).astype(np.uint32)
        end = _frame(ends[ended], LIFE_END.columns, texts, damage)
    first = pl.lit(1, pl.UInt32).alias("id")
    threads = begun.select(first, tid="pid", creator=pl.lit(0, pl.UInt32), start_ns="start_ns", name="thread_name")
    with_thread = end.filter(pl.col("thread_end_ns") > 0)
    rows = {
        "processes": begun.select(first, *(column.name for column in TABLE["processes"].columns)),
        "process_ends": end.select(first, "end_ns", "cpu_ns"),
        "threads": threads,
        "thread_ends": with_thread.select(
            first, thread=pl.lit(1, pl.UInt32), name="thread_name", end_ns="thread_end_ns", cpu_ns="thread_cpu_ns"
        ),
    }
    process = {
        "processes": every,
        "process_ends": ended,
        "threads": every,
        "thread_ends": ended[(ends["thread_end_ns"][ended] > 0)],
    }
    frames = {name: pl.concat([empty_frame(TABLE[name]), frame]) for name, frame in rows.items()}
    return Lives(frames, process, size, +damage)


def _records(spool: Folder, damage: Counter[str]) -> tuple[NDArray[np.void], NDArray[np.void], int]:
    """Both halves of each record whose first half is complete (an incomplete second half is all zeros), and the file's size."""
    with spool.file(LIVES_FILE) as file:
        size = min(file.seek(0, 2), _LARGEST) if file is not None else 0
        words = np.empty(0, np.uint64)
        if file is not None and size > HEADER_BYTES:
            file.seek(HEADER_BYTES)
            words = np.fromfile(file, "<u8", (size - HEADER_BYTES) // 8)
    records = _in_pages(words)
    records = records[records[:, 0].astype(np.uint32) != 0]
    begin, end = (np.ascontiguousarray(half) for half in np.split(records, [_BEGIN.itemsize // 8], axis=1))
    whole = intact_records(begin) & is_possible(begin.view(_BEGIN).reshape(-1), LIFE)
    unfinished = end[:, 0].astype(np.uint32) == 0
    ended = intact_records(end) & is_possible(end.view(_END).reshape(-1), LIFE_END) & ~unfinished
    damage["damaged records of processes left out"] += len(whole) - int(whole.sum())
    damage["damaged ends of processes left out"] += int((whole & ~ended & ~unfinished).sum())
    end[~ended] = 0
    return begin[whole].view(_BEGIN).reshape(-1), end[whole].view(_END).reshape(-1), size


def _in_pages(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The places of reserved records, in the order of the file."""
    per_page = LIVES_PAGE_BYTES // 8
    pages = words[: len(words) // per_page * per_page].reshape(-1, per_page)
    tag, count = pages[:, 0].astype(np.uint32), pages[:, 0] >> np.uint64(32)
    text = np.zeros(len(pages), np.bool_)
    for first in np.flatnonzero(tag == LIVES_LONG_TEXT).tolist():
        if not text[first]:
            text[first : first + int(count[first])] = True
    kept = (tag == LIVES_PAGE) & ~text
    records = pages[kept, 1 : 1 + LIVES_IN_PAGE * _WIDTH].reshape(-1, LIVES_IN_PAGE, _WIDTH)
    reserved: NDArray[np.uint64] = records[np.arange(LIVES_IN_PAGE) < (count[kept] & np.uint64(0xFFFF))[:, np.newaxis]]
    return reserved


def _frame(records: NDArray[np.void], columns: tuple[Column, ...], texts: Strings, damage: Counter[str]) -> pl.DataFrame:
    series = {}
    for column in columns:
        values = np.ascontiguousarray(records[column.name])
        series[column.name] = _texts(values, texts, damage) if column.type is Type.STR else pl.Series(values, dtype=POLARS[column.type])
    return pl.DataFrame(series)


def _texts(references: NDArray[np.uint32], texts: Strings, damage: Counter[str]) -> pl.Series:
    distinct, place, uses = np.unique(references, return_inverse=True, return_counts=True)
    contents = texts.fetch(distinct)
    damage["damaged texts in processes"] += sum(count for count, text in zip(uses.tolist(), contents, strict=True) if text is None)
    return pl.Series([DAMAGED_TEXT if text is None else text.decode("utf-8", "replace") for text in contents], dtype=pl.String)[place]


def _masked(commands: pl.Series) -> pl.Series:
    """Masks each distinct command once: thousands of processes have few different ones."""
    shown = {command: masked_command(command) for command in commands.unique()}
    return pl.Series([shown[command] for command in commands], dtype=pl.String)
