"""The findings on healthy programs, for a person to judge: `aiflame record` and `aiflame findings` of each.

    python benchmarks/cpu/healthy.py --python PYTHON [--programs torch …] [--keep FOLDER] [--output benchmarks/results/healthy.json]

PYTHON as for `peers.py`, and with SciPy, Polars, Pillow, ipykernel and Matplotlib. Verdicts in the output file are a person's, and stay
as long as the first sentence does but for its numbers.
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
    profile = folder / f"{name}.aiflame"
    record = [sys.executable, "-m", "aiflame", "record", "--force", "-q", "-o", str(profile), "--", *command(name, python)]
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
    }
    same = [re.sub(r"\d+", "0", (said["sentences"] or [""])[0]) for said in (now, {"sentences": before.get("sentences")})]
    return now | ({"verdict": before["verdict"]} if "verdict" in before and same[0] == same[1] else {})


def command(name: str, python: str) -> list[str]:
    if name in OF_PEERS:
        return [python, str(HERE / "programs.py"), name, str(OF_PEERS[name])]
    return OF_TOOLS[name] if name in OF_TOOLS else [python, str(HERE / "healthy_programs.py"), name]


if __name__ == "__main__":
    main()
