"""How long trees take: building one from ten million samples, every transform on a large one, collapsed stacks in and out.

python benchmarks/profiles/trees.py [--samples 10000000] [--stacks 1000000] [--nodes 1000000] [--rounds 3] [--output FILE]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.transforms.filters import focus, hide, prune, without
from aiflame.attribute.transforms.grouping import group
from aiflame.attribute.transforms.invert import invert
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.transforms.recursion import merge_recursion
from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, assemble, frame_table
from aiflame.attribute.trees.build import tree as tree_of
from aiflame.exchange.writers import collapsed, speedscope
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.spool.process_spool import empty_frame

RESULTS = Path(__file__).parents[1] / "results" / "trees.json"
PROCESSES, THREADS, WORDS, FUNCTIONS = 4, 64, 200_000, 20_000


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    """median"""
    cpu_seconds: float
    nodes: int
    """of the result; 0 where it is no tree"""


class Tables:
    """A profile in memory."""

    def __init__(self, samples: int, stacks: int, random: np.random.Generator) -> None:
        each = stacks // PROCESSES
        words = random.integers(1, WORDS, WORDS).astype(np.uint64) | np.uint64(FrameKind.NATIVE << 60 | 1 << 40)
        rows = np.arange(each)
        caller = np.maximum(0, rows - 1 - (random.random((PROCESSES, each)) ** 4 * rows * 0.5).astype(np.int64))
        process = np.repeat(np.arange(PROCESSES), each)
        thread = random.integers(1, THREADS + 1, samples)
        seen = (thread % 16) * (each // 16) + random.beta(1, 3, samples) * (each // 64) + 1
        used = pl.DataFrame({"frame": np.unique(words)})
        name = (pl.col("frame") % FUNCTIONS).cast(pl.String)
        symbol = used.select(
            "frame",
            depth=pl.lit(0, pl.UInt16),
            name="function_" + name,
            full_name=pl.lit(""),
            kind=pl.lit(int(Kind.CPP), pl.UInt8),
            module=pl.lit("libwork.so"),
            file=pl.lit("work.cpp"),
            line=pl.lit(3, pl.UInt32),
            offset=pl.lit(0, pl.UInt64),
            approximate=pl.lit(False),
        )
        self.tables = {
            "processes": _rows(process=np.arange(PROCESSES), pid=np.arange(PROCESSES) + 100).with_columns(
                command=pl.lit("a"), exe=pl.lit("a")
            ),
            "threads": _rows(
                process=np.repeat(np.arange(PROCESSES), THREADS),
                id=np.tile(np.arange(1, THREADS + 1), PROCESSES),
                tid=np.arange(PROCESSES * THREADS) + 1000,
            ).with_columns(name=pl.lit("worker")),
            "stacks": _rows(process=process, id=np.tile(rows + 1, PROCESSES), parent=caller.ravel()).with_columns(
                frame=pl.Series(words[random.integers(0, WORDS, each * PROCESSES)])
            ),
            "symbols": pl.concat(
                [symbol.select(pl.lit(number, pl.UInt32).alias("process"), *symbol.columns) for number in range(PROCESSES)]
            ),
            "cpu_samples": _rows(process=random.integers(0, PROCESSES, samples), thread=thread, stack=np.minimum(seen, each)).with_columns(
                weight=pl.lit(1, pl.UInt32),
                period_ns=pl.lit(5_025_125, pl.UInt32),
                state=pl.lit(0, pl.UInt8),
                clock=pl.lit(0, pl.UInt8),
            ),
        }

    def has(self, name: str) -> bool:
        return name in self.tables

    def table(self, name: str) -> pl.DataFrame:
        if name in self.tables:
            return self.tables[name]
        return empty_frame(TABLE[name]).select(pl.lit(None, pl.UInt32).alias("process"), pl.all())

    def scan(self, name: str) -> pl.LazyFrame:
        return self.table(name).lazy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--stacks", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    random = np.random.default_rng(1)

    runs: dict[str, Run] = {}
    large = random_tree(options.nodes, random)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks.collapsed"
        with file.open("w") as out:
            collapsed.write(large, CPU_TIME.name, out)
        megabytes = file.stat().st_size / 1e6
        steps: dict[str, Callable[[], object]] = {
            "totals": lambda: large.totals(CPU_TIME.name),
            "hide_interpreter_noise": lambda: hide_interpreter_noise(large),
            "hide": lambda: hide(large, "_1"),
            "focus": lambda: focus(large, "_1"),
            "without": lambda: without(large, "_11"),
            "merge_recursion": lambda: merge_recursion(large),
            "invert": lambda: invert(large),
            "group by module": lambda: group(large, "module"),
            "prune": lambda: prune(large, 1e-4),
            "diff": lambda: diff(large, large, CPU_TIME.name),
            "top": lambda: top(large),
            "collapsed write": lambda: collapsed.write(large, CPU_TIME.name, io.StringIO()),
            "collapsed read": lambda: aiflame.open(file),
            "speedscope write": lambda: speedscope.write(large, CPU_TIME.name, io.StringIO()),
        }
        for name, step in steps.items():
            runs[name] = measure(name, step, options.rounds)
    profile = Tables(options.samples, options.stacks, random)
    runs["build"] = measure("build", lambda: tree_of(profile, CPU_TIME.name), options.rounds)

    result = {
        "samples": options.samples,
        "stacks": options.stacks,
        "nodes": len(large),
        "depth": int(large.depths().max()),
        "collapsed_mb": round(megabytes, 1),
        "runs": {name: asdict(run) for name, run in runs.items()},
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "polars": pl.__version__},
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(options.output)
    return 0


def random_tree(nodes: int, random: np.random.Generator) -> Tree:
    """Some 20 frames deep; a fifth of the nodes has a value of its own."""
    parent = np.concatenate([[-1], (np.arange(1, nodes) * random.random(nodes - 1) ** 0.35).astype(np.int64)]).astype(np.int32)
    frame = np.concatenate([[0], random.integers(1, FUNCTIONS, nodes - 1)]).astype(np.uint32)
    value = random.integers(1, 10**9, nodes) * (random.random(nodes) < 0.2)
    kinds = (Kind.PYTHON, Kind.C, Kind.CPP)
    frames = frame_table(
        Frame(f"function_{row}", kinds[row % 3], f"file{row % 300}", row, f"lib{row % 40}.so") for row in range(1, FUNCTIONS)
    )
    return assemble(frames, parent, frame, {CPU_TIME.name: value}, (CPU_TIME,))


def measure(name: str, step: Callable[[], object], rounds: int) -> Run:
    seconds, cpu, nodes = [], [], 0
    for _ in range(rounds):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        result = step()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
        nodes = len(result) if isinstance(result, Tree) else 0
    run = Run(round(statistics.median(seconds), 3), round(statistics.median(cpu), 3), nodes)
    print(f"{name:24} {run.seconds:8.3f} s {run.cpu_seconds:8.3f} s of CPU {run.nodes or '':>10}", file=sys.stderr)
    return run


def _rows(**columns: np.typing.ArrayLike) -> pl.DataFrame:
    return pl.DataFrame({name: np.asarray(values).astype(np.uint32) for name, values in columns.items()})


if __name__ == "__main__":
    raise SystemExit(main())
