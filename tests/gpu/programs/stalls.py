"""Four kernels, each of which waits for one thing, for so many seconds each: `stalls.py SECONDS`."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

from driver import Context

RING = 64 << 20
"""Elements of the ring: more than any cache holds."""


def main() -> None:
    seconds = float(sys.argv[1])
    context = Context()
    blocks = context.multiprocessors
    ring, out = context.memory(4 * RING), context.memory(8)
    context.launch("make_ring", blocks * 8, 256, ring, ctypes.c_uint(RING), ctypes.c_uint(1_000_003))
    context.synchronize()
    repeat(context, seconds, lambda: context.launch("wait_for_memory", blocks, 32, ring, ctypes.c_uint(20_000), out))
    repeat(context, seconds, lambda: context.launch("wait_at_barrier", blocks, 1024, ctypes.c_uint(2_000)))
    repeat(context, seconds, lambda: context.launch("wait_for_result", blocks, 128, ctypes.c_uint(20_000), out))
    repeat(context, seconds, lambda: context.launch("wait_for_pipe", blocks * 2, 512, ctypes.c_uint(1_000), out))


def repeat(context: Context, seconds: float, launch: Callable[[], None]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        launch()
        context.synchronize()


if __name__ == "__main__":
    main()
