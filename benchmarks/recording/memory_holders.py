"""The cost of the names of containers to a program with `record --host-memory`: at each step, and where memory grows.

    python benchmarks/recording/memory_holders.py [--output benchmarks/results/recording/memory_holders.json]

By calls of the functions themselves within a recorded program, which has torch, and models of two sizes. Processor time, the median of all
calls.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/recording/memory_holders.json"
PROGRAM = """
import json, statistics, sys, time, torch
torch.set_num_threads(1)
growth = sys.modules["_aiflame_target.memory_growth"]
def took(call, count):
    begin = time.thread_time()
    for _ in range(count): call()
    return (time.thread_time() - begin) / count
def main():
    step = statistics.median(took(growth.step_ended, 10_000) for _ in range(20))
    load = took(growth.memory_holders, 1)
    answer = {"ns of a step": round(step * 1e9), "ms to load the code": round(load * 1e3, 2)}
    for blocks in (2, 250):
        Linear, ReLU = torch.nn.Linear, torch.nn.ReLU
        model = torch.nn.ModuleList(torch.nn.Sequential(Linear(4, 4), ReLU(), Linear(4, 4), torch.nn.LayerNorm(4)) for _ in range(blocks))
        model[-1][1].cache = [torch.ones(4), torch.ones(4)]
        looks = [took(growth.memory_holders().lengths, 1) for _ in range(30)]
        found = id(model[-1][1].cache) in growth.memory_holders().lengths()
        answer[f"ms of a look, {blocks * 5} modules"] = {"median": round(statistics.median(looks) * 1e3, 2), "reached the last": found}
    print(json.dumps(answer))
main()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    machine = {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel}
    results: dict[str, Any] = {"machine": machine, "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "program.py"
        program.write_text(PROGRAM)
        record = [sys.executable, "-m", "aiflame", "record", "-q", "--no-seal", "--host-memory", "-o", f"{name}/p.aiflame", "--"]
        run = subprocess.run([*record, sys.executable, str(program)], capture_output=True, text=True, check=True)
        results |= json.loads(next(line for line in run.stdout.splitlines() if line.startswith("{")))
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
