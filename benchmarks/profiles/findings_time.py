"""How long a person waits for findings: of a CPU profile, of a million kernels, and for the help.

    aiflame record -o cpu.aiflame -- PYTHON benchmarks/cpu/programs.py scikit-learn 30
    python benchmarks/profiles/findings_time.py cpu.aiflame [--kernels 1000000] [--output benchmarks/results/findings_time.json]

PYTHON as for `benchmarks/cpu/peers.py`. Each command is a process of its own; the wall clock counts on a quiet machine, CPU time on others.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from synthetic_profile import write
from synthetic_run import Size

from aiflame.profile.folder.meta import Host

RESULTS = Path(__file__).parents[1] / "results/findings_time.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path, help="of a program on the CPU")
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict[str, object] = {"machine": asdict(Host.here()) | {"name": "", "boot_id": ""}, "load_before": round(os.getloadavg()[0], 1)}
    result["aiflame --help"] = timed(10, "--help")
    result["findings of a CPU profile"] = timed(7, "findings", str(options.profile))
    with tempfile.TemporaryDirectory() as folder:
        synthetic = Path(folder) / "kernels.aiflame"
        write(synthetic, Size(kernels=options.kernels))
        result[f"findings of {options.kernels:,} kernels"] = timed(3, "findings", str(synthetic))
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def timed(runs: int, *arguments: str) -> dict[str, float]:
    """Seconds: the median and the least of so many runs, after one that fills the caches."""
    cpu, wall = [], []
    for _ in range(runs + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([sys.executable, "-m", "aiflame", *arguments], check=True, capture_output=True)
        wall.append(time.monotonic() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    figures = {"cpu": statistics.median(cpu[1:]), "cpu_least": min(cpu), "wall": statistics.median(wall[1:]), "wall_least": min(wall)}
    return {name: round(seconds, 3) for name, seconds in figures.items()}


if __name__ == "__main__":
    main()
