"""`planted_processors.py FUNCTION SECONDS`: wants more of the kernel than there is, or nearly so. Prints which part of its CPUs it had."""

import os
import random
import sys
import threading
import time
from multiprocessing import Process

RANDOM = random.Random(1)
SECONDS = float(sys.argv[2])
BEGAN = time.monotonic()
CPUS = len(os.sched_getaffinity(0))


def goes_on():
    return time.monotonic() - BEGAN < SECONDS


def counts():
    # On a busy machine for longer: until the process has computed for much longer than it took to start.
    while goes_on() or time.process_time() < 1:
        sum(range(10_000))


def counts_a_little():
    while goes_on():
        sum(range(10_000))
        time.sleep(0.01)


def together(kind, number, work):
    started = [kind(target=work) for _ in range(number)]
    for one in started:
        one.start()
    for one in started:
        one.join()


def processes():
    together(Process, 3 * CPUS, counts)


def as_many_processes_as_cpus():
    together(Process, CPUS, counts)


def hashes():
    import hashlib

    data = bytes(1 << 20)
    while goes_on():
        hashlib.sha256(data)  # without the interpreter's lock


def python_threads():
    together(threading.Thread, 4 * CPUS, hashes)


def threads_that_share_the_lock():
    together(threading.Thread, 4 * CPUS, counts)


def openmp_threads():
    import torch

    torch.set_num_threads(4 * CPUS)
    matrix = torch.ones(400_000)
    # On a busy machine, to import torch may take longer than all the time that the other programs run for.
    imported = time.monotonic() - BEGAN
    while time.monotonic() - BEGAN < SECONDS + 2 * imported:
        (matrix * 2 + 1).exp()


def alone():
    counts()


def seldom():
    counts_a_little()


def new_memory():
    while goes_on():
        block = bytearray(RANDOM.randint(40, 60) << 20)
        block[::4096] = bytes((len(block) + 4095) // 4096)


def the_same_memory():
    block = bytearray(60 << 20)
    while goes_on():
        block[::4096] = bytes((len(block) + 4095) // 4096)


def calls():
    """In the kernel for as long, for other reasons."""
    fd = os.open("/dev/zero", os.O_RDONLY)
    buffer = bytearray(1 << 16)
    while goes_on():
        os.readv(fd, [buffer])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(sum(os.times()[:4]) / (time.monotonic() - BEGAN) / CPUS)
