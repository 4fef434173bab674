"""Stretches of a profile's timeline, each equal to that part of the whole timeline, but made only from the rows that it needs."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, Meaning, of_devices, of_samples
from aiflame.attribute.timeline.calls import calls
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.device_counters import machine_counters
from aiflame.attribute.timeline.near import Rows, both
from aiflame.attribute.timeline.regions import counters, marked_regions, placed_regions
from aiflame.attribute.timeline.samples import clock_of, cpu_samples
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, Timeline
from aiflame.attribute.timeline.whole import launches_of, owners_of
from aiflame.attribute.timeline.work import device_work
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace


class TooMuch(AiflameError):
    """Raised if a stretch of time has more rows than are read at once."""


@dataclass(frozen=True)
class Windows:
    """Keeps the costly parts that all stretches share: the context of launches, stacks, and the tracks of regions."""

    profile: Analysis

    def timeline(self, begin: int, end: int, most: int) -> Timeline:
        """The timeline of [begin, end), without counters. It may contain parts of slices outside of it, which the caller cuts off."""
        if (many := sum(rows.many(begin, end) for rows in (self._kernels, self._launches, self._samples))) > most:
            raise TooMuch(f"{many:,} records are in this stretch of time: ask for a shorter one")
        cut, launched, sampled = self._cut(begin, end)
        meaning = of_devices(self.profile)
        meaning = replace(meaning, launches=meaning.launches.select(*CONTEXT, BRINGS)[launched])
        making = Making()
        owners = owners_of(self.profile, making)
        here = (pl.col("end_ns") >= begin) & (pl.col("begin_ns") <= end)
        marked_regions(self.profile, making, owners, self._regions.filter(here))
        contexts = Contexts(making, meaning)
        launches = launches_of(cut)
        work = device_work(cut, making, owners, contexts, self._stacks, launches)
        calls(cut, making, owners, contexts, self._stacks, launches, work)
        of_sampled = self._sampled and replace(self._sampled, samples=self._sampled.samples[sampled])
        cpu_samples(cut, making, owners, self._stacks, of_sampled)
        return making.finish()

    @cached_property
    def counters(self) -> Timeline:
        """Counters of the whole time: only tracks and points."""
        making = Making()
        owners = owners_of(self.profile, making)
        counters(self.profile, making, owners)
        machine_counters(self.profile, making, owners)
        return making.finish()

    def _cut(self, begin: int, end: int) -> tuple[_Cut, pl.Series, pl.Series]:
        """The tables of the stretch, and the places of its launches and samples."""
        launches = self._launches.near(begin, end)
        calls = launches.filter(pl.col("end_ns") > begin, pl.col("begin_ns") < end)
        # Kernels with their launches, which may be earlier; calls with everything that they launched, which may be later.
        kernels, copies = (both(rows.near(begin, end), rows.of(calls)) for rows in (self._kernels, self._copies))
        launches = both(launches, self._launches.of(kernels), self._launches.of(copies))
        waits = both(self._waits.near(begin, end), self._waits.of(calls))
        samples = self._samples.near(begin, end)
        frames = {"launches": launches, "kernels": kernels, "copies": copies, "syncs": waits, "cpu_samples": samples}
        return _Cut(self.profile, {name: frame.drop("row") for name, frame in frames.items()}), launches["row"], samples["row"]

    def _table(self, name: str) -> pl.LazyFrame:
        return self.profile.scan(name).with_row_index("row")

    @cached_property
    def _kernels(self) -> Rows:
        shapes = self.profile.scan("kernel_shapes").select("process", "device", shape="id").unique(["process", "shape"], keep="first")
        return Rows(self._table("kernels").join(shapes, on=["process", "shape"], how="left"), _STREAM, "start_ns", "end_ns")

    @cached_property
    def _copies(self) -> Rows:
        return Rows(self._table("copies"), _STREAM, "start_ns", "end_ns")

    @cached_property
    def _launches(self) -> Rows:
        return Rows(self._table("launches"), ("process", "thread"), "begin_ns", "end_ns")

    @cached_property
    def _waits(self) -> Rows:
        return Rows(self._table("syncs"), ("process",), "start_ns", "end_ns")

    @cached_property
    def _samples(self) -> Rows:
        of_clock = self.profile.scan("cpu_samples").filter(pl.col("clock") == (clock_of(self.profile) or 0)).with_row_index("row")
        return Rows(of_clock, ("process", "thread"), "time_ns", "time_ns")

    @cached_property
    def _stacks(self) -> Stacks:
        return Stacks(self.profile)

    @cached_property
    def _regions(self) -> pl.DataFrame:
        return placed_regions(self.profile)

    @cached_property
    def _sampled(self) -> Meaning | None:
        """The context of samples, if there is a process without launches: only there samples need it."""
        launched = self.profile.scan("launches").select("process").unique()
        unlaunched = self.profile.scan("cpu_samples").select("process").unique().join(launched, on="process", how="anti")
        if unlaunched.collect().is_empty():
            return None
        clock = clock_of(self.profile) or 0
        meaning = of_samples(self.profile, clock)
        self.profile.release(of_samples.part(clock))  # the columns selected below are much smaller
        return replace(meaning, samples=meaning.samples.select("step", "phase", "layer", "op"))


_STREAM = ("process", "device", "stream")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A profile in which some tables have fewer rows."""

    profile: Tables
    frames: dict[str, pl.DataFrame]

    def has(self, name: str) -> bool:
        return self.profile.has(name)

    def table(self, name: str) -> pl.DataFrame:
        return self.frames[name] if name in self.frames else self.profile.table(name)

    def scan(self, name: str) -> pl.LazyFrame:
        return self.frames[name].lazy() if name in self.frames else self.profile.scan(name)
