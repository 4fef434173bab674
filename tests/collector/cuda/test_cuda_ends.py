"""CUDA programs that end, fork, exec, or record themselves."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from cuda_scenes import SAMPLED_ONCE, Scene, inside, joined, needs_fakes, samples, started_by_itself
from live import Outcome, processes

from aiflame.profile.schema.control_schema import GpuSampling

pytestmark = needs_fakes


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO, 5])
def test_contexts_may_go_at_any_time(scene: Scene, sampling: int) -> None:
    assert len(joined(scene("contexts", gpu_sampling=sampling).process, "kernels")) == 50
    assert scene("unsynchronized", gpu_sampling=sampling).process.table("launches").height == 10
    assert len(joined(scene("threads", gpu_sampling=sampling).process, "kernels")) == 200


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_nothing_is_lost_when_a_program_leaves_at_once(scene: Scene, sampling: int) -> None:
    ended = scene("leave_at_once", gpu_sampling=sampling)
    assert ended.outcome.status == 3
    assert len(joined(ended.process, "kernels")) == 10


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_where_a_recording_is_full_cupti_is_switched_off(scene: Scene, sampling: int) -> None:
    full = scene("more_than_fits", gpu_sampling=sampling, max_bytes=400_000)  # ends when nothing is recorded any more
    assert full.outcome.status == 0
    assert full.process.table("launches").height >= 30


@pytest.mark.parametrize("way", ["_exit", "signal", "quick_exit", "exec", "failed exec", "exit"])
def test_a_program_ends_though_cupti_cannot(scene: Scene, way: str) -> None:
    ended = scene("leave_holding_a_lock", way)
    assert ended.outcome.status == 3
    assert len(joined(ended.processes[0], "kernels")) == 10, "records flushed before"
    assert not ended.processes[0].table("process_ends").is_empty()


def test_flushed_records_survive_a_kill(scene: Scene) -> None:
    killed = scene("killed")
    assert killed.outcome.status == -signal.SIGKILL
    assert len(joined(killed.process, "kernels")) == 10


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_a_program_may_end_while_threads_launch(scene: Scene, sampling: int) -> None:
    process = scene("busy", gpu_sampling=sampling).process
    kernels = process.table("kernels")
    without_launch = kernels.join(process.table("launches"), on="correlation", how="anti")
    assert kernels.height > 100
    assert without_launch.height <= 3, "each thread may be in the middle of its last launch"


@pytest.mark.parametrize("sampling", [GpuSampling.OFF, GpuSampling.AUTO])
def test_a_forked_child_records_none_of_its_parents_device_work(scene: Scene, sampling: int) -> None:
    forked = scene("forked", gpu_sampling=sampling)
    assert json.loads(forked.outcome.stdout) == 3, "CUDA does not work in such a child, with us or without"
    parent, child = sorted(forked.processes, key=lambda process: process.table("launches").height, reverse=True)
    assert len(joined(parent, "kernels")) == 40
    assert child.table("launches").is_empty()
    assert child.table("kernels").is_empty()


def test_a_forked_child_may_be_the_first_to_use_cuda(scene: Scene) -> None:
    forked = scene("forked_first")
    assert json.loads(forked.outcome.stdout) == 0
    assert sorted(len(joined(process, "kernels")) for process in forked.processes) == [0, 40]


def test_exec_after_cuda_begins_anew(scene: Scene) -> None:
    before, after = scene("execs").processes
    assert set(joined(before, "kernels")["name"]) == {"before"}
    assert Counter(joined(after, "kernels")["launched"]) == {"much": 30, "little": 10}


def test_recording_goes_on_after_an_exec_that_failed(scene: Scene) -> None:
    assert Counter(joined(scene("fails_to_exec").process, "kernels")["launched"]) == {"little": 10, "much": 30}


def test_a_child_process_is_recorded_beside_its_parent(scene: Scene) -> None:
    recorded_processes = scene("spawns").processes
    assert [Counter(joined(process, "kernels")["launched"]) for process in recorded_processes] == [{"much": 30, "little": 10}] * 2


def test_recording_from_inside_may_begin_and_end_again(tmp_path: Path) -> None:
    first, second = inside("from_inside", tmp_path / "first", tmp_path / "second")
    for process in (first, second):
        assert Counter(joined(process, "kernels")["launched"]) == {"much": 30}
    (period,) = set(first.table("gpu_windows")["period_log2"])
    assert samples(first).samples == 30 * 1_000_000 >> period, "of a context that was there before"
    assert first.table("gpu_functions")["name"].to_list() == ["spin"]
    assert first.table("notes").is_empty()
    assert second.table("gpu_windows").is_empty()
    assert second.table("notes")["text"].to_list() == [SAMPLED_ONCE]


def test_a_recording_from_inside_need_not_be_ended(tmp_path: Path) -> None:
    (process,) = inside("from_inside_without_end", tmp_path / "only")
    assert Counter(joined(process, "kernels")["launched"]) == {"much": 30}


def test_a_recording_from_inside_may_begin_before_cuda_does(tmp_path: Path) -> None:
    assert started_by_itself("from_inside_before_cuda", tmp_path / "profile") == Outcome(0, "", "")
    (process,) = processes(tmp_path / "profile")
    assert Counter(joined(process, "kernels")["launched"]) == {"much": 30, "little": 10}
