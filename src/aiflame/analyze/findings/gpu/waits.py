"""Calls that wait for the device, and the kernels that end during the wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.analyze.device.idle_causes import places_of_calls
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.launches import LaunchTable
from aiflame.attribute.devices.work import JOIN
from aiflame.profile.schema.enums import SyncKind
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """Calls that wait, by the line of the call."""

    rows: pl.DataFrame
    """process, file, line, kind (SyncKind), begin_ns, end_ns, kernel (the last that ended during the call, "": none)"""

    @staticmethod
    def of(analysis: ProfileAnalysis) -> Waits:
        launches, profile = analysis.launches, analysis.profile
        syncs = profile.scan("syncs").select("process", "kind", pl.col("api").cast(pl.UInt32), "correlation").collect()
        calls = LaunchTable.of(profile)
        at = calls.find(*(syncs[name].to_numpy() for name in JOIN))
        syncs = syncs.filter(pl.Series(at >= 0))
        process, number = calls.process[at[at >= 0]].astype(np.int64), calls.id[at[at >= 0]].astype(np.int64)
        row = launches.rows(process, number)
        rows = analysis.places.rows[places_of_calls(analysis, row)].select("file", "line")
        begin, end = launches.begin_ns[row], launches.end_ns[row]
        kernel = _ended(analysis, process, begin, end)
        return Waits(
            rows.with_columns(
                syncs["kind"],
                process=pl.Series(process),
                begin_ns=pl.Series(begin),
                end_ns=pl.Series(end),
                kernel=pl.Series(kernel, dtype=pl.String),
            )
        )

    def for_device(self, file: str, line: int) -> bool:
        """True if most calls at this line wait for all work of the device: cudaDeviceSynchronize."""
        here = self.rows.filter(file=file, line=line)
        return len(here) > 0 and 2 * len(here.filter(kind=int(SyncKind.CONTEXT))) > len(here)

    def kernel(self, file: str, line: int) -> str:
        """The kernel for which the calls at this line wait longest."""
        here = self.rows.filter(pl.col("file") == file, pl.col("line") == line, pl.col("kernel") != "")
        times = (
            here.group_by("kernel")
            .agg(pl.col("end_ns").sum() - pl.col("begin_ns").sum())
            .sort("end_ns", "kernel", descending=[True, False])
        )
        return str(times["kernel"][0]) if len(times) else ""


def _ended(analysis: ProfileAnalysis, process: Ints, begin: Ints, end: Ints) -> Sequence[str]:
    """For each wait, the last kernel that ended within it."""
    last = np.full(len(process), -1)
    last_end = begin.copy()
    is_kernel = (analysis.sites["kind"] == int(Kind.GPU_KERNEL)).to_numpy()
    sites = analysis.work.executions["site"].to_numpy()
    for device in analysis.devices:
        of_kernels = is_kernel[sites[device.row]]
        site, ends = sites[device.row][of_kernels], device.end[of_kernels]
        order = np.argsort(ends, kind="stable")
        site, ends = site[order], ends[order]
        at = np.searchsorted(ends, end, side="right") - 1
        near = np.maximum(at, 0)
        later = (at >= 0) & (process == device.process) & (np.append(ends, 0)[near] > last_end)
        last[later], last_end[later] = site[near[later]], ends[near[later]]
    names = [*analysis.sites["short"].to_list(), ""]
    return [names[site] for site in last.tolist()]
