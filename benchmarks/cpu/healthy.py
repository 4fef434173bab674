"""The findings on healthy programs, for a person to judge: `aiflame record` and `aiflame findings` of each.

    python benchmarks/cpu/healthy.py --python PYTHON [--programs torch …] [--keep FOLDER] [--output benchmarks/results/healthy.json]

PYTHON as for `peers.py`, and with SciPy, Polars, Pillow, ipykernel and Matplotlib. Programs in Python run below `healthy_clock.py`, whose
clocks time the lines of CLOCKED, collections and imports in the same process. Verdicts in the output file are a person's, and stay as long
as the first sentence does but for its numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiflame.profile.folder.meta import Host

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks/results/healthy.json"
OF_PEERS = {"pandas": 5, "scikit-learn": 4, "uvicorn": 10, "pytest": 3}
"""Programs of `programs.py`, and how much of their work."""
OWN = ("torch", "scipy", "polars", "sqlite", "pillow", "notebook", "compiling", "video")
OF_TOOLS = {"mypy": [sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir", os.devnull, "src/aiflame/analyze"]}
CLOCKED = {
    "pandas": (81, 89), "scikit-learn": (187, 192), "uvicorn": (109, 110), "pytest": (171,), "torch": (26, 28), "scipy": (40, 41, 47, 49),
    "polars": (62,), "sqlite": (77, 80, 83), "pillow": (101, 103, 105), "notebook": (),
}  # fmt: skip
"""Lines of `programs.py` or `healthy_programs.py`."""


def main() -> None:
    names = [*OF_PEERS, *OWN, *OF_TOOLS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--programs", nargs="*", default=names, choices=names)
    parser.add_argument("--keep", type=Path, help="a folder for the profiles")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"programs": {}}
    result["machine"] = asdict(Host.here()) | {"name": "", "boot_id": ""}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs:
            before = result["programs"].get(name, {})
            result["programs"][name] = said(name, options.python, options.keep or Path(folder), before)
            options.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(name, json.dumps(result["programs"][name], indent=1, ensure_ascii=False), flush=True)


def said(name: str, python: str, folder: Path, before: dict[str, Any]) -> dict[str, Any]:
    profile, clock = folder / f"{name}.aiflame", folder / f"{name}.jsonl"
    clock.unlink(missing_ok=True)
    record = [sys.executable, "-m", "aiflame", "record", "--force", "-q", "-o", str(profile), "--", *command(name, python, clock)]
    load = os.getloadavg()[0]
    subprocess.run(record, stdout=subprocess.DEVNULL, cwd=HERE.parents[1], env=os.environ | {"PYTHONHASHSEED": "0"})
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
    last = {row["pid"]: row for row in map(json.loads, file.read_text().splitlines())}.values()
    whole = sum(row["cpu_s"] for row in last)
    names = sorted({name for row in last for name in row["took"]})
    return {"seconds": round(whole, 1)} | {name: round(100 * sum(row["took"].get(name, 0) for row in last) / whole, 1) for name in names}


def command(name: str, python: str, clock: Path) -> list[str]:
    if name in OF_TOOLS:
        return OF_TOOLS[name]
    script = HERE / ("programs.py" if name in OF_PEERS else "healthy_programs.py")
    run = [str(script), name, *([str(OF_PEERS[name])] if name in OF_PEERS else [])]
    if name not in CLOCKED:
        return [python, *run]
    lines = ",".join(f"{script}:{line}" for line in CLOCKED[name])
    return [python, str(HERE / "healthy_clock.py"), str(clock), lines, *run]


if __name__ == "__main__":
    main()
