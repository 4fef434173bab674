"""Threads that stay in one wait get fewer wall-clock ticks; samples still give waiting and work the time that each took."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from live import processes, recorded

from aiflame.profile.schema.enums import SampleState

pytestmark = pytest.mark.timed

RATE = 999


def wall_samples(program: str, folder: Path) -> tuple[Any, pl.DataFrame]:
    """The JSON that the program prints, and its samples of wall-clock time."""
    outcome = recorded([sys.executable, "-S", "-c", f"import json, threading, time\n{program}"], folder / "p", cpu_rate=0, wall_rate=RATE)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(folder / "p")
    return json.loads(outcome.stdout), process.table("cpu_samples")


def running(samples: pl.DataFrame) -> float:
    """Seconds in which threads did not wait."""
    return int(samples.filter(pl.col("state") != SampleState.WAITING)["weight"].sum()) / RATE


def test_waiting_threads_get_few_ticks_that_stand_for_all_their_time(tmp_path: Path) -> None:
    program = """
threads = [threading.Thread(target=time.sleep, args=(3,)) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.process_time())
"""
    _, samples = wall_samples(program, tmp_path)
    of_threads = samples.group_by("thread").agg(ticks=pl.len(), seconds=pl.col("weight").sum() / RATE)
    assert of_threads.height == 21
    assert of_threads["seconds"].min() > 2.8
    assert of_threads["seconds"].max() < 3.4
    assert of_threads["ticks"].max() < 1000  # 3,000 without


WORK_BETWEEN_WAITS = """
waits, wait, rounds = {}, {}, {}
worked = time.process_time()
for _ in range(waits):
    time.sleep(wait)
    begin = time.monotonic()
    for _ in range(rounds): pass
    worked += time.monotonic() - begin
print(worked)
"""


def test_work_after_each_long_wait_has_the_time_that_it_took(tmp_path: Path) -> None:
    worked, samples = wall_samples(WORK_BETWEEN_WAITS.format(12, 0.4, 1_500_000), tmp_path)
    # Each time about 16 of 50 milliseconds too many, if the first tick of the work stood for all periods since the one before.
    assert running(samples) == pytest.approx(worked, rel=0.15)
    assert int(samples["weight"].sum()) / RATE - running(samples) == pytest.approx(12 * 0.4, rel=0.05)


def test_short_work_between_long_waits_is_counted_on_average(tmp_path: Path) -> None:
    """Few ticks meet work that is shorter than the distance between two ticks; those that do stand for all of it."""
    worked, samples = wall_samples(WORK_BETWEEN_WAITS.format(80, 0.1, 100_000), tmp_path)
    assert running(samples) == pytest.approx(worked, rel=0.3)
