"""Device memory of a process that no recorded call took: the memory that NVML counts of the process, less all that is recorded.

That is CUDA's context, the code of modules, and allocations of libraries by ways that no hook sees."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.addresses import Addresses, host_of, same_address
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.blocks import HOST, NEVER, BlockKind, blocks
from aiflame.profile.folder.telemetry_files import MEMORY_ON
from aiflame.values import dataclass

_READINGS = {"process": pl.UInt32, "memory": pl.String, "time_ns": pl.Int64, "used": pl.Int64}
_OWNER = ("process", "memory")
_BEFORE_NS, _AFTER_NS = 20_000_000, 50_000_000
"""A reading counts if no memory of the driver came or went around it: reading takes some milliseconds."""
_SOON_NS = 1_000_000_000
_MOST = float(1 << 61)


def uncounted(profile: Analysis, at: pl.DataFrame) -> pl.DataFrame:
    """Rows of `blocks` (process, memory, kind, bytes, begin_ns, end_ns) for moments `at` (process, memory, at_ns): by the last sound
    reading before each, or the first one behind it. No row: nothing was read."""
    rows: list[tuple[object, ...]] = []
    readings = _remainders(profile).partition_by(_OWNER, as_dict=True, maintain_order=True)
    for process, memory, at_ns in at.select(*_OWNER, "at_ns").rows():
        own = readings.get((process, memory))
        if own is None:
            continue
        near = max(int(np.searchsorted(own["time_ns"].to_numpy(), at_ns, side="right")) - 1, 0)
        size = int(own["bytes"][near])
        if size > 0:
            rows.append((process, memory, int(BlockKind.UNCOUNTED), size, at_ns, NEVER))
    names = {"process": pl.UInt32, "memory": pl.String, "kind": pl.UInt8, "bytes": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame(rows, schema=names, orient="row")


@once
def _remainders(profile: Analysis) -> pl.DataFrame:
    """process, memory, time_ns, bytes: the sound readings, in order."""
    parts = [pl.DataFrame(schema={"process": pl.UInt32, "memory": pl.String, "time_ns": pl.Int64, "bytes": pl.Int64})]
    if not (profile.has("telemetry_series") and profile.has("telemetry")):
        return parts[0]
    if not len(_of_devices(profile)) + len(_of_processes(profile)):
        return parts[0]
    lives = _lives(profile)
    for owner, life in lives.items():
        own = _of_process(profile, *owner)
        if own.is_empty() and sum(memory == owner[1] for _, memory in lives) == 1:
            own = _of_device(profile, *owner, life)
        time_ns, used = own["time_ns"].to_numpy(), own["used"].to_numpy()
        now = life.counted(time_ns)
        sound = (life.counted(time_ns - _BEFORE_NS) == now) & (life.counted(time_ns + _AFTER_NS) == now)
        sound &= (time_ns >= life.first_ns) & (time_ns <= life.last_ns)
        remainders = own.select(*_OWNER, "time_ns").with_columns(bytes=pl.Series(used - now, dtype=pl.Int64))
        parts.append(remainders.filter(pl.Series(sound, dtype=pl.Boolean)))
    return pl.concat(parts)


@dataclass(frozen=True, slots=True)
class _Life:
    """The memory that a process has from the driver on one device, as far as it is recorded."""

    first_ns: int
    last_ns: int
    """Of its use of the device, as far as all that it has is known: of its pool from the pool's first count on."""
    moment: Ints
    held: Ints
    """That of a pool, from each such moment on."""
    begin: Ints
    begun: Ints
    """The bytes of all other blocks that had begun."""
    end: Ints
    ended: Ints

    def counted(self, time_ns: Ints) -> Ints:
        near = np.searchsorted(self.moment, time_ns, side="right")
        begun = self.begun[np.searchsorted(self.begin, time_ns, side="right")]
        total: Ints = self.held[near] + begun - self.ended[np.searchsorted(self.end, time_ns, side="right")]
        return total


def _lives(profile: Analysis) -> dict[tuple[int, str], _Life]:
    rows = blocks(profile).filter(pl.col("memory") != HOST)
    launched = profile.scan("launches").group_by("process").agg(first=pl.col("begin_ns").min(), last=pl.col("end_ns").max()).collect()
    uses = {process: (first, min(last, NEVER)) for process, first, last in launched.rows()}
    held = profile.table("pool_blocks").sort("time_ns", maintain_order=True).partition_by("process", "device", as_dict=True)
    lives = {}
    for (process, memory), own in rows.partition_by(_OWNER, as_dict=True, maintain_order=True).items():
        beside = own.filter(pl.col("kind") != int(BlockKind.OF_POOL))
        begins, ends = beside.sort("begin_ns"), beside.filter(pl.col("end_ns") < NEVER).sort("end_ns")
        of_pool = held.get((process, memory), profile.table("pool_blocks")[:0])
        moment, of_moment = (of_pool[name].clip(0, int(_MOST)).cast(pl.Int64).to_numpy() for name in ("time_ns", "held"))
        first, last = uses.get(process, (NEVER, 0))
        begins_of_all = own.filter(pl.col("begin_ns") > 0)["begin_ns"]
        lives[process, memory] = _Life(
            int(moment[0]) if len(moment) else min(first, int(begins_of_all.to_numpy().min(initial=NEVER))),
            max(last, int(begins_of_all.to_numpy().max(initial=0))),
            moment,
            np.append(0, of_moment),
            begins["begin_ns"].to_numpy(),
            np.append(0, np.cumsum(begins["bytes"].to_numpy())),
            ends["end_ns"].to_numpy(),
            np.append(0, np.cumsum(ends["bytes"].to_numpy())),
        )
    return lives


def _of_process(profile: Analysis, process: int, memory: str) -> pl.DataFrame:
    """The memory of the process, by NVML."""
    pids = profile.table("processes").select("process", "pid")
    pid = pids.filter(process=process)["pid"]
    if pid.is_empty() or (pids["pid"] == pid[0]).sum() != 1:
        return pl.DataFrame(schema=_READINGS)
    series = _of_processes(profile).filter(pl.col("device").str.replace(r"^.*: ", "") == f"pid {pid[0]}")
    return _read(profile, series, process, memory, [name.removeprefix(MEMORY_ON) for name in series["name"]])


def _of_device(profile: Analysis, process: int, memory: str, life: _Life) -> pl.DataFrame:
    """The growth of the device's memory, by NVML, since before the process used it, as the only recorded one. Two equal readings at the
    beginning show that no context was being made."""
    series = _of_devices(profile)
    rows = _read(profile, series, process, memory, series["device"].to_list())
    began = profile.table("processes").filter(process=process)["start_ns"].cast(pl.Int64)
    if len(rows) < 2 or began.is_empty():
        return rows[:0]
    first, second = rows[:2].select("time_ns", "used").rows()
    sound = first[1] == second[1] and second[0] < life.first_ns and first[0] - began[0] < _SOON_NS
    return rows.with_columns(pl.col("used") - first[1]) if sound else rows[:0]


def _of_processes(profile: Analysis) -> pl.DataFrame:
    return profile.table("telemetry_series").filter(source="process").filter(pl.col("name").str.starts_with(MEMORY_ON))


def _of_devices(profile: Analysis) -> pl.DataFrame:
    return profile.table("telemetry_series").filter(source="nvidia", name="memory used")


def _read(profile: Analysis, series: pl.DataFrame, process: int, memory: str, names: list[str]) -> pl.DataFrame:
    """The values of the series of this device (`names`: those of their devices), with `used`, in order."""
    address = Addresses.of(profile).address(process, memory)
    numbers = [
        number
        for number, of, identity, name in zip(series["series"], series["device"], series["identity"], names, strict=True)
        if host_of(of) == host_of(memory) and (same_address(identity, address) if address and identity else name == memory)
    ]
    sound = pl.col("value").is_finite() & pl.col("value").is_between(0, _MOST) & (pl.col("time_ns") < NEVER)
    rows = profile.scan("telemetry").filter(pl.col("series").is_in(numbers) & sound).collect().sort("time_ns")
    return rows.select(
        pl.lit(process, pl.UInt32).alias("process"),
        pl.lit(memory).alias("memory"),
        pl.col("time_ns").cast(pl.Int64),
        used=pl.col("value").cast(pl.Int64),
    )
