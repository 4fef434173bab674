"""Kernels and copies for a timeline: each with its stream, the call that launched it, and its context."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.chunks import pieces as pieces_of
from aiflame.attribute.arrays.chunks import take_or
from aiflame.attribute.arrays.lookup import find_rows
from aiflame.attribute.arrays.row_keys import by_time, packed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.graphs import captured_stacks
from aiflame.attribute.devices.inside import kernel_names
from aiflame.attribute.devices.launches import LaunchIndex
from aiflame.attribute.devices.records import COPY_NAMES, LONGEST_NS
from aiflame.attribute.devices.work import JOIN
from aiflame.attribute.meaning.context import BRINGS, Meaning
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.meaning.specializations import Specializations
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.spans import lanes, path_spans, pieces
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, Owners, SliceKind, TrackKind
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

NO_DEVICE = "[unknown device]"
_NUMBERS = ("registers", "static_shared", "dynamic_shared", "local_bytes")
FACTS = ("layer", "op", "phase", "stack", "captured", "grid", "block", *_NUMBERS, "bytes", "full_name")
"""Facts of a kernel or copy. `captured`: the stack that captured its node of the graph that was launched at `stack`."""
_ALIKE = ["process", "item", "specialization", "stack", "captured", "phase", "layer", "op", "bytes"]
"""Executions with equal values in these columns have the same name and facts."""


@dataclass(frozen=True, slots=True)
class Launched:
    """For each row of `launches`, the work that it launched."""

    first: NDArray[np.uint32]
    """Number of its first arrow, 0: none."""
    arrows: NDArray[np.uint32]
    records: NDArray[np.uint32]
    """The number of its kernels and copies."""
    name: NDArray[np.uint32]
    """The name of the first one, as a row of the timeline's names; undefined if there is none."""


def device_work(profile: Tables, making: Making, owners: Owners, contexts: Contexts, stacks: Stacks, launches: pl.DataFrame) -> Launched:
    """Adds all work of devices to tracks. `launches`: JOIN, variant, stack, begin_ns, row by row as in `contexts.meaning.launches`."""
    items = _items(profile)
    specializations = Specializations.of(profile, items)
    parts_alike: list[pl.DataFrame] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in _RAN}
    for piece in _executions(profile, items, launches):
        rows = _with_context(profile, piece, items, contexts.meaning)
        numbers = specializations.numbers(*(rows[name].to_numpy() for name in ("process", "variant", "item")))
        rows = rows.with_columns(pl.col("bytes").fill_null(0), pl.Series("specialization", numbers))
        which = packed([rows[name].to_numpy() for name in _ALIKE], len(rows))
        alike = rows.select(_ALIKE).with_columns(key=pl.Series(which)).unique("key").sort("key")
        place = np.searchsorted(alike["key"].to_numpy(), which) + sum(map(len, parts_alike))
        parts_alike.append(alike.drop("key"))
        for name, parts in columns.items():
            parts.append((place if name == "alike" else rows[name].to_numpy()).astype(_RAN[name]))
    alike, number = _numbered(parts_alike)
    executions = _Executions.of({name: np.concatenate(columns.pop(name)) for name in list(columns)}, number, alike, items)
    alike = _alike(making, contexts, stacks, alike, items, specializations.rows)
    launched, flow = _arrows(executions, alike["name"].to_numpy(), launches["begin_ns"].to_numpy())
    _put(making, owners, contexts, executions, alike, flow)
    return launched


_RAN = {"alike": np.uint32, "stream": np.uint32, "start_ns": np.int64, "end_ns": np.int64, "launch": np.int32, "step": np.int32}
"""The columns that are kept for each execution: there may be ten million. `alike` stands for the columns that many executions share."""


@dataclass(frozen=True, slots=True)
class _Executions:
    """Kernels and copies, by process, device, stream and time."""

    alike: NDArray[np.uint32]
    """Row of _ALIKE."""
    start_ns: Ints
    end_ns: Ints
    launch: NDArray[np.int32]
    """Row of its launch, -1: unknown."""
    step: NDArray[np.int32]
    stream: NDArray[np.uint32]
    """Row of `streams`."""
    streams: pl.DataFrame
    """process, device, stream"""

    @staticmethod
    def of(columns: dict[str, NDArray[Any]], number: NDArray[np.uint32], alike: pl.DataFrame, items: pl.DataFrame) -> _Executions:
        """`number`: the row of `alike` for each value of that column."""
        owners = alike.select("process", device=items["device"].gather(alike["item"]))
        distinct = owners.unique().sort("process", "device").with_row_index("owner")
        owner = owners.join(distinct, on=["process", "device"], how="left", maintain_order="left")["owner"].to_numpy()
        columns["alike"] = number[columns["alike"]]
        key = owner[columns["alike"]].astype(np.int64) << 32 | columns.pop("stream")
        distinct_keys, stream = _distinct(key)
        del key
        order = by_time(stream, columns["start_ns"], columns["end_ns"])
        if order is not None:
            stream = stream[order]
            for name in columns:
                columns[name] = columns[name][order]
        streams = distinct[distinct_keys >> 32].select("process", "device", stream=pl.Series(distinct_keys & 0xFFFFFFFF))
        return _Executions(**columns, stream=stream, streams=streams)


def _numbered(parts: list[pl.DataFrame]) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """The distinct rows of all parts in order, and for each row of the parts its place among them."""
    every = pl.concat(parts)
    distinct = every.unique().sort(_ALIKE)
    number = every.join(distinct.with_row_index("row"), on=_ALIKE, how="left", maintain_order="left")["row"]
    return distinct, number.to_numpy().astype(np.uint32)


def _distinct(key: Ints) -> tuple[Ints, NDArray[np.uint32]]:
    """The distinct values, sorted, and for each value its place among them. They are few, and often repeat in a row."""
    distinct = pl.Series(key).unique().sort().to_numpy()
    return distinct, np.searchsorted(distinct, key).astype(np.uint32)


def _items(profile: Tables) -> pl.DataFrame:
    """Kernels by shape and copies by kind and device, numbered, with all their recorded attributes."""
    shapes = profile.table("kernel_shapes").unique(["process", "id"], keep="first", maintain_order=True)
    sizes = {
        each: pl.when(pl.col(f"{each}_x") > 0).then(pl.format("{} × {} × {}", f"{each}_x", f"{each}_y", f"{each}_z")).otherwise(pl.lit(""))
        for each in ("grid", "block")
    }
    kernels = shapes.select("process", "name", "device", *(pl.col(each).cast(pl.UInt64) for each in _NUMBERS), shape="id", **sizes)
    kernels = kernels.join(kernel_names(profile), on="name", how="left", maintain_order="left")
    of_kind = pl.col("copy").replace_strict(
        {int(kind): name for kind, name in COPY_NAMES.items()}, default="[copy]", return_dtype=pl.String
    )
    copies = profile.scan("copies").select("device", copy="kind").unique().sort("device", "copy").collect().with_columns(name=of_kind)
    unknown = pl.DataFrame({"name": ["[unknown kernel]"], "device": [""]})
    device = pl.when(pl.col("device") == "").then(pl.lit(NO_DEVICE)).otherwise("device")
    return pl.concat([unknown, kernels, copies], how="diagonal").with_columns(device=device).with_row_index("item")


def _executions(profile: Tables, items: pl.DataFrame, launches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Each kernel and copy, in pieces, with the row of its launch as `launch` (-1: unknown); if several launches have one correlation id,
    the first counts."""
    shapes = items.filter(pl.col("shape").is_not_null()).sort("process", "shape")
    shape_keys, item_of_shape = shapes["process"].cast(pl.Int64).to_numpy() << 32 | shapes["shape"].to_numpy(), shapes["item"].to_numpy()
    kinds = items.filter(pl.col("copy").is_not_null()).select(kind="copy", named_device="device", item="item")
    longest = pl.col("start_ns") + LONGEST_NS
    common = [pl.col(name) for name in ("process", "correlation", "node", "stream", "start_ns", "end_ns")]
    named_device = pl.when(pl.col("device") == "").then(pl.lit(NO_DEVICE)).otherwise("device").alias("named_device")
    api = pl.col("api").cast(pl.UInt32)
    kernels = pieces_of(profile.scan("kernels").select(*common, api, "shape", bytes=pl.lit(None, pl.UInt64)))
    copies = pieces_of(profile.scan("copies").select(*common, api, "kind", named_device, "bytes"))
    index = LaunchIndex.of(*(launches[name].to_numpy() for name in (*JOIN, "id")))
    captured = captured_stacks(profile)
    of_kernels = (
        rows.with_columns(
            item=pl.Series(take_or(item_of_shape, find_rows(shape_keys, _ints(rows, "process") << 32 | _ints(rows, "shape")), 0))
        )
        for rows in kernels
    )
    of_copies = (
        rows.join(kinds, on=["kind", "named_device"], how="left", maintain_order="left").with_columns(pl.col("item").fill_null(0))
        for rows in copies
    )
    for executions in chain(of_kernels, of_copies):
        launch = index.find(*(executions[name].to_numpy() for name in JOIN))
        stack, variant = (take_or(launches[name].to_numpy(), launch, 0) for name in ("stack", "variant"))
        yield (
            _of_graphs(
                executions.with_columns(pl.Series("launch", launch), pl.Series("stack", stack), pl.Series("variant", variant)), captured
            )
            .with_columns(pl.col("start_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64))
            .select(
                "process",
                "item",
                "stream",
                "bytes",
                "start_ns",
                "made",
                "launch",
                "stack",
                pl.col("captured").fill_null(0),
                end_ns=pl.max_horizontal("start_ns", pl.min_horizontal("end_ns", longest)),
                variant=pl.when(pl.col("node") != 0).then("variant_made").otherwise("variant").fill_null(0),
            )
        )


def _of_graphs(executions: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """Adds the capture of graph nodes. Most programs have no graphs, and a join would copy every column."""
    if (executions["node"] != 0).any():
        return executions.join(captured, on=["process", "node"], how="left", suffix="_made", maintain_order="left")
    columns = {name: kind for name, kind in captured.schema.items() if name not in ("process", "node")}
    return executions.with_columns(
        pl.lit(None, kind).alias(f"{name}_made" if name in executions.columns else name) for name, kind in columns.items()
    )


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].to_numpy().astype(np.int64)
    return column


def _with_context(profile: Tables, executions: pl.DataFrame, items: pl.DataFrame, meaning: Meaning) -> pl.DataFrame:
    """Adds the context of each execution. A graph's kernels have the step of their replay; their phase, layer and op are those of their
    capture."""
    launch = executions["launch"].to_numpy()

    def of(name: str, nothing: int) -> NDArray[np.int32]:
        column = meaning.launches[name].to_numpy()
        if not len(column):
            return np.full(len(launch), nothing, dtype=np.int32)
        values: NDArray[np.int32] = np.where(launch >= 0, column[launch].astype(np.int32), np.int32(nothing))
        return values

    columns = {"step": of("step", -1), "phase": of("phase", int(Phase.OTHER)), "layer": of("layer", 0), "op": of("op", 0)}
    brings = of(BRINGS, 0).astype(np.bool_)
    graph = np.flatnonzero(executions["made"].is_not_null().to_numpy())
    if len(graph):
        captured = meaning.nodes.select(pl.col("process").cast(pl.UInt32), pl.col("node").alias("made"), "phase", "layer", "op")
        nodes = executions[graph].select("process", "made").join(captured, on=["process", "made"], how="left", maintain_order="left")
        captured_here = nodes["phase"].is_not_null().to_numpy()
        for name in ("phase", "layer", "op"):
            columns[name][graph[captured_here]] = nodes[name].drop_nulls().to_numpy()
    item = executions["item"].to_numpy()
    collective = [name for name, family in families(profile, items["name"]).items() if family == COLLECTIVE]
    columns["phase"][items["name"].is_in(collective).to_numpy()[item]] = Phase.COMMUNICATION
    to_device = (items["copy"] == int(CopyKind.HOST_TO_DEVICE)).fill_null(False).to_numpy()[item]
    columns["phase"][to_device & brings] = Phase.DATA
    return executions.drop("made").with_columns(pl.Series(name, values) for name, values in columns.items())


def _alike(
    making: Making, contexts: Contexts, stacks: Stacks, distinct: pl.DataFrame, items: pl.DataFrame, specializations: pl.DataFrame
) -> pl.DataFrame:
    """The distinct _ALIKE of all executions, with the kind of slice, the row of its name and the number of its set of facts."""
    named = distinct.join(items.drop("process"), on="item", how="left", maintain_order="left").join(
        specializations, on="specialization", how="left", maintain_order="left"
    )
    process = distinct["process"].to_numpy().astype(np.int64)
    tops = {name: stacks.tops(process, distinct[name].to_numpy().astype(np.int64)) for name in ("stack", "captured")}
    copied = pl.col("copy").is_not_null()
    sets = named.with_columns(
        *(pl.Series(name, contexts.texts(name, named[name].to_list()), dtype=pl.String) for name in ("phase", "layer", "op")),
        *(pl.Series(name, lines, dtype=pl.List(pl.String)) for name, lines in tops.items()),
        full_name=pl.coalesce("detailed", "full", "name"),
        bytes=pl.when(copied).then("bytes"),
    )
    name = making.names(named.select(pl.coalesce("readable", "short", "name"))["readable"].to_list())
    kind = pl.when(copied).then(int(SliceKind.COPY)).otherwise(int(SliceKind.KERNEL))
    return distinct.with_columns(
        named.select(kind.cast(pl.UInt8).alias("kind"))["kind"],
        name=pl.Series(name.astype(np.uint32)),
        facts=pl.Series(making.facts(sets, FACTS).astype(np.uint32)),
    )


def _arrows(executions: _Executions, name_of: NDArray[np.uint32], called_ns: NDArray[np.uint64]) -> tuple[Launched, NDArray[np.uint32]]:
    """Arrows from launches to their executions, numbered by launch; and the arrow of each execution. No arrow points back in time."""
    launch, many = executions.launch, len(called_ns)
    order = np.flatnonzero(launch >= 0).astype(np.int32)
    of = launch[order]
    if (of[1:] < of[:-1]).any():
        order = order[np.argsort(of, kind="stable")]
        of = launch[order]
    records = np.bincount(of, minlength=many).astype(np.uint32)
    first = np.zeros(many, dtype=np.uint32)
    first[of[::-1]] = name_of[executions.alike[order[::-1]]]
    late = executions.start_ns[order] >= np.minimum(called_ns, LATEST).astype(np.int64)[of]
    order, of = order[late], of[late]
    flow = np.zeros(len(launch), dtype=np.uint32)
    flow[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
    arrows = np.bincount(of, minlength=many).astype(np.uint32)
    begin = np.cumsum(arrows, dtype=np.uint32) - arrows + np.uint32(1)
    begin[arrows == 0] = 0
    return Launched(begin, arrows, records, first), flow


def _put(
    making: Making, owners: Owners, contexts: Contexts, executions: _Executions, alike: pl.DataFrame, flow: NDArray[np.uint32]
) -> None:
    """Adds work to the tracks of streams, and the context of each stream's work to tracks above them."""
    begin, end, stream = executions.start_ns, executions.end_ns, executions.stream
    lane = lanes(stream, begin, end)
    context = {name: alike[name].to_numpy() for name in ("phase", "layer", "op")}
    columns = {name: alike[name].to_numpy() for name in ("kind", "name", "facts")}
    tracks = _tracks(making, owners, executions.streams, _meant(executions, context), _most(stream, lane, len(executions.streams)))
    first = np.flatnonzero(lane == 0).astype(np.int32)
    for piece in pieces(contexts.cuts(stream[first], executions.step[first], context["phase"][executions.alike[first]])):
        here = first[piece]
        meant = [executions.step[here], *(context[name][executions.alike[here]] for name in ("phase", "layer", "op"))]
        spans, _ = path_spans(tracks[stream[here], 0], begin[here], end[here], contexts.levels(*meant))
        making.slices(contexts.named(spans))
    for piece in pieces(np.ones(len(stream), dtype=np.bool_)):
        rows = {name: column[executions.alike[piece]] for name, column in columns.items()}
        arrows = flow[piece]
        rows |= {"begin_ns": begin[piece], "end_ns": end[piece], "step": executions.step[piece], "flow": arrows, "flows": arrows > 0}
        rows["launch"] = executions.launch[piece]
        rows |= {"track": tracks[stream[piece], 1 + lane[piece]], "depth": np.zeros(len(arrows), dtype=np.uint16)}
        making.slices(pl.DataFrame(rows))


def _meant(executions: _Executions, context: dict[str, NDArray[np.int32]]) -> set[int]:
    """The streams whose work has a step, phase, layer or op."""
    more = (context["phase"] != int(Phase.OTHER)) | (context["layer"] > 0) | (context["op"] > 0)
    return set(pl.Series(executions.stream[more[executions.alike] | (executions.step >= 0)]).unique().to_list())


def _most(stream: NDArray[np.uint32], lane: Ints, streams: int) -> list[int]:
    """The largest lane of each stream."""
    greatest = np.zeros(streams, dtype=np.int64)
    np.maximum.at(greatest, stream, lane)
    return [int(one) for one in greatest]


def _tracks(making: Making, owners: Owners, streams: pl.DataFrame, meant: set[int], lane: list[int]) -> Ints:
    """For each stream (process, device, stream) the track of its layers, if it is in `meant`, and the tracks of its lanes up to `lane`."""
    devices: dict[tuple[int, str], int] = {}
    tracks = np.zeros((len(streams), 2 + max(lane, default=0)), dtype=np.int64)
    for row, (process, device, number) in enumerate(streams.rows()):
        if (process, device) not in devices:
            devices[process, device] = making.track(TrackKind.DEVICE, owners.process(process), process, device)
        above, name = devices[process, device], f"Stream {number}"
        if row in meant:
            tracks[row, 0] = making.track(TrackKind.PURPOSE, above, process, f"{name}: layers", number=number)
        for one in range(lane[row] + 1):
            tracks[row, 1 + one] = making.track(TrackKind.STREAM, above, process, name, number=number)
    return tracks
