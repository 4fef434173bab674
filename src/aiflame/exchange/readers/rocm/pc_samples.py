"""Samples of program counters, which rocprofv3 takes with `--pc-sampling-method`: the place of a wave in a kernel, and by the stochastic
method whether it issued its instruction, or the reason why not.

Each becomes a sample of a stack: the call that launched the kernel with the calls and marked ranges around it, the kernel, the source line,
the instruction, the reason.
"""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.trace import CHAINS, I64, TEXT, VALUES, DeviceTrace
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.device.stall_reasons import short
from aiflame.resolve.names.readable import demangle
from aiflame.values import dataclass

SAMPLES = {
    **dict.fromkeys(("pid", "dispatch", "correlation"), I64),
    **dict.fromkeys(("instruction", "comment"), TEXT),
    "issued": I64,
    "reason": TEXT,
    **dict.fromkeys(("code_object", "offset"), I64),
}
"""`comment`: the source line, if the program has debug information. `issued`: 1 or 0; null: the method does not say. `code_object`: its
number, and `offset` from where it was loaded; null: the file does not have them."""
METRIC = ("gpu-samples", "samples")
ISSUED, NO_REASON = "[issued]", "none"
UNKNOWN_KERNEL, NO_INSTRUCTION = "[unknown kernel]", "[unknown instruction]"
_LINE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})", re.DOTALL)
_KEYS = ("pid", "correlation", "name", "comment", "instruction", "issued", "reason")


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
    summed = _summed(samples, kernels)
    callers = _callers(trace.calls, set(summed.select("pid", "correlation").rows()))
    chains, values = _Chains(trace, [], {}), []
    for pid, correlation, name, *place, count in summed.rows():
        tid, around = callers.get((pid, correlation), (-1, ()))
        chain = -1
        for frame in (*around, *(trace.frames.number(one) for one in _frames(name, *place))):
            chain = chains.below(pid, chain, frame)
        values.append((pid, chain, 0, count, tid))
    trace.chains = pl.DataFrame(chains.rows, schema=CHAINS, orient="row")
    trace.values = pl.DataFrame(values, schema=VALUES, orient="row")
    trace.value_kinds = [METRIC]


def _summed(samples: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """The number of samples of each place: _KEYS and len, in the order of the samples."""
    named = kernels.drop_nulls("dispatch").unique(["pid", "dispatch"], keep="first").select("pid", "dispatch", "name")
    return samples.join(named, on=["pid", "dispatch"], how="left", maintain_order="left").group_by(_KEYS, maintain_order=True).len()


def _callers(calls: pl.DataFrame, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, tuple[int, ...]]]:
    """The thread of each wanted call (process, correlation id), and the frames of the calls and marked ranges around it and its own,
    outermost first."""
    callers: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
    rows = calls.sort("pid", "tid", "begin", -pl.col("end"), maintain_order=True).select(
        "pid", "tid", "begin", "end", "frame", "correlation"
    )
    thread, around = (-1, -1), list[tuple[int, int]]()
    for pid, tid, begin, end, frame, correlation in rows.iter_rows():
        if (pid, tid) != thread:
            thread, around = (pid, tid), []
        while around and around[-1][0] <= begin:
            around.pop()
        around.append((begin if end is None else end, frame))
        if correlation and (pid, correlation) in wanted:
            callers.setdefault((pid, correlation), (tid, tuple(one for _, one in around)))
    return callers


def _frames(name: str | None, comment: str | None, instruction: str | None, issued: int | None, reason: str | None) -> tuple[AnyFrame, ...]:
    kernel = NamedFrame(demangle(name.removesuffix(".kd")) if name else UNKNOWN_KERNEL, Kind.GPU_KERNEL)
    line = _LINE.fullmatch(comment or "")
    at = (NamedFrame(f"{_last(line['file'])}:{line['line']}", Kind.GPU_LINE, file=line["file"], line=int(line["line"])),) if line else ()
    doing = NamedFrame(instruction or NO_INSTRUCTION, Kind.GPU_INSTRUCTION)
    why = () if issued is None else (NamedFrame(ISSUED if issued else short(reason or NO_REASON), Kind.GPU_STALL),)
    return (kernel, *at, doing, *why)


def _last(file: str) -> str:
    return file.rpartition("/")[2]
