"""A client of OpenCL through ctypes, for the programs of test_opencl.py: calls by name, results and errors untouched."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

_WAITS = (c_uint32, c_void_p, c_void_p)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "clGetPlatformIDs": (c_uint32, c_void_p, c_void_p),
    "clGetDeviceIDs": (c_void_p, c_uint64, c_uint32, c_void_p, c_void_p),
    "clGetDeviceInfo": (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clCreateContext": (c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_void_p),
    "clCreateCommandQueue": (c_void_p, c_void_p, c_uint64, c_void_p),
    "clCreateCommandQueueWithProperties": (c_void_p, c_void_p, c_void_p, c_void_p),
    "clReleaseCommandQueue": (c_void_p,),
    "clReleaseContext": (c_void_p,),
    "clGetCommandQueueInfo": (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clCreateBuffer": (c_void_p, c_uint64, c_size_t, c_void_p, c_void_p),
    "clCreateImage": (c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p),
    "clCreateProgramWithSource": (c_void_p, c_uint32, c_void_p, c_void_p, c_void_p),
    "clBuildProgram": (c_void_p, c_uint32, c_void_p, c_char_p, c_void_p, c_void_p),
    "clCreateKernel": (c_void_p, c_char_p, c_void_p),
    "clReleaseKernel": (c_void_p,),
    "clSetKernelArg": (c_void_p, c_uint32, c_size_t, c_void_p),
    "clEnqueueNDRangeKernel": (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, *_WAITS),
    "clEnqueueTask": (c_void_p, c_void_p, *_WAITS),
    "clEnqueueReadBuffer": (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_WAITS),
    "clEnqueueWriteBuffer": (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_WAITS),
    "clEnqueueCopyBuffer": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, *_WAITS),
    "clEnqueueReadBufferRect": (c_void_p, c_void_p, c_uint32, *[c_void_p] * 3, *[c_size_t] * 4, c_void_p, *_WAITS),
    "clEnqueueWriteBufferRect": (c_void_p, c_void_p, c_uint32, *[c_void_p] * 3, *[c_size_t] * 4, c_void_p, *_WAITS),
    "clEnqueueCopyBufferRect": (*[c_void_p] * 6, *[c_size_t] * 4, *_WAITS),
    "clEnqueueFillBuffer": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, *_WAITS),
    "clEnqueueReadImage": (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, *_WAITS),
    "clEnqueueWriteImage": (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p, *_WAITS),
    "clEnqueueMapBuffer": (c_void_p, c_void_p, c_uint32, c_uint64, c_size_t, c_size_t, *_WAITS, c_void_p),
    "clEnqueueUnmapMemObject": (c_void_p, c_void_p, c_void_p, *_WAITS),
    "clEnqueueMigrateMemObjects": (c_void_p, c_uint32, c_void_p, c_uint64, *_WAITS),
    "clSVMAlloc": (c_void_p, c_uint64, c_size_t, c_uint32),
    "clEnqueueSVMMemcpy": (c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, *_WAITS),
    "clEnqueueSVMMemFill": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, *_WAITS),
    "clCreateUserEvent": (c_void_p, c_void_p),
    "clSetUserEventStatus": (c_void_p, c_int32),
    "clSetEventCallback": (c_void_p, c_int32, c_void_p, c_void_p),
    "clGetEventInfo": (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clGetEventProfilingInfo": (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p),
    "clReleaseEvent": (c_void_p,),
    "clWaitForEvents": (c_uint32, c_void_p),
    "clFlush": (c_void_p,),
    "clFinish": (c_void_p,),
}
_POINTERS = ("clCreate", "clSVMAlloc", "clEnqueueMap")

PROFILING = 1 << 1
OUT_OF_ORDER = 1 << 0
QUEUE_REFERENCES, QUEUE_PROPERTIES, QUEUE_LIST = 0x1092, 0x1093, 0x1098
EVENT_REFERENCES = 0x11D2
QUEUED, START, END = 0x1280, 0x1282, 0x1283

library = ctypes.CDLL("libOpenCL.so.1")
for _name, _types in _ARGUMENTS.items():
    _function = getattr(library, _name)  # kept by the library: its types stay
    _function.argtypes = _types
    _function.restype = c_void_p if _name.startswith(_POINTERS) else c_int32


class Cl:
    """One context on the first device."""

    def __init__(self, source: str = "", options: str = "") -> None:
        handles = (c_void_p * 1)()
        self.call("clGetPlatformIDs", 1, handles, None)
        self.call("clGetDeviceIDs", handles[0], 0xFFFFFFFF, 1, handles, None)
        self.device = handles[0]
        self.context = self.make("clCreateContext", None, 1, handles, None, None)
        if source:
            self.program = self.make("clCreateProgramWithSource", self.context, 1, byref(c_char_p(source.encode())), None)
            self.call("clBuildProgram", self.program, 1, handles, options.encode(), None, None)

    @staticmethod
    def call(name: str, *arguments: Any) -> None:
        error = getattr(library, name)(*arguments)
        assert error == 0, f"{name}: {error}"

    @staticmethod
    def make(name: str, *arguments: Any) -> int:
        error = c_int32(1)
        handle = getattr(library, name)(*arguments, byref(error))
        assert error.value == 0 and handle, f"{name}: {error.value}"
        return int(handle)

    def queue(self, properties: int = 0) -> int:
        return self.make("clCreateCommandQueue", self.context, self.device, properties)

    def buffer(self, size: int) -> int:
        return self.make("clCreateBuffer", self.context, 1, size, None)

    def kernel(self, name: str, *arguments: Any) -> int:
        kernel = self.make("clCreateKernel", self.program, name.encode())
        for index, argument in enumerate(arguments):
            self.call("clSetKernelArg", kernel, index, ctypes.sizeof(argument), byref(argument))
        return kernel

    def launch(self, queue: int, kernel: int, items: int, waits: Sequence[int] = ()) -> int:
        """Its event."""
        event = c_void_p()
        self.call("clEnqueueNDRangeKernel", queue, kernel, 1, None, sizes(items), None, *waiting(waits), byref(event))
        assert event.value
        return event.value

    def stamp(self, event: int, which: int) -> int:
        value = c_uint64()
        self.call("clGetEventProfilingInfo", event, which, 8, byref(value), None)
        return value.value

    def took(self, event: int) -> int:
        return self.stamp(event, END) - self.stamp(event, START)


def sizes(*values: int) -> Any:
    return (c_size_t * len(values))(*values)


def waiting(events: Sequence[int]) -> tuple[int, Any]:
    return len(events), (c_void_p * len(events))(*events) if events else None


def info(function: str, handle: int, name: int, words: int = 1) -> tuple[int, list[int]]:
    """Error, and the value as 64-bit words."""
    room, size = (c_uint64 * max(words, 1))(), c_size_t()
    error = getattr(library, function)(handle, name, 8 * words, room if words else None, byref(size))
    return error, [*room[: min(words, -(-size.value // 8))], size.value]
