"""`aiflame attach`, a thousand times to programs that are busy with CUDA, each for a moment of random length: `cycles.json`.

    make build
    python benchmarks/recording/attach/cycles.py [--cycles 334] [--only SCENE…] [--output FILE]

The programs are those of the tests, on the fake driver and the fake CUPTI, which end a program that breaks their rules. For each: the
attaches that failed, the program's answer at its end with its number of launches, and its memory, mapped areas, threads and open files
after the second cycle, after some and after the last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks/results/recording/attach_cycles.json"
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in (".", "collector/support", "e2e")]
os.environ.setdefault("AIFLAME_TEST_PROGRAMS", str(ROOT / "build/dev/tests/collector"))

from attaching import Program  # noqa: E402
from cuda_scenes import around  # noqa: E402

SCENES = ("steady", "launching", "replaying")
SHORTEST_S, LONGEST_S = 0.02, 0.2
FIRST, EVERY = 1, 100
"""Cycles after which the program's memory and such are read: the collector, loaded in the first one, stays."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=334)
    parser.add_argument("--only", nargs="*", default=SCENES)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {"machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel}, "programs": {}}
    failed = 0
    for scene in options.only:
        results["programs"][scene] = row = cycles(scene, options.cycles)
        failed += len(row["failures"])
        print(scene, json.dumps(row), flush=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    return failed != 0


def cycles(scene: str, count: int) -> dict[str, Any]:
    """Ends with an error if the program does not live to its own end, or writes anything to its standard error."""
    variables = {name: value for name, value in around().items() if name != "CUDA_INJECTION64_PATH"}
    variables |= {"PYTHONPATH": str(ROOT / "tests/e2e/programs"), "MALLOC_ARENA_MAX": "1"}
    program = Program([ROOT / "tests/e2e/host/programs/fake_gpu_attached.py", scene], variables)
    chance, failures, facts, began = random.Random(scene), list[str](), dict[int, dict[str, int]](), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for cycle in range(count):
            failures += attach_once(program.pid, Path(folder) / "p", chance.uniform(SHORTEST_S, LONGEST_S))
            if cycle == FIRST or (cycle + 1) % EVERY == 0 or cycle == count - 1:
                facts[cycle + 1] = program.facts()
    seconds = round(time.monotonic() - began)
    return {"cycles": count, "failures": failures, "seconds": seconds, "after cycle": facts, "answer at the end": program.end()}


def attach_once(pid: int, path: Path, seconds: float) -> list[str]:
    """Why it failed."""
    command = [sys.executable, "-m", "aiflame", "attach", str(pid), "--duration", f"{seconds:.3f}s", "--no-seal", "-q", "-o", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    shutil.rmtree(path, ignore_errors=True)
    return [result.stderr.strip()] if result.returncode else []


if __name__ == "__main__":
    sys.exit(main())
