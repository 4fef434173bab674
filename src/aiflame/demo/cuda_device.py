"""The three products as CUDA kernels (matmul.cu), compiled by NVRTC for the first GPU."""

from __future__ import annotations

from array import array
from ctypes import c_uint, c_uint64
from math import isqrt
from pathlib import Path

from aiflame.demo import nvrtc
from aiflame.demo.cuda import Cuda, CudaError, Device

_SOURCE = Path(__file__).with_name("matmul.cu")
# Threads along the sides of a block, and the side of the tile that a block of `matmul_tiled` computes (as in matmul.cu).
_BLOCK, _TILED_BLOCK, _TILED_SIDE = (32, 32), (16, 16), 128


class CudaDevice:
    size = 2048

    def __init__(self) -> None:
        try:
            cuda = Cuda()
            self._device = Device(cuda)
            compiler = nvrtc.find(cuda.version(), self._device.architecture)
            # Line tables have the file's absolute path, so that readers of the profile find the file.
            self._module = self._device.module(compiler.compile(_SOURCE, self._device.architecture))
        except (CudaError, nvrtc.NvrtcError) as error:
            raise SystemExit(str(error)) from None
        self.name = self._device.name

    def load(self, left: array[float], right: array[float]) -> None:
        self._size = isqrt(len(left))
        inputs = self._device.input(left), self._device.input(right)
        self._outputs = [self._device.output(left.itemsize * len(left)) for _ in range(3)]
        self._kernels = [
            self._device.kernel(self._module, name, c_uint(self._size), *inputs, output)
            for name, output in zip(("matmul_basic", "matmul_blocked", "matmul_tiled"), self._outputs, strict=True)
        ]

    def basic(self) -> None:
        self._device.launch(self._kernels[0], (self._size // _BLOCK[0], self._size // _BLOCK[1]), _BLOCK)

    def blocked(self) -> None:
        self._device.launch(self._kernels[1], (self._size // _BLOCK[0], self._size // _BLOCK[1]), _BLOCK)

    def tiled(self) -> None:
        self._device.launch(self._kernels[2], (self._size // _TILED_SIDE, self._size // _TILED_SIDE), _TILED_BLOCK)

    def synchronize(self) -> None:
        self._device.synchronize()

    def results(self) -> tuple[array[float], array[float], array[float]]:
        basic, blocked, tiled = map(self._read, self._outputs)
        return basic, blocked, tiled

    def _read(self, memory: c_uint64) -> array[float]:
        values = array("f", bytes(4 * self._size * self._size))
        self._device.read(memory, values)
        return values
