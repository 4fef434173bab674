"""The part of OpenCL that the demo needs, through ctypes: no package, no header, only a libOpenCL.so.1 of the system.

`python -m aiflame.demo.opencl` lists the devices, the best first: a line each, its kind (gpu, cpu or other), a tab and its name.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

# From Khronos' CL/cl.h.
_DEVICE_NOT_FOUND = -1
_ALL_DEVICES = 0xFFFFFFFF
_KINDS = {1 << 2: "gpu", 1 << 1: "cpu"}
_DEVICE_TYPE, _DEVICE_NAME = 0x1000, 0x102B
_PROGRAM_BUILD_LOG = 0x1183
_READ_WRITE, _READ_ONLY_COPY = 1 << 0, 1 << 2 | 1 << 5
_BEST_FIRST = ("gpu", "other", "cpu")

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "clGetPlatformIDs": (c_uint32, POINTER(c_void_p), POINTER(c_uint32)),
    "clGetDeviceIDs": (c_void_p, c_uint64, c_uint32, POINTER(c_void_p), POINTER(c_uint32)),
    "clGetDeviceInfo": (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clBuildProgram": (c_void_p, c_uint32, POINTER(c_void_p), c_char_p, c_void_p, c_void_p),
    "clGetProgramBuildInfo": (c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clSetKernelArg": (c_void_p, c_uint32, c_size_t, c_void_p),
    "clEnqueueNDRangeKernel": (
        c_void_p,
        c_void_p,
        c_uint32,
        POINTER(c_size_t),
        POINTER(c_size_t),
        POINTER(c_size_t),
        c_uint32,
        c_void_p,
        c_void_p,
    ),
    "clEnqueueReadBuffer": (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, c_void_p, c_void_p),
    "clFinish": (c_void_p,),
}
_MAKERS: dict[str, tuple[Any, ...]] = {
    "clCreateContext": (c_void_p, c_uint32, POINTER(c_void_p), c_void_p, c_void_p, POINTER(c_int32)),
    "clCreateCommandQueue": (c_void_p, c_void_p, c_uint64, POINTER(c_int32)),
    "clCreateProgramWithSource": (c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_size_t), POINTER(c_int32)),
    "clCreateKernel": (c_void_p, c_char_p, POINTER(c_int32)),
    "clCreateBuffer": (c_void_p, c_uint64, c_size_t, c_void_p, POINTER(c_int32)),
}


class OpenClError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Device:
    handle: int
    kind: str
    name: str


class OpenCl:
    """libOpenCL: functions by name, every error an exception."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            raise OpenClError("there is no OpenCL here (libOpenCL.so.1): install a driver, such as Debian's pocl-opencl-icd") from None
        self._functions = {}
        for name, arguments in {**_SIGNATURES, **_MAKERS}.items():
            function = library[name]
            function.argtypes = arguments
            function.restype = c_void_p if name in _MAKERS else c_int32
            self._functions[name] = function

    def call(self, name: str, *arguments: object) -> None:
        error = self._functions[name](*arguments)
        if error:
            raise OpenClError(f"{name} failed with error {error}")

    def make(self, name: str, *arguments: object) -> int:
        error = c_int32()
        handle = self._functions[name](*arguments, byref(error))
        if error.value or not handle:
            raise OpenClError(f"{name} failed with error {error.value}")
        return int(handle)

    def devices(self) -> list[Device]:
        """All devices, the best first."""
        handles: list[int] = []
        for platform in self._list("clGetPlatformIDs"):
            handles += self._list("clGetDeviceIDs", c_void_p(platform), c_uint64(_ALL_DEVICES))
        return sorted(map(self._device, handles), key=lambda device: _BEST_FIRST.index(device.kind))

    def _list(self, name: str, *arguments: object) -> list[int]:
        count, handles = c_uint32(), (c_void_p * 64)()
        # An ICD loader without a driver answers with an error of its own (-1001).
        if self._functions[name](*arguments, 64, handles, byref(count)) != 0:
            return []
        return [handle for handle in handles[: min(count.value, 64)] if handle]

    def _device(self, handle: int) -> Device:
        kind, name = c_uint64(), ctypes.create_string_buffer(256)
        self.call("clGetDeviceInfo", handle, _DEVICE_TYPE, ctypes.sizeof(kind), byref(kind), None)
        self.call("clGetDeviceInfo", handle, _DEVICE_NAME, len(name), name, None)
        of_kind = (label for bit, label in _KINDS.items() if kind.value & bit)
        return Device(handle, next(of_kind, "other"), name.value.decode(errors="replace"))


class Program:
    """A context, a queue and a program on one device."""

    def __init__(self, opencl: OpenCl, device: Device, source: str, options: str = "") -> None:
        self._opencl = opencl
        devices = (c_void_p * 1)(device.handle)
        self._context = opencl.make("clCreateContext", None, 1, devices, None, None)
        self._queue = opencl.make("clCreateCommandQueue", self._context, device.handle, 0)
        text = source.encode()
        self._program = opencl.make("clCreateProgramWithSource", self._context, 1, byref(c_char_p(text)), byref(c_size_t(len(text))))
        try:
            opencl.call("clBuildProgram", self._program, 1, devices, options.encode(), None, None)
        except OpenClError as error:
            log = ctypes.create_string_buffer(1 << 14)
            opencl.call("clGetProgramBuildInfo", self._program, device.handle, _PROGRAM_BUILD_LOG, len(log), log, None)
            raise OpenClError(f"{error}: {log.value.decode(errors='replace')}") from None

    def input(self, values: array[float]) -> int:
        """A buffer with these values."""
        address, count = values.buffer_info()
        return self._opencl.make("clCreateBuffer", self._context, _READ_ONLY_COPY, count * values.itemsize, c_void_p(address))

    def output(self, size: int) -> int:
        return self._opencl.make("clCreateBuffer", self._context, _READ_WRITE, size, None)

    def kernel(self, name: str, *arguments: ctypes._SimpleCData[int] | ctypes._SimpleCData[int | None]) -> int:
        """A kernel with its arguments set."""
        kernel = self._opencl.make("clCreateKernel", self._program, name.encode())
        for index, argument in enumerate(arguments):
            self._opencl.call("clSetKernelArg", kernel, index, ctypes.sizeof(argument), byref(argument))
        return kernel

    def launch(self, kernel: int, grid: tuple[int, int], group: tuple[int, int]) -> None:
        whole, part = (c_size_t * 2)(*grid), (c_size_t * 2)(*group)
        self._opencl.call("clEnqueueNDRangeKernel", self._queue, kernel, 2, None, whole, part, 0, None, None)

    def read(self, buffer: int, into: array[float]) -> None:
        address, count = into.buffer_info()
        self._opencl.call("clEnqueueReadBuffer", self._queue, buffer, 1, 0, count * into.itemsize, c_void_p(address), 0, None, None)

    def finish(self) -> None:
        self._opencl.call("clFinish", self._queue)


def main() -> int:
    try:
        devices = OpenCl().devices()
    except OpenClError as error:
        print(error, file=sys.stderr)
        return 1
    for device in devices:
        print(f"{device.kind}\t{device.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
