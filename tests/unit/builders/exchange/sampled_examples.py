"""Small files of sampling profilers, by construction."""

from __future__ import annotations

from typing import Any

GECKO: dict[str, Any] = {
    "meta": {
        "interval": 2,
        "startTime": 1.7e12,
        "product": "prog",
        "sampleUnits": {"time": "ms", "threadCPUDelta": "µs"},
        "preprocessedProfileVersion": 41,
        "categories": [{"name": "Other"}, {"name": "Kernel"}],
    },
    "libs": [{"name": "libprog.so", "debugName": "libprog.so"}],
    "threads": [
        {
            "name": "main",
            "pid": "7",
            "tid": 7,
            "processName": "prog",
            "stringArray": ["main", "read", "click", "file:///app/page.js", "vfs_read"],
            "funcTable": {
                "length": 4,
                "name": [0, 1, 2, 4],
                "isJS": [False, False, True, False],
                "resource": [0, 0, -1, -1],
                "fileName": [None, None, 3, None],
                "lineNumber": [None, None, 10, None],
            },
            "resourceTable": {"length": 1, "lib": [0], "name": [0]},
            "frameTable": {"length": 4, "func": [0, 1, 2, 3], "line": [None, None, 12, None], "category": [0, 0, 0, 1]},
            "stackTable": {"length": 4, "prefix": [None, 0, 0, 1], "frame": [0, 1, 2, 3]},
            "samples": {
                "length": 5,
                "stack": [3, 2, 2, None, 0],
                "time": [1.0, 3.0, 5.0, 7.0, 9.0],
                "weight": [1, 1, 1, 1, 3],
                "weightType": "samples",
                "threadCPUDelta": [0, 1500, 2000, 10, 0],
            },
            "markers": {"length": 2, "data": [None, None]},
            "nativeAllocations": {"length": 2, "time": [1, 2], "weight": [64, -32], "stack": [2, 2]},
        }
    ],
}
"""A profile as the Firefox Profiler has it: `main` reads and clicks."""
