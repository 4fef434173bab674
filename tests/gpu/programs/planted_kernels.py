"""A kernel with one fault, again and again: `planted_kernels.py FAULT SECONDS`. `near-FAULT` does the same work without it."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

from driver import Context, Handle, call

KERNELS = Path(__file__).with_name("planted_kernels.cu")
u32 = ctypes.c_uint


def main() -> None:
    fault, seconds = sys.argv[1], float(sys.argv[2])
    context = Context(kernels=KERNELS)
    launch = Faults(context).of(fault)
    launch()
    context.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(10):
            launch()
        context.synchronize()


class Faults:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.all = context.multiprocessors

    def of(self, fault: str) -> Callable[[], None]:
        near = fault.startswith("near-")
        function: Callable[[bool], Callable[[], None]] = getattr(self, fault.removeprefix("near-").replace("-", "_"))
        return function(near)

    def few_blocks(self, near: bool) -> Callable[[], None]:
        out, blocks = self.context.memory(8), self.all * 8 if near else 8
        return lambda: self.context.launch("count_up", blocks, 256, u32(2_000), out)

    def last_wave(self, near: bool) -> Callable[[], None]:
        out, blocks = self.context.memory(8), self.all * 8 if near else self.all * 2 + 30
        return lambda: self.context.launch("count_up", blocks, 1024, u32(2_000), out)

    def double_precision(self, near: bool) -> Callable[[], None]:
        out, name = self.context.memory(8), "count_up" if near else "in_double"
        return lambda: self.context.launch(name, self.all * 8, 256, u32(1_000), out)

    def spills(self, near: bool) -> Callable[[], None]:
        values, out = self._filled(64 << 10), self.context.memory(8)
        if near:
            return lambda: self.context.launch("near_mix_in_many", self.all * 8, 256, values, u32(500), out)
        return lambda: self.context.launch("mix_in_few", self.all * 4, 1024, values, u32(100), out)

    def atomics(self, near: bool) -> Callable[[], None]:
        count = 64 << 20 if near else 4 << 20
        values, out, name = self._filled(4 * count), self._filled(8), "near_add_blocks" if near else "add_each"
        return lambda: self.context.launch(name, self.all * 8, 256, values, u32(count), out)

    def shared_memory(self, near: bool) -> Callable[[], None]:
        out, name = self.context.memory(8), "near_by_columns_padded" if near else "by_columns"
        return lambda: self.context.launch(name, self.all * 8, 256, u32(100), out)

    def scattered_access(self, near: bool) -> Callable[[], None]:
        rows = self.all * 256
        values, out = self._filled(4 * 4096 * rows), self.context.memory(4 * rows)
        name = "near_sum_of_columns_together" if near else "sum_of_columns_apart"
        return lambda: self.context.launch(name, self.all, 256, values, u32(rows), out)

    def few_warps(self, near: bool) -> Callable[[], None]:
        size = 256 << 20
        values, out = self._filled(size), self.context.memory(8)
        name = "near_walk_in_company" if near else "walk_in_small_company"
        blocks = self.all * (256 if near else 32)
        return lambda: self.context.launch(name, blocks, 64, values, u32(size // 4 - 1), u32(200), out)

    def memory_bound(self, near: bool) -> Callable[[], None]:
        if near:
            return self.few_blocks(near)
        count = 64 << 20
        arrays = [self._filled(4 * count) for _ in range(3)]
        return lambda: self.context.launch("add_arrays", self.all * 8, 256, *arrays, u32(count // 4))

    def serial_streams(self, near: bool) -> Callable[[], None]:
        """Streams that wait for the default stream, and a launch there between any two; or none there."""
        out, streams, default = self.context.memory(8), [Handle() for _ in range(4)], Handle(1)  # CU_STREAM_LEGACY
        for stream in streams:
            call("cuStreamCreate", ctypes.byref(stream), 0)

        def launch() -> None:
            for stream in streams:
                self.context.launch("count_up", 8, 256, u32(2_000), out, stream=stream)
                if not near:
                    self.context.launch("count_up", 1, 32, u32(1), out, stream=default)
            call("cuCtxSynchronize")

        return launch

    def _filled(self, size: int) -> ctypes.c_ulonglong:
        memory = self.context.memory(size)
        self.context.fill(memory, 0, size)
        return memory


if __name__ == "__main__":
    main()
