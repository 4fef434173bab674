"""What the questions about a profile have in common, each part worked out once, when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from aiflame.analyze.cpu_facts import CpuFacts, cpu_facts
from aiflame.analyze.idle_gaps import IdleGaps, idle_gaps
from aiflame.analyze.joined import Joined
from aiflame.analyze.occupancy import Device, devices, per_step
from aiflame.analyze.stalls import stalls
from aiflame.attribute.build import metrics
from aiflame.attribute.cpu import CLOCK
from aiflame.attribute.stacks import Tables


@dataclass(frozen=True)
class Facts(Joined):
    """Of one profile. `facts(profile)` makes it; all analyses of a profile should share one."""

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
    def stalls(self) -> pl.DataFrame:
        """`stalls.STALLS`"""
        return stalls(self.profile)

    @cached_property
    def cpu(self) -> CpuFacts | None:
        """What the CPU samples tell: of CPU time, or of wall-clock time where that alone was sampled."""
        clocks = [name for name in metrics(self.profile) if name in CLOCK]
        return cpu_facts(self.profile, self.trie, self.places, clocks[0]) if clocks else None


def facts(profile: Tables) -> Facts:
    return Facts.of(profile)
