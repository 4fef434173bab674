"""a() spins three times as long as b(), in native code without frame pointers; prints what each really took."""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.spin.restype = library.spin.argtypes = None
library.spin.argtypes = [ctypes.c_int64]
library.spin.restype = ctypes.c_int64
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def a():
    return library.spin(30_000_000)


def b():
    return library.spin(10_000_000)


def main():
    took = {"a": 0, "b": 0}
    for _ in range(rounds):
        took["a"] += a()
        took["b"] += b()
    print(json.dumps(took))


main()
