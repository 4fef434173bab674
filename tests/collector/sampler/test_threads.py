"""Threads that come, go and are too many: each is sampled while it lives, and nothing of it stays in the kernel."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from live import processes, recorded

from built import built


@pytest.fixture(scope="module")
def scenes() -> Path:
    return built("programs/thread_scenes")


def test_children_forked_while_threads_start_can_start_threads(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "fork", "40"], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "ended 40\n"), outcome.stderr


def test_two_thousand_threads_at_once_have_a_timer_each_and_leave_none(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "many", "2000"], tmp_path / "p", cpu_rate=199)
    assert (outcome.status, outcome.stdout) == (0, "1 2000 0\n"), outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert len(process.table("threads")) == len(process.table("thread_ends")) == 2001


def test_adopted_threads_that_end_leave_no_timers(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "unseen", "20"], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "20 0\n"), outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert len(process.table("threads")) == len(process.table("thread_ends")) == 61


def test_a_thread_with_the_tid_of_an_adopted_one_that_ended_is_sampled(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "same-tid"], tmp_path / "p")
    assert outcome.status == 0, outcome.stderr
    process = processes(tmp_path / "p")[0]
    tid, seconds = outcome.stdout.split()
    of_tid = process.table("threads").with_row_index("row", 1).filter(pl.col("tid") == int(tid))
    assert len(of_tid) == 2
    ticks = process.table("cpu_samples").filter(pl.col("thread") == of_tid["row"][1])["weight"].sum()
    assert ticks == pytest.approx(float(seconds) * 999, rel=0.1)


def test_a_pause_takes_every_ones_ticks_until_it_ends(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "pause"], tmp_path / "p")
    assert outcome.status == 0, outcome.stderr
    running, paused, resumed, start, end = map(int, outcome.stdout.split())
    assert (running, paused, resumed) == (4, 0, 8)
    samples = processes(tmp_path / "p")[0].table("cpu_samples")
    assert samples.filter(pl.col("time_ns").is_between(start, end)).is_empty()
    assert samples.filter(pl.col("time_ns") < start)["weight"].sum() > 20 < samples.filter(pl.col("time_ns") > end)["weight"].sum()


def test_a_refused_timer_is_noted_once_and_requested_again(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([scenes, "limited"], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "0 5\n"), outcome.stderr
    notes = processes(tmp_path / "p")[0].table("notes")["text"].to_list()
    assert sum("limit of pending signals" in note for note in notes) == 1
