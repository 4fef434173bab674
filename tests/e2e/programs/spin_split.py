"""a() spins three times as long as b(), in native code without frame pointers; prints every stay as spin.c does."""

import ctypes
import json
import sys

from rhythm import lengths

library = ctypes.CDLL(sys.argv[1])
library.spin.argtypes = [ctypes.c_int64, ctypes.c_int64 * 4]
library.spin.restype = None


def a(quarter, stay):
    library.spin(3 * quarter, stay)


def b(quarter, stay):
    library.spin(quarter, stay)


def main():
    stays = []
    for length in lengths(200_000_000):
        for function in (a, b):
            stay = (ctypes.c_int64 * 4)()
            function(length // 4, stay)
            stays.append([function.__name__, *stay])
    print(json.dumps(stays))


main()
