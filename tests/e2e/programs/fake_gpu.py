"""CUDA programs without a GPU: `python fake_gpu.py SCENE` does the work that test_cuda.py expects, through the CUDA driver's own functions.

The driver is the `libcuda.so.1` of the library path; the tests put a fake one there.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from ctypes import byref, c_int, c_void_p
from pathlib import Path

import fake_gpu_ends
import fake_gpu_shared
from fake_gpu_driver import NEVER, PIECE, Dimensions, Gpu, Physical, PhysicalProperty, RuntimeGpu, little, much


def replayed_here(gpu: Gpu, graph: c_void_p, stream: c_void_p) -> None:
    gpu.call("cuGraphLaunch", graph, stream)


def split() -> None:
    """The same kernel, three times as often from one place as from the other."""
    gpu = Gpu()
    kernel = gpu.kernel("spin", 100_000)
    much(gpu, kernel)
    little(gpu, kernel)
    gpu.wait()


def named() -> None:
    """A kernel of the name given, 20 times."""
    gpu = Gpu()
    kernel = gpu.kernel(sys.argv[2], 100_000)
    for _ in range(20):
        gpu.launch(kernel)
    gpu.wait()


def launches() -> None:
    """Every way of launching."""
    gpu = Gpu()
    gpu.launch(gpu.kernel("plain"), grid=7)
    config = (ctypes.c_uint * 16)(5, 1, 1, 64, 1, 1, 0)
    gpu.call("cuLaunchKernelEx", config, gpu.kernel("extended"), None, None)
    gpu.call("cuLaunchCooperativeKernel", gpu.kernel("cooperative"), 3, 1, 1, 16, 1, 1, 0, None, None)
    gpu.wait()


def ways_out() -> None:
    """Launches from one place, below driver's frames of 100 sizes."""
    gpu = Gpu()
    kernel = gpu.kernel("cooperative")
    for grid in [*range(100)] * 3:
        gpu.call("cuLaunchCooperativeKernel", kernel, 100 + grid, 1, 1, 16, 1, 1, 0, None, None)
    gpu.wait()


def copies() -> None:
    gpu = Gpu()
    one, other, host = gpu.memory(4096), gpu.memory(4096), (ctypes.c_char * 4096)()
    stream = gpu.stream()
    gpu.call("cuMemcpyHtoD_v2", one, host, ctypes.c_size_t(4096))
    gpu.call("cuMemcpyHtoDAsync_v2", one, host, ctypes.c_size_t(100), stream)
    gpu.call("cuMemcpyDtoDAsync_v2", other, one, ctypes.c_size_t(200), stream)
    gpu.call("cuMemcpyPeerAsync", other, gpu.context, one, gpu.context, ctypes.c_size_t(300), stream)
    gpu.call("cuMemsetD8Async", other, 7, ctypes.c_size_t(400), stream)
    gpu.call("cuStreamSynchronize", stream)
    gpu.call("cuMemcpyDtoH_v2", host, other, ctypes.c_size_t(500))
    gpu.wait()
    gpu.call("cuMemFree_v2", one)
    pinned = c_void_p()
    gpu.call("cuMemHostAlloc", byref(pinned), ctypes.c_size_t(8192), 0)
    gpu.call("cuMemFreeHost", pinned)


def waits() -> None:
    """Every way of waiting, each for a kernel of its own, by the driver's functions and the runtime's."""
    gpu = Gpu()
    event = c_void_p()
    gpu.call("cuEventCreate", byref(event), 0)
    for prefix in ("cu", "cuda"):
        stream = gpu.stream()
        gpu.launch(gpu.kernel("for_stream", 2_000_000), stream)
        gpu.call(f"{prefix}StreamSynchronize", stream)
        gpu.launch(gpu.kernel("for_event", 2_000_000), stream)
        gpu.call("cuEventRecord", event, stream)
        gpu.call(f"{prefix}EventSynchronize", event)
        gpu.launch(gpu.kernel("for_context", 2_000_000))
        gpu.call({"cu": "cuCtxSynchronize", "cuda": "cudaDeviceSynchronize"}[prefix])
    gpu.call("cuStreamSynchronize", None)
    gpu.call("cuStreamSynchronize_ptsz", None)
    gpu.call("cuStreamSynchronize_ptsz", c_void_p(1))  # CU_STREAM_LEGACY


def calls() -> None:
    """Calls of the runtime and of the driver, known numbers of each, some of which fail."""
    gpu = RuntimeGpu()
    kernel, memory, device, host = gpu.kernel("spin", 1000), c_void_p(), c_int(), (ctypes.c_char * 4096)()
    gpu.call("cudaMalloc", byref(memory), ctypes.c_size_t(4096))
    for count in range(5):
        gpu.call("cudaMemcpyAsync", memory, host, ctypes.c_size_t(100 * count), 1, None)
    launched_here(gpu, kernel)
    for _ in range(3):
        gpu.launch(kernel)
    gpu.call("cuMemsetD8Async", memory, 7, ctypes.c_size_t(300), None)
    for _ in range(4):
        gpu.call("cudaGetDevice", byref(device))
    gpu.call("cudaDeviceSynchronize")
    gpu.launch(gpu.kernel("long", 200_000_000))
    results = [
        gpu.driver.cudaStreamQuery(None),
        gpu.driver.cudaMalloc(byref(memory), ctypes.c_size_t(1 << 50)),
        gpu.driver.cudaGetLastError(),
        gpu.driver.cudaGetLastError(),
        gpu.driver.cuNewerThanTheHeaders(),
        gpu.driver.cudaNewerThanTheHeaders(),
    ]
    print(json.dumps(results))


def launched_here(gpu: Gpu, kernel: c_void_p) -> None:
    for _ in range(7):
        gpu.call("cudaLaunchKernel", kernel, Dimensions(4, 1, 1), Dimensions(32, 1, 1), None, ctypes.c_size_t(0), None)


def untraced() -> None:
    """Calls that launch nothing: CUPTI must report them to nobody."""
    gpu, device = RuntimeGpu(), c_int()
    called_back = ctypes.CDLL("libcupti.so.13").fake_cupti_called_back
    gpu.launch(gpu.kernel("spin"))
    before = called_back()
    for _ in range(100):
        gpu.call("cudaGetDevice", byref(device))
    print(json.dumps(called_back() - before))


def graphs() -> None:
    """Two kernels captured, replayed five times; then as a child of another graph, twice."""
    gpu = Gpu()
    stream = gpu.stream()
    graph = gpu.capture(stream, gpu.kernel("first"), gpu.kernel("second"))
    ready = gpu.ready(graph)
    for _ in range(5):
        replayed_here(gpu, ready, stream)
    parent, node = c_void_p(), c_void_p()
    gpu.call("cuGraphCreate", byref(parent), 0)
    gpu.call("cuGraphAddChildGraphNode", byref(node), parent, None, ctypes.c_size_t(0), graph)
    ready = gpu.ready(parent)
    for _ in range(2):
        replayed_here(gpu, ready, stream)
    gpu.wait()


def threads() -> None:
    """Four threads, each with a context of its own that goes before the thread does."""

    def one(number: int) -> None:
        gpu = Gpu(number % 2)
        kernel = gpu.kernel(f"of_{number}", 1000)
        for _ in range(50):
            gpu.launch(kernel)
        gpu.wait()
        gpu.call("cuCtxDestroy_v2", gpu.context)

    started = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def contexts() -> None:
    """Contexts come and go, and the program goes on using CUDA."""
    for _ in range(5):
        gpu = Gpu()
        little(gpu, gpu.kernel("spin", 20_000))
        gpu.wait()
        gpu.call("cuCtxDestroy_v2", gpu.context)


def unsynchronized() -> None:
    """Contexts go while their kernels run."""
    gpu = Gpu()
    little(gpu, gpu.kernel("spin", 3_000_000))
    gpu.call("cuCtxDestroy_v2", gpu.context)


def module_gone() -> None:
    """Device code that is unloaded again."""
    gpu = Gpu()
    little(gpu, gpu.kernel("spin"))
    gpu.wait()
    gpu.call("cuModuleUnload", gpu.module)


def never_completes() -> None:
    gpu = Gpu()
    gpu.launch(gpu.kernel("done"))
    gpu.wait()
    gpu.launch(gpu.kernel("stuck", NEVER), gpu.stream())


def long_name() -> None:
    gpu = Gpu()
    gpu.launch(gpu.kernel("n" * 10_000))
    gpu.wait()


def forked_first() -> None:
    """A child that is the first to use CUDA."""
    child = os.fork()
    if child == 0:
        split()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)))


def execs() -> None:
    gpu = Gpu()
    little(gpu, gpu.kernel("before"))
    gpu.wait()
    os.execv(sys.executable, [sys.executable, __file__, "split"])


def spawns() -> None:
    """A child process that uses CUDA, made while the parent uses it."""
    import subprocess

    gpu = Gpu()
    little(gpu, gpu.kernel("spin"))
    subprocess.run([sys.executable, __file__, "split"], check=True)
    much(gpu, gpu.kernel("spin"))
    gpu.wait()


def from_inside() -> None:
    """Recordings that begin and end while CUDA is in use."""
    collector = ctypes.CDLL(os.environ["COLLECTOR"])
    gpu = RuntimeGpu()
    kernel = gpu.kernel("spin", 1_000_000)
    little(gpu, kernel)
    gpu.wait()
    for profile in sys.argv[2:]:
        assert collector.aiflame_start(os.fsencode(profile)) == 1
        much(gpu, kernel)
        gpu.wait()
        collector.aiflame_stop()
        little(gpu, kernel)
        gpu.wait()


def from_inside_without_end() -> None:
    """The program ends while it records."""
    collector = ctypes.CDLL(os.environ["COLLECTOR"])
    gpu = Gpu()
    assert collector.aiflame_start(os.fsencode(sys.argv[2])) == 1
    much(gpu, gpu.kernel("spin"))
    gpu.wait()


def from_inside_before_cuda() -> None:
    """A recording that begins before CUDA does, as `aiflame.record()` makes one."""
    from aiflame.recorder.inside import recording
    from aiflame.recorder.options import RecordOptions

    with recording(Path(sys.argv[2]), RecordOptions(), overwrite=True):
        split()


def two_devices() -> None:
    for device in range(2):
        gpu = Gpu(device)
        count = c_int()
        gpu.call("cuDeviceGetCount", byref(count))
        for _ in range(device + 1):
            gpu.launch(gpu.kernel("spin"))
        gpu.wait()


def more_than_fits() -> None:
    """Launches until nobody records device activity any more, and goes on."""
    gpu = Gpu()
    kernel = gpu.kernel("spin", 1000)
    recorded_kinds = ctypes.CDLL("libcupti.so.13").fake_cupti_kinds if "AIFLAME_PROFILE" in os.environ else lambda: 0
    much(gpu, kernel)
    while recorded_kinds():
        much(gpu, kernel)
    little(gpu, kernel)
    gpu.wait()


def physical() -> None:
    """Every way in which physical memory stays or goes."""
    gpu = Gpu()
    memory = Physical(gpu)
    twice = memory.created_here(1)
    memory.map(twice, 1, at=0)
    memory.map(twice, 1, at=1)
    memory.release(twice)
    memory.unmap(1, at=0)
    asked = memory.created_here(3)
    memory.map(asked, 3, at=2)
    again = memory.retained(at=4)
    memory.release(asked)
    memory.unmap(4, at=1)
    memory.release(again)
    shared = memory.created_here(2)
    second = memory.imported(shared)
    memory.release(shared)
    unmapped = memory.created_here(5)
    memory.release(second)
    memory.release(unmapped)
    memory.created_here(1)
    refused = ctypes.c_uint64()
    try:
        memory.call("cuMemCreate", byref(refused), ctypes.c_size_t(1 << 41), byref(PhysicalProperty(1, 0, 1, 0)), ctypes.c_uint64(0))
    except RuntimeError:
        print(json.dumps(memory.seen))


def physical_on_the_other_device() -> None:
    memory = Physical(Gpu())
    memory.created_here(1, device=1)
    handle = ctypes.c_uint64()
    memory.call("cuMemCreate", byref(handle), ctypes.c_size_t(PIECE), byref(PhysicalProperty(1, 0, 2, 0)), ctypes.c_uint64(0))


def no_cuda() -> None:
    """CUDA is there and stays unused."""
    ctypes.CDLL("libcuda.so.1")


if __name__ == "__main__":
    for library in filter(None, os.environ.get("LOADED_FIRST", "").split(":")):
        ctypes.CDLL(library)
    scenes = {**vars(fake_gpu_ends), **vars(fake_gpu_shared), **globals()}
    scenes[sys.argv[1]]()
