"""Adds up calls of runtimes, kernels and bytes: how often, how long, how much, how many failed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.attribute.addresses import Addresses
from aiflame.attribute.devices.inside import kernel_names
from aiflame.attribute.devices.records import COPY_NAMES, LONGEST_NS
from aiflame.attribute.devices.work import JOIN, MOST_BYTES
from aiflame.attribute.stacks.process_frames import process_frames, with_ranks
from aiflame.attribute.timeline.runtime_names import backend_name
from aiflame.profile.schema.enums import CallBackend, GpuApi, SyncKind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

HOST, DEVICE, TRAFFIC = "host", "device", "traffic"
_OF_API = {
    GpuApi.OPENCL: CallBackend.OPENCL,
    GpuApi.CUDA: CallBackend.CUDA,
    GpuApi.LEVEL_ZERO: CallBackend.LEVEL_ZERO,
    GpuApi.HIP: CallBackend.HIP,
}
_WITH_COPIES = (CallBackend.OPENCL, CallBackend.CUDA, CallBackend.LEVEL_ZERO)
"""Runtimes whose copies a recording has; of others it has the bytes of their calls."""
_OF_AMD = (CallBackend.HIP, CallBackend.HSA)
"""Their copies are there where rocprofiler-sdk was."""
_WAITS = {SyncKind.EVENT: "[wait for an event]", SyncKind.STREAM: "[wait for a stream]", SyncKind.CONTEXT: "[wait for a device]"}
LAUNCH = "[launch]"
_TIME = pl.col("time")


@dataclass(frozen=True, slots=True)
class Section:
    """Calls of one backend on hosts, its work on devices, or its traffic; heaviest first."""

    kind: str
    """HOST, DEVICE or TRAFFIC."""
    backend: str
    processes: int
    threads: int
    """Threads of a HOST section, or devices of another one."""
    rows: pl.DataFrame
    """name, calls, total, mean, min, max (ns; for TRAFFIC bytes), share (of the section's total), failed; `owner`, if asked for."""

    @property
    def total(self) -> int:
        return int(self.rows["total"].sum())

    @property
    def unit(self) -> str:
        return "bytes" if self.kind == TRAFFIC else "ns"


def tally(profile: Tables, *, extended: bool = False) -> list[Section]:
    """Sections by kind, then by backend. `extended`: a row for each thread or device, too."""
    return [*_hosts(profile, extended), *_devices(profile, extended), *_traffic(profile, extended)]


def to_json(sections: list[Section]) -> list[dict[str, object]]:
    return [
        {
            "kind": section.kind,
            "backend": section.backend,
            "processes": section.processes,
            "devices" if section.kind == DEVICE else "threads": section.threads,
            "unit": section.unit,
            "total": section.total,
            "rows": section.rows.to_dicts(),
        }
        for section in sections
    ]


def _hosts(profile: Tables, extended: bool) -> Iterator[Section]:
    """Traced calls; for runtimes whose calls are not traced, those that launched work or waited for it."""
    calls = traced_calls(profile)
    traced = set(calls.select(pl.col("backend").unique()).collect()["backend"].to_list())
    every = pl.concat([calls, launching_calls(profile).filter(~pl.col("backend").is_in(list(traced)))])
    yield from _sections(HOST, every, _threads(profile) if extended else None)


def _devices(profile: Tables, extended: bool) -> Iterator[Section]:
    names = kernel_names(profile).lazy().select("name", "short")
    shapes = profile.scan("kernel_shapes").select("process", pl.col("id").alias("shape"), "name", "device")
    kernels = (
        profile.scan("kernels")
        .select("process", "shape", "api", time=_took("start_ns"))
        .join(shapes, on=["process", "shape"], how="left")
        .join(names, on="name", how="left")
        .select("process", "api", "device", "time", name=pl.coalesce("short", "name").fill_null("[unknown kernel]"))
    )
    copies = profile.scan("copies").select("process", "api", "device", time=_took("start_ns"), name=_copy_name())
    both = pl.concat([kernels, copies], how="diagonal_relaxed")
    yield from _sections(DEVICE, _on_devices(both), by="device" if extended else None, addresses=Addresses.of(profile))


def _traffic(profile: Tables, extended: bool) -> Iterator[Section]:
    copied = profile.scan("copies").select("process", "api", "device", time=_bytes(), name=_copy_name())
    copied = _on_devices(copied).with_columns(thread=pl.lit(0, pl.UInt32))
    # Copies are the traffic of a device's runtime; its calls only request them, or allocate memory.
    has_amds = not copied.filter(backend=int(CallBackend.HIP)).head(1).collect().is_empty()
    sends = (pl.col("bytes") > 0) & ~pl.col("backend").is_in([int(backend) for backend in (*_WITH_COPIES, *(_OF_AMD if has_amds else ()))])
    sent = traced_calls(profile).filter(sends).with_columns(time=_bytes(), device=pl.lit(""))
    columns = ["process", "backend", "device", "thread", "name", "time", "failed"]
    yield from _sections(TRAFFIC, pl.concat([copied.select(columns), sent.select(columns)]), by="device" if extended else None)


def traced_calls(profile: Tables) -> pl.LazyFrame:
    """process, backend, thread, name, time, failed, bytes."""
    names = profile.scan("call_names").select("process", "backend", pl.col("id").alias("row"), called="name")
    return (
        profile.scan("calls")
        .select("process", "thread", "failed", "bytes", pl.col("name").alias("row"), time=_took("begin_ns"))
        .join(names, on=["process", "row"], how="inner")
        .select("process", "backend", "thread", pl.col("called").alias("name"), "time", "failed", "bytes")
    )


def launching_calls(profile: Tables) -> pl.LazyFrame:
    """Calls that launched work on a device, and those in which a thread waited for it."""
    waits = profile.scan("syncs").select(*JOIN, "kind", "start_ns", "end_ns")
    calls = profile.scan("launches").select(*_joined(), "thread", "begin_ns", "end_ns")
    named = calls.join(waits.select(*_joined(), "kind").unique(JOIN), on=JOIN, how="left")
    alone = waits.select(*_joined(), "kind", begin_ns="start_ns", end_ns="end_ns").join(calls, on=JOIN, how="anti")
    both = pl.concat([named, alone.with_columns(thread=pl.lit(0, pl.UInt32)).select(named.collect_schema().names())])
    kinds = {int(kind): text for kind, text in _WAITS.items()}
    name = pl.when(pl.col("kind").is_null()).then(pl.lit(LAUNCH)).otherwise(pl.col("kind").replace_strict(kinds, default="[wait]"))
    return both.select(
        "process", _backend(), "thread", name.alias("name"), time=_took("begin_ns"), failed=pl.lit(0, pl.UInt8), bytes=pl.lit(0, pl.UInt64)
    )


def _joined() -> list[pl.Expr]:
    return [pl.col("process"), pl.col("api").cast(pl.UInt32), pl.col("correlation")]


def _on_devices(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select("process", _backend(), pl.col("device").fill_null(""), "name", "time", failed=pl.lit(0, pl.UInt8))


def _backend() -> pl.Expr:
    backends = {int(api): int(backend) for api, backend in _OF_API.items()}
    return pl.col("api").cast(pl.UInt32).replace_strict(backends, default=0, return_dtype=pl.UInt32).alias("backend")


def _copy_name() -> pl.Expr:
    names = {int(kind): name for kind, name in COPY_NAMES.items()}
    return pl.col("kind").replace_strict(names, default="[copy]", return_dtype=pl.String)


def _took(begin: str) -> pl.Expr:
    """The duration; damaged records may end before they begin, or never."""
    took = (pl.col("end_ns") - pl.col(begin)).clip(upper_bound=LONGEST_NS)
    return pl.when(pl.col("end_ns") > pl.col(begin)).then(took.cast(pl.Int64)).otherwise(0)


def _bytes() -> pl.Expr:
    return pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64)


def _threads(profile: Tables) -> pl.LazyFrame:
    """process, thread, owner: `train.py (71), loader`."""
    processes = with_ranks(profile.table("processes"), profile.table("ranks"))
    names = pl.LazyFrame({"process": processes["process"], "program": [frame.name for frame in process_frames(processes)]})
    threads = profile.scan("threads").select("process", pl.col("id").alias("thread"), "name", "tid")
    owner = pl.format("{}, {} ({})", "program", pl.when(pl.col("name") == "").then(pl.lit("thread")).otherwise("name"), "tid")
    return threads.join(names, on="process").select("process", "thread", owner=owner)


def _sections(
    kind: str, rows: pl.LazyFrame, threads: pl.LazyFrame | None = None, by: str | None = None, addresses: Addresses | None = None
) -> Iterator[Section]:
    """`addresses`: those of devices, which may have one name in several processes."""
    if threads is not None:
        rows = rows.join(threads, on=["process", "thread"], how="left").with_columns(pl.col("owner").fill_null("[unknown thread]"))
    elif by is not None:
        rows = rows.with_columns(owner=pl.col(by))
    key = ["owner", "name"] if threads is not None or by is not None else ["name"]
    of = "thread" if kind == HOST else "device"
    added = (
        rows.group_by("backend", *key)
        .agg(
            calls=pl.len().cast(pl.Int64),
            total=_TIME.sum(),
            mean=_TIME.mean().round().cast(pl.Int64),
            min=_TIME.min(),
            max=_TIME.max(),
            failed=(pl.col("failed") != 0).sum().cast(pl.Int64),
        )
        .collect()
    )
    owners = rows.select("backend", "process", of).unique().collect()
    if addresses is not None:
        owners = owners.with_columns(pl.Series(of, [addresses.key(*row) for row in owners.select("process", of).rows()], dtype=pl.String))
    counts = owners.group_by("backend").agg(
        processes=pl.col("process").n_unique(), threads=pl.struct("process", of).n_unique() if kind == HOST else pl.col(of).n_unique()
    )
    for backend, processes, many in counts.sort("backend").rows():
        its = added.filter(pl.col("backend") == backend).drop("backend").sort("total", *key, descending=[True, *(False for _ in key)])
        whole = max(int(its["total"].sum()), 1)
        columns = [*key, "calls", "total", "mean", "min", "max", "failed"]
        yield Section(kind, backend_name(backend), processes, many, its.select(*columns, share=pl.col("total") / whole))
