"""The scope of a profile in one line: its steps, their duration, and the parts of the run that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.occupancy import STATES, occupancy
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.overview.inference_line import Inference, inference
from aiflame.analyze.scope import asked_for_all, steady_scope, steady_steps, too_short
from aiflame.analyze.step_times import step_times
from aiflame.attribute.meaning.compiling import AUTOTUNING, COMPILING
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.ops import ops
from aiflame.profile.folder.meta import MOMENTS, Meta
from aiflame.values import asdict, dataclass

WORTH_NAMING = 0.005
"""Smallest share of the whole run that the line names."""


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    took_ns: int


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """The scope of a profile; if several processes have steps, that of the process whose steps take longest."""

    whole_run: bool
    first: int
    last: int
    """Numbers of steps; -1 if the scope is the whole run."""
    steps: int
    processes: int
    """The number of processes with such steps."""
    took_ns: int
    duration_ns: int
    """Duration of the whole run."""
    idle_ns: int
    """Idle time of the devices of all processes in the scope, …"""
    devices_ns: int
    """… and all their time in it; 0 without devices."""
    left_out: tuple[Part, ...]
    """Parts of the run outside of the scope, in the order of time."""
    of_which: tuple[Part, ...]
    """Compilation and autotuning within these parts; if the scope is the whole run, within it."""
    why: str
    """The reason why the scope is the whole run, if it is not simply that no steps repeat."""
    inference: Inference | None = None
    """The steps of inference in the whole run."""

    @property
    def text(self) -> str:
        outside = [f"{part.name} {amount(part.took_ns, 'ns')}" for part in self.left_out if part.took_ns >= WORTH_NAMING * self.duration_ns]
        inside = [
            f"{amount(part.took_ns, 'ns')} of it {part.name}" for part in self.of_which if part.took_ns >= WORTH_NAMING * self.duration_ns
        ]
        within = f" ({' and '.join(inside)})" if inside else ""
        if self.whole_run:
            took = f": {amount(self.duration_ns, 'ns')}" if self.duration_ns else ""
            return f"Whole run{took}{within}{f'; {self.why}' if self.why else ''}"
        of = f" of {amount(self.duration_ns, 'ns')}" if self.duration_ns else ""
        left = f"; left out: {', '.join(outside)}{within}" if outside else ""
        steps = self.steps_text
        return f"{steps[0].upper()}{steps[1:]}: {amount(self.took_ns, 'ns')}{of}{left}"

    @property
    def steps_text(self) -> str:
        """The steps in the scope, by their numbers."""
        numbers = f"steps {self.first} to {self.last}" if self.last > self.first else f"step {self.first}"
        return numbers + (f" of each of {self.processes} processes" if self.processes > 1 else "")

    def with_switch(self, command: str = "") -> str:
        """The line, with the way to see the other scope: an option of the command, which may be named."""
        return self.text if self.whole_run else f"{self.text} ({command}--whole-run has all)"

    def to_json(self) -> dict[str, object]:
        line = self.inference.to_json() if self.inference is not None else None
        return {"text": self.text, **asdict(self), "inference": line}

    @property
    def inference_text(self) -> str:
        """The times of its steps of inference; "" without such."""
        return self.inference.text if self.inference is not None else ""

    @property
    def idle_text(self) -> str:
        """How idle the devices were; "" if no device was used."""
        if not self.devices_ns:
            return ""
        return f"GPU idle {self.idle_ns / self.devices_ns:.1%} of {amount(self.devices_ns, 'ns')}: {amount(self.idle_ns, 'ns')}"


def scope_line(analysis: ProfileAnalysis, meta: Meta) -> ScopeLine:
    profile, duration_ns = analysis.profile, duration(meta, analysis)
    times = step_times(host_steps(analysis), analysis.per_step)
    scope, repeating = steady_scope(profile), steady_steps(profile).first
    timed = meta.imported is None or MOMENTS not in meta.imported.lacks
    idle, devices = _idle(analysis) if timed else (0, 0)
    infers = inference(host_steps(analysis), times, repeating)
    if scope is None:
        why = ""
        if repeating and not too_short(profile):
            why = "without --whole-run only its steady steps"
        elif repeating and not asked_for_all(profile):
            in_all = amount(int(times["took"].sum()), "ns")
            why = f"its {len(times):,} steps, {in_all} in all, have too few samples for findings of their own"
        return ScopeLine(True, -1, -1, 0, 0, duration_ns, duration_ns, idle, devices, (), tuple(_compiled(analysis, LATEST)), why, infers)
    kept = times.filter(pl.col("step") >= pl.col("process").replace_strict(scope.first, default=None, return_dtype=pl.Int64))
    if kept.is_empty():
        kept = times
    summed = kept.group_by("process").agg(pl.col("took").sum()).sort("took", "process", descending=[True, False])
    main = int(summed["process"][0])
    own, every = kept.filter(process=main), times.filter(process=main)
    begin, end, took = int(own["begin_ns"].min()), int(own["end_ns"].max()), int(own["took"].sum())  # type: ignore[arg-type]
    earliest = int(every["begin_ns"].min())  # type: ignore[arg-type]
    began = min(meta.started.monotonic_ns, earliest)
    parts = _parts(earliest, len(every) - len(own), begin, end, took, began, max(began + duration_ns, end))
    return ScopeLine(
        False,
        int(own["step"].min()),  # type: ignore[arg-type]
        int(own["step"].max()),  # type: ignore[arg-type]
        len(own),
        len(summed),
        took,
        duration_ns,
        idle,
        devices,
        tuple(parts),
        tuple(_compiled(analysis, begin)),
        "",
        infers,
    )


def _parts(first: int, warm: int, begin: int, end: int, took: int, began: int, ended: int) -> Iterator[Part]:
    """`first`: when the first step began; `warm`: how many steps warm up; steady steps `took` this long between `begin` and `end`."""
    yield Part("start-up", max(first - began, 0))
    yield Part("first step" if warm == 1 else f"first {warm} steps", max(begin - first, 0))
    yield Part("between steps", max(end - begin - took, 0))
    yield Part("after the last step", max(ended - end, 0))


def _idle(analysis: ProfileAnalysis) -> tuple[int, int]:
    """How long devices were idle in the scope, and the length of all their time in it."""
    used = occupancy(analysis, analysis.devices, analysis.per_step)
    states = used if steady_scope(analysis.profile) is None else [one.in_steps for one in used if one.in_steps is not None]
    return sum(one.idle_ns for one in states), sum(getattr(one, f"{state}_ns") for one in states for state in STATES)


def _compiled(analysis: ProfileAnalysis, before: int) -> Iterator[Part]:
    """How long the thread that compiled or autotuned longest did so before a moment. Between two neighbouring launches or samples that both
    belong to it, it counts as continuing."""
    profile = analysis.profile
    stacks = ops(profile)
    if not stacks.compiler.any():
        return
    moments = {"launches": "begin_ns", "cpu_samples": "time_ns"}
    columns = ("process", "thread", "stack")
    rows = pl.concat(
        profile.scan(name)
        .filter(pl.col(time) < before)
        .select(*(pl.col(column).cast(pl.Int64) for column in columns), pl.col(time).cast(pl.Int64).alias("time_ns"))
        .collect()
        for name, time in moments.items()
    )
    mark = stacks.stacks.at(stacks.compiler, rows["process"].to_numpy(), rows["stack"].to_numpy())
    rows = rows.with_columns(mark=pl.Series(mark)).sort("process", "thread", "time_ns")
    at = pl.col("time_ns")
    spent = rows.with_columns(
        took=pl.when((pl.col("mark") > 0) & (pl.col("mark").shift(1).over("process", "thread") > 0)).then(
            at - at.shift(1).over("process", "thread")
        )
    )
    summed = spent.group_by("process", "thread", "mark").agg(pl.col("took").sum())
    for number, name in ((COMPILING, "compilation"), (AUTOTUNING, "autotuning")):
        most = summed.filter(mark=number)["took"].max()
        if most:
            yield Part(name, int(most))  # type: ignore[arg-type]


def host_steps(analysis: ProfileAnalysis) -> pl.DataFrame:
    """Steps with the columns of `DeviceJoin.steps`: from launches, or in programs without a device from CPU samples and calls of layers."""
    return analysis.steps if analysis.ran_on_devices or analysis.cpu is None else analysis.cpu.steps


def duration(meta: Meta, analysis: ProfileAnalysis) -> int:
    """The duration of the recording, or the end of its last record if its end is missing."""
    if meta.ended is not None:
        return max(meta.ended.monotonic_ns - meta.started.monotonic_ns, 0)
    ends = [int(device.every.end[-1]) for device in analysis.devices]
    samples = analysis.profile.scan("cpu_samples").select(pl.col("time_ns").max()).collect().item()
    ends += [int(samples)] if samples else []
    begins = analysis.profile.table("processes")["start_ns"]
    return max(max(ends) - int(begins.min()), 0) if ends and len(begins) else 0  # type: ignore[arg-type]
