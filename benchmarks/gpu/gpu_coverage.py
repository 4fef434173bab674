"""How much of the GPU's work finds its place: GPU time under the program's own file, stall samples, lines and instructions.

    python benchmarks/gpu/gpu_coverage.py --output coverage.json [--keep PROFILE.tar.gz] [--workloads launch compiled graph decode]

The targets: 99.5% of GPU time under a Python frame of gpu_workloads.py, 98% of stall samples attributed, 99% of samples in Triton kernels
with a source line and an instruction.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from gpu_common import WORKLOADS, Report, parse, recorded, run, scratch
from numpy.typing import NDArray

import aiflame
from aiflame.api import Profile
from aiflame.attribute.tree import Tree
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.device.stall_reasons import NOT_ISSUED

SAMPLED = ["cubin", "function", "offset"]


def main() -> None:
    keep = Path(sys.argv.pop(sys.argv.index("--keep") + 1)) if "--keep" in sys.argv else None
    if keep:
        sys.argv.remove("--keep")
    options = parse(__doc__, ("launch", "compiled", "graph", "decode"))
    report = Report(options.output)
    with scratch() as folder:
        for name in options.workloads:
            path = folder / f"{name}.aiflame"
            finished = run(recorded(options.program(name), path))
            if finished.status:
                report.fail(name, finished)
                continue
            report.put(name, covered(path))
            print(name, json.dumps(report.values[name]), flush=True)
            if keep and name == "compiled":
                with tarfile.open(keep, "w:gz") as archive:
                    archive.add(path, path.name)
    report.end()


def covered(path: Path) -> dict[str, object]:
    """The answers; a question that fails does not take the others with it."""
    profile = aiflame.open(path)
    rows = {name: len(profile.table(name)) for name in _TABLES}
    questions: dict[str, Callable[[], object]] = {"gpu-time": lambda: time_covered(profile.tree("gpu-time"))}
    if rows["gpu_samples"]:
        questions |= {
            "gpu-stalls": lambda: stalls_covered(profile.tree("gpu-stalls")),
            "triton": lambda: resolved(profile, triton=True),
            "all kernels": lambda: resolved(profile, triton=False),
            "windows": lambda: windows(profile),
        }
    answers: dict[str, object] = {"notes": profile.store.notes(), "rows": rows}
    return answers | {name: _answer(question) for name, question in questions.items()}


def _answer(question: Callable[[], object]) -> object:
    try:
        return question()
    except (AiflameError, pl.exceptions.PolarsError, KeyError, ValueError, IndexError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


_TABLES = ("launches", "kernels", "copies", "syncs", "graph_nodes", "cubins", "gpu_windows", "gpu_functions", "gpu_samples", "cpu_samples")


def time_covered(tree: Tree) -> dict[str, object]:
    """Shares of GPU time (idle time is nobody's): under the program's own file, and the others by thread."""
    kind, values = tree.kinds(), tree.values["gpu-time"].copy()
    values[_under(tree, kind == Kind.GPU_IDLE)] = 0
    total = max(int(values.sum()), 1)
    own = (tree.frames["file"].str.ends_with(WORKLOADS.name) & (tree.frames["kind"] == int(Kind.PYTHON))).to_numpy()[tree.frame]
    inside = _under(tree, own)
    outside: dict[str, float] = {}
    for thread in np.flatnonzero(kind == Kind.THREAD).tolist():
        marked = np.zeros(len(tree), dtype=np.bool_)
        marked[thread] = True
        share = int(values[_under(tree, marked) & ~inside].sum()) / total
        label = tree.frames["name"][int(tree.frame[thread])]
        outside[label] = round(outside.get(label, 0) + 100 * share, 3)
    unattributed = _under(tree, kind == Kind.UNATTRIBUTED)
    return {
        "ms": round(total / 1e6, 3),
        "percent_under_own_file": round(100 * int(values[inside].sum()) / total, 3),
        "percent_outside_by_thread": {name: share for name, share in outside.items() if share},
        "percent_unattributed": round(100 * int(values[unattributed].sum()) / total, 3),
        "unattributed": _shares(tree, values, kind == Kind.UNATTRIBUTED, total),
    }


def stalls_covered(tree: Tree) -> dict[str, object]:
    values, kind = tree.values["gpu-stalls"], tree.kinds()
    total = max(int(values.sum()), 1)
    lost = _under(tree, kind == Kind.UNATTRIBUTED)
    return {
        "samples": total,
        "percent_attributed": round(100 - 100 * int(values[lost].sum()) / total, 3),
        "unattributed": _shares(tree, values, kind == Kind.UNATTRIBUTED, total),
    }


def resolved(profile: Profile, *, triton: bool) -> dict[str, object]:
    """Shares of samples with a source line, with an instruction, with both."""
    functions = profile.table("gpu_functions").select("process", "cubin", function_row="id", function="name")
    issued_or_not = profile.table("stall_reasons").filter(~pl.col("name").str.ends_with(NOT_ISSUED)).select("process", reason="id")
    samples = (
        profile.table("gpu_samples")
        .join(issued_or_not, on=["process", "reason"], how="semi")
        .select("process", "offset", "count", function_row="function")
        .join(functions, on=["process", "function_row"], how="left")
    )
    lines = _derived(profile, "gpu_lines")
    with_line = lines.filter((pl.col("line") > 0) & (pl.col("file") != ""))
    if triton:  # a Triton kernel's source is Python
        python = with_line.filter(pl.col("file").str.ends_with(".py")).select("cubin").unique()
        samples = samples.join(python, on="cubin", how="semi")
    samples = samples.with_columns(
        line=_in(samples, with_line.select(SAMPLED).unique()),
        instruction=_in(samples, _derived(profile, "gpu_instructions").select(SAMPLED).unique()),
    )
    total = max(int(samples["count"].sum()), 1)

    def share(where: pl.Expr) -> float:
        return round(100 * int(samples.filter(where)["count"].sum()) / total, 3)

    return {
        "samples": int(samples["count"].sum()),
        "functions": samples["function"].n_unique(),
        "percent_line": share(pl.col("line")),
        "percent_instruction": share(pl.col("instruction")),
        "percent_both": share(pl.col("line") & pl.col("instruction")),
    }


def windows(profile: Profile) -> dict[str, object]:
    """The work of the sampler: its windows, the samples taken and lost, the periods chosen."""
    table = profile.table("gpu_windows")
    periods = table.group_by("period_log2").agg(count=pl.len()).sort("period_log2")
    return {
        "windows": len(table),
        **{column: int(table[column].sum()) for column in ("samples", "dropped", "foreign")},
        "windows_by_period_log2": {str(period): count for period, count in periods.iter_rows()},
    }


def _derived(profile: Profile, name: str) -> pl.DataFrame:
    """A table that sealing adds where there are samples."""
    if profile.store.has(name):
        return profile.table(name)
    return pl.DataFrame(schema={"cubin": pl.UInt64, "function": pl.String, "offset": pl.UInt32, "line": pl.UInt32, "file": pl.String})


def _in(samples: pl.DataFrame, places: pl.DataFrame) -> pl.Series:
    flagged = places.with_columns(there=pl.lit(True))
    return samples.join(flagged, on=SAMPLED, how="left", maintain_order="left")["there"].fill_null(False)


def _under(tree: Tree, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes that are marked or have a marked one above them."""
    inside = marked.copy()
    for node in range(1, len(tree)):
        inside[node] |= inside[tree.parent[node]]
    return inside


def _shares(tree: Tree, values: NDArray[np.int64], marked: NDArray[np.bool_], total: int) -> dict[str, float]:
    """For each name of the marked frames, the percentage of its own values and those below."""
    names = tree.frames["name"].to_list()
    shares = {}
    for name in {names[tree.frame[node]] for node in np.flatnonzero(marked)}:
        here = marked & np.array([frame == name for frame in names])[tree.frame]
        shares[name] = round(100 * int(values[_under(tree, here)].sum()) / total, 3)
    return shares


if __name__ == "__main__":
    main()
