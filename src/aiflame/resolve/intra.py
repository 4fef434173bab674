"""What kernels recorded inside themselves → the tables of `profile.tables_intra`. The captures go once these are written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.errors import AiflameError
from aiflame.intra.captures import FOLDER, Captures, Kernel, Launch, files, read
from aiflame.intra.tables import Ran, tables
from aiflame.profile.store import Profile
from aiflame.profile.tables_intra import TABLES
from aiflame.resolve.names import clean

_TEXTS = ("name", "file", "op", "pass", "arch", "triton")
_LATEST = 1 << 62
NEAR = 1000
"""Launches of a name among which one that was taken is looked for."""


def write_intra_tables(profile: Profile, progress: Callable[[float], None] = lambda share: None) -> list[str]:
    """Nothing is written where nothing was captured. Returns what is missing, a line each."""
    found = files(profile.path)
    if not found:
        return []
    made: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    notes: list[str] = []
    for place, path in enumerate(found):
        try:
            captures = read(path)
        except (OSError, AiflameError) as error:
            notes.append(f"what kernels of process {path.stem} recorded cannot be read: {error}")
            continue
        process = _process(profile, captures)
        of_process = tables(process, captures, _Starts.of(profile, process).find)
        notes += of_process.notes
        for name, frame in of_process.tables.items():
            made[name].append(_readable(frame))
        progress((place + 1) / len(found))
    if not made["intra_kernels"]:
        return notes
    for name, parts in made.items():
        profile.write_table(name, pl.concat(parts))
    shutil.rmtree(profile.path / FOLDER, ignore_errors=True)
    return notes


def _readable(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts that a program chose: a terminal and a viewer must survive them."""
    return frame.with_columns(pl.col(name).map_elements(clean, pl.String) for name in _TEXTS if name in frame.columns and len(frame))


def _process(profile: Profile, captures: Captures) -> int:
    """The row of the process: of those with its number (a program that calls exec keeps it) the last that began before the first launch."""
    rows = profile.table("processes").select("process", "pid", "start_ns").filter(pl.col("pid") == captures.pid).sort("start_ns")
    if rows.is_empty():
        return 0
    begun = [launch.begin_ns for launch in captures.launches if launch.begin_ns]
    before = rows.filter(pl.col("start_ns") <= min(begun)) if begun else rows
    return int((before if len(before) else rows)["process"][-1])


class _Row(NamedTuple):
    correlation: int
    start_ns: int
    end_ns: int
    registers: int
    shared: int

    @property
    def build(self) -> tuple[int, int]:
        """Several kernels may have one name."""
        return self.registers, self.shared


@dataclass(frozen=True, slots=True)
class _Starts:
    """When kernels of a process ran, by name and the moment of their launch."""

    by_name: dict[str, tuple[NDArray[np.int64], list[_Row]]]
    taken: set[tuple[str, int]]

    @staticmethod
    def of(profile: Profile, process: int) -> _Starts:
        key = ["process", "api", "correlation"]
        shapes = profile.scan("kernel_shapes").select("process", "name", "registers", "dynamic_shared", shape="id")
        launches = profile.scan("launches").select(pl.col(*key).cast(pl.UInt64), launched="begin_ns").unique(key, keep="first")
        ran: pl.DataFrame = (
            profile.scan("kernels")
            .filter((pl.col("process") == process) & (pl.col("start_ns") < _LATEST) & (pl.col("end_ns") < _LATEST))
            .join(shapes, on=["process", "shape"])
            .with_columns(pl.col(*key).cast(pl.UInt64))
            .join(launches, on=key, how="left")
            .select(
                "name", "correlation", "start_ns", "end_ns", "registers", "dynamic_shared", launched=pl.coalesce("launched", "start_ns")
            )
            .sort("name", "launched", "start_ns")
            .collect()
        )
        by_name: dict[str, tuple[NDArray[np.int64], list[_Row]]] = {}
        for (name,), rows in ran.partition_by("name", as_dict=True).items():
            told = [_Row(*row) for row in rows.select("correlation", "start_ns", "end_ns", "registers", "dynamic_shared").rows()]
            by_name[str(name)] = rows["launched"].to_numpy().astype(np.int64), told
        return _Starts(by_name, set())

    def find(self, kernel: Kernel, launch: Launch) -> Ran | None:
        """By its number if the program knew it, else the first launch of that name from when the program said that it launches; of its
        build where there are some."""
        known = self.by_name.get(kernel.name)
        if known is None:
            return None
        launched, rows = known
        if launch.correlation:
            at = next((place for place, row in enumerate(rows) if row.correlation == launch.correlation), len(rows))
        else:
            at = int(np.searchsorted(launched, launch.begin_ns)) if launch.begin_ns else len(rows)
            build = kernel.instrumented.registers, kernel.instrumented.shared
            is_known = any(row.build == build for row in rows[at : at + NEAR])
            while at < len(rows) and ((kernel.name, at) in self.taken or (is_known and rows[at].build != build)):
                at += 1
        if at == len(rows):
            return None
        self.taken.add((kernel.name, at))
        return Ran(rows[at].start_ns, max(rows[at].end_ns, rows[at].start_ns))
