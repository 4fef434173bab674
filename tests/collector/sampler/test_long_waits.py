"""Threads that stay in one wait get fewer wall-clock ticks; samples still give waiting and work the time that each took."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from live import Process, processes, recorded

from aiflame.profile.schema.enums import SampleState

RATE = 999


def wall_samples(program: str, folder: Path) -> tuple[Any, pl.DataFrame]:
    """The JSON that the program prints, and its samples of wall-clock time."""
    said, process = wall_recording(program, folder)
    return said, process.table("cpu_samples")


def wall_recording(program: str, folder: Path) -> tuple[Any, Process]:
    outcome = recorded([sys.executable, "-S", "-c", f"import json, threading, time\n{program}"], folder / "p", cpu_rate=0, wall_rate=RATE)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(folder / "p")
    return json.loads(outcome.stdout), process


def test_waiting_threads_get_few_ticks_that_stand_for_all_their_time(tmp_path: Path) -> None:
    program = """
threads = [threading.Thread(target=time.sleep, args=(3,)) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.process_time())
"""
    _, process = wall_recording(program, tmp_path)
    of_threads = process.table("cpu_samples").group_by("thread").agg(ticks=pl.len(), seconds=pl.col("weight").sum() / RATE)
    assert of_threads.height == 21
    lives = process.table("threads").join(process.table("thread_ends"), left_on="id", right_on="thread")
    life = dict(lives.select("id", (pl.col("end_ns") - pl.col("start_ns")) / 1e9).rows())
    for thread, seconds in of_threads.select("thread", "seconds").iter_rows():
        assert seconds == pytest.approx(life[thread], abs=0.2), "a thread sleeps for longer on a busy machine"
        assert seconds > 2.8
    assert of_threads["ticks"].max() < 1000  # 3,000 without


WORK_BETWEEN_WAITS = """
works = []
for _ in range({waits}):
    time.sleep({wait})
    begin, cpu = time.monotonic_ns(), time.thread_time_ns()
    for _ in range({rounds}): pass
    works.append((begin, time.monotonic_ns(), time.thread_time_ns() - cpu))
print(json.dumps(works))
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """A work that a tick interrupted, in periods."""

    worked: float
    """From its begin to that tick."""
    since_tick: float
    """From the tick before, in the wait, to that tick."""
    weight: int
    """Of that tick's sample."""
    preempted: float
    """Time for which the work had no CPU: when, nobody knows."""


def hits(works: list[tuple[int, int, int]], samples: pl.DataFrame) -> Iterator[Hit]:
    rows = samples.sort("id").select("time_ns", "weight", "state", "period_ns").rows()
    for begin, end, cpu in works:
        after = next((at for at, row in enumerate(rows) if row[0] > begin and row[2] != SampleState.WAITING), 0)
        time, weight, _, period = rows[after]
        if not begin < time < end or not after:
            continue
        shared = rows[after - 1][0] == time - weight * period  # the wait's share of this tick, a sample of its own
        before = rows[after - 1 - shared][0]
        yield Hit((time - begin) / period, (time - before) / period, weight, (end - begin - cpu) / period)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("waits", "wait", "rounds", "least"),
    [(12, 0.4, 1_500_000, 6), (80, 0.1, 100_000, 5)],
    ids=["longer than the distance of two ticks", "shorter"],
)
def test_the_first_tick_of_a_work_stands_for_what_ticks_miss_of_others(
    tmp_path: Path, waits: int, wait: float, rounds: int, least: int
) -> None:
    """Ticks that are n periods apart hit a work of d < n with a chance of d / n. Such a hit, u after the begin, must stand for n - u: the
    full rate counts the d - u that remain, and (n - u) + (d - u) is n on average, since u is d / 2. So all works together have their
    time."""
    works, samples = wall_samples(WORK_BETWEEN_WAITS.format(waits=waits, wait=wait, rounds=rounds), tmp_path)
    seen_hits = list(hits(works, samples))
    assert len(seen_hits) >= least
    for hit in seen_hits:
        assert hit.weight == pytest.approx(hit.since_tick - hit.worked, abs=1.5 + hit.preempted)

    took = (works[-1][1] - works[0][0]) / 1e9 + wait
    assert int(samples["weight"].sum()) / RATE == pytest.approx(took, rel=0.1)
