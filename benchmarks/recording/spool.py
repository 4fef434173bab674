"""CPU nanoseconds an append to the spool, beside a write(2) of the same record. Needs the programs that `make build` builds.

python benchmarks/recording/spool.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Host

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", ROOT / "build/dev/tests/collector"))
RESULTS = Path(__file__).parents[1] / "results" / "spool.json"
CASES = {"cpu_samples": 1_000_000, "stacks": 1_000_000, "kernels": 300_000, "known text": 1_000_000, "write(2)": 200_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    nanoseconds: dict[str, list[float]] = {what: [] for what in CASES}
    for _ in range(options.rounds):
        for what, records in CASES.items():
            nanoseconds[what].append(once(what, records))
    host = Host.here()
    result = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "ns_an_append": {what: {"median": statistics.median(times), "least": min(times)} for what, times in nanoseconds.items()},
        "rounds": options.rounds,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(options.output.read_text())


def once(what: str, records: int) -> float:
    """One fresh process: its first touch of every page of the file is part of the cost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.aiflame"
        (path / "spool").mkdir(parents=True)
        ControlPage.create(Folder.open(path), recorder_pid=0).close()
        command = [str(PROGRAMS / "spool_writer"), str(path), "cost", what, str(records)]
        ns: float = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["ns"]
        return ns


if __name__ == "__main__":
    main()
