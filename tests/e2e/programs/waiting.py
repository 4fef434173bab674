"""Four threads that wait on four different things for two seconds, and one that works."""

import os
import threading
import time

SECONDS = 2
read_end, write_end = os.pipe()
lock = threading.Lock()
lock.acquire()


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


threads = [threading.Thread(target=target) for target in (waits_for_input, waits_for_a_lock, sleeps, works)]
for thread in threads:
    thread.start()
time.sleep(SECONDS)
os.write(write_end, b"x")
lock.release()
for thread in threads:
    thread.join()
