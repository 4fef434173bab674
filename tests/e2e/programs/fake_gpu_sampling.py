"""Programs on the fake GPU that run for a while: `python fake_gpu_sampling.py SCENE` does the work that test_cuda_sampling.py expects."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

from fake_gpu import Gpu
from fake_gpu_driver import rows_of


def work(gpu: Gpu, name: str, seconds: float, table: str = "") -> int:
    """Launches kernels of 1 ms, a good third of the time; how many. Goes on until there is a row in `table`."""
    kernel, launched, end = gpu.kernel(name, 1_000_000), 0, time.monotonic() + seconds
    while time.monotonic() < end or (table and not rows_of(table)):
        gpu.launch(kernel)
        gpu.wait()
        launched += 1
        time.sleep(0.002)
    return launched


def steady() -> None:
    print(work(Gpu(), "spin", float(sys.argv[2]), *sys.argv[3:]))


def beside_another() -> None:
    """While a device is being used, another process uses it, too."""
    gpu = Gpu()
    first = work(gpu, "spin", 0.3)
    other = subprocess.run([sys.executable, __file__, "steady", "0.3"], check=True, capture_output=True, text=True).stdout
    print(first + work(gpu, "spin", 0.3), other)


def come_and_go() -> None:
    """Twelve threads make and destroy contexts while those of others are being sampled; as many devices as argument 2 says."""
    devices = int(sys.argv[2])

    def some(number: int) -> None:
        for turn in range(5):
            gpu = Gpu(number % devices)
            work(gpu, f"of_{number}", 0.02 * (1 + (number + 3 * turn) % 12))
            gpu.call("cuCtxDestroy_v2", gpu.context)

    started = [threading.Thread(target=some, args=(number,)) for number in range(12)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def several_contexts() -> None:
    """Two contexts of one device; the first goes, and a third comes."""
    first, second = Gpu(), Gpu()
    for gpu, name in ((first, "first"), (second, "second")):
        gpu.call("cuCtxSetCurrent", gpu.context)
        work(gpu, name, 0.3)
    first.call("cuCtxDestroy_v2", first.context)
    third = Gpu()
    for gpu, name in ((second, "second"), (third, "third")):
        gpu.call("cuCtxSetCurrent", gpu.context)
        work(gpu, name, 0.3)


def gone_meanwhile() -> None:
    """A context goes while its samples are being fetched, and one of another device is used until that has come to its end."""
    gone, stays = Gpu(), Gpu(1)
    gone.call("cuCtxSetCurrent", gone.context)
    work(gone, "gone", 0.5)
    gone.call("cuCtxDestroy_v2", gone.context)
    stays.call("cuCtxSetCurrent", stays.context)
    work(stays, "stays", 4)


class Pace:
    """Threads launch as fast as they can until the sampling of stalls has ended, and some 25,000 times a second afterwards.

    A launch must be under way at that moment; later ones need only be more than the 5,000 that end it, and leave the core to others.
    """

    def __init__(self) -> None:
        self._contexts_sampled = ctypes.CDLL("libcupti.so.13").fake_cupti_samples
        self._has_begun = self._has_ended = False

    def keep(self) -> None:
        """Call it after each hundred launches."""
        sampled = bool(self._contexts_sampled())
        self._has_begun |= sampled
        self._has_ended |= self._has_begun and not sampled
        if self._has_ended and not sampled:
            time.sleep(0.003)


def launching(pace: Pace | None = None) -> Gpu:
    """Launches for as many seconds as argument 2 says, by as many threads as argument 3 says; the device is hardly busy."""
    gpu, pace = Gpu(), pace or Pace()
    kernel, end, counts = gpu.kernel("small", 1_000), time.monotonic() + float(sys.argv[2]), [0] * int(sys.argv[3])

    def launch(number: int) -> None:
        gpu.call("cuCtxSetCurrent", gpu.context)
        while time.monotonic() < end:
            for _ in range(100):
                gpu.launch(kernel)
            counts[number] += 100
            pace.keep()

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gpu.wait()
    print(sum(counts))
    return gpu


def launching_beside_a_slow_launch() -> None:
    """Another thread is inside one launch all the time, on another device."""

    def launch_slowly() -> None:
        gpu = Gpu(1)
        gpu.launch(gpu.kernel("slow"))

    thread = threading.Thread(target=launch_slowly)
    thread.start()
    launching()
    thread.join()


def forked_while_launching() -> None:
    """A thread launches, and the main thread makes children all the time; their exit statuses."""
    thread = threading.Thread(target=launching)
    thread.start()
    statuses = []
    while thread.is_alive():
        child = os.fork()
        if child == 0:
            os._exit(0)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        time.sleep(0.2)
    print(*statuses)


def gone_while_paused() -> None:
    """A context goes after its sampling has ended for its many launches, and another one comes."""
    pace = Pace()
    for _ in range(2):
        gpu = launching(pace)
        gpu.call("cuCtxDestroy_v2", gpu.context)


def forked_while_sampled() -> None:
    gpu = Gpu()
    work(gpu, "spin", 0.3)
    children = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            sys.exit(0)
        children.append(child)
        work(gpu, "spin", 0.05)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


def begun_and_ended() -> None:
    """Recordings that begin and end where CUDA is in use, and a context in each, which is there for longer."""
    collector = ctypes.CDLL(os.environ["COLLECTOR"])
    Gpu()
    for profile in sys.argv[2:]:
        assert collector.aiflame_start(os.fsencode(profile)) == 1
        gpu = Gpu()
        work(gpu, "spin", 0.4)
        collector.aiflame_stop()
        work(gpu, "spin", 0.2)


def begun_and_ended_beside_launches() -> None:
    """Recordings that end while two threads launch, where CUDA is in use."""
    collector = ctypes.CDLL(os.environ["COLLECTOR"])
    Gpu()
    for profile in sys.argv[2:]:
        assert collector.aiflame_start(os.fsencode(profile)) == 1
        gpu, enough = Gpu(), threading.Event()
        threads = [threading.Thread(target=launch_until, args=(gpu, enough)) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(0.4)
        collector.aiflame_stop()
        time.sleep(0.1)
        enough.set()
        for thread in threads:
            thread.join()


def launch_until(gpu: Gpu, enough: threading.Event) -> None:
    kernel = gpu.kernel("spin", 10_000)
    gpu.call("cuCtxSetCurrent", gpu.context)
    while not enough.is_set():
        gpu.launch(kernel)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
