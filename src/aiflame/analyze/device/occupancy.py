"""How busy each device was: divides the time between its first and last activity, and each step, by state.

Every moment counts once. The device is `busy` while any kernel runs that is not a collective; otherwise in `communication` while a
collective runs; otherwise in `copies` while memory is copied or filled; otherwise `idle`. The four add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.device_join import DeviceJoin
from aiflame.analyze.scope import in_scope
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

STATES = ("busy", "communication", "copies", "idle")
PER_STEP = {
    "process": pl.Int64,
    "device": pl.String,
    "step": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    **dict.fromkeys(STATES, pl.Int64),
}


@dataclass(frozen=True, slots=True)
class Device:
    """The executions on one device for one process, in the order of their begins."""

    process: int
    name: str
    row: NDArray[np.uint32]
    """Rows of `work.executions`."""
    begin: Ints
    end: Ints
    every: Spans
    """The time in which anything ran."""
    kernels: Spans
    computing: Spans
    """The time in which a kernel ran that is not a collective."""

    def states(self, begin: Ints, end: Ints) -> dict[str, Ints]:
        """The time in each of STATES, for each of these stretches of time."""
        anything, kernels, computing = (spans.within(begin, end) for spans in (self.every, self.kernels, self.computing))
        return {
            "busy": computing,
            "communication": kernels - computing,
            "copies": anything - kernels,
            "idle": np.maximum(end - begin, 0) - anything,
        }

    def awaited_since(self, begin: Ints, end: Ints) -> Ints:
        """For copies with these times: since when no kernel has run when the copy ends; the copy's end if a kernel runs then. Kernels
        cannot have waited longer for the copy: a kernel that starts during the copy has not waited for it."""
        if not len(self.kernels):
            return begin
        last = np.searchsorted(self.kernels.begin, end) - 1
        kernels_end = np.where(last >= 0, self.kernels.end[np.maximum(last, 0)], begin)
        since: Ints = np.clip(kernels_end, begin, end)
        return since


@dataclass(frozen=True, slots=True)
class InSteps:
    """A device within the steps of a process that are in the profile's scope."""

    count: int
    whole_ns: int
    busy_ns: int
    communication_ns: int
    copies_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """From the first to the last activity of a device, and within steps."""

    process: int
    process_name: str
    device: str
    begin_ns: int
    end_ns: int
    busy_ns: int
    communication_ns: int
    copies_ns: int
    idle_ns: int
    in_steps: InSteps | None
    """None if the scope is the whole run."""

    @property
    def whole_ns(self) -> int:
        return self.end_ns - self.begin_ns


def devices(join: DeviceJoin) -> list[Device]:
    """Each device that each process used, in the order of processes and names. Executions without length, or before the begin of their
    process, are left out."""
    started = dict(join.profile.table("processes").group_by("process").agg(pl.col("start_ns").min()).rows())
    site = join.work.executions["site"].to_numpy()
    begin, end = (join.work.executions[name].to_numpy().view(np.int64) for name in ("start_ns", "end_ns"))
    kernel = (join.sites["kind"] == int(Kind.GPU_KERNEL)).to_numpy()
    collective = kernel & (join.sites["family"] == COLLECTIVE).to_numpy()
    groups = join.sites.select("process", "device").unique().sort("process", "device")
    of_site = join.sites.join(groups.with_row_index("group"), on=["process", "device"], how="left", maintain_order="left")[
        "group"
    ].to_numpy()
    of_execution = of_site[site]
    used = []
    for group, (process, name) in enumerate(groups.rows()):
        row = np.flatnonzero((of_execution == group) & (end > begin) & (begin >= started.get(process, 0))).astype(np.uint32)
        if len(row):
            used.append(_device(process, name, row, begin[row], end[row], kernel[site[row]], collective[site[row]]))
    return used


def occupancy(join: DeviceJoin, used: Sequence[Device], steps: pl.DataFrame) -> list[Occupancy]:
    """How busy each device was. `steps`: rows as in PER_STEP."""
    rows = []
    repeating = _in_steps(in_scope(join.profile, steps))
    for device in used:
        begin, end = device.every.begin[:1], device.every.end[-1:]
        busy, communication, copies, idle = (int(value[0]) for value in device.states(begin, end).values())
        name = join.process_names[device.process] if device.process < len(join.process_names) else ""
        inside = repeating.get((device.process, device.name))
        whole = int(begin[0]), int(end[0])
        rows.append(Occupancy(device.process, name, device.name, *whole, busy, communication, copies, idle, inside))
    return rows


def _in_steps(steps: pl.DataFrame) -> dict[tuple[int, str], InSteps]:
    """The steps by process and device."""
    whole = pl.sum_horizontal(STATES).sum().alias("whole")
    summed = steps.group_by("process", "device").agg(pl.len(), whole, pl.col(STATES).sum())
    return {(process, device): InSteps(count, *times) for process, device, count, *times in summed.rows()}


def per_step(join: DeviceJoin, used: Sequence[Device]) -> pl.DataFrame:
    """PER_STEP: on a device, a step begins with the first work that was launched in it, and lasts until the next step's first work; if no
    step follows at once, until the end of its own work."""
    followed = _followed(join.steps) if used else np.zeros(0, dtype=np.int64)
    parts = [pl.DataFrame(schema=PER_STEP)]
    for device in used:
        step = join.work.executions["step"].to_numpy()[device.row]
        number, begin, end = _extent(step, device.begin, device.end)
        following = np.searchsorted(number, number + 1)
        near = np.minimum(following, max(len(number) - 1, 0))
        touches = (following < len(number)) & (number[near] == number + 1) & np.isin(device.process << 32 | number, followed)
        end = np.where(touches & (begin[near] > begin), begin[near], end)
        parts.append(
            pl.DataFrame(
                {
                    "process": np.full(len(number), device.process),
                    "device": [device.name] * len(number),
                    "step": number,
                    "begin_ns": begin,
                    "end_ns": end,
                }
                | device.states(begin, end),
                schema=PER_STEP,
            )
        )
    return pl.concat(parts)


def _device(
    process: int, name: str, row: NDArray[np.uint32], begin: Ints, end: Ints, kernel: NDArray[np.bool_], collective: NDArray[np.bool_]
) -> Device:
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        row, begin, end, kernel, collective = row[order], begin[order], end[order], kernel[order], collective[order]
    every = union(begin, end)
    kernels = every if kernel.all() else union(begin[kernel], end[kernel])
    computing = kernels if not collective.any() else union(begin[kernel & ~collective], end[kernel & ~collective])
    return Device(process, name, row, begin, end, every, kernels, computing)


def _extent(step: NDArray[np.int32], begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Each step that occurs, with its first begin and last end; times outside of steps are left out."""
    inside = step >= 0
    step, begin, end = step[inside], begin[inside], end[inside]
    count = int(step.max(initial=-1)) + 1
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, -1)
    np.minimum.at(first, step, begin)
    np.maximum.at(last, step, end)
    number = np.flatnonzero(last >= 0)
    return number, first[number], last[number]


def _followed(steps: pl.DataFrame) -> Ints:
    """process << 32 | number of the steps that another step follows at once."""
    rows = steps.sort("process", "step").with_columns(
        next_begin=pl.col("begin_ns").shift(-1).over("process"), next_step=pl.col("step").shift(-1).over("process")
    )
    touching = rows.filter((pl.col("next_begin") <= pl.col("end_ns")) & (pl.col("next_step") == pl.col("step") + 1))
    keys: Ints = touching.select(pl.col("process").cast(pl.Int64) * (1 << 32) + pl.col("step").cast(pl.Int64)).to_series().to_numpy()
    return keys
