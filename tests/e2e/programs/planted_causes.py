"""`planted_causes.py SHARE FUNCTION...`: calls the functions for this share of its CPU time, and computes for the rest."""

import copy
import importlib
import io
import json
import logging
import os
import pickle
import random
import re
import sys
import time
from collections import deque
from pathlib import Path

ITEMS = list(range(2_000))
SET = set(ITEMS)
ROWS = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(200)]
PATTERN = re.compile(r"(\w+)-(\d+)")
RANDOM = random.Random(1)
NULL = Path(os.devnull).open("w")  # noqa: SIM115
LOG = logging.getLogger("work")
LOG.addHandler(logging.StreamHandler(NULL))
LOG.propagate = False
LOG.setLevel(logging.INFO)


def membership():
    return sum(-number in ITEMS for number in range(1, 20))  # planted


def membership_of_a_set():
    return sum(-number in SET for number in range(1, 20))


def front():
    queue = list(ITEMS) * 20
    for _ in range(200):
        queue.insert(0, queue.pop())  # planted


def front_of_a_deque():
    queue = deque(ITEMS)
    for _ in range(200):
        queue.appendleft(queue.pop())


def building():
    text = kept = ""
    for _ in range(200):
        text = text + "0123456789" * 500  # planted
        kept = text
    return kept


def joining():
    parts = []
    for _ in range(200):
        parts.append("0123456789")  # noqa: PERF401
    return "".join(parts)


def collecting():
    cycles = []
    for _ in range(3_000):
        cycle = {}
        cycle["self"] = cycle
        cycles.append([cycle, ITEMS, SET])
    ITEMS_KEPT.append(cycles)
    del ITEMS_KEPT[:-60]


ITEMS_KEPT = []


def freed_at_once():
    for number in range(3_000):
        {"number": [number]}  # noqa: B018


def encoding():
    return json.loads(json.dumps(ROWS))  # planted


def pickling():
    return pickle.loads(pickle.dumps(ROWS))  # planted


def logs():
    for number in range(50):
        LOG.info("number %d", number)  # planted


def prints():
    for number in range(200):
        print(number, "of", 200, file=NULL)  # planted


def writes():
    text = io.StringIO()
    for number in range(200):
        text.write(f"{number}\n")
    NULL.write(text.getvalue())


def deep():
    return copy.deepcopy(ROWS[:20])  # planted


def shallow():
    return [dict(row) for row in ROWS]


def compiling():
    re.purge()
    return re.compile(r"(?P<name>[a-z]+|\d{1,3})\s*=\s*(?P<value>[^;]+);?").match("a = 1;")  # planted


def matching():
    return PATTERN.match("word-12")


def importing():
    for name in [name for name in sys.modules if name.split(".")[0] in ("email", "xml", "unittest")]:
        del sys.modules[name]
    importlib.import_module("unittest.mock")  # planted
    importlib.import_module("email.mime.text")  # planted
    importlib.import_module("xml.dom.minidom")  # planted


def arithmetic():
    total = 0
    for number in range(5_000):
        total += number * number % 7
    return total


def calls_in_a_millisecond(work):
    """By the best of three: a first call may be slower."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return 0.001 / min(spent)


def main():
    share = float(sys.argv[1])
    planted = [globals()[name] for name in sys.argv[2:]]
    wanted = {work: share / len(planted) for work in planted} | {arithmetic: 1 - share}
    calls = {work: calls_in_a_millisecond(work) for work in wanted}
    spent = dict.fromkeys(wanted, 0.0)
    # A machine of 100 ticks a second takes 160 samples of it.
    while (whole := sum(spent.values())) < 1.6:
        turn = min(wanted, key=lambda work: spent[work] - wanted[work] * whole)
        # Long turns of chance's length: reading the CPU clock lets the kernel change threads just before a sampling tick.
        milliseconds = RANDOM.uniform(5, 25)
        begin = time.process_time()
        for _ in range(max(1, round(milliseconds * calls[turn]))):
            turn()
        spent[turn] += time.process_time() - begin


main()
