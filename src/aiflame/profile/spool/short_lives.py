"""Samples of processes that ended before their first tick.

The kernel checks timers of CPU clocks when it interrupts a processor, say every 4 ms. A shorter process may get none of its ticks, and a
script that starts thousands of them would have no samples. The collector records the CPU time of each, so they get the ticks that they
would have had on average: one each time that their CPU times, added up in the order of their start, pass another period. (Threads of longer
processes do the same for themselves: native/sampler/timers.)
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.frame_packing import mark_word
from aiflame.profile.spool.lives import Lives
from aiflame.profile.spool.process_spool import empty_frame

ENDED_BEFORE_A_TICK = "[ended before a tick]"
"""The only frame of such a sample."""
_LATEST_NS = 400_000_000
"""A process that used more CPU time than this, and has no sample, must lack it for another reason: ticks of a busy kernel are up to 0.2 s
late."""
_MOST = 0xFFFF


def with_ticks(lives: Lives, cpu_rate: int) -> Lives:
    """Adds these samples, if the CPU clock is sampled."""
    ends, process = lives.rows["process_ends"], lives.process["process_ends"]
    if not cpu_rate or ends.is_empty():
        return lives
    period = 1_000_000_000 // cpu_rate
    used = ends["cpu_ns"].to_numpy().astype(np.int64)
    weight = _ticks(np.where(used <= _LATEST_NS, used, 0), period)
    chosen = np.flatnonzero(weight)
    word = mark_word(1)
    sample = ends[chosen].select(
        "id",
        thread=pl.lit(1),
        stack=pl.lit(1),
        weight=pl.Series(weight[chosen]),
        time_ns="end_ns",
        period_ns=pl.lit(period),
    )
    rows = {
        "marks": ends[chosen].select("id", text=pl.lit(ENDED_BEFORE_A_TICK)),
        "stacks": ends[chosen].select("id", parent=pl.lit(0), frame=pl.lit(word, pl.UInt64)),
        "cpu_samples": sample,
    }
    frames = {name: pl.concat([empty_frame(TABLE[name]), _complete(name, frame)]) for name, frame in rows.items()}
    places = dict.fromkeys(rows, process[chosen])
    return Lives({**lives.rows, **frames}, {**lives.process, **places}, lives.bytes, lives.damage)


def _ticks(used_ns: NDArray[np.int64], period_ns: int) -> NDArray[np.int64]:
    passed = (np.cumsum(used_ns) + period_ns // 2) // period_ns
    return np.minimum(np.diff(passed, prepend=0), _MOST)


def _complete(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of the table, in the table's order and types; missing columns are 0."""
    like = empty_frame(TABLE[table])
    return (
        frame.with_columns(pl.lit(0).alias(name) for name in like.columns if name not in frame.columns)
        .select(like.columns)
        .cast(like.schema)
    )
