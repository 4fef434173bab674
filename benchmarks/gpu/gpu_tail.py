"""The cost of recording to a GPU program: the worst of many processes, not only the middle one.

    python benchmarks/gpu/gpu_tail.py --output tail.json [--processes 20] [--modes alone floor recorded] [--seconds 1.2] [--workloads …]

Processes run one after the other, in an order of chance: as many of each mode. A process runs all workloads. Modes: `alone`; `floor`, CUPTI
by itself with the same records and callbacks, without stall samples (gpu_floor.c); `recorded`, by default options; `unsampled`, with
`--gpu-sampling off --gpu-counters off`; `counted`, with `--gpu-counters on`.

The processor of a shared machine may have half of its speed in whole processes. So each process times a loop of pure Python, its witness,
and its median step is divided by that of the processes alone whose witness was alike: within a quarter of the fastest, or not. `ratio`
has the median, the 90th percentile and the worst of these; `undisturbed` those of the processes with a fast witness. A file that exists
is added to.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_common import WORKLOADS, Report, cupti_alone, recorded, run, scratch

ALIKE = 1.25
"""Witnesses within that factor of the fastest are fast."""
OPTIONS = {
    "recorded": (),
    "unsampled": ("--gpu-sampling", "off", "--gpu-counters", "off"),
    "counted": ("--gpu-counters", "on"),
}
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=20, help="of each mode")
    parser.add_argument("--modes", nargs="+", default=["alone", "floor", "recorded"], choices=["alone", "floor", *OPTIONS])
    parser.add_argument("--workloads", nargs="+", default=["gpu", "launch", "llama"])
    parser.add_argument("--seconds", type=float, default=1.2, help="of steps that are measured")
    parser.add_argument("--settle", type=float, default=2.5, help="seconds of steps before: sampling of stalls ends in that time, or stays")
    parser.add_argument("--cpu", action="store_true", help="try the program out, in small, where no GPU is")
    options = parser.parse_args()
    before = json.loads(options.output.read_text()).get("processes", []) if options.output.exists() else []
    rows: list[Row] = before
    report = Report(options.output)
    with scratch() as folder:
        program = [sys.executable, str(WORKLOADS), *options.workloads, "--seconds", str(options.seconds), "--settle", str(options.settle)]
        program += ["--device", "cpu", "--small"] if options.cpu else []
        commands = {"alone": program, "floor": cupti_alone(program, folder) if "floor" in options.modes else None}
        for mode, more in OPTIONS.items():
            commands[mode] = recorded(program, folder / f"{mode}.aiflame", "--no-seal", *more)
        for number in range(options.processes):
            for mode in random.Random(f"{len(before)}-{number}").sample(options.modes, len(options.modes)):
                command = commands[mode]
                if command is None:
                    continue
                finished = run(command)
                if finished.status:
                    report.fail(f"{mode}, process {number}", finished)
                rows += [{"mode": mode, **result} for result in finished.results.values()]
                report.put("processes", rows)
                report.put("workloads", {name: summary(rows, name, options.modes) for name in options.workloads})
            print(number, json.dumps(report.values["workloads"]), flush=True)
    report.end()


def summary(rows: Sequence[Row], workload: str, modes: Sequence[str]) -> dict[str, object]:
    own = [row for row in rows if row["workload"] == workload]
    if not own:
        return {}
    fastest = min(row["witness_ms"] for row in own)
    fast = {id(row): row["witness_ms"] <= ALIKE * fastest for row in own}
    result: dict[str, object] = {}
    for mode in modes:
        ratios: list[tuple[bool, float]] = []
        for row in own:
            alone = [other["ms"] for other in own if other["mode"] == "alone" and fast[id(other)] == fast[id(row)]]
            if row["mode"] == mode and alone:
                ratios.append((fast[id(row)], row["ms"] / statistics.median(alone)))
        mean = {
            column: round(statistics.fmean([row[column] for row in own if row["mode"] == mode] or [0]), 4)
            for column in ("cpu_ms", "switches")
        }
        undisturbed = [ratio for quick, ratio in ratios if quick]
        result[mode] = {"ratio": spread([ratio for _, ratio in ratios]), "undisturbed": spread(undisturbed), **mean}
    return result


def spread(ratios: Sequence[float]) -> dict[str, float]:
    if not ratios:
        return {}
    ordered = sorted(ratios)
    late = ordered[min(len(ordered) - 1, round(0.9 * (len(ordered) - 1)))]
    return {
        "median": round(statistics.median(ordered), 4),
        "p90": round(late, 4),
        "worst": round(ordered[-1], 4),
        "processes": len(ordered),
    }


if __name__ == "__main__":
    main()
