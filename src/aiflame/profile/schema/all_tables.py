"""Every table of a profile. The C++ header of the collector is generated from this file, the `tables_*.py` that it imports, and `enums.py`.

A table is a list of fixed-size records. While a program runs, each process appends to its own table files (the spool);
sealing turns them into Parquet. `docs/profile-format.md` describes both.

A new table or column is added in one of the `tables_*.py`. A reader refuses a profile whose `FORMAT` is newer than its own.
"""

from __future__ import annotations

from aiflame.profile.schema.records import Column, Table, columns
from aiflame.profile.schema.records import Type as T
from aiflame.profile.schema.tables_calls import CALLS
from aiflame.profile.schema.tables_devices import ADDRESSES, COUNTERS, DEVICES, LOADS
from aiflame.profile.schema.tables_meaning import JITTED, MEANING, MODELS, RECOMPILED, SUMS
from aiflame.profile.schema.tables_memory import HELD, HOST_MEMORY, PHYSICAL, POOLS, SEGMENTS
from aiflame.profile.schema.tables_program import IMPORTED, LIFE, LIFE_END, LOOPS, NAMES, PROGRAM, WAITS

SPOOL_MAGIC = b"AIFLAMET"
HEADER_BYTES = 4096
"""Bytes before the first record of a table file; the header struct itself is `SPOOL_HEADER`."""

TABLES: tuple[Table, ...] = (
    *PROGRAM, *DEVICES, *MEANING, *CALLS, *ADDRESSES, *SUMS, *WAITS, *NAMES, *LOOPS, *RECOMPILED, *MODELS, *JITTED,
    *COUNTERS, *IMPORTED, *HOST_MEMORY, *POOLS, *LOADS, *SEGMENTS, *PHYSICAL, *HELD,
)  # fmt: skip

LIVES = (LIFE, LIFE_END)
"""The two halves of a record of `spool/lives.table`, one behind the other, each with a check word of its own."""

LIVES_FILE = "lives.table"
LIVES_PAGE_BYTES = 4096
"""The size of the pages that follow the file's header. The first word of a page is a tag (u32), then the number of records at its front
(u16) and of 8-byte units at its end that hold texts (u16); or, for a text longer than a page, the number of its pages (u32)."""
LIVES_IN_PAGE = 46
"""The most records in a page."""
LIVES_PAGE, LIVES_LONG_TEXT = 0x1F11FE, 0x1F1E87
"""The two tags of pages."""

TABLE = {table.name: table for table in TABLES}

SPOOL_HEADER: tuple[Column, ...] = columns(
    ("magic", T.U64, "SPOOL_MAGIC"),
    ("format", T.U32, "FORMAT"),
    ("table", T.U32, "place in TABLES; 0xfffe for lives, 0xffff for a strings stream"),
    ("record_bytes", T.U32, "size of a record; 8 for a strings stream"),
    ("pid", T.U32, ""),
    ("next", T.U64, "number of records reserved so far (of 8-byte units in a strings stream)"),
)
