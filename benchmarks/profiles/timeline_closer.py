"""The cost of a closer look at a served timeline: stretches of 1 ms to 1 s of a profile of ten million kernels, read alone.

    python benchmarks/profiles/timeline_closer.py PROFILE [--output FILE]

PROFILE: such as `synthetic_profile.py` makes. Names of layers and steps for launches are worked out first, as the report's first screen
does. Then each length is read at three places; the median counts. Where others use the machine, too, `cpu_seconds` (user and system, of all
threads) counts. `first`: the first stretch of all, which also builds the data kept for later ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
from gpu_common import machine

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.timeline.windows import Windows
from aiflame.profile.opening import open_profile
from aiflame.render.report.timeline_block import timeline_block

RESULTS = Path(__file__).parents[1] / "results" / "timeline_closer.json"
LENGTHS_MS = (1, 10, 100, 400, 1000)
PLACES = (0.02, 0.5, 0.9)
MOST = 1_000_000


def resident_mb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) // 1024


def look(windows: Windows, begin: int, length_ms: int) -> dict[str, Any]:
    started, worked = time.perf_counter(), time.process_time()
    window = (begin, begin + length_ms * 1_000_000)
    block = timeline_block(windows.timeline(*window, MOST), window=window)
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - worked, 2),
        "bytes": len(block),
        "resident_mb": resident_mb(),
    }


def measured(path: Path) -> dict[str, Any]:
    profile = open_profile(path)
    begin, end, many = profile.scan("kernels").select(pl.col("start_ns").min(), pl.col("end_ns").max(), n=pl.len()).collect().row(0)
    windows = Windows(Analysis(profile))
    kept = resident_mb()
    places = [int(begin + (end - begin) * part) for part in PLACES]
    figures = {"kernels": many, "resident_mb_before": kept, "first": look(windows, places[1], 10)}
    for length in LENGTHS_MS:
        looks = [look(windows, place, length) for place in places]
        figures[f"{length} ms"] = {name: statistics.median(one[name] for one in looks) for name in looks[0]}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    result = {"machine": machine(), **measured(given.profile)}
    given.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
