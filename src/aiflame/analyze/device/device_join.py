"""Joins device work with its launches and its meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.labels import gathered, phase_names
from aiflame.analyze.places import Places, place_of, places
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.chunks import arrays
from aiflame.attribute.arrays.lookup import find_rows
from aiflame.attribute.arrays.types import U32, Ints
from aiflame.attribute.devices.inside import kernel_names
from aiflame.attribute.devices.launches import LaunchTable
from aiflame.attribute.devices.records import NO_THREAD_ROW
from aiflame.attribute.devices.work import JOIN, Work, work
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, MOTHER, Meaning, of_devices
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.families import families
from aiflame.attribute.meaning.fused_split import split_over_ops
from aiflame.attribute.prefixes import BY_CODE_AND_MEANING
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.process_frames import process_frames, with_ranks
from aiflame.memory import give_back_freed_memory
from aiflame.profile.tables.interface import Tables

J = TypeVar("J", bound="DeviceJoin")


@dataclass(frozen=True, slots=True)
class Launches:
    """All launches, in the order of process and number: there may be ten million."""

    id: NDArray[np.uint32]
    starts: Ints
    """For each process the place of its first launch; the last entry is the number of launches."""
    threads: Ints
    """process << 32 | row of `threads`, for the threads that launch and those to which launches belong: sorted"""
    thread: NDArray[np.integer]
    """Place in `threads`."""
    mother: NDArray[np.integer]
    """The place in `threads` of the thread for which it works: the one that called backward, if autograd's own thread launches."""
    stack: NDArray[np.uint32]
    begin_ns: Ints
    end_ns: Ints
    waits: NDArray[np.bool_]
    """True for calls that wait for a device (table `syncs`)."""

    def rows(self, process: Ints, launch: Ints) -> Ints:
        """The place of each launch, -1: unknown."""
        if not len(self.id):
            return np.full(len(launch), -1)
        # Numbers count from 1 in each process, so a place follows from the number unless records were lost.
        begin, end = (self.starts[np.minimum(process + side, len(self.starts) - 1)] for side in (0, 1))
        at: Ints = np.clip(begin + launch - 1, 0, len(self.id) - 1)
        lost = np.flatnonzero((self.id[at] != launch) | (at < begin) | (at >= end))
        at[lost] = -1
        lost = lost[launch[lost] > 0]
        if len(lost):
            key = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)) << 32 | self.id
            at[lost] = find_rows(key, process[lost] << 32 | launch[lost])
        return at


@dataclass(frozen=True)
class DeviceJoin:
    profile: Analysis
    meaning: Meaning
    """The meaning of launches. Their columns process, id, stack, CONTEXT and BRINGS are kept."""
    sites: pl.DataFrame
    """For each site of `work`: process (i64), device, name (as compiled), short, kind, family, phase, layer (`layers.3.attn`), op, file,
    line, function (innermost line of the program's own source; "" if unknown), place (row of `places.rows`), took, launches, bytes."""
    launches: Launches
    steps: pl.DataFrame
    """process, thread, step, begin_ns, end_ns (on the host)."""
    shared: pl.DataFrame
    """site, phase, layer, op, took: as `sites`, with the time of compiled kernels divided over their source ops."""
    fused: bool
    """True if some time was divided in this way: an estimate."""

    @property
    def work(self) -> Work:
        """Grouped by code and meaning."""
        return work(self.profile, BY_CODE_AND_MEANING)

    @property
    def trie(self) -> Functions:
        return functions(self.profile)

    @property
    def places(self) -> Places:
        return places(self.profile)

    @property
    def ran_on_devices(self) -> bool:
        return not self.sites.is_empty()

    @cached_property
    def process_names(self) -> list[str]:
        return [frame.name for frame in process_frames(with_ranks(self.profile.table("processes"), self.profile.table("ranks")))]

    @classmethod
    def of(cls: type[J], profile: Analysis) -> J:
        """The join for a profile; without device work it has no rows."""
        meaning = of_devices(profile)
        if MOTHER not in meaning.launches.columns:  # an earlier join has dropped these columns
            profile.release(of_devices)
            meaning = of_devices(profile)
        launches, steps = _launches(profile, meaning), meaning.steps
        # Ten million launches take a gigabyte with all their columns.
        meaning = replace(
            meaning,
            launches=meaning.launches.select(pl.col("process").cast(pl.UInt32), "id", pl.col("stack").cast(pl.UInt32), *CONTEXT, BRINGS),
        )
        profile.keep(of_devices, meaning)
        give_back_freed_memory()
        gpu_work = work(profile, BY_CODE_AND_MEANING)
        sites = _named(profile, gpu_work.sites, meaning)
        divided = split_over_ops(gpu_work.sites, gpu_work.sites["took"].to_numpy(), meaning.compiled, meaning.forests)
        shared = divided.rows.select(
            pl.Series("site", divided.division.item),
            phase=phase_names(divided.rows["phase"]),
            layer=gathered(divided.forests["layer"].paths(), divided.rows["layer"]),
            op=gathered(divided.forests["op"].paths(), divided.rows["op"]),
            took=pl.Series(divided.division.value),
        )
        fused = len(divided.division.item) > len(gpu_work.sites)
        return cls(profile, meaning, sites, launches, steps, shared, fused)


def _named(profile: Analysis, sites: pl.DataFrame, meaning: Meaning) -> pl.DataFrame:
    process, thread, stack, captured = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread", "stack", "captured"))
    own_lines = places(profile)
    captured_place = own_lines.of_stacks(process, captured)
    place = np.where(captured_place > 0, captured_place, np.where(thread != NO_THREAD_ROW, place_of(profile, process, thread, stack), 0))
    names = kernel_names(profile)
    family = families(profile, sites["name"])
    return (
        sites.join(names, on="name", how="left", maintain_order="left")
        .with_columns(own_lines.rows[place].get_columns())
        .select(
            pl.col("process").cast(pl.Int64),
            "device",
            "name",
            pl.coalesce("readable", "short", "name").alias("short"),
            "kind",
            pl.col("name").replace_strict(family, default="", return_dtype=pl.String).alias("family"),
            phase_names(sites["phase"]),
            gathered(meaning.forests["layer"].paths(), sites["layer"]).alias("layer"),
            gathered(meaning.forests["op"].paths(), sites["op"]).alias("op"),
            "file",
            "line",
            "function",
            pl.Series("place", place),
            "took",
            "launches",
            "bytes",
        )
    )


def _launches(profile: Tables, meaning: Meaning) -> Launches:
    """The profile's launches, in the order of the table."""
    end = arrays(profile.scan("launches").select(pl.col("end_ns").clip(upper_bound=LATEST).cast(pl.Int64)))["end_ns"]
    process, number, thread, mother, stack = (
        meaning.launches[name].cast(pl.UInt32).to_numpy() for name in ("process", "id", "thread", MOTHER, "stack")
    )
    begin = meaning.launches["time_ns"].to_numpy()
    end = np.maximum(begin, end, out=end)
    order = None
    if ((process[1:] < process[:-1]) | ((process[1:] == process[:-1]) & (number[1:] <= number[:-1]))).any():
        order = np.argsort(process.astype(np.int64) << 32 | number, kind="stable")
        process, number, thread, mother, stack, begin, end = (each[order] for each in (process, number, thread, mother, stack, begin, end))
    starts = np.searchsorted(process, np.arange(int(process.max(initial=0)) + 2))
    threads, thread, mother = _threads(process, thread, mother)
    launches = Launches(number, starts, threads, thread, mother, stack, begin, end, np.zeros(len(number), dtype=np.bool_))
    at = launches.rows(*_waiting(profile))
    launches.waits[at[at >= 0]] = True
    return launches


def _threads(process: U32, *of: U32) -> tuple[Ints, NDArray[np.uint16 | np.uint32], NDArray[np.uint16 | np.uint32]]:
    """All threads in these columns, and the place of each row's thread."""
    # Launches of a thread follow each other.
    runs = []
    for thread in of:
        first = np.flatnonzero(np.append(True, (process[1:] != process[:-1]) | (thread[1:] != thread[:-1]))[: len(process)])
        key = process[first].astype(np.int64) << 32 | thread[first]
        runs.append((key, np.diff(first, append=len(process))))
    threads = nodes.distinct(np.concatenate([key for key, _ in runs]))
    kind = np.uint16 if len(threads) < 1 << 16 else np.uint32
    own, other = (np.repeat(np.searchsorted(threads, key).astype(kind), many) for key, many in runs)
    return threads, own, other


def _waiting(profile: Tables) -> tuple[Ints, Ints]:
    """process and number of each call that waits for a device."""
    calls = LaunchTable.of(profile)
    syncs = profile.scan("syncs").select("process", pl.col("api").cast(pl.UInt32), "correlation").collect()
    at = calls.find(*(syncs[name].to_numpy() for name in JOIN))
    at = at[at >= 0]
    return calls.process[at].astype(np.int64), calls.id[at].astype(np.int64)
