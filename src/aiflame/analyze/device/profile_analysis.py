"""The parts that questions about a profile share. Each is computed once, when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts, cpu_facts
from aiflame.analyze.device.device_join import BY_CODE_AND_MEANING, DeviceJoin
from aiflame.analyze.device.idle_gaps import IdleGaps, idle_gaps
from aiflame.analyze.device.occupancy import Device, devices, per_step
from aiflame.analyze.device.stalls import stalls
from aiflame.analyze.step_times import steady
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.work import work
from aiflame.attribute.meaning.context import release_samples
from aiflame.attribute.metrics import CLOCK
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

    @cached_property
    def steady_took(self) -> Ints:
        """For each site, the GPU time of its launches in steps, the first of each process aside; of all launches where there are no
        steps."""
        return self._steady[0]

    @cached_property
    def steady_launches(self) -> Ints:
        """The same of their number."""
        return self._steady[1]

    @cached_property
    def _steady(self) -> tuple[Ints, Ints]:
        usual = steady(self.per_step.select("process", "step").unique())
        if usual.is_empty():
            return self.sites["took"].to_numpy(), self.sites["launches"].to_numpy()
        first = np.full(len(self.process_names), np.iinfo(np.int64).max)
        for process, least in usual.group_by("process").agg(pl.col("step").min()).rows():
            first[process] = least
        executions = self.work.executions
        site = executions["site"].to_numpy()
        inside = executions["step"].to_numpy() >= first[self.sites["process"].cast(pl.Int32).to_numpy()[site]]
        took = (executions["end_ns"] - executions["start_ns"]).cast(pl.Int64).to_numpy()
        return nodes.gather(site[inside], took[inside], len(self.sites)), np.bincount(site[inside], minlength=len(self.sites))

    @cached_property
    def steady_shared(self) -> pl.DataFrame:
        """As `shared`, of `steady_took`."""
        took, usual = np.maximum(self.sites["took"].to_numpy(), 1), self.steady_took
        site = self.shared["site"].to_numpy()
        return self.shared.with_columns(
            took=pl.Series((self.shared["took"].to_numpy() * (usual[site] / took[site])).round().astype(np.int64))
        )

    @cached_property
    def stalls(self) -> pl.DataFrame:
        """`stalls.STALLS`"""
        return stalls(self.profile)

    @property
    def cpu(self) -> CpuFacts | None:
        """CPU samples: of CPU time, or of wall-clock time where only that was sampled."""
        clocks = [name for name in metrics(self.profile) if name in CLOCK]
        return self.of_clock(clocks[0]) if clocks else None

    def of_clock(self, metric: str) -> CpuFacts:
        """The same of a clock that was sampled."""
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
    """Frees it with all its parts, but for the context of launches, which takes as long to compute as everything else."""
    profile.release(profile_analysis)
    profile.release(work.part(BY_CODE_AND_MEANING))
    release_samples(profile)
