"""How often processors stand still while a GPU is sampled, and for how long.

    python benchmarks/gpu/gpu_halts.py --output halts.json [--pairs 5] [--seconds 2]

A loop that does nothing but read the clock, on a processor of its own, while the GPU is busy with earlier launches. It calls
nobody: where more than 50 µs lie between two readings, the processor was taken from it. Alone, recorded, and recorded with
`--gpu-sampling off`; and with CUPTI by itself (gpu_floor.c; where there is a C compiler), whose stall samples are decoded every 200 ms,
as in a recording (`seldom`), or every 25 ms (`often`). In turns.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch
from gpu_common import Report, cupti_alone, median_of, parse, recorded, run, sampled, scratch
from gpu_workloads import print_result

LONG_NS = 50_000
LOOP = "--loop"
WIDTH = 16384


def main() -> None:
    options = parse(__doc__, [], pairs=5, seconds=2.0)
    report = Report(options.output)
    program = [sys.executable, __file__, LOOP, options.device, str(options.seconds)]
    columns: dict[str, dict[str, list[float]]] = {}
    with scratch() as folder:
        profile = folder / "p.aiflame"
        ways = {
            "alone": program,
            "recorded": recorded(program, profile, "--no-seal"),
            "unsampled": recorded(program, profile, "--no-seal", "--gpu-sampling", "off"),
        }
        floor = cupti_alone(program, folder) if options.device == "cuda" else None
        if floor:
            ways |= {"seldom": sampled(floor), "often": sampled(floor, decode_ms=25)}
        for number in range(options.pairs):
            for way, command in ways.items():
                finished = run(command)
                if finished.status or "loop" not in finished.results or "floor: " in finished.errors:
                    report.fail(f"{way}, {number}", finished)
                    continue
                figures = columns.setdefault(way, {})
                for name in ("a_second", "median_us", "share"):
                    figures.setdefault(name, []).append(finished.results["loop"][name])
            report.put("halts", {way: {name: median_of(values) for name, values in figures.items()} for way, figures in columns.items()})
    for way, figures in columns.items():
        print(way, {name: statistics.median(values) for name, values in figures.items()}, flush=True)
    report.end()


def keep_busy(seconds: float) -> None:
    """Returns when the GPU has work for longer than that."""
    matrix = torch.ones(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    product = matrix @ matrix
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.mm(matrix, matrix, out=product)
    torch.cuda.synchronize()
    for _ in range(int(1.5 * seconds / (time.perf_counter() - begin)) + 1):
        torch.mm(matrix, matrix, out=product)


def loop(device: str, seconds: float) -> None:
    if device == "cuda":
        keep_busy(seconds)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    halts = []
    last = time.perf_counter_ns()
    end = last + int(seconds * 1e9)
    while last < end:
        now = time.perf_counter_ns()
        if now - last > LONG_NS:
            halts.append(now - last)
        last = now
    median = statistics.median(halts) / 1e3 if halts else 0.0
    figures = {"a_second": len(halts) / seconds, "median_us": round(median, 1), "share": round(sum(halts) / 1e9 / seconds, 5)}
    print_result({"workload": "loop", **figures})


if __name__ == "__main__":
    if sys.argv[1:2] == [LOOP]:
        loop(sys.argv[2], float(sys.argv[3]))
    else:
        main()
