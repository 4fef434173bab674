"""Kernels of known lengths from two places, and two equal kernels in turn: `split.py SECONDS`. Tells the launches of each as JSON."""

from __future__ import annotations

import json
import sys
import time

from driver import Context

MILLISECOND = 1_000_000


def a(context: Context) -> None:
    context.spin(3 * MILLISECOND)


def b(context: Context) -> None:
    context.spin(1 * MILLISECOND)


def equal(context: Context) -> None:
    context.spin(MILLISECOND, "spin_one")
    context.spin(MILLISECOND, "spin_two")


def main() -> None:
    context = Context()
    seconds = float(sys.argv[1])
    launched = {"a": 0, "b": 0, "equal": 0}
    for places in ((a, b), (equal,)):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for place in places:
                place(context)
                launched[place.__name__] += 1
            context.synchronize()
    print(json.dumps(launched))


if __name__ == "__main__":
    main()
