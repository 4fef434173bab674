"""Runs until SIGTERM: a quarter of its turns in `light`, three quarters in `heavy`. SIGUSR1: forks a child that computes in `late`.

With the descriptors that it gets meanwhile it tries to leave a folder upwards, and to change a file that lies in memory, as an attacker in
the container would. Prints JSON at the end: turns that were wrong, the kinds of descriptors that it saw, and where it succeeded."""

import json
import os
import signal
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path

asked, ended, children = [], [], []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))


def turn(count):
    total = 0
    for number in range(count):
        total += number * number
    return total


def light():
    return turn(10_000)


def heavy():
    return turn(30_000)


def late():
    while True:
        turn(30_000)


def tries(number):
    status = os.fstat(number)
    if stat.S_ISDIR(status.st_mode):
        seen.add("folder")
        if not os.path.samestat(status, os.stat("..", dir_fd=number)):
            succeeded.append("it left the folder")
    elif str(Path(f"/proc/self/fd/{number}").readlink()).startswith("/memfd:"):
        seen.add("memory")
        with suppress(OSError), Path(f"/proc/self/fd/{number}").open("r+b", buffering=0) as file:
            file.write(b"changed")
            succeeded.append("it changed the collector")


def descriptors():
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}


def look():
    for number in descriptors() - own:
        with suppress(OSError):  # it has been closed
            tries(number)


pipe = os.pipe()
threading.Thread(target=os.read, args=(pipe[0], 1), daemon=True).start()
own, seen, succeeded, wrong, turns = descriptors(), set(), [], 0, 0
print("begun", flush=True)
while not ended:
    wrong += light() != 333283335000 or heavy() != 8999550005000
    turns += 1
    if turns % 8 == 0:
        look()
    if len(children) < len(asked):
        children.append(os.fork())
        if children[-1] == 0:
            late()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(json.dumps({"wrong": wrong, "seen": sorted(seen), "succeeded": succeeded}))
sys.exit(7)
