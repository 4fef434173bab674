"""What ran on devices, and where it was launched: kernels and copies joined with launches and graph nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.context import BRINGS, CONTEXT, Meaning
from aiflame.attribute.families import COLLECTIVE, families
from aiflame.attribute.gpu_graphs import captured_stacks
from aiflame.attribute.gpu_launches import LaunchTable
from aiflame.attribute.packing import packed
from aiflame.attribute.phases import Phase
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.stacks import Tables
from aiflame.attribute.variants import with_variants
from aiflame.profile.codes import CopyKind
from aiflame.profile.kinds import Kind

COPY_NAMES = {
    CopyKind.HOST_TO_DEVICE: "[copy host→device]",
    CopyKind.DEVICE_TO_HOST: "[copy device→host]",
    CopyKind.DEVICE_TO_DEVICE: "[copy device→device]",
    CopyKind.FILL: "[fill]",
    CopyKind.MAP: "[map]",
    CopyKind.PEER: "[copy device→other device]",
}
LONGEST_NS = 1 << 50
"""No kernel runs for more than this, 13 days, unless its record is damaged."""
MOST_BYTES = 1 << 50
NO_LAUNCH = -1
"""`thread` of a site whose launch is not known."""

JOIN = ["process", "api", "correlation"]
SITE = ["process", "thread", "stack", "graph", "captured", "kind", "name", "device", "readable", "told"]
_RAN = ["process", "api", "correlation", "node", "item", "start_ns", "end_ns", "bytes"]
Ints = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]
"""By name, a value for each that ran."""


@dataclass(frozen=True, slots=True)
class Work:
    sites: pl.DataFrame
    """Each place that something was launched from, with what: SITE, and `took` (ns), `launches`, `bytes` of all that ran from there.
    `graph`: it ran for a graph's node, that `captured` (a stack, 0: unknown) made. `readable` and `told`: short and full name of a kernel
    that is a known specialization, else null."""
    ran: pl.DataFrame
    """`site` (row of `sites`), `launch` (row of `launches` of its process, 0: unknown), `start_ns`, `end_ns` (never before the start),
    and where meaning was asked for `step`."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """How work is to be told apart beyond where it was launched."""

    by: Prefix
    meaning: Meaning | None
    """None where no column of CONTEXT is asked for."""


def work(profile: Tables, grouped: Grouped | None = None) -> Work:
    """All that ran on devices. A kernel's launch has its correlation id; of several launches with one id the first counts.

    `sites` have the columns of `grouped.by` too; without code, they are not told apart by the code that launched."""
    items, shapes, copies = _items(profile)
    ran = _records(profile, shapes, copies)
    launches = LaunchTable.of(profile)
    launch = launches.find(*(ran[name].to_numpy() for name in JOIN))
    told, made, specializations = _launched(profile, ran, items, launches, launch)
    more: list[str] = []
    if grouped is not None:
        told |= _told(profile, items, launches, told["item"], launch, made, grouped)
        more = [column for column in grouped.by.columns if column != "family"]
    names = ["process", "thread", "stack", "graph", "captured", "item", "specialization", *more]
    times = ran.select("start_ns", "end_ns", "bytes").with_columns(key=packed([told[name] for name in names], len(ran)))
    del ran
    summed = (
        times.lazy()
        .with_row_index("row")
        .group_by("key")
        .agg(
            pl.col("row").first(),
            took=(pl.col("end_ns") - pl.col("start_ns")).sum().cast(pl.Int64),
            launches=pl.len().cast(pl.Int64),
            bytes=pl.col("bytes").clip(upper_bound=MOST_BYTES).sum().cast(pl.Int64),
        )
        .collect()
    )
    first = summed["row"].to_numpy()
    sites = (
        summed.with_columns(pl.Series(name, told[name][first]) for name in names)
        .join(items, on="item", how="left", maintain_order="left")
        .join(specializations, on="specialization", how="left", maintain_order="left")
        .sort(SITE + more)
        .with_row_index("site")
    )
    number = np.append(launches.rows["id"].to_numpy(), np.uint32(0))[launch]
    when = {"launch": number, "start_ns": times["start_ns"], "end_ns": times["end_ns"]}
    site = times.select("key").join(sites.select("key", "site"), on="key", how="left", maintain_order="left")["site"]
    stepped = {"step": told["step"]} if "step" in told else {}
    return Work(sites.drop("site", "key", "row", "item", "specialization"), pl.DataFrame({"site": site, **when, **stepped}))


def bytes_of(profile: Tables, done: Work) -> Ints:
    """How much each of `done.ran` has moved: they stand there as they were read, kernels first."""
    moved = profile.scan("copies").select(pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64)).collect()["bytes"].to_numpy()
    found = np.zeros(len(done.ran), dtype=np.int64)
    found[len(found) - len(moved) :] = moved
    return found


def _records(profile: Tables, shapes: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """All kernels, then all copies: _RAN; a damaged end is none."""
    kernels = (
        profile.scan("kernels")
        .join(shapes.lazy(), on=["process", "shape"], how="left", maintain_order="left")
        .with_columns(pl.col("api").cast(pl.UInt32), pl.col("item").fill_null(0), bytes=pl.lit(0, dtype=pl.UInt64))
        .select(_RAN)
    )
    moved = (
        profile.scan("copies")
        .join(copies.lazy(), left_on=["kind", "device"], right_on=["copy", "device"], how="left", maintain_order="left")
        .with_columns(pl.col("item").fill_null(0))
        .select(_RAN)
    )
    longest = pl.col("start_ns") + LONGEST_NS
    end = pl.max_horizontal("start_ns", pl.min_horizontal("end_ns", longest))
    return pl.concat([kernels, moved]).with_columns(end_ns=end).collect()


def _launched(
    profile: Tables, ran: pl.DataFrame, items: pl.DataFrame, launches: LaunchTable, launch: Ints
) -> tuple[Columns, pl.DataFrame, pl.DataFrame]:
    """Of each that ran: process, thread, stack, graph, captured, item, specialization; then `row` and `made` (see `captured_stacks`) of
    those that ran for a graph's node; then the specializations."""
    graph = ran["node"].to_numpy() != 0
    nodes = ran.select("process", "node").with_row_index("row").filter(pl.Series(graph))
    made = nodes.join(captured_stacks(profile), on=["process", "node"], how="left", maintain_order="left")
    at = made["row"].to_numpy()
    captured, variant = np.zeros(len(ran), dtype=np.uint32), np.append(launches.rows["variant"].to_numpy(), np.uint32(0))[launch]
    captured[at] = made["captured"].fill_null(0).to_numpy()
    variant[at] = made["variant"].fill_null(0).to_numpy()
    chosen, specializations = with_variants(profile, ran.select("process", "item").with_columns(variant=variant), items)
    told = {
        "process": ran["process"].to_numpy(),
        "thread": np.append(launches.rows["thread"].to_numpy().astype(np.int64), NO_LAUNCH)[launch],
        "stack": np.append(launches.rows["stack"].to_numpy(), np.uint32(0))[launch],
        "graph": graph,
        "captured": captured,
        "item": ran["item"].to_numpy(),
        "specialization": chosen["specialization"].to_numpy(),
    }
    return told, made.select("process", "row", "made"), specializations


def _told(
    profile: Tables, items: pl.DataFrame, launches: LaunchTable, item: NDArray[Any], launch: Ints, made: pl.DataFrame, grouped: Grouped
) -> Columns:
    """What each was of. A graph's kernels have the step and region of their replay; phase, layer and op are those of their capture."""
    told: Columns = {}
    if grouped.meaning is not None:
        of_launches = _in_order(grouped.meaning.launches, launches)
        none = {"step": -1, "phase": int(Phase.OTHER)}
        told = {name: np.append(of_launches[name].to_numpy(), np.int32(none.get(name, 0)))[launch] for name in CONTEXT}
        of_capture = [name for name in CONTEXT if name not in ("step", "region")]
        nodes = grouped.meaning.nodes.select("process", *of_capture, made="node")
        known = made.join(nodes, on=["process", "made"]) if len(made) else made.clear()
        for name in of_capture if len(known) else ():
            told[name][known["row"].to_numpy()] = known[name].to_numpy()
        brings = np.append(of_launches[BRINGS].to_numpy(), False)[launch]
        copied = (items["name"] == COPY_NAMES[CopyKind.HOST_TO_DEVICE]).to_numpy()[item]
        told["phase"][copied & brings] = int(Phase.DATA)
        told["phase"][_is_collective(profile, items).to_numpy()[item]] = int(Phase.COMMUNICATION)
    if not grouped.by.code:
        zeros = np.zeros(len(item), dtype=np.uint32)
        told |= {"stack": zeros, "captured": zeros, "graph": zeros != 0, "thread": np.where(launch >= 0, 0, NO_LAUNCH)}
    return told


def _in_order(told: pl.DataFrame, launches: LaunchTable) -> pl.DataFrame:
    """What meaning says of launches, in the order of their table: that in which it asked about them."""
    key = ["process", "id"]
    rows = launches.rows.select(pl.col("process").cast(told.schema["process"]), pl.col("id").cast(told.schema["id"]))
    return told if told.select(key).equals(rows) else rows.join(told, on=key, how="left", maintain_order="left")


def _is_collective(profile: Tables, items: pl.DataFrame) -> pl.Series:
    return items["name"].is_in([name for name, family in families(profile, items["name"]).items() if family == COLLECTIVE])


def _items(profile: Tables) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """What runs: distinct kernels and kinds of copies on their devices, by number; and the number of each shape and kind of copy."""
    shapes = profile.table("kernel_shapes").select("process", "name", "device", shape="id").unique(["process", "shape"], keep="first")
    copies = profile.scan("copies").select("kind", "device").unique().collect()
    names = pl.col("kind").replace_strict({int(kind): name for kind, name in COPY_NAMES.items()}, default="[copy]", return_dtype=pl.String)
    copies = copies.select("device", name=names, copy="kind")
    kernel, copy = pl.lit(int(Kind.GPU_KERNEL), dtype=pl.UInt8), pl.lit(int(Kind.GPU_COPY), dtype=pl.UInt8)
    unknown = pl.DataFrame({"name": "[unknown kernel]", "device": ""}).select("name", "device", kind=kernel)
    found = pl.concat([shapes.select("name", "device", kind=kernel), copies.select("name", "device", kind=copy)]).unique()
    items = pl.concat([unknown, found]).with_row_index("item")
    of_shapes = shapes.join(items.filter(kind=int(Kind.GPU_KERNEL)), on=["name", "device"]).select("process", "shape", "item")
    of_copies = copies.join(items.filter(kind=int(Kind.GPU_COPY)), on=["name", "device"]).select("copy", "device", "item")
    return items, of_shapes.unique(["process", "shape"]), of_copies.unique(["copy", "device"])
