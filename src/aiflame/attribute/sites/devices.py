"""Sites of devices: kernels, copies and their samples, with their context."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.row_keys import summed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.counters.metric_sums import Counted, counted_of_sites
from aiflame.attribute.counters.names import is_counted
from aiflame.attribute.devices.idle import IDLE, Device, Gaps, idle_times, summed_up
from aiflame.attribute.devices.places import NO_LAUNCH_FRAME, add_inside, family_nodes, item_nodes, launched_at
from aiflame.attribute.devices.samples import DRIVER, InWindows, Samples, elsewhere, samples
from aiflame.attribute.devices.scopes import Scopes, scopes
from aiflame.attribute.devices.work import Work, work_with
from aiflame.attribute.energy.gpu_energy import IDLE_ENERGY, Energy, energy
from aiflame.attribute.forest import Forest, TreeBuilder
from aiflame.attribute.groupings import ALONE, UNLAUNCHED
from aiflame.attribute.limits.kernels import could_win, of_sites
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, Meaning, of_devices
from aiflame.attribute.meaning.fewer_regions import fewer_regions
from aiflame.attribute.meaning.fused_split import SplitOverOps, split_over_ops
from aiflame.attribute.metrics import METRICS, SAMPLED, metric_row, on_devices
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.sites.segments import forest_of
from aiflame.attribute.sites.table import INSIDE, Gathered, SiteTable, groupings_of, site_table, without_noise
from aiflame.attribute.sites.times import device_times
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.tree import BYTES, COULD_WIN, ENERGY, GPU_LATENCY, GPU_STALLS, GPU_TIME, LAUNCHES, Frame, Metric, frame_table
from aiflame.attribute.trees.build import metrics
from aiflame.attribute.trees.rank_groups import grouped_by_rank, has_ranks
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

BY = Prefix(("phase", "layer", "op", "region"), code=True)
LIMITS = ("limits-counted", "limits-limit", "limits-by_memory")
"""Columns of leaves beside those of metrics, as OF_LIMITS of trees: the time of kernels whose limit is known, that at the limit, and the
part of it that the memory limits. By them the report colours frames."""
DIVIDED = (GPU_TIME.name, ENERGY.name, COULD_WIN.name, *LIMITS)
"""Columns whose values of a sampled kernel are divided over the frames inside it, and so are those of counters."""
_ITEM = ["name", "device", "kind", "readable", "detailed"]
_LONE = ["process", "why", "device", "function"]


def device_sites(profile: Tables) -> SiteTable:
    """The sites of devices."""
    profile = Analysis.of(profile)
    there = [name for name in metrics(profile) if on_devices(name)]
    trie = functions(profile)
    meaning = of_devices(profile)
    profile.used(of_devices)
    fewer = fewer_regions(meaning.launches, meaning.forests["region"])
    launches = fewer.of(meaning.launches.select("process", "id", *CONTEXT, BRINGS))  # there may be very many
    meaning = replace(meaning, launches=launches, forests={**meaning.forests, "region": fewer.forest})
    del launches
    code, gpu_work = _by_frames(profile, trie, work_with(profile, BY, meaning))
    meaning = replace(meaning, launches=meaning.launches.clear(), nodes=meaning.nodes.clear())
    in_windows = InWindows(gpu_work)
    sampled = {
        name: samples(profile, gpu_work, not_issued=name == GPU_LATENCY.name, in_windows=in_windows) for name in SAMPLED if name in there
    }
    recorded = scopes(profile)
    inside, of_points, of_scopes = _inside(profile, sampled, recorded)
    parts = _Parts.of(gpu_work.sites, meaning)
    resting = idle_times(gpu_work, profile.table("processes"))
    energies = energy(profile, gpu_work) if ENERGY.name in there else None
    counted = dict(counted_of_sites(profile, gpu_work, *(name for name in there if is_counted(name))))
    limits: dict[str, Ints] = {}
    if COULD_WIN.name in there:
        counted[COULD_WIN.name] = could_win(profile, gpu_work)
        by_limit = of_sites(profile, gpu_work)
        limits = {name: by_limit[name.removeprefix("limits-")] for name in LIMITS}
    lone, lone_values = _lone(profile, resting, sampled, energies, counted)

    forests, sites = _sites(profile, parts, gpu_work.sites, lone)
    values = [parts.whole(gpu_work.sites, energies, counted, limits)]
    for name, of in sampled.items():
        placed = parts.placed(of, of_points[name], name)
        if name == GPU_STALLS.name:
            values = [parts.timed(values[0], placed)]
        values.append(placed)
    values[0] = parts.scoped(values[0], recorded, of_scopes)
    for name, rows in lone_values.items():
        point = np.append(of_points[name], 0)[_ints(rows, "point")] if name in of_points else np.zeros(len(rows), dtype=np.int64)
        values.append(pl.DataFrame({"site": len(parts.sites) + _ints(rows, "lone"), INSIDE: point, name: rows["value"]}))
    blank = pl.DataFrame(schema=dict.fromkeys(("site", INSIDE, *there, *limits, LAUNCHES.name), pl.Int64))
    leaves = pl.concat([blank, *(rows.cast(pl.Int64) for rows in values)], how="diagonal").select(blank.columns).fill_null(0)

    when = device_times(profile, gpu_work, meaning.steps, sampled.get(GPU_STALLS.name), lone, resting)
    sites = sites.join(when.first, on="group", how="left", maintain_order="left").with_columns(pl.col("first").fill_null(0))
    forests |= {"process": trie.owners(), "code": code, INSIDE: inside}
    groupings = groupings_of(lambda row: row.on_devices, ranks=has_ranks(profile))
    gathered = Gathered(*grouped_by_rank(profile, forests, sites), leaves, when, fewer.notes)
    measured = tuple(_metric(name, energies, counted) for name in there)
    moments = {name: moments_of(name) for name in (*METRICS, *there) if on_devices(name)}
    return site_table("device", measured, moments, groupings, gathered)


def moments_of(name: str) -> str:
    """The metric by which a metric's values are placed in time."""
    row = metric_row(name)
    return (row.moments or row.metric).name


def _metric(name: str, energies: Energy | None, counted: Mapping[str, Counted]) -> Metric:
    """The metric, with the label that says how it was measured."""
    metric = metric_row(name).metric
    of = energies if name == ENERGY.name else counted.get(name)
    return replace(metric, label=metric.label + of.label) if of is not None else metric


def _by_frames(profile: Tables, trie: Functions, gpu_work: Work) -> tuple[Forest, Work]:
    """The same work, with sites by launching function instead of instruction; `code` is a node of the forest, which has no noise."""
    sites = gpu_work.sites
    builder = TreeBuilder()
    place = builder.add(np.zeros(len(sites), dtype=np.int64), trie.owners(), 1 + _ints(sites, "process"))
    place = launched_at(builder, place, profile, trie, sites)
    forest, code = without_noise(builder, place)
    same = ["process", UNLAUNCHED, "code", *_ITEM, *BY.columns]
    merged = (
        sites.with_columns(pl.Series("code", code), (pl.col("thread") < 0).cast(pl.Int64).alias(UNLAUNCHED))
        .with_row_index("old")
        .group_by(same, maintain_order=True)
        .agg(pl.col("took", "launches", "bytes").sum(), "old")
    )
    old = merged["old"]
    number = np.zeros(len(sites), dtype=np.uint32)
    number[old.explode().to_numpy()] = np.repeat(np.arange(len(merged), dtype=np.uint32), old.list.len().to_numpy())
    executions = gpu_work.executions.with_columns(site=pl.Series(number).gather(gpu_work.executions["site"])).rechunk()
    return forest, Work(merged.drop("old"), executions)


def _inside(profile: Tables, sampled: Mapping[str, Samples], recorded: Scopes) -> tuple[Forest, dict[str, Ints], Ints]:
    """The frames inside kernels, as a forest; for each metric, the node of each of its points; and the node of each node of recorded
    scopes."""
    builder = TreeBuilder()
    counts = {name: len(of.points) for name, of in sampled.items()}
    place = np.zeros(sum(counts.values()), dtype=np.int64)
    if sampled:
        points = pl.concat([of.points for of in sampled.values()])
        place = add_inside(builder, profile, points, place, np.arange(len(points)), "instruction")
    nodes = np.arange(len(recorded.forest.parent))
    of_scopes = builder.add(np.zeros(len(nodes), dtype=np.int64), recorded.forest, nodes)
    tree, at = builder.build()
    ends = np.cumsum(list(counts.values()), dtype=np.int64)
    return forest_of(tree), dict(zip(counts, np.split(at[place], ends[:-1]) if counts else [], strict=True)), at[of_scopes]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Sites, with those of compiled kernels divided over the ops from which they were fused: a group of parts for each."""

    divided: SplitOverOps
    part: Ints
    """For each divided row its row of `sites`: parts of a group with the same layer and op are merged."""
    sites: pl.DataFrame
    """The columns of the divided rows, and `group`, `weight`, `took`"""

    @staticmethod
    def of(sites: pl.DataFrame, meaning: Meaning) -> _Parts:
        divided = split_over_ops(sites, sites["took"].to_numpy(), meaning.compiled, meaning.forests)
        rows = divided.rows.select("layer", "op").with_columns(group=pl.Series(divided.division.item))
        same = rows.with_row_index("row").select(pl.col("row").min().over("group", "layer", "op"))["row"].to_numpy()
        first, part = np.unique(same, return_inverse=True)
        took = np.bincount(part, divided.division.value, len(first)).astype(np.int64)
        group = divided.division.item[first]
        several = np.bincount(group, minlength=len(sites))[group] > 1
        weight = np.where(several, np.maximum(took, 1), 1)
        return _Parts(
            divided, part, divided.rows[first].with_columns(group=pl.Series(group), weight=pl.Series(weight), took=pl.Series(took))
        )

    def whole(
        self, sites: pl.DataFrame, energies: Energy | None, counted: Mapping[str, Counted], limits: Mapping[str, Ints]
    ) -> pl.DataFrame:
        """The values of whole kernels and copies by site. A launch counts once, at the first part of its site."""
        _, first = np.unique(self.sites["group"].to_numpy(), return_index=True)
        launches = np.zeros(len(self.sites), dtype=np.int64)
        launches[first] = sites["launches"].to_numpy()
        columns = {GPU_TIME.name: self.sites["took"], BYTES.name: self._divided(_ints(sites, "bytes")), LAUNCHES.name: launches}
        if energies is not None:
            columns[ENERGY.name] = self._divided(energies.sites)
        columns |= {name: self._divided(of.sites) for name, of in counted.items()}
        columns |= {name: self._divided(of) for name, of in limits.items()}
        return pl.DataFrame({"site": np.arange(len(self.sites)), INSIDE: 0, **columns})

    def _divided(self, of_sites: Ints) -> Ints:
        """Divides a value of each site over the site's parts."""
        row, _, value = self.divided.divide(np.arange(len(of_sites)), of_sites)
        of_parts = np.zeros(len(self.sites), dtype=np.int64)
        np.add.at(of_parts, self.part[row], value)
        return of_parts

    def placed(self, sampled: Samples, of_points: Ints, metric: str) -> pl.DataFrame:
        """site, inside and the metric, in the order of sites and points: samples, divided as their sites are."""
        site, point, value = (_ints(sampled.placed, name) for name in ("site", "point", "value"))
        row, which, value = self.divided.divide(site, value)
        rows = pl.DataFrame({"site": self.part[row], "point": point[which], metric: value})
        rows = summed(rows, ("site", "point"))
        return rows.select("site", pl.Series(INSIDE, of_points[_ints(rows, "point")]), metric)

    def timed(self, whole: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
        """`whole`, with the time (energy, counts) of each sampled site divided over the frames inside by the site's samples."""
        site, stalls = _ints(placed, "site"), _ints(placed, GPU_STALLS.name)
        sampled = np.zeros(len(self.sites), dtype=np.bool_)
        sampled[site] = True
        inner, outer = placed.select("site", INSIDE), whole
        for name in whole.columns:
            if name in DIVIDED or is_counted(name):
                took = _ints(whole, name)
                inner = inner.with_columns(pl.Series(name, scaled(site, stalls, took[site])))
                outer = outer.with_columns(pl.Series(name, np.where(sampled, 0, took)))
        return pl.concat([outer.cast(pl.Int64), inner.cast(pl.Int64)], how="diagonal")

    def scoped(self, whole: pl.DataFrame, recorded: Scopes, of_scopes: Ints) -> pl.DataFrame:
        """`whole`, with the time of kernels that recorded scopes divided by these instead of by samples."""
        kernels = np.flatnonzero(self.sites["kind"].to_numpy() == int(Kind.GPU_KERNEL))
        if not len(recorded.weights) or not len(kernels):
            return whole
        row, node, value = recorded.divide(self.sites[kernels], _ints(self.sites, "took")[kernels])
        site = kernels[row]
        elsewhere = ~np.isin(_ints(whole, "site"), site)
        time = pl.Series(GPU_TIME.name, np.where(elsewhere, whole[GPU_TIME.name].fill_null(0).to_numpy(), 0))
        inner = pl.DataFrame({"site": site, INSIDE: of_scopes[node], GPU_TIME.name: value})
        return pl.concat([whole.with_columns(time).cast(pl.Int64), inner.cast(pl.Int64)], how="diagonal")


def _lone(
    profile: Tables,
    resting: Mapping[Device, Gaps],
    sampled: Mapping[str, Samples],
    energies: Energy | None,
    counted: Mapping[str, Counted],
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Rows directly under their process (process, why, device, sampled function or "", kind), and their values for each metric: lone (row),
    point, value."""
    by_metric = {GPU_TIME.name: [summed_up(resting).with_columns(why=pl.lit(IDLE), kind=pl.lit(int(Kind.GPU_IDLE)))]}
    if energies is not None:
        by_metric[ENERGY.name] = [energies.idle.with_columns(why=pl.lit(IDLE_ENERGY), kind=pl.lit(int(Kind.GPU_IDLE)))]
    for name, measured in counted.items():
        by_metric[name] = [measured.remainder.rename({"name": "why"}).with_columns(kind=pl.lit(int(Kind.GPU_IDLE)))]
    for name, of in sampled.items():
        function = pl.when("called").then(pl.lit("")).otherwise("function").alias("function")
        lost = of.unplaced.join(of.points.with_row_index("point"), on="point", how="left", maintain_order="left")
        by_metric[name] = [lost.select("process", "device", "why", "point", "value", function)]
    if GPU_STALLS.name in sampled:
        kind = pl.when(pl.col("why") == DRIVER).then(int(Kind.GPU_KERNEL)).otherwise(int(Kind.UNATTRIBUTED))
        by_metric[GPU_STALLS.name].append(elsewhere(profile).with_columns(kind=kind))
    columns = {
        "process": pl.UInt32,
        "why": pl.String,
        "device": pl.String,
        "function": pl.String,
        "kind": pl.UInt8,
        "point": pl.Int64,
        "value": pl.Int64,
    }
    rows = {
        name: pl.concat(
            [pl.DataFrame(schema=columns), *(each.cast({c: t for c, t in columns.items() if c in each.columns}) for each in of)],
            how="diagonal",
        )
        for name, of in by_metric.items()
    }
    rows = {
        name: of.with_columns(
            pl.col("function").fill_null(""), pl.col("point").fill_null(-1), pl.col("kind").fill_null(int(Kind.UNATTRIBUTED))
        )
        for name, of in rows.items()
    }
    lone = pl.concat(list(rows.values())).select(*_LONE, "kind").unique(_LONE, maintain_order=True)
    numbered = lone.with_row_index("lone").drop("kind")
    return lone, {name: of.join(numbered, on=_LONE, maintain_order="left").select("lone", "point", "value") for name, of in rows.items()}


def _sites(profile: Tables, parts: _Parts, whole: pl.DataFrame, lone: pl.DataFrame) -> tuple[dict[str, Forest], pl.DataFrame]:
    """The forests of segments, and the sites' nodes, group and weight. Rows directly under their process come last, each with a group of
    its own."""
    own = parts.sites
    kernel = pl.lit(int(Kind.GPU_KERNEL), pl.UInt8)
    sampled = lone.filter(pl.col("function") != "").select("device", name="function", kind=kernel)
    kernels, kernel_node = item_nodes(profile, pl.concat([own.select(_ITEM), sampled], how="diagonal"))
    families, family = family_nodes(profile, own["name"])
    reasons = lone.select("why", "kind", "device").unique(maintain_order=True)
    alone = Forest.of_frames(frame_table([Frame(why, Kind(kind), module=device) for why, kind, device in reasons.rows()])[1:])
    reason = lone.join(reasons.with_row_index("node", offset=1), on=["why", "kind", "device"], how="left", maintain_order="left")["node"]
    of_lone = np.zeros(len(lone), dtype=np.int64)
    of_lone[(lone["function"] != "").to_numpy()] = kernel_node[len(own) :]

    mine = own.select(
        (pl.col("process").cast(pl.Int64) + 1).alias("process"),
        *(pl.col(name).cast(pl.Int64) for name in (*BY.columns, UNLAUNCHED, "code", "group", "weight")),
        family=pl.Series(family),
        kernel=pl.Series(kernel_node[: len(own)]),
    )
    others = lone.select(
        (pl.col("process").cast(pl.Int64) + 1).alias("process"),
        pl.Series(ALONE, reason, dtype=pl.Int64),
        kernel=pl.Series(of_lone),
        group=pl.int_range(len(whole), len(whole) + pl.len(), dtype=pl.Int64),
        weight=pl.lit(1, pl.Int64),
    )
    forests = {
        ALONE: alone,
        **{name: parts.divided.forests[name] for name in BY.columns},
        "family": families,
        UNLAUNCHED: Forest.of_frames(frame_table([NO_LAUNCH_FRAME])[1:]),
        "kernel": kernels,
    }
    return forests, pl.concat([mine.cast(pl.Int64), others], how="diagonal").fill_null(0)


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].cast(pl.Int64).to_numpy()
    return column
