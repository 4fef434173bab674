"""The cost of a tick to the code that it interrupts, and of a thread that starts and is never sampled; beside another version of aiflame.

    python benchmarks/recording/ticks.py [--against SITE] [--pairs 60] [--output benchmarks/results/ticks.json]

SITE is a folder in which the other version is installed (`pip install --target`). The versions take turns. A tick: neighbouring blocks of
work of one process with its timers running and paused, at 999 Hz, below 40 frames; the median of the differences, by the ticks there were.
Its handler: 5,000 of its signals sent by hand, below 40 frames, without the timer's interrupt; alone, the handler does nothing.
A thread: one that starts, does nothing and is waited for; memory: that of each of 2,000 threads that only wait.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/ticks.json"
RATE, FRAMES, HANDLERS, THREADS, WAITING, TURNS = 999, 40, 40, 2000, 2000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="SITE", help="another version of aiflame")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    versions: dict[str, str | None] = {"alone": None, "this": os.environ.get("PYTHONPATH", "")}
    if options.against:
        versions["other"] = str(options.against)
    what = ("tick_us", "handler_us", "thread_us", "thread_bytes")
    figures: dict[str, dict[str, list[float]]] = {name: {figure: [] for figure in what} for name in versions}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        client = folder / "client"
        source = Path(__file__).with_name("ticks_client.c")
        subprocess.run(["cc", "-O2", "-fno-optimize-sibling-calls", "-pthread", "-o", client, source, "-ldl"], check=True)
        for _ in range(TURNS):
            for version, site in versions.items():
                samples = figures[version]
                if site is not None:
                    pairs = [list(map(float, line.split())) for line in play(folder, site, [client, "ticks", FRAMES, options.pairs])]
                    samples["tick_us"] += [(with_ticks - without) / (with_ticks / 1e9 * RATE) / 1e3 for with_ticks, without in pairs]
                samples["handler_us"] += [float(line) / 1e3 for line in play(folder, site, [client, "handlers", FRAMES, HANDLERS])]
                samples["thread_us"] += [float(line) / 1e3 for line in play(folder, site, [client, "starts", 10, THREADS])]
                samples["thread_bytes"] += [float(line) for line in play(folder, site, [client, "memory", WAITING])]
    result = {
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_after": os.getloadavg()[0],
        },
        "rate_hz": RATE,
        "frames": FRAMES,
        "medians": {name: {what: middle(values) for what, values in samples.items()} for name, samples in figures.items()},
        "quartiles": {name: {what: quarters(values) for what, values in samples.items()} for name, samples in figures.items()},
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def play(folder: Path, site: str | None, command: list[object]) -> list[str]:
    words = list(map(str, command))
    environment = dict(os.environ)
    if site is not None:
        environment["PYTHONPATH"] = site
        profile = folder / "p.aiflame"
        words = [
            sys.executable,
            "-m",
            "aiflame.cli.main",
            "record",
            "-q",
            "--no-seal",
            "--cpu-rate",
            str(RATE),
            "-o",
            str(profile),
            "--",
            *words,
        ]
    process = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    subprocess.run(["rm", "-rf", str(folder / "p.aiflame")], check=True)
    return process.stdout.split("\n")[:-1]


def middle(values: list[float]) -> float | None:
    return round(statistics.median(values), 3) if values else None


def quarters(values: list[float]) -> list[float]:
    return [round(value, 3) for value in statistics.quantiles(values, n=4)[::2]] if values else []


if __name__ == "__main__":
    main()
