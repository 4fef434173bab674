"""How long a flame graph of 200,000 distinct stacks takes, how much memory, and how large the file is; beside flamegraph.pl.

    python benchmarks/profiles/flame.py [--peer flamegraph.pl] [--rounds 3] [--output benchmarks/results/flame.json]

`profile` is `aiflame flame` on a sealed profile, `collapsed` the same on a text file of collapsed stacks, which is also the
input of flamegraph.pl. Each is a process of its own, timed from its start to its end, in turn with the others; the median counts.
flamegraph.pl (https://github.com/brendangregg/FlameGraph) is left out when it is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "web"))
from sample_trees import many_stacks

from aiflame.attribute.tree import Tree
from aiflame.exchange.writers import collapsed
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.profile.tables.index import Index, Part, write_part

RESULTS = Path(__file__).parents[1] / "results" / "flame.json"
TICK_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    file_mb: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stacks", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", default=shutil.which("flamegraph.pl"), help="path of flamegraph.pl")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        # In a process of its own: a child's peak memory counts the memory of its parent at the fork.
        with get_context("spawn").Pool(1) as pool:
            count = pool.apply(prepare, (work, options.stacks))
        runs = measure(commands(work, options.peer), work, options.rounds)

    report = {
        "stacks": options.stacks,
        "nodes": count,
        "rounds": options.rounds,
        "machine": f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}",
        "median": {name: median(all_of) for name, all_of in runs.items()},
        "all": {name: [asdict(run) for run in all_of] for name, all_of in runs.items()},
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    for name, values in report["median"].items():
        print(f"{name:14}", "  ".join(f"{key} {value:.2f}" for key, value in values.items()))
    return 0


def prepare(work: Path, stacks: int) -> int:
    """Writes the profile and the text file; returns the number of nodes."""
    tree = many_stacks(stacks)
    write_profile(tree, work / "many.aiflame")
    with (work / "many.collapsed").open("w", encoding="utf-8") as file:
        collapsed.write(tree, "cpu-time", file)
    return len(tree)


def commands(work: Path, peer: str | None) -> dict[str, Callable[[Path], list[str]]]:
    """The programs to compare: each command writes the file that it is given."""
    aiflame = [sys.executable, "-m", "aiflame.cli.main", "flame"]
    makers: dict[str, Callable[[Path], list[str]]] = {
        "profile": lambda out: [*aiflame, str(work / "many.aiflame"), "--raw", "-o", str(out)],
        "collapsed": lambda out: [*aiflame, str(work / "many.collapsed"), "-o", str(out)],
    }
    if peer:
        makers["flamegraph.pl"] = lambda out: ["perl", peer, str(work / "many.collapsed")]
    return makers


def measure(makers: dict[str, Callable[[Path], list[str]]], work: Path, rounds: int) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in makers}
    for _ in range(rounds):
        for name, command in makers.items():
            runs[name].append(timed(command(work / "out.svg"), work / "out.svg"))
    return runs


def timed(command: list[str], out: Path) -> Run:
    out.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as printed:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed")
        size = out.stat().st_size if out.exists() else os.fstat(printed.fileno()).st_size
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, size / 1e6)


def median(runs: list[Run]) -> dict[str, float]:
    return {name: round(statistics.median(asdict(run)[name] for run in runs), 3) for name in asdict(runs[0])}


def write_profile(tree: Tree, path: Path) -> None:
    """A sealed and resolved profile of one thread, one sample a stack, whose tree is `tree`."""
    folder = path / "tables"
    folder.mkdir(parents=True)
    Meta().write(Folder.open(path))
    nodes = np.arange(1, len(tree))
    word = np.uint64(int(FrameKind.NATIVE) << 60 | 1 << 40) + tree.frame.astype(np.uint64) * np.uint64(16)
    own = tree.values["cpu-time"]
    sampled = np.flatnonzero(own)
    functions = tree.frames[1:]
    tables = {
        "processes": {"pid": [7], "start_ns": [1], "command": ["train.py"]},
        "threads": {"tid": [7], "name": ["train.py"]},
        "stacks": {"id": nodes, "parent": tree.parent[1:], "frame": word[1:]},
        "cpu_samples": {
            "thread": np.ones(len(sampled)),
            "stack": sampled,
            "weight": np.clip(own[sampled] // TICK_NS, 1, 0xFFFF),
            "period_ns": np.full(len(sampled), TICK_NS),
            "time_ns": np.arange(len(sampled)),
        },
    }
    parts: dict[str, tuple[Part, ...]] = {
        name: (write_part(Folder.open(folder), name, "0", whole(name, columns)),) for name, columns in tables.items()
    }
    symbols = functions.select(
        pl.lit(0, pl.UInt32).alias("process"),
        pl.Series(
            "frame", np.uint64(int(FrameKind.NATIVE) << 60 | 1 << 40) + np.arange(1, len(tree.frames), dtype=np.uint64) * np.uint64(16)
        ),
        pl.lit(0, pl.UInt16).alias("depth"),
        *("name", "full_name", "kind", "module", "file", "line"),
        pl.lit(0, pl.UInt64).alias("offset"),
        "approximate",
    )
    parts["symbols"] = (write_part(Folder.open(folder), "symbols", "0", symbols),)
    Index(parts).write(Folder.open(folder))


def whole(name: str, columns: dict[str, object]) -> pl.DataFrame:
    """The table with the columns given; the others are 0 or empty."""
    schema = {"process": pl.UInt32(), **empty_frame(TABLE[name]).schema}
    rows = pl.DataFrame(columns)
    if "id" not in columns:
        rows = rows.with_row_index("id", offset=1)
    empty = {pl.String: "", pl.Binary: b""}
    missing = [pl.lit(empty.get(kind, 0)).alias(column) for column, kind in schema.items() if column not in rows.columns]  # type: ignore[call-overload]
    return rows.with_columns(missing).select(pl.col(column).cast(kind) for column, kind in schema.items())


if __name__ == "__main__":
    sys.exit(main())
