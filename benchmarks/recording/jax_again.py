"""A JAX program on the CPU, recorded again and again: does each recording end, and print, as the program alone does?

    python benchmarks/recording/jax_again.py [--times 100] [--at-once 4] [--python PYTHON] [--output benchmarks/results/jax_again.json]

The program (tests/guests/programs/jax_train.py) has gradients, a training step, jitted loops, a convolution and solvers: XLA's and Eigen's
code on many threads, some of which keeps data below the stack pointer. Each way of recording is tried so many times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.spool.glance import glance

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/guests/programs/jax_train.py"
RESULTS = ROOT / "benchmarks/results/jax_again.json"
WAYS = {
    "199 Hz": ["--cpu-rate", "199"],
    "999 Hz": ["--cpu-rate", "999"],
    "999 Hz, --wall": ["--cpu-rate", "999", "--wall", "999"],
}
RECORD = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--no-seal"]


@dataclass(frozen=True)
class Run:
    status: int
    printed: str
    samples: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--python", default=sys.executable, help="one that has JAX")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    program = [options.python, str(PROGRAM)]
    alone = run(program)
    result: dict[str, object] = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver())},
        "jax": subprocess.run([options.python, "-c", "import jax; print(jax.__version__)"], capture_output=True, text=True).stdout.strip(),
        "at_once": options.at_once,
        "alone": {"status": alone.status, "printed": alone.printed.splitlines()},
        "recorded": {},
    }
    print(json.dumps(result["alone"]), flush=True)
    ways: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        for way, choice in WAYS.items():
            commands = [
                [*RECORD, *choice, "-o", f"{folder}/{way[:3]}{len(way)}-{number}", "--", *program] for number in range(options.times)
            ]
            runs = list(pool.map(run, commands))
            ways[way] = {
                "runs": len(runs),
                "ended_as_alone": sum(each.status == alone.status for each in runs),
                "printed_as_alone": sum(each.printed == alone.printed for each in runs),
                "fewest_samples": min(each.samples for each in runs),
                "other_ends": sorted({each.status for each in runs} - {alone.status}),
            }
            print(way, json.dumps(ways[way]), flush=True)
            options.output.write_text(json.dumps({**result, "recorded": ways}, indent=1) + "\n")


def run(command: list[str]) -> Run:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    # The numbers that it computes; its other output differs between any two runs.
    printed = "\n".join(line for line in process.stdout.splitlines() if re.match("(loss|loop|convolution|product) ", line))
    samples = 0
    if command[: len(RECORD)] == RECORD:
        profile = Path(command[command.index("-o") + 1])
        samples = glance(Folder.open(profile)).samples
        subprocess.run(["rm", "-rf", str(profile)], check=True)
    return Run(process.returncode, printed, samples)


if __name__ == "__main__":
    main()
