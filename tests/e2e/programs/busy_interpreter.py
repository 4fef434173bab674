"""Two functions that take the same CPU time: one inside of list's `in`, one inside of the garbage collector."""

import gc
import time


def search(items, seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        for _ in range(200):
            -1 in items  # noqa: B015


def collect(seconds):
    cycles = [[] for _ in range(20_000)]
    for cycle in cycles:
        cycle.append(cycle)
    end = time.process_time() + seconds
    while time.process_time() < end:
        gc.collect()


search(list(range(5_000)), 1.0)
gc.disable()
collect(1.0)
