"""The cost of `aiflame dump` to us and to the program; beside `py-spy dump` and `py-spy dump --native`.

    python benchmarks/recording/dump.py [--py-spy py-spy] [--dumps 25] [--output benchmarks/results/recording/dump.json]

The program is Python with a hundred sleeping threads and four of C, which count the system calls that ended early (EINTR).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks/results/recording/dump.json"
PROGRAM = """
import ctypes, sys, threading, time
for _ in range(100):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
ctypes.CDLL(sys.argv[1]).wait_in_calls()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--py-spy", default="py-spy")
    parser.add_argument("--dumps", type=int, default=25)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/client.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", str(HERE / "dump_client.c"), "-o", library], check=True)
        commands = {
            "aiflame dump": [sys.executable, "-m", "aiflame", "dump", "--json"],
            "py-spy dump": [options.py_spy, "dump", "--pid"],
            "py-spy dump --native": [options.py_spy, "dump", "--native", "--pid"],
        }
        result = {
            "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
            "load": os.getloadavg()[0],
            "dumps": options.dumps,
            **{name: measured(command, library, options.dumps) for name, command in commands.items()},
        }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measured(command: list[str], library: str, dumps: int) -> dict[str, object]:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    program.stdout.readline()
    before, seconds, stops = cpu_s(), list[float](), list[int]()
    for _ in range(dumps):
        begun = time.perf_counter()
        written = subprocess.run([*command, str(program.pid)], capture_output=True, text=True, check=True).stdout
        seconds.append(time.perf_counter() - begun)
        if written.startswith("{"):
            threads = json.loads(written)["processes"][0]["threads"]
            stops += [thread["stopped_us"] for thread in threads if thread["stopped_us"]]
    used = (cpu_s() - before) / dumps
    counted = program.communicate("\n")[0].split()
    names = ("epoll_wait", "poll", "nanosleep")
    result: dict[str, object] = {
        "cpu_s": round(used, 3),
        "least_s": round(min(seconds), 3),
        "median_s": round(statistics.median(seconds), 3),
        "calls": dict(zip(names, map(int, counted[::2]), strict=True)),
        "ended_early": dict(zip(names, map(int, counted[1::2]), strict=True)),
    }
    if stops:
        result["stops"] = {"count": len(stops), "median_us": statistics.median(stops), "longest_us": max(stops)}
    return result


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
