"""Turns records from inside kernels into the tables of `profile.tables_intra`. The captures are removed once these are written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.errors import AiflameError
from aiflame.intra.captures import FOLDER, SUFFIX, Captures, Kernel, Launch, pids, read
from aiflame.intra.tables import LaunchTimes, tables
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.tables_intra import TABLES
from aiflame.profile.tables.store import Profile
from aiflame.resolve.names.readable import clean
from aiflame.values import dataclass

_TEXTS = ("name", "file", "op", "pass", "arch", "triton")
_LATEST = 1 << 62
NEAR = 1000
"""A captured launch is looked for among this many launches of its name."""


def write_intra_tables(profile: Profile, progress: Callable[[float], None] = lambda share: None) -> list[str]:
    """Writes nothing if nothing was captured. Returns notes on missing parts, a line each."""
    captured = pids(profile.folder.folder(FOLDER))
    if not captured:
        return []
    parts_by_name: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    written: list[int] = []
    notes: list[str] = []
    for place, pid in enumerate(captured):
        try:
            captures = read(profile.folder.folder(FOLDER), pid)
        except (OSError, AiflameError) as error:
            notes.append(f"records from inside kernels of process {pid} cannot be read: {error}")
            continue
        process = _process(profile, captures)
        names = {kernel.name for kernel in captures.kernels.values()}
        of_process = tables(process, captures, _Starts.of(profile, process, names).find)
        notes += of_process.notes
        written.append(pid)
        for name, frame in of_process.tables.items():
            parts_by_name[name].append(_readable(frame))
        progress((place + 1) / len(captured))
    if not parts_by_name["intra_kernels"]:
        return notes
    for name, parts in parts_by_name.items():
        profile.write_table(name, pl.concat(parts))
    if profile.is_ours:
        _remove(profile.folder, written)
    return notes


def _remove(profile: Folder, pids: list[int]) -> None:
    """Removes the files of these processes; if some could not be read, the folder stays with them."""
    with suppress(OSError):
        for pid in pids:
            profile.folder(FOLDER).remove(f"{pid}{SUFFIX}")
        if not profile.folder(FOLDER).entries():
            profile.remove_tree(FOLDER)


def _readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Cleans texts that a program chose, for terminals and viewers."""
    return frame.with_columns(pl.col(name).map_elements(clean, pl.String) for name in _TEXTS if name in frame.columns and len(frame))


def _process(profile: Profile, captures: Captures) -> int:
    """The row of the process: among those with its process id (a program that calls exec keeps it), the last that began before the first
    launch."""
    rows = profile.table("processes").select("process", "pid", "start_ns").filter(pl.col("pid") == captures.pid).sort("start_ns")
    if rows.is_empty():
        return 0
    begun = [launch.begin_ns for launch in captures.launches if launch.begin_ns]
    before = rows.filter(pl.col("start_ns") <= min(begun)) if begun else rows
    return int((before if len(before) else rows)["process"][-1])


@dataclass(frozen=True, slots=True)
class _Runs:
    """The executions of all kernels with one name, in the order of their launches: an array for each column."""

    launched: NDArray[np.int64]
    correlation: NDArray[np.uint64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    registers: NDArray[np.int64]
    shared: NDArray[np.int64]

    def at(self, correlation: int) -> int | None:
        rows = np.flatnonzero(self.correlation == correlation)
        return int(rows[0]) if len(rows) else None

    def launched_from(self, begin_ns: int, build: tuple[int, int], assigned: set[int]) -> int | None:
        """The first execution from `begin_ns` on that is not assigned yet; one of the same build, if any is near: kernels may share a
        name."""
        start = int(np.searchsorted(self.launched, begin_ns))
        of_build = (self.registers[start:] == build[0]) & (self.shared[start:] == build[1])
        if not of_build[:NEAR].any():
            of_build[:] = True
        return next((start + int(place) for place in np.flatnonzero(of_build) if start + int(place) not in assigned), None)


@dataclass(frozen=True, slots=True)
class _Starts:
    """Executions of a process's kernels, by name and time of launch; `assigned`: those already matched to launches."""

    by_name: dict[str, _Runs]
    assigned: dict[str, set[int]]

    @staticmethod
    def of(profile: Profile, process: int, names: set[str]) -> _Starts:
        key = ["process", "api", "correlation"]
        shapes = (
            profile.scan("kernel_shapes")
            .filter(pl.col("name").is_in(list(names)))
            .select("process", "name", "registers", "dynamic_shared", shape="id")
        )
        launches = profile.scan("launches").select(pl.col(*key).cast(pl.UInt64), launched="begin_ns").unique(key, keep="first")
        executions: pl.DataFrame = (
            profile.scan("kernels")
            .filter((pl.col("process") == process) & (pl.col("start_ns") < _LATEST) & (pl.col("end_ns") < _LATEST))
            .join(shapes, on=["process", "shape"])
            .with_columns(pl.col(*key).cast(pl.UInt64))
            .join(launches, on=key, how="left")
            .select(
                "name",
                "correlation",
                pl.col("start_ns", "end_ns", "registers", "dynamic_shared").cast(pl.Int64),
                launched=pl.coalesce("launched", "start_ns").cast(pl.Int64),
            )
            .sort("name", "launched", "start_ns")
            .collect()
        )
        columns = ("launched", "correlation", "start_ns", "end_ns", "registers", "dynamic_shared")
        parts = executions.partition_by("name", as_dict=True)
        by_name = {str(name): _Runs(*(rows[column].to_numpy() for column in columns)) for (name,), rows in parts.items()}
        return _Starts(by_name, {name: set() for name in by_name})

    def find(self, kernel: Kernel, launch: Launch) -> LaunchTimes | None:
        """Matches a launch by its correlation number, if known; else to the first execution of that name after its recorded time."""
        runs = self.by_name.get(kernel.name)
        if runs is None:
            return None
        if launch.correlation:
            at = runs.at(launch.correlation)
        elif launch.begin_ns:
            build = kernel.instrumented.registers, kernel.instrumented.shared
            at = runs.launched_from(launch.begin_ns, build, self.assigned[kernel.name])
        else:
            at = None
        if at is None:
            return None
        self.assigned[kernel.name].add(at)
        start, end = int(runs.start_ns[at]), int(runs.end_ns[at])
        return LaunchTimes(start, max(end, start))
