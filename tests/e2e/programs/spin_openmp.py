"""Parallel regions entered from a() three times as long as from b()."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.spin_parallel.argtypes = [ctypes.c_int64, ctypes.c_int]


def a():
    library.spin_parallel(30_000_000, 2)


def b():
    library.spin_parallel(10_000_000, 2)


for _ in range(60):
    a()
    b()
