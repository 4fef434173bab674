"""Samples of program counters, which rocprofv3 takes with `--pc-sampling-method`: the place of a wave in a kernel, and by the stochastic
method whether it issued its instruction, or the reason why not.

Each becomes a sample of a stack: the call that launched the kernel, the kernel, the source line, the instruction, the reason.
"""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.trace import CHAINS, I64, TEXT, VALUES, DeviceTrace
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.readable import demangle
from aiflame.values import dataclass

SAMPLES = {"pid": I64, "dispatch": I64, "correlation": I64, "instruction": TEXT, "comment": TEXT, "issued": I64, "reason": TEXT}
"""`comment`: the source line, if the program has debug information. `issued`: 1 or 0; null: the method does not say."""
METRIC = ("gpu-samples", "samples")
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
ISSUED = "[issued]"
UNKNOWN_KERNEL, NO_INSTRUCTION = "[unknown kernel]", "[unknown instruction]"
_REASONS = {
    "NONE": "no reason given",
    "NO_INSTRUCTION_AVAILABLE": "no instruction fetched",
    "ALU_DEPENDENCY": "result of another instruction",
    "WAITCNT": "memory (s_waitcnt)",
    "INTERNAL_INSTRUCTION": "internal instruction",
    "BARRIER_WAIT": "barrier",
    "ARBITER_NOT_WIN": "another wave was chosen",
    "ARBITER_WIN_EX_STALL": "chosen, but its pipeline was busy",
    "OTHER_WAIT": "another wait",
    "SLEEP_WAIT": "sleep",
}
_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})", re.DOTALL)
_KEYS = ("pid", "frame", "name", "comment", "instruction", "issued", "reason")


@dataclass(slots=True)
class _Chains:
    """Stacks in the making: a frame below another is one row."""

    trace: DeviceTrace
    rows: list[tuple[int, int, int]]
    numbers: dict[tuple[int, int, int], int]

    def below(self, pid: int, parent: int, frame: int) -> int:
        key = (pid, parent, frame)
        number = self.numbers.setdefault(key, len(self.rows))
        if number == len(self.rows):
            self.rows.append(key)
        return number


def add_samples(trace: DeviceTrace, samples: pl.DataFrame, kernels: pl.DataFrame) -> None:
    """`samples`: SAMPLES; `kernels`: pid, dispatch, correlation and name of each dispatch. The trace has its calls."""
    if samples.is_empty():
        return
    chains, values = _Chains(trace, [], {}), []
    for pid, call, name, *place, count in _summed(trace, samples, kernels).rows():
        chain = -1
        for frame in (*(() if call is None else (call,)), *(trace.frames.number(one) for one in _frames(name, *place))):
            chain = chains.below(pid, chain, frame)
        values.append((pid, chain, 0, count))
    trace.chains = pl.DataFrame(chains.rows, schema=CHAINS, orient="row")
    trace.values = pl.DataFrame(values, schema=VALUES, orient="row")
    trace.value_kinds = [METRIC]


def _summed(trace: DeviceTrace, samples: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """The number of samples of each place: _KEYS and len, in the order of the samples."""
    named = kernels.drop_nulls("dispatch").unique(["pid", "dispatch"], keep="first").select("pid", "dispatch", "name")
    calls = trace.calls.filter(pl.col("correlation") > 0).unique(["pid", "correlation"], keep="first").select("pid", "correlation", "frame")
    rows = samples.join(named, on=["pid", "dispatch"], how="left", maintain_order="left")
    rows = rows.join(calls, on=["pid", "correlation"], how="left", maintain_order="left")
    return rows.group_by(_KEYS, maintain_order=True).len()


def _frames(name: str | None, comment: str | None, instruction: str | None, issued: int | None, reason: str | None) -> tuple[AnyFrame, ...]:
    kernel = NamedFrame(demangle(name.removesuffix(".kd")) if name else UNKNOWN_KERNEL, Kind.GPU_KERNEL)
    line = _LINE.fullmatch(comment or "")
    at = (NamedFrame(f"{_last(line['file'])}:{line['line']}", Kind.GPU_LINE, file=line["file"], line=int(line["line"])),) if line else ()
    doing = NamedFrame(instruction or NO_INSTRUCTION, Kind.GPU_INSTRUCTION)
    why = () if issued is None else (NamedFrame(ISSUED if issued else _words(reason or ""), Kind.GPU_STALL),)
    return (kernel, *at, doing, *why)


def _last(file: str) -> str:
    return file.rpartition("/")[2]


def _words(reason: str) -> str:
    own = reason.removeprefix(REASON)
    return _REASONS.get(own, own.lower().replace("_", " ") or "no reason given")
