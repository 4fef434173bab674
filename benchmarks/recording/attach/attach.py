"""`aiflame attach` of programs that were started plainly: `attach.json`.

    python benchmarks/recording/attach/attach.py [--seconds 5] [--guests .guests/python/bin/python] [--only NAME…]

Each program spends a quarter of its time in `light` and the rest in `heavy`, and says how long its longest turn or request was (turns.*,
server.py). For each: ms from the command to the beginning of the recording and to the first sample; the longest turn while nothing is
recorded, and while a recording begins, goes on and ends; and the share of `heavy` (of both) in this recording and in one from the start.
A first recording is not counted: later ones find files in the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))

from interpreters import VERSIONS, interpreter  # noqa: E402

STARTS_S = 3
"""Seconds that a program has for its start when it is recorded from there."""
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--guests", type=Path, default=HERE.parents[2] / ".guests/python/bin/python", help="a Python with torch, uvicorn …")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "results/recording/attach.json")
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: Row = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "programs": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, command in programs(Path(folder), str(options.guests)).items():
            if not options.only or name in options.only:
                results["programs"][name] = row = measure(command, Path(folder), options.seconds)
                print(name, json.dumps(row), flush=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def programs(folder: Path, guests: str) -> dict[str, list[str]]:
    turns = str(HERE / "turns.py")
    commands = {f"CPython {version}": [python, turns, "python"] for version in VERSIONS if (python := interpreter(version))}
    if node := shutil.which("node"):
        commands["node"] = [node, "--perf-basic-prof", str(HERE / "turns.mjs")]
    if compiler := shutil.which("c++"):
        built = str(folder / "turns")
        subprocess.run([compiler, "-O2", "-s", "-fno-asynchronous-unwind-tables", str(HERE / "turns.cpp"), "-o", built], check=True)
        commands["C++, stripped"] = [built]
    if Path(guests).exists():
        commands |= {name: [guests, turns, name] for name in ("pandas", "transformers", "training")}
        commands["uvicorn"] = [guests, str(HERE / "server.py")]
    return commands


class Program:
    def __init__(self, command: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, start_new_session=True)
        self._signal = signal.SIGUSR2 if "node" in command[0] else signal.SIGUSR1
        self._line()
        self.pid = self._process.pid

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the program has ended")
        return line

    def longest_ms(self) -> float:
        self._process.send_signal(self._signal)
        return float(self._line())

    def end(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()


def measure(command: list[str], folder: Path, seconds: float) -> Row:
    attached, whole = folder / "attached.aiflame", folder / "whole.aiflame"
    program = Program(command, folder)
    try:
        record("attach", str(program.pid), "-o", str(attached), "--duration", "1s")
        program.longest_ms()
        time.sleep(seconds)
        row: Row = {"longest_turn_alone_ms": program.longest_ms()}
        began = time.monotonic_ns()
        said = record("attach", str(program.pid), "-o", str(attached), "--duration", f"{seconds}s")
        row["longest_turn_ms"] = program.longest_ms()
    finally:
        program.end()
    row["began_ms"] = int(said.partition("since ")[2].partition(" ms")[0])
    row["first_sample_ms"] = round((first_sample_ns(attached) - began) / 1e6)
    row["heavy"] = share(attached)
    recorder = subprocess.Popen(
        [sys.executable, "-m", "aiflame", "record", "--force", "-q", "--telemetry", "off", "-o", str(whole), "--", *command],
        stdout=subprocess.DEVNULL,
        cwd=folder,
    )
    time.sleep(seconds + STARTS_S)
    recorder.terminate()
    recorder.wait()
    row["heavy_from_the_start"] = share(whole)
    return row


def record(*arguments: str) -> str:
    command = [sys.executable, "-m", "aiflame", *arguments, "--force", "--no-seal", "--telemetry", "off"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def first_sample_ns(path: Path) -> int:
    import aiflame

    return int(aiflame.open(path).table("cpu_samples")["time_ns"].to_numpy().min())


def share(path: Path) -> float | None:
    """Of `heavy` in both, where names are known; else None."""
    import aiflame

    tree = aiflame.open(path).tree("cpu-time")
    names = [name.partition("(")[0].rpartition(" ")[2].lstrip("*~^") for name in tree.frames["name"].to_list()]
    within = [""] * len(tree)
    took = {"light": 0, "heavy": 0, "": 0}
    for node in range(1, len(tree)):
        name = names[tree.frame[node]]
        within[node] = name if name in took else within[tree.parent[node]]
        took[within[node]] += int(tree.values["cpu-time"][node])
    both = took["light"] + took["heavy"]
    return round(took["heavy"] / both, 4) if both else None


if __name__ == "__main__":
    raise SystemExit(main())
