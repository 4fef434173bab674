"""Calls of CUDA and of the system's libraries in an nsys report, samples of CPUs, and the stacks that nsys took of either."""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.trace import CALLS, CHAINS, SAMPLES, DeviceTrace, shaped
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys.ids import with_owner
from aiflame.exchange.readers.sqlite_file import INT
from aiflame.exchange.readers.sqlite_pages import Kind as Column
from aiflame.profile.schema.enums import CallBackend
from aiflame.profile.schema.kinds import Kind

_CALL: dict[str, Column] = dict.fromkeys(("start", "end", "globalTid", "correlationId", "nameId", "callchainId", "returnValue"), INT)
_CHAIN: dict[str, Column] = dict.fromkeys(("id", "symbol", "module", "kernelMode", "stackDepth"), INT)
_RUNTIME, _SYSTEM = "CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API"
_CHAINS = {_RUNTIME: "CUDA_CALLCHAINS", _SYSTEM: "OSRT_CALLCHAINS", "COMPOSITE_EVENTS": "SAMPLING_CALLCHAINS"}
COLUMNS: dict[str, dict[str, Column]] = {
    _RUNTIME: _CALL,
    _SYSTEM: {name: INT for name in _CALL if name != "correlationId"},
    "COMPOSITE_EVENTS": dict.fromkeys(("id", "start", "cpu", "threadState", "globalTid"), INT),
    **dict.fromkeys(_CHAINS.values(), _CHAIN),
}
_VERSION = re.compile(r"_v\d+$")
_MARK = "OS runtime libraries profiling"
_WAITS = re.compile(r"Synchronize|WaitEvent|wait|sleep|poll|select|join|accept|recv|pause|barrier|_lock$|rdlock|wrlock|sem_", re.IGNORECASE)
_SYSTEM_MODULE = "[system library]"
_MOST_DEEP = 1 << 16
_USUAL_NS = 1_000_000
_BLOCKED = 2


def add_calls(trace: DeviceTrace, rows: dict[str, pl.DataFrame], strings: pl.DataFrame) -> None:
    """A call with a stack of its own hangs below that; others below the range or call around them."""
    for table in (_RUNTIME, _SYSTEM):
        calls = rows[table].join(strings.rename({"id": "nameId", "value": "name"}), on="nameId", how="left", maintain_order="left")
        calls = with_owner(calls.with_columns(name=pl.col("name").fill_null("[call]")), "globalTid")
        if table == _SYSTEM:
            calls = calls.filter(~pl.col("name").str.starts_with(_MARK))
        numbers = {name: _number(trace, name, table == _RUNTIME) for name in calls["name"].unique(maintain_order=True).to_list()}
        calls = calls.with_columns(
            begin="start",
            frame=pl.col("name").replace_strict(numbers, return_dtype=pl.Int64),
            correlation=pl.col("correlationId").fill_null(0) if table == _RUNTIME else pl.lit(0),
            failed=(pl.col("returnValue").fill_null(0) != 0).cast(pl.Int64) if table == _RUNTIME else pl.lit(0),
            key=pl.col("callchainId"),
        )
        calls = _with_chains(trace, calls, rows[_CHAINS[table]], strings)
        trace.calls = pl.concat([trace.calls, shaped(calls, CALLS)])


def add_samples(trace: DeviceTrace, making: Making, rows: dict[str, pl.DataFrame], strings: pl.DataFrame, period: int) -> None:
    samples = rows["COMPOSITE_EVENTS"]
    if samples.is_empty():
        return
    if not period:
        period = _typical(samples)
        making.note(
            f"the report does not say how often nsys sampled CPUs: {period / 1e6:.3g} ms of CPU time a sample, as its times suggest"
        )
    samples = with_owner(samples, "globalTid").with_columns(
        time="start", key="id", period=pl.lit(period), waiting=pl.col("threadState").fill_null(0) == _BLOCKED
    )
    samples = _with_chains(trace, samples, rows["SAMPLING_CALLCHAINS"], strings)
    trace.samples = pl.concat([trace.samples, shaped(samples, SAMPLES)])


def _typical(samples: pl.DataFrame) -> int:
    """The median time between samples of the same thread."""
    apart = (
        samples.drop_nulls(["start", "globalTid"]).sort("globalTid", "start").select(pl.col("start").diff().over("globalTid")).to_series()
    )
    apart = apart.filter(apart > 0)
    return min(max(int(apart.median()), 1), 10**9) if len(apart) else _USUAL_NS


def _number(trace: DeviceTrace, name: str, of_cuda: bool) -> int:
    name = _VERSION.sub("", name)
    number = trace.frames.number(NamedFrame(name, Kind.C, module="CUDA" if of_cuda else _SYSTEM_MODULE))
    if of_cuda:
        trace.backends[number] = CallBackend.CUDA
    if _WAITS.search(name):
        trace.waits.add(number)
    return number


def _with_chains(trace: DeviceTrace, owners: pl.DataFrame, chains: pl.DataFrame, strings: pl.DataFrame) -> pl.DataFrame:
    """Adds to the trace the stacks that the rows refer to by `key`; `chain` is the row of the innermost frame of each. A stack that threads
    of several processes have is one in each."""
    chains = chains.drop_nulls(["id", "symbol", "stackDepth"]).filter(pl.col("stackDepth").is_between(0, _MOST_DEEP))
    if chains.is_empty() or owners.is_empty():
        return owners.with_columns(chain=pl.lit(-1, dtype=pl.Int64))
    wanted = owners.select("pid", id="key").drop_nulls().unique()
    frames = chains.select("symbol", "module", "kernelMode").unique(maintain_order=True)
    texts = frames.join(strings.rename({"id": "symbol", "value": "name"}), on="symbol", how="left", maintain_order="left").join(
        strings.rename({"id": "module", "value": "file"}), on="module", how="left", maintain_order="left"
    )
    numbers = [
        trace.frames.number(NamedFrame(name or "[unknown]", Kind.OS_KERNEL if in_kernel else Kind.CPP, module=file or ""))
        for name, file, in_kernel in texts.select("name", "file", "kernelMode").iter_rows()
    ]
    frames = frames.with_columns(frame=pl.Series(numbers, dtype=pl.Int64))
    rows = (
        chains.unique(["id", "stackDepth"], keep="first")
        .join(frames, on=["symbol", "module", "kernelMode"], how="left", maintain_order="left", nulls_equal=True)
        .join(wanted, on="id")
        .sort("pid", "id", "stackDepth", descending=[False, False, True])
        .with_row_index("row", offset=len(trace.chains))
        .with_columns(pl.col("row").cast(pl.Int64))
    )
    same = ((pl.col("pid") == pl.col("pid").shift(1)) & (pl.col("id") == pl.col("id").shift(1))).fill_null(False)
    rows = rows.with_columns(parent=pl.when(same).then(pl.col("row") - 1).otherwise(-1))
    trace.chains = pl.concat([trace.chains, shaped(rows, CHAINS)])
    innermost = rows.group_by("pid", key="id").agg(chain=pl.col("row").last())
    return owners.join(innermost, on=["pid", "key"], how="left", maintain_order="left").with_columns(pl.col("chain").fill_null(-1))
