"""Programs for test_opencl.py: `python opencl_programs.py NAME` runs one of these and prints the expected results, as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from opencl_client import (
    EVENT_REFERENCES,
    OUT_OF_ORDER,
    PROFILING,
    QUEUE_LIST,
    QUEUE_PROPERTIES,
    QUEUE_REFERENCES,
    START,
    Cl,
    info,
    library,
    sizes,
    waiting,
)

SPIN = """
kernel void spin(const uint turns, global float *out) {
  float x = get_global_id(0);
  for (uint turn = 0; turn < turns; turn++)
    x = x * 1.0001f + 0.5f;
  out[get_global_id(0)] = x;
}
kernel void twice(global float *out) { out[get_global_id(0)] *= 2; }
"""
ITEMS = 64
BYTES = 4096


def spinning(cl: Cl, turns: int) -> int:
    return cl.kernel("spin", c_uint32(turns), c_void_p(cl.buffer(4 * ITEMS)))


def kernels() -> Any:
    """Thirty launches of two kernels, in two dimensions too, on a queue without profiling; nobody asks for events."""
    cl = Cl(SPIN)
    queue, spin = cl.queue(), spinning(cl, 100)
    twice = cl.kernel("twice", c_void_p(cl.buffer(4 * ITEMS)))
    for _ in range(20):
        cl.call("clEnqueueNDRangeKernel", queue, spin, 1, None, sizes(ITEMS), sizes(16), 0, None, None)
    for _ in range(9):
        cl.call("clEnqueueNDRangeKernel", queue, twice, 2, None, sizes(ITEMS, 2), None, 0, None, None)
    cl.call("clEnqueueTask", queue, twice, 0, None, None)
    cl.call("clFinish", queue)
    return None


def copies() -> Any:
    """Every way of moving memory, with the bytes that each moved."""
    cl = Cl()
    queue, one, other = cl.queue(), cl.buffer(BYTES), cl.buffer(BYTES)
    host = (ctypes.c_char * BYTES)()
    region, origin = sizes(16, 4, 2), sizes(0, 0, 0)
    pattern = byref(c_uint32(7))
    none = (0, None, None)
    cl.call("clEnqueueWriteBuffer", queue, one, 1, 0, BYTES, host, *none)
    cl.call("clEnqueueWriteBuffer", queue, one, 0, 8, 100, host, *none)
    cl.call("clEnqueueCopyBuffer", queue, one, other, 0, 0, 1000, *none)
    cl.call("clEnqueueFillBuffer", queue, one, pattern, 4, 0, 512, *none)
    cl.call("clEnqueueWriteBufferRect", queue, one, 0, origin, origin, region, 32, 256, 16, 64, host, *none)
    cl.call("clEnqueueCopyBufferRect", queue, one, other, origin, origin, region, 32, 256, 32, 256, *none)
    cl.call("clEnqueueReadBufferRect", queue, other, 1, origin, origin, region, 32, 256, 16, 64, host, *none)
    cl.call("clEnqueueReadBuffer", queue, other, 0, 0, 200, host, *none)
    cl.call("clEnqueueReadBuffer", queue, other, 1, 0, 300, host, *none)
    mapped = cl.make("clEnqueueMapBuffer", queue, one, 1, 1, 0, 400, *none)
    cl.call("clEnqueueUnmapMemObject", queue, one, mapped, *none)
    cl.call("clEnqueueMigrateMemObjects", queue, 2, (c_void_p * 2)(one, other), 0, *none)
    moved = [
        ("HOST_TO_DEVICE", BYTES),
        ("HOST_TO_DEVICE", 100),
        ("DEVICE_TO_DEVICE", 1000),
        ("FILL", 512),
        ("HOST_TO_DEVICE", 128),
        ("DEVICE_TO_DEVICE", 128),
        ("DEVICE_TO_HOST", 128),
        ("DEVICE_TO_HOST", 200),
        ("DEVICE_TO_HOST", 300),
        ("MAP", 400),
        ("MAP", 0),
        ("HOST_TO_DEVICE", 2 * BYTES),
    ]
    shared = library.clSVMAlloc(cl.context, 1, BYTES, 0)
    if shared:
        cl.call("clEnqueueSVMMemFill", queue, shared, pattern, 4, 64, *none)
        cl.call("clEnqueueSVMMemcpy", queue, 1, shared + 64, shared, 32, *none)
        moved += [("FILL", 64), ("DEVICE_TO_DEVICE", 32)]
    image = _image(cl)
    if image:
        corner = sizes(4, 2, 1)
        cl.call("clEnqueueWriteImage", queue, image, 1, origin, corner, 0, 0, host, *none)
        cl.call("clEnqueueReadImage", queue, image, 1, origin, corner, 0, 0, host, *none)
        moved += [("HOST_TO_DEVICE", 4 * 2 * 16), ("DEVICE_TO_HOST", 4 * 2 * 16)]
    cl.call("clFinish", queue)
    return moved


def _image(cl: Cl) -> int | None:
    """An image of 8 × 8 pixels of four floats; None when the device has no such images."""

    class Format(ctypes.Structure):
        _fields_ = (("order", c_uint32), ("type", c_uint32))

    class Description(ctypes.Structure):
        _fields_ = (
            ("type", c_uint32),
            *((name, ctypes.c_size_t) for name in ("width", "height", "depth", "array", "row", "slice")),
            *((name, c_uint32) for name in ("levels", "samples")),
            ("buffer", c_void_p),
        )

    rgba, floats, plane = 0x10B5, 0x10DE, 0x10F1
    description = Description(type=plane, width=8, height=8)
    image = library.clCreateImage(cl.context, 1, byref(Format(rgba, floats)), byref(description), None, byref(c_int32()))
    return int(image) if image else None


def durations() -> Any:
    """How long each of ten launches took, by the program's own queue with profiling, and the clock around them."""
    cl = Cl(SPIN)
    queue = cl.queue(PROFILING)
    before = time.monotonic_ns()
    events = [cl.launch(queue, spinning(cl, 1000 * turn), ITEMS) for turn in range(1, 11)]
    cl.call("clWaitForEvents", *waiting(events))
    after = time.monotonic_ns()
    return {"took": [cl.took(event) for event in events], "before": before, "after": after}


def split() -> Any:
    """One kernel launched by two functions, one of which gives it three times the work; prints the time of each."""
    cl = Cl(SPIN)
    queue = cl.queue(PROFILING)
    much, little = spinning(cl, 30_000), spinning(cl, 10_000)

    def heavy() -> int:
        return cl.launch(queue, much, ITEMS)

    def light() -> int:
        return cl.launch(queue, little, ITEMS)

    pairs = [(heavy(), light()) for _ in range(20)]
    cl.call("clFinish", queue)
    return {"heavy": sum(cl.took(one) for one, _ in pairs), "light": sum(cl.took(other) for _, other in pairs)}


def threads() -> Any:
    """Four threads, each with fifty launches on a queue of its own and fifty on one that they share."""
    cl = Cl(SPIN)
    shared = cl.queue()

    def work() -> None:
        own, kernel = cl.queue(), spinning(cl, 10)
        for _ in range(50):
            for queue in (own, shared):
                cl.call("clEnqueueNDRangeKernel", queue, kernel, 1, None, sizes(ITEMS), None, 0, None, None)
        cl.call("clFinish", own)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    cl.call("clFinish", shared)
    return None


def out_of_order() -> Any:
    """A chain through events on an out-of-order queue, and launches that depend on nothing beside it."""
    cl = Cl(SPIN)
    queue, chained, free = cl.queue(OUT_OF_ORDER | PROFILING), spinning(cl, 2000), spinning(cl, 10)
    events: list[int] = []
    for _ in range(10):
        events.append(cl.launch(queue, chained, ITEMS, events[-1:]))
        cl.launch(queue, free, ITEMS)
    cl.call("clFinish", queue)
    return [cl.took(event) for event in events]


def visible() -> Any:
    """All that a program can ask about its queues and events; the answers must be equal with and without recording."""
    cl = Cl(SPIN)
    kernel = spinning(cl, 10)
    listed = (c_uint64 * 3)(QUEUE_PROPERTIES, OUT_OF_ORDER, 0)
    make = "clCreateCommandQueueWithProperties"
    queues = {
        "plain": cl.queue(),
        "profiled": cl.queue(PROFILING),
        "no list": cl.make(make, cl.context, cl.device, None),
        "list": cl.make(make, cl.context, cl.device, listed),
    }
    answers: dict[str, Any] = {}
    for name, queue in queues.items():
        event = cl.launch(queue, kernel, ITEMS)
        cl.call("clFinish", queue)
        stamp = c_uint64()
        answers[name] = {
            "properties": info("clGetCommandQueueInfo", queue, QUEUE_PROPERTIES),
            "list": info("clGetCommandQueueInfo", queue, QUEUE_LIST, 8),
            "list's size": info("clGetCommandQueueInfo", queue, QUEUE_LIST, 0),
            "references": info("clGetCommandQueueInfo", queue, QUEUE_REFERENCES),
            "stamp's error": library.clGetEventProfilingInfo(event, START, 8, byref(stamp), None),
            "event's references": _settled(event),
        }
    untouched = c_void_p(1234)
    error, small = c_int32(), cl.buffer(16)
    answers["errors"] = [
        library.clEnqueueNDRangeKernel(queues["plain"], kernel, 7, None, sizes(ITEMS), None, 0, None, byref(untouched)),
        library.clEnqueueReadBuffer(queues["plain"], small, 1, 0, 32, (ctypes.c_char * 32)(), 0, None, byref(untouched)),
        library.clEnqueueMapBuffer(queues["plain"], small, 1, 1, 0, 32, 0, None, None, byref(error)),
        error.value,
        bool(library.clCreateCommandQueue(cl.context, cl.device, 1 << 40, byref(error))),
        error.value,
        bool(library.clCreateCommandQueueWithProperties(cl.context, cl.device, (c_uint64 * 3)(0x7777, 1, 0), byref(error))),
        error.value,
        untouched.value,
    ]
    return answers


def _settled(event: int) -> int:
    """References to a completed event, once the runtime has let go of its own."""
    counts = [info("clGetEventInfo", event, EVENT_REFERENCES)[1][0]]
    while len(counts) < 5 or len(set(counts[-5:])) > 1:
        time.sleep(0.02)
        counts.append(info("clGetEventInfo", event, EVENT_REFERENCES)[1][0])
    return counts[-1]


def never_completes() -> Any:
    """A launch that waits for an event which nobody sets; everything is let go and the program ends."""
    cl = Cl(SPIN)
    queue, kernel = cl.queue(), spinning(cl, 10)
    cl.launch(queue, kernel, ITEMS)
    cl.call("clFinish", queue)
    gate = cl.make("clCreateUserEvent", cl.context)
    cl.call("clReleaseEvent", cl.launch(queue, kernel, ITEMS, [gate]))
    cl.call("clFlush", queue)
    sys.stdout.write("null")
    sys.stdout.flush()
    # No interpreter shutdown: whether the driver's own destructors wait for the command does not matter here.
    ctypes.CDLL(None)._exit(0)


def until_written(kernels: int) -> None:
    """Rows of this process's recording; a row is whole some moments after it is counted."""
    until, written = time.monotonic() + 30, 0
    while written < kernels and time.monotonic() < until:
        time.sleep(0.2)
        for table in Path(os.environ["AIFLAME_PROFILE"]).glob(f"spool/{os.getpid()}.*/kernels.table"):
            written = int.from_bytes(table.read_bytes()[24:32], "little")
    time.sleep(0.2)


def no_wait() -> Any:
    """The program waits for nothing but its own callback: our callback must write the rows."""
    cl = Cl(SPIN)
    queue, kernel = cl.queue(), spinning(cl, 10)
    called_back = threading.Event()

    @ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p)
    def completed(event: int, status: int, argument: int) -> None:
        called_back.set()

    for _ in range(30):
        event = cl.launch(queue, kernel, ITEMS)
    cl.call("clSetEventCallback", event, 0, completed, None)
    cl.call("clFlush", queue)
    assert called_back.wait(30)
    until_written(30)
    ctypes.CDLL(None).kill(ctypes.CDLL(None).getpid(), 9)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
