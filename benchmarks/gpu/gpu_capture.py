"""The cost of capturing one launch: 20 Python and 40 native frames, and its row in the spool; and the cost of a launch to its caller.

    python benchmarks/gpu/gpu_capture.py --output capture.json

`capture` drives the collector's own capture from a library of the test build (`make build`): it needs no GPU. `near`: one launch after
the other; `far`: after 1 MiB of other memory was written. The innermost one to three frames change from launch to launch. `decode`: a
decoder's tokens on the CPU, where each tensor that libtorch makes is a launch, under its own frames and some 17 of Python: each from
another place than the one before, and the code between them leaves little in the caches. Its `best_ns` is the median of the best token,
for machines that others use too. Beside it Python's own `traceback`, of the Python frames alone.
`launch`: nanoseconds of the host that one small kernel's launch
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

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector"))
LIBRARY = PROGRAMS / "liblaunch_capture.so"
PYTHON_FRAMES = 18
"""Besides those that measure."""
NATIVE_FRAMES = 40
CAPTURES = 20_000
FAR_BYTES = 1 << 20
TARGET_NS = 1500
LAUNCHES_A_STEP = 1000
MOST_LAUNCHES = 1 << 16
TOKENS = 100


def main() -> None:
    options = parse(__doc__, ("many",))
    report = Report(options.output)
    if LIBRARY.exists():
        alone = told_by([sys.executable, __file__, "--measure", "2000" if options.small else str(CAPTURES)])
        preloaded = os.environ | {"LD_PRELOAD": str(LIBRARY)}
        decode = told_by([sys.executable, __file__, "--measure-decode", "10" if options.small else str(TOKENS)], preloaded)
        report.put("capture", alone | {"decode": decode})
    else:
        report.put("capture", {"error": f"{LIBRARY} is not built: run `make build`, or set AIFLAME_TEST_PROGRAMS"})
    print(json.dumps(report.values["capture"]), flush=True)
    report.put("launch", launches(options, report))
    print(json.dumps(report.values["launch"]), flush=True)
    report.end()


def told_by(command: list[str], env: dict[str, str] | None = None) -> dict[str, object]:
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    result: dict[str, object] = {"error": process.stderr[-1500:]} if process.returncode else json.loads(process.stdout.splitlines()[-1])
    return result


def launches(options: Options, report: Report) -> dict[str, object]:
    program = options.program("many")
    times: dict[str, list[float]] = {}
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
                finished = run(command)
                if finished.status:
                    report.fail(way, finished)
                elif "many" in finished.results:
                    times.setdefault(way, []).append(finished.results["many"]["ms"] * 1e6 / LAUNCHES_A_STEP)
    return {way: median_of(values) for way, values in times.items()}


def measure(captures: int) -> dict[str, object]:
    """In a process of its own, which records itself."""
    from aiflame.recorder.options import RecordOptions
    from aiflame.recorder.place import place_of
    from aiflame.recorder.run import prepare

    library = ctypes.CDLL(str(LIBRARY))
    times, memory = (ctypes.c_uint32 * captures)(), (ctypes.c_char * FAR_BYTES)()
    result: dict[str, object] = {"target_ns": TARGET_NS}
    with scratch() as folder:
        profile = folder / "p.aiflame"
        page = prepare(place_of(profile, sys.orig_argv, None), RecordOptions(cpu_rate=0), sys.orig_argv, overwrite=False)
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
            result[way] = {
                "python_frames": python,
                "native_frames": frames - python,
                "median_ns": took[len(took) // 2],
                "p90_ns": took[len(took) * 9 // 10],
                "mean_ns": round(statistics.fmean(took)),
                "met": took[len(took) // 2] <= TARGET_NS,
            }
        library.aiflame_stop()
        del page
    result["traceback, Python frames alone, ns"] = round(below(PYTHON_FRAMES, peer))
    return result


def measure_decode(tokens: int) -> dict[str, object]:
    """In a process of its own, into which the library is preloaded."""
    import gpu_models
    import gpu_workloads
    import torch

    from aiflame.recorder.options import RecordOptions
    from aiflame.recorder.place import place_of
    from aiflame.recorder.run import prepare

    torch.set_num_threads(1)
    gpu_workloads.DECODER = gpu_models.Size(  # type: ignore[attr-defined]
        layers=16, width=64, tokens=64, batch=1
    )
    library, times = ctypes.CDLL(str(LIBRARY)), (ctypes.c_uint32 * MOST_LAUNCHES)()
    with scratch() as folder:
        profile = folder / "p.aiflame"
        page = prepare(place_of(profile, sys.orig_argv, None), RecordOptions(cpu_rate=0), sys.orig_argv, overwrite=False)
        step = gpu_workloads.warmed("decode", gpu_workloads.Place("cpu", small=False))
        if not library.aiflame_start(os.fsencode(profile)):
            raise SystemExit("recording could not be started")
        clock, all_took, best, launches_a_token = library.launch_clock_ns(), list[int](), list[float](), 0
        for token in range(tokens + 10):
            library.launch_at_memory(MOST_LAUNCHES, times)
            step()
            launches_a_token = library.launch_at_memory(0, None)
            took = [max(ns - clock, 0) for ns in times[:launches_a_token]]
            if token >= 10:
                all_took += took
                best.append(statistics.median(took))
        library.aiflame_stop()
        del page
    all_took.sort()
    return {
        "launches_a_token": launches_a_token,
        "median_ns": all_took[len(all_took) // 2],
        "p90_ns": all_took[len(all_took) * 9 // 10],
        "best_ns": round(min(best)),
    }


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
    elif sys.argv[1:2] == ["--measure-decode"]:
        print(json.dumps(measure_decode(int(sys.argv[2]))))
    else:
        main()
