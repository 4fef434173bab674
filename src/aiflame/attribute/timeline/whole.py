"""A profile as a timeline: processes, their threads with calls and functions, their devices' streams with kernels and copies, counters.

The tables are described in `timeline.tables`. Code that draws or writes a timeline needs only them.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.devices.work import JOIN
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, of_devices
from aiflame.attribute.stacks.process_frames import process_names, thread_frames, with_ranks
from aiflame.attribute.timeline.calls import calls
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.device_counters import machine_counters
from aiflame.attribute.timeline.intra import inside_kernels
from aiflame.attribute.timeline.regions import counters, marked_regions
from aiflame.attribute.timeline.samples import cpu_samples
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, Owners, SliceKind, Timeline
from aiflame.attribute.timeline.traced import traced_calls
from aiflame.attribute.timeline.work import device_work
from aiflame.attribute.tree import Frame
from aiflame.memory import give_back_freed_memory
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import replace

_NO_THREAD = Frame("[thread not recorded]", Kind.UNATTRIBUTED)


def timeline(
    profile: Tables,
    *,
    samples: bool = True,
    without: frozenset[SliceKind] = frozenset(),
    taker: Callable[[Timeline], None] | None = None,
) -> Timeline:
    """The whole timeline of a profile; without functions of CPU samples if `samples` is False, and without some kinds of slices. With a
    `taker`, returns the part that it did not get (see `Making`)."""
    profile = Analysis.of(profile)
    making = Making(without, taker)
    owners = owners_of(profile, making)
    stacks = Stacks(profile)
    marked_regions(profile, making, owners)
    traced_calls(profile, making, owners)
    meaning = of_devices(profile)
    profile.used(of_devices)
    contexts = Contexts(making, replace(meaning, launches=meaning.launches.select(*CONTEXT, BRINGS)))
    del meaning
    give_back_freed_memory()
    launches = launches_of(profile)
    launched = device_work(profile, making, owners, contexts, stacks, launches)
    give_back_freed_memory()
    calls(profile, making, owners, contexts, stacks, launches, launched)
    del launches, contexts, launched
    inside_kernels(profile, making, owners)
    if samples:
        cpu_samples(profile, making, owners, stacks)
    counters(profile, making, owners)
    machine_counters(profile, making, owners)
    return making.finish()


def owners_of(profile: Tables, making: Making) -> Owners:
    """The tracks of processes and threads, in `making`."""
    processes, threads = with_ranks(profile.table("processes"), profile.table("ranks")), profile.table("threads")
    names = dict(zip(processes["process"], process_names(processes), strict=True))
    frames = thread_frames(profile, threads.select("process", thread="id"), _NO_THREAD)
    # The track has the number in another column.
    shared = pl.Series("name", [frame.name for frame in frames], dtype=pl.String)
    named = threads.with_columns(shared).with_columns(pl.col("name").str.strip_suffix(pl.format(" ({})", "tid")))
    return Owners(making, processes, names, named)


def launches_of(profile: Tables) -> pl.DataFrame:
    """The columns of launches that a timeline shows."""
    variant = pl.col("variant") if profile.has("kernel_variants") else pl.lit(0, dtype=pl.UInt32).alias("variant")
    columns = [pl.col(name).cast(pl.UInt32) if name == "api" else pl.col(name) for name in JOIN]
    return profile.scan("launches").select(*columns, "id", "thread", "stack", variant, "begin_ns", "end_ns").collect()
