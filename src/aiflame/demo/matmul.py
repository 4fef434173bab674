"""The workload: one network whose three layers do the same matrix product in three ways. `python -m aiflame.demo.matmul --help`

It runs inside the recorded process, so it needs only the standard library. Every step runs each way once, with the same work:
their towers in the flame graph differ only by the way.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from array import array
from dataclasses import dataclass
from random import random, randrange
from typing import Protocol


class Device(Protocol):
    """A device that multiplies two square matrices; results stay on it until they are read."""

    name: str
    size: int
    """Rows and columns that keep it busy."""

    def load(self, left: array[float], right: array[float]) -> None: ...
    def basic(self) -> None: ...
    def blocked(self) -> None: ...
    def tiled(self) -> None: ...
    def synchronize(self) -> None:
        """Returns when all work is complete."""

    def results(self) -> tuple[array[float], array[float], array[float]]: ...


@dataclass(frozen=True, slots=True)
class Network:
    device: Device

    def forward(self) -> None:
        self.basic_layer()
        self.blocked_layer()
        self.tiled_layer()

    def basic_layer(self) -> None:
        self.device.basic()

    def blocked_layer(self) -> None:
        self.device.blocked()

    def tiled_layer(self) -> None:
        self.device.tiled()


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    device = open_device(options.device)
    size = options.size or device.size
    left, right = matrix(size), matrix(size)
    device.load(left, right)
    steps = train(Network(device), options.seconds)
    for product in device.results():
        check(left, right, product)
    times = f"{steps} step{'s' if steps != 1 else ''}"
    print(f"{times} on {device.name}: each multiplied two {size} x {size} matrices in three ways")
    return 0


def open_device(name: str) -> Device:
    """`cuda`, `ze` (Level Zero), `opencl` or `cpu`."""
    if name == "cuda":
        from aiflame.demo.cuda_device import CudaDevice

        return CudaDevice()
    if name == "ze":
        from aiflame.demo.level_zero_device import LevelZeroDevice

        return LevelZeroDevice()
    if name == "opencl":
        from aiflame.demo.opencl_device import OpenClDevice

        return OpenClDevice()
    from aiflame.demo.cpu_device import CpuDevice

    return CpuDevice()


def matrix(size: int) -> array[float]:
    """Random numbers for a matrix."""
    return array("f", (random() for _ in range(size * size)))


def train(network: Network, seconds: float) -> int:
    """Runs whole steps until the time is up; returns their number."""
    end, steps = time.monotonic() + seconds, 0
    while steps == 0 or time.monotonic() < end:
        step(network)
        steps += 1
    return steps


def step(network: Network) -> None:
    network.forward()
    network.device.synchronize()


def check(left: array[float], right: array[float], product: array[float]) -> None:
    """Checks a thousand numbers of each result against the inputs: the comparison is meaningful only if all are right."""
    size = math.isqrt(len(product))
    for _ in range(1000):
        row, column = randrange(size), randrange(size)
        expected = math.fsum(x * y for x, y in zip(left[row * size : (row + 1) * size], right[column::size], strict=True))
        # Written so that it catches nan, too.
        if not abs(product[row * size + column] - expected) <= 1e-4 * expected:
            raise SystemExit(f"a product is wrong: {product[row * size + column]} instead of {expected} at row {row}, column {column}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="aiflame.demo.matmul", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "ze", "opencl", "cpu"), default="cpu")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to run")
    parser.add_argument(
        "--size", type=int, default=0, help="rows of the matrices, a multiple of 128 (default: enough to keep the device busy)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
