"""What capturing one launch costs: 20 Python and 40 native frames, and its row in the spool; and what a launch costs its caller.

    python benchmarks/gpu_capture.py --output capture.json

`capture` drives the collector's own capture from a library of the test build (`make build`): it needs no GPU. `near`: one launch after
the other; `far`: after 1 MiB of other memory was written. The innermost one to three frames change from launch to launch. Beside it
Python's own `traceback`, of the Python frames alone. `launch`: nanoseconds of the host that one small kernel's launch
takes, alone and recorded, from the same place, and with `--gpu-sampling off` and without stacks' Python part (`--no-python`).
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gpu_common import Options, Report, median_of, parse, recorded, run, scratch

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector"))
LIBRARY = PROGRAMS / "liblaunch_capture.so"
PYTHON_FRAMES = 18
"""Besides those that measure."""
NATIVE_FRAMES = 40
CAPTURES = 20_000
FAR_BYTES = 1 << 20
TARGET_NS = 1500
LAUNCHES_A_STEP = 1000


def main() -> None:
    options = parse(__doc__, ("many",))
    report = Report(options.output)
    if LIBRARY.exists():
        measuring = [sys.executable, __file__, "--measure", "2000" if options.small else str(CAPTURES)]
        done = subprocess.run(measuring, capture_output=True, text=True, check=False)
        if done.returncode:
            report.put("capture", {"error": done.stderr[-1500:]})
        else:
            report.put("capture", json.loads(done.stdout.splitlines()[-1]))
    else:
        report.put("capture", {"error": f"{LIBRARY} is not built: run `make build`, or set AIFLAME_TEST_PROGRAMS"})
    print(json.dumps(report.values["capture"]), flush=True)
    report.put("launch", launches(options, report))
    print(json.dumps(report.values["launch"]), flush=True)
    report.end()


def launches(options: Options, report: Report) -> dict[str, object]:
    program = options.program("many")
    found: dict[str, list[float]] = {}
    with scratch() as folder:
        path = folder / "p.aiflame"
        ways = {
            "alone": program,
            "recorded": recorded(program, path, "--no-seal"),
            "recorded, no stall sampling": recorded(program, path, "--no-seal", "--gpu-sampling", "off"),
            "recorded, native frames alone": recorded(program, path, "--no-seal", "--no-python"),
        }
        for _ in range(min(options.pairs, 2)):
            for way, command in ways.items():
                done = run(command)
                if done.status:
                    report.fail(way, done)
                elif "many" in done.results:
                    found.setdefault(way, []).append(done.results["many"]["ms"] * 1e6 / LAUNCHES_A_STEP)
    return {way: median_of(values) for way, values in found.items()}


def measure(captures: int) -> dict[str, object]:
    """In a process of its own, which records itself."""
    from aiflame.recorder.options import RecordOptions
    from aiflame.recorder.run import prepare

    library = ctypes.CDLL(str(LIBRARY))
    times, memory = (ctypes.c_uint32 * captures)(), (ctypes.c_char * FAR_BYTES)()
    found: dict[str, object] = {"target_ns": TARGET_NS}
    with scratch() as folder:
        profile = folder / "p.aiflame"
        page = prepare(profile, RecordOptions(cpu_rate=0), sys.orig_argv, overwrite=False)
        if not library.aiflame_start(os.fsencode(profile)):
            raise SystemExit("recording could not be started")
        clock = library.launch_clock_ns()

        def captured(depth: int, spoilt: int) -> tuple[int, int]:
            """The frames of the stack, and how many of them are Python's."""
            frames = int(library.launch_captures(depth, captures, times, memory, ctypes.c_size_t(spoilt)))
            return frames, sum(1 for _ in traceback.walk_stack(None))

        # The interpreter's own frames are among the forty.
        frames, python = below(PYTHON_FRAMES, lambda: captured(0, 0))
        depth = max(NATIVE_FRAMES - (frames - python), 0)
        for way, spoilt in (("near", 0), ("far", FAR_BYTES)):
            frames, python = below(PYTHON_FRAMES, partial(captured, depth, spoilt))
            took = sorted(max(ns - clock, 0) for ns in times)
            found[way] = {
                "python_frames": python,
                "native_frames": frames - python,
                "median_ns": took[len(took) // 2],
                "p90_ns": took[len(took) * 9 // 10],
                "mean_ns": round(statistics.fmean(took)),
                "met": took[len(took) // 2] <= TARGET_NS,
            }
        library.aiflame_stop()
        del page
    found["traceback, Python frames alone, ns"] = round(below(PYTHON_FRAMES, peer))
    return found


def peer() -> float:
    begin = time.perf_counter_ns()
    for _ in range(100):
        traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
    return (time.perf_counter_ns() - begin) / 100


def below(frames: int, last: Callable[[], Any]) -> Any:
    """Calls `last` below so many functions, each its own code object."""
    scope: dict[str, Any] = {"f0": lambda: last()}
    for number in range(1, frames):
        exec(compile(f"def f{number}():\n    return f{number - 1}()\n", f"<level {number}>", "exec"), scope)
    return scope[f"f{frames - 1}"]()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        main()
