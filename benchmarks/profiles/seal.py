"""The cost of sealing: seconds, memory, and bytes on disk a sample, on a spool of realistic rows.

    python benchmarks/profiles/seal.py --gigabytes 10

Seven tenths are CPU samples (8 threads, 199 Hz, 5,000 stacks of which few are frequent), two tenths kernels (3,000 names in four
shapes each), the rest stacks. Beside it: zlib at its fastest over the same sample records.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "unit" / "builders"))

from spool_files import ProcessFiles, ended_profile, pack

from aiflame.profile.folder.meta import Host
from aiflame.profile.schema.all_tables import HEADER_BYTES, SPOOL_HEADER, SPOOL_MAGIC, TABLE, TABLES
from aiflame.profile.spool.check_words import check_words
from aiflame.profile.spool.process_spool import record_type

RESULTS = Path(__file__).parents[1] / "results" / "seal.json"
PIECE = 1 << 20
SHAPES = 12_000
SEAL = """
import json, sys
from dataclasses import asdict
from aiflame.profile.folder.door import Folder
from aiflame.profile.sealing.seal import seal
report = asdict(seal(Folder.open(sys.argv[1]))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps({**report, "most_memory_mb": int(peak.split()[1]) // 1024}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=2, help="recorded processes")
    parser.add_argument("--folder", type=Path, default=None, help="where to put the spool while measuring")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        path = spool(folder / "a.aiflame", int(options.gigabytes * 1e9), options.processes)
        peer = zlib_over_samples(path)
        os.sync()
        printed = subprocess.run([sys.executable, "-c", SEAL, str(path)], capture_output=True, text=True, check=True).stdout
        report = json.loads(printed)
        index = json.loads((path / "tables/index.json").read_text().partition("\n")[2])
        report["bytes_a_row"] = {
            name: round(sum(p["bytes"] for p in parts) / sum(p["rows"] for p in parts), 2) for name, parts in index.items()
        }
        report["spool_mb_a_second"] = round(report["spool_bytes"] / report["seconds"] / 1e6)
        host = Host.here()
        machine = {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, "python": host.python}
        options.output.write_text(json.dumps({"machine": machine, "seal": report, "zlib -1 over the samples": peer}, indent=1) + "\n")
        print(options.output.read_text())
    finally:
        shutil.rmtree(folder)


def spool(path: Path, size: int, processes: int) -> Path:
    chance = np.random.default_rng(1)
    ended_profile(path)
    for number in range(processes):
        share = size // processes
        files = ProcessFiles(pid=100 + number, start_ns=1 + number)
        for n in range(SHAPES):
            name = f"void kernel_{n // 4}<float, {'unsigned int, ' * (n // 4 % 7)}4>(float*, int)"
            files.add(
                "kernel_shapes", name=name, device="gpu", api=2, grid_x=n % 4 * 128, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1
            )
        for _ in range(8):
            files.add("threads", tid=1)
        folder = files.write(path)
        _table(folder, "stacks", share // 10, partial(_stacks, chance))
        _table(folder, "kernels", share // 5, partial(_kernels, chance))
        _table(folder, "cpu_samples", share * 7 // 10, partial(_samples, chance))
    return path


def _stacks(chance: np.random.Generator, count: int, first: int) -> dict[str, object]:
    frames = chance.zipf(1.3, count).astype("u8") % 20_000 << np.uint64(32) | chance.integers(0, 400, count, "u8")
    return {"parent": (np.arange(first, first + count) * 0.97).astype("u4"), "frame": frames | np.uint64(3 << 60)}


def _samples(chance: np.random.Generator, count: int, first: int) -> dict[str, object]:
    tick = np.arange(first, first + count) // 8 * 5_025_125
    return {
        "thread": chance.integers(1, 9, count),
        "stack": np.minimum(chance.zipf(1.4, count), 5000),
        "weight": 1,
        "time_ns": tick + chance.integers(0, 5_000_000, count),
        "period_ns": 5_025_125,
        "cpu": chance.integers(0, 8, count),
    }


def _kernels(chance: np.random.Generator, count: int, first: int) -> dict[str, object]:
    start = 1_000_000 + np.arange(first, first + count) * 20_000 + chance.integers(0, 5_000, count)
    return {
        "shape": np.minimum(chance.zipf(1.3, count), SHAPES),
        "api": 2,
        "correlation": np.arange(first, first + count) * 3,
        "stream": chance.integers(0, 3, count),
        "start_ns": start,
        "end_ns": start + chance.integers(2_000, 15_000, count),
    }


def _table(folder: Path, name: str, size: int, rows: Callable[[int, int], dict[str, object]]) -> None:
    dtype = record_type(TABLE[name])
    total = size // dtype.itemsize
    values = {
        "magic": int.from_bytes(SPOOL_MAGIC, "little"),
        "format": 1,
        "table": TABLES.index(TABLE[name]),
        "record_bytes": dtype.itemsize,
        "pid": 1,
        "next": total,
    }
    with (folder / f"{name}.table").open("wb") as file:
        file.write(pack(SPOOL_HEADER, values).ljust(HEADER_BYTES, b"\0"))
        for first in range(0, total, PIECE):
            count = min(PIECE, total - first)
            records = np.zeros(count, dtype)
            for column, value in rows(count, first).items():
                records[column] = value
            records["commit"] = check_words(records.view("<u8").reshape(count, -1))
            records.tofile(file)


def zlib_over_samples(path: Path) -> dict[str, float]:
    size = record_type(TABLE["cpu_samples"]).itemsize
    with next(path.glob("spool/*/cpu_samples.table")).open("rb") as file:
        data = file.read(HEADER_BYTES + size * PIECE)[HEADER_BYTES:]
    started = time.perf_counter()
    packed = zlib.compress(data, 1)
    return {
        "bytes_a_row": round(len(packed) * size / len(data), 2),
        "spool_mb_a_second": round(len(data) / (time.perf_counter() - started) / 1e6),
    }


if __name__ == "__main__":
    main()
