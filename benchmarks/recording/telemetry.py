"""The cost of looking at the machine: CPU time of the recorder while a program sleeps, with looks and without.

    python benchmarks/recording/telemetry.py [--seconds 20] [--output benchmarks/results/telemetry.json]

The program does nothing, so that all that is measured is the recorder's: its processor time (user and system) in percent of one core, at
several intervals; and how long a look at each source takes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiflame.recorder.sources import sources

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/telemetry.json"
INTERVALS = ("off", "1000", "200", "50", "20")
LOOKS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = {interval: recorded(interval, options.seconds) for interval in INTERVALS}
    without = runs["off"]["cpu_seconds"]
    for run in runs.values():
        run["percent_of_a_core"] = round(100 * (run["cpu_seconds"] - without) / options.seconds, 2)
    result = {
        "machine": {"cpu": cpu(), "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "seconds": options.seconds,
        "intervals_ms": runs,
        "look_us": looks(),
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def recorded(interval: str, seconds: float) -> dict[str, Any]:
    """The recorder's own processor time, and the telemetry that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "p.aiflame"
        options = ["-q", "--no-seal", "--cpu-rate", "0", "--telemetry", interval, "-o", str(profile)]
        command = [sys.executable, "-m", "aiflame.cli.main", "record", *options, "--", "sleep", str(seconds)]
        process = subprocess.Popen(command)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0
        size = sum(file.stat().st_size for file in (profile / "telemetry").glob("*"))
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 3), "bytes_a_second": round(size / seconds)}


def looks() -> dict[str, float]:
    """The median CPU time of a look at each source, in µs."""
    medians: dict[str, float] = {}
    for source in sources(None):
        if source.begin() is None:
            continue
        durations = []
        for _ in range(LOOKS):
            began = time.thread_time_ns()
            list(source.look())
            durations.append(time.thread_time_ns() - began)
        source.end()
        name = f"{source.name} (every {source.every})"
        medians[name] = round(sorted(durations)[LOOKS // 2] / 1000, 1)
    return medians


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
