"""The flight recorder beside the real writer, whose clock the test moves: the ring stays within its bound, and has its window whole."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import polars as pl
import pytest

import aiflame
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Kept, Meta
from aiflame.recorder.ring.snapshot import snapshot
from aiflame.recorder.ring.trim import Trimmer
from built import BUILT

SECOND = 1_000_000_000
SAMPLE_BYTES = 40
LOOK_S = 30

pytestmark = pytest.mark.skipif(
    not (BUILT / "spool_writer").exists(), reason="spool_writer is not built: run `make test`, or set AIFLAME_TEST_PROGRAMS"
)


def disk_bytes(path: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def test_a_day_takes_the_disk_of_its_window(tmp_path: Path) -> None:
    hours, rate, threads, last = (int(text) for text in os.environ.get("AIFLAME_RING_DAY", "24,4,8,120").split(","))
    path = tmp_path / "ring.aiflame"
    ring = Folder.new(path)
    meta = Meta(started=Clocks.now(), options={"last_ms": last * 1000})
    meta.put(ring)
    ring.new_folder("spool")
    ControlPage.create(ring, recorder_pid=0).close()
    trimmer, most, now, mapped = Trimmer(ring), 0, 0, 0
    command = [str(BUILT / "spool_writer"), str(path), "ring", str(hours * 3600), str(rate), str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for look in range(hours * 3600 // LOOK_S):
            now, mapped = map(int, writer.stdout.readline().split())
            trimmer.trim(now - last * SECOND)
            most = max(most, disk_bytes(path))
            if look == hours * 3600 // LOOK_S - 1:
                kept = Kept("the test", now - last * SECOND, now)
                snapshot(ring, tmp_path / "kept.aiflame", kept, meta)
            writer.stdin.write("\n")
            writer.stdin.flush()
    window = rate * (threads - 1) * last
    # Beside the window there are rows since the last look, blocks with rows of the slow thread, and the chunk that is allocated ahead.
    assert most < window * SAMPLE_BYTES * (last + LOOK_S) / last + (1 << 20) + (16 << 20)
    assert mapped < 40 << 10
    rows = aiflame.open(tmp_path / "kept.aiflame").table("cpu_samples")
    assert rows.filter(pl.col("thread") < threads).height == window
    assert rows.filter(pl.col("thread") == threads).height == last // 60
    assert int(rows["time_ns"].min()) >= kept.begin_ns  # type: ignore[arg-type]
    if "AIFLAME_RING_DAY" in os.environ:
        print(f"{most=} {mapped=} kB, {resource.getrusage(resource.RUSAGE_SELF)=} {resource.getrusage(resource.RUSAGE_CHILDREN)=}")
