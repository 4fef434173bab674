"""The three products as kernels of Level Zero (matmul.cl, compiled to SPIR-V), on the first GPU that has it."""

from __future__ import annotations

from array import array
from ctypes import c_uint32, c_void_p
from math import isqrt

from aiflame.demo.level_zero import Device, LevelZero, LevelZeroError
from aiflame.demo.spirv import kernels

# The sides of a group, and of the tile that a group of `matmul_tiled` computes (as in matmul.cl).
_GROUP, _TILED_SIDE = (16, 16), 64


class LevelZeroDevice:
    size = 2048

    def __init__(self) -> None:
        try:
            self._device = Device(LevelZero())
            self._module = self._device.module(kernels())
        except LevelZeroError as error:
            raise SystemExit(str(error)) from None
        self.name = self._device.name

    def load(self, left: array[float], right: array[float]) -> None:
        self._size = isqrt(len(left))
        inputs = self._device.input(left), self._device.input(right)
        self._outputs = [self._device.output(left.itemsize * len(left)) for _ in range(3)]
        self._kernels = [
            self._device.kernel(self._module, name, _GROUP, c_uint32(self._size), *inputs, output)
            for name, output in zip(("matmul_basic", "matmul_blocked", "matmul_tiled"), self._outputs, strict=True)
        ]

    def basic(self) -> None:
        self._device.launch(self._kernels[0], (self._size // _GROUP[0], self._size // _GROUP[1]))

    def blocked(self) -> None:
        self._device.launch(self._kernels[1], (self._size // _GROUP[0], self._size // _GROUP[1]))

    def tiled(self) -> None:
        self._device.launch(self._kernels[2], (self._size // _TILED_SIDE, self._size // _TILED_SIDE))

    def synchronize(self) -> None:
        self._device.synchronize()

    def results(self) -> tuple[array[float], array[float], array[float]]:
        basic, blocked, tiled = map(self._read, self._outputs)
        return basic, blocked, tiled

    def _read(self, memory: c_void_p) -> array[float]:
        values = array("f", bytes(4 * self._size * self._size))
        self._device.read(memory, values)
        return values
