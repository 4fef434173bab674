"""A recorded run, the times in its tree, and where it went by the program's own account."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import aiflame
from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.advice import GENERAL, fix
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import Summary, summarize
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.tree import Tree

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = sys.executable
UNSEALED = "--no-seal"
"""Of `aiflame record`, for tests that open the profile at once: it is sealed in their process, which has imported all that it takes."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished `aiflame record`."""

    status: int
    stdout: str
    stderr: str
    path: Path

    def profile(self) -> Profile:
        return aiflame.open(self.path)


Recorder = Callable[..., Run]


def recorder(folder: Path, *, sealed: bool = False) -> Recorder:
    """Runs a command in this folder under `aiflame record`. `sealed`: a process in the background seals the profile, as for a person."""

    def run(
        *command: str | Path,
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 600,
    ) -> Run:
        kept = () if sealed else (UNSEALED,)
        path = folder / f"run{len(list(folder.glob('run*.aiflame')))}.aiflame"
        result = subprocess.run(
            [PYTHON, "-m", "aiflame.cli.main", "record", "-o", str(path), *kept, *options, "--", *map(str, command)],
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=folder,
            check=False,
        )
        return Run(result.returncode, result.stdout, result.stderr, path)

    return run


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def samples_so_far(profile: Path, pid: int) -> int:
    """CPU samples of a process in a profile that is still being recorded."""
    count = 0
    for table in profile.glob(f"spool/{pid}.*/cpu_samples.table"):
        with table.open("rb") as rows:
            count += int.from_bytes(rows.read(32)[24:], "little")
    return count


def summary_and_findings(profile: Profile) -> tuple[Summary, list[Finding]]:
    """The summary and all findings. Every finding must have advice of its own. Both use one analysis, as in our commands."""
    analysis = Analysis(profile.store)
    summary = summarize(analysis, profile.meta)
    listed = findings(analysis, summary, limit=99)
    assert all(fix(one) != GENERAL for one in listed)
    return summary, listed


def all_findings(profile: Profile) -> list[Finding]:
    return summary_and_findings(profile)[1]


def under(tree: Tree, name: str) -> np.ndarray:
    """Which nodes have a frame of that name at or above them."""
    names = tree.frames["name"].to_list()
    wanted = np.array([frame == name for frame in names])[tree.frame]
    for node in range(1, len(tree)):
        wanted[node] |= wanted[tree.parent[node]]
    return wanted


def time_under(tree: Tree, *names: str, metric: str = "cpu-time") -> int:
    """Self time of the nodes that have every one of these frames at or above them."""
    inside = np.ones(len(tree), dtype=bool)
    for name in names:
        inside &= under(tree, name)
    return int(tree.values[metric][inside].sum())


def kernels(profile: Profile) -> dict[str, dict[str, int]]:
    """By name: how often it was launched (`launches`), for how long in all (`took`), and for how long at least (`quickest`), which is the
    time of its work: longer ones include other work of the machine."""
    shapes = profile.table("kernel_shapes").select("process", "name", shape="id")
    duration = pl.col("end_ns") - pl.col("start_ns")
    by_name = profile.table("kernels").join(shapes, on=["process", "shape"]).group_by("name")
    rows = by_name.agg(launches=pl.len(), took=duration.sum(), quickest=duration.min()).iter_rows(named=True)
    return {row.pop("name"): row for row in rows}


@dataclass(frozen=True, slots=True)
class Stay:
    """A time that a thread spent in a function, as printed by programs/spin.c."""

    function: str
    tid: int
    begin_ns: int
    end_ns: int
    cpu_ns: int


def stays_of(run: Run) -> list[Stay]:
    assert run.status == 0, run.stderr
    return [Stay(*fields) for fields in json.loads(run.stdout)]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A function's stays according to the samples.

    A sample stands for the CPU time since the one before: where a stay begins or ends between two, the later one decides for both
    sides. That is a tick on a quiet machine; on a busy one a thread may run for a tenth of a second before a tick finds it running.
    """

    time_ns: int
    """Time of the samples that were taken during the stays."""
    gained_ns: int
    """So much of it, at most, is from before a stay."""
    lost_ns: int
    """At most this much of the end of stays went to the next function."""


def sampled(profile: Profile, stays: list[Stay]) -> Sampled:
    threads = profile.table("threads").select("process", "tid", thread="id")
    samples = profile.table("cpu_samples").join(threads, on=["process", "thread"]).sort("time_ns")
    time = gained = lost = 0
    for stay in stays:
        mine = samples.filter(pl.col("tid") == stay.tid)
        times, weights = mine["time_ns"].to_numpy().astype(np.int64), (mine["weight"].cast(pl.Int64) * mine["period_ns"]).to_numpy()
        first, end = np.searchsorted(times, [stay.begin_ns, stay.end_ns])
        time += int(weights[first:end].sum())
        gained += int(weights[first]) if first < end else 0
        # Time without a later sample is not in the profile at all.
        lost += int(weights[end] if end < len(times) else stay.end_ns - times[-1])
    return Sampled(time, gained, lost)
