"""The heaviest functions of five real programs: aiflame beside py-spy, cProfile and torch.profiler.

    python benchmarks/cpu/peers.py --python PYTHON [--programs training …] [--runs 3] [--output benchmarks/results/cpu_peers.json]

PYTHON has torch, transformers, pandas, uvicorn, networkx, pytest, scikit-learn and py-spy. Each program is run in turn under aiflame
and py-spy, then once under cProfile, the training also under torch.profiler. py-spy sees Python frames alone: a sample counts for the
innermost one here, and samples without any (native threads, the start of the interpreter) are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.arrays import nodes
from aiflame.profile.folder.meta import Host
from aiflame.profile.schema.kinds import Kind

PROGRAMS = Path(__file__).with_name("programs.py")
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results/cpu_peers.json"
UNITS = {"training": 150, "pandas": 14, "uvicorn": 40, "pytest": 4, "scikit-learn": 12}
PACKAGES = ("torch", "transformers", "pandas", "uvicorn", "networkx", "pytest", "scikit-learn", "py-spy")
HEAVIEST = 10
PY_SPY_HZ = 100
AIFLAME_HZ = 199
WITHIN_POINTS = 2.0
CHILD = "[thread started here]"

K = TypeVar("K")
Key = tuple[str, int]
"""File and first line of a function; a lambda in it may have the same."""


@dataclass(frozen=True, slots=True)
class Run:
    tool: str
    seconds: float
    load_before: float
    load_after: float
    samples: int = 0
    """With a Python frame; 0 where the tool does not sample."""
    outside: float = 0.0
    """The part of all samples that have no Python frame."""
    shares: dict[Key, float] = field(default_factory=dict, repr=False)
    names: dict[Key, str] = field(default_factory=dict, repr=False)

    def told(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if name not in ("shares", "names")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--programs", nargs="*", default=list(UNITS), choices=list(UNITS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--part", type=float, default=1.0, help="of the usual work, to try this program")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    result = json.loads(options.output.read_text()) if options.output.exists() else {"programs": {}}
    result |= {"machine": asdict(Host.here()) | {"name": "", "boot_id": ""}, "versions": versions(options.python)}
    for name in options.programs:
        result["programs"][name] = compared(name, max(1, round(UNITS[name] * options.part)), options.python, options.runs)
        options.output.write_text(json.dumps(result, indent=1) + "\n")
        print(name, json.dumps(result["programs"][name], indent=1))


def versions(python: str) -> dict[str, str]:
    code = f"import importlib.metadata as m, json; print(json.dumps({{p: m.version(p) for p in {PACKAGES!r}}}))"
    return json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout) | {
        "aiflame": aiflame.__version__
    }


def compared(name: str, units: int, python: str, runs: int) -> dict[str, object]:
    command = [python, str(PROGRAMS), name, str(units)]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        of_aiflame, of_py_spy = [], []
        for _ in range(runs):
            of_aiflame.append(under_aiflame(command, here))
            of_py_spy.append(under_py_spy(command, here))
        traced = under_cprofile(command, here)
        ops = {"ops": compared_ops(command, here)} if name == "training" else {}
    return {
        "units": units,
        "runs": [run.told() for run in (*of_aiflame, *of_py_spy, traced)],
        **functions(of_aiflame, of_py_spy, traced),
        **ops,
    }


def timed(tool: str, command: Sequence[str]) -> Run:
    before, begun = os.getloadavg()[0], time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONHASHSEED": "0"})
    return Run(tool, round(time.monotonic() - begun, 1), round(before, 2), round(os.getloadavg()[0], 2))


def under_aiflame(command: Sequence[str], here: Path) -> Run:
    profile = here / "program.aiflame"
    record = [sys.executable, "-m", "aiflame", "record", "--force", "-q", "--no-children", "--cpu-rate", str(AIFLAME_HZ)]
    run = timed("aiflame", [*record, "-o", str(profile), "--", *command])
    return of_profile(run, aiflame.open(profile))


def of_profile(run: Run, profile: aiflame.Profile) -> Run:
    tree = profile.tree("cpu-time", "code", "function")
    child = tree.frames["name"].eq(CHILD).to_numpy()[tree.frame]
    python = tree.kinds() == Kind.PYTHON
    at = nodes.nearest(tree.parent, python | child)
    at = np.where((at >= 0) & python[at], at, -1)
    rows, value = tree.frames.select("file", "line", "name").rows(), tree.values["cpu-time"]
    shares: dict[Key, float] = defaultdict(float)
    names: dict[Key, str] = {}
    inside = int(value[at >= 0].sum())
    for node, own in zip(at.tolist(), value.tolist(), strict=True):
        if node >= 0 and own:
            file, line, name = rows[tree.frame[node]]
            shares[file, line] += 100 * own / inside
            names[file, line] = name
    samples = round(inside * AIFLAME_HZ / 1e9)
    return Run(run.tool, run.seconds, run.load_before, run.load_after, samples, round(1 - inside / value.sum(), 3), dict(shares), names)


def under_py_spy(command: Sequence[str], here: Path) -> Run:
    stacks = here / "stacks.txt"
    spy = [str(Path(command[0]).with_name("py-spy")), "record", "-r", str(PY_SPY_HZ), "-f", "raw", "--full-filenames", "--function"]
    run = timed("py-spy", [*spy, "-o", str(stacks), "--", *command])
    counts: dict[Key, int] = defaultdict(int)
    names: dict[Key, str] = {}
    for stack, count in (line.rsplit(" ", 1) for line in stacks.read_text().splitlines()):
        leaf = re.fullmatch(r"(.*) \((.*):(\d+)\)", stack.split(";")[-1])
        if leaf is not None:
            name, file, line = leaf.groups()
            counts[file, int(line)] += int(count)
            names[file, int(line)] = name
    samples = sum(counts.values())
    shares = {key: 100 * count / samples for key, count in counts.items()}
    return Run(run.tool, run.seconds, run.load_before, run.load_after, samples, 0.0, shares, names)


def under_cprofile(command: Sequence[str], here: Path) -> Run:
    stats = here / "stats.json"
    run = timed("cProfile", [*command, "--cprofile", str(stats)])
    rows = json.loads(stats.read_text())
    whole = sum(seconds for *_, seconds in rows)
    shares: dict[Key, float] = defaultdict(float)
    for file, line, _, seconds in rows:
        shares[file, line] += 100 * seconds / whole
    return Run(run.tool, run.seconds, run.load_before, run.load_after, shares=dict(shares))


def functions(of_aiflame: Sequence[Run], of_py_spy: Sequence[Run], traced: Run) -> dict[str, object]:
    """The functions that are among the heaviest ten of either sampler."""
    ours, theirs = averaged(of_aiflame), averaged(of_py_spy)
    listed = sorted({*heaviest(ours), *heaviest(theirs)}, key=lambda key: -ours.get(key, 0.0))
    names = of_py_spy[0].names | of_aiflame[0].names
    apart = {key: ours.get(key, 0.0) - theirs.get(key, 0.0) for key in listed}
    rows = [
        {
            "function": f"{names.get(key, '?')} ({'/'.join(Path(key[0]).parts[-2:])}:{key[1]})",
            "aiflame": round(ours.get(key, 0.0), 2),
            "py_spy": round(theirs.get(key, 0.0), 2),
            "apart": round(apart[key], 2),
            "error": round(standard_error(key, of_aiflame, of_py_spy), 2),
            "cprofile": round(traced.shares.get(key, 0.0), 2),
            "aiflame_runs": [round(run.shares.get(key, 0.0), 2) for run in of_aiflame],
            "py_spy_runs": [round(run.shares.get(key, 0.0), 2) for run in of_py_spy],
        }
        for key in listed
    ]
    most = max(map(abs, apart.values()))
    ten = heaviest(ours)
    return {
        "functions": rows,
        "most_points_apart": round(most, 2),
        "within": most <= WITHIN_POINTS,
        "order_of_ten_against_py_spy": rank_correlation([ours[key] for key in ten], [theirs.get(key, 0.0) for key in ten]),
        "order_of_ten_against_cprofile": rank_correlation([ours[key] for key in ten], [traced.shares.get(key, 0.0) for key in ten]),
    }


def averaged(runs: Sequence[Run]) -> dict[Key, float]:
    keys = {key for run in runs for key in run.shares}
    return {key: statistics.mean(run.shares.get(key, 0.0) for run in runs) for key in keys}


def heaviest(shares: Mapping[K, float]) -> list[K]:
    return sorted(shares, key=lambda key: -shares[key])[:HEAVIEST]


def standard_error(key: Key, *tools: Sequence[Run]) -> float:
    """Of the difference, as far as chance in sampling goes, in points."""
    variance = 0.0
    for runs in tools:
        share = statistics.mean(run.shares.get(key, 0.0) for run in runs) / 100
        variance += share * (1 - share) / sum(run.samples for run in runs)
    return 100 * variance**0.5


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's."""
    first, second = (np.argsort(np.argsort(-np.asarray(values))).tolist() for values in (left, right))
    return round(statistics.correlation(first, second), 3)


def compared_ops(command: Sequence[str], here: Path) -> dict[str, object]:
    """Self CPU time by op, of all that has one. torch.profiler has fewer steps: its events take memory."""
    table = here / "ops.json"
    fewer = str(max(1, int(command[-1]) // 4))
    run = timed("torch.profiler", [*command[:-1], fewer, "--torch-profiler", str(table)])
    theirs = of_canonical_names(json.loads(table.read_text()))
    listed = top(aiflame.open(here / "program.aiflame").tree("cpu-time", "op"), "op")
    ours = of_canonical_names({name: own / 1e3 for name, own in listed.select("name", "self").iter_rows() if not name.startswith("[")})
    rows = [
        {"op": name, "aiflame": round(ours.get(name, 0.0), 2), "torch_profiler": round(theirs.get(name, 0.0), 2)}
        for name in sorted({*heaviest(ours), *heaviest(theirs)}, key=lambda name: -ours.get(name, 0.0))
    ]
    apart = [abs(ours.get(name, 0.0) - theirs.get(name, 0.0)) for name in {*heaviest(ours), *heaviest(theirs)}]
    return {"run": run.told(), "rows": rows, "most_points_apart": round(max(apart), 2)}


def of_canonical_names(times_us: Mapping[str, float]) -> dict[str, float]:
    """Percent of all, by names on which both agree: `addmm`, and `addmm (backward)` for the node that it left for the backward pass."""
    added: dict[str, float] = defaultdict(float)
    for name, us in times_us.items():
        backward = re.fullmatch(r"(?:torch::autograd::)?(?:(\w+?)Backward\d*|aten::(\w+) \(backward\))", name)
        op = next(filter(None, backward.groups())) if backward else name.removeprefix("aten::")
        short = op.replace("_", "").lower().removesuffix("forward") if backward else op
        added[f"{short} (backward)" if backward else short] += 100 * us / sum(times_us.values())
    return dict(added)


if __name__ == "__main__":
    main()
