"""pyinstrument's sessions: `-r json`, a tree of calls with their times, and `.pyisession`, a stack with its time after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.json_document import begins_object, document, mapping, number, scaled, sequence, text, whole
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.sampled.samples import DEEPEST, NO_TIME, WALL, Sampled
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind

_SECOND = 10**9
_MOST_LINE = (1 << 31) - 1
_WAIT = re.compile(r"^\[await\]$")


def is_one(head: bytes) -> bool:
    return begins_object(head) and b'"sample_count"' in head and (b'"root_frame"' in head or b'"frame_records"' in head)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    file = document(source)
    progress(0.4)
    rows = Sampled(making)
    process = rows.process()
    if "frame_records" in file:
        _records(rows, process, sequence(file["frame_records"]))
    else:
        _tree(rows, process, mapping(file.get("root_frame")))
        making.note("the file has sums by call: its times have no moments")
    began = number(file.get("start_time"))
    making.realtime_ns = scaled(began, _SECOND) if began is not None and began > _SECOND else 0
    rows.finish()
    making.last_ns = max(making.last_ns, FIRST_NS + min(max(scaled(file.get("duration"), _SECOND), 0), 1 << 59))


def _records(rows: Sampled, process: int, records: list[Any]) -> None:
    now = 0
    for record in records:
        pair = sequence(record)
        if len(pair) != 2:
            raise AiflameError("a record of the session is no pair of a stack and its time")
        call = -1
        names = sequence(pair[0])
        if len(names) > DEEPEST:
            raise AiflameError(f"a stack of the session has {len(names):,} frames")
        for name in names:
            call = rows.call(process, call, _identified(text(name)))
        took = scaled(pair[1], _SECOND)
        now += max(took, 0)
        rows.time(process, 0, call, WALL, took, now)


def _identified(name: str) -> AnyFrame:
    """`function NUL file NUL first line`, then attributes, each behind a 1: `l12` is the line."""
    identity, *attributes = name.split("\x01")
    function, file, first = (*identity.split("\0"), "", "")[:3]
    at = next((one[1:] for one in attributes if one.startswith("l")), "")
    begin, line = (int(one) if one.isdecimal() and len(one) < 10 else 0 for one in (first, at))
    return _frame(function, file, begin, line if line >= begin else 0)


def _frame(function: str, file: str, first: int, line: int) -> AnyFrame:
    if function.startswith("[") and not file.endswith(".py"):
        return NamedFrame(function, Kind.WAIT if _WAIT.match(function) else Kind.C)
    return PythonFrame(function or "[unknown]", file, first, line)


def _tree(rows: Sampled, process: int, root: dict[str, Any]) -> None:
    ahead = [(root, -1, 0)]
    while ahead:
        given, parent, depth = ahead.pop()
        if depth > DEEPEST:
            raise AiflameError(f"calls of the file lie more than {DEEPEST:,} deep in each other")
        call = parent
        if (name := text(given.get("function"))) != "[self]":
            line = min(max(whole(given.get("line_no")), 0), _MOST_LINE)
            call = rows.call(process, parent, _frame(name, text(given.get("file_path")), line, 0))
        children = [mapping(one) for one in sequence(given.get("children"))]
        own = scaled(given.get("time"), _SECOND) - sum(scaled(one.get("time"), _SECOND) for one in children)
        rows.time(process, 0, call, WALL, own, NO_TIME)
        ahead += [(one, call, depth + 1) for one in children]
