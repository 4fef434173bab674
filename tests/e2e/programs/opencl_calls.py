"""Programs for test_opencl_calls.py: `python opencl_calls.py NAME` prints the expected calls, as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from ctypes import CFUNCTYPE, POINTER, byref, c_uint32, c_uint64, c_void_p
from typing import Any

KNOWN, ALL = 149, 160


def mixed() -> Any:
    """Calls that succeed, calls that fail and calls that give an object, each counted."""
    from opencl_client import Cl, library, sizes

    counts: Counter[str] = Counter()
    cl = Cl("kernel void twice(global float *out) { out[get_global_id(0)] *= 2; }")
    queue = cl.queue()
    buffer = cl.buffer(256)
    kernel = cl.kernel("twice", c_void_p(buffer))
    data = ctypes.create_string_buffer(256)
    for _ in range(7):
        cl.call("clEnqueueWriteBuffer", queue, buffer, 1, 0, 64, data, 0, None, None)
        counts["clEnqueueWriteBuffer"] += 1
    for _ in range(5):
        cl.call("clEnqueueNDRangeKernel", queue, kernel, 1, None, sizes(64), None, 0, None, None)
        counts["clEnqueueNDRangeKernel"] += 1
    for _ in range(3):
        assert library.clEnqueueReadBuffer(queue, buffer, 1, 0, 1 << 40, data, 0, None, None) != 0
        counts["clEnqueueReadBuffer"] += 1
    cl.call("clFinish", queue)
    counts["clFinish"] += 1
    return counts


def table() -> Any:
    """A loader that is newer than we are: functions that nobody knows of go through with all their arguments."""
    layer = ctypes.CDLL(None)
    function = CFUNCTYPE(c_uint64, *[c_uint64] * 14)
    seen: list[int] = []

    def add(*words: int) -> int:
        seen.append(sum(words))
        return 1 << 40 | len(seen)

    targets = [function(add) for _ in range(ALL)]
    mine = (c_void_p * ALL)(*(ctypes.cast(target, c_void_p) for target in targets))
    count, theirs = c_uint32(), POINTER(c_void_p)()
    assert layer.clInitLayer(ALL, mine, byref(count), byref(theirs)) == 0
    replaced = [place for place in range(count.value) if theirs[place] != mine[place]]
    first = function(theirs[0])(*range(1, 15))  # clGetPlatformIDs
    last = function(theirs[ALL - 1])(*range(1, 15))
    return {
        "count": count.value,
        "unknown_replaced": [place for place in replaced if place >= KNOWN],
        "sums": seen,
        "results": [first, last],
    }


if __name__ == "__main__":
    print(json.dumps({"mixed": mixed, "table": table}[sys.argv[1]]()))
