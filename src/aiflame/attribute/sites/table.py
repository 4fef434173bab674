"""The site table, from which every view of time in the report is computed: places in the code, their values, and the times of these.

A tree has one grouping of one metric; a site table has all of them. A *site* names a node in each of several *segments*; its *leaves* are
its values by the frames inside of it; its *moments* and *slots* say when it ran. The segments of a grouping, stacked on each other, give
the chains of frames and the sums of `build.tree`, without noise. Estimates (samples over launches, compiled kernels over ops) are divided
at sites here, and may differ by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.row_keys import ordered, summed
from aiflame.attribute.arrays.time_bins import Bins
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest, NodeIds, TreeBuilder
from aiflame.attribute.groupings import CATEGORY, GROUPING_ROWS, RANK, GroupingRow
from aiflame.attribute.sites.segments import Segment, forest_of, segments
from aiflame.attribute.sites.times import Times
from aiflame.attribute.transforms.noise import hidden_noise
from aiflame.attribute.transforms.reshape import without_nodes
from aiflame.attribute.tree import Metric
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

CONTEXTS = ("phase", "layer", "op", "region", "family", CATEGORY)
"""Segments of meaning. If some sites at a node have a node in such a segment, the others are placed under `[no layer]` …"""
INSIDE = "inside"


@dataclass(frozen=True, slots=True)
class Grouping:
    name: str
    label: str
    segments: tuple[str, ...]


def groupings_of(segments: Callable[[GroupingRow], tuple[str, ...]], *, ranks: bool) -> tuple[Grouping, ...]:
    """The groupings that have segments in a domain. `ranks`: the profile has several ranks."""
    rows = [row for row in GROUPING_ROWS if segments(row) and (ranks or row.name != RANK)]
    return tuple(Grouping(row.name, row.label, segments(row)) for row in rows)


@dataclass(frozen=True, slots=True)
class SiteTable:
    domain: str
    """device, cpu, wall, or own-0 … for the profile's own metrics"""
    metrics: tuple[Metric, ...]
    moments_of: Mapping[str, str]
    """For each metric, the one whose moments and slots show when its values occurred."""
    groupings: tuple[Grouping, ...]
    frames: pl.DataFrame
    """FRAME_COLUMNS; row 0 is unused"""
    segments: Mapping[str, Segment]
    """The forest of each segment, and of `inside`."""
    sites: pl.DataFrame
    """A node for each segment; `first`: when it first ran, in µs after the origin; `group`, `weight`"""
    leaves: pl.DataFrame
    """site, inside (node), a value for each metric, and on devices `launches`"""
    bins: Bins
    moments: pl.DataFrame
    """group, bin, and values: sorted by bin"""
    slots: int
    """Number of parts of a step."""
    steps: pl.DataFrame
    """number (of the row's first step), process (node), begin, end (ns after the origin), steady (1 or 0)"""
    slot_values: pl.DataFrame
    """group, step (row of `steps`), slot, and values"""
    steady: pl.DataFrame
    """As `Times.steady`"""
    notes: tuple[str, ...]
    window_ns: int
    """The usual length of a window of GPU sampling, 0: none. Samples have a kernel and a window, but no launch."""
    period_log2: int
    """Sampling period: 2^n cycles."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The data of a domain. Its nodes are those of forests that may have more nodes than the sites use."""

    forests: Mapping[str, Forest]
    """Forests of the segments, and of `inside`."""
    sites: pl.DataFrame
    """Rows like `SiteTable.sites`; groups are numbered from 0 in any order."""
    leaves: pl.DataFrame
    """Rows like `SiteTable.leaves`."""
    times: Times
    notes: tuple[str, ...]


def site_table(
    domain: str, metrics: tuple[Metric, ...], moments_of: Mapping[str, str], groupings: tuple[Grouping, ...], got: Gathered
) -> SiteTable:
    """Sorts sites by their code, and groups by their sites: neighbours are similar, and compress well."""
    names = [name for name in got.forests if name != INSIDE]
    parts = {name: (got.forests[name], _ints(got.sites, name)) for name in names}
    parts[INSIDE] = got.forests[INSIDE], _ints(got.leaves, INSIDE)
    times, steps = got.times, got.times.steps
    parts["process"] = parts["process"][0], np.concatenate([parts["process"][1], _ints(steps, "process")])
    frames, by_name, node = segments(parts)
    at, of_steps = np.split(node["process"], [len(got.sites)])
    node["process"] = at

    order = np.lexsort([node[name] for name in (*CONTEXTS, "kernel", "code", "process") if name in node])
    group = _ints(got.sites, "group")[order]
    _, first = np.unique(group, return_index=True)
    new_group = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    new_group[group[np.sort(first)]] = np.arange(len(first))
    columns = {name: node[name][order] for name in names}
    other = {name: _ints(got.sites, name)[order] for name in ("first", "weight")}
    sites = pl.DataFrame({**columns, **other, "group": new_group[group]})
    place = np.zeros(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))

    values = [name for name in got.leaves.columns if name not in ("site", INSIDE)]
    leaves = got.leaves.with_columns(site=pl.Series(place[_ints(got.leaves, "site")]), inside=pl.Series(node[INSIDE]))
    leaves = summed(leaves.select("site", INSIDE, *values), ("site", INSIDE))
    moments = times.moments.with_columns(group=pl.Series(new_group[_ints(times.moments, "group")]))
    slot_values = times.slot_values.with_columns(group=pl.Series(new_group[_ints(times.slot_values, "group")]))
    steady = times.steady.with_columns(group=pl.Series(new_group[_ints(times.steady, "group")]))
    steps = steps.with_columns(process=pl.Series(of_steps, dtype=pl.Int64))
    return SiteTable(
        domain,
        metrics,
        moments_of,
        groupings,
        frames,
        by_name,
        sites,
        leaves,
        times.bins,
        ordered(moments, ("bin", "group")),
        times.slots,
        steps,
        ordered(slot_values, ("step", "slot", "group")),
        ordered(steady, ("group",)),
        (*got.notes, *times.notes),
        times.window_ns,
        times.period_log2,
    )


def without_noise(builder: TreeBuilder, code: NodeIds) -> tuple[Forest, Ints]:
    """The tree without processes and without noise, as a forest; and the node of each place."""
    tree, place = builder.build()
    shown, at = without_nodes(tree, hidden_noise(tree) | (tree.kinds() == Kind.PROCESS))
    return forest_of(shown), at[place[code]].astype(np.int64)


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].cast(pl.Int64).to_numpy()
    return column
