"""The cost of `record --host-memory` to the program, beside heaptrack and memray where they are installed.

    python benchmarks/recording/host_memory.py [--rounds 200] [--turns 5] [--programs-python PYTHON]
        [--output benchmarks/results/recording/host_memory.json]

Pairs of malloc() and free() of 64 bytes, called from C: almost none is sampled, or (`each`) every one. Then whole programs: a
training in torch and frames in pandas, run in turn with and without, by the Python that has them. CPU time, the least
of all rounds and turns: on a shared machine everything else is other programs' time.
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

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/recording/host_memory.json"
SETTINGS = {
    "recorded": [],
    "with --host-memory": ["--host-memory"],
}

PAIRS = """
import ctypes, sys
pair = ctypes.CDLL(sys.argv[1]).pair_ns
pair.restype, pair.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_size_t]
print(round(pair(int(sys.argv[2]), 64), 2))
"""
TORCH = """
import time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
from torch.nn import Linear, ReLU
model = torch.nn.Sequential(Linear(256, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10))
optimizer, data, wanted = torch.optim.Adam(model.parameters()), torch.randn(128, 256), torch.randint(0, 10, (128,))
def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data), wanted).backward()
    optimizer.step()
for _ in range(20): step()
begin = time.process_time()
for _ in range(200): step()
print(time.process_time() - begin)
"""
PANDAS = """
import time, numpy, pandas
generator = numpy.random.default_rng(0)
rows = 500_000
keys, texts = generator.integers(0, 1000, rows), generator.integers(0, 50, rows).astype(str)
frame = pandas.DataFrame({"key": keys, "value": generator.random(rows), "text": texts})
def turn():
    sums = frame.groupby("key")["value"].agg(["mean", "sum", "std"])
    frame.merge(sums, on="key"), frame.groupby("text")["value"].sum(), frame.sort_values("value")
turn()
begin = time.process_time()
for _ in range(5): turn()
print(time.process_time() - begin)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--programs-python", default=sys.executable)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-c", PAIRS, str(client(folder)), str(options.rounds)]
        results["ns of a pair"] = {what: float(run(way, folder)) for what, way in pairs(command, options.programs_python, folder).items()}
        for module, text in (("torch", TORCH), ("pandas", PANDAS)):
            if has(options.programs_python, module):
                results[f"CPU seconds, {module}"] = turns([options.programs_python, "-c", text], options.turns, folder)
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def pairs(command: list[str], memrays_python: str, folder: Path) -> dict[str, list[str]]:
    few = [*command[:-1], "5"]
    ways = {
        "alone": command,
        **{what: by_aiflame(command, folder, *flags) for what, flags in SETTINGS.items()},
        "each, with --host-memory-every 1": by_aiflame(few, folder, "--host-memory", "--host-memory-every", "1"),
    }
    if heaptrack := shutil.which("heaptrack"):
        ways["each, heaptrack"] = [heaptrack, "--raw", "-o", str(folder / "heaptrack"), *few]
    program = folder / "pairs.py"
    program.write_text(PAIRS)
    if has(memrays_python, "memray"):
        ways["each, memray"] = [memrays_python, "-m", "memray", "run", "-q", "-f", "-o", str(folder / "memray.bin"), str(program), *few[3:]]
        ways["each, memray --native"] = [*ways["each, memray"][:4], "--native", *ways["each, memray"][4:]]
    return ways


def has(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def turns(command: list[str], count: int, folder: Path) -> dict[str, float]:
    ways = {"alone": command, **{what: by_aiflame(command, folder, *flags) for what, flags in SETTINGS.items()}}
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(count):
        for what, way in ways.items():
            least[what] = min(least[what], float(run(way, folder)))
    return {what: round(seconds, 3) for what, seconds in least.items()}


def by_aiflame(command: list[str], folder: Path, *flags: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "aiflame",
        "record",
        "-q",
        "--no-seal",
        "--force",
        "-o",
        str(folder / "p.aiflame"),
        *flags,
        "--",
        *command,
    ]


def run(command: list[str], folder: Path) -> str:
    """The number among the lines that the command prints."""
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return next(line for line in printed.splitlines() if line.replace(".", "").isdecimal())


def client(folder: Path) -> Path:
    target = folder / "libhost_memory_client.so"
    compiler = shutil.which("gcc") or sys.exit("no gcc here")
    source = Path(__file__).with_name("host_memory_client.c")
    subprocess.run([compiler, "-O2", "-fno-builtin", "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return target


if __name__ == "__main__":
    sys.exit(main())
