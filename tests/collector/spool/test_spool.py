"""The spool, written by a real program in every way that loses records elsewhere, and read back whole."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.control_schema import ControlState, StopReason
from built import BUILT

WRITERS = 64
HANDLER = WRITERS - 1

pytestmark = pytest.mark.skipif(
    not (BUILT / "spool_writer").exists(), reason="spool_writer is not built: run `make test`, or set AIFLAME_TEST_PROGRAMS"
)

in_rows = pytest.mark.parametrize("way", ["", "-in-rows"])


def recording(folder: Path, max_bytes: int = 0) -> Path:
    """An empty profile that is being recorded, by nobody."""
    path = folder / "a.aiflame"
    (path / "spool").mkdir(parents=True)
    ControlPage.create(Folder.open(path), max_bytes=max_bytes, recorder_pid=0).close()
    return path


def write(path: Path, *arguments: object, before: Callable[[], None] | None = None) -> list[int]:
    """Runs the writer to its end; how many records each of its writers finished."""
    command = [str(BUILT / "spool_writer"), str(path), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=before)
    return [int(line) for line in result.stdout.split()]


def check(path: Path, finished: list[int], uncounted: int = 0) -> pl.DataFrame:
    """All that was finished is there, once, with the right content; at most `uncounted` more of each writer."""
    profile = open_profile(path)
    assert [note for note in profile.notes() if "stopped early" not in note] == [
        "meta.json is missing or damaged: command, host and options are unknown"
    ]
    rows = profile.table("copies")
    number = pl.col("correlation")
    wrong = rows.filter(
        (pl.col("stream") != number * 3)
        | (pl.col("start_ns") != number * 5)
        | (pl.col("end_ns") != 2**62 - 1 - number // 4)
        | (pl.col("bytes") - number != pl.col("kind").cast(pl.UInt64) * 2**55)
    )
    assert wrong.is_empty()
    counts = dict(rows.group_by("kind").len().rows())
    for writer in range(WRITERS):
        assert finished[writer] <= counts.get(writer, 0) <= finished[writer] + uncounted, f"writer {writer}"
    return rows


def is_counting(rows: pl.DataFrame) -> bool:
    """Whether every writer's numbers are 0, 1, 2 …, each once."""
    per_writer = rows.group_by("kind").agg(n=pl.len(), distinct=pl.col("correlation").n_unique(), last=pl.col("correlation").max())
    return per_writer.filter((pl.col("n") != pl.col("distinct")) | (pl.col("last") + 1 != pl.col("n"))).is_empty()


def stop(path: Path) -> tuple[StopReason, int]:
    with ControlPage.open(Folder.open(path)) as page:
        assert page.max_bytes == 0 or page.used_bytes <= page.max_bytes
        return page.stop_reason, page.stop_errno


@in_rows
def test_millions_of_records_from_threads_and_a_signal_handler_are_all_there(tmp_path, way):
    path = recording(tmp_path)
    finished = write(path, f"crowd{way}", 8, 400_000)
    assert finished[:8] == [400_000] * 8
    assert finished[HANDLER] > 0
    assert is_counting(check(path, finished))


def test_a_new_table_never_gets_the_address_of_one_that_the_program_unmapped(tmp_path: Path) -> None:
    path = recording(tmp_path)
    assert is_counting(check(path, write(path, "unmapped")))
    profile = open_profile(path)
    assert profile.table("marks")["text"].to_list() == ["before", "after"]
    assert profile.table("threads")["tid"].to_list() == [7]


def test_written_chunks_leave_the_programs_memory(tmp_path: Path) -> None:
    path = recording(tmp_path)
    kilobytes, *finished = write(path, "resident", 3_000_000)
    assert finished[0] == 3_000_000  # 150 MB
    assert kilobytes < 40_000
    assert is_counting(check(path, finished))


@in_rows
@pytest.mark.parametrize("round_", range(10))
def test_a_sigkill_loses_no_finished_record(tmp_path, round_, way):
    path = recording(tmp_path)
    writer = subprocess.Popen([str(BUILT / "spool_writer"), str(path), f"crowd{way}", "4", "0"], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    victim = int(writer.stdout.readline())
    time.sleep(random.Random(round_).uniform(0.0, 0.1))
    os.kill(victim, signal.SIGKILL)
    finished = [int(line) for line in writer.stdout.read().split()]
    assert writer.wait() == 0
    assert is_counting(check(path, finished, uncounted=1))


@in_rows
def test_children_of_fork_have_their_own_tables_while_the_parent_writes_on(tmp_path, way):
    path = recording(tmp_path)
    finished = write(path, f"forks{way}", 40)
    assert finished[1:41] == [5000] * 40
    rows = check(path, finished)
    assert is_counting(rows)
    processes = open_profile(path).table("processes")
    assert processes.select("process", "pid", "forked").join(rows, on="process").group_by("forked").agg(pl.col("kind").n_unique()).sort(
        "forked"
    ).rows() == [(0, 2), (1, 40)]
    assert processes["command"].to_list() == [f"writer {pid}" for pid in processes["pid"]]
    assert len(open_profile(path).table("process_ends")) == 41


def test_two_processes_append_to_the_same_tables_without_loss(tmp_path):
    path = recording(tmp_path)
    finished = write(path, "sharers", 300_000)
    assert finished[:2] == [300_000] * 2
    assert is_counting(check(path, finished))


def test_two_programs_record_into_one_profile(tmp_path):
    path = recording(tmp_path)
    programs = [subprocess.Popen([str(BUILT / "spool_writer"), str(path), "crowd", "2", "50000"], stdout=subprocess.PIPE) for _ in range(2)]
    assert [program.communicate() and program.returncode for program in programs] == [0, 0]
    rows = open_profile(path).table("copies").filter(pl.col("kind") < 2)
    assert sorted(rows.group_by("process", "kind").len().rows()) == [(p, k, 50_000) for p in (0, 1) for k in (0, 1)]


def test_texts_of_every_length_come_back(tmp_path):
    path = recording(tmp_path)
    write(path, "texts")
    texts = open_profile(path).table("marks")["text"].to_list()
    assert texts[:41] == [chr(ord("a") + length % 26) * length for length in range(41)]
    assert texts[41:44] == ["nul\0inside", "not utf-8: \ufffd\ufffd", "€"]
    assert [len(text) for text in texts[44:49]] == [65519, 65528, 65536, 1 << 20, 1 << 20]
    assert texts[49:] == [f"text {number}" for number in range(20_000)]


def test_no_stack_is_lost_where_memory_is_short(tmp_path: Path) -> None:
    path = recording(tmp_path)
    write(path, "stacks", 10_000)
    assert sorted(open_profile(path).table("stacks")["frame"].to_list()) == list(range(1, 10_001))


@pytest.mark.parametrize(("texts", "kept"), [(3, 3), (64, 64), (100, 64)])
def test_each_note_is_recorded_once_per_recording_and_notes_are_limited(tmp_path: Path, texts: int, kept: int) -> None:
    path = recording(tmp_path)
    write(path, "notes", texts)
    rows = open_profile(path).table("notes")
    for process in (0, 1):
        assert rows.filter(process=process)["text"].to_list() == [f"note {number}" for number in range(kept)]


def test_optional_data_are_refused_near_the_size_limit_and_recording_goes_on(tmp_path: Path) -> None:
    path = recording(tmp_path, max_bytes=8_000_000)
    finished = write(path, "booked", 4_500_000)
    assert stop(path) == (StopReason.NONE, 0)
    assert check(path, finished).height == 1


def test_the_size_limit_stops_recording_and_not_the_program(tmp_path):
    path = recording(tmp_path, max_bytes=5_000_000)
    finished = write(path, "crowd", 4, 200_000)
    assert stop(path) == (StopReason.MAX_SIZE, 0)
    assert 0 < sum(finished) < 800_000
    check(path, finished)
    assert "recording stopped early: the size limit of 5 MB was reached (--max-size)" in open_profile(path).notes()


def test_a_full_disk_stops_recording_and_not_the_program(mounted):
    path = recording(mounted("tmpfs", "size=6M"))
    finished = write(path, "crowd", 4, 200_000)
    assert stop(path) == (StopReason.NO_SPACE, 28)
    assert 0 < sum(finished) < 800_000
    moved = mounted.target / "moved"  # sealing needs room that the full disk has not
    subprocess.run(["cp", "-r", str(path), str(moved)], check=True)
    check(moved, finished)


def test_a_file_size_limit_stops_recording_and_not_the_program(tmp_path):
    path = recording(tmp_path)
    finished = write(path, "crowd", 2, 200_000, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20)))
    assert stop(path) == (StopReason.IO_ERROR, 27)
    assert 0 < sum(finished) < 400_000
    check(path, finished)


def test_a_program_out_of_descriptors_is_recorded_again_when_it_has_some(tmp_path):
    path = recording(tmp_path)
    finished = write(path, "starved", 300_000)
    assert stop(path) == (StopReason.NONE, 0)
    assert 200_000 <= finished[0] < 300_000
    rows = check(path, finished)
    assert rows["correlation"].max() == 299_999


def test_a_file_system_that_cannot_reserve_blocks(mounted):
    path = recording(mounted("ramfs", "mode=755"))
    finished = write(path, "crowd", 8, 100_000)
    assert finished[:8] == [100_000] * 8
    assert is_counting(check(path, finished))


def test_a_file_system_in_memory_gives_up_reserving_at_every_signal_and_is_asked_again(mounted):
    path = recording(mounted("tmpfs", "size=400M"))
    finished = write(path, "crowd", 4, 500_000)
    assert stop(path) == (StopReason.NONE, 0)
    assert finished[:4] == [500_000] * 4
    assert is_counting(check(path, finished))


@pytest.mark.parametrize("content", [b"", bytes(100), bytes(4096)])
def test_a_damaged_control_page_is_refused(tmp_path, content):
    path = recording(tmp_path)
    (path / "control").write_bytes(content)
    command = [str(BUILT / "spool_writer"), str(path), "texts"]
    assert subprocess.run(command, check=False).returncode == 3


@in_rows
def test_nothing_is_written_once_recording_was_stopped(tmp_path, way):
    path = recording(tmp_path)
    with ControlPage.open(Folder.open(path)) as page:
        page.state = ControlState.STOPPED
    assert sum(write(path, f"crowd{way}", 2, 1000)) == 0


class _Mounted:
    """Mounts file systems for a test."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._mounts: list[Path] = []

    def __call__(self, kind: str, options: str) -> Path:
        mount = self.target / kind
        mount.mkdir()
        mounting = subprocess.run(["mount", "-t", kind, "-o", options, kind, str(mount)], capture_output=True, text=True, check=False)
        if mounting.returncode:
            pytest.skip(f"{kind} cannot be mounted here: {mounting.stderr.strip()}")
        self._mounts.append(mount)
        return mount

    def close(self) -> None:
        for mount in self._mounts:
            subprocess.run(["umount", str(mount)], check=True)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[_Mounted]:
    mounts = _Mounted(tmp_path)
    yield mounts
    mounts.close()
