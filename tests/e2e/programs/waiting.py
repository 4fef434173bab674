"""Four threads: three wait on three different things for two seconds, and one works. Prints how long each took, in ns."""

import json
import os
import threading
import time

SECONDS = 2
read_end, write_end = os.pipe()
lock = threading.Lock()
lock.acquire()
took = {}


def waits_for_input():
    os.read(read_end, 1)


def waits_for_a_lock():
    lock.acquire()


def sleeps():
    time.sleep(SECONDS)


def works():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        sum(range(1000))


def timed(function):
    begin = time.monotonic_ns()
    function()
    took[function.__name__] = time.monotonic_ns() - begin


threads = [threading.Thread(target=timed, args=(function,)) for function in (waits_for_input, waits_for_a_lock, sleeps, works)]
for thread in threads:
    thread.start()
time.sleep(SECONDS)
os.write(write_end, b"x")
lock.release()
for thread in threads:
    thread.join()
print(json.dumps(took))
