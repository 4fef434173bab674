"""The cost of sampling to a program, beside py-spy at the same rate.

    python benchmarks/recording/overhead.py [--torch] [--pairs 100] [--output benchmarks/results/overhead.json]

Inside: one process is recorded and does equal blocks of work, its timers running and paused in turn; the cost is the
median of the ratios of CPU time of neighbouring blocks. Whole: the whole program alone, under `aiflame record` and under
`py-spy record --native`, in turn; the program times its own loop.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from aiflame.profile.folder.meta import Host


def python_work() -> Callable[[], object]:
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return lambda: [fibonacci(20), sorted(str(i) for i in range(20_000))]


def torch_work() -> Callable[[], object]:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(2)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(2048, 256), nn.GELU(), nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


WORK = {"python": python_work, "torch": torch_work}


def timed(step: Callable[[], object], count: int) -> tuple[float, float]:
    """CPU and wall seconds of `count` steps."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        step()
    return time.process_time() - cpu, time.perf_counter() - wall


def steps_for(step: Callable[[], object], seconds: float) -> int:
    timed(step, 20)
    return max(1, int(seconds / (timed(step, 20)[1] / 20)))


def inside(name: str, rate: int, pairs: int) -> dict[str, object]:
    from aiflame.recorder.inside import recording
    from aiflame.recorder.library import collector
    from aiflame.recorder.options import RecordOptions

    step = WORK[name]()
    count = steps_for(step, 0.12)  # short blocks: shared machines change their speed from one second to the next
    ratios_cpu, ratios_wall = [], []
    library = ctypes.CDLL(str(collector()))
    with tempfile.TemporaryDirectory() as folder, recording(Path(folder) / "p.aiflame", RecordOptions(cpu_rate=rate), overwrite=False):
        timed(step, count * 10)  # a first sight of a function or stack costs more, once
        for pair in range(pairs):
            results = {}
            for on in (pair % 2 == 0, pair % 2 == 1):  # off-on, on-off, …: a drift of the machine hits both alike
                (library.aiflame_resume if on else library.aiflame_pause)()
                results[on] = timed(step, count)
            ratios_cpu.append(results[True][0] / results[False][0])
            ratios_wall.append(results[True][1] / results[False][1])
        library.aiflame_resume()
    return {"rate": rate, "pairs": pairs, "steps_a_block": count, "cpu_ratio": summary(ratios_cpu), "wall_ratio": summary(ratios_wall)}


def whole(name: str, rate: int, pairs: int) -> dict[str, object]:
    program = [sys.executable, __file__, "--loop", name]
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "alone": program,
            "aiflame": [
                sys.executable,
                "-m",
                "aiflame.cli.main",
                "record",
                "-q",
                "--no-seal",
                "--force",
                "-o",
                f"{folder}/p.aiflame",
                "--cpu-rate",
                str(rate),
                "--",
                *program,
            ],
        }
        if shutil.which("py-spy"):
            ways["py-spy --native"] = [
                "py-spy",
                "record",
                "--native",
                "-r",
                str(rate),
                "-f",
                "raw",
                "-o",
                f"{folder}/p.txt",
                "--",
                *program,
            ]
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(pairs):
            order = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]  # the order of programs changes the machine's speed
            for way in order:
                command = ways[way]
                process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
                times[way].append(next(float(line) for line in process.stdout.splitlines() if line.startswith("0.") or line[:1].isdigit()))
    ratios = {way: summary([mine / alone for mine, alone in zip(values, times["alone"], strict=True)]) for way, values in times.items()}
    return {"rate": rate, "pairs": pairs, "wall_ratio_to_alone": ratios}


def summary(values: list[float]) -> dict[str, object]:
    """The median, the middle half, and how far the median itself may be off (normal approximation, 95%)."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    error = 1.96 * 1.2533 * (high - low) / 1.349 / len(values) ** 0.5
    return {"median": round(middle, 4), "quartiles": [round(low, 4), round(high, 4)], "median_error": round(error, 4)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="store_true", help="also the torch training loop")
    parser.add_argument("--pairs", type=int, default=100, help="of short blocks inside one process")
    parser.add_argument("--runs", type=int, default=5, help="of the whole program; 0: none")
    parser.add_argument("--loop", choices=WORK, help="(internal) run one loop and print its wall seconds")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.loop:
        step = WORK[options.loop]()
        timed(step, 20)
        print(repr(timed(step, {"python": 250, "torch": 400}[options.loop])[1]), flush=True)
        return
    report: dict[str, dict[str, object]] = {"machine": asdict(Host.here())}
    for name in ["python", "torch"] if options.torch else ["python"]:
        report[name] = {"inside": [inside(name, rate, options.pairs) for rate in (199, 999)]}
        if options.runs:
            report[name] |= {"whole": whole(name, 199, options.runs)}
        print(name, json.dumps(report[name], indent=1), flush=True)
        if options.output:
            options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
