"""The cost of the recorder's looks at waiting threads: CPU time in blocks with looks, beside blocks without.

    python benchmarks/recording/waits.py [--blocks 200] [--seconds 0.5] [--threads 4] [--output benchmarks/results/waits.json]

The program's threads sleep for random turns. Its CPU time of each block comes from the process's clock, and the recorder's from its
thread's. Every second block has looks, as seldom as they are after the first ones (`often`: as often as those).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from aiflame.recorder import RecordOptions, place_of, run
from aiflame.recorder.looks import waits as looks

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/waits.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200, help="of each kind")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.client:
        client(options)
        return
    result = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "blocks": options.blocks,
        "seconds": options.seconds,
        "threads": options.threads,
        "seldom": measured(options, looks.SELDOM_S),
        "often": measured(options, looks.OFTEN_S),
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measured(options: argparse.Namespace, every_s: float) -> dict[str, object]:
    recorder: dict[int, list[float]] = {}

    class Alternating(looks.Waits):
        def _run(self) -> None:
            while not self._over.wait(self._random.uniform(0.5, 1.5) * every_s):
                block = int(time.monotonic() / options.seconds)
                if block % 2:
                    before = time.thread_time()
                    self.look()
                    recorder.setdefault(block, []).append(time.thread_time() - before)
            for pid in list(self._open):
                self._leave(pid)

    looks.Waits, kept = Alternating, looks.Waits  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "blocks.json"
        own = ["--client", "--blocks", options.blocks, "--seconds", options.seconds, "--threads", options.threads, "--output", out]
        command = [sys.executable, __file__, *map(str, own)]
        run(command, place_of(Path(folder) / "p.aiflame", command, None, None), RecordOptions(telemetry_ms=0), seal_follows=False)
        used = {int(block): cpu for block, cpu in json.loads(out.read_text()).items()}
    looks.Waits = kept  # type: ignore[misc]
    pairs = [(used[block], used[block - 1], sum(recorder.get(block, []))) for block in used if block % 2 and block - 1 in used]
    program = [100 * (on - off) / options.seconds for on, off, _ in pairs]
    both = [100 * (on - off + ours) / options.seconds for on, off, ours in pairs]
    every = [look for of_block in recorder.values() for look in of_block]
    return {
        "looks_a_second": round(len(every) / len(pairs) / options.seconds, 1),
        "recorder_us_a_look": round(1e6 * statistics.mean(every), 1),
        "percent_of_a_core_without_looks": round(statistics.mean(100 * off / options.seconds for _, off, _ in pairs), 3),
        "program_percent_of_a_core": interval(program),
        "program_and_recorder_percent_of_a_core": interval(both),
    }


def interval(values: list[float]) -> dict[str, float]:
    """The mean and its 95% interval."""
    mean, half = statistics.mean(values), 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return {
        "mean": round(mean, 4),
        "low": round(mean - half, 4),
        "high": round(mean + half, 4),
        "median": round(statistics.median(values), 4),
    }


def client(options: argparse.Namespace) -> None:
    """CPU time of each block, by its number on the clock that both processes read."""
    over = threading.Event()

    def waits() -> None:
        turns = random.Random()
        while not over.is_set():
            time.sleep(turns.uniform(0.02, 0.08))

    for _ in range(options.threads - 1):
        threading.Thread(target=waits, daemon=True).start()
    turns, used = random.Random(), {}
    first = int(time.monotonic() / options.seconds) + 1
    block, begun = first - 1, time.process_time()
    while block < first + 2 * options.blocks:
        time.sleep(turns.uniform(0.02, 0.08))
        now = int(time.monotonic() / options.seconds)
        if now != block:
            at = time.process_time()
            used[block], block, begun = at - begun, now, at
    over.set()
    del used[first - 1]
    options.output.write_text(json.dumps(used))


if __name__ == "__main__":
    main()
