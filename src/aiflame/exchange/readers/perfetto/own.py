"""The timelines that aiflame writes itself (`aiflame timeline`), read again.

Steps, phases, layers and ops of kernels are slices anew from the calls that launched them. Sampled functions are stretches of time there:
each becomes a sample for every piece in which it is the innermost.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.exchange.readers.devices.trace import SAMPLES, SYNCS, shaped
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.perfetto.contents import Contents
from aiflame.exchange.readers.perfetto.interned import CATEGORIES
from aiflame.exchange.readers.perfetto.meaning import Meaning
from aiflame.exchange.readers.perfetto.slices import Slices
from aiflame.exchange.readers.perfetto.tracks import LANES
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.enums import CallBackend, CopyKind, RegionApi, RegionKind, SyncKind
from aiflame.profile.schema.kinds import OP_MODULE, Kind

_FIRST = ("step", "phase", "layer", "op", "call", "wait", "kernel", "copy", "region", "mark", "function")
"""The categories that every timeline of aiflame begins with, in this order."""
_COPIES = {
    "[copy host→device]": CopyKind.HOST_TO_DEVICE,
    "[copy device→host]": CopyKind.DEVICE_TO_HOST,
    "[copy device→device]": CopyKind.DEVICE_TO_DEVICE,
    "[fill]": CopyKind.FILL,
    "[map]": CopyKind.MAP,
    "[copy device→other device]": CopyKind.PEER,
}
_WAITS = {"[wait for an event]": SyncKind.EVENT, "[wait for a stream]": SyncKind.STREAM, "[wait for a device]": SyncKind.CONTEXT}
_RUNTIMES = {
    "CUDA": CallBackend.CUDA,
    "OpenCL": CallBackend.OPENCL,
    "MPI": CallBackend.MPI,
    "OpenMP": CallBackend.OPENMP,
    "NCCL": CallBackend.NCCL,
    "torch.distributed": CallBackend.TORCH,
    "Level Zero": CallBackend.LEVEL_ZERO,
    "HIP": CallBackend.HIP,
    "HSA": CallBackend.HSA,
}
"""By the first words of the tracks of traced calls."""
_SIZES = (("registers",) * 2, ("static_shared",) * 2, ("dynamic_shared",) * 2, ("local_bytes",) * 2)
_SAMPLED, _CPU_TIME = "Sampled stacks", "CPU time"
_SCOPE = (1 << 32) + 1
"""Of its only sequence, whose state is cleared once."""
_NO_NAME = "[no name]"
_MACHINE, _AUTOMATIC = "Machine", "Seen by aiflame"


def is_own(contents: Contents) -> bool:
    """The first texts that the trace interns are aiflame's categories."""
    return tuple(contents.interned.text(CATEGORIES, _SCOPE, number + 1) for number in range(len(_FIRST))) == _FIRST


def add(meaning: Meaning, slices: Slices) -> None:
    meaning.trace.timed = False  # time is that of samples, as in the recording
    moments = (
        slices.moments.rename({"time": "begin"})
        .with_columns(end="begin", end_event=pl.lit(-1, dtype=pl.Int64))
        .select(slices.slices.columns)
    )
    rows = meaning.with_texts(pl.concat([slices.slices, moments]))
    places = {uuid: meaning.place(uuid) for uuid in rows["uuid"].unique().to_list()}
    paths = pl.DataFrame(
        {
            "uuid": list(places),
            "above": [place.path[-2] if len(place.path) > 1 else "" for place in places.values()],
            "track_name": [place.path[-1] if place.path else "" for place in places.values()],
            "owner": [_thread_of(meaning, uuid) for uuid in places],
        },
        schema={"uuid": pl.Int64, "above": pl.String, "track_name": pl.String, "owner": pl.Int64},
    )
    rows = meaning.placed(rows).join(paths, on="uuid", how="left", maintain_order="left")
    kinds = {name[0]: part for name, part in rows.partition_by("category_text", as_dict=True).items()}
    nothing = rows.clear()
    _add_calls(meaning, pl.concat([kinds.get(name, nothing) for name in ("op", "call", "traced call")]), kinds.get("call", nothing))
    _add_waits(meaning, kinds.get("wait", nothing))
    _add_work(meaning, kinds.get("kernel", nothing), kinds.get("copy", nothing), kinds.get("call", nothing))
    _add_regions(meaning, pl.concat([kinds.get(name, nothing) for name in ("region", "mark", "step")]))
    _add_samples(meaning, pl.concat([kinds.get(name, nothing) for name in ("function", "waiting")]))
    for name in ("phase", "layer", "inside a kernel"):
        if name in kinds:
            meaning.making.unused[f"slices of category {name}"] += len(kinds[name])
    machine = [uuid for uuid in slices.counters["uuid"].unique().to_list() if meaning.place(uuid).path[:1] == (_MACHINE,)]
    measured = pl.col("uuid").is_in(machine)
    meaning.making.unused["measurements of the machine"] += len(slices.counters.filter(measured))
    meaning.add_counters(slices.counters.filter(~measured & ~pl.col("uuid").is_in(_reckoned(meaning, slices.counters))))


def _thread_of(meaning: Meaning, uuid: int) -> int:
    """The tid of the thread that a track lies below, or whose samples it shows; -1: none."""
    around = meaning.contents.tracks.ancestors(uuid & 0xFFFFFFFFFFFFFFFF)
    below = next((one.tid for one in around if one.tid >= 0), -1)
    if below < 0 and around and around[0].description.startswith("thread "):
        number = around[0].description.removeprefix("thread ").split(",")[0]
        below = int(number) if number.isdecimal() and len(number) < 11 else -1
    return below


def _reckoned(meaning: Meaning, counters: pl.DataFrame) -> list[int]:
    """Counters that aiflame reckons from copies."""
    copied = tuple(name.strip("[]") for name in _COPIES)
    uuids = counters["uuid"].unique().to_list()
    return [uuid for uuid in uuids if (path := meaning.place(uuid).path) and path[-1].startswith(copied)]


def _on_threads(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(tid=pl.when(pl.col("owner") >= 0).then("owner").otherwise("tid"))


def _add_calls(meaning: Meaning, rows: pl.DataFrame, launches: pl.DataFrame) -> None:
    rows = _on_threads(rows.filter((pl.col("category_text") != "op") | (pl.col("tid") < LANES)))
    kinds = rows.select("name_text", "category_text", "track_name").unique(maintain_order=True)
    frames = [_call_frame(meaning, *one) for one in kinds.iter_rows()]
    rows = rows.join(
        kinds.with_columns(frame=pl.Series(frames, dtype=pl.Int64)),
        on=["name_text", "category_text", "track_name"],
        how="left",
        maintain_order="left",
    )
    number = pl.when(pl.col("category_text") == "call").then(pl.col("event") + 1)
    failed = [event for event in rows.filter(category_text="traced call")["event"].to_list() if "failed" in meaning.facts.of(event)]
    meaning.calls.append(rows.with_columns(correlation=number, failed=pl.col("event").is_in(failed).cast(pl.Int64)))


def _call_frame(meaning: Meaning, name: str, category: str, track: str) -> int:
    if category == "op":
        return meaning.trace.frames.number(NamedFrame(name, Kind.CPP, module=OP_MODULE))
    if category == "call":
        return meaning.trace.frames.number(NamedFrame(name, Kind.C))
    runtime = next((one for one in _RUNTIMES if track.startswith(f"{one} ")), "CUDA")
    frame = meaning.trace.frames.number(NamedFrame(name, Kind.C, module=runtime))
    meaning.trace.backends[frame] = _RUNTIMES[runtime]
    return frame


def _add_waits(meaning: Meaning, rows: pl.DataFrame) -> None:
    kinds = {name: int(kind) for name, kind in _WAITS.items()}
    meaning.trace.syncs = shaped(rows.with_columns(kind=pl.col("name_text").replace_strict(kinds, default=0, return_dtype=pl.Int64)), SYNCS)


def _add_work(meaning: Meaning, kernels: pl.DataFrame, copies: pl.DataFrame, calls: pl.DataFrame) -> None:
    """Kernels and copies, joined to the calls whose arrows end at them."""
    flows = pl.concat([pl.DataFrame(schema={"event": pl.Int64, "flow": pl.UInt64, "ends": pl.Boolean}), *meaning.contents.events.flows])
    starts = flows.join(calls.select("event"), on="event", how="semi").unique("flow", keep="first").select("flow", call="event")
    ends = flows.join(starts, on="flow").filter("ends").unique("event", keep="first").select("event", correlation=pl.col("call") + 1)
    for rows, add in ((kernels, _add_kernels), (copies, _add_copies)):
        if len(rows):
            add(meaning, _on_streams(meaning, rows.join(ends, on="event", how="left", maintain_order="left")))


def _on_streams(meaning: Meaning, rows: pl.DataFrame) -> pl.DataFrame:
    devices = {name: meaning.devices.setdefault(name, len(meaning.devices)) for name in rows["above"].unique(maintain_order=True).to_list()}
    number = pl.col("track_name").str.extract(r"(\d{1,10})$").cast(pl.Int64).fill_null(0)
    return rows.with_columns(device=pl.col("above").replace_strict(devices, return_dtype=pl.Int64), stream=number)


def _with_facts(meaning: Meaning, rows: pl.DataFrame) -> list[dict[str, object]]:
    return [{**meaning.facts.of(event)} for event in rows["event"].to_list()]


def _add_kernels(meaning: Meaning, rows: pl.DataFrame) -> None:
    facts = _with_facts(meaning, rows)
    columns = {column: [_number(one.get(key)) for one in facts] for column, key in _SIZES}
    for name in ("grid", "block"):
        sizes = [_sizes(one.get(name)) for one in facts]
        columns |= {f"{name}_{axis}": [size[at] for size in sizes] for at, axis in enumerate("xyz")}
    names = [str(one.get("full_name") or name) for one, name in zip(facts, rows["name_text"].to_list(), strict=True)]
    meaning.add_kernels(
        rows.with_columns(
            pl.Series("name_text", names, dtype=pl.String), *(pl.Series(name, column, dtype=pl.Int64) for name, column in columns.items())
        )
    )


def _add_copies(meaning: Meaning, rows: pl.DataFrame) -> None:
    kinds = {name: int(kind) for name, kind in _COPIES.items()}
    meaning.copies.append(
        rows.with_columns(
            pl.Series("bytes", [_number(one.get("bytes")) for one in _with_facts(meaning, rows)], dtype=pl.Int64),
            kind=pl.col("name_text").replace_strict(kinds, default=int(CopyKind.DEVICE_TO_DEVICE), return_dtype=pl.Int64),
        )
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def _sizes(value: object) -> tuple[int, int, int]:
    parts = value.split(" × ") if isinstance(value, str) else []
    if len(parts) != 3 or not all(part.isdecimal() and len(part) < 11 for part in parts):
        return 0, 0, 0
    return int(parts[0]), int(parts[1]), int(parts[2])


def _add_regions(meaning: Meaning, rows: pl.DataFrame) -> None:
    """Regions that the program marked, and steps of threads, which are slices again by their names."""
    step = pl.col("category_text") == "step"
    named = rows.filter(~step | (pl.col("tid") < LANES))
    # Where the program named its steps itself, they are among its regions.
    if named.filter(~step)["name_text"].str.contains(r"^ProfilerStep#\d+$").any():
        named = named.filter(~step)
    rows = _on_threads(named)
    if rows.is_empty():
        return
    facts = _with_facts(meaning, rows)
    track = pl.col("track_name")
    kind = (
        pl.when(pl.col("category_text") == "mark")
        .then(int(RegionKind.MARK))
        .when(track.str.starts_with("Frames"))
        .then(int(RegionKind.FRAME))
        .when(track.str.starts_with("Regions that may overlap"))
        .then(int(RegionKind.FREE))
        .otherwise(int(RegionKind.NESTED))
    )
    name = pl.when(step).then(pl.col("name_text").str.replace(r"^Step\.(\d+)$", "ProfilerStep#$1")).otherwise(pl.col("name_text"))
    meaning.regions.append(
        rows.with_columns(
            kind=kind,
            name=name.replace(_NO_NAME, ""),
            api=pl.when(track == _AUTOMATIC).then(int(RegionApi.AUTOMATIC)).when(step).then(int(RegionApi.TORCH)).otherwise(0),
            domain=pl.Series([str(one.get("domain", "")) for one in facts], dtype=pl.String),
            category=pl.Series([str(one.get("category", "")) for one in facts], dtype=pl.String),
        )
    )


def _add_samples(meaning: Meaning, rows: pl.DataFrame) -> None:
    """Functions of sampled threads: the time that each spent itself is samples, and its stack that of the functions around it."""
    rows = _on_threads(rows.filter(pl.col("end").is_not_null()))
    if rows.is_empty():
        return
    trace = meaning.trace
    kinds = rows.select("name_text", "category_text").unique(maintain_order=True)
    frames = [trace.frames.number(NamedFrame(name, Kind.WAIT if of == "waiting" else Kind.C)) for name, of in kinds.iter_rows()]
    rows = rows.join(
        kinds.with_columns(frame=pl.Series(frames, dtype=pl.Int64)), on=["name_text", "category_text"], how="left", maintain_order="left"
    )
    lane, begin, end, frame = (rows[name].to_numpy() for name in ("lane", "begin", "end", "frame"))
    spans, order = Spans.of(np.zeros(len(rows), dtype=np.int64), lane, begin, end, frame)
    pid, tid = (rows[name].to_numpy()[order] for name in ("pid", "tid"))
    base = len(meaning.chains)
    parent = np.where(spans.parent >= 0, spans.parent + base, -1)
    meaning.chains += zip(pid.tolist(), parent.tolist(), spans.frame.tolist(), strict=True)
    wall = not any(one.description.endswith(_CPU_TIME) for one in meaning.contents.tracks.all.values())
    parts = []
    for row, first, last in spans.own_time():
        columns = {"pid": pid[row], "tid": tid[row], "time": last, "chain": row + base, "period": last - first}
        parts.append(shaped(pl.DataFrame(columns).with_columns(waiting=pl.lit(False), cpu=pl.lit(0), clock=pl.lit(int(wall))), SAMPLES))
    trace.samples = pl.concat([trace.samples, *parts])
