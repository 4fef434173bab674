"""Opens thousands of damaged profiles: each must be an AiflameError or a sound profile.

python benchmarks/profiles/fuzz_profiles.py --count 10000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "unit" / "builders"))
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from aiflame.profile.folder.meta import Host

RESULTS = Path(__file__).parents[1] / "results" / "fuzz_profiles.json"
HANG_S = 60
BATCH = 250


@dataclass(slots=True)
class Outcome:
    """The outcome for some mutated profiles of one kind."""

    cases: int = 0
    profiles: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    """cases that broke the promise: kind, seed and exception"""
    slowest_s: float = 0.0
    most_memory_mb: float = 0.0

    def add(self, other: Outcome) -> None:
        self.cases += other.cases
        self.profiles += other.profiles
        self.errors += other.errors
        self.failures += other.failures
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.most_memory_mb = max(self.most_memory_mb, other.most_memory_mb)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutated profiles in all, half of them sealed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1_000_000)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    outcomes = {"raw": Outcome(), "sealed": Outcome()}
    seeds = range(options.first_seed, options.first_seed + options.count // 2)
    batches = [(kind, seeds[at : at + BATCH]) for at in range(0, len(seeds), BATCH) for kind in outcomes]
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        for number, (kind, outcome) in enumerate(pool.map(_run, batches), 1):
            outcomes[kind].add(outcome)
            print(f"\r{number / len(batches):4.0%}  failures: {sum(len(o.failures) for o in outcomes.values())}", end="", file=sys.stderr)
    print(file=sys.stderr)
    host = Host.here()
    result: dict[str, object] = {"machine": {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, "python": host.python}}
    result["first_seed"] = options.first_seed
    for kind, outcome in outcomes.items():
        result[kind] = {**asdict(outcome), "errors": dict(outcome.errors.most_common())}
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(outcome.failures for outcome in outcomes.values()) else 0


def _run(batch: tuple[str, range]) -> tuple[str, Outcome]:
    from profile_mutations import mutated, raw_profile, sealed_profile, verdict, write

    kind, seeds = batch
    signal.signal(signal.SIGALRM, _give_up)
    outcome = Outcome()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        files = (raw_profile if kind == "raw" else sealed_profile)(Path(folder))
        for seed in seeds:
            path = write(mutated(files, random.Random(seed)), Path(folder) / "mutated.aiflame")
            started = time.perf_counter()
            signal.alarm(HANG_S)
            try:
                error = verdict(path)
                outcome.profiles += not error
                if error:
                    outcome.errors[_kind_of(error, path)] += 1
            except BaseException as failure:
                outcome.failures.append(f"{kind} {seed}: {type(failure).__name__}: {failure}")
            signal.alarm(0)
            outcome.cases += 1
            outcome.slowest_s = max(outcome.slowest_s, round(time.perf_counter() - started, 3))
            shutil.rmtree(path)
    outcome.most_memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return kind, outcome


def _kind_of(error: str, path: Path) -> str:
    """The message without the parts that differ from case to case."""
    return re.sub(r"\d+", "N", re.sub(rf"{re.escape(str(path))}\S*", "PROFILE", error))[:120]


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {HANG_S} s")


if __name__ == "__main__":
    sys.exit(main())
