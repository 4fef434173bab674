"""`planted_waits.py FUNCTION SECONDS`: waits in a known way, and prints the part of its time for which it did, and that part together
with the time for which it then had no CPU."""

import asyncio
import contextlib
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RANDOM = random.Random(1)
LOCK = threading.Lock()
BEGAN = time.monotonic()
STARTED = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
"""On the clock since the machine's start: the interpreter's start is a part of the time, too."""
# On a busy machine, the interpreter's start may take longer than all the time for which the program would wait.
SECONDS = float(sys.argv[2]) + 2 * (time.clock_gettime(time.CLOCK_BOOTTIME) - STARTED)
PLANTED = ("sleeping", "locked", "reading", "blocking", "loading")
ENOUGH, AT_MOST_SECONDS = 30, 90
waited = away = seen = 0.0


def goes_on():
    """A planted wait goes on until a recorder that looks ten times a second for four seconds, and then three times, has met it often: on a
    busy machine, the program waits for a smaller part of its time."""
    took = time.monotonic() - BEGAN
    return took < SECONDS or (sys.argv[1] in PLANTED and seen < ENOUGH and took < AT_MOST_SECONDS)


def computes(seconds):
    """For so much CPU time of its thread."""
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        sum(range(200))


def turn(low=0.01, high=0.05):
    return RANDOM.uniform(low, high)


def running_and_ready():
    """Seconds in which the thread ran, and in which it waited for a CPU alone."""
    running, ready = map(int, Path("/proc/thread-self/schedstat").read_text().split()[:2])
    return running / 1e9, ready / 1e9


class Waiting:
    def __enter__(self):
        self.running, self.ready = running_and_ready()
        self.begin = time.monotonic()

    def __exit__(self, *_):
        global waited, away, seen
        took = time.monotonic() - self.begin
        running, ready = running_and_ready()
        away += max(took - (running - self.running), 0)
        here = max(took - (running - self.running) - (ready - self.ready), 0)
        waited += here
        seen += here * (10 if time.clock_gettime(time.CLOCK_BOOTTIME) - STARTED < 4 else 3)


WAITING = Waiting()


def sleeping():
    while goes_on():
        with WAITING:
            time.sleep(turn())  # planted
        computes(turn() / 2)


def sleeping_little():
    while goes_on():
        with WAITING:
            time.sleep(turn() / 30)
        computes(turn())


def saves():
    time.sleep(turn())


def locked():
    """The thread that saves has the lock for four fifths of the time."""

    def holder():
        while goes_on():
            with LOCK:
                saves()
            time.sleep(turn() / 4)

    threading.Thread(target=holder, name="saver").start()
    while goes_on():
        with WAITING:
            LOCK.acquire()  # planted
        LOCK.release()
        computes(turn() / 20)


def locked_apart():
    """The main thread has a lock that nobody else wants."""

    def other():
        while goes_on():
            saves()

    threading.Thread(target=other).start()
    while goes_on():
        with LOCK:
            computes(turn())


def spins():
    while goes_on():
        computes(turn())  # planted


def contends():
    """It has only the interpreter's lock to wait for."""
    global waited, away
    begin = time.monotonic()
    spins()
    running, ready = running_and_ready()
    with LOCK:
        away += (time.monotonic() - begin - running) / 2
        waited += (time.monotonic() - begin - running - ready) / 2


def contending():
    for thread in [threading.Thread(target=contends) for _ in range(2)]:
        thread.start()


def piped(pause):
    """A child process writes after a pause of its own."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        with contextlib.suppress(BrokenPipeError):
            while True:
                time.sleep(pause())
                os.write(theirs, b"x")
        os._exit(0)
    os.close(theirs)
    return ours


def reading():
    fd = piped(turn)
    while goes_on():
        with WAITING:
            os.read(fd, 1)  # planted
        computes(turn() / 10)


def reading_what_is_there():
    fd = piped(lambda: turn() / 10)
    time.sleep(0.1)
    while goes_on():
        computes(turn())
        with WAITING:
            os.read(fd, 1)


def syncing():
    with tempfile.NamedTemporaryFile(dir=".") as file:
        while goes_on():
            file.write(bytes(1 << 20))
            file.flush()
            with WAITING:
                os.fsync(file.fileno())  # planted


async def blocks():
    while goes_on():
        with WAITING:
            time.sleep(turn())  # planted
        await asyncio.sleep(turn() / 4)


async def yields():
    while goes_on():
        await asyncio.sleep(turn())


def blocking():
    async def both():
        await asyncio.gather(blocks(), yields())

    asyncio.run(both())


def awaiting():
    async def both():
        await asyncio.gather(yields(), yields())

    asyncio.run(both())


def idling():
    """Workers that wait for work, beside a main thread that computes."""
    work = queue.Queue()
    for _ in range(3):
        threading.Thread(target=work.get, daemon=True).start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(computes, [0.001] * 20))
        while goes_on():
            computes(turn())


def joining():
    """The main thread waits for a thread that computes."""
    thread = threading.Thread(target=spins)
    thread.start()
    thread.join()


def child():
    """The main thread waits for a process that computes."""
    subprocess.run([sys.executable, __file__, "spins", sys.argv[2]], check=True, stdout=subprocess.DEVNULL)


class Items:
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1 << 30

    def __getitem__(self, _):
        computes(RANDOM.uniform(0.5, 1.5) * self.seconds)
        return 1.0


def loads(item_seconds, step_seconds):
    global SECONDS
    from torch.utils.data import DataLoader

    # On a busy machine, to import torch may take longer than all the time that the other programs run for: it waits for as long again.
    SECONDS = max(SECONDS, 2 * (time.monotonic() - BEGAN))
    batches = iter(DataLoader(Items(item_seconds), num_workers=1))
    next(batches)
    while goes_on():
        with WAITING:
            next(batches)  # planted
        computes(step_seconds)


def loading():
    loads(0.04, 0.004)


def loading_ahead():
    loads(0.002, 0.02)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    took = time.clock_gettime(time.CLOCK_BOOTTIME) - STARTED
    print(waited / took, away / took)
