"""The cost of a Python frame, read from the interpreter's memory, beside `traceback.walk_stack` in the same process.

    python benchmarks/recording/python_frames.py [--rounds 15] [--output benchmarks/results/python_frames.json]

Each CPython that is installed here walks the same stacks: 40 different functions, called directly and called through `map`. The
reader's walk includes the lookup of each code object; the peer yields frame and line, and is asked for nothing more. The library
comes from the test build (`make build`).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/python_frames.json"
PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector"))
DEPTH = 40

sys.path[:0] = [str(ROOT / "tests" / "collector" / "unwind"), str(ROOT / "tests")]

Stack = Callable[[Callable[[], float]], float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host
    from interpreters import VERSIONS, interpreter

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "depth": DEPTH,
        "rounds": options.rounds,
    }
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"no CPython {version} here", file=sys.stderr)
            continue
        command = [python, __file__, "--measure", str(PROGRAMS / "libpython_reader.so"), str(options.rounds)]
        results[version] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(version, json.dumps(results[version]))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(library: Path, rounds: int) -> dict[str, object]:
    """Medians over rounds that take each way in turn, in nanoseconds a frame."""
    from python_reader import Reader

    reader = Reader(library)
    costs: dict[str, object] = {}
    for name, stack in (("called directly", direct()), ("called through map", through_map())):
        ways: dict[str, list[float]] = {"reader": [], "traceback.walk_stack": []}
        for _ in range(rounds):
            ways["reader"].append(stack(lambda: read(reader)))
            ways["traceback.walk_stack"].append(stack(walk_stack))
        costs[name] = {way: {"median": round(statistics.median(times), 2), "least": round(min(times), 2)} for way, times in ways.items()}
    return costs


def read(reader: Any) -> float:
    depth = ctypes.c_size_t()
    nanoseconds = reader.library.test_time_walk(ctypes.c_size_t(200), ctypes.byref(depth))
    return float(nanoseconds) / depth.value


def walk_stack() -> float:
    frames = 0
    begin = time.perf_counter_ns()
    for _ in range(50):
        for _, _ in traceback.walk_stack(None):
            frames += 1
    return (time.perf_counter_ns() - begin) / frames


def direct() -> Stack:
    return chain("def f{n}(last):\n    return f{below}(last)\n")


def through_map() -> Stack:
    return chain("def f{n}(last):\n    return next(map(f{below}, (last,)))\n")


def chain(template: str) -> Stack:
    """DEPTH functions, each its own code object, each calling the next."""
    scope: dict[str, Any] = {"f0": lambda last: last()}
    for number in range(1, DEPTH):
        exec(compile(template.format(n=number, below=number - 1), f"<level {number}>", "exec"), scope)
    outermost: Stack = scope[f"f{DEPTH - 1}"]
    return outermost


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        sys.exit(main())
