"""Rest, kernels, rest: `energy.py REST WORK`, in seconds. Prints as JSON the readings of the device's own counter of energy before and
after all of it."""

from __future__ import annotations

import ctypes
import json
import sys
import time

from driver import Context

MILLISECOND = 1_000_000


def counter() -> tuple[int, int]:
    """CLOCK_MONOTONIC, and mJ of the device that CUDA calls 0."""
    energy = ctypes.c_ulonglong()
    assert NVML.nvmlDeviceGetTotalEnergyConsumption(HANDLE, ctypes.byref(energy)) == 0
    return time.monotonic_ns(), energy.value


def handle() -> ctypes.c_void_p:
    driver, address, device = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(32), ctypes.c_void_p()
    assert driver.cuDeviceGetPCIBusId(address, 32, 0) == 0
    assert NVML.nvmlInit_v2() == 0
    assert NVML.nvmlDeviceGetHandleByPciBusId_v2(address, ctypes.byref(device)) == 0
    return device


rest_s, work = (float(argument) for argument in sys.argv[1:])
context = Context()
NVML = ctypes.CDLL("libnvidia-ml.so.1")
HANDLE = handle()
time.sleep(0.5)
begin = counter()
time.sleep(rest_s)
worked = time.monotonic()
while time.monotonic() < worked + work:
    for _ in range(20):
        context.spin(5 * MILLISECOND)
    context.synchronize()
worked = time.monotonic() - worked
time.sleep(rest_s)
end = counter()
time.sleep(0.5)
print(json.dumps({"begin_ns": begin[0], "begin_mj": begin[1], "end_ns": end[0], "end_mj": end[1], "worked_s": worked}))
