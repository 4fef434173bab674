"""Traces as torch.profiler writes them, of programs that are known by construction."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

H100 = "NVIDIA H100 80GB HBM3"
US = 1000
"""Nanoseconds in a microsecond; all times here are in nanoseconds."""
LAUNCH_NS = 2 * US


class KinetoTrace:
    """Events of one process with a main thread and devices."""

    def __init__(self, device: str = H100, devices: int = 1, pid: int = 100) -> None:
        self.pid = pid
        self.device = device
        self.devices = devices
        self.events: list[dict[str, Any]] = []
        self.members: dict[str, Any] = {}
        self._number = 0
        self._free: dict[tuple[int, int], int] = {}
        """By device and stream, when its last work ends."""

    def call(self, name: str, begin: int, end: int, category: str = "cpu_op", tid: int = 100, **args: Any) -> None:
        named = {key.replace("_", " "): value for key, value in args.items()}
        self._add(name, category, self.pid, tid, begin, end - begin, named)

    def python(self, function: str, begin: int, end: int, file: str = "train.py", line: int = 10, tid: int = 100) -> None:
        self.call(f"{file}({line}): {function}", begin, end, "python_function", tid)

    def step(self, number: int, begin: int, end: int) -> None:
        self.call(f"ProfilerStep#{number}", begin, end, "user_annotation")

    def op(self, name: str, begin: int, end: int, shapes: list[Any], kind: str = "float", values: list[str] | None = None) -> None:
        """An op whose inputs are tensors of one type; [] is an argument that is none."""
        args = {"Input Dims": shapes, "Input type": [kind if shape else "Scalar" for shape in shapes]}
        self._add(name, "cpu_op", self.pid, 100, begin, end - begin, {**args, "Concrete Inputs": values or [""] * len(shapes)})

    def launch(self, kernel: str, begin: int, took: int, *, after: int = 5 * US, device: int = 0, stream: int = 7, tid: int = 100) -> int:
        """A launch that takes LAUNCH_NS on the thread, and the kernel: `after` the launch, when its stream is free. Gives its end."""
        return self._work(
            kernel, "kernel", "cudaLaunchKernel", begin, took, after, device, stream, tid, {"grid": [264, 1, 1], "block": [256, 1, 1]}
        )

    def copy(self, kind: str, begin: int, took: int, size: int, *, after: int = 5 * US, device: int = 0, stream: int = 7) -> int:
        name = f"Memcpy {kind} (Pageable -> Device)"
        return self._work(name, "gpu_memcpy", "cudaMemcpyAsync", begin, took, after, device, stream, 100, {"bytes": size})

    def wait(self, begin: int, end: int, name: str = "cudaStreamSynchronize") -> None:
        self._number += 1
        self._add(name, "cuda_runtime", self.pid, 100, begin, end - begin, {"correlation": self._number})

    def write(self, file: Path) -> Path:
        properties = [{"id": number, "name": self.device} for number in range(self.devices)]
        document = {"schemaVersion": 1, "deviceProperties": properties, **self.members, "traceEvents": self.events}
        file.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
        return file

    def _work(
        self,
        name: str,
        category: str,
        call: str,
        begin: int,
        took: int,
        after: int,
        device: int,
        stream: int,
        tid: int,
        args: dict[str, Any],
    ) -> int:
        self._number += 1
        correlation = {"correlation": self._number}
        self._add(call, "cuda_runtime", self.pid, tid, begin, LAUNCH_NS, correlation)
        start = max(begin + after, self._free.get((device, stream), 0))
        self._free[device, stream] = start + took
        self._add(name, category, device, stream, start, took, {**correlation, "device": device, "stream": stream, **args})
        return start + took

    def _add(self, name: str, category: str, pid: int, tid: int, begin: int, took: int, args: dict[str, Any]) -> None:
        times = {"ts": begin / US, "dur": took / US}
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": args})
