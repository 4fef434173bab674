"""The cost of a native frame, and how often stacks equal glibc's, in torch training, numpy and pybind11.

    python benchmarks/recording/unwind.py [--python PYTHON_WITH_TORCH] [--rounds 3] [--output benchmarks/results/unwind.json]

Costs are taken deep inside libtorch, where it asks for memory, on stacks of at least 44 frames, one way after the other at the same
place: our walks, glibc's backtrace() and libunwind's unw_backtrace() (left out where libunwind.so.8 is not installed). `next`: the
walk before was at the last allocation, and the peers have run since; `same`: the walk before was here; `rules`: nothing of the last
stack is used; `cold`: the first walk of a thread. The peers have seen the stack just before. Agreement is counted by
tests/collector/unwind/unwind_workloads.py. The libraries come from the test build (`make build`).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests" / "collector"
RESULTS = ROOT / "benchmarks/results/unwind.json"
PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector"))
BENCH = PROGRAMS / "libunwind_bench.so"
WAYS = ("next", "same", "rules", "cold", "glibc backtrace()", "libunwind unw_backtrace()")
FRAMES = 44
STEPS = 60

sys.path[:0] = [str(TESTS / "unwind"), str(TESTS / "support"), str(ROOT / "tests")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {"machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel}, "rounds": options.rounds}
    rounds = [json.loads(preloaded([options.python, __file__, "--measure"], BENCH)) for _ in range(options.rounds)]
    results["frames in a stack"] = statistics.median(medians["frames"] for medians in rounds)
    results["stacks"] = sum(medians["stacks"] for medians in rounds)
    results["nanoseconds a frame"] = {
        way: {
            "median": round(statistics.median(medians[way]["median"] for medians in rounds), 2),
            "least": min(medians[way]["median"] for medians in rounds),
        }
        for way in WAYS
        if way in rounds[0]
    }
    print(json.dumps(results["nanoseconds a frame"]))
    results["agreement"] = agreement(options.python)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def preloaded(command: list[str], library: Path) -> str:
    environment = os.environ | {"LD_PRELOAD": str(library)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def measure() -> dict[str, object]:
    """One process's medians, in nanoseconds a frame, less the time of reading the clock."""
    from unwind_workloads import training

    class Sample(ctypes.Structure):
        _fields_ = (("frames", ctypes.c_uint32), ("ns", ctypes.c_uint32 * len(WAYS)))

    library = ctypes.CDLL(str(BENCH))
    step = training()
    for _ in range(5):
        step()
    library.bench_start(FRAMES)
    for _ in range(STEPS):
        step()
    first = ctypes.POINTER(Sample)()
    count = library.bench_stop(ctypes.byref(first))
    clock = library.bench_clock_ns()
    result: dict[str, object] = {"stacks": count, "frames": statistics.median(first[at].frames for at in range(count))}
    for column, way in enumerate(WAYS):
        costs = sorted((sample.ns[column] - clock) / sample.frames for at in range(count) if (sample := first[at]).ns[column])
        if costs:
            result[way] = {"median": round(costs[len(costs) // 2], 2)}
    return result


def agreement(python: str) -> dict[str, Any]:
    """For each workload: stacks taken in calls and by a signal, and how many equal glibc's."""
    from test_unwind import build_bindings, run, workload

    workloads = {
        "torch training": workload("training", python, period=7, calls=50_000, ticks=1500),
        "torch convolutions": workload("convolution", python, period=7, calls=20_000, ticks=1000, generated=2000),
        "numpy": workload("arrays", sys.executable, period=1, calls=5000, ticks=1500),
    }
    compiler = shutil.which("g++")
    try:
        import pybind11
    except ImportError:
        compiler = None
    if compiler:
        with tempfile.TemporaryDirectory() as folder:
            build_bindings(compiler, pybind11.get_include(), Path(folder))
            workloads["pybind11"] = workload("bindings", sys.executable, period=3, calls=20_000, ticks=1500, path=folder)
    workloads["C++ exceptions, at every instruction"] = run("unwind_stepped", "exception")
    for name, result in workloads.items():
        print(name, json.dumps(result))
    return workloads


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure()))
    else:
        sys.exit(main())
