"""What ran on devices, where it was launched, and what it was for, in one join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.named import gathered, layer_paths, op_names, phase_names
from aiflame.analyze.places import Places, place_of, places
from aiflame.attribute.compiled import spread
from aiflame.attribute.context import BRINGS, CONTEXT, MOTHER, Meaning, of_devices
from aiflame.attribute.families import families
from aiflame.attribute.gpu_inside import kernel_names
from aiflame.attribute.gpu_launches import LaunchTable
from aiflame.attribute.gpu_work import JOIN, NO_LAUNCH, Grouped, Work, work
from aiflame.attribute.items import LATEST
from aiflame.attribute.owners import process_frames, with_ranks
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.stacks import Functions, Tables, find_stacks, functions

Ints = NDArray[np.int64]
J = TypeVar("J", bound="Joined")

BY_CODE_AND_MEANING = Prefix(("phase", "layer", "op"), code=True)
"""Not by step: a step's number is of each launch, and would tell the same sites apart again and again."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Each launch, in the order of process and number."""

    key: Ints
    """process << 32 | row of `launches`."""
    thread: Ints
    """process << 32 | row of `threads`."""
    mother: Ints
    """The thread that it works for: the one that called backward, where autograd's own thread launches."""
    stack: Ints
    begin_ns: Ints
    end_ns: Ints
    step: Ints
    waits: NDArray[np.bool_]
    """It is a call that waits for a device (table `syncs`)."""

    def rows(self, process: Ints, launch: Ints) -> Ints:
        """The place of each launch here, -1: unknown."""
        return find_stacks(self.key, process << 32 | launch)


@dataclass(frozen=True)
class Joined:
    profile: Tables
    trie: Functions
    work: Work
    """Grouped by code and meaning."""
    meaning: Meaning
    """Of its launches process, id, stack, CONTEXT and BRINGS."""
    sites: pl.DataFrame
    """For each site of `work`: process (i64), device, name (as compiled), short, kind, family, phase, layer (`layers.3.attn`), op, file,
    line, function (innermost line of the program's own source; "" where unknown), place (row of `places.rows`), took, launches, bytes."""
    launches: Launches
    steps: pl.DataFrame
    """process, thread, step, begin_ns, end_ns (on the host)."""
    places: Places
    shared: pl.DataFrame
    """site, phase, layer, op, took: as `sites`, with the time of compiled kernels divided over what they were made from."""
    fused: bool
    """Some time was divided so: an estimate."""

    @property
    def ran_on_devices(self) -> bool:
        return not self.sites.is_empty()

    @cached_property
    def process_names(self) -> list[str]:
        return [frame.name for frame in process_frames(with_ranks(self.profile.table("processes"), self.profile.table("ranks")))]

    @classmethod
    def of(cls: type[J], profile: Tables) -> J:
        """Of what ran on devices; a profile in which nothing did has facts too, without rows."""
        trie = functions(profile)
        meaning = of_devices(profile, trie)
        launches, steps = _launches(profile, meaning), meaning.steps
        # Ten million launches take a gigabyte with all that is known of them.
        meaning = replace(
            meaning,
            launches=meaning.launches.select(pl.col("process").cast(pl.UInt32), "id", pl.col("stack").cast(pl.UInt32), *CONTEXT, BRINGS),
        )
        done = work(profile, Grouped(BY_CODE_AND_MEANING, meaning))
        known = places(profile)
        sites = _named(profile, done.sites, meaning, known)
        divided = spread(done.sites, done.sites["took"].to_numpy(), meaning.compiled, meaning.forests)
        shared = divided.rows.select(
            pl.Series("site", divided.division.item),
            phase=phase_names(divided.rows["phase"]),
            layer=gathered(layer_paths(divided.forests["layer"]), divided.rows["layer"]),
            op=gathered(op_names(divided.forests["op"]), divided.rows["op"]),
            took=pl.Series(divided.division.value),
        )
        fused = len(divided.division.item) > len(done.sites)
        return cls(profile, trie, done, meaning, sites, launches, steps, known, shared, fused)


def _named(profile: Tables, sites: pl.DataFrame, meaning: Meaning, known: Places) -> pl.DataFrame:
    process, thread, stack, captured = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread", "stack", "captured"))
    made = known.of_stacks(process, captured)
    place = np.where(made > 0, made, np.where(thread != NO_LAUNCH, place_of(profile, known, process, thread, stack), 0))
    names = kernel_names(profile)
    family = families(profile, sites["name"])
    return (
        sites.join(names, on="name", how="left", maintain_order="left")
        .with_columns(known.rows[place].get_columns())
        .select(
            pl.col("process").cast(pl.Int64),
            "device",
            "name",
            pl.coalesce("readable", "short", "name").alias("short"),
            "kind",
            pl.col("name").replace_strict(family, default="", return_dtype=pl.String).alias("family"),
            phase_names(sites["phase"]),
            gathered(layer_paths(meaning.forests["layer"]), sites["layer"]).alias("layer"),
            gathered(op_names(meaning.forests["op"]), sites["op"]).alias("op"),
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
    whole = meaning.launches.select("process", pl.col("id").cast(pl.Int64), "thread", MOTHER, "stack", "step", begin_ns="time_ns")
    ends = profile.scan("launches").select(pl.col("end_ns").clip(upper_bound=LATEST).cast(pl.Int64)).collect()
    whole = whole.hstack(ends)  # items are in the order of the table
    key = whole["process"].to_numpy() << 32 | whole["id"].to_numpy()
    if (key[1:] <= key[:-1]).any():
        whole = whole[np.argsort(key, kind="stable")]
        key = np.sort(key)
    columns = ("process", "thread", "mother", "stack", "begin_ns", "end_ns", "step")
    process, thread, mother, stack, begin, end, step = (whole[name].cast(pl.Int64).to_numpy() for name in columns)
    waits = np.zeros(len(key), dtype=np.bool_)
    at = find_stacks(key, _waiting(profile))
    waits[at[at >= 0]] = True
    return Launches(key, process << 32 | thread, process << 32 | mother, stack, begin, np.maximum(begin, end), step, waits)


def _waiting(profile: Tables) -> Ints:
    """process << 32 | launch of each call that waits for a device."""
    calls = LaunchTable.of(profile)
    syncs = profile.scan("syncs").select("process", pl.col("api").cast(pl.UInt32), "correlation").collect()
    at = calls.find(*(syncs[name].to_numpy() for name in JOIN))
    found = calls.rows[at[at >= 0]].select(pl.col("process", "id").cast(pl.Int64))
    key: Ints = found["process"].to_numpy() << 32 | found["id"].to_numpy()
    return key
