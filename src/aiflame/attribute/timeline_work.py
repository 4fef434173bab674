"""Kernels and copies for a timeline: each with its stream, the call that launched it, and what it was of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.context import BRINGS, Meaning
from aiflame.attribute.families import COLLECTIVE, families
from aiflame.attribute.gpu_graphs import captured_stacks
from aiflame.attribute.gpu_inside import kernel_names
from aiflame.attribute.gpu_launches import LaunchIndex
from aiflame.attribute.gpu_work import COPY_NAMES, JOIN, LONGEST_NS
from aiflame.attribute.items import LATEST
from aiflame.attribute.phases import Phase
from aiflame.attribute.stacks import Tables
from aiflame.attribute.timeline_context import Contexts
from aiflame.attribute.timeline_spans import lanes, path_spans, pieces
from aiflame.attribute.timeline_stacks import Stacks
from aiflame.attribute.timeline_tables import Making, Owners, SliceKind, TrackKind
from aiflame.attribute.variants import Specializations
from aiflame.profile.codes import CopyKind

Ints = NDArray[np.int64]
NO_DEVICE = "[unknown device]"
_NUMBERS = ("registers", "static_shared", "dynamic_shared", "local_bytes")
FACTS = ("layer", "op", "phase", "stack", "captured", "grid", "block", *_NUMBERS, "bytes", "full_name")
"""Of a kernel or copy. `captured`: where its node was put into the graph that was launched at `stack`."""
_ALIKE = ["process", "item", "specialization", "stack", "captured", "phase", "layer", "op", "bytes"]
"""What runs with equal values of these has the same name and facts."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What became of each row of `launches`."""

    first: Ints
    """Number of its first arrow, 0: none."""
    arrows: Ints
    records: Ints
    """How many kernels and copies it had run."""
    name: Ints
    """Row of the timeline's names of the first of them; nothing where there is none."""


def device_work(profile: Tables, making: Making, owners: Owners, contexts: Contexts, stacks: Stacks, launches: pl.DataFrame) -> Launched:
    """Puts all that ran on devices on tracks. `launches`: JOIN, variant, stack, begin_ns, row by row as in `contexts.meaning.launches`."""
    items = _items(profile)
    ran = _ran(profile, items, launches)
    ran = _told(profile, ran, items, contexts.meaning)
    specializations = Specializations.of(profile, items)
    numbers = specializations.numbers(*(ran[name].to_numpy() for name in ("process", "variant", "item")))
    ran = ran.with_columns(pl.col("bytes").fill_null(0), pl.Series("specialization", numbers))
    alike = _alike(making, contexts, stacks, ran, items, specializations.rows)
    ran = ran.join(alike, on=_ALIKE, how="left").drop("variant", "stack", "captured", "bytes", "specialization")
    known = pl.Enum(items["device"].unique().sort())  # sorted as numbers, not as texts
    devices = items.select("item", pl.col("device").cast(known))
    ran = ran.join(devices, on="item", how="left").sort("process", "device", "stream", "start_ns", "end_ns")
    launched, flow = _arrows(ran, launches["begin_ns"].to_numpy())
    _put(making, owners, contexts, ran.with_columns(flow=pl.Series(flow)))
    return launched


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


def _ran(profile: Tables, items: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Each kernel and copy, with the row of its launch as `launch` (-1: not known); of several launches with one correlation the first
    counts."""
    shapes = items.filter(pl.col("shape").is_not_null()).select("process", "shape", "item")
    kinds = items.filter(pl.col("copy").is_not_null()).select(kind="copy", device_told="device", item="item")
    common = [*JOIN, "node", "stream", "start_ns", "end_ns"]
    kernels = (
        profile.scan("kernels")
        .join(shapes.lazy(), on=["process", "shape"], how="left")
        .select(*common, pl.col("item").fill_null(0), bytes=pl.lit(None, pl.UInt64))
        .with_columns(pl.col("api").cast(pl.UInt32))
    )
    told = pl.when(pl.col("device") == "").then(pl.lit(NO_DEVICE)).otherwise("device").alias("device_told")
    copies = (
        profile.scan("copies")
        .with_columns(told)
        .join(kinds.lazy(), on=["kind", "device_told"], how="left")
        .select(*common, pl.col("item").fill_null(0), "bytes")
    )
    ran = pl.concat([kernels, copies]).collect()
    index = LaunchIndex.of(*(launches[name].to_numpy() for name in (*JOIN, "id")))
    launch = index.find(*(ran[name].to_numpy() for name in JOIN))
    stack, variant = (np.append(launches[name].to_numpy(), np.uint32(0))[launch] for name in ("stack", "variant"))
    longest = pl.col("start_ns") + LONGEST_NS
    return (
        ran.lazy()
        .drop("api", "correlation")
        .with_columns(pl.Series("launch", launch), pl.Series("stack", stack), pl.Series("variant", variant))
        .join(captured_stacks(profile).lazy(), on=["process", "node"], how="left", suffix="_made")
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
            variant=pl.when(pl.col("node") != 0).then("variant_made").otherwise("variant"),
        )
        .collect()
    )


def _told(profile: Tables, ran: pl.DataFrame, items: pl.DataFrame, meaning: Meaning) -> pl.DataFrame:
    """With what each was of. A graph's kernels have the step of their replay; phase, layer and op are those of their capture."""
    launch = ran["launch"].to_numpy()

    def of(name: str, nothing: int) -> NDArray[np.int32]:
        column = np.append(meaning.launches[name].to_numpy().astype(np.int32), np.int32(nothing))
        taken: NDArray[np.int32] = column[launch]
        return taken

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
    making: Making, contexts: Contexts, stacks: Stacks, ran: pl.DataFrame, items: pl.DataFrame, specializations: pl.DataFrame
) -> pl.DataFrame:
    """_ALIKE of all that ran, each once, with the row of its name and the number of its set of facts."""
    distinct = ran.lazy().select(_ALIKE).unique().sort(_ALIKE).collect()
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


def _arrows(ran: pl.DataFrame, called_ns: NDArray[np.uint64]) -> tuple[Launched, Ints]:
    """Arrows from launches to what they had run, numbered by launch; and the arrow of each that ran. None leads back in time."""
    launch, name = ran["launch"].to_numpy(), ran["name"].to_numpy()
    many = len(called_ns)
    row = np.flatnonzero(launch >= 0)
    order = row[np.argsort(launch[row], kind="stable")]
    records = np.bincount(launch[order], minlength=many)
    first = np.zeros(many, dtype=np.int64)
    first[launch[order][::-1]] = name[order][::-1]
    late = ran["start_ns"].to_numpy()[order] >= np.minimum(called_ns, LATEST).astype(np.int64)[launch[order]]
    order = order[late]
    flow = np.zeros(len(launch), dtype=np.int64)
    flow[order] = np.arange(1, len(order) + 1)
    arrows = np.bincount(launch[order], minlength=many)
    begin = np.cumsum(arrows) - arrows + 1
    return Launched(np.where(arrows > 0, begin, 0), arrows, records, first), flow


def _put(making: Making, owners: Owners, contexts: Contexts, ran: pl.DataFrame) -> None:
    """On the tracks of streams, and above them what is known of each stream's work."""
    keys = ran.select("process", "device", "stream")
    change = keys.select((pl.struct(pl.all()) != pl.struct(pl.all()).shift(1)).fill_null(True).alias("new"))["new"]
    stream = np.cumsum(change.to_numpy()) - 1
    begin, end = ran["start_ns"].to_numpy(), ran["end_ns"].to_numpy()
    lane = lanes(stream, begin, end)
    streams = keys.filter(change)
    tracks = _tracks(making, owners, streams, _meant(ran, stream), _most(stream, lane, len(streams)))
    first = np.flatnonzero(lane == 0)
    meant = [ran[name].to_numpy()[first] for name in ("step", "phase", "layer", "op")]
    for piece in pieces(contexts.cuts(stream[first], meant[0], meant[1])):
        here = first[piece]
        spans, _ = path_spans(tracks[stream[here], 0], begin[here], end[here], contexts.levels(*(each[piece] for each in meant)))
        making.slices(contexts.named(spans))
    own = tracks[stream, 1 + lane]
    for piece in pieces(np.ones(len(ran), dtype=np.bool_)):
        rows = ran[piece].select("kind", "name", "facts", "step", "flow", begin_ns="start_ns", end_ns="end_ns")
        making.slices(rows.with_columns(track=pl.Series(own[piece]), depth=pl.lit(0), flows=(pl.col("flow") > 0).cast(pl.UInt32)))


def _meant(ran: pl.DataFrame, stream: Ints) -> set[int]:
    """The streams of whose work more is known than that it is some."""
    known = (pl.col("step") >= 0) | (pl.col("phase") != int(Phase.OTHER)) | (pl.col("layer") > 0) | (pl.col("op") > 0)
    return set(np.unique(stream[ran.select(known).to_series().to_numpy()]).tolist())


def _most(stream: Ints, lane: Ints, streams: int) -> list[int]:
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
