"""Triton without a GPU: `python fake_triton.py SCENE...` compiles for an H100 and launches through the CUDA driver's own functions.

The driver is the `libcuda.so.1` of the library path. Prints the name of each compiled kernel in its binary.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from ctypes import c_void_p
from typing import Any

import triton
import triton.language as tl
from fake_gpu_driver import Gpu
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import MockTensor

STAGES = 2


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Utils:
    """The functions of the driver that Triton calls: above all, to load a binary."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        return 1, self.gpu.kernel(name).value or 0, 32, 0, 1024

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "multiprocessor_count": 132}


class Driver:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.utils, self.stream = gpu, Utils(gpu), None
        self.launcher_cls = self.launcher

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def launcher(self, source: object, metadata: object) -> Callable[..., None]:
        def launch(x: int, y: int, z: int, stream: object, function: int, *arguments: object) -> None:
            self.gpu.launch(c_void_p(function), self.stream, x)

        return launch


@triton.jit
def vadd(x, y, z, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit(repr=lambda one: f"mine_{one.constants['BLOCK']}")
def named(x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 0.0, at < n)


TYPES = {kind: Dtype(kind) for kind in ("float32", "float16")}
"""Triton remembers a type by its address."""


def tensor(kind: str = "float32") -> Any:
    return MockTensor(TYPES[kind])


def add(block: int, warps: int, times: int = 1, kind: str = "float32", n: int = 1000) -> Any:
    for _ in range(times):
        executable = vadd[(4,)](tensor(kind), tensor(kind), tensor(kind), n, BLOCK=block, num_warps=warps, num_stages=STAGES)
    return executable


def two(driver: Driver) -> list[Any]:
    return [add(128, 4, 3), add(256, 8, 2)]


def alike(driver: Driver) -> list[Any]:
    """Two specializations that differ only in types, and two that differ only in the known divisibility of `n`."""
    return [add(128, 4, 1), add(128, 4, 2, "float16"), add(256, 4, 3, n=1000), add(256, 4, 4, n=1024)]


def own(driver: Driver) -> list[Any]:
    return [named[(4,)](tensor(), 1000, BLOCK=64)]


def graph(driver: Driver) -> list[Any]:
    """Loaded first, then captured once and replayed five times."""
    stream, replaying = driver.gpu.stream(), driver.gpu.stream()
    executable = add(256, 8)
    captured = driver.gpu.capture(stream, c_void_p(executable.function))
    ready = driver.gpu.ready(captured)
    for _ in range(5):
        driver.gpu.call("cuGraphLaunch", ready, replaying)
    return [executable]


def main() -> None:
    driver = Driver(Gpu())
    triton.runtime.driver.set_active(driver)
    executables = [one for name in sys.argv[1:] for one in globals()[name](driver)]
    driver.gpu.wait()
    print(json.dumps([{"name": one.name, "entry": f".entry {one.name}(" in one.asm["ptx"]} for one in executables]))


main()
