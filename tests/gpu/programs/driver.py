"""The CUDA driver, by ctypes: a program that starts in half a second, with kernels compiled here by NVRTC.

The kernels are those of kernels.cu, with line tables, so that recorded work leads back to that file.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

KERNELS = Path(__file__).with_name("kernels.cu")
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute
_CAPTURE_RELAXED = 2  # CUstreamCaptureMode
_NON_BLOCKING = 1  # CUstream_flags

Handle = ctypes.c_void_p
_NVRTC_PLACES = (
    *(("nvidia", folder, "lib") for folder in ("cu13", "cuda_nvrtc")),
    ("nvidia", "cu12", "lib"),
)
_driver: ctypes.CDLL | None = None


def driver() -> ctypes.CDLL:
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL("libcuda.so.1")
        _check(_driver.cuInit(0), "cuInit")
    return _driver


def call(name: str, *arguments: object) -> None:
    """Calls the driver; ends the program where it says no."""
    _check(getattr(driver(), name)(*arguments), name)


def devices() -> int:
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


class Context:
    """A device to run kernels on: its primary context, or one of its own that can be destroyed."""

    def __init__(self, ordinal: int = 0, *, own: bool = False, kernels: Path = KERNELS) -> None:
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.device = device
        self.handle = Handle()
        if own:
            call("cuCtxCreate_v2", ctypes.byref(self.handle), 0, device)
        else:
            call("cuDevicePrimaryCtxRetain", ctypes.byref(self.handle), device)
        self.use()
        self.multiprocessors = self._attribute(_MULTIPROCESSORS)
        self.module = Handle()
        call("cuModuleLoadData", ctypes.byref(self.module), compiled(f"sm_{self._attribute(_MAJOR)}{self._attribute(_MINOR)}", kernels))
        self.stream = Handle()
        call("cuStreamCreate", ctypes.byref(self.stream), _NON_BLOCKING)

    def use(self) -> None:
        call("cuCtxSetCurrent", self.handle)

    def destroy(self) -> None:
        call("cuCtxDestroy_v2", self.handle)

    def launch(self, name: str, grid: int, block: int, *arguments: ctypes._SimpleCData[int] | Handle, stream: Handle | None = None) -> None:
        """`stream`: instead of the context's own."""
        function = Handle()
        call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        places = (Handle * len(arguments))(*(ctypes.cast(ctypes.byref(argument), Handle) for argument in arguments))
        call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream or self.stream, places, None)

    def spin(self, ns: int, name: str = "spin", blocks: int = 0) -> None:
        self.launch(name, blocks or self.multiprocessors, 128, ctypes.c_ulonglong(ns))

    def synchronize(self) -> None:
        call("cuStreamSynchronize", self.stream)

    def memory(self, size: int) -> ctypes.c_ulonglong:
        address = ctypes.c_ulonglong()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def copy_in(self, address: ctypes.c_ulonglong, data: bytes) -> None:
        call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))

    def copy_out(self, address: ctypes.c_ulonglong, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
        return data.raw

    def copy_within(self, target: ctypes.c_ulonglong, source: ctypes.c_ulonglong, size: int) -> None:
        call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(size), self.stream)

    def fill(self, address: ctypes.c_ulonglong, value: int, size: int) -> None:
        call("cuMemsetD8Async", address, ctypes.c_ubyte(value), ctypes.c_size_t(size), self.stream)

    def begin_capture(self) -> None:
        call("cuStreamBeginCapture_v2", self.stream, _CAPTURE_RELAXED)

    def end_capture(self) -> Handle:
        """The captured graph, ready to run."""
        graph, ready = Handle(), Handle()
        call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        return ready

    def replay(self, graph: Handle) -> None:
        call("cuGraphLaunch", graph, self.stream)

    def _attribute(self, which: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), which, self.device)
        return value.value


def compiled(architecture: str, kernels: Path = KERNELS) -> bytes:
    """A source as a cubin."""
    nvrtc, program = _nvrtc(), Handle()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), kernels.read_bytes(), str(kernels).encode(), 0, None, None)
    _check(status, "nvrtcCreateProgram")
    options = [f"--gpu-architecture={architecture}".encode(), b"--generate-line-info"]
    if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    size = ctypes.c_size_t()
    _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
    cubin = ctypes.create_string_buffer(size.value)
    _check(nvrtc.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
    return cubin.raw


def _nvrtc() -> ctypes.CDLL:
    loaded = next((library for name in _nvrtc_names() if (library := _load(name))), None)
    return loaded or sys.exit("NVRTC is neither among Python's packages nor in a toolkit")


def _load(nvrtc: str) -> ctypes.CDLL | None:
    try:
        # It opens its other half by name alone, which is found when it is loaded already.
        for other_half in Path(nvrtc).parent.glob("libnvrtc-builtins.so.1?.*"):
            ctypes.CDLL(str(other_half), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(nvrtc)
    except OSError:
        return None


def _nvrtc_names() -> Iterator[str]:
    for folder in map(Path, sys.path):
        for place in _NVRTC_PLACES:
            yield from map(str, folder.joinpath(*place).glob("libnvrtc.so.1?"))
    yield from (f"libnvrtc.so.{major}" for major in (13, 12))
    yield from map(str, Path("/usr/local").glob("cuda*/lib64/libnvrtc.so"))


def _check(status: int, function: str) -> None:
    if status:
        sys.exit(f"{function} failed with {status}")
