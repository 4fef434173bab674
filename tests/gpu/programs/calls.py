"""Calls of the runtime's and the driver's functions: how often each was called, and its answers, as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from driver import Context, Handle, compiled, devices, driver

LAUNCHES, COPIES, FILLS, ASKED, DIRECT = 40, 25, 7, 100, 5
BYTES, TOO_MUCH = 1 << 20, 1 << 45
MAJOR, MINOR = 75, 76  # CUdevice_attribute
HOST_TO_DEVICE = 1  # cudaMemcpyKind

Word = ctypes.c_size_t
_called: Counter[str] = Counter()


class Dimensions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint) for name in "xyz")


def main() -> None:
    devices()
    context = Context()
    kernel, length = spin(context), ctypes.c_ulonglong(100_000)
    arguments = (Handle * 1)(ctypes.cast(ctypes.byref(length), Handle))
    memory, nothing, device = Handle(), Handle(), ctypes.c_int()
    data = bytes(BYTES)
    grid, block = Dimensions(1, 1, 1), Dimensions(32, 1, 1)
    answers = [
        call("cudaMalloc", ctypes.byref(memory), Word(BYTES)),
        *(call("cudaMemcpyAsync", memory, data, Word(BYTES), HOST_TO_DEVICE, context.stream) for _ in range(COPIES)),
        *(call("cudaMemsetAsync", memory, 7, Word(BYTES // 2), context.stream) for _ in range(FILLS)),
        *(call("cudaLaunchKernel", kernel, grid, block, arguments, Word(0), context.stream) for _ in range(LAUNCHES)),
        *(call("cudaGetDevice", ctypes.byref(device)) for _ in range(ASKED)),
        call("cudaStreamSynchronize", context.stream),
    ]
    for _ in range(DIRECT):
        context.spin(100_000)
    context.synchronize()
    refused = [call("cudaMalloc", ctypes.byref(nothing), Word(TOO_MUCH)), call("cudaGetLastError"), call("cudaGetLastError")]
    print(json.dumps({"called": _called, "failed": sum(answer != 0 for answer in answers), "refused": refused}))


def call(name: str, *arguments: object) -> int:
    _called[name] += 1
    return int(getattr(_runtime(), name)(*arguments))


def spin(context: Context) -> Handle:
    """A kernel that the runtime's function takes, too."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    for value, which in ((major, MAJOR), (minor, MINOR)):
        driver().cuDeviceGetAttribute(ctypes.byref(value), which, context.device)
    library, kernel = Handle(), Handle()
    driver().cuLibraryLoadData(ctypes.byref(library), compiled(f"sm_{major.value}{minor.value}"), None, None, 0, None, None, 0)
    driver().cuLibraryGetKernel(ctypes.byref(kernel), library, b"spin")
    return kernel


_loaded: list[ctypes.CDLL] = []


def _runtime() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(next((library for name in _names() if (library := _load(name))), None) or sys.exit("the CUDA runtime is not here"))
    return _loaded[0]


def _load(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _names() -> Iterator[str]:
    for folder in map(Path, sys.path):
        for place in ("cu13/lib", "cuda_runtime/lib", "cu12/lib"):
            yield from map(str, folder.joinpath("nvidia", place).glob("libcudart.so.1?"))
    yield from (f"libcudart.so.{major}" for major in (13, 12))
    yield from map(str, Path("/usr/local").glob("cuda*/lib64/libcudart.so"))


if __name__ == "__main__":
    main()
