"""The cost of a mark to the program: a region entered and left, recorded and not; beside an empty context manager written in Python.

    python benchmarks/recording/region.py [--rounds 60] [--output benchmarks/results/region.json]

NVTX and ITT through the vendors' own clients (the wheels nvidia-nvtx and ittapi), called from C. "alone" is without any tool. CPU time of
the thread, the least of all rounds: on a shared machine everything else is other programs' time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/region.json"

IN_PYTHON = """
import json, sys, time
import aiflame
turns = range(5000)
class Empty:
    __slots__ = ()
    def __enter__(self): pass
    def __exit__(self, kind, value, trace): pass
def best(loop):
    least = 10**12
    for _ in range(int(sys.argv[1])):
        begin = time.thread_time_ns()
        loop()
        least = min(least, time.thread_time_ns() - begin)
    return least / len(turns)
def nothing():
    for _ in turns: pass
def entered(manager):
    def loop():
        for _ in turns:
            with manager: pass
    return loop
def made():
    for _ in turns:
        with aiflame.region("forward"): pass
def function(): pass
decorated = aiflame.region("forward")(function)
def called(function):
    def loop():
        for _ in turns: function()
    return loop
bare = best(nothing)
print(json.dumps({
    "enter_and_exit": round(best(entered(aiflame.region("forward"))) - bare, 1),
    "make_enter_and_exit": round(best(made) - bare, 1),
    "decorated_call": round(best(called(decorated)) - best(called(function)), 1),
    "empty_context_manager": round(best(entered(Empty())) - bare, 1),
}))
"""


IN_C = """
import ctypes, sys
measure = ctypes.CDLL(sys.argv[1]).region_pair
measure.restype, measure.argtypes = ctypes.c_double, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int]
print(round(measure(sys.argv[2].encode(), ctypes.CDLL(sys.argv[3])._handle, int(sys.argv[4])), 1))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from aiflame.profile.folder.meta import Host

    host = Host.here()
    results: dict[str, Any] = {
        "machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel},
        "load": round(os.getloadavg()[0], 1),
        "python": sys.version.split()[0],
        "unit": "ns a region",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", IN_PYTHON, str(options.rounds)]
        results["aiflame.region"] = {"alone": json.loads(alone(command)), "recorded": json.loads(recorded(command, Path(folder)))}
        for api, library in clients().items():
            command = [sys.executable, "-c", IN_C, str(client(Path(folder))), api, str(library), str(options.rounds)]
            results[api] = {"alone": json.loads(alone(command)), "recorded": json.loads(recorded(command, Path(folder)))}
    print(json.dumps(results, indent=1))
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def clients() -> dict[str, Path]:
    libraries = {}
    nvtx = next((file for folder in sys.path if (file := Path(folder, "nvidia/cu13/lib/libnvtx3interop.so.1")).exists()), None)
    if nvtx is not None:
        libraries["nvtx"] = nvtx
    package = importlib.util.find_spec("ittapi")
    if package is not None and package.submodule_search_locations:
        libraries["itt"] = next(Path(package.submodule_search_locations[0]).glob("native.*.so"))
    return libraries


def client(folder: Path) -> Path:
    target = folder / "libregion_client.so"
    if not target.exists():
        compiler = shutil.which("g++") or sys.exit("no g++ here")
        source = Path(__file__).with_name("region_client.cpp")
        subprocess.run([compiler, "-O2", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(target), "-ldl"], check=True)
    return target


def alone(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def recorded(command: list[str], folder: Path) -> str:
    profile = folder / "region.aiflame"
    whole = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--no-seal", "--force", "-o", str(profile), "--", *command]
    try:
        return alone(whole)
    finally:
        shutil.rmtree(profile, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
