"""The cost of `aiflame export` as profiles grow: time, memory, size of the file.

    python benchmarks/exchange/export.py [--kernels 100000 1000000 10000000] [--to chrome kineto pprof] [--output FILE]

Each run is a process of its own, on a made-up profile (`synthetic_profile.py`): time and peak memory are those of the whole command.
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

BENCHMARKS = Path(__file__).parents[1]
sys.path.insert(0, str(BENCHMARKS / "profiles"))
from synthetic_profile import write  # noqa: E402
from synthetic_run import Size  # noqa: E402

RESULTS = BENCHMARKS / "results" / "exchange" / "export.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--to", nargs="+", default=["chrome", "kineto", "pprof"])
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for kernels in options.kernels:
            profile = Path(folder) / "p.aiflame"
            write(profile, Size(kernels, stacks=min(20_000, max(2000, kernels // 500))))
            for to in options.to:
                runs.append({"kernels": kernels, "to": to, **measured(profile, to)})
                print(json.dumps(runs[-1]), flush=True)
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    options.output.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n")
    return 0


def measured(profile: Path, to: str) -> dict[str, Any]:
    """The file goes through a pipe and is counted, not kept: at 10 M kernels it has 19 GB."""
    command = [sys.executable, "-m", "aiflame", "export", str(profile), "--to", to]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    block, size = bytearray(1 << 20), 0
    while read := process.stdout.readinto(block):  # type: ignore[attr-defined]
        size += read
    _, status, usage = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    if status:
        raise SystemExit(f"{' '.join(command)} failed: {status}")
    return {
        "seconds": round(took, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1000),
        "file_mb": round(size / 1e6),
    }


if __name__ == "__main__":
    sys.exit(main())
