"""Device metrics by code: process → thread → the functions that launched → `-` → kernel or copy → frames inside the kernel.

GPU time and bytes are exact: each record names its launch. Samples, and time inside kernels, are divided (`devices/samples`), and so are
energy (`energy/gpu_energy`) and values of hardware counters (`counters/shares`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.counters.metric_sums import counted_of_sites
from aiflame.attribute.counters.names import is_counted
from aiflame.attribute.devices.idle import IDLE, idle
from aiflame.attribute.devices.places import NO_LAUNCH_FRAME, add_inside, family_nodes, frames_on_process, item_nodes, launched_at
from aiflame.attribute.devices.samples import DRIVER, Samples, elsewhere, samples
from aiflame.attribute.devices.scopes import SCOPED, Scopes, scopes
from aiflame.attribute.devices.work import Work, work
from aiflame.attribute.energy.gpu_energy import IDLE_ENERGY, energy
from aiflame.attribute.forest import Forest, NodeIds, TreeBuilder
from aiflame.attribute.limits.kernels import could_win, has_limits, of_sites, waited
from aiflame.attribute.meaning.context import of_devices
from aiflame.attribute.meaning.fused_split import Compiled, SplitOverOps, split_over_ops
from aiflame.attribute.metrics import WITH_IDLE
from aiflame.attribute.prefixes import Prefix, add_prefix
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.table import stack_table
from aiflame.attribute.tree import BYTES, COULD_WIN, ENERGY, GPU_LATENCY, GPU_TIME, LAUNCHES, OF_LIMITS, Metric, Tree, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

DIVIDED = ", divided inside kernels by their samples"


def time_tree(profile: Tables, detail: str = "function", by: Prefix | None = None) -> Tree:
    """GPU time, and idle time of devices. Frames inside a kernel get parts of its time by samples, or by recorded scopes if the kernel has
    some.

    `by`: frames between the process and the code, or in place of the code."""
    plan = _Plan.of(profile, by)
    resting = idle(plan.gpu_work, profile.table("processes"))
    return _whole_tree(
        plan, GPU_TIME, plan.gpu_work.sites["took"].to_numpy(), resting.with_columns(name=pl.lit(IDLE)), detail, scopes(profile)
    )  # fmt: skip


def energy_tree(profile: Tables, detail: str = "function", by: Prefix | None = None) -> Tree:
    """The energy of devices in µJ, divided by `gpu_energy`. Otherwise as `time_tree`."""
    plan = _Plan.of(profile, by)
    energies = energy(profile, plan.gpu_work)
    metric = replace(ENERGY, label=ENERGY.label + energies.label)
    return _whole_tree(plan, metric, energies.sites, energies.idle.with_columns(name=pl.lit(IDLE_ENERGY)), detail)


def could_win_tree(profile: Tables, detail: str = "function", by: Prefix | None = None) -> Tree:
    """The time of kernels beyond that at their device's limits (`attribute.limits`). Otherwise as `time_tree`, without idle time."""
    plan = _Plan.of(profile, by)
    won = could_win(profile, plan.gpu_work)
    metric = replace(COULD_WIN, label=COULD_WIN.label + won.label)
    return _whole_tree(plan, metric, won.sites, won.remainder, detail)


def counters_tree(profile: Tables, metric: Metric, detail: str = "function", by: Prefix | None = None) -> Tree:
    """Values of hardware counters, divided by `counters.shares`. Otherwise as `time_tree`."""
    plan = _Plan.of(profile, by)
    counted = counted_of_sites(profile, plan.gpu_work, metric.name)[metric.name]
    metric = replace(metric, label=metric.label + counted.label)
    return _whole_tree(plan, metric, counted.sites, counted.remainder, detail)


def _whole_tree(plan: _Plan, metric: Metric, measured: Ints, resting: pl.DataFrame, detail: str, recorded: Scopes | None = None) -> Tree:
    """A metric of whole kernels and copies (`measured`: for each site), and its idle values (`resting`: process, device, name, value).
    `recorded`: scopes that divide it inside the kernels that have some."""
    profile, gpu_work = plan.profile, plan.gpu_work
    builder = TreeBuilder()
    divided = plan.split_over_ops(gpu_work.sites, measured)
    place, value = plan.sites(builder, divided.rows, divided.forests), divided.division.value
    metric = divided.label(metric)
    inner, inner_value = place[:0], value[:0]
    scoped = np.zeros(len(gpu_work.sites), dtype=np.bool_)
    if recorded is not None and len(recorded.weights):
        is_kernel = gpu_work.sites["kind"].to_numpy() == Kind.GPU_KERNEL
        of_kernels = np.flatnonzero(is_kernel)
        site, node, inner_value = recorded.divide(gpu_work.sites.filter(pl.Series(is_kernel)), measured[of_kernels])
        site = of_kernels[site]
        scoped[site] = True
        row, which, inner_value = divided.divide(site, inner_value)
        inner = builder.add(place[row], recorded.forest, node[which])
        metric = replace(metric, label=metric.label + SCOPED) if len(inner) else metric
    value = np.where(scoped[divided.division.item], 0, value)
    if detail != "function":
        sampled = samples(profile, gpu_work)
        sampled = replace(sampled, placed=sampled.placed.filter(pl.Series(~scoped[sampled.placed["site"].to_numpy()])))
        site, by_samples = _shared_out(sampled, measured)
        value = np.where(np.isin(divided.division.item, site), 0, value)
        row, which, by_samples = divided.divide(site, by_samples)
        lines = add_inside(builder, profile, sampled.points, place[row], sampled.placed["point"].to_numpy()[which], detail)
        metric = replace(metric, label=metric.label + DIVIDED) if len(lines) else metric
        inner, inner_value = np.concatenate([inner, lines]), np.concatenate([inner_value, by_samples])
    idle_nodes = frames_on_process(builder, plan.trie, resting, dict.fromkeys(resting["name"].unique(), Kind.GPU_IDLE))
    if resting["value"].sum() and not is_counted(metric.name):
        metric = replace(metric, label=metric.label + WITH_IDLE)
    values = np.concatenate([value, inner_value, resting["value"].to_numpy()])
    counts = gpu_work.sites["launches"].to_numpy()
    given = {metric.name: (np.concatenate([place, inner, idle_nodes]), values), LAUNCHES.name: (place[divided.first()], counts)}
    beside = _beside(profile, gpu_work) if metric.name == GPU_TIME.name else {}
    for one, values_of_sites in beside.items():
        row, _, value = divided.divide(np.arange(len(values_of_sites)), values_of_sites)
        given[one.name] = place[row], value
    return builder.finish((metric, LAUNCHES, *beside), given)


def _beside(profile: Tables, gpu_work: Work) -> dict[Metric, Ints]:
    """The values of OF_LIMITS for each site, if counters were recorded."""
    if not has_limits(profile):
        return {}
    values = of_sites(profile, gpu_work) | {"waited": waited(profile, gpu_work)}
    return {metric: values[metric.name.removeprefix("limits-")] for metric in OF_LIMITS}


def bytes_tree(profile: Tables, by: Prefix | None = None) -> Tree:
    """Bytes of copies and fills, under the stacks that requested them."""
    plan = _Plan.of(profile, by)
    copies = plan.gpu_work.sites.filter(pl.col("kind") == int(Kind.GPU_COPY))
    builder = TreeBuilder()
    divided = plan.split_over_ops(copies, copies["bytes"].to_numpy())
    place = plan.sites(builder, divided.rows, divided.forests)
    metric = divided.label(BYTES)
    values = {metric.name: (place, divided.division.value), LAUNCHES.name: (place[divided.first()], copies["launches"].to_numpy())}
    return builder.finish((metric, LAUNCHES), values)


def samples_tree(profile: Tables, metric: Metric, detail: str = "instruction", by: Prefix | None = None) -> Tree:
    """Samples of warps. Lost samples and those in the driver's kernels have frames of their own, under their process."""
    plan = _Plan.of(profile, by)
    trie, gpu_work = plan.trie, plan.gpu_work
    latency = metric.name == GPU_LATENCY.name
    sampled = samples(profile, gpu_work, not_issued=latency, detail=detail != "function")
    builder = TreeBuilder()
    used, of_placed = np.unique(sampled.placed["site"].to_numpy(), return_inverse=True)
    of_used = np.bincount(of_placed, sampled.placed["value"].to_numpy(), len(used)).astype(np.int64)
    divided = plan.split_over_ops(gpu_work.sites[used], of_used)
    metric = divided.label(metric)
    row, which, value = divided.divide(of_placed, sampled.placed["value"].to_numpy())
    place = plan.sites(builder, divided.rows, divided.forests)[row]
    place = add_inside(builder, profile, sampled.points, place, sampled.placed["point"].to_numpy()[which], detail)

    lost = sampled.unplaced.with_columns(name=pl.col("why"))
    ended = frames_on_process(builder, trie, lost, dict.fromkeys(lost["why"].unique(), Kind.UNATTRIBUTED))
    kernel = lost.join(sampled.points.with_row_index("point"), on="point", how="left", maintain_order="left")
    kernel = kernel.select(pl.col("function").alias("name"), "device", "called", kind=pl.lit(int(Kind.GPU_KERNEL), pl.UInt8))
    forest, node = item_nodes(profile, kernel)
    ended = builder.add(ended, forest, np.where(kernel["called"].to_numpy(), 0, node))
    ended = add_inside(builder, profile, sampled.points, ended, lost["point"].to_numpy(), detail)

    others = elsewhere(profile).with_columns(name=pl.col("why"))
    others = others.clear() if latency else others
    kinds = {name: Kind.GPU_KERNEL if name == DRIVER else Kind.UNATTRIBUTED for name in others["why"].unique()}
    places = np.concatenate([place, ended, frames_on_process(builder, trie, others, kinds)])
    values = np.concatenate([value, lost["value"].to_numpy(), others["value"].to_numpy()])
    return builder.finish((metric,), {metric.name: (places, values)})


@dataclass(frozen=True, slots=True)
class _Plan:
    """Device work, and its grouping."""

    profile: Tables
    trie: Functions
    gpu_work: Work
    by: Prefix | None
    forests: Mapping[str, Forest]
    compiled: Compiled | None = None

    @staticmethod
    def of(profile: Tables, by: Prefix | None) -> _Plan:
        profile = Analysis.of(profile)
        trie = functions(profile)
        if by is None:
            profile.used(stack_table)
        gpu_work = work(profile, by)
        profile.used(work.part(by))
        if by is None:
            return _Plan(profile, trie, gpu_work, None, {})
        if by.columns[-1] == "family":
            forest, node = family_nodes(profile, gpu_work.sites["name"])
            gpu_work = replace(gpu_work, sites=gpu_work.sites.with_columns(family=pl.Series(node)))
            return _Plan(profile, trie, gpu_work, by, {"family": forest})
        meaning = of_devices(profile)
        profile.used(of_devices)
        return _Plan(profile, trie, gpu_work, by, meaning.forests, meaning.compiled)

    def split_over_ops(self, sites: pl.DataFrame, value: Ints) -> SplitOverOps:
        """Divides sites of kernels that a compiler fused over their ops."""
        return split_over_ops(sites, value, self.compiled, self.forests)

    def sites(self, builder: TreeBuilder, sites: pl.DataFrame, forests: Mapping[str, Forest]) -> NodeIds:
        """The node of each site's kernel or copy."""
        process, thread = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread"))
        place = builder.add(np.zeros(len(sites), dtype=np.int64), self.trie.owners(), 1 + process)
        if self.by is not None:
            place = add_prefix(builder, place, sites, self.by, forests)
        no_launch = Forest.of_frames(frame_table([NO_LAUNCH_FRAME])[1:])
        place = builder.add(place, no_launch, (thread < 0).astype(np.int64))
        if self.by is None or self.by.code:
            place = launched_at(builder, place, self.profile, self.trie, sites)
        return builder.add(place, *item_nodes(self.profile, sites))


def _shared_out(sampled: Samples, took: Ints) -> tuple[Ints, Ints]:
    """Divides the values of sampled sites by their samples: the site and the value for each row of `sampled.placed`."""
    site = sampled.placed["site"].to_numpy()
    return site, scaled(site, sampled.placed["value"].to_numpy(), took[site])
