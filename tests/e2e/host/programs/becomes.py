"""Computes in `before`; at SIGUSR1 its process becomes known_shares.py."""

import os
import signal
import sys
from pathlib import Path

asked = []


def turn():
    total = 0
    for number in range(20_000):
        total += number * number


def before():
    turn()


signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
print("begun", flush=True)
while not asked:
    before()
os.execv(sys.executable, [sys.executable, str(Path(__file__).with_name("known_shares.py"))])
