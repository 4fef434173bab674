"""a() spins three times as long as b(), in native code without frame pointers; prints what each really took."""

import ctypes
import json
import sys

from rhythm import lengths

library = ctypes.CDLL(sys.argv[1])
library.spin.argtypes = [ctypes.c_int64]
library.spin.restype = ctypes.c_int64


def a(quarter):
    return library.spin(3 * quarter)


def b(quarter):
    return library.spin(quarter)


def main():
    took = {"a": 0, "b": 0}
    for length in lengths(300_000_000):
        took["a"] += a(length // 4)
        took["b"] += b(length // 4)
    print(json.dumps(took))


main()
