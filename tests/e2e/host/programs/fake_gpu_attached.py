"""A program on the fake GPU that knows nothing of aiflame: `python fake_gpu_attached.py SCENE`, until its input says `end`.

Each line of its input gets a line of JSON: its launches, and the state of CUPTI. After `slow` it launches a kernel in four seconds.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path

from fake_gpu_driver import Gpu, RuntimeGpu, Tool

launched = 0
ends = threading.Event()


def turn(gpu: RuntimeGpu, kernel: c_void_p) -> None:
    heavy(gpu, kernel)
    light(gpu, kernel)


def heavy(gpu: RuntimeGpu, kernel: c_void_p) -> None:
    for _ in range(3):
        gpu.launch(kernel)


def light(gpu: RuntimeGpu, kernel: c_void_p) -> None:
    gpu.launch(kernel)


def replayed_here(gpu: Gpu, graph: c_void_p, stream: c_void_p) -> None:
    gpu.call("cuGraphLaunch", graph, stream)


def steady() -> None:
    """Three of four launches in one function; a device that is busy for most of the time."""
    global launched
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin", 1_000_000)
    turn(gpu, kernel)
    begin()
    while not ends.is_set():
        turn(gpu, kernel)
        launched += 4
        gpu.wait()
    gpu.wait()


def replaying() -> None:
    """A graph of two kernels, captured before anybody came, is replayed."""
    global launched
    gpu = RuntimeGpu()
    stream = gpu.stream()
    graph = gpu.ready(gpu.capture(stream, gpu.kernel("first", 300_000), gpu.kernel("second", 100_000)))
    begin()
    while not ends.is_set():
        replayed_here(gpu, graph, stream)
        launched += 1
        gpu.call("cuStreamSynchronize", stream)


def launching() -> None:
    """Two threads launch as fast as they can; the device is hardly busy."""
    gpu = RuntimeGpu()
    kernel = gpu.kernel("small", 1_000)

    def launch() -> None:
        global launched
        gpu.call("cuCtxSetCurrent", gpu.context)
        while not ends.is_set():
            for _ in range(100):
                gpu.launch(kernel)
            launched += 100

    threads = [threading.Thread(target=launch) for _ in range(2)]
    begin()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gpu.wait()


def beside_a_tool() -> None:
    """Another user of CUPTI is in the program from its beginning to its end."""
    tool = Tool()
    with tool:
        steady()
    if tool.seen()[0] != launched + 4:
        sys.exit(f"the tool has seen {tool.seen()[0]} of {launched + 4} kernels")


def begin() -> None:
    threading.Thread(target=answer, daemon=True).start()
    print("begun", flush=True)


def answer() -> None:
    for line in sys.stdin:
        print(json.dumps({"launched": launched, **in_cupti()}), flush=True)
        if line == "end\n":
            ends.set()
        if line == "slow\n":
            slow_gpu = RuntimeGpu()
            slow_gpu.launch(slow_gpu.kernel("slow"))


def in_cupti() -> dict[str, int]:
    """The state of the program's CUPTI, and the number of its callbacks; nothing where none is loaded."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libcupti.so" in line}
    if not paths:
        return {}
    copy = ctypes.CDLL(paths.pop())
    called: Callable[[], int] = copy.fake_cupti_called_back
    return {"called_back": called(), "kinds": copy.fake_cupti_kinds(), "sampled": copy.fake_cupti_samples()}


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    time.sleep(0.1)
    print("ended")
