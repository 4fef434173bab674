"""Scenes of fake_gpu.py that end, fork or fail to exec while CUDA is in use."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time

from fake_gpu_driver import Gpu, little, much, until_written


def leave_at_once() -> None:
    gpu = Gpu()
    little(gpu, gpu.kernel("spin"))
    gpu.wait()
    os._exit(3)


def leave_holding_a_lock() -> None:
    """The ways out of a program, in a thread that CUPTI waits for."""
    gpu = Gpu()
    little(gpu, gpu.kernel("spin"))
    gpu.wait()
    until_written("kernels", 10)
    if "AIFLAME_PROFILE" in os.environ:
        ctypes.CDLL("libcupti.so.13").fake_cupti_hold()
    match sys.argv[2]:
        case "_exit":
            os._exit(3)
        case "signal":
            signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
            signal.raise_signal(signal.SIGALRM)
        case "quick_exit":
            ctypes.CDLL(None).quick_exit(3)
        case "exec":
            os.execv("/bin/sh", ["sh", "-c", "exit 3"])
        case "failed exec":
            with contextlib.suppress(FileNotFoundError):
                os.execv("/nowhere", ["nowhere"])
            sys.exit(3)
        case "exit":
            sys.exit(3)


def killed() -> None:
    gpu = Gpu()
    little(gpu, gpu.kernel("spin"))
    gpu.wait()
    until_written("kernels", 10)
    os.kill(os.getpid(), signal.SIGKILL)


def forked() -> None:
    """A child that neither uses CUDA nor execs; it stays until the parent has launched more."""
    gpu = Gpu()
    kernel = gpu.kernel("spin")
    little(gpu, kernel)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        sys.exit(gpu.driver.cuInit(0))
    much(gpu, kernel)
    gpu.wait()
    os.write(write, b"x")
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)))


def fails_to_exec() -> None:
    """And goes on using CUDA."""
    gpu = Gpu()
    kernel = gpu.kernel("spin")
    little(gpu, kernel)
    gpu.wait()
    try:
        os.execv("/nowhere", ["nowhere"])
    except FileNotFoundError:
        much(gpu, kernel)
    gpu.wait()


def busy() -> None:
    """Threads that launch while the process ends."""
    gpu = Gpu()
    kernel, launched = gpu.kernel("spin", 1000), [0] * 3

    def launch_for_ever(number: int) -> None:
        gpu.call("cuCtxSetCurrent", gpu.context)
        with contextlib.suppress(RuntimeError):  # the driver has shut down
            while True:
                gpu.launch(kernel)
                launched[number] += 1

    for number in range(3):
        threading.Thread(target=launch_for_ever, args=(number,), daemon=True).start()
    while min(launched) < 100:
        time.sleep(0.01)
