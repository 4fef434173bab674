"""Programs whose stacks are compared with glibc's: run with libunwind_probe.so preloaded.

    python unwind_workloads.py LIBRARY WORKLOAD PERIOD CALLS TICKS GENERATED

Every PERIOD'th allocation of a thread and a tick every millisecond of CPU time are compared, until there are CALLS stacks of the
first kind, TICKS of the second, and GENERATED that cross code without unwind information. Prints the two tallies as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

Step = Callable[[], object]
COUNTS = ("stacks", "equal", "frames", "agreed", "generated", "outermost", "unanswered")


class Tally(ctypes.Structure):
    """The same as `Tally` in preload/unwind_probe.cpp."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in COUNTS),
        ("parted_at", ctypes.c_uint64 * 8),
        ("lost_at", ctypes.c_uint64 * 8),
    )

    def told(self) -> dict[str, object]:
        places = {name: [where(pc) for pc in getattr(self, name) if pc] for name in ("parted_at", "lost_at")}
        return {name: getattr(self, name) for name in COUNTS} | places


def where(pc: int) -> str:
    """File and offset of an address, to look into a difference."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(None, 5)
        low, high = (int(part, 16) for part in fields[0].split("-"))
        if low <= pc < high:
            return f"{fields[5] if len(fields) > 5 else 'anonymous'}+{pc - low + int(fields[2], 16):#x}"
    return hex(pc)


def training() -> Step:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.ReLU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(4, 16, 64)

    def step() -> None:
        optimizer.zero_grad()
        output = model(batch)
        (output * output).mean().backward()
        optimizer.step()

    return step


def convolution() -> Step:
    """Most of its time is in oneDNN's run-time code, and in MKL's assembly."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(8),
        torch.nn.Flatten(),
        torch.nn.Linear(2048, 256),
        torch.nn.GELU(),
        torch.nn.Linear(256, 10),
    )
    batch = torch.randn(16, 3, 32, 32)
    return lambda: model(batch).sum().backward()


def arrays() -> Step:
    import numpy as np

    random = np.random.default_rng(0)

    def step() -> None:
        matrix = random.random((100, 100))
        (matrix @ matrix).sum()
        np.linalg.svd(matrix)
        np.sort(matrix, axis=0)
        np.fft.fft2(matrix)
        [np.array(number) for number in range(50)]

    return step


def bindings() -> Step:
    """A pybind11 module, found on the path: C++ that calls Python that calls C++, with exceptions through both."""
    module = importlib.import_module("unwind_bindings")

    def inner(depth: int) -> int:
        if depth == 0:
            raise ValueError("innermost")
        return int(module.call(inner, depth - 1))

    def step() -> None:
        for depth in range(12):
            with contextlib.suppress(ValueError):
                module.call(inner, depth)

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {"training": training, "convolution": convolution, "arrays": arrays, "bindings": bindings}


def main(library: str, workload: str, period: str, *wanted: str) -> None:
    least_calls, least_ticks, least_generated = map(int, wanted)
    probe = ctypes.CDLL(library)
    step = WORKLOADS[workload]()
    for _ in range(3):
        step()
    calls, handler = Tally(), Tally()
    probe.probe_start(int(period), 1000)
    while calls.stacks < least_calls or handler.stacks < least_ticks or handler.generated < least_generated:
        step()
        probe.probe_peek(ctypes.byref(calls), ctypes.byref(handler))
    probe.probe_stop(ctypes.byref(calls), ctypes.byref(handler))
    print(json.dumps({"calls": calls.told(), "handler": handler.told()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
