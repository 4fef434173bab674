"""Scenes of fake_gpu.py in which another tool uses CUPTI beside the recording."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from ctypes import byref, c_int, c_void_p
from pathlib import Path

from fake_gpu_driver import NEVER, Gpu, RuntimeGpu, Tool, little, much, until_recorded_again


def from_inside_beside_a_tool() -> None:
    """The other tool was loaded before the recording began, and used before and in it."""
    collector = ctypes.CDLL(os.environ["COLLECTOR"])
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin")
    tool = Tool()
    with tool:
        much(gpu, kernel)
        gpu.wait()
    assert collector.aiflame_start(os.fsencode(sys.argv[2])) == 1
    little(gpu, kernel)
    with tool:
        much(gpu, kernel)
        gpu.wait()
    while tool.library.fake_cupti_kinds() == 0:
        time.sleep(0.01)
    little(gpu, kernel)
    gpu.wait()
    collector.aiflame_stop()
    assert tool.seen()[0] == 60


def shared() -> None:
    """Kernels before, while and after another tool uses CUPTI, twice; prints the kernels that the tool saw."""
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin")
    tool = Tool()
    little(gpu, kernel)
    for _ in range(2):
        with tool:
            much(gpu, kernel)
            gpu.wait()
        until_recorded_again()
        little(gpu, kernel)
    gpu.wait()
    print(json.dumps(tool.seen()))


def shared_from_the_start() -> None:
    """The other tool is there first."""
    with Tool() as tool:
        gpu = Gpu()
        kernel = gpu.kernel("spin")
        much(gpu, kernel)
        gpu.wait()
    until_recorded_again()
    little(gpu, kernel)
    gpu.wait()
    print(json.dumps(tool.seen()))


def shared_with_one_that_was_ready() -> None:
    """The other tool looked CUPTI's functions up before the program started CUDA, and uses them later."""
    tool = Tool()
    tool.library.tool_look_up()
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin")
    for _ in range(2):
        little(gpu, kernel)
        with tool:
            much(gpu, kernel)
            gpu.wait()
        until_recorded_again()
    gpu.wait()
    print(json.dumps(tool.seen()))


def shared_with_one_of_many_buffers() -> None:
    """The other tool lends a buffer for each of many kernels that do not complete; then how many it did not get back."""
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin", NEVER)
    tool = Tool()
    with tool:
        for _ in range(4500):
            gpu.launch(kernel)
    print(json.dumps(tool.library.tool_buffers_out()))


def shared_by_context() -> None:
    """Another user has kernels recorded in two contexts, and ends that in one of them first."""
    cupti, kernels = ctypes.CDLL("libcupti.so.13"), 10
    gpus = [Gpu(), Gpu()]
    kernel = gpus[1].kernel("spin")
    for gpu in gpus:
        assert cupti.cuptiActivityEnableContext(gpu.context, kernels) == 0
    much(gpus[1], kernel)
    assert cupti.cuptiActivityDisableContext(gpus[0].context, kernels) == 0
    time.sleep(0.5)  # time enough to come back, if the first context alone counted
    much(gpus[1], kernel)
    gpus[1].wait()
    assert cupti.cuptiActivityDisableContext(gpus[1].context, kernels) == 0
    until_recorded_again()
    little(gpus[1], kernel)
    gpus[1].wait()


def tool_without_cuda() -> None:
    """The other tool comes and goes in a program that does not use CUDA; then whether a thread was started."""
    with Tool():
        pass
    print(json.dumps("aiflame\n" in [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]))


def shared_to_the_end() -> None:
    """The other tool does not leave."""
    gpu = Gpu()
    kernel = gpu.kernel("spin")
    little(gpu, kernel)
    tool = Tool().__enter__()
    much(gpu, kernel)
    gpu.wait()
    print(json.dumps(tool.library.tool_launches()))


def shared_while_busy() -> None:
    """The other tool comes and goes while threads launch, with contexts of their own that come and go too."""
    ended = threading.Event()

    def launch() -> None:
        while not ended.is_set():
            gpu = Gpu()
            little(gpu, gpu.kernel("spin", 1000))
            gpu.call("cuCtxDestroy_v2", gpu.context)

    started = [threading.Thread(target=launch) for _ in range(3)]
    for thread in started:
        thread.start()
    tool = Tool()
    for _ in range(5):
        with tool:
            time.sleep(0.05)
        until_recorded_again()
        time.sleep(0.02)
    ended.set()
    for thread in started:
        thread.join()
    print(json.dumps(tool.seen()[0] > 0))


def shared_in_the_middle_of_a_call() -> None:
    """The other tool comes while a thread waits in a call, and goes after it."""
    gpu = Gpu()
    tool, entered = Tool(), threading.Event()
    gpu.launch(gpu.kernel("long", 300_000_000))

    def use() -> None:
        entered.wait()
        time.sleep(0.1)
        tool.__enter__()

    thread = threading.Thread(target=use)
    thread.start()
    entered.set()
    gpu.wait()
    thread.join()
    tool.__exit__()
    until_recorded_again()
    little(gpu, gpu.kernel("spin"))
    gpu.wait()


def subscribes() -> None:
    """Another user subscribes to CUPTI; prints CUPTI's answer."""
    Gpu()
    subscriber = c_void_p()
    called = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_int, c_void_p)(lambda *_: None)
    print(json.dumps(ctypes.CDLL("libcupti.so.13").cuptiSubscribe(byref(subscriber), called, None)))
