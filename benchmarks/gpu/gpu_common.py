"""Common code of the GPU benchmarks: running a workload alone or recorded, the machine, results that survive a time limit."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from aiflame.profile.folder.meta import Host

FOLDER = Path(__file__).resolve().parent
WORKLOADS = FOLDER / "gpu_workloads.py"
RECORD = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--force"]
VERSIONS = ("aiflame", "torch", "triton", "nvidia-cuda-cupti", "polars")
LONGEST = 420
"""Seconds that one process may take before it is counted as failed."""


@dataclass(frozen=True, slots=True)
class Options:
    output: Path
    device: str
    small: bool
    seconds: float
    pairs: int
    workloads: list[str]

    def program(self, *workloads: str, script: Path = WORKLOADS, seconds: float | None = None, steps: int = 0) -> list[str]:
        """The command that runs these workloads."""
        command = [sys.executable, str(script), *workloads, "--device", self.device, "--seconds", str(seconds or self.seconds)]
        return [*command, *(["--small"] if self.small else []), *(["--steps", str(steps)] if steps else [])]


def parse(description: str | None, workloads: Iterable[str], *, pairs: int = 5, seconds: float = 1.5) -> Options:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--pairs", type=int, default=pairs)
    parser.add_argument("--seconds", type=float, default=seconds, help="of steady steps a process and workload")
    parser.add_argument("--cpu", action="store_true", help="try the program out, in small, where no GPU is")
    parser.add_argument("--workloads", nargs="+", default=list(workloads))
    options = parser.parse_args()
    return Options(
        output=options.output,
        device="cpu" if options.cpu else "cuda",
        small=options.cpu,
        seconds=0.1 if options.cpu else options.seconds,
        pairs=min(options.pairs, 2) if options.cpu else options.pairs,
        workloads=options.workloads,
    )


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ran workloads."""

    results: dict[str, dict[str, float]]
    status: int
    seconds: float
    ended_ns: int
    """CLOCK_MONOTONIC when it was gone."""
    errors: str


class Report:
    """A benchmark's JSON file, written anew with every finding, so that a time limit costs only the measurements not yet made."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self.values: dict[str, object] = {"machine": machine()}
        output.parent.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, value: object) -> None:
        self.values[name] = value
        self._output.write_text(json.dumps(self.values, indent=1) + "\n")

    def fail(self, step: str, finished: Finished) -> None:
        failures = self.values.setdefault("failures", [])
        assert isinstance(failures, list)
        failures.append({"what": step, "status": finished.status, "errors": finished.errors[-1500:]})
        self.put("failures", failures)
        print(f"FAILED {step}: status {finished.status}\n{finished.errors[-1500:]}", flush=True)

    def end(self) -> NoReturn:
        """Ends the program: with 1 where something failed."""
        sys.exit("failures" in self.values)


def machine() -> dict[str, object]:
    host = Host.here()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": host.cpu,
        "cores": host.cores,
        "kernel": host.kernel,
        "python": host.python,
        "gpus": _gpus(),
        "versions": {name: version for name in VERSIONS if (version := _version(name))},
    }


def _gpus() -> list[str]:
    """`name, driver, memory` of each."""
    if not shutil.which("nvidia-smi"):
        return []
    asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(command: list[str], env: dict[str, str] | None = None) -> Finished:
    """Runs a program that prints RESULT lines."""
    began = time.monotonic()
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False, env=env)
        status, output, errors = process.returncode, process.stdout, process.stderr
    except subprocess.TimeoutExpired as ran_out:
        status, output, errors = -1, _text(ran_out.stdout), _text(ran_out.stderr) + f"\nstill running after {LONGEST} s"
    ended_ns = time.monotonic_ns()
    results = {}
    for line in output.splitlines():
        if line.startswith("RESULT "):
            result = json.loads(line.removeprefix("RESULT "))
            results[result["workload"]] = result
    return Finished(results, status, time.monotonic() - began, ended_ns, errors)


class Player:
    """A process of `gpu_workloads.py --turns` that waits for its turn."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*command, "--turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def wait_until_ready(self) -> None:
        self._result()

    def play(self, workload: str, seconds: float) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{workload} {seconds}\n")
        self._process.stdin.flush()
        return self._result()

    def end(self) -> Finished:
        began = time.monotonic()
        try:
            _, errors = self._process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            _, errors = self._process.communicate()
        return Finished({}, self._process.returncode, time.monotonic() - began, time.monotonic_ns(), errors)

    def _result(self) -> dict[str, float]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                result: dict[str, float] = json.loads(line.removeprefix("RESULT "))
                return result
        raise PlayerEnded


class PlayerEnded(Exception):
    """Its output ended without another RESULT line."""


def _text(captured: object) -> str:
    return captured.decode(errors="replace") if isinstance(captured, bytes) else str(captured or "")


def recorded(command: list[str], profile: Path, *options: str) -> list[str]:
    return [*RECORD, "-o", str(profile), *options, "--", *command]


def cupti_alone(program: list[str], folder: Path) -> list[str] | None:
    """The program with CUPTI in it and nothing else; None where that cannot be had."""
    compiler, library = shutil.which("cc") or shutil.which("gcc"), folder / "libfloor.so"
    try:
        files = importlib.metadata.files("nvidia-cuda-cupti") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    cupti = next((file.locate() for file in files if "libcupti.so" in file.name), None)
    if not compiler or not cupti:
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(FOLDER / "gpu_floor.c"), "-ldl", "-pthread"], check=True)
    return ["env", f"CUDA_INJECTION64_PATH={library}", f"FLOOR_CUPTI={cupti}", *program]


def sampled(floor: list[str], decode_ms: int = 200) -> list[str]:
    """With stall samples, which CUPTI decodes as often as it does in a recording, or every `decode_ms`."""
    return ["env", f"FLOOR_SAMPLING={decode_ms}", *floor]


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="aiflame-gpu-") as folder:
        yield Path(folder)


def median_of(values: list[float]) -> dict[str, object]:
    """The median, the least and the most, and all of them."""
    return {
        "median": round(statistics.median(values), 4),
        "least": round(min(values), 4),
        "most": round(max(values), 4),
        "all": [round(value, 4) for value in values],
    }
