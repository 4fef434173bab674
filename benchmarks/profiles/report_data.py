"""The cost of the data of a report: seconds, memory and bytes of the blocks of facts, for profiles of 0.1, 1 and 10 million kernels.

    python benchmarks/profiles/report_data.py [--kernels 100000 1000000 10000000] [--marked] [--output FILE]

Each profile is made up (`synthetic_profile.py`), and each is read in a process of its own, so that its peak of memory is its own. CPU time
stands beside wall-clock time: on a machine with other work it is the one to look at.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from synthetic_profile import write
from synthetic_run import Size

RESULTS = Path(__file__).parents[1] / "results" / "report_data.json"
MAKE = """
import json, sys, time
from pathlib import Path
from aiflame.profile.opening import open_profile
from aiflame.render.report.facts_block import facts_makers

def timed(make):
    wall, cpu = time.perf_counter(), time.process_time()
    block = make()
    return block, {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}

profile = open_profile(sys.argv[1])
domains = {}
for domain, make in facts_makers(profile).items():
    block, took = timed(make)
    domains[domain] = {**took, "block_mb": round(len(block) / 1e6, 2)}
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps({"domains": domains, "most_memory_mb": int(peak.split()[1]) // 1024}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--marked", action="store_true", help="with regions of steps and phases")
    parser.add_argument("--folder", type=Path, default=None, help="where to put profiles while measuring")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for kernels in options.kernels:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "made.aiflame"
            write(path, Size(kernels, cpu_samples=kernels // 30, gpu_samples=kernels // 10, marked=options.marked))
            rows.append({"kernels": kernels, **measured(path)})
            print(json.dumps(rows[-1]), flush=True)
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    options.output.write_text(json.dumps({"machine": machine, "marked": options.marked, "profiles": rows}, indent=2) + "\n")
    return 0


def measured(path: Path) -> dict[str, Any]:
    process = subprocess.run([sys.executable, "-c", MAKE, str(path)], check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(main())
