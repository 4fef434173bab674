"""Kernels and copies for a timeline: each with its stream, the call that launched it, and what it was of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from aiflame.profile.codes import CopyKind
from aiflame.profile.tables import Tables

NO_DEVICE = "[unknown device]"
_NUMBERS = ("registers", "static_shared", "dynamic_shared", "local_bytes")
FACTS = ("layer", "op", "phase", "stack", "captured", "grid", "block", *_NUMBERS, "bytes", "full_name")
"""Of a kernel or copy. `captured`: where its node was put into the graph that was launched at `stack`."""
_ALIKE = ["process", "item", "specialization", "stack", "captured", "phase", "layer", "op", "bytes"]
"""What runs with equal values of these has the same name and facts."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What became of each row of `launches`."""

    first: NDArray[np.uint32]
    """Number of its first arrow, 0: none."""
    arrows: NDArray[np.uint32]
    records: NDArray[np.uint32]
    """How many kernels and copies it had run."""
    name: NDArray[np.uint32]
    """Row of the timeline's names of the first of them; nothing where there is none."""


def device_work(profile: Tables, making: Making, owners: Owners, contexts: Contexts, stacks: Stacks, launches: pl.DataFrame) -> Launched:
    """Puts all that ran on devices on tracks. `launches`: JOIN, variant, stack, begin_ns, row by row as in `contexts.meaning.launches`."""
    items = _items(profile)
    specializations = Specializations.of(profile, items)
    met: list[pl.DataFrame] = []
    ran: dict[str, list[NDArray[Any]]] = {name: [] for name in _RAN}
    for piece in _ran(profile, items, launches):
        told = _told(profile, piece, items, contexts.meaning)
        numbers = specializations.numbers(*(told[name].to_numpy() for name in ("process", "variant", "item")))
        told = told.with_columns(pl.col("bytes").fill_null(0), pl.Series("specialization", numbers))
        which = packed([told[name].to_numpy() for name in _ALIKE], len(told))
        alike = told.select(_ALIKE).with_columns(key=pl.Series(which)).unique("key").sort("key")
        place = np.searchsorted(alike["key"].to_numpy(), which) + sum(map(len, met))
        met.append(alike.drop("key"))
        for name, parts in ran.items():
            parts.append((place if name == "alike" else told[name].to_numpy()).astype(_RAN[name]))
    alike, number = _numbered(met)
    found = _Ran.of({name: np.concatenate(ran.pop(name)) for name in list(ran)}, number, alike, items)
    alike = _alike(making, contexts, stacks, alike, items, specializations.rows)
    launched, flow = _arrows(found, alike["name"].to_numpy(), launches["begin_ns"].to_numpy())
    _put(making, owners, contexts, found, alike, flow)
    return launched


_RAN = {"alike": np.uint32, "stream": np.uint32, "start_ns": np.int64, "end_ns": np.int64, "launch": np.int32, "step": np.int32}
"""What is kept of each that ran: there may be ten million. What is not of it alone, `alike` knows."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """Kernels and copies, by process, device, stream and time."""

    alike: NDArray[np.uint32]
    """Row of _ALIKE."""
    start_ns: Ints
    end_ns: Ints
    launch: NDArray[np.int32]
    """Row of the launches, -1: not known."""
    step: NDArray[np.int32]
    stream: NDArray[np.uint32]
    """Row of `streams`."""
    streams: pl.DataFrame
    """process, device, stream"""

    @staticmethod
    def of(columns: dict[str, NDArray[Any]], number: NDArray[np.uint32], alike: pl.DataFrame, items: pl.DataFrame) -> _Ran:
        """`number`: the row of `alike` for each value of the column."""
        owners = alike.select("process", device=items["device"].gather(alike["item"]))
        distinct = owners.unique().sort("process", "device").with_row_index("owner")
        owner = owners.join(distinct, on=["process", "device"], how="left", maintain_order="left")["owner"].to_numpy()
        columns["alike"] = number[columns["alike"]]
        key = owner[columns["alike"]].astype(np.int64) << 32 | columns.pop("stream")
        known, stream = _distinct(key)
        del key
        order = by_time(stream, columns["start_ns"], columns["end_ns"])
        if order is not None:
            stream = stream[order]
            for name in columns:
                columns[name] = columns[name][order]
        streams = distinct[known >> 32].select("process", "device", stream=pl.Series(known & 0xFFFFFFFF))
        return _Ran(**columns, stream=stream, streams=streams)


def _numbered(met: list[pl.DataFrame]) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """The rows that were met, each once and in order; and the row of each that was met."""
    every = pl.concat(met)
    distinct = every.unique().sort(_ALIKE)
    number = every.join(distinct.with_row_index("row"), on=_ALIKE, how="left", maintain_order="left")["row"]
    return distinct, number.to_numpy().astype(np.uint32)


def _distinct(key: Ints) -> tuple[Ints, NDArray[np.uint32]]:
    """The values sorted, each once, and the place of each one's. They are few, and often several in a row are the same."""
    known = pl.Series(key).unique().sort().to_numpy()
    return known, np.searchsorted(known, key).astype(np.uint32)


def _items(profile: Tables) -> pl.DataFrame:
    """What may run, by number: kernels by their shapes and copies by kind and device, with all that is known of them."""
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


def _ran(profile: Tables, items: pl.DataFrame, launches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Each kernel and copy, some at a time, with the row of its launch as `launch` (-1: not known); of several launches with one
    correlation the first counts."""
    shapes = items.filter(pl.col("shape").is_not_null()).sort("process", "shape")
    known, of_known = shapes["process"].cast(pl.Int64).to_numpy() << 32 | shapes["shape"].to_numpy(), shapes["item"].to_numpy()
    kinds = items.filter(pl.col("copy").is_not_null()).select(kind="copy", device_told="device", item="item")
    longest = pl.col("start_ns") + LONGEST_NS
    common = [pl.col(name) for name in ("process", "correlation", "node", "stream", "start_ns", "end_ns")]
    told = pl.when(pl.col("device") == "").then(pl.lit(NO_DEVICE)).otherwise("device").alias("device_told")
    api = pl.col("api").cast(pl.UInt32)
    kernels = pieces_of(profile.scan("kernels").select(*common, api, "shape", bytes=pl.lit(None, pl.UInt64)))
    copies = pieces_of(profile.scan("copies").select(*common, api, "kind", told, "bytes"))
    index = LaunchIndex.of(*(launches[name].to_numpy() for name in (*JOIN, "id")))
    captured = captured_stacks(profile)
    of_kernels = (
        rows.with_columns(item=pl.Series(take_or(of_known, find_rows(known, _ints(rows, "process") << 32 | _ints(rows, "shape")), 0)))
        for rows in kernels
    )
    of_copies = (
        rows.join(kinds, on=["kind", "device_told"], how="left", maintain_order="left").with_columns(pl.col("item").fill_null(0))
        for rows in copies
    )
    for ran in chain(of_kernels, of_copies):
        launch = index.find(*(ran[name].to_numpy() for name in JOIN))
        stack, variant = (take_or(launches[name].to_numpy(), launch, 0) for name in ("stack", "variant"))
        yield (
            _of_graphs(ran.with_columns(pl.Series("launch", launch), pl.Series("stack", stack), pl.Series("variant", variant)), captured)
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


def _of_graphs(ran: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """With what graphs' nodes were made as. Most programs have no graphs, and a join copies every column."""
    if (ran["node"] != 0).any():
        return ran.join(captured, on=["process", "node"], how="left", suffix="_made", maintain_order="left")
    told = {name: kind for name, kind in captured.schema.items() if name not in ("process", "node")}
    return ran.with_columns(pl.lit(None, kind).alias(f"{name}_made" if name in ran.columns else name) for name, kind in told.items())


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    found: Ints = rows[name].to_numpy().astype(np.int64)
    return found


def _told(profile: Tables, ran: pl.DataFrame, items: pl.DataFrame, meaning: Meaning) -> pl.DataFrame:
    """With what each was of. A graph's kernels have the step of their replay; phase, layer and op are those of their capture."""
    launch = ran["launch"].to_numpy()

    def of(name: str, nothing: int) -> NDArray[np.int32]:
        column = meaning.launches[name].to_numpy()
        if not len(column):
            return np.full(len(launch), nothing, dtype=np.int32)
        found: NDArray[np.int32] = np.where(launch >= 0, column[launch].astype(np.int32), np.int32(nothing))
        return found

    columns = {"step": of("step", -1), "phase": of("phase", int(Phase.OTHER)), "layer": of("layer", 0), "op": of("op", 0)}
    brings = of(BRINGS, 0).astype(np.bool_)
    graph = np.flatnonzero(ran["made"].is_not_null().to_numpy())
    if len(graph):
        captured = meaning.nodes.select(pl.col("process").cast(pl.UInt32), pl.col("node").alias("made"), "phase", "layer", "op")
        made = ran[graph].select("process", "made").join(captured, on=["process", "made"], how="left", maintain_order="left")
        known = made["phase"].is_not_null().to_numpy()
        for name in ("phase", "layer", "op"):
            columns[name][graph[known]] = made[name].drop_nulls().to_numpy()
    item = ran["item"].to_numpy()
    collective = [name for name, family in families(profile, items["name"]).items() if family == COLLECTIVE]
    columns["phase"][items["name"].is_in(collective).to_numpy()[item]] = Phase.COMMUNICATION
    to_device = (items["copy"] == int(CopyKind.HOST_TO_DEVICE)).fill_null(False).to_numpy()[item]
    columns["phase"][to_device & brings] = Phase.DATA
    return ran.drop("made").with_columns(pl.Series(name, values) for name, values in columns.items())


def _alike(
    making: Making, contexts: Contexts, stacks: Stacks, distinct: pl.DataFrame, items: pl.DataFrame, specializations: pl.DataFrame
) -> pl.DataFrame:
    """_ALIKE of all that ran, each once, with the kind of slice, the row of its name and the number of its set of facts."""
    known = distinct.join(items.drop("process"), on="item", how="left", maintain_order="left").join(
        specializations, on="specialization", how="left", maintain_order="left"
    )
    process = distinct["process"].to_numpy().astype(np.int64)
    tops = {name: stacks.tops(process, distinct[name].to_numpy().astype(np.int64)) for name in ("stack", "captured")}
    copied = pl.col("copy").is_not_null()
    sets = known.with_columns(
        *(pl.Series(name, contexts.texts(name, known[name].to_list()), dtype=pl.String) for name in ("phase", "layer", "op")),
        *(pl.Series(name, lines, dtype=pl.List(pl.String)) for name, lines in tops.items()),
        full_name=pl.coalesce("told", "full", "name"),
        bytes=pl.when(copied).then("bytes"),
    )
    name = making.names(known.select(pl.coalesce("readable", "short", "name"))["readable"].to_list())
    kind = pl.when(copied).then(int(SliceKind.COPY)).otherwise(int(SliceKind.KERNEL))
    return distinct.with_columns(
        known.select(kind.cast(pl.UInt8).alias("kind"))["kind"],
        name=pl.Series(name.astype(np.uint32)),
        facts=pl.Series(making.facts(sets, FACTS).astype(np.uint32)),
    )


def _arrows(ran: _Ran, name_of: NDArray[np.uint32], called_ns: NDArray[np.uint64]) -> tuple[Launched, NDArray[np.uint32]]:
    """Arrows from launches to what they had run, numbered by launch; and the arrow of each that ran. None leads back in time."""
    launch, many = ran.launch, len(called_ns)
    order = np.flatnonzero(launch >= 0).astype(np.int32)
    of = launch[order]
    if (of[1:] < of[:-1]).any():
        order = order[np.argsort(of, kind="stable")]
        of = launch[order]
    records = np.bincount(of, minlength=many).astype(np.uint32)
    first = np.zeros(many, dtype=np.uint32)
    first[of[::-1]] = name_of[ran.alike[order[::-1]]]
    late = ran.start_ns[order] >= np.minimum(called_ns, LATEST).astype(np.int64)[of]
    order, of = order[late], of[late]
    flow = np.zeros(len(launch), dtype=np.uint32)
    flow[order] = np.arange(1, len(order) + 1, dtype=np.uint32)
    arrows = np.bincount(of, minlength=many).astype(np.uint32)
    begin = np.cumsum(arrows, dtype=np.uint32) - arrows + np.uint32(1)
    begin[arrows == 0] = 0
    return Launched(begin, arrows, records, first), flow


def _put(making: Making, owners: Owners, contexts: Contexts, ran: _Ran, alike: pl.DataFrame, flow: NDArray[np.uint32]) -> None:
    """On the tracks of streams, and above them what is known of each stream's work."""
    begin, end, stream = ran.start_ns, ran.end_ns, ran.stream
    lane = lanes(stream, begin, end)
    known = {name: alike[name].to_numpy() for name in ("phase", "layer", "op")}
    columns = {name: alike[name].to_numpy() for name in ("kind", "name", "facts")}
    tracks = _tracks(making, owners, ran.streams, _meant(ran, known), _most(stream, lane, len(ran.streams)))
    first = np.flatnonzero(lane == 0).astype(np.int32)
    for piece in pieces(contexts.cuts(stream[first], ran.step[first], known["phase"][ran.alike[first]])):
        here = first[piece]
        meant = [ran.step[here], *(known[name][ran.alike[here]] for name in ("phase", "layer", "op"))]
        spans, _ = path_spans(tracks[stream[here], 0], begin[here], end[here], contexts.levels(*meant))
        making.slices(contexts.named(spans))
    for piece in pieces(np.ones(len(stream), dtype=np.bool_)):
        rows = {name: column[ran.alike[piece]] for name, column in columns.items()}
        arrows = flow[piece]
        rows |= {"begin_ns": begin[piece], "end_ns": end[piece], "step": ran.step[piece], "flow": arrows, "flows": arrows > 0}
        rows |= {"track": tracks[stream[piece], 1 + lane[piece]], "depth": np.zeros(len(arrows), dtype=np.uint16)}
        making.slices(pl.DataFrame(rows))


def _meant(ran: _Ran, known: dict[str, NDArray[np.int32]]) -> set[int]:
    """The streams of whose work more is known than that it is some."""
    more = (known["phase"] != int(Phase.OTHER)) | (known["layer"] > 0) | (known["op"] > 0)
    return set(pl.Series(ran.stream[more[ran.alike] | (ran.step >= 0)]).unique().to_list())


def _most(stream: NDArray[np.uint32], lane: Ints, streams: int) -> list[int]:
    """The greatest lane of each stream."""
    found = np.zeros(streams, dtype=np.int64)
    np.maximum.at(found, stream, lane)
    return [int(one) for one in found]


def _tracks(making: Making, owners: Owners, streams: pl.DataFrame, meant: set[int], lane: list[int]) -> Ints:
    """For each stream (process, device, stream) the track of its layers, if it is among `meant`, and those of its lanes up to `lane`."""
    devices: dict[tuple[int, str], int] = {}
    found = np.zeros((len(streams), 2 + max(lane, default=0)), dtype=np.int64)
    for row, (process, device, number) in enumerate(streams.rows()):
        if (process, device) not in devices:
            devices[process, device] = making.track(TrackKind.DEVICE, owners.process(process), process, device)
        above, name = devices[process, device], f"Stream {number}"
        if row in meant:
            found[row, 0] = making.track(TrackKind.PURPOSE, above, process, f"{name}: layers", number=number)
        for one in range(lane[row] + 1):
            found[row, 1 + one] = making.track(TrackKind.STREAM, above, process, name, number=number)
    return found
