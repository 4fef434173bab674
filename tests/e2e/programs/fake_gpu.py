"""CUDA programs without a GPU: `python fake_gpu.py SCENE` does the work that test_cuda.py expects, through the CUDA driver's own functions.

The driver is the `libcuda.so.1` of the library path; the tests put a fake one there.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from ctypes import byref, c_int, c_void_p
from pathlib import Path

from fake_gpu_driver import NEVER, Dimensions, Gpu, RuntimeGpu, Tool, until_recorded_again


def replayed_here(gpu: Gpu, graph: c_void_p, stream: c_void_p) -> None:
    gpu.call("cuGraphLaunch", graph, stream)


def much(gpu: Gpu, kernel: c_void_p) -> None:
    for _ in range(30):
        gpu.launch(kernel)


def little(gpu: Gpu, kernel: c_void_p) -> None:
    for _ in range(10):
        gpu.launch(kernel)


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
    told = [
        gpu.driver.cudaStreamQuery(None),
        gpu.driver.cudaMalloc(byref(memory), ctypes.c_size_t(1 << 50)),
        gpu.driver.cudaGetLastError(),
        gpu.driver.cudaGetLastError(),
        gpu.driver.cuNewerThanTheHeaders(),
        gpu.driver.cudaNewerThanTheHeaders(),
    ]
    print(json.dumps(told))


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
    time.sleep(1.5)  # the worker writes records twice a second
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
    time.sleep(1.5)  # the worker writes records twice a second
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
    kernel = gpu.kernel("spin", 1000)

    def launch_for_ever() -> None:
        gpu.call("cuCtxSetCurrent", gpu.context)
        with contextlib.suppress(RuntimeError):  # the driver has shut down
            while True:
                gpu.launch(kernel)

    for _ in range(3):
        threading.Thread(target=launch_for_ever, daemon=True).start()
    time.sleep(0.3)


def two_devices() -> None:
    for device in range(2):
        gpu = Gpu(device)
        count = c_int()
        gpu.call("cuDeviceGetCount", byref(count))
        for _ in range(device + 1):
            gpu.launch(gpu.kernel("spin"))
        gpu.wait()


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


def no_cuda() -> None:
    """CUDA is there and stays unused."""
    ctypes.CDLL("libcuda.so.1")


if __name__ == "__main__":
    for library in filter(None, os.environ.get("LOADED_FIRST", "").split(":")):
        ctypes.CDLL(library)
    globals()[sys.argv[1]]()
