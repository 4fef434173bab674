"""Runs until SIGTERM: a quarter of the turns in `light`, three quarters in `heavy`. Prints its number of turns that were wrong: 0.

It sleeps for a moment in each turn. With `busy` it does not: on a machine without a free processor, a thread that sleeps that often runs
from one tick of the kernel to just before the next, and its samples show where those ticks are."""

import os
import signal
import sys
import threading
import time

ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
signal.signal(signal.SIGALRM, lambda *_: None)


def turn(count):
    total = 0
    for number in range(count):
        total += number * number
    return total


def light():
    return turn(10_000)


def heavy():
    return turn(30_000)


def waits():
    read, _ = os.pipe()
    os.read(read, 1)


threading.Thread(target=waits, daemon=True).start()
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
wrong = 0
print("begun", flush=True)
while not ended:
    wrong += light() != 333283335000 or heavy() != 8999550005000
    if "busy" not in sys.argv:
        time.sleep(0.0001)
signal.setitimer(signal.ITIMER_REAL, 0)
print(wrong)
sys.exit(7)
