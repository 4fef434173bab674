"""The parts that analyses of a profile share. Each is computed when it is first used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts, cpu_facts
from aiflame.analyze.device.activity import Activity, activity
from aiflame.analyze.device.device_join import DeviceJoin
from aiflame.analyze.device.idle_gaps import IdleGaps, idle_gaps
from aiflame.analyze.device.occupancy import Device, devices, per_step
from aiflame.analyze.device.stalls import stalls
from aiflame.analyze.scope import steady_scope, steady_steps
from aiflame.analyze.step_times import step_times
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask
from aiflame.attribute.devices.work import bytes_of, work
from aiflame.attribute.meaning.context import release_samples
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.prefixes import BY_CODE_AND_MEANING
from aiflame.attribute.trees.build import metrics


@dataclass(frozen=True)
class ProfileAnalysis(DeviceJoin):
    """The analysis of one profile that all questions read."""

    @cached_property
    def devices(self) -> list[Device]:
        return devices(self)

    @cached_property
    def per_step(self) -> pl.DataFrame:
        """`occupancy.PER_STEP`"""
        return per_step(self, self.devices)

    @cached_property
    def gaps(self) -> IdleGaps:
        return idle_gaps(self, self.devices, self.per_step)

    def usual_steps(self, on_host: pl.DataFrame) -> pl.DataFrame:
        """STEP_TIMES of the steps that do not warm up, in the scope or not. In a program that decodes, prefills are left out, since they
        are always longer. `on_host`: `steps`, or those of `cpu`."""
        prefills = on_host.filter(pl.col("phase") == int(Phase.PREFILL)).select(pl.col("process", "step").cast(pl.Int64))
        times = step_times(on_host, self.per_step).join(prefills, on=["process", "step"], how="anti")
        first = steady_steps(self.profile).first
        return times.filter(pl.col("step") >= pl.col("process").replace_strict(first, default=None, return_dtype=pl.Int64))

    @cached_property
    def inside(self) -> Mask | None:
        """True for the executions in the scope; None: all are."""
        steps = steady_scope(self.profile)
        if steps is None:
            return None
        executions = self.work.executions
        process = self.sites["process"].to_numpy()[executions["site"].to_numpy()]
        return steps.of(process, executions["step"].cast(pl.Int64).to_numpy(), executions["start_ns"].cast(pl.Int64).to_numpy())

    @cached_property
    def scoped_sites(self) -> pl.DataFrame:
        """`sites`, row by row, with the sums of their executions in the scope."""
        inside = self.inside
        if inside is None:
            return self.sites
        executions = self.work.executions
        took = (executions["end_ns"] - executions["start_ns"]).cast(pl.Int64).to_numpy()
        site = executions["site"].to_numpy()[inside]
        sums = {"took": took[inside], "bytes": bytes_of(self.profile, self.work)[inside]}
        columns = {name: nodes.gather(site, value, len(self.sites)) for name, value in sums.items()}
        return self.sites.with_columns(pl.DataFrame({**columns, "launches": np.bincount(site, minlength=len(self.sites))}).get_columns())

    @cached_property
    def scoped_shared(self) -> pl.DataFrame:
        """Like `shared`, for the time in the scope."""
        took, inside = np.maximum(self.sites["took"].to_numpy(), 1), self.scoped_sites["took"].to_numpy()
        site = self.shared["site"].to_numpy()
        return self.shared.with_columns(
            took=pl.Series((self.shared["took"].to_numpy() * (inside[site] / took[site])).round().astype(np.int64))
        )

    @cached_property
    def activity(self) -> Activity | None:
        """Values of hardware counters in the scope, by row of `sites`."""
        return activity(self.profile, self.work, self.inside)

    @cached_property
    def stalls(self) -> pl.DataFrame:
        """`stalls.STALLS`"""
        return stalls(self.profile)

    @cached_property
    def cpu(self) -> CpuFacts | None:
        """CPU samples: of CPU time, or of wall-clock time where only that was sampled."""
        clocks = [name for name in metrics(self.profile) if name in CLOCK]
        return self.of_clock(clocks[0]) if clocks else None

    @cached_property
    def scoped_cpu(self) -> CpuFacts | None:
        """The same for the time in the scope."""
        cpu = self.cpu
        return cpu if cpu is None or steady_scope(self.profile) is None else cpu.in_steady_steps()

    def of_clock(self, metric: str) -> CpuFacts:
        """The same for a clock that was sampled."""
        if metric not in self._clocks:
            self._clocks[metric] = cpu_facts(self.profile, metric)
        return self._clocks[metric]

    @cached_property
    def _clocks(self) -> dict[str, CpuFacts]:
        return {}


@once
def profile_analysis(profile: Analysis) -> ProfileAnalysis:
    return ProfileAnalysis.of(profile)


def release_analysis(profile: Analysis) -> None:
    """Frees the analysis with all its parts, except the context of launches, which takes as long to compute as everything else."""
    profile.release(profile_analysis)
    profile.release(work.part(BY_CODE_AND_MEANING))
    release_samples(profile)
