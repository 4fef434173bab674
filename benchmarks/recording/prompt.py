"""How long a person waits for the recorder: before the program starts, after it has ended, and how that grows with the recorded data.

    python benchmarks/recording/prompt.py [--runs 20] [--gigabytes 1] [--output benchmarks/results/prompt.json]

The program says when its first line runs and when its last one does; its wait is the rest of the time, less that of the program alone.
Alone, recorded, and under `py-spy record` (on PATH, else left out) in turn, so that a busy machine hits all alike; processor time beside
it, which depends less on other programs, and Python's own start as a yardstick. Where others use the machine, start all of it by
`chrt -f 20`. For growth, the program puts ready-made tables of so many gigabytes into the profile it is recorded into, as if it had
recorded them. For sizes, it imports NumPy from a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "profiles"))

from seal import spool

from aiflame.profile.folder.meta import Host
from aiflame.version import VERSION

RESULTS = Path(__file__).parents[1] / "results" / "prompt.json"
PROGRAM = (
    "import time; begin = time.monotonic_ns(); {work}; end = time.monotonic_ns(); open({out!r}, 'w').write(str(begin) + ' ' + str(end))"
)
WORK = "sum(range(3_000_000))"
COPY = (
    "import os, shutil; to = os.environ['AIFLAME_PROFILE'] + '/spool/';"
    " [shutil.copytree(f'{folder}/{{name}}', to + name) for name in os.listdir('{folder}')]"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the largest recording")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the installed package is compiled
        result: dict[str, object] = {"machine": _machine(), "runs": options.runs, "load_average_before": os.getloadavg()[0]}
        _of_true(folder, 1)
        result["ms"] = _small(folder, options.runs)
        result["ms_of_true"] = _of_true(folder, options.runs)
        result["growth"] = _growth(folder, options.gigabytes)
        result["megabytes_of_numpy_in_a_temporary_folder"] = _sizes(folder)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(options.output.read_text())


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds."""

    start: float
    """until the program's first line"""
    end: float
    """behind its last"""
    cpu: float
    """of processors, for the program and its recorder, until the prompt is back"""


def _ways(folder: Path) -> dict[str, list[str]]:
    record = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--force", "-o", f"{folder}/p.aiflame"]
    ways = {"alone": [], "aiflame": [*record, "--"], "aiflame, not sealed": [*record, "--no-seal", "--"]}
    if shutil.which("py-spy"):
        ways["py-spy"] = ["py-spy", "record", "-r", "199", "-o", f"{folder}/p.svg", "--"]
    return ways


def _small(folder: Path, runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """A program of some 50 ms. All less those of the program alone."""
    ways = _ways(folder)
    took: dict[str, list[Run]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, front in ways.items():
            took[way].append(_run(folder, front, WORK))
            _cleared(folder, way)
    fields = ("start", "end", "cpu")
    result = {
        way: {
            field: _summary([getattr(run, field) for run in took[way]], [getattr(run, field) for run in took["alone"]]) for field in fields
        }
        for way in ways
        if way != "alone"
    }
    alone = {field: round(statistics.median(getattr(run, field) for run in took["alone"]), 1) for field in fields}
    return {**result, "the program alone": {"median": alone}}


def _of_true(folder: Path, runs: int) -> dict[str, dict[str, float]]:
    """`aiflame record` of `true`, less `true`: start and end together. And Python that does nothing."""
    ways = {way: [*front, "true"] for way, front in _ways(folder).items() if way != "py-spy"} | {
        "python -c pass": [sys.executable, "-c", "pass"]
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, command in ways.items():
            began = time.monotonic_ns()
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            took[way].append((time.monotonic_ns() - began) / 1e6)
            _cleared(folder, way)
    return {way: _summary(times, took["alone"]) for way, times in took.items() if way != "alone"}


def _growth(folder: Path, gigabytes: float) -> list[dict[str, float]]:
    """The end of recordings of several sizes."""
    result = []
    for share in (0.0, 0.25, 0.5, 1.0):
        source = spool(folder / "made.aiflame", int(share * gigabytes * 1e9) or 1_000_000, 2) / "spool"
        end = _run(folder, _ways(folder)["aiflame"], COPY.format(folder=source)).end
        size = sum(file.stat().st_size for file in source.rglob("*.table"))
        result.append({"gigabytes": round(size / 1e9, 2), "end_ms": round(end, 1)})
        for left in (folder / "p.aiflame", folder / "made.aiflame"):
            shutil.rmtree(left, ignore_errors=True)  # its sealing process ends without a word
    return result


def _run(folder: Path, front: list[str], work: str) -> Run:
    out = folder / "times"
    command = [*front, sys.executable, "-I", "-c", PROGRAM.format(work=work, out=str(out))]
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    began = time.monotonic_ns()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    ended = time.monotonic_ns()
    if status:
        raise RuntimeError(f"{command}: {os.waitstatus_to_exitcode(status)}")
    first, last = map(int, out.read_text().split())
    return Run((first - began) / 1e6, (ended - last) / 1e6, (used.ru_utime + used.ru_stime) * 1e3)


def _sizes(folder: Path) -> dict[str, float]:
    """Profiles of a program whose libraries lie in a temporary folder, as those of a virtual environment may."""
    libraries = folder / "libraries"
    spec = importlib.util.find_spec("numpy")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for part in (package, package.with_name("numpy.libs")):
        if part.exists():
            shutil.copytree(part, libraries / part.name)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(libraries), *sys.path])}
    code = "import numpy; a = numpy.random.rand(700, 700); [a @ a for _ in range(30)]"
    sizes = {"libraries": _megabytes(libraries)}
    for way in ("aiflame", "aiflame, not sealed"):
        subprocess.run([*_ways(folder)[way], sys.executable, "-c", code], check=True, env=environment, stderr=subprocess.DEVNULL)
        if way == "aiflame":
            sizes["when the prompt is back"] = _megabytes(folder / "p.aiflame")
            subprocess.run([sys.executable, "-m", "aiflame.cli.main", "top", f"{folder}/p.aiflame"], check=True, stdout=subprocess.DEVNULL)
        sizes["sealed" if way == "aiflame" else "with --no-seal"] = _megabytes(folder / "p.aiflame")
        shutil.rmtree(folder / "p.aiflame", ignore_errors=True)
    return sizes


def _megabytes(folder: Path) -> float:
    return round(sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / 1e6, 2)


def _cleared(folder: Path, way: str) -> None:
    """The next run does not compete with the sealing process of this one."""
    for process in Path("/proc").glob("[0-9]*") if way == "aiflame" else ():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(folder / "p.aiflame") in words and any(b"aiflame.cli.support.sealer" in word for word in words):
                select.select([os.pidfd_open(int(process.name))], [], [], 60)
    shutil.rmtree(folder / "p.aiflame", ignore_errors=True)


def _summary(times: list[float], alone: list[float]) -> dict[str, float]:
    """Sums up the time beyond that of the program alone."""
    base, least = statistics.median(alone), min(alone)
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return {
        "median": round(statistics.median(times) - base, 1),
        "lower_quarter": round(quarters[0] - base, 1),
        "upper_quarter": round(quarters[2] - base, 1),
        "least": round(min(times) - least, 1),
        "worst": round(max(times) - base, 1),
    }


def _machine() -> dict[str, object]:
    host = Host.here()
    policy = "SCHED_FIFO" if os.sched_getscheduler(0) == os.SCHED_FIFO else "SCHED_OTHER"
    spy = (
        subprocess.run(["py-spy", "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if shutil.which("py-spy")
        else ""
    )
    versions = {"python": host.python, "aiflame": VERSION, "py-spy": spy.removeprefix("py-spy ")}
    return {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, **versions, "scheduling": policy}


if __name__ == "__main__":
    main()
