"""The findings on healthy programs, for a person to judge: `aiflame findings` of each, beside a clock that is not ours.

    python benchmarks/cpu/healthy.py --python PYTHON [--programs torch …] [--keep FOLDER] [--output benchmarks/results/healthy.json]

PYTHON as for `peers.py`, and with SciPy, Polars, Pillow, ipykernel and Matplotlib. The clocks read in the recorded process itself:
`healthy_clock.py` those of lines, cells, collections and imports of Python, `second_clock.c` those of processes, OpenMP's threads and
copies. Verdicts in the output file are a person's, and stay as long as the first sentence does but for its numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiflame.profile.folder.meta import Host

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks/results/healthy.json"
OF_PEERS = {"pandas": 5, "scikit-learn": 4, "uvicorn": 10, "pytest": 3}
"""Programs of `programs.py`, and how much of their work."""
OWN = ("torch", "scipy", "polars", "sqlite", "pillow", "notebook", "compiling", "video")
OF_TOOLS = {"mypy": ["mypy", "--no-incremental", "--cache-dir", os.devnull, "src/aiflame/analyze"]}
_COPIES = ["-DCOPIES", "-fno-builtin"]
IN_C = {"torch": [], "video": _COPIES, "compiling": _COPIES}
"""Programs with `second_clock.c`, and how it is compiled for them."""
ALONE = ["chrt", "-f", "10"]
STARTUP = """import sys
sys.path.insert(0, {folder!r})
import healthy_clock
from pathlib import Path
healthy_clock.startup(Path({out!r}), get_ipython().events)
"""
RUN = """import sys
sys.path.insert(0, {folder!r})
import healthy_clock, pathlib, runpy
sys.path[0], sys.argv = "", sys.argv[1:]
healthy_clock.begin(pathlib.Path({out!r}))
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Lines of a file would be the program's own."""


def main() -> None:
    names = [*OF_PEERS, *OWN, *OF_TOOLS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--programs", nargs="*", default=names, choices=names)
    parser.add_argument("--alone", action="store_true", help="with a real-time priority: no other program takes its processors (root only)")
    parser.add_argument("--keep", type=Path, help="a folder for the profiles")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"programs": {}}
    result["machine"] = asdict(Host.here()) | {"name": "", "boot_id": ""}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs:
            before = result["programs"].get(name, {})
            result["programs"][name] = said(name, options, options.keep or Path(folder), before)
            options.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(name, json.dumps(result["programs"][name], indent=1, ensure_ascii=False), flush=True)


def said(name: str, options: argparse.Namespace, folder: Path, before: dict[str, Any]) -> dict[str, Any]:
    profile, clock = folder / f"{name}.aiflame", folder / f"{name}.jsonl"
    clock.unlink(missing_ok=True)
    alone = ALONE if options.alone else []
    record = [
        sys.executable,
        "-m",
        "aiflame",
        "record",
        "--force",
        "-q",
        "-o",
        str(profile),
        "--",
        *alone,
        *command(name, options.python, clock, folder),
    ]
    load = os.getloadavg()[0]
    environment = os.environ | {"PYTHONHASHSEED": "0"} | variables(name, clock, folder)
    recorded = subprocess.run(record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=HERE.parents[1], env=environment)
    if recorded.returncode:
        sys.exit(recorded.stderr)
    findings = subprocess.run([sys.executable, "-m", "aiflame", "findings", "--json", str(profile)], check=True, capture_output=True)
    answer = json.loads(findings.stdout)
    now = {
        "seconds": round(answer["duration_ns"] / 1e9, 1),
        answer["metric"].replace("-", "_") + "_s": round(answer["total"] / 1e9, 1),
        "load_before": round(load, 1),
        "sentences": [one["sentence"] for one in answer["findings"]],
        "missing": answer["missing"],
        "notes": answer["notes"],
    }
    if clock.exists():
        now["percent_by_own_clock"] = by_own_clock(clock)
    same = [re.sub(r"\d+", "0", (said["sentences"] or [""])[0]) for said in (now, {"sentences": before.get("sentences")})]
    return now | ({"verdict": before["verdict"]} if "verdict" in before and same[0] == same[1] else {})


def by_own_clock(file: Path) -> dict[str, float]:
    """Percent of the CPU time of all its processes."""
    last = {(row["pid"], "in_c" in row): row for row in map(json.loads, file.read_text().splitlines())}
    whole = sum({pid: row["cpu_s"] for (pid, _), row in last.items()}.values())
    took: dict[str, float] = defaultdict(float)
    for row in last.values():
        for what, seconds in row.get("took", row.get("in_c", {})).items():
            took[what] += seconds
    return {"seconds": round(whole, 1)} | {what: round(100 * took[what] / whole, 1) for what in sorted(took)}


def command(name: str, python: str, clock: Path, folder: Path) -> list[str]:
    behind = [python, str(HERE / "healthy_clock.py"), str(clock)]
    if name in OF_TOOLS:
        return [sys.executable, "-c", RUN.format(folder=str(HERE), out=str(clock)), *OF_TOOLS[name]]
    script = HERE / ("programs.py" if name in OF_PEERS else "healthy_programs.py")
    run = [str(script), name, *([str(OF_PEERS[name])] if name in OF_PEERS else [])]
    if name in IN_C:
        library = folder / f"{name}.so"
        subprocess.run(
            ["gcc", "-O2", "-fPIC", "-shared", *IN_C[name], str(HERE / "second_clock.c"), "-o", str(library), "-ldl", "-lpthread"],
            check=True,
        )
        # In front of the collector: it takes the place of calls that it traces.
        return ["sh", "-c", 'export LD_PRELOAD="$0:$LD_PRELOAD"; exec "$@"', str(library), *(behind if name == "torch" else [python]), *run]
    return [*behind, *run]


def variables(name: str, clock: Path, folder: Path) -> dict[str, str]:
    if name != "notebook":
        return {"SECOND_CLOCK": str(clock)}
    startup = folder / "ipython/profile_default/startup/clock.py"
    startup.parent.mkdir(parents=True, exist_ok=True)
    startup.write_text(STARTUP.format(folder=str(HERE), out=str(clock)))
    return {"IPYTHONDIR": str(folder / "ipython")}


if __name__ == "__main__":
    main()
