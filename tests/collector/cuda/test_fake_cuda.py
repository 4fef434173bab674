"""The fake CUPTI is as strict as the real one is fragile: calls that would crash it or lose records end the program, with a reason."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from cuda_scenes import FAKES, needs_fakes
from live import plain

pytestmark = needs_fakes

BEGIN = f"""
PROGRAMS = {str(Path(__file__).parents[2] / "e2e" / "programs")!r}
import ctypes, os, sys
from ctypes import byref, c_void_p
driver, cupti = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcupti.so.13")
subscriber, context = c_void_p(), c_void_p()
called = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, ctypes.c_uint, c_void_p)(lambda *_: None)
sampling = (ctypes.c_uint64 * 4)(32, 0, 0, 0)
assert cupti.cuptiSubscribe(byref(subscriber), called, None) == 0
driver.cuInit(0)
driver.cuCtxCreate_v2(byref(context), 0, 0)
sampling[2] = context.value

def launch_all_the_time():
    import threading
    sys.path.insert(0, PROGRAMS)
    from fake_gpu_driver import Gpu
    gpu = Gpu()
    kernel = gpu.kernel("spin", 1000)
    begun = threading.Event()
    def launch():
        gpu.call("cuCtxSetCurrent", context)
        for _ in range(1_000_000):
            gpu.launch(kernel)
            begun.set()
    threading.Thread(target=launch, daemon=True).start()
    begun.wait()
"""

MISTAKES = {
    "sampling that was not enabled": ("cupti.cuptiPCSamplingGetData(sampling)", "sampling is not enabled for this context"),
    "data of a context that is gone": (
        "cupti.cuptiPCSamplingEnable(sampling); driver.cuCtxDestroy_v2(context); cupti.cuptiPCSamplingGetData(sampling)",
        "cuptiPCSamplingGetData: the context is gone",
    ),
    "sampling ended twice": (
        "cupti.cuptiPCSamplingEnable(sampling); cupti.cuptiPCSamplingDisable(sampling); cupti.cuptiPCSamplingDisable(sampling)",
        "cuptiPCSamplingDisable: sampling is not enabled for this context",
    ),
    "two contexts of a device": (
        "cupti.cuptiPCSamplingEnable(sampling); driver.cuCtxCreate_v2(byref(context), 0, 0); sampling[2] = context.value; "
        "cupti.cuptiPCSamplingEnable(sampling)",
        "cuptiPCSamplingEnable: another context of this device is sampled",
    ),
    "sampling ended beside a launch": (
        "cupti.cuptiPCSamplingEnable(sampling); launch_all_the_time(); os.environ['FAKE_CUPTI_CHANGE_MS'] = '1000'; "
        "cupti.cuptiPCSamplingDisable(sampling)",
        "cuptiPCSamplingDisable: hangs beside threads that launch kernels",
    ),
    "a fetch after one at which it ended itself": (
        "os.environ['FAKE_CUPTI_FAILS'] = '1'; sampling[3] = ctypes.addressof(sampling); cupti.cuptiPCSamplingEnable(sampling); "
        "cupti.cuptiPCSamplingGetData(sampling); cupti.cuptiPCSamplingGetData(sampling)",
        "cuptiPCSamplingGetData: called after an error at which CUPTI ended itself",
    ),
    "a subscriber that has left": (
        "cupti.cuptiUnsubscribe(subscriber); cupti.cuptiEnableDomain(1, subscriber, 1)",
        "cuptiEnableDomain: the subscriber has left",
    ),
    "a subscriber after the end": (
        "cupti.cuptiFinalize(); cupti.cuptiUnsubscribe(subscriber)",
        "cuptiUnsubscribe: the subscriber has left",
    ),
    "the child of a fork": (
        "child = os.fork(); child or cupti.cuptiActivityFlushAll(0); child and os.kill(os.getpid(), os.waitpid(child, 0)[1] & 127)",
        "cuptiActivityFlushAll: called in the child of a fork",
    ),
    "after the driver": (
        "driver.fake_shut_down(); cupti.cuptiActivityFlushAll(1)",
        "cuptiActivityFlushAll: the driver has shut down",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_call_in_the_wrong_order_ends_the_program(mistake: str, tmp_path: Path) -> None:
    code, reason = MISTAKES[mistake]
    paths = f"{FAKES / 'driver'}:{FAKES / 'cupti13'}"
    outcome = plain([sys.executable, "-c", BEGIN + code], tmp_path, env={"LD_LIBRARY_PATH": paths})
    assert outcome.status == -signal.SIGABRT
    assert outcome.stderr.endswith(f"{reason}\n")


def test_a_second_subscriber_is_refused(tmp_path: Path) -> None:
    code = BEGIN + "print(cupti.cuptiSubscribe(byref(c_void_p()), called, None))"
    paths = f"{FAKES / 'driver'}:{FAKES / 'cupti13'}"
    assert plain([sys.executable, "-c", code], tmp_path, env={"LD_LIBRARY_PATH": paths}).stdout == "39\n"
