"""How long names take, and how much memory: random addresses of the libraries of a torch process, or of those given.

    python benchmarks/profiles/resolve.py [LIBRARY ...] [--frames 50000] [--rounds 3] [--output benchmarks/results/resolve.json]

Without arguments: the libraries of torch (of this Python, or of the one named by --python) that are there, libpython, libc and libstdc++.
Random addresses are the worst case: nearly every one is another function, while a program's samples gather in few.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "unit" / "builders"))
from profiles import native, sealed, stack

from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.symbols import resolve

RESULTS = Path(__file__).parents[1] / "results" / "resolve.json"

LOADED = """
try:
    import torch
except ImportError:
    pass
print("\\n".join(sorted({line.split()[5] for line in open("/proc/self/maps") if "r-xp" in line and ".so" in line})))
"""


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    """of the process, the 100 MB of Polars and NumPy included"""
    rows: int
    unnamed: float
    """share of addresses without a name: random ones fall between functions too"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreter whose torch is looked up")
    parser.add_argument("--frames", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    loaded = subprocess.run([options.python, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    libraries = options.libraries or [Path(path) for path in loaded]
    runs = []
    for _ in range(options.rounds):
        with get_context("spawn").Pool(1) as pool:
            runs.append(pool.apply(measure, (libraries, options.frames)))
    result = {
        "machine": platform.platform(),
        "frames": options.frames,
        "libraries": {library.name: library.stat().st_size for library in libraries},
        "median_seconds": statistics.median(run.seconds for run in runs),
        "median_cpu_seconds": statistics.median(run.cpu_seconds for run in runs),
        "runs": [asdict(run) for run in runs],
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "libraries"}, indent=1))
    return 0


def measure(libraries: list[Path], frames: int) -> Run:
    """Shares of the frames are as the sizes of the libraries' code, but at least a hundred each."""
    generator = np.random.default_rng(1)
    modules, words = [], []
    code = {library: section for library in libraries if (elf := ElfFile.open(library)) and (section := elf.section(".text"))}
    total = sum(section.size for section in code.values())
    for number, (library, section) in enumerate(code.items(), 1):
        elf = ElfFile.open(library)
        modules.append({"path": str(library), "build_id": elf.build_id if elf else b"", "inode": library.stat().st_ino})
        addresses = generator.integers(section.address, section.address + section.size, max(frames * section.size // total, 100))
        words += [native(number, int(address), exact=place % 4 == 0) for place, address in enumerate(addresses)]
    with tempfile.TemporaryDirectory() as folder:
        profile = sealed(Path(folder) / "p.aiflame", modules=modules, stacks=stack(*words))
        wall, cpu = time.perf_counter(), time.process_time()
        resolve(profile)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        symbols = profile.table("symbols")
    unnamed = symbols.filter(pl.col("name").str.starts_with("[unknown]")).height / len(words)
    return Run(round(wall, 3), round(cpu, 3), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, symbols.height, round(unnamed, 4))


if __name__ == "__main__":
    sys.exit(main())
