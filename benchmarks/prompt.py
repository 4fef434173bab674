"""How long a person waits for the recorder: before the program starts, after it has ended, and how that grows with what was recorded.

    python benchmarks/prompt.py [--runs 40] [--gigabytes 1] [--output benchmarks/results/prompt.json]

The program says when its first line runs and when its last one does; what it waited for is the rest, less the same of the program alone.
Alone, recorded, and under `py-spy record` (on PATH, else left out) in turn, so that a busy machine hits all alike. For growth, the
program puts ready-made tables of so many gigabytes into the profile it is recorded into, as if it had recorded them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from seal import spool

from aiflame.profile.meta import Host

RESULTS = Path(__file__).parent / "results" / "prompt.json"
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
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the largest recording")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        result: dict[str, object] = {"machine": _machine(), "runs": options.runs}
        result["ms"] = _small(folder, options.runs)
        result["ms_of_true"] = _of_true(folder, options.runs)
        result["growth"] = _growth(folder, options.gigabytes)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(options.output.read_text())


def _ways(folder: Path) -> dict[str, list[str]]:
    record = [sys.executable, "-m", "aiflame.cli.main", "record", "-q", "--force", "-o", f"{folder}/p.aiflame"]
    ways = {"alone": [], "aiflame": [*record, "--"], "aiflame, not sealed": [*record, "--no-seal", "--"]}
    if shutil.which("py-spy"):
        ways["py-spy"] = ["py-spy", "record", "-r", "199", "-o", f"{folder}/p.svg", "--"]
    return ways


def _small(folder: Path, runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """A program of some 50 ms: until its first line runs, and from its last line to the prompt. Both less those of the program alone."""
    ways = _ways(folder)
    before: dict[str, list[float]] = {way: [] for way in ways}
    after: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, front in ways.items():
            start, end = _waits(folder, front, WORK)
            before[way].append(start)
            after[way].append(end)
            _cleared(folder, way)
    return {
        way: {"start": _summary(before[way], before["alone"]), "end": _summary(after[way], after["alone"])}
        for way in ways
        if way != "alone"
    }


def _of_true(folder: Path, runs: int) -> dict[str, dict[str, float]]:
    """`aiflame record` of `true`, less `true`: start and end together."""
    took: dict[str, list[float]] = {way: [] for way in _ways(folder) if way != "py-spy"}
    for _ in range(runs):
        for way, front in _ways(folder).items():
            if way in took:
                began = time.monotonic_ns()
                subprocess.run([*front, "true"], check=True, stderr=subprocess.DEVNULL)
                took[way].append((time.monotonic_ns() - began) / 1e6)
                _cleared(folder, way)
    return {way: _summary(times, took["alone"]) for way, times in took.items() if way != "alone"}


def _growth(folder: Path, gigabytes: float) -> list[dict[str, float]]:
    """The end of recordings of several sizes."""
    result = []
    for share in (0.0, 0.25, 0.5, 1.0):
        made = spool(folder / "made.aiflame", int(share * gigabytes * 1e9) or 1_000_000, 2) / "spool"
        _, end = _waits(folder, _ways(folder)["aiflame"], COPY.format(folder=made))
        size = sum(file.stat().st_size for file in made.rglob("*.table"))
        result.append({"gigabytes": round(size / 1e9, 2), "end_ms": round(end, 1)})
        for left in (folder / "p.aiflame", folder / "made.aiflame"):
            shutil.rmtree(left, ignore_errors=True)  # its sealing process ends without a word
    return result


def _waits(folder: Path, front: list[str], work: str) -> tuple[float, float]:
    """Milliseconds before the program's first line, and behind its last."""
    out = folder / "times"
    command = [*front, sys.executable, "-I", "-c", PROGRAM.format(work=work, out=str(out))]
    began = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = time.monotonic_ns()
    first, last = map(int, out.read_text().split())
    return (first - began) / 1e6, (ended - last) / 1e6


def _cleared(folder: Path, way: str) -> None:
    """The next run does not compete with the sealing process of this one."""
    until = time.monotonic() + 30
    while way == "aiflame" and ((folder / "p.aiflame/tables.partial").exists() or (folder / "p.aiflame/spool").exists()):
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    shutil.rmtree(folder / "p.aiflame", ignore_errors=True)


def _summary(times: list[float], alone: list[float]) -> dict[str, float]:
    """Of what it takes more than alone."""
    base, least = statistics.median(alone), min(alone)
    quarters = statistics.quantiles(times, n=4)
    return {
        "median": round(statistics.median(times) - base, 1),
        "lower_quarter": round(quarters[0] - base, 1),
        "upper_quarter": round(quarters[2] - base, 1),
        "least": round(min(times) - least, 1),
    }


def _machine() -> dict[str, object]:
    host = Host.here()
    return {"cpu": host.cpu, "cores": host.cores, "kernel": host.kernel, "python": host.python}


if __name__ == "__main__":
    main()
