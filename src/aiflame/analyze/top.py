"""Lists by time, heaviest first: functions, lines, modules, threads, processes, kernels, stall reasons of a GPU's warps, or layers, ops,
phases, steps …"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.step_times import Steps
from aiflame.attribute.arrays import nodes
from aiflame.attribute.groupings import LISTS, RANK
from aiflame.attribute.limits.bounds import COLUMNS, of_limits
from aiflame.attribute.tree import LAUNCHES, OF_LIMITS, Frame, Tree, frame_table
from aiflame.errors import AiflameError
from aiflame.json_text import json_text, schema
from aiflame.profile.schema.kinds import Kind

LINE_KINDS = [int(Kind.CPU_LINE), int(Kind.GPU_LINE)]


def top(tree: Tree, by: str = "function", metric: str | None = None, *, alike: bool = False) -> pl.DataFrame:
    """One row for each item, heaviest first: name, kind, self, total, self_percent, total_percent, file, line, module.

    `self` is the time in the item itself and sums up to the tree's total; `total` adds its callees, counted once where it
    calls itself. Where the tree knows how often each kernel was launched, there are also launches (by kernel, or by meaning) and mean (by
    kernel); where hardware counters were recorded, limit_percent, could_win and bound_by (`attribute.limits.bounds`). For a list by layer,
    region, op, phase, family, step or rank the tree must be grouped so.
    `alike`: layers whose paths differ in their indices alone are one row, `layers.*.mlp`, with the number of them in `layers`.
    """
    if by not in LISTS:
        raise AiflameError(f"cannot list the top by {by!r}: use {', '.join(LISTS)}")
    listed = LISTS[by]
    if listed.needed and not np.isin(tree.kinds(), listed.needed).any():
        others = [name for name, other in LISTS.items() if not other.needed]
        raise AiflameError(f"this profile cannot be listed by {by}, as {listed.lacking}: use {', '.join(others)}")
    metric = metric or tree.metrics[0].name
    asked = np.isin(tree.kinds(), listed.kinds)
    if by == RANK:
        asked &= tree.parent == 0  # processes that a rank has started belong to the rank
    at = nodes.nearest(tree.parent, asked)
    frames, frame = _whole_paths(tree, listed.kinds[0], listed.path) if listed.path else (tree.frames, tree.frame)
    alike &= by == "layer"
    if alike:
        frames = frames.with_columns(path="name", name=_group_of_layers(), full_name=_class_of_layer())
    items, item_of_frame = _items(frames, by)
    item = np.where(at >= 0, item_of_frame[frame[at]], 0)

    own = nodes.gather(item, tree.values[metric], len(items))
    total = totals_once(tree, item, at == np.arange(len(tree)), metric, len(items))
    total[0] = own[0]  # values outside of all items have no callees
    if by == "line":  # a function is in this list only for its time without a known line
        total[~items["kind"].is_in(LINE_KINDS).to_numpy() & (own == 0)] = 0
    whole = max(tree.total(metric), 1)
    counts = []
    if by == "kernel" and LAUNCHES in tree.metrics:
        launches = pl.Series("launches", nodes.gather(item, tree.values[LAUNCHES.name], len(items)))
        mean = pl.when(launches > 0).then(pl.Series(total) / launches)
        items = items.with_columns(launches, mean=mean)
        counts = ["launches", "mean"]
    elif listed.grouped and LAUNCHES in tree.metrics:
        launched = totals_once(tree, item, at == np.arange(len(tree)), LAUNCHES.name, len(items))
        launched[0] = nodes.gather(item, tree.values[LAUNCHES.name], len(items))[0]
        items = items.with_columns(launches=pl.Series(launched))
        counts = ["launches"]
    if OF_LIMITS[0] in tree.metrics:
        first = at == np.arange(len(tree))
        sums = {one.name.removeprefix("limits-"): totals_once(tree, item, first, one.name, len(items)) for one in OF_LIMITS}
        for one in OF_LIMITS:
            sums[one.name.removeprefix("limits-")][0] = nodes.gather(item, tree.values[one.name], len(items))[0]
        items = items.with_columns(pl.DataFrame(sums).select(of_limits()).get_columns())
        counts = [*counts, *COLUMNS]
    if alike:
        counts = ["layers", *counts]
    return (
        items.with_columns(pl.Series("self", own), pl.Series("total", total))
        .with_columns(self_percent=pl.col("self") * 100 / whole, total_percent=pl.col("total") * 100 / whole)
        .filter((pl.col("self") != 0) | (pl.col("total") != 0))
        .sort(["self", "total", "name"], descending=[True, True, False], maintain_order=True)
        .select("name", "kind", "self", "total", "self_percent", "total_percent", "file", "line", "module", *counts)
    )


def to_json(
    answer: pl.DataFrame,
    tree: Tree,
    metric: str,
    rows: int | None = None,
    steps: pl.DataFrame | None = None,
    scope: Mapping[str, object] | None = None,
    by_clock: Steps | None = None,
    used: Mapping[str, float] | None = None,
) -> str:
    """The answer for programs: {"metric", "unit", "total", "rows": [{"name", "kind", "self", …}]}; by step also {"steps": [{"phase",
    "total", "min", "median", "max"}]}, over all steps (`phases.over_steps`), the first for whole steps. docs/json.md has all."""
    listed = answer.head(rows) if rows is not None else answer
    kinds = [Kind(kind).name.lower() for kind in listed["kind"]]
    return json_text(
        {
            "schema": schema("top"),
            "scope": scope,
            "metric": metric,
            "unit": tree.metric(metric).unit,
            "total": tree.total(metric),
            "rows": [row | {"kind": kind} for row, kind in zip(listed.to_dicts(), kinds, strict=True)],
            **({"steps": steps.to_dicts()} if steps is not None else {}),
            **({"clock": asdict(by_clock)} if by_clock is not None else {}),
            **({"used": dict(used)} if used is not None else {}),
        },
        indent=1,
    )


def _group_of_layers() -> pl.Expr:
    layer = pl.col("kind") == int(Kind.LAYER)
    return pl.when(layer).then(collapsed(pl.col("name"))).otherwise("name")


def _class_of_layer() -> pl.Expr:
    """`layers.3.mlp (app.Mlp)` → `(app.Mlp)`: the path before it differs from layer to layer."""
    layer = pl.col("kind") == int(Kind.LAYER)
    return pl.when(layer).then(pl.col("full_name").str.extract(r"(\([^ ()]*\))$").fill_null("")).otherwise("full_name")


def _whole_paths(tree: Tree, kind: Kind, between: str) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The frames, and one for each path of frames of a kind, with the whole path as its name; and the row of each node."""
    row = tree.frame.astype(np.int64)
    of_kind = tree.kinds() == kind
    around = nodes.nearest(tree.parent, of_kind, strict=True)
    names = tree.frames["name"].to_list()
    row_of: dict[tuple[int, int], int] = {}
    paths: list[str] = []
    frames: list[int] = []
    for node in np.flatnonzero(of_kind).tolist():
        outer, frame = int(row[around[node]]) if around[node] >= 0 else -1, int(tree.frame[node])
        if (outer, frame) not in row_of:
            row_of[outer, frame] = len(names) + len(paths)
            paths.append(f"{paths[outer - len(names)]}{between}{names[frame]}" if outer >= 0 else names[frame])
            frames.append(frame)
        row[node] = row_of[outer, frame]
    whole = tree.frames[frames].with_columns(name=pl.Series(paths, dtype=pl.String))
    return pl.concat([tree.frames, whole]), row


def _items(frames: pl.DataFrame, by: str) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The distinct items, row 0 for values outside of all, and for each frame its item."""
    none = frame_table([Frame("[reason unknown]" if by == "stall" else f"[no {by}]", Kind.UNATTRIBUTED)])[1:]
    if by == "module":
        module = pl.when(pl.col("kind") == int(Kind.PYTHON)).then(pl.lit("Python")).when(pl.col("module") != "").then("module")
        empty = pl.lit("")
        frames = frames.with_columns(
            name=module.otherwise("name"),
            file=empty,
            line=pl.lit(0, dtype=pl.UInt32),
            full_name=empty,
            approximate=pl.lit(False),
        ).with_columns(kind=pl.col("kind").first().over("name"), module=pl.col("module").first().over("name"))
    same = [column for column in frames.columns if column not in ("approximate", "path")]
    items = pl.concat([none, frames], how="diagonal").unique(same, keep="first", maintain_order=True)
    if "path" in frames.columns:
        counted = frames.group_by(same).agg(layers=pl.col("path").n_unique().cast(pl.Int64))
        items = items.drop("path").join(counted, on=same, how="left", maintain_order="left").with_columns(pl.col("layers").fill_null(1))
    item = frames.join(items.with_row_index("item"), on=same, how="left", maintain_order="left")["item"]
    return items, item.to_numpy().astype(np.int64)


def totals_once(tree: Tree, item: NDArray[np.int64], decides: NDArray[np.bool_], metric: str, size: int) -> NDArray[np.int64]:
    """For each item the sum over its outermost nodes: those with no node of the same item above them."""
    place, count = nodes.preorder(tree.parent)
    own_nodes = np.flatnonzero(decides)
    order = own_nodes[np.lexsort((place[own_nodes], item[own_nodes]))]
    # A node's subtree is the run [place, place + count); among the nodes of an item, a node is inside the run of an earlier one or begins
    # after it.
    base = item[order] * (len(tree) + 1)
    reach = np.maximum.accumulate(base + place[order] + count[order]) if len(order) else base
    outermost = np.ones(len(order), dtype=np.bool_)
    outermost[1:] = base[1:] + place[order][1:] >= reach[:-1]
    chosen = order[outermost]
    return nodes.gather(item[chosen], tree.totals(metric)[chosen], size)
