"""A small program: the rows that many tests put into a profile, tables that are read from memory, and damaged rows."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st
from profiles import Row, native, python
from profiles import _frame as frame_of

from aiflame.attribute.tree import Kind
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.spool.process_spool import empty_frame

MAIN, WORK, PYMAIN = native(1, 0x100), native(1, 0x200), python(1, 8)
MARK, LAYER = FrameKind.MARK << 60 | 1, FrameKind.LAYER << 60 | 1
WORK_PC, EVAL_PC = native(1, 0x210, exact=True), native(2, 0x900, exact=True)


def symbol(frame: int, name: str, kind: Kind = Kind.C, depth: int = 0, **more: object) -> Row:
    row = {"process": 0, "frame": frame, "depth": depth, "name": name, "full_name": "", "kind": int(kind), "module": "libx.so"}
    return {**row, "file": "", "line": 0, "offset": 0, "approximate": False, **more}


SYMBOLS = [
    symbol(MAIN, "main"),
    symbol(WORK, "work", file="/src/work.c", line=12),
    symbol(WORK_PC, "work", file="/src/work.c", line=14),
    symbol(PYMAIN, "run", Kind.PYTHON, module="", file="/app/train.py", line=44),
    symbol(EVAL_PC, "_PyEval_EvalFrameDefault", module="libpython3.11.so.1.0", file="ceval.c", line=99),
    symbol(MARK, "[OpenMP wait]", Kind.WAIT, module=""),
]
CODES = [{"first_line": 40, "filename": "/app/train.py", "qualname": "run"}]
THREADS = [{"tid": 4711, "name": "python"}]
PROCESSES: list[Row] = [{"pid": 4711, "command": "/usr/bin/python3\0-u\0/app/train.py\0--fast"}]


class InMemory:
    """Tables without a file."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.tables = {name: frame_of(name, rows) for name, rows in tables.items()}

    def has(self, name: str) -> bool:
        return name in self.tables

    def table(self, name: str) -> pl.DataFrame:
        return self.tables[name] if name in self.tables else frame_of(name, [])

    def scan(self, name: str) -> pl.LazyFrame:
        return self.table(name).lazy()


NUMBERS: dict[type[pl.DataType], int] = {pl.UInt8: 2**8, pl.UInt16: 2**16, pl.UInt32: 2**32, pl.UInt64: 2**64}


def damaged(name: str) -> st.SearchStrategy[list[Row]]:
    """Rows of a table with anything in their numbers, small ones more often."""
    columns = {}
    for column, kind in empty_frame(TABLE[name]).schema.items():
        if limit := NUMBERS.get(type(kind)):
            columns[column] = st.integers(0, 4) | st.integers(0, limit - 1)
    return st.lists(st.fixed_dictionaries({**columns, "process": st.integers(0, 1)}), max_size=6)
