"""Events of Chrome's traces that hold a CPU profile of V8 in chunks."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def node(number: int, name: str, parent: int | None = None, url: str = "file:///app.js", line: int = 9) -> Event:
    own = {} if parent is None else {"parent": parent}
    return {"id": number, "callFrame": {"functionName": name, "url": url, "lineNumber": line, "columnNumber": 0}, **own}


def event(name: str, tid: int, ts: int, data: Event, number: str = "0x1", phase: str = "P") -> Event:
    return {"ph": phase, "name": name, "pid": 7, "tid": tid, "ts": ts, "id": number, "cat": "v8", "args": {"data": data}}


CHUNKS = [
    {"ph": "X", "name": "RunTask", "cat": "toplevel", "pid": 7, "tid": 8, "ts": 1000, "dur": 500},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "main"}},
    event("Profile", 8, 1001, {"startTime": 1000}),
    event(
        "ProfileChunk",
        9,
        1300,
        {
            "cpuProfile": {"nodes": [node(1, "(root)"), node(2, "work", 1), node(3, "inner", 2)], "samples": [2, 3, 3]},
            "timeDeltas": [10, 100, 100],
        },
    ),
    event("ProfileChunk", 9, 1400, {"cpuProfile": {"nodes": [node(4, "(idle)", 1)], "samples": [2, 4]}, "timeDeltas": [50, 30]}),
    event("ProfileChunk", 9, 1500, {"endTime": 1400}),
]
