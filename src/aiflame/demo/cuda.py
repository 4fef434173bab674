"""The part of CUDA's driver API that the demo needs, through ctypes: it needs only the driver's libcuda.so.1."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

# From NVIDIA's cuda.h. A CUdeviceptr is 64 bits wide, handles are pointers, a CUdevice is an int; the header's macros give the functions
# these names. Every function returns a CUresult.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
}


class CudaError(Exception):
    pass


class Cuda:
    """libcuda, initialised: functions by name, every error an exception."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise CudaError("there is no NVIDIA driver here (libcuda.so.1)") from None
        self._functions = {}
        for name, arguments in _SIGNATURES.items():
            function = library[name]
            function.argtypes, function.restype = arguments, c_int
            self._functions[name] = function
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        result = self._functions[name](*arguments)
        if result:
            text = c_char_p()
            self._functions["cuGetErrorString"](result, byref(text))
            raise CudaError(f"{name} failed with error {result}: {(text.value or b'unknown').decode()}")

    def version(self) -> tuple[int, int]:
        """The newest version of CUDA that the driver supports."""
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        return version.value // 1000, version.value % 1000 // 10


class Device:
    """The first device, and its primary context made current on this thread."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        device, context = c_int(), c_void_p()
        cuda.call("cuDeviceGet", byref(device), 0)
        name = ctypes.create_string_buffer(256)
        cuda.call("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode(errors="replace")
        self.architecture = 10 * self._attribute(device, _CAPABILITY_MAJOR) + self._attribute(device, _CAPABILITY_MINOR)
        """Its compute capability, such as 90."""
        cuda.call("cuDevicePrimaryCtxRetain", byref(context), device)
        cuda.call("cuCtxSetCurrent", context)

    def _attribute(self, device: c_int, which: int) -> int:
        value = c_int()
        self._cuda.call("cuDeviceGetAttribute", byref(value), which, device)
        return value.value

    def module(self, cubin: bytes) -> c_void_p:
        module = c_void_p()
        self._cuda.call("cuModuleLoadData", byref(module), cubin)
        return module

    def input(self, values: array[float]) -> c_uint64:
        """Memory of the device with these values."""
        address, count = values.buffer_info()
        memory = self.output(count * values.itemsize)
        self._cuda.call("cuMemcpyHtoD_v2", memory, address, count * values.itemsize)
        return memory

    def output(self, size: int) -> c_uint64:
        memory = c_uint64()
        self._cuda.call("cuMemAlloc_v2", byref(memory), size)
        return memory

    def read(self, memory: c_uint64, into: array[float]) -> None:
        address, count = into.buffer_info()
        self._cuda.call("cuMemcpyDtoH_v2", address, memory, count * into.itemsize)

    def kernel(self, module: c_void_p, name: str, *arguments: c_uint | c_uint64) -> Kernel:
        """A kernel with its arguments."""
        function = c_void_p()
        self._cuda.call("cuModuleGetFunction", byref(function), module, name.encode())
        addresses = (c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        return Kernel(function, arguments, addresses)

    def launch(self, kernel: Kernel, grid: tuple[int, int], block: tuple[int, int]) -> None:
        self._cuda.call("cuLaunchKernel", kernel.function, *grid, 1, *block, 1, 0, None, kernel.addresses, None)

    def synchronize(self) -> None:
        self._cuda.call("cuCtxSynchronize")


@dataclass(frozen=True, slots=True)
class Kernel:
    function: c_void_p
    arguments: tuple[c_uint | c_uint64, ...]
    """The arguments must stay alive, since every launch reads them through their addresses."""
    addresses: ctypes.Array[c_void_p]
