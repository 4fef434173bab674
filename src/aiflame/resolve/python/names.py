"""Turns Python frame words into qualified names, files and lines."""

from __future__ import annotations

import polars as pl

from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.readable import LONGEST_FULL, LONGEST_SHORT, clean, cut
from aiflame.resolve.python.lines import line_of


def python_symbols(frames: pl.DataFrame, codes: pl.DataFrame) -> pl.DataFrame:
    """Rows of `symbols` for frames with columns process, frame, id (of the code) and rest (the word's low half)."""
    named = frames.join(codes, left_on=["process", "id"], right_on=["process", "id"], how="left")
    lines: dict[tuple[bytes, int, int, int], int] = {}
    rows = []
    for process, frame, code, offset, first, file, name, table, python in named.select(
        "process", "frame", "id", "rest", "first_line", "filename", "qualname", "linetable", "python"
    ).iter_rows():
        if name is None:
            rows.append((process, frame, f"[unknown] Python code {code}+0x{max(offset - 1, 0):x}", "", "", 0, offset))
            continue
        key = (table or b"", first, offset, python)
        if (line := lines.get(key)) is None:
            line = line_of(key[0], first, offset - 1, python) if offset else first
            line = lines[key] = line if 0 < line < 1 << 32 else first
        full = clean(name) or "<unnamed>"
        rows.append((process, frame, cut(full, LONGEST_SHORT), cut(full, LONGEST_FULL), clean(file), line, max(offset - 1, 0)))
    schema = {
        "process": pl.UInt32,
        "frame": pl.UInt64,
        "name": pl.String,
        "full_name": pl.String,
        "file": pl.String,
        "line": pl.UInt32,
        "offset": pl.UInt64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(kind=pl.lit(int(Kind.PYTHON)), module=pl.lit(""))
