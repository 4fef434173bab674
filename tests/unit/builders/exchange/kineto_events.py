"""Small traces of torch.profiler, by construction. Times are microseconds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

PID, GPU = 4711, 0


def event(category: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": PID, "tid": tid, "ts": ts, "dur": dur, "args": args}


def work(category: str, name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any) -> dict[str, Any]:
    more = {"stream": stream, "device": GPU, "correlation": correlation, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": GPU, "tid": stream, "ts": ts, "dur": dur, "args": more}


def launched(name: str, call: float, begin: float, dur: float, correlation: int, stream: int = 7) -> list[dict[str, Any]]:
    return [
        event("cpu_op", f"aten::{name}", call - 1, 8),
        event("cuda_runtime", "cudaLaunchKernel", call, 5, correlation=correlation),
        work("kernel", name, begin, dur, correlation, stream),
    ]


def written(folder: Path, *events: list[dict[str, Any]]) -> Path:
    """A trace of these events. Its first one launches nothing: HTA does not count a launch in the first row."""
    every = [event("cpu_op", "aten::empty", 0, 1), *(one for of in events for one in of)]
    file = folder / "trace.json.gz"
    with gzip.open(file, "wt") as text:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": GPU, "name": "H100"}], "traceEvents": every}, text)
    return file
