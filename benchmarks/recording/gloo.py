"""The cost of tracing to a run of four ranks of torch.distributed on Gloo.

    python benchmarks/recording/gloo.py [--pairs 30] [--output benchmarks/results/gloo.json]

Three runs of the same program take turns: alone, recorded without traced calls, and recorded with all of them. A block of steps is timed
by the clock and by the CPU time of all ranks; the cost is the median of the ratios of neighbouring blocks. `training` is a small
transformer under DistributedDataParallel; `calls` the hard case: nothing but all-reduces of a kilobyte, each waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiflame.profile.folder.meta import Host

RANKS, BLOCK_SECONDS = 4, 0.5
RUNS: dict[str, tuple[str, ...] | None] = {"alone": None, "recorded": ("--trace", "off"), "traced": ("--trace", "all", "--trace-stacks")}
PAIRS = {"tracing": ("recorded", "traced"), "all": ("alone", "traced")}
WORK = ("training", "calls")


def launch(work: str) -> None:
    """The ranks, as processes of this one; rank 0 reads and writes where we would."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(RANKS):
            command = [sys.executable, __file__, "--rank", str(rank), "--store", f"{folder}/store", "--work", work]
            stdin = None if rank == 0 else subprocess.DEVNULL
            children.append(subprocess.Popen(command, stdin=stdin, env={**os.environ, "OMP_NUM_THREADS": "1"}))
        for child in children:
            child.wait()


def run_rank(rank: int, store: str, work: str) -> None:
    """For each number on the first rank's stdin: so many steps by all; it answers with their seconds by the clock and of CPU."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    step = {"training": training, "calls": calls}[work](torch, dist)
    number = torch.zeros(1)
    while True:
        if rank == 0:
            number[0] = float(sys.stdin.readline() or -1)
        dist.broadcast(number, 0)
        if number[0] < 0:
            break
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(int(number[0])):
            step()
        seconds = torch.tensor([time.perf_counter() - begin, time.process_time() - used], dtype=torch.float64)
        dist.reduce(seconds, 0)
        if rank == 0:
            print(seconds[0].item() / RANKS, seconds[1].item(), flush=True)
    dist.destroy_process_group()


def training(torch: Any, _: Any) -> Callable[[], None]:
    nn, width = torch.nn, 128
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(256, width), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(width, 256))
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.5)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    text = torch.randint(0, 256, (4, 32))

    def step() -> None:
        nn.functional.cross_entropy(parallel(text).flatten(0, 1), text.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def calls(torch: Any, dist: Any) -> Callable[[], None]:
    values = torch.ones(256)
    return lambda: dist.all_reduce(values)


@dataclass(slots=True)
class Run:
    process: subprocess.Popen[str]

    def take(self, steps: int) -> tuple[float, float]:
        """Seconds by the clock, and of CPU."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        wall, used = self.process.stdout.readline().split()
        return float(wall), float(used)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def start(work: str, profile: Path, options: tuple[str, ...] | None) -> Run:
    command = [sys.executable, __file__, "--launch", work]
    if options is not None:
        command = [sys.executable, "-m", "aiflame.cli.main", "record", *options, "-o", str(profile), "--", *command]
    return Run(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))


def compare(work: str, pairs: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: start(work, Path(folder, f"{name}.aiflame"), options) for name, options in RUNS.items()}
        try:
            for run in runs.values():
                run.take(3)
            steps = max(1, int(BLOCK_SECONDS / (runs["alone"].take(10)[0] / 10)))
            turns = []
            for pair in range(pairs):
                order = list(runs)[pair % 3 :] + list(runs)[: pair % 3]
                turns.append({name: runs[name].take(steps) for name in order})
        finally:
            for run in runs.values():
                run.close()
    result: dict[str, object] = {"step_ms": round(statistics.median(one["alone"][0] for one in turns) / steps * 1e3, 3), "pairs": pairs}
    for name, (base, new) in PAIRS.items():
        for at, kind in enumerate(("clock", "cpu")):
            ratios = [one[new][at] / one[base][at] for one in turns]
            quarters = statistics.quantiles(ratios, n=4)
            result[f"{name}_{kind}_percent"] = round((statistics.median(ratios) - 1) * 100, 2)
            result[f"{name}_{kind}_quartiles"] = [round((quarter - 1) * 100, 2) for quarter in (quarters[0], quarters[2])]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launch", choices=WORK)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--store")
    parser.add_argument("--work", choices=WORK)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.rank is not None:
        run_rank(options.rank, options.store, options.work)
        return
    if options.launch:
        launch(options.launch)
        return
    results = {"machine": asdict(Host.here()), **{work: compare(work, options.pairs) for work in WORK}}
    text = json.dumps(results, indent=1)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
