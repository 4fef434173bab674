"""Stands in several ways of waiting for some seconds, one a thread."""

import queue
import threading
import time

SECONDS = 5
LOCK = threading.Lock()
QUEUE = queue.SimpleQueue()


def naps():
    time.sleep(SECONDS)  # naps


def wants():
    LOCK.acquire(timeout=SECONDS)  # wants


def generates():
    time.sleep(SECONDS)  # generates
    yield


class Ünits:
    def gëts(self):
        QUEUE.get(timeout=SECONDS)  # gets


def from_c(_):
    time.sleep(SECONDS)  # from_c
    return 0


def deep(number):
    if number:
        deep(number - 1)
    else:
        time.sleep(SECONDS)  # deep


LOCK.acquire()
for work in (naps, wants, lambda: list(generates()), Ünits().gëts, lambda: max([1], key=from_c)):
    threading.Thread(target=work).start()
deep(40)
