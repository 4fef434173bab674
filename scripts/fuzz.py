"""Imports thousands of damaged files of every format: each must be a profile, or an error in one sentence.

    python scripts/fuzz.py [FORMAT…] [--copies 10000] [--first 0] [--jobs 2] [--output FILE]
    python scripts/fuzz.py --again 'pprof:go_cpu.pb:1234'

A copy is made by its number alone (tests/unit/builders/exchange/damage.py); the second command repeats one that failed. AIFLAME_TRACES
names a folder with more files (a folder for each format). Each copy has 2 GB of memory and 30 seconds of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILDERS = ROOT / "tests" / "unit" / "builders"
sys.path[:0] = [str(BUILDERS), str(BUILDERS / "exchange")]
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from damage import damaged  # noqa: E402
from whole_traces import ARCHIVE, Whole, look_at, whole_traces  # noqa: E402

from aiflame.memory import keep_freed_memory  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "exchange" / "fuzz.json"
BATCH = 500
MEMORY = 2 << 30
SECONDS = 30
LOOKED_AT = 25
"""Every so many copies that are a profile are read by all views."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help="all formats unless some are named")
    parser.add_argument("--copies", type=int, default=10_000, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="the number of the first copy")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--again", metavar="FORMAT:FILE:NUMBER", help="one copy, with the traceback of its failure")
    parser.add_argument("--batch", metavar="FORMAT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch:
        return run_batch(options.batch, options.first, options.copies)
    if options.again:
        name, file, number = options.again.rsplit(":", 2)
        return again(name, file, int(number))
    return run_all(options)


def run_all(options: argparse.Namespace) -> int:
    """Each batch is a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        there = sorted(whole_traces(Path(folder)))
    if unknown := set(options.formats) - set(there):
        raise SystemExit(f"no whole file of the format {', '.join(sorted(unknown))}; there are files of: {', '.join(there)}")
    names = options.formats or there
    numbers = range(options.first, options.first + options.copies)
    batches = [(name, numbers[at : at + BATCH]) for at in range(0, len(numbers), BATCH) for name in names]
    answers: dict[str, dict[str, Any]] = {name: {"copies": 0, "profiles": 0, "failures": []} for name in names}
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, _), answer in zip(batches, pool.map(lambda batch: in_processes(*batch), batches), strict=True):
            whole = answers[name]
            for key in ("copies", "profiles", "failures"):
                whole[key] += answer[key]
            for key in ("slowest_s", "peak_mb"):
                whole[key] = max(whole.get(key, 0), answer[key])
            for failure in answer["failures"]:
                print(f"--again {failure}", flush=True)
            checked = sum(one["copies"] for one in answers.values())
            print(f"{checked:,} of {len(names) * options.copies:,} copies, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    options.output.write_text(json.dumps({"first": options.first, "formats": answers}, indent=1, ensure_ascii=False) + "\n")
    return int(any(answer["failures"] for answer in answers.values()))


def in_processes(name: str, numbers: range) -> dict[str, Any]:
    """The answer for a batch, by as many processes as die over it."""
    total: dict[str, Any] = {"copies": 0, "profiles": 0, "failures": [], "slowest_s": 0.0, "peak_mb": 0}
    while len(numbers):
        command = [sys.executable, __file__, "--batch", name, "--first", str(numbers.start), "--copies", str(len(numbers))]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
        began = [line for line in lines if "began" in line]
        ended = [line for line in lines if "seconds" in line]
        for line in ended:
            total["copies"] += 1
            total["profiles"] += line["profile"]
            total["failures"] += [f"{line['what']!r}  {line['failure']}"] if line["failure"] else []
            total["slowest_s"] = max(total["slowest_s"], line["seconds"])
            total["peak_mb"] = max(total["peak_mb"], line["peak_mb"])
        if said.returncode == 0:
            break
        if len(began) == len(ended):
            raise SystemExit(f"{' '.join(command)} failed: {said.stderr[-2000:]}")
        total["copies"] += 1
        total["failures"].append(f"{began[-1]['began']!r}  the process died: {how(said.returncode)} {said.stderr.strip()[-200:]}")
        numbers = numbers[len(ended) + 1 :]
    return total


def how(status: int) -> str:
    if status == -signal.SIGPROF:
        return f"more than {SECONDS} s"
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def run_batch(name: str, first: int, count: int) -> int:
    """A line of JSON before and after each copy: if one ends the process, its name has been written."""
    with tempfile.TemporaryDirectory(prefix="aiflame-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        place = Path(folder)
        os.environ["XDG_CACHE_HOME"] = folder
        wholes = whole_traces(place)[name]
        keep_freed_memory()
        limit_memory()
        for number in range(first, first + count):
            whole = wholes[number % len(wholes)]
            what = f"{name}:{whole.name}:{number}"
            print(json.dumps({"began": what}), flush=True)
            print(json.dumps({"what": what, **one(whole, number, place / "copy")}), flush=True)
    return 0


def one(whole: Whole, number: int, folder: Path) -> dict[str, Any]:
    began = time.process_time()
    forget_peak()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    failure, profile = "", None
    try:
        profile = whole.survives(damaged(whole.data, number), folder)
        if profile is not None and number % LOOKED_AT < 2 and whole.format != ARCHIVE:
            look_at(profile)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})".replace("\n", " ")[:300]
    signal.setitimer(signal.ITIMER_PROF, 0)
    peak = peak_mb()
    if not failure and peak > MEMORY >> 20:
        failure = f"{peak:,} MB of memory"
    shutil.rmtree(folder, ignore_errors=True)
    return {"profile": profile is not None, "failure": failure, "seconds": round(time.process_time() - began, 2), "peak_mb": peak}


def again(name: str, file: str, number: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        whole = next(one for one in whole_traces(Path(folder))[name] if one.name == file)
        data = damaged(whole.data, number)
        kept = Path(tempfile.gettempdir()) / f"aiflame-damaged-{number}-{file}"
        kept.write_bytes(data)
        print(f"the copy is {kept}")
        profile = whole.survives(data, Path(folder) / "copy")
        if profile is not None:
            look_at(profile)
        print("an error for people" if profile is None else "a profile")
    return 0


def limit_memory() -> None:
    """More than the process has mapped already; a mapping is larger than its used part."""
    mapped = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize:"))
    limit = mapped * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> int:
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")) >> 10


if __name__ == "__main__":
    sys.exit(main())
