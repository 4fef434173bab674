"""Every table of a profile, once: the C++ header of the collector is generated from this file, those it names, and `enums.py`.

A table is a list of fixed-size records. While a program runs, each process appends to its own table files (the spool);
sealing turns them into Parquet. `docs/profile-format.md` describes both.

Adding a table or a column is one edit here. A reader refuses a profile whose `FORMAT` is newer than its own.
"""

from __future__ import annotations

from aiflame.profile.schema.records import Column, Table, columns
from aiflame.profile.schema.records import Type as T
from aiflame.profile.schema.tables_calls import CALLS
from aiflame.profile.schema.tables_devices import ADDRESSES, COUNTERS, DEVICES
from aiflame.profile.schema.tables_meaning import JITTED, MEANING, MODELS, RECOMPILED, SUMS
from aiflame.profile.schema.tables_program import LIFE, LIFE_END, LOOPS, NAMES, PROGRAM, WAITS

SPOOL_MAGIC = b"AIFLAMET"
HEADER_BYTES = 4096
"""Bytes before the first record of a table file; the header struct itself is `SPOOL_HEADER`."""

TABLES: tuple[Table, ...] = (
    *PROGRAM, *DEVICES, *MEANING, *CALLS, *ADDRESSES, *SUMS, *WAITS, *NAMES, *LOOPS, *RECOMPILED, *MODELS, *JITTED,
    *COUNTERS,
)  # fmt: skip

LIVES = (LIFE, LIFE_END)
"""A record of `spool/lives.table`: the two, one behind the other, each with a check word of its own."""

LIVES_FILE = "lives.table"
LIVES_PAGE_BYTES = 4096
"""Behind its header that file is pages. The first word of each describes its content: u32 tag, then u16 records, which are at the page's
front, and u16 units of 8 bytes at its end, for texts; or how many pages there are for one long text, as u32."""
LIVES_IN_PAGE = 46
"""Records, at most."""
LIVES_PAGE, LIVES_LONG_TEXT = 0x1F11FE, 0x1F1E87
"""Tags."""

TABLE = {table.name: table for table in TABLES}

SPOOL_HEADER: tuple[Column, ...] = columns(
    ("magic", T.U64, "SPOOL_MAGIC"),
    ("format", T.U32, "FORMAT"),
    ("table", T.U32, "place in TABLES; 0xfffe for lives, 0xffff for a strings stream"),
    ("record_bytes", T.U32, "size of a record; 8 for a strings stream"),
    ("pid", T.U32, ""),
    ("next", T.U64, "records reserved so far (8-byte units for a strings stream)"),
)
