"""Writes a trace of devices as the profile's own tables."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.devices.few import with_few
from aiflame.exchange.readers.devices.trace import DeviceTrace
from aiflame.exchange.readers.devices.work import add_kernels_and_copies, add_syncs
from aiflame.exchange.readers.launch_keys import first_of_each, is_in, keys
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.enums import CallKind, RegionApi, SampleState

_EARLIEST, _LATEST = -(1 << 59), 1 << 61
_MOST_ID = 1 << 32
_TIMES = ("begin", "end", "time")
_CONTENTS = ("calls", "regions", "kernels", "copies", "samples", "values", "counters", "measured")


def write(trace: DeviceTrace, making: Making) -> dict[int, int]:
    """Calls of a thread become its stacks, and the time that each spent itself samples of wall-clock time. Returns the number of each
    process in the profile, by its pid."""
    _set_times(trace, making)
    if all(getattr(trace, name).is_empty() for name in _CONTENTS):
        making.note("the trace is empty: neither calls nor work of a device")
    _place_lost_work(trace)
    threads = _threads(trace)
    _add_processes(trace, making, threads)
    placed = {name: with_few(getattr(trace, name), threads, ("pid", "tid")) for name in ("calls", "regions", "samples", "nodes")}
    trace.calls = trace.calls.clear()
    process = dict(threads.select("pid", "process").unique().iter_rows())
    calls, stack_of_chain, spans, stack = _add_stacks(trace, making, placed.pop("calls"), process)
    _add_samples(trace, making, placed["samples"], stack_of_chain)
    _add_values(trace, making, process, threads, stack_of_chain)
    _add_regions(making, placed["regions"])
    _add_counters(trace, making, process)
    _add_measured(trace, making)
    placed_calls = calls.select("thread", "frame", "correlation", "failed").with_columns(
        pl.Series("stack", stack),
        pl.Series("begin_ns", spans.begin),
        pl.Series("end_ns", spans.end),
        pl.Series("process", spans.process),
        pl.col("correlation").clip(0),
    )
    del calls
    _add_calls(trace, making, placed_calls)
    work = add_kernels_and_copies(trace, making, process)
    waits = add_syncs(trace, making, placed_calls, process)
    _add_launches(trace, making, placed_calls, work, waits)
    _add_nodes(making, placed["nodes"], spans, stack)
    return process


def _set_times(trace: DeviceTrace, making: Making) -> None:
    """On the profile's clock. Rows without a time, or with an absurd one, are left out."""
    tables = [one.name for one in fields(trace) if isinstance(getattr(trace, one.name), pl.DataFrame)]
    timed = {name: [column for column in _TIMES if column in getattr(trace, name).columns] for name in tables if len(getattr(trace, name))}
    lost, firsts, lasts = 0, [], [FIRST_NS]
    for name, columns in timed.items():
        if columns:
            rows = getattr(trace, name)
            sound = rows.filter(
                pl.col(columns[0]).is_not_null(),
                *(pl.col(column).is_between(_EARLIEST, _LATEST).fill_null(column == "end") for column in columns),
            )
            lost += len(rows) - len(sound)
            setattr(trace, name, sound)
            firsts += [int(first) for first in (sound[columns[0]].min(),) if first is not None]
    first = min(firsts, default=0)
    trace.shift = FIRST_NS - first
    for name, columns in timed.items():
        if columns:
            rows = getattr(trace, name).with_columns(pl.col(columns) + trace.shift)
            if "end" in columns:
                rows = rows.with_columns(end=pl.max_horizontal("begin", "end") if name != "regions" else _not_before_begin())
            setattr(trace, name, rows)
            lasts += [int(last) for column in columns if (last := rows[column].max()) is not None]
    making.last_ns = max(making.last_ns, *lasts)
    if trace.since_1970 is not None:
        making.realtime_ns = max(trace.since_1970 + first, 0)
    if lost:
        making.note(f"{lost:,} rows of the trace have no time, or an absurd one: they are left out")
    endless = trace.calls["end"].is_null()
    if endless.any():
        making.note(f"{int(endless.sum()):,} calls have no end in the trace: they end with its last event")
        trace.calls = trace.calls.with_columns(pl.col("end").fill_null(making.last_ns))


def _not_before_begin() -> pl.Expr:
    return pl.when(pl.col("end").is_not_null()).then(pl.max_horizontal("begin", "end"))


def _place_lost_work(trace: DeviceTrace) -> None:
    """Work whose process is not known belongs to that of the call with its correlation id, else to the first one."""
    if not any((getattr(trace, name)["pid"] < 0).any() for name in ("kernels", "copies", "syncs")):
        return
    launched = trace.calls.filter(pl.col("correlation") > 0).select("correlation", caller="pid").unique("correlation", keep="first")
    pids = [int(pid) for pid in trace.calls["pid"].unique().sort().to_list() if pid >= 0]
    for name in ("kernels", "copies", "syncs"):
        rows = getattr(trace, name)
        if (rows["pid"] < 0).any():
            rows = rows.join(launched, on="correlation", how="left", maintain_order="left")
            given = pl.when(pl.col("pid") >= 0).then("pid")
            setattr(trace, name, rows.with_columns(pid=pl.coalesce(given, "caller", pl.lit(pids[0] if pids else 0))).drop("caller"))


def _threads(trace: DeviceTrace) -> pl.DataFrame:
    """pid, tid, process, thread, begin of all rows of the trace. Work of a process without calls has a thread too."""
    seen: list[pl.DataFrame] = [rows[["pid", "tid", "begin"]] for rows in (trace.calls, trace.regions, trace.nodes)]
    seen.append(trace.samples[["pid", "tid", "time"]].rename({"time": "begin"}))
    began = pl.concat(seen).group_by("pid", "tid").agg(pl.col("begin").min())
    work = pl.concat([rows[["pid", "begin"]] for rows in (trace.kernels, trace.copies, trace.syncs)])
    if len(work):
        lone = work.group_by("pid").agg(pl.col("begin").min()).join(began, on="pid", how="anti")
        began = pl.concat([began, lone.select("pid", "begin", tid=pl.col("pid")).select(began.columns)])
    if began.is_empty():
        began = pl.DataFrame({"pid": [0], "tid": [0], "begin": [FIRST_NS]}, schema=began.schema)
    processes = began.group_by("pid").agg(first=pl.col("begin").min()).sort("first", "pid").with_row_index("process")
    return (
        began.join(processes.select("pid", pl.col("process").cast(pl.Int64)), on="pid")
        .sort("process", "begin", "tid")
        .with_columns(thread=pl.int_range(1, pl.len() + 1).over("process"))
        .rename({"begin": "since"})
    )


def _add_processes(trace: DeviceTrace, making: Making, threads: pl.DataFrame) -> None:
    own = threads.group_by("process", maintain_order=True).agg(pl.col("pid").first(), start_ns=pl.col("since").min()).sort("process")
    names = [trace.processes.get(pid) or f"process {pid}" for pid in own["pid"].to_list()]
    making.add(
        "processes", own.select("process", "start_ns", id=pl.lit(1), pid=_id("pid")).with_columns(command=pl.Series(names, dtype=pl.String))
    )
    called = [trace.threads.get(pair, "") for pair in threads.select("pid", "tid").iter_rows()]
    making.add(
        "threads",
        threads.select("process", id="thread", tid=_id("tid"), start_ns="since").with_columns(name=pl.Series(called, dtype=pl.String)),
    )


def _id(column: str) -> pl.Expr:
    return pl.when(pl.col(column).is_between(0, _MOST_ID - 1)).then(column).otherwise(0)


def _add_stacks(
    trace: DeviceTrace, making: Making, calls: pl.DataFrame, process: dict[int, int]
) -> tuple[pl.DataFrame, Whole, Spans, Whole]:
    """The calls in the order of spans, the stack of each chain's row, the spans and their stacks."""
    process_of, thread, begin, end, frame = (calls[name].to_numpy() for name in ("process", "thread", "begin", "end", "frame"))
    spans, order = Spans.of(process_of, thread, begin, end, frame)
    calls = calls[order]
    if spans.cut:
        making.note(f"{spans.cut:,} calls of the trace end after the call around them: they are cut to its end")
    chains = trace.chains.with_columns(process=pl.col("pid").replace_strict(process, default=0, return_dtype=pl.Int64))
    before = len(chains)
    chain = calls["chain"].to_numpy()
    above = np.where(chain >= 0, chain, np.where(spans.parent >= 0, spans.parent + before, -1))
    stacks = trace.frames.add_stacks(
        making,
        np.concatenate([chains["process"].to_numpy(), spans.process]).astype(np.int64),
        np.concatenate([chains["parent"].to_numpy(), above]).astype(np.int64),
        np.concatenate([chains["frame"].to_numpy(), spans.frame]).astype(np.int64),
    )
    stack = stacks[before:]
    waits = np.zeros(max(len(trace.frames.all), 1), dtype=np.bool_)
    waits[list(trace.waits)] = True
    if len(spans.begin) and trace.timed:
        spans.add_samples(making, stack, waits)
    return calls, stacks[:before], spans, stack


def _add_samples(trace: DeviceTrace, making: Making, samples: pl.DataFrame, stack_of_chain: Whole) -> None:
    if samples.is_empty():
        return
    chain = samples["chain"].to_numpy()
    stack = np.where(chain >= 0, np.append(stack_of_chain, 0)[chain], 0)
    making.add(
        "cpu_samples",
        samples.select(
            *("process", "thread"),
            stack=pl.Series(stack),
            weight=pl.lit(1),
            time_ns="time",
            period_ns="period",
            state=pl.when("waiting").then(int(SampleState.WAITING)).otherwise(int(SampleState.ON_CPU)),
            clock=pl.col("clock"),
            cpu=pl.col("cpu").clip(0, 0xFFFF),
        ),
    )


def _add_values(trace: DeviceTrace, making: Making, process: dict[int, int], threads: pl.DataFrame, stack_of_chain: Whole) -> None:
    if trace.values.is_empty():
        return
    rows = trace.values.with_columns(process=pl.col("pid").replace_strict(process, default=0, return_dtype=pl.Int64))
    rows = rows.join(threads.select("pid", "tid", "thread"), on=["pid", "tid"], how="left", maintain_order="left")
    owners = rows["process"].unique().sort().to_list()
    kinds = [(owner, number + 1, *kind) for owner in owners for number, kind in enumerate(trace.value_kinds)]
    schema = {"process": pl.Int64, "id": pl.Int64, "name": pl.String, "unit": pl.String}
    making.add("value_kinds", pl.DataFrame(kinds, schema=schema, orient="row"))
    stack = pl.Series(np.append(stack_of_chain, 0)[rows["chain"].to_numpy()])
    making.add("stack_values", rows.select("process", "value", pl.col("thread").fill_null(0), stack=stack, kind=pl.col("kind") + 1))


def _add_regions(making: Making, regions: pl.DataFrame) -> None:
    if regions.is_empty():
        return
    rows = regions.sort("process", "begin", maintain_order=True).with_columns(id=pl.int_range(1, pl.len() + 1).over("process"))
    making.add(
        "regions",
        rows.select(
            *("process", "id", "thread", "kind", "domain", "category", "name", "payload_type"),
            api=pl.when(pl.col("api") > 0).then("api").otherwise(int(RegionApi.NVTX)),
            color=pl.col("color") & 0xFFFFFFFF,
            payload="payload",
            begin_ns="begin",
        ),
    )
    making.add("region_ends", rows.filter(pl.col("end").is_not_null()).select("process", "thread", region="id", end_ns="end"))


def _add_counters(trace: DeviceTrace, making: Making, process: dict[int, int]) -> None:
    """Counters of a process that has nothing else belong to the first one."""
    if trace.counters.is_empty():
        return
    rows = trace.counters.with_columns(process=pl.col("pid").replace_strict(process, default=0, return_dtype=pl.Int64))
    bits = pl.Series("value", rows["value"].to_numpy().view(np.uint64))
    making.add("counters", rows.select("process", "name", time_ns="time").with_columns(bits))


def _add_measured(trace: DeviceTrace, making: Making) -> None:
    if trace.series:
        series = pl.DataFrame(trace.series, schema=dict.fromkeys(("device", "name", "unit"), pl.String()), orient="row")
        series = series.with_row_index("series").with_columns(source=pl.lit("gpu"), identity=pl.lit(""))
        making.measure(series, trace.measured.sort("series", "time", maintain_order=True).rename({"time": "time_ns"}))


def _add_calls(trace: DeviceTrace, making: Making, placed_calls: pl.DataFrame) -> None:
    backends = pl.DataFrame(
        {"frame": list(trace.backends), "backend": [int(of) for of in trace.backends.values()]},
        schema={"frame": pl.Int64, "backend": pl.Int64},
    )
    rows = placed_calls.filter(pl.col("frame").is_in(backends["frame"].implode()))
    if rows.is_empty():
        return
    key = rows.select(pl.col("process") * (1 << 32) + pl.col("frame")).to_series()
    names = (
        pl.DataFrame({"key": key.unique(maintain_order=True)})
        .with_columns(process=pl.col("key") // (1 << 32), frame=pl.col("key") & 0xFFFFFFFF)
        .join(backends, on="frame", how="left", maintain_order="left")
        .with_columns(number=pl.int_range(1, pl.len() + 1).over("process"))
    )
    text = {number: getattr(trace.frames.all[number], "name", "") for number in trace.backends}
    making.add(
        "call_names", names.select("process", "backend", id="number", name=pl.col("frame").replace_strict(text, return_dtype=pl.String))
    )
    making.add(
        "calls",
        rows.select(
            *("process", "thread", "stack", "begin_ns", "end_ns", "failed"),
            name=key.replace_strict(names["key"], names["number"], return_dtype=pl.Int64),
            kind=pl.lit(int(CallKind.BLOCKING)),
            peer=pl.lit(0xFFFFFFFF),
        ),
    )


def _add_launches(trace: DeviceTrace, making: Making, placed_calls: pl.DataFrame, work: pl.DataFrame, waits: pl.DataFrame) -> None:
    """Calls that launched work, and those that waited for it."""
    key = ["process", "correlation"]
    own, of_work, of_waits = keys(placed_calls, work, waits)
    first = first_of_each(np.where(placed_calls["correlation"] > 0, own, -1), np.concatenate([of_work, of_waits]))
    launches = placed_calls.select(*key, "thread", "stack", "begin_ns", "end_ns", api=pl.lit(int(trace.api)))[first]
    making.add("launches", launches.sort("process", "begin_ns"))
    lone = int((~is_in(of_work, own[first])).sum())
    if lone:
        making.note(f"{lone:,} of {len(work):,} kernels and copies of the trace have no call that launched them: no stack leads to them")


def _add_nodes(making: Making, nodes: pl.DataFrame, spans: Spans, stack: Whole) -> None:
    if nodes.is_empty():
        return
    place = spans.innermost(*(nodes[name].to_numpy() for name in ("process", "thread", "begin")))
    of = np.where(place >= 0, np.append(stack, 0)[place], 0)
    rows = nodes.with_columns(stack=pl.Series(of)).unique(["process", "node"], keep="first", maintain_order=True)
    making.add(
        "graph_nodes",
        rows.select(
            *("process", "node", "thread", "original"),
            stack=pl.when(pl.col("original") == 0).then("stack").otherwise(0),
            time_ns="begin",
        ),
    )
