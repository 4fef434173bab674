"""The cost of a traced call, with its stack and without: `calls.json`.

    python benchmarks/recording/calls.py [--batches 20000] [--output benchmarks/results/calls/calls.json]

MPI: a client that calls an MPI which does nothing, alone and recorded. MPI_Test has no stack; MPI_Send has one, and a peer, a communicator
and bytes, which the MPI is asked for. CUDA: a client of the fake driver and the fake CUPTI of the tests (`make test` builds them; with
--real of those of this machine), beside a user of CUPTI that does nothing. cudaGetDevice calls the driver, which CUPTI reports, too.

`uprobe`: MPI_Test of the same client with the kernel's probes at its entry and its return, which only count (calls_uprobe.py).

HIP and Level Zero: functions that do nothing, of runtimes that a library of ours stands in for.

The median comes from batches of ten calls by the wall clock; the mean of all calls in CPU time includes the kernel's work to give memory
to a growing table. `clock` is one reading of the clock: each row needs two.
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

import calls_uprobe

HERE = Path(__file__).resolve().parent
FAKES = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", HERE.parents[1] / "build/dev/tests/collector")) / "fake_cuda"
FAKE = {"LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--real", action="store_true", help="CUDA: the driver and the CUPTI of this machine")
    parser.add_argument("--output", type=Path, default=HERE.parent / "results/calls/calls.json")
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "unit": "ns a call",
    }
    with tempfile.TemporaryDirectory() as folder:
        results["mpi"] = mpi(Path(folder), options.batches)
        results["uprobe"] = uprobe(Path(folder), options.batches)
        results["lttng"] = calls_uprobe.lttng()
        results["hip"] = stood_in(Path(folder), "hipSetDevice", "libamdhip64.so", "hip", options.batches)
        results["level zero"] = stood_in(Path(folder), "zeKernelSetIndirectAccess", "libze_loader.so", "ze", options.batches)
        if options.real or FAKES.is_dir():
            results["cuda"] = cuda(Path(folder), options.batches, {} if options.real else FAKE)
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def mpi(folder: Path, batches: int) -> dict[str, Any]:
    client = compiled_client(folder)
    costs: dict[str, Any] = {}
    for function, stack in (("MPI_Test", "without a stack"), ("MPI_Send", "with its stack")):
        command = [str(client), function, str(batches)]
        alone, recorded = json.loads(run(command)), json.loads(record(command, "mpi", folder / "mpi.aiflame"))
        costs[f"{function}, {stack}"] = {"alone": alone, "recorded": recorded, "added": added(recorded, alone)}
    return costs


def uprobe(folder: Path, batches: int) -> dict[str, Any]:
    client = compiled_client(folder)

    def measured() -> dict[str, float]:
        times: dict[str, float] = json.loads(run([str(client), "MPI_Test", str(batches)]))
        return times

    return calls_uprobe.beside(folder / "libmpi.so", "MPI_Test", 10 * batches, measured)


def cuda(folder: Path, batches: int, env: dict[str, str]) -> dict[str, Any]:
    client = folder / "calls_cuda_client"
    subprocess.run([compiler(), "-O2", str(HERE / "calls_cuda_client.c"), "-o", str(client), "-ldl"], check=True)
    costs: dict[str, Any] = {}
    for function, options in (("cuCtxGetDevice", []), ("cuCtxGetDevice, with its stack", ["--trace-stacks"]), ("cudaGetDevice", [])):
        command = [str(client), function.partition(",")[0], str(batches)]
        if "cudaGet" in function and not env:
            continue  # the real runtime is another library
        alone, heard = (json.loads(run([*command, how], env)) for how in ("alone", "heard"))
        recorded = json.loads(record([*command, "alone"], "cuda", folder / "cuda.aiflame", *options, env=env))
        costs[function] = {"alone": alone, "heard": heard, "recorded": recorded, "added": added(recorded, heard)}
    return costs


def stood_in(folder: Path, function: str, runtime: str, trace: str, batches: int) -> dict[str, Any]:
    source, library, client = str(HERE / "calls_stood_in.c"), folder / runtime, folder / f"calls_{trace}"
    subprocess.run([compiler(), "-O2", "-shared", "-fPIC", "-DSTUB", f"-Wl,-soname,{runtime}", source, "-o", str(library)], check=True)
    linked = [str(library), f"-Wl,-rpath,{folder}"]
    subprocess.run([compiler(), "-O2", source, "-o", str(client), *linked], check=True)
    command = [str(client), function, str(batches)]
    alone, recorded = json.loads(run(command)), json.loads(record(command, trace, folder / f"{trace}.aiflame"))
    return {f"{function}, without a stack": {"alone": alone, "recorded": recorded, "added": added(recorded, alone)}}


def added(recorded: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {kind: round(recorded[kind] - before[kind], 1) for kind in ("median", "mean")}


def compiled_client(folder: Path) -> Path:
    library, client = folder / "libmpi.so", folder / "calls_mpi_client"
    subprocess.run([compiler(), "-O2", "-shared", "-fPIC", str(HERE / "calls_mpi_stub.c"), "-o", str(library)], check=True)
    link = ["-L", str(folder), "-lmpi", f"-Wl,-rpath,{folder}"]
    subprocess.run([compiler(), "-O2", str(HERE / "calls_mpi_client.c"), "-o", str(client), *link], check=True)
    return client


def compiler() -> str:
    return shutil.which("cc") or sys.exit("no C compiler here")


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | (env or {})).stdout


def record(command: list[str], trace: str, profile: Path, *more: str, env: dict[str, str] | None = None) -> str:
    options = ["-q", "--no-seal", "--force", "--cpu-rate", "0", "--trace", trace, *more, "-o", str(profile)]
    try:
        return run([sys.executable, "-m", "aiflame.cli.main", "record", *options, "--", *command], env)
    finally:
        shutil.rmtree(profile, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
