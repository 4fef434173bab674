"""The workload: one network whose three layers do the same matrix product in three ways. `python -m aiflame.demo.matmul --help`

It runs inside the recorded process, so it needs the standard library alone. Every step runs each way once: whatever differs
between their towers in the flame graph is the way, not the work.
"""

from __future__ import annotations

import argparse
import sys
import time
from array import array
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Device(Protocol):
    """Something that multiplies two square matrices; results stay with it until asked for."""

    name: str
    size: int
    """Rows and columns that keep it busy."""

    def load(self, left: array[float], right: array[float]) -> None: ...
    def basic(self) -> None: ...
    def blocked(self) -> None: ...
    def tiled(self) -> None: ...
    def synchronize(self) -> None:
        """Returns when all work has been done."""

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
    device = _device(options.device)
    random = Random(1)
    left, right = (array("f", (random.random() for _ in range(device.size**2))) for _ in range(2))
    device.load(left, right)
    steps = train(Network(device), options.seconds)
    check(device)
    print(f"{steps} steps on {device.name}: each multiplied two {device.size} x {device.size} matrices in three ways")
    return 0


def train(network: Network, seconds: float) -> int:
    """Whole steps until the time is up; their number."""
    end, steps = time.monotonic() + seconds, 0
    while steps == 0 or time.monotonic() < end:
        step(network)
        steps += 1
    return steps


def step(network: Network) -> None:
    network.forward()
    network.device.synchronize()


def check(device: Device) -> None:
    """The three ways must agree, or the comparison means nothing. Looks at every 61st number of large matrices."""
    basic, *others = (result[:: 61 if len(result) > 1 << 16 else 1] for result in device.results())
    for other in others:
        if any(abs(x - y) > 1e-4 * abs(x) for x, y in zip(basic, other, strict=True)):
            raise SystemExit("the three matrix products differ")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="aiflame.demo.matmul", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "opencl"), default="cpu")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to run")
    return parser.parse_args(arguments)


def _device(name: str) -> Device:
    if name == "opencl":
        from aiflame.demo.opencl_device import OpenClDevice

        return OpenClDevice()
    from aiflame.demo.cpu_device import CpuDevice

    return CpuDevice()


if __name__ == "__main__":
    sys.exit(main())
