"""Launches of functions that are known to be specializations, and of others, in all ways, through the CUDA driver's own functions."""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import c_void_p

from fake_gpu_driver import Gpu

aiflame = sys.modules.get("_aiflame")


def tell(kernel: c_void_p, readable: str) -> None:
    if aiflame:
        aiflame.variant(kernel.value, "spin", readable, "{}")


def launch(gpu: Gpu, kernel: c_void_p) -> None:
    gpu.launch(kernel)
    gpu.call("cuLaunchKernelEx", (ctypes.c_uint * 16)(5, 1, 1, 64, 1, 1, 0), kernel, None, None)
    gpu.call("cuLaunchCooperativeKernel", kernel, 3, 1, 1, 16, 1, 1, 0, None, None)


def main() -> None:
    gpu = Gpu()
    first, second, unknown = (gpu.kernel(name) for name in ("spin", "spun", "other"))
    launch(gpu, first)
    tell(first, "first")
    tell(second, "second")
    for kernel in (first, second, unknown):
        launch(gpu, kernel)
    tell(first, "first again")
    launch(gpu, first)
    stream = gpu.stream()
    gpu.capture(stream, second, unknown)
    gpu.wait()
    # Looked up among many; and all is forgotten in a child.
    for address in range(1 << 40, (1 << 40) + 5000 * 64, 64):
        tell(c_void_p(address), "many")
    launch(gpu, second)
    gpu.wait()
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)


main()
