"""The moment at which the bytes of memory count: the peak of the run, its end, a failed allocation, or the peak of a stretch of time.

A metric's name ends in the moment: `gpu-bytes@end`, `gpu-bytes@1.5..2s` (seconds from the start of the first process).
"""

from __future__ import annotations

import re
from decimal import Decimal

import polars as pl

from aiflame.attribute.memory.blocks import HOST, NEVER
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

PEAK, END, OUT_OF_MEMORY = "peak", "end", "oom"
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:\.\.(\d{1,9}(?:\.\d{1,9})?))?s", re.ASCII)
_LATEST = 10**18 - 1
"""The last moment that has nine digits of seconds."""
EXAMPLES = "peak, end, oom, 12.5s or 12.5..13s"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first moment of a stretch of time when the most bytes are live."""

    name: str = PEAK
    """PEAK, END, OUT_OF_MEMORY, or the stretch."""
    begin_ns: int = 0
    """From the start of the first process."""
    end_ns: int = NEVER

    @property
    def label(self) -> str:
        named = {PEAK: "at the peak", END: "at the end", OUT_OF_MEMORY: "when an allocation failed"}.get(self.name)
        begin, end = (f"{moment / 1e9:.3f}".rstrip("0").rstrip(".") for moment in (self.begin_ns, self.end_ns))
        return named or (f"at {begin} s" if self.begin_ns == self.end_ns else f"at the peak of {begin} to {end} s")

    @staticmethod
    def parse(text: str) -> Moment:
        if text in (PEAK, END, OUT_OF_MEMORY):
            return Moment(text)
        seconds = _SECONDS.fullmatch(text)
        if seconds is None:
            raise AiflameError(f"{text!r} is no moment: use {EXAMPLES}")
        begin, end = (int(Decimal(one) * 10**9) for one in (seconds[1], seconds[2] or seconds[1]))
        return Moment(text, begin, max(begin, end))


def stretch(begin_ns: int, end_ns: int) -> str:
    """The text of a stretch of time from one moment of the profile's clock to another, both from the start of the first process."""
    return f"{_seconds(begin_ns)}..{_seconds(end_ns)}s"


def _seconds(moment_ns: int) -> str:
    """As Moment.parse reads them: digits without an exponent, to the nanosecond."""
    whole, part = divmod(min(max(moment_ns, 0), _LATEST), 10**9)
    return f"{whole}.{part:09}".rstrip("0").rstrip(".")


def first_ns(profile: Tables) -> int:
    """The start of the first process, on the profile's clock."""
    return int(profile.scan("processes").select(pl.col("start_ns").min()).collect().item() or 0)


def windows(profile: Tables, moment: Moment, owners: pl.DataFrame) -> pl.DataFrame:
    """process, memory, from_ns, to_ns: where the moment of each process and memory (`owners`) is looked for."""
    if moment.name == OUT_OF_MEMORY:
        return _of_refusals(profile)
    if moment.name in (PEAK, END):
        begin, end = (0, NEVER - 1) if moment.name == PEAK else (NEVER - 1, NEVER - 1)
    else:
        first = first_ns(profile)
        begin, end = first + moment.begin_ns, first + moment.end_ns
    begin, end = min(begin, NEVER - 1), min(end, NEVER - 1)
    return owners.with_columns(from_ns=pl.lit(begin, pl.Int64), to_ns=pl.lit(end, pl.Int64))


def first_refusals(profile: Tables) -> pl.DataFrame:
    """The row of `memory_refusals` of each process and memory that says most: the one whose exception ended the program, else the first."""
    ended = (pl.col("memory") == HOST) & (pl.col("thread") == 0) & (pl.col("stack") > 0)  # by the exception's traceback
    return (
        profile.table("memory_refusals")
        .sort(~ended, "time_ns")
        .unique(["process", "memory"], keep="first")
        .sort("time_ns", "process", "memory")
    )


def _of_refusals(profile: Tables) -> pl.DataFrame:
    """The moment of that row."""
    rows = first_refusals(profile).with_columns(pl.col("time_ns").clip(0, NEVER - 1).cast(pl.Int64))
    if rows.is_empty():
        raise AiflameError("no allocation failed for lack of memory in this profile: use --at peak or --at end")
    return rows.select("process", "memory", from_ns="time_ns", to_ns="time_ns")
