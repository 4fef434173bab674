"""Stall samples of Intel GPUs in a flight recorder: files of old ones are removed, and a kept window has its own alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from stalled_gpu import BASE, GPU, REASONS, Program, recording, stretch

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import SUFFIX, Header, Part, pack_block, pack_header, part_name, parts
from aiflame.profile.folder.meta import Clocks, Kept, Meta
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.opening import open_profile
from aiflame.profile.sealing.seal import seal
from aiflame.recorder.ring.snapshot import snapshot
from aiflame.recorder.ring.trim import Trimmer

MS, SECOND = 1_000_000, 1_000_000_000
STREAM = "0000-03-00.0-0"


@pytest.fixture
def ring(tmp_path: Path) -> Folder:
    """A file for each of ten seconds, each with two blocks of half a second: that of second N has N samples in each."""
    program = Program()
    program.load({"matmul": (BASE, 0x740)}, 10)
    ring = Folder.open(recording(tmp_path / "ring", [program], []))
    telemetry = ring.folder(FOLDER)
    telemetry.remove(f"{STREAM}{SUFFIX}")
    for second in range(1, 11):
        halves = [stretch(begin, begin + 500, {(BASE + 8, "eustall_sbid"): second}) for begin in (1000 * second, 1000 * second + 500)]
        content = pack_header(Header(GPU, 0, 1757, 32, REASONS)) + b"".join(map(pack_block, halves))
        telemetry.put(part_name(STREAM, second * SECOND), content)
    telemetry.put(f"{STREAM}.eustalls-unknown", b"{}\n")
    return ring


def test_parts_of_two_streams() -> None:
    names = ["b@5.eustalls", "a@30.eustalls", "a@4.eustalls", "a.eustalls", "00-gpu.records", "a@x.eustalls", "a@4.eustalls-unknown"]
    assert parts(names) == [Part("a@4.eustalls", "a", 4, 30), Part("a@30.eustalls", "a", 30, None), Part("b@5.eustalls", "b", 5, None)]


def test_files_that_ended_before_the_horizon_go(ring: Folder) -> None:
    before = ring.folder(FOLDER).size()
    freed = Trimmer(ring).trim(4 * SECOND + 1)
    names = ring.folder(FOLDER).names()
    assert [one.begin_ns // SECOND for one in parts(names)] == list(range(4, 11))
    assert f"{STREAM}.eustalls-unknown" in names
    assert before - ring.folder(FOLDER).size() == freed > 0
    Trimmer(ring).trim(1000 * SECOND)
    assert [one.begin_ns // SECOND for one in parts(ring.folder(FOLDER).names())] == [10], "the newest grows"


def test_a_kept_window_has_the_samples_of_its_time(ring: Folder, tmp_path: Path) -> None:
    """From the middle of second 3 to the first half of second 5."""
    kept = Kept("step 4 took 5 s", 3600 * MS, 5200 * MS)
    window = snapshot(ring, tmp_path / "kept", kept, Meta(started=Clocks(0, 0, 0), options={"last_ms": 2000}))
    assert [one.begin_ns // SECOND for one in parts(window.folder(FOLDER).names())] == [3, 4, 5]
    seal(window)
    profile = open_profile(window.path)
    assert profile.table("gpu_samples")["count"].sum() == 3 + 4 + 4 + 5
    assert (profile.table("gpu_windows")["end_ns"].min(), profile.table("gpu_windows")["begin_ns"].max()) == (4 * SECOND, 5 * SECOND)


def test_samples_of_all_files_of_a_stream_are_joined(ring: Folder) -> None:
    seal(ring)
    assert open_profile(ring.path).table("gpu_samples")["count"].sum() == 2 * sum(range(1, 11))
