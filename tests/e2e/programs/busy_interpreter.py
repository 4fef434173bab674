"""Calls two functions in turn, one inside of list's `in`, one inside of the garbage collector, and prints the CPU time of each."""

import gc
import json
import random
import time

SECONDS = 2.4
ITEMS = list(range(5_000))
CYCLES = [[] for _ in range(20_000)]
RANDOM = random.Random(1)


def search(calls):
    for _ in range(calls):
        -1 in ITEMS  # noqa: B015


def collect(calls):
    for _ in range(calls):
        gc.collect()


def calls_in_a_millisecond(work):
    """By the best of three: a first call may be slower."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        work(5)
        spent.append(time.process_time() - begin)
    return 5 * 0.001 / min(spent)


for cycle in CYCLES:
    cycle.append(cycle)
gc.disable()
calls = {work: calls_in_a_millisecond(work) for work in (search, collect)}
spent = dict.fromkeys(calls, 0.0)
while sum(spent.values()) < SECONDS:
    turn = min(spent, key=spent.get)
    # Long turns of chance's length: reading the CPU clock lets the kernel change threads just before a sampling tick.
    milliseconds = RANDOM.uniform(5, 25)
    begin = time.process_time()
    turn(max(1, round(milliseconds * calls[turn])))
    spent[turn] += time.process_time() - begin
print(json.dumps({work.__name__: seconds for work, seconds in spent.items()}))
