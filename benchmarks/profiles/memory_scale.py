"""The time and memory of commands on a profile of millions of allocations, each of which is freed.

    python benchmarks/profiles/memory_scale.py [--blocks 5000000] [--output FILE]

The profile is made: one device, 400 stacks, blocks of 512 bytes to 4 MiB that live for 20 ms on average, within 1,000 s. Each command runs
in a process of its own, whose `ru_maxrss` and CPU time count. Aim: a report of ten million events in 60 s with 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aiflame.exchange.readers.frames import PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import Sampled
from aiflame.profile.folder.door import Folder

RESULTS = Path(__file__).resolve().parents[1] / "results/profiles/memory_scale.json"
STACKS = 400
SECOND = 1_000_000_000
COMMANDS = {
    "top": ("top", "--metric", "gpu-bytes"),
    "top by category": ("top", "--metric", "gpu-bytes", "--by", "category"),
    "findings": ("findings",),
    "report": ("report", "-o"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=5_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict[str, Any] = {"blocks": options.blocks, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "commands": {}}
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "p.aiflame"
        make(profile, options.blocks)
        for name, command in COMMANDS.items():
            output = [str(Path(folder) / "report.html")] if command[-1] == "-o" else []
            result["commands"][name] = measured([*command, *output, str(profile)])
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def make(path: Path, blocks: int) -> None:
    making = Making(Folder.new(path))
    rows = Sampled(making)
    process = rows.process(0, "GPU 0")
    main_call = rows.call(process, -1, PythonFrame("main", "train.py", 0, 3))
    for number in range(STACKS):
        layer = rows.call(process, main_call, PythonFrame(f"layer{number % 40}", "model.py", 0, 10 + number % 40))
        rows.call(process, layer, PythonFrame(f"op{number}", "model.py", 0, 100 + number))
    rows.finish()
    chance = np.random.default_rng(1)
    begin = np.sort(chance.integers(SECOND, 1000 * SECOND, blocks))
    table = {
        "process": np.zeros(blocks, dtype=np.uint32),
        "stack": chance.integers(2, STACKS, blocks),
        "memory": pl.Series(["GPU 0"]).new_from_index(0, blocks),
        "bytes": chance.integers(512, 1 << 22, blocks),
        "begin_ns": begin,
        "end_ns": begin + 1 + chance.exponential(2e7, blocks).astype(np.int64),
    }
    making.add("memory_blocks", pl.DataFrame(table))
    making.last_ns = 1000 * SECOND
    making.finish("made", (), "0")


def measured(command: list[str]) -> dict[str, float]:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "aiflame", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} ended with {status}")
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": used.ru_maxrss // 1000,
    }


if __name__ == "__main__":
    main()
