"""Turns frames in code that was made at run time into rows of `symbols`."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator

import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.files.outside import Outside
from aiflame.resolve.jit.dumps import jit_names
from aiflame.resolve.names.readable import clean, readable

MODULE = "[JIT]"
_ROW = {
    "process": pl.UInt32,
    "frame": pl.UInt64,
    "name": pl.String,
    "full_name": pl.String,
    "kind": pl.UInt8,
    "module": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "offset": pl.UInt64,
    "approximate": pl.Boolean,
}


def method_symbols(frames: pl.DataFrame, methods: pl.DataFrame) -> pl.DataFrame:
    """Rows for methods that the compiler reported while it ran; `frames` has process, frame, id (of the method) and rest (the offset)."""
    named = frames.select("process", "frame", "id", "rest").join(methods, on=["process", "id"], how="left")
    rows = []
    for process, frame, method, offset, raw, source, lines in named.select(
        "process", "frame", "id", "rest", "name", "source", "lines"
    ).iter_rows():
        if raw is None:
            rows.append((process, frame, f"[unknown] {MODULE} method {method}+0x{offset:x}", "", int(Kind.C), MODULE, "", 0, offset, False))
            continue
        name = readable(raw or "<unnamed>")
        line = _line_at(lines or b"", offset)
        rows.append((process, frame, name.short, name.full, int(name.kind), MODULE, clean(source), line, offset, False))
    return pl.DataFrame(rows, schema=_ROW, orient="row")


def address_symbols(
    frames: pl.DataFrame, processes: pl.DataFrame, seconds: Callable[[int], float], profile: Folder, outside: Outside
) -> pl.DataFrame:
    """Rows for addresses outside of all modules; `frames` has process, frame and address."""
    rows: list[tuple[object, ...]] = []
    for part in frames.partition_by("process"):
        rows += _named(part, processes.filter(pl.col("process") == part["process"][0]), seconds, profile, outside)
    return pl.DataFrame(rows, schema=_ROW, orient="row")


def _named(
    frames: pl.DataFrame, process: pl.DataFrame, seconds: Callable[[int], float], profile: Folder, outside: Outside
) -> Iterator[tuple[object, ...]]:
    # A process that called exec has two rows: its files may have code of both programs.
    start = process["start_ns"].min() if len(process) else 0
    pid, cwd = (process["pid"][0], process["cwd"][0]) if len(process) else (0, "")
    names = jit_names(pid, seconds(start if isinstance(start, int) else 0), cwd, profile, outside)
    for number, frame, address in frames.select("process", "frame", "address").iter_rows():
        # The word does not distinguish a return address from a leaf: it is looked up as a return address first, since most are.
        answer = names.lookup(max(address - 1, 0)) or names.lookup(address)
        if answer is None:
            yield number, frame, f"[unknown] {MODULE}+0x{address:x}", "", int(Kind.C), MODULE, "", 0, address, False
            continue
        name = readable(answer.method.name)
        file, line = answer.method.line_at(max(address - 1, 0))
        offset = max(address - answer.method.start, 0)
        yield number, frame, name.short, name.full, int(name.kind), MODULE, clean(file), line, offset, not answer.certain


def _line_at(lines: bytes, offset: int) -> int:
    """The line at an offset, from pairs (offset, line); a line extends to the next pair's offset."""
    pairs = sorted(struct.iter_unpack("<II", lines[: len(lines) // 8 * 8]))
    at = bisect_right(pairs, offset, key=lambda pair: pair[0]) - 1
    return int(pairs[at][1]) if at >= 0 else 0
