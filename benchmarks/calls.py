"""What a traced call costs, with its stack and without: `calls.json`.

    python benchmarks/calls.py [--batches 20000] [--output benchmarks/results/calls.json]

MPI: a client that calls an MPI which does nothing, alone and recorded. MPI_Test has no stack; MPI_Send has one, and a peer, a communicator
and bytes, which the MPI is asked for. The median is of batches of ten calls by the wall clock; the mean of all calls in CPU time has in it
what the kernel does to give memory to a growing table. `clock` is one reading of the clock: each row needs two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--output", type=Path, default=HERE / "results/calls.json")
    options = parser.parse_args()
    from aiflame.profile.meta import Host

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "unit": "ns a call",
    }
    with tempfile.TemporaryDirectory() as folder:
        results["mpi"] = mpi(Path(folder), options.batches)
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def mpi(folder: Path, batches: int) -> dict[str, Any]:
    client = compiled_client(folder)
    found: dict[str, Any] = {}
    for function, stack in (("MPI_Test", "without a stack"), ("MPI_Send", "with its stack")):
        command = [str(client), function, str(batches)]
        alone, recorded = json.loads(run(command)), json.loads(record(command, folder / "mpi.aiflame"))
        found[f"{function}, {stack}"] = {
            "alone": alone,
            "recorded": recorded,
            "added": {kind: round(recorded[kind] - alone[kind], 1) for kind in ("median", "mean")},
        }
    return found


def compiled_client(folder: Path) -> Path:
    compiler = shutil.which("cc") or sys.exit("no C compiler here")
    library, client = folder / "libmpi.so", folder / "calls_mpi_client"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(HERE / "calls_mpi_stub.c"), "-o", str(library)], check=True)
    link = ["-L", str(folder), "-lmpi", f"-Wl,-rpath,{folder}"]
    subprocess.run([compiler, "-O2", str(HERE / "calls_mpi_client.c"), "-o", str(client), *link], check=True)
    return client


def run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def record(command: list[str], profile: Path) -> str:
    options = ["-q", "--no-seal", "--force", "--cpu-rate", "0", "--trace", "mpi", "-o", str(profile)]
    try:
        return run([sys.executable, "-m", "aiflame.cli.main", "record", *options, "--", *command])
    finally:
        shutil.rmtree(profile, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
