"""What devices did, by code: process → thread → the functions that launched → `-` → kernel or copy → what lies inside the kernel.

GPU time and bytes are exact: each record names its launch. Samples, and time inside kernels, are divided (`gpu_samples`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.compiled import Compiled, Spread, spread
from aiflame.attribute.context import of_devices
from aiflame.attribute.division import Ints, scaled
from aiflame.attribute.families import families
from aiflame.attribute.gpu_idle import idle
from aiflame.attribute.gpu_inside import kernel_names, levels
from aiflame.attribute.gpu_samples import DRIVER, Samples, elsewhere, samples
from aiflame.attribute.gpu_work import Grouped, Work, work
from aiflame.attribute.growth import Forest, Growth, Places
from aiflame.attribute.prefixes import Prefix, grow_prefix
from aiflame.attribute.stacks import Functions, Tables, functions, grow_threads
from aiflame.attribute.thread_starts import STARTED, starts
from aiflame.attribute.tree import BYTES, FRAME_COLUMNS, GPU_LATENCY, GPU_TIME, LAUNCHES, Frame, Metric, Tree, frame_table
from aiflame.profile.kinds import Kind

BOUNDARY = Frame("-", Kind.BOUNDARY)
GRAPH_REPLAY = Frame("[graph replay]", Kind.BOUNDARY)
NO_LAUNCH = Frame("[unattributed: no launch]", Kind.UNATTRIBUTED)
NO_CAPTURE = Frame("[unattributed: graph node captured before recording]", Kind.UNATTRIBUTED)
NO_THREAD = Frame("[unattributed: thread not recorded]", Kind.UNATTRIBUTED)
IDLE = "[GPU idle]"
DIVIDED = ", divided inside kernels by their samples"
WITH_IDLE = ", with idle time"


def time_tree(profile: Tables, detail: str = "function", by: Prefix | None = None) -> Tree:
    """GPU time, and the time that devices were idle. What lies inside a kernel gets its part of the kernel's time by its samples.

    `by`: what stands between the process and the code, or in its place."""
    plan = _Plan.of(profile, by)
    trie, done = plan.trie, plan.done
    growth = Growth()
    divided = plan.spread(done.sites, done.sites["took"].to_numpy())
    place, value = plan.sites(growth, divided.rows, divided.forests), divided.division.value
    metric = divided.label(GPU_TIME)
    inner, inner_value = place[:0], value[:0]
    if detail != "function":
        sampled = samples(profile, done)
        site, inner_value = _shared_out(sampled, done.sites["took"].to_numpy())
        value = np.where(np.isin(divided.division.item, site), 0, value)
        row, which, inner_value = divided.divide(site, inner_value)
        inner = _inside(growth, profile, sampled, place[row], sampled.placed["point"].to_numpy()[which], detail)
        metric = replace(metric, label=metric.label + DIVIDED) if len(inner) else metric
    resting = idle(done, profile.table("processes"))
    rest = _alone(growth, trie, resting.with_columns(name=pl.lit(IDLE)), {IDLE: Kind.GPU_IDLE})
    if resting["value"].sum():
        metric = replace(metric, label=metric.label + WITH_IDLE)
    times = np.concatenate([value, inner_value, resting["value"].to_numpy()])
    counts = done.sites["launches"].to_numpy()
    return growth.finish(
        (metric, LAUNCHES), {metric.name: (np.concatenate([place, inner, rest]), times), LAUNCHES.name: (place[divided.first()], counts)}
    )


def bytes_tree(profile: Tables, by: Prefix | None = None) -> Tree:
    """Bytes that were copied or filled, under the stacks that asked for it."""
    plan = _Plan.of(profile, by)
    copies = plan.done.sites.filter(pl.col("kind") == int(Kind.GPU_COPY))
    growth = Growth()
    place = plan.sites(growth, copies, plan.forests)
    return growth.finish(
        (BYTES, LAUNCHES), {BYTES.name: (place, copies["bytes"].to_numpy()), LAUNCHES.name: (place, copies["launches"].to_numpy())}
    )


def samples_tree(profile: Tables, metric: Metric, detail: str = "instruction", by: Prefix | None = None) -> Tree:
    """Samples of warps. Dropped ones and those in the driver's kernels stand for themselves, under their process."""
    plan = _Plan.of(profile, by)
    trie, done = plan.trie, plan.done
    latency = metric.name == GPU_LATENCY.name
    sampled = samples(profile, done, not_issued=latency, detail=detail != "function")
    growth = Growth()
    used, of_placed = np.unique(sampled.placed["site"].to_numpy(), return_inverse=True)
    of_used = np.bincount(of_placed, sampled.placed["value"].to_numpy(), len(used)).astype(np.int64)
    divided = plan.spread(done.sites[used], of_used)
    metric = divided.label(metric)
    row, which, value = divided.divide(of_placed, sampled.placed["value"].to_numpy())
    place = plan.sites(growth, divided.rows, divided.forests)[row]
    place = _inside(growth, profile, sampled, place, sampled.placed["point"].to_numpy()[which], detail)

    lost = sampled.unplaced.with_columns(name=pl.col("why"))
    ended = _alone(growth, trie, lost, dict.fromkeys(lost["why"].unique(), Kind.UNATTRIBUTED))
    kernel = lost.join(sampled.points.with_row_index("point"), on="point", how="left", maintain_order="left")
    kernel = kernel.select(pl.col("function").alias("name"), "device", "called", kind=pl.lit(int(Kind.GPU_KERNEL), pl.UInt8))
    forest, node = _items(profile, kernel)
    ended = growth.grow(ended, forest, np.where(kernel["called"].to_numpy(), 0, node))
    ended = _inside(growth, profile, sampled, ended, lost["point"].to_numpy(), detail)

    rest = elsewhere(profile).with_columns(name=pl.col("why"))
    rest = rest.clear() if latency else rest
    kinds = {name: Kind.GPU_KERNEL if name == DRIVER else Kind.UNATTRIBUTED for name in rest["why"].unique()}
    places = np.concatenate([place, ended, _alone(growth, trie, rest, kinds)])
    values = np.concatenate([value, lost["value"].to_numpy(), rest["value"].to_numpy()])
    return growth.finish((metric,), {metric.name: (places, values)})


@dataclass(frozen=True, slots=True)
class _Plan:
    """What ran, and how it is grouped."""

    profile: Tables
    trie: Functions
    done: Work
    by: Prefix | None
    forests: Mapping[str, Forest]
    compiled: Compiled | None = None

    @staticmethod
    def of(profile: Tables, by: Prefix | None) -> _Plan:
        trie = functions(profile)
        if by is None:
            return _Plan(profile, trie, work(profile), None, {})
        if by.columns == ("family",):
            done = work(profile, Grouped(by, None))
            forest, node = _families(profile, done.sites["name"])
            done = replace(done, sites=done.sites.with_columns(family=pl.Series(node)))
            return _Plan(profile, trie, done, by, {"family": forest})
        meaning = of_devices(profile, trie)
        return _Plan(profile, trie, work(profile, Grouped(by, meaning)), by, meaning.forests, meaning.compiled)

    def spread(self, sites: pl.DataFrame, value: Ints) -> Spread:
        """Sites of kernels that a compiler fused, divided over what they were fused from."""
        return spread(sites, value, self.compiled, self.forests)

    def sites(self, growth: Growth, sites: pl.DataFrame, forests: Mapping[str, Forest]) -> Places:
        """Where each site's kernel or copy stands."""
        process, thread = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread"))
        place = growth.grow(np.zeros(len(sites), dtype=np.int64), self.trie.owners(), 1 + process)
        if self.by is not None:
            place = grow_prefix(growth, place, sites, self.by, forests)
        no_launch = Forest.of_frames(frame_table([NO_LAUNCH])[1:])
        place = growth.grow(place, no_launch, (thread < 0).astype(np.int64))
        if self.by is None or self.by.code:
            place = _launched(growth, place, self.profile, self.trie, sites)
        return growth.grow(place, *_items(self.profile, sites))


def _launched(growth: Growth, place: Places, profile: Tables, trie: Functions, sites: pl.DataFrame) -> Places:
    """Where the code that launched ends, on these places of processes."""
    process, thread, stack, captured = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread", "stack", "captured"))
    launched, graph = thread >= 0, sites["graph"].to_numpy()
    marks = Forest.of_frames(frame_table([BOUNDARY, GRAPH_REPLAY, NO_CAPTURE, STARTED])[1:])
    boundary, replay, no_capture, started = range(1, 5)

    place = grow_threads(growth, place, profile, process, thread, NO_THREAD)
    calling = np.where(launched, trie.on_threads(process, stack), 0)
    starting = starts(profile, trie, process, thread, calling)
    place = growth.grow(place, trie.forest(), starting)
    place = growth.grow(place, marks, np.where(starting > 0, started, 0))
    place = growth.grow(place, trie.forest(), calling)
    made = np.where(graph, trie.on_threads(process, captured), 0)
    place = growth.grow(place, marks, np.where(graph, replay, 0))
    place = growth.grow(place, marks, np.where(graph & (made == 0), no_capture, 0))
    place = growth.grow(place, trie.forest(), made)
    return growth.grow(place, marks, np.where(launched | graph, boundary, 0))


def _families(profile: Tables, names: pl.Series) -> tuple[Forest, Ints]:
    """Families of kernels as frames, and the node of each of these kernels; copies are their own."""
    of_name = families(profile, names)
    known = sorted({one for one in of_name.values() if one})
    node = {name: known.index(one) + 1 if one else 0 for name, one in of_name.items()}
    frames = frame_table([Frame(name, Kind.FAMILY) for name in known])[1:]
    return Forest.of_frames(frames), names.replace_strict(node, return_dtype=pl.Int64).to_numpy()


def _items(profile: Tables, items: pl.DataFrame) -> tuple[Forest, Ints]:
    """Kernels and copies (name, device, kind) as frames, and the node of each. The device stands where a function has its library. Some may
    be known as specializations (readable, told)."""
    text = pl.lit("")
    known = ["readable", "told"] if "readable" in items.columns else [pl.lit(None, dtype=pl.String)] * 2
    frames = items.join(kernel_names(profile), on="name", how="left", maintain_order="left").select(
        name=pl.coalesce(known[0], "short", "name"),
        kind=pl.col("kind").cast(pl.UInt8),
        file=text,
        line=pl.lit(0, dtype=pl.UInt32),
        module="device",
        full_name=pl.coalesce(known[1], "full", "name"),
        approximate=pl.lit(False),
    )
    frames = frames.with_columns(full_name=pl.when(pl.col("full_name") == pl.col("name")).then(text).otherwise("full_name"))
    distinct = frames.select(list(FRAME_COLUMNS)).unique(maintain_order=True)
    node = frames.join(distinct.with_row_index("node", offset=1), on=list(FRAME_COLUMNS), how="left", maintain_order="left")["node"]
    return Forest.of_frames(distinct), node.to_numpy().astype(np.int64)


def _inside(growth: Growth, profile: Tables, sampled: Samples, place: Places, point: NDArray[np.integer], detail: str) -> Places:
    for level in levels(profile, sampled.points, detail):
        place = growth.grow(place, level.forest, level.node[point])
    return place


def _alone(growth: Growth, trie: Functions, rows: pl.DataFrame, kinds: dict[str, Kind]) -> Places:
    """Frames (`name`, `device`) that stand on their process (`process`) itself."""
    place = growth.grow(np.zeros(len(rows), dtype=np.int64), trie.owners(), 1 + rows["process"].to_numpy().astype(np.int64))
    distinct = rows.select("name", "device").unique(maintain_order=True)
    frames = frame_table([Frame(name, kinds[name], module=device) for name, device in distinct.rows()])[1:]
    node = rows.join(distinct.with_row_index("node", offset=1), on=["name", "device"], how="left", maintain_order="left")["node"]
    return growth.grow(place, Forest.of_frames(frames), node.to_numpy().astype(np.int64))


def _shared_out(sampled: Samples, took: Ints) -> tuple[Ints, Ints]:
    """The time of each site that was sampled, by its samples: the site and the value of each row of `sampled.placed`."""
    site = sampled.placed["site"].to_numpy()
    return site, scaled(site, sampled.placed["value"].to_numpy(), took[site])
