"""Parallel regions of two threads, entered from a() three times as long as from b(); prints every stay as spin.c does."""

import ctypes
import json
import sys

from rhythm import lengths

THREADS = 2
Stays = (ctypes.c_int64 * 4) * THREADS
library = ctypes.CDLL(sys.argv[1])
library.spin_parallel.argtypes = [ctypes.c_int64, ctypes.c_int, Stays]
library.spin_parallel.restype = None


def a(quarter, stays):
    library.spin_parallel(3 * quarter, THREADS, stays)


def b(quarter, stays):
    library.spin_parallel(quarter, THREADS, stays)


all_stays = []
for length in lengths(200_000_000):
    for function in (a, b):
        stays = Stays()
        function(length // 4, stays)
        all_stays += [[function.__name__, *stay] for stay in stays]
print(json.dumps(all_stays))
