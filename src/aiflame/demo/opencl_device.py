"""The three products as OpenCL kernels (matmul.cl) on the best OpenCL device."""

from __future__ import annotations

from array import array
from ctypes import c_uint32, c_void_p
from math import isqrt
from pathlib import Path

from aiflame.demo.opencl import OpenCl, OpenClError, Program

_SOURCE = Path(__file__).with_name("matmul.cl")
_GROUP = (16, 16)


class OpenClDevice:
    def __init__(self) -> None:
        try:
            opencl = OpenCl()
            device = next(iter(opencl.devices()), None)
            if device is None:
                raise OpenClError("OpenCL has no device here: install a driver, such as Debian's pocl-opencl-icd")
            on_cpu = device.kind == "cpu"
            # With -g, drivers that run on the CPU leave line tables for the instructions of their kernels.
            options = "-g -DWIDE_VECTORS" if on_cpu else ""
            self._program = Program(opencl, device, f'#line 1 "{_SOURCE.name}"\n{_SOURCE.read_text()}', options)
        except OpenClError as error:
            raise SystemExit(str(error)) from None
        self.name = device.name
        self.size = 512 if on_cpu else 2048
        # Numbers that a work item of `matmul_tiled` computes, and its group.
        self._tile, self._tiled_group = ((16, 4), (4, 16)) if on_cpu else ((4, 4), _GROUP)

    def load(self, left: array[float], right: array[float]) -> None:
        self._size = isqrt(len(left))
        self._inputs = c_void_p(self._program.input(left)), c_void_p(self._program.input(right))
        self._outputs = [self._program.output(left.itemsize * len(left)) for _ in range(3)]
        self._kernels = [
            self._program.kernel(name, c_uint32(self._size), *self._inputs, c_void_p(output))
            for name, output in zip(("matmul_basic", "matmul_blocked", "matmul_tiled"), self._outputs, strict=True)
        ]

    def basic(self) -> None:
        self._program.launch(self._kernels[0], (self._size, self._size), _GROUP)

    def blocked(self) -> None:
        self._program.launch(self._kernels[1], (self._size, self._size), _GROUP)

    def tiled(self) -> None:
        self._program.launch(self._kernels[2], (self._size // self._tile[0], self._size // self._tile[1]), self._tiled_group)

    def synchronize(self) -> None:
        self._program.finish()

    def results(self) -> tuple[array[float], array[float], array[float]]:
        basic, blocked, tiled = map(self._read, self._outputs)
        return basic, blocked, tiled

    def _read(self, buffer: int) -> array[float]:
        values = array("f", bytes(4 * self._size * self._size))
        self._program.read(buffer, values)
        return values
