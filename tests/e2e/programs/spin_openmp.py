"""Parallel regions of two threads, entered from a() three times as long as from b(); prints what each really took."""

import ctypes
import json
import sys

from rhythm import lengths

library = ctypes.CDLL(sys.argv[1])
library.spin_parallel.argtypes = [ctypes.c_int64, ctypes.c_int]
library.spin_parallel.restype = ctypes.c_int64


def a(quarter):
    return library.spin_parallel(3 * quarter, 2)


def b(quarter):
    return library.spin_parallel(quarter, 2)


took = {"a": 0, "b": 0}
for length in lengths(300_000_000):
    took["a"] += a(length // 4)
    took["b"] += b(length // 4)
print(json.dumps(took))
