"""The parts of the CPU time of the server in `programs.py`, by its thread's own clock: `own_clock.py [UNITS]`.

Beside `peers.py`: py-spy counts a thread that is ready to run, and has no CPU, as one that runs. Reading the clocks costs the server time
of its own, which is in the total.
"""

from __future__ import annotations

import asyncio.selector_events
import builtins
import json
import selectors
import sys
import time
from collections.abc import Callable
from typing import Any

import programs

took: dict[str, list[float]] = {}


def main() -> None:
    transport: Any = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    transport.write = timed("write", transport.write)
    selectors.EpollSelector.select = timed("select", selectors.EpollSelector.select)  # type: ignore[method-assign]
    programs.sorted = timed("sorted, with its generator", builtins.sorted)  # type: ignore[attr-defined]
    begun = time.thread_time()
    programs.uvicorn(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    total = time.thread_time() - begun
    print(
        json.dumps({name: {"cpu": round(100 * cpu / total, 1), "wall": round(100 * wall / total, 1)} for name, (cpu, wall) in took.items()})
    )


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up CPU and wall-clock seconds."""
    sums = took.setdefault(name, [0.0, 0.0])

    def call(*values: Any, **named: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return function(*values, **named)
        finally:
            sums[0] += time.thread_time() - cpu
            sums[1] += time.perf_counter() - wall

    return call


if __name__ == "__main__":
    main()
