"""Kernels of known lengths from two places, and two equal kernels: `split.py SECONDS`. Prints the launches of each as JSON.

In no order: all multiprocessors are looked at in the same moments, and a pattern that repeats as often would always show the same part."""

from __future__ import annotations

import json
import random
import sys
import time

from driver import Context

MILLISECOND = 1_000_000
order = random.Random(7)


def a(context: Context) -> None:
    context.spin(3 * MILLISECOND)


def b(context: Context) -> None:
    context.spin(1 * MILLISECOND)


def equal(context: Context) -> None:
    for name in order.sample(("spin_one", "spin_two"), 2):
        context.spin(MILLISECOND, name)


def main() -> None:
    context = Context()
    seconds = float(sys.argv[1])
    launched = {"a": 0, "b": 0, "equal": 0}
    for places in ((a, b), (equal,)):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for place in order.sample(places, len(places)):
                place(context)
                launched[place.__name__] += 1
            context.synchronize()
    print(json.dumps(launched))


if __name__ == "__main__":
    main()
