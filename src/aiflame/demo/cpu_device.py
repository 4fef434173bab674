"""The three products by the bundled C++ library (native/demo), called through ctypes."""

from __future__ import annotations

import ctypes
from array import array
from math import isqrt
from pathlib import Path

_LIBRARY = Path(__file__).parents[1] / "lib" / "libaiflame_demo.so"


class CpuDevice:
    name = "the CPU"
    size = 512

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(_LIBRARY))

    def load(self, left: array[float], right: array[float]) -> None:
        self._inputs = left, right
        self._left, self._right = _pointer(left), _pointer(right)
        self._size = ctypes.c_size_t(isqrt(len(left)))
        self._results = tuple(array("f", bytes(left.itemsize * len(left))) for _ in range(3))
        self._outputs = tuple(_pointer(result) for result in self._results)

    def basic(self) -> None:
        self._library.matmul_basic(self._size, self._left, self._right, self._outputs[0])

    def blocked(self) -> None:
        self._library.matmul_blocked(self._size, self._left, self._right, self._outputs[1])

    def tiled(self) -> None:
        self._library.matmul_tiled(self._size, self._left, self._right, self._outputs[2])

    def synchronize(self) -> None:
        pass

    def results(self) -> tuple[array[float], array[float], array[float]]:
        basic, blocked, tiled = self._results
        return basic, blocked, tiled


def _pointer(values: array[float]) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.buffer_info()[0])
