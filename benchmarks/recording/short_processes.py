"""The cost of recording to a script of short processes: alone, with an empty preloaded library, and recorded.

    python benchmarks/recording/short_processes.py [--times 2000] [--runs 10] [--output benchmarks/results/short_processes.json]

Runs alternate. Times are the script's own, from inside the recording: wall-clock time, and CPU time of all its processes. Sealing is
measured apart. The empty library costs as much as any preloaded library, the least recorder (least_recorder.c) as much as any recorder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiflame.profile.folder.door import Folder
from aiflame.profile.sealing.seal import seal

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/short_processes.json"

TIMED = """
import json, os, sys, time
begin = time.monotonic()
child = os.posix_spawn("/bin/sh", ["sh", "-c", sys.argv[2]], os.environ)
_, status, used = os.wait4(child, 0)
wall = time.monotonic() - begin
open(sys.argv[1], "w").write(json.dumps({"status": status, "wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    script = f"i=0; while [ $i -lt {options.times} ]; do x=$(echo $i); /bin/true; i=$((i+1)); done; exit 5"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty, least = empty_library(folder), least_recorder(folder)
        runs: dict[str, list[dict[str, float]]] = {"alone": [], "empty library": [], "least recorder": [], "recorded": []}
        for _ in range(options.runs):
            runs["alone"].append(timed(folder, script, {}, []))
            runs["empty library"].append(timed(folder, script, {"LD_PRELOAD": str(empty)}, []))
            runs["least recorder"].append(timed(folder, script, least, []))
            runs["recorded"].append(recorded(folder, script))
    medians = {way: {key: statistics.median(run[key] for run in of) for key in of[0]} for way, of in runs.items()}
    result: dict[str, Any] = {
        "machine": {"cpu": cpu(), "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "load_at_the_end": os.getloadavg()[0],
        "times": options.times,
        "runs": options.runs,
        "median": medians,
        "worst": {way: {key: max(run[key] for run in of) for key in of[0]} for way, of in runs.items()},
        "recorded_over_empty": over_empty("recorded", medians),
        "least_recorder_over_empty": over_empty("least recorder", medians),
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def over_empty(way: str, medians: dict[str, dict[str, float]]) -> dict[str, float]:
    return {key: round(medians[way][key] / medians["empty library"][key], 3) for key in ("wall_s", "cpu_s")}


def least_recorder(folder: Path) -> dict[str, str]:
    """Its files, and the variables that load it."""
    library, files = folder / "least.so", folder / "least"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, ROOT / "benchmarks/recording/least_recorder.c"], check=True)
    files.mkdir()
    (files / "control").write_bytes(b"\1" * 4096)
    (files / "lives").write_bytes(bytes(4 << 20))
    return {"LD_PRELOAD": str(library), "LEAST_RECORDER": str(files)}


def empty_library(folder: Path) -> Path:
    source, library = folder / "empty.c", folder / "empty.so"
    source.write_text("int aiflame_benchmark_nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def timed(folder: Path, script: str, environment: dict[str, str], recorder: list[str]) -> dict[str, float]:
    figures = folder / "figures.json"
    command = [*recorder, sys.executable, "-S", "-c", TIMED, str(figures), script]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    times = json.loads(figures.read_text())
    assert os.waitstatus_to_exitcode(int(times.pop("status"))) == 5
    return {key: round(value, 3) for key, value in times.items()}


def recorded(folder: Path, script: str) -> dict[str, float]:
    profile = folder / "p.aiflame"
    recorder = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--no-seal", "-o", str(profile), "--"]
    times = timed(folder, script, {}, recorder)
    begin = time.monotonic()
    report = seal(Folder.open(profile))
    times |= {"sealing_s": round(time.monotonic() - begin, 3), "processes": report.processes, "spool_bytes": report.spool_bytes}
    shutil.rmtree(profile)
    return times


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
