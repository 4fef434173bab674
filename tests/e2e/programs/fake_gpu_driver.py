"""The CUDA driver's functions from Python, and another user of CUPTI beside them: the scenes of fake_gpu.py use both."""

from __future__ import annotations

import ctypes
import os
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

NEVER = (1 << 64) - 1
"""How long a kernel runs that does not complete."""
PIECE = 2 << 20


def device_code() -> bytes:
    """A real cubin's, where the test names one."""
    path = os.environ.get("CUBIN")
    return Path(path).read_bytes() if path else b"device code of the fake GPU"


class Dimensions(ctypes.Structure):
    """The runtime's dim3."""

    _fields_ = tuple((name, ctypes.c_uint) for name in "xyz")


class Gpu:
    """The driver's functions, with a context of its own."""

    def __init__(self, device: int = 0) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = c_void_p()
        self.make_context(device)
        self.module = c_void_p()
        self.call("cuModuleLoadData", byref(self.module), device_code())

    def make_context(self, device: int) -> None:
        self.call("cuCtxCreate_v2", byref(self.context), 0, device)

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: error {status}")

    def kernel(self, name: str, ns: int = 10_000) -> c_void_p:
        self.driver.fake_kernel_duration(name.encode(), c_uint64(ns))
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), self.module, name.encode())
        return function

    def stream(self) -> c_void_p:
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), 0)
        return stream

    def memory(self, size: int) -> c_uint64:
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(self, kernel: c_void_p, stream: c_void_p | None = None, grid: int = 4) -> None:
        self.call("cuLaunchKernel", kernel, grid, 1, 1, 32, 2, 1, 128, stream, None, None)

    def wait(self) -> None:
        self.call("cuCtxSynchronize")

    def capture(self, stream: c_void_p, *launches: c_void_p) -> c_void_p:
        self.call("cuStreamBeginCapture_v2", stream, 0)
        for kernel in launches:
            captured_here(self, kernel, stream)
        graph = c_void_p()
        self.call("cuStreamEndCapture", stream, byref(graph))
        return graph

    def ready(self, graph: c_void_p) -> c_void_p:
        ready = c_void_p()
        self.call("cuGraphInstantiateWithFlags", byref(ready), graph, c_uint64(0))
        return ready


class RuntimeGpu(Gpu):
    """With the device's primary context, as the CUDA runtime has it."""

    def make_context(self, device: int) -> None:
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)


class PhysicalProperty(ctypes.Structure):
    """CUmemAllocationProp: pinned memory, of a device unless `kind` says another place."""

    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("kind", c_int),
        ("device", c_int),
        ("windows", c_void_p),
        ("flags", c_uint64),
    )


class Physical:
    """Physical memory in pieces of 2 MiB, and the bytes that the driver has in use after each call that changes them."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._bytes = gpu.driver.fake_physical_bytes
        self._bytes.restype = c_uint64
        self.seen: list[int] = []
        self.base = c_uint64()
        gpu.call("cuMemAddressReserve", byref(self.base), c_size_t(16 * PIECE), c_size_t(0), c_uint64(0), c_uint64(0))

    def call(self, name: str, *arguments: object) -> None:
        self.gpu.call(name, *arguments)
        now = self._bytes()
        if now != (self.seen[-1] if self.seen else 0):
            self.seen.append(now)

    def created_here(self, pieces: int, device: int = 0) -> c_uint64:
        handle = c_uint64()
        self.call("cuMemCreate", byref(handle), c_size_t(pieces * PIECE), byref(PhysicalProperty(1, 1, 1, device)), c_uint64(0))
        return handle

    def map(self, handle: c_uint64, pieces: int, at: int) -> None:
        self.call("cuMemMap", self._at(at), c_size_t(pieces * PIECE), c_size_t(0), handle, c_uint64(0))

    def unmap(self, pieces: int, at: int) -> None:
        self.call("cuMemUnmap", self._at(at), c_size_t(pieces * PIECE))

    def release(self, handle: c_uint64) -> None:
        self.call("cuMemRelease", handle)

    def retained(self, at: int) -> c_uint64:
        handle = c_uint64()
        self.call("cuMemRetainAllocationHandle", byref(handle), c_void_p(self._at(at).value))
        return handle

    def imported(self, handle: c_uint64) -> c_uint64:
        shared, again = c_int(), c_uint64()
        self.call("cuMemExportToShareableHandle", byref(shared), handle, 1, c_uint64(0))
        self.call("cuMemImportFromShareableHandle", byref(again), c_void_p(shared.value), 1)
        return again

    def _at(self, pieces: int) -> c_uint64:
        return c_uint64(self.base.value + pieces * PIECE)


def captured_here(gpu: Gpu, kernel: c_void_p, stream: c_void_p) -> None:
    gpu.launch(kernel, stream)


def much(gpu: Gpu, kernel: c_void_p) -> None:
    for _ in range(30):
        gpu.launch(kernel)


def little(gpu: Gpu, kernel: c_void_p) -> None:
    for _ in range(10):
        gpu.launch(kernel)


class Tool:
    """Another user of CUPTI in this program."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["TOOL"])

    def __enter__(self) -> Tool:
        self.library.tool_start()
        return self

    def __exit__(self, *_: object) -> None:
        self.library.tool_stop()

    def seen(self) -> list[int]:
        return [self.library.tool_kernels(), self.library.tool_launches()]


def until_written(table: str, rows: int) -> None:
    """Waits until a table of this process has so many rows and the worker that wrote them sleeps; not at all where nobody records."""
    if "AIFLAME_PROFILE" in os.environ:
        while rows_of(table) < rows or "S" not in _states("aiflame"):
            time.sleep(0.01)


def rows_of(table: str) -> int:
    """Of this process's recording, so far."""
    for path in Path(os.environ["AIFLAME_PROFILE"]).glob(f"spool/{os.getpid()}.*/{table}.table"):
        return int.from_bytes(path.read_bytes()[24:32], "little")
    return 0


def _states(thread: str) -> list[str]:
    """Of this process's threads of that name."""
    stats = [path.read_text() for path in Path("/proc/self/task").glob("*/stat")]
    return [stat.rpartition(")")[2].split()[0] for stat in stats if f"({thread})" in stat]


def until_recorded_again() -> None:
    """Waits until activity is recorded: by this program's recorder, since the other tool has left."""
    if "AIFLAME_PROFILE" in os.environ:
        copies = [ctypes.CDLL(copy) for copy in ("libcupti.so.13", os.environ.get("TOOL_CUPTI")) if copy]
        while all(copy.fake_cupti_kinds() == 0 for copy in copies):
            time.sleep(0.01)
